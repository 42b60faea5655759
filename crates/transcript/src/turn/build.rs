//! From rows in order to turns.
//!
//! A [`Builder`] goes through the rows of a path or of a chain. It is used for all chains of a table one after the other, the live ones
//! first, so that it can see to it that an answer that stands in two of them counts once.

use super::{BREAK, Outcome, Pairs, Round, Step, Turn};
use crate::content::BlockKind;
use crate::entry::Kind;
use crate::input::Input;
use crate::table::{AnswerId, BlockId, RowId, Table};
use crate::time::Time;

/// Makes turns of rows.
#[derive(Debug)]
pub struct Builder<'a> {
    table: &'a Table,
    pairs: &'a Pairs,
    /// Which answers were counted.
    counted: Vec<bool>,
    /// Where each answer was put by the run of this number: turn and step.
    placed: Vec<(u32, usize, usize)>,
    runs: u32,
}

/// One run: a path or a chain.
struct Run {
    turns: Vec<Turn>,
    /// What stands in front of the next opening.
    ahead: Vec<RowId>,
    /// A compaction is in front of it.
    is_cut: bool,
    /// Nothing was asked before.
    is_first: bool,
    /// The turn that runs takes more.
    is_running: bool,
    last_time: Option<Time>,
}

impl<'a> Builder<'a> {
    /// For the rows of a table.
    pub fn new(table: &'a Table, pairs: &'a Pairs) -> Self {
        let answers = table.answers().len();
        Builder {
            table,
            pairs,
            counted: vec![false; answers],
            placed: vec![(0, 0, 0); answers],
            runs: 0,
        }
    }

    /// The turns in these rows, which go on from another, if they are not the beginning.
    pub fn turns(
        &mut self,
        after: Option<RowId>,
        rows: impl IntoIterator<Item = RowId>,
    ) -> Vec<Turn> {
        self.runs += 1;
        let mut run = Run {
            turns: Vec::new(),
            ahead: Vec::new(),
            is_cut: false,
            is_running: false,
            is_first: after.is_none(),
            last_time: after.and_then(|row| self.table.row(row).time),
        };
        for id in rows {
            self.row(&mut run, id);
        }
        // What nobody came for goes with the last turn, unless that is over or there is none; then it is one, if it says anything.
        let says = run.ahead.iter().any(|row| self.table.row(*row).input.is_some());
        if says && (run.turns.is_empty() || run.is_cut) {
            self.open(&mut run, None);
        }
        self.take_ahead(&mut run);
        for turn in &mut run.turns {
            turn.outcome = self.outcome(turn);
        }
        run.turns
    }

    fn row(&mut self, run: &mut Run, id: RowId) {
        let row = self.table.row(id);
        match (row.kind, row.input) {
            (Kind::User, _) if row.is_repeat => {
                // The same again, unless something is new in it.
                let mut parts = self.table.parts_of(id).map(|block| self.table.part(block));
                let fresh = parts.any(|part| !part.is_repeat);
                if fresh && row.input == Some(Input::ToolResult) {
                    self.results(run, id);
                } else if fresh {
                    self.within(run, id, Some(Step::Said(id)));
                }
            }
            (Kind::Attachment, Some(_)) => self.within(run, id, Some(Step::Said(id))),
            (_, Some(input)) if input.opens() => {
                self.open(run, Some(id));
                self.take_ahead(run);
                self.within(run, id, Some(Step::Said(id)));
            }
            (_, Some(Input::ToolResult)) => self.results(run, id),
            (_, Some(Input::Preface)) => run.ahead.push(id),
            (_, Some(Input::Summary)) => cut(run, id),
            // What a hook or the client says belongs to the turn that runs, or to the next.
            (_, Some(Input::Meta | Input::Hook)) if !run.is_running => run.ahead.push(id),
            (_, Some(_)) => self.within(run, id, Some(Step::Said(id))),
            (Kind::Assistant, None) => self.answer(run, id),
            (Kind::System, None) => self.system(run, id),
            (Kind::Attachment | Kind::Other, None) if row.uuid.is_some() => {
                self.within(run, id, Some(Step::Event(id)));
            }
            (Kind::QueueOperation, None) if self.table.unsaid.binary_search(&id).is_ok() => {
                self.within(run, id, Some(Step::Said(id)));
            }
            // Progress, titles, snapshots: part of no turn, but they must not stand outside of one.
            _ if run.is_running && row.uuid.is_some() => self.within(run, id, None),
            _ => {}
        }
        if row.uuid.is_some() || row.input.is_some() || row.answer.is_some() {
            run.last_time = row.time.or(run.last_time);
        }
    }

    /// Begins a turn, with what opens it, if anything does.
    fn open(&self, run: &mut Run, with: Option<RowId>) {
        let summed_up =
            || run.ahead.iter().any(|row| self.table.row(*row).input == Some(Input::Summary));
        let input = match with {
            Some(row) => self.table.row(row).input,
            None => summed_up().then_some(Input::Summary),
        };
        let time = with.and_then(|row| self.table.row(row).time);
        let silence = time.zip(run.last_time).map_or(0, |(now, last)| now.0 - last.0);
        let round = match input {
            None | Some(Input::Summary) => Round::Continue,
            Some(_) if run.is_first => Round::NewSession,
            Some(_) if silence > BREAK => Round::Resume,
            Some(_) => Round::NewRound,
        };
        run.turns.push(Turn {
            input,
            round,
            steps: Vec::new(),
            outcome: Outcome::Unanswered,
            rows: [RowId(u32::MAX), RowId(0)],
            times: None,
            measured: None,
            is_cut: false,
        });
        run.is_running = true;
        run.is_cut = false;
        run.is_first = false;
    }

    fn take_ahead(&self, run: &mut Run) {
        for id in std::mem::take(&mut run.ahead) {
            let said = self.table.row(id).input.is_some();
            let Some(turn) = run.turns.last_mut() else { return };
            turn.steps.push(if said { Step::Said(id) } else { Step::Event(id) });
            // What stands in front may be much older: the turn begins with its opening.
            turn.rows = [turn.rows[0].min(id), turn.rows[1].max(id)];
        }
    }

    /// Puts a row into the turn that runs; one begins if none does. What only notes something waits for the next.
    fn within(&self, run: &mut Run, id: RowId, step: Option<Step>) {
        if !run.is_running {
            if matches!(step, None | Some(Step::Event(_))) {
                run.ahead.push(id);
                return;
            }
            self.open(run, None);
            self.take_ahead(run);
        }
        if let Some(turn) = run.turns.last_mut() {
            turn.steps.extend(step);
            touch(turn, id, self.table);
        }
    }

    fn results(&self, run: &mut Run, id: RowId) {
        if !run.is_running {
            self.open(run, None);
            self.take_ahead(run);
        }
        self.within(run, id, None);
        let Some(turn) = run.turns.last_mut() else { return };
        let mut beside = false;
        for block in self.table.parts_of(id) {
            let part = self.table.part(block);
            if !part.kind.is_result() {
                beside |= !part.is_repeat;
            } else if self.pairs.of(block).is_none() && !part.is_repeat {
                turn.steps.push(Step::Orphan(block));
            }
        }
        if beside {
            turn.steps.push(Step::Said(id));
        }
    }

    fn answer(&mut self, run: &mut Run, id: RowId) {
        let Some(answer) = self.table.row(id).answer else { return };
        let table = self.table;
        let fresh = table.parts_of(id).filter(|block| !table.part(*block).is_repeat);
        let (of_run, turn, step) = self.placed[answer.0 as usize];
        if of_run == self.runs
            && let Some(Step::Answer { blocks, .. }) =
                run.turns.get_mut(turn).and_then(|turn| turn.steps.get_mut(step))
        {
            blocks.extend(fresh);
            touch(&mut run.turns[turn], id, self.table);
            return;
        }
        let counts = !std::mem::replace(&mut self.counted[answer.0 as usize], true);
        let blocks = fresh.collect();
        self.within(run, id, Some(Step::Answer { id: answer, blocks, counts }));
        if let Some(turn) = run.turns.last() {
            self.placed[answer.0 as usize] = (self.runs, run.turns.len() - 1, turn.steps.len() - 1);
        }
    }

    fn system(&self, run: &mut Run, id: RowId) {
        let find = |list: &[(RowId, u64)]| {
            list.binary_search_by_key(&id, |(row, _)| *row).ok().map(|at| list[at].1)
        };
        let is_boundary = self.table.boundary(id).is_some();
        if is_boundary {
            cut(run, id);
        } else if let Some(taken) = find(&self.table.durations) {
            self.within(run, id, None);
            if let Some(turn) = run.turns.last_mut() {
                turn.measured = Some(turn.measured.unwrap_or(0).max(taken));
            }
        } else {
            self.within(run, id, Some(Step::Event(id)));
        }
    }

    fn outcome(&self, turn: &Turn) -> Outcome {
        let mut last_answer = None;
        let mut end = None;
        for step in &turn.steps {
            match step {
                Step::Said(row) => end = self.table.row(*row).input,
                Step::Answer { id, .. } => {
                    end = None;
                    last_answer = Some(*id);
                }
                Step::Orphan(_) | Step::Event(_) => {}
            }
        }
        if end == Some(Input::Interrupt) {
            return Outcome::Interrupted;
        }
        let Some(last) = last_answer else {
            let local = matches!(
                turn.input,
                None | Some(Input::Command | Input::Shell | Input::Memory | Input::Summary)
            );
            return if local { Outcome::Local } else { Outcome::Unanswered };
        };
        if self.table.answer(last).is_error {
            return Outcome::Failed;
        }
        if self.waits(turn, last) {
            return if turn.is_cut { Outcome::Compacted } else { Outcome::Open };
        }
        Outcome::Answered
    }

    /// Whether something has to come after the last answer: the result of a call, or the answer to results.
    fn waits(&self, turn: &Turn, last: AnswerId) -> bool {
        let of_last = |step: &&Step| matches!(step, Step::Answer { id, .. } if *id == last);
        let Some(Step::Answer { blocks, .. }) = turn.steps.iter().rfind(of_last) else {
            return false;
        };
        let row = |block: &BlockId| self.table.part(*block).row;
        let calls = || blocks.iter().filter(|block| self.table.part(**block).kind.is_call());
        let results = || calls().filter_map(|call| self.pairs.of(*call));
        let settles = |result: BlockId| {
            let part = self.table.part(result);
            // The API goes on by itself after its own tools.
            part.kind == BlockKind::ServerToolResult || self.table.row(part.row).ends_turn
        };
        // In dialects without ids all answers of a turn are one: what stands behind the last result is the last word.
        let last_call = calls().map(row).max();
        let last_result = results().map(|result| row(&result)).max();
        let last_word = blocks.iter().map(row).max();
        let goes_on = last_word > last_result && last_word > last_call;
        last_call.is_some() && !goes_on && !results().any(settles)
    }
}

/// Ends the turn that runs at a compaction.
fn cut(run: &mut Run, id: RowId) {
    if run.is_running
        && let Some(turn) = run.turns.last_mut()
    {
        turn.is_cut = true;
    }
    run.is_cut = true;
    run.is_running = false;
    run.ahead.push(id);
}

/// Notes that a row is in a turn.
fn touch(turn: &mut Turn, id: RowId, table: &Table) {
    turn.rows = [turn.rows[0].min(id), turn.rows[1].max(id)];
    if let Some(time) = table.row(id).time {
        let [first, last] = turn.times.unwrap_or([time, time]);
        turn.times = Some([first.min(time), last.max(time)]);
    }
}
