//! Divides rows in order into turns.
//!
//! A [`Builder`] reads the rows of a path or of a chain. One builder is used for all chains of a
//! table, the live ones first, so that an answer that is in two of them counts once.

use std::collections::{HashMap, HashSet};

use super::{BREAK, Outcome, Pairs, Round, Step, Turn};
use crate::conversation::table::{AnswerId, BlockId, RowId, Table};
use crate::format::content::BlockKind;
use crate::format::entry::Kind;
use crate::format::input::Input;
use crate::format::time::Time;

/// Divides rows into turns.
#[derive(Debug)]
pub struct Builder<'a> {
    table: &'a Table,
    pairs: &'a Pairs,
    /// The answers that were counted already.
    counted: HashSet<AnswerId>,
    /// Where each answer of this run is: turn and step.
    placed: HashMap<AnswerId, (usize, usize)>,
}

/// One run: a path or a chain.
struct Run {
    turns: Vec<Turn>,
    /// The rows before the next opening.
    ahead: Vec<RowId>,
    /// A compaction is among them.
    is_cut: bool,
    /// No turn was opened before.
    is_first: bool,
    /// The current turn is still open for more rows.
    is_running: bool,
    last_time: Option<Time>,
}

impl<'a> Builder<'a> {
    /// Creates a builder for the rows of a table.
    pub fn new(table: &'a Table, pairs: &'a Pairs) -> Self {
        Builder { table, pairs, counted: HashSet::new(), placed: HashMap::new() }
    }

    /// The turns in these rows. `after` is the row that they continue from, if they are not the
    /// beginning.
    pub fn turns(
        &mut self,
        after: Option<RowId>,
        rows: impl IntoIterator<Item = RowId>,
    ) -> Vec<Turn> {
        self.placed = HashMap::new();
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
        // Rows that no opening followed belong to the last turn. If that has ended, or there is
        // none, they form a turn of their own, if they say anything.
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
                // The same again, unless something in it is new.
                let mut parts = self.table.blocks_of(id).map(|block| self.table.block(block));
                let fresh = parts.any(|part| !part.is_repeat);
                if fresh && row.input == Some(Input::ToolResult) {
                    self.results(run, id);
                } else if fresh {
                    self.within(run, id, Some(Step::Said(id)));
                }
            }
            (Kind::Attachment, Some(_)) => self.within(run, id, Some(Step::Said(id))),
            (_, Some(input)) if input.opens() && self.is_same_prompt(run, id) => {
                self.within(run, id, Some(Step::Said(id)));
            }
            (_, Some(input)) if input.opens() => {
                self.open(run, Some(id));
                self.take_ahead(run);
                self.within(run, id, Some(Step::Said(id)));
            }
            (_, Some(Input::ToolResult)) => self.results(run, id),
            (_, Some(Input::Preface)) => run.ahead.push(id),
            (_, Some(Input::Summary)) => cut(run, id),
            // What a hook or the client says belongs to the running turn, or else to the next one.
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
            // Progress, titles, snapshots: not a step of any turn, but inside the row range of the
            // running one.
            _ if run.is_running && row.uuid.is_some() => self.within(run, id, None),
            _ => {}
        }
        if self.is_doing(id) {
            run.last_time = row.time.or(run.last_time);
        }
    }

    /// Whether a person or the model acted here: not hooks, notes of the client, what comes ahead
    /// of a prompt, or a filler.
    fn is_doing(&self, id: RowId) -> bool {
        let row = self.table.row(id);
        match (row.kind, row.input) {
            (_, Some(input)) => {
                !matches!(input, Input::Preface | Input::Meta | Input::Hook | Input::Summary)
            }
            (Kind::Assistant, None) => {
                !row.answer.is_some_and(|answer| self.table.is_filler(answer))
            }
            _ => false,
        }
    }

    /// Whether a record continues the prompt before it: old clients wrote one prompt as several
    /// records with the same time.
    fn is_same_prompt(&self, run: &Run, id: RowId) -> bool {
        let Some(turn) = run.turns.last().filter(|_| run.is_running && run.ahead.is_empty()) else {
            return false;
        };
        let Some(Step::Said(before)) = turn.steps.last() else { return false };
        let (one, other) = (self.table.row(*before), self.table.row(id));
        let is_prompt = |input: Option<Input>| {
            matches!(input, Some(Input::Plain | Input::IdeSelection | Input::IdeOpenedFile))
        };
        is_prompt(one.input)
            && is_prompt(other.input)
            && one.time.is_some()
            && one.time == other.time
    }

    /// Begins a turn, with the row that opens it, if there is one.
    fn open(&self, run: &mut Run, with: Option<RowId>) {
        let summed_up =
            || run.ahead.iter().any(|row| self.table.row(*row).input == Some(Input::Summary));
        let input = match with {
            Some(row) => self.table.row(row).input,
            None => summed_up().then_some(Input::Summary),
        };
        let time = with.and_then(|row| self.table.row(row).time);
        let silence = time.zip(run.last_time).map_or(0, |(now, last)| now.0.saturating_sub(last.0));
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
            let is_input = self.table.row(id).input.is_some();
            let Some(turn) = run.turns.last_mut() else { return };
            turn.steps.push(if is_input { Step::Said(id) } else { Step::Event(id) });
            // These rows may be much older, so they do not count for the time of the turn.
            turn.rows = [turn.rows[0].min(id), turn.rows[1].max(id)];
        }
    }

    /// Adds a row to the running turn, and begins a turn if none is running. Rows that only note
    /// something wait for the next turn instead.
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
            self.touch(turn, id);
        }
    }

    /// Extends the range and the times of a turn to a row.
    fn touch(&self, turn: &mut Turn, id: RowId) {
        turn.rows = [turn.rows[0].min(id), turn.rows[1].max(id)];
        if let Some(time) = self.table.row(id).time.filter(|_| self.is_doing(id)) {
            let [first, last] = turn.times.unwrap_or([time, time]);
            turn.times = Some([first.min(time), last.max(time)]);
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
        for block in self.table.blocks_of(id) {
            let part = self.table.block(block);
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
        let fresh = table.blocks_of(id).filter(|block| !table.block(*block).is_repeat);
        if let Some((turn, step)) = self.placed.get(&answer).copied()
            && let Some(Step::Answer { blocks, .. }) =
                run.turns.get_mut(turn).and_then(|turn| turn.steps.get_mut(step))
        {
            blocks.extend(fresh);
            self.touch(&mut run.turns[turn], id);
            return;
        }
        let counts = self.counted.insert(answer);
        let blocks = fresh.collect();
        self.within(run, id, Some(Step::Answer { id: answer, blocks, counts }));
        if let Some(turn) = run.turns.last() {
            self.placed.insert(answer, (run.turns.len() - 1, turn.steps.len() - 1));
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
        let (mut last_answer, mut is_stopped) = (None, false);
        let (mut is_printed, mut is_expanded, mut is_orphan) = (false, false, false);
        for step in &turn.steps {
            match step {
                Step::Said(row) => match self.table.row(*row).input {
                    Some(Input::Interrupt) => is_stopped = true,
                    Some(Input::Output) => is_printed = true,
                    Some(Input::Meta) => is_expanded = true,
                    _ => {}
                },
                Step::Answer { id, .. } if !self.table.is_filler(*id) => {
                    is_stopped = false;
                    last_answer = Some(*id);
                }
                Step::Orphan(_) => is_orphan = true,
                Step::Answer { .. } | Step::Event(_) => {}
            }
        }
        if is_stopped {
            return Outcome::Interrupted;
        }
        let Some(last) = last_answer else {
            return match turn.input {
                None if is_orphan => Outcome::Open,
                // A custom command of the user is text for the model.
                Some(Input::Command) if is_expanded && !is_printed => Outcome::Unanswered,
                None | Some(Input::Command | Input::Shell | Input::Memory | Input::Summary) => {
                    Outcome::Local
                }
                Some(_) => Outcome::Unanswered,
            };
        };
        if self.table.answer(last).is_error {
            return Outcome::Failed;
        }
        if self.waits(turn, last) {
            return if turn.is_cut { Outcome::Compacted } else { Outcome::Open };
        }
        Outcome::Answered
    }

    /// Whether something must follow the last answer: the result of a call, or the answer to
    /// results.
    fn waits(&self, turn: &Turn, last: AnswerId) -> bool {
        let of_last = |step: &&Step| matches!(step, Step::Answer { id, .. } if *id == last);
        let Some(Step::Answer { blocks, .. }) = turn.steps.iter().rfind(of_last) else {
            return false;
        };
        let row = |block: &BlockId| self.table.block(*block).row;
        let calls = || blocks.iter().filter(|block| self.table.block(**block).kind.is_call());
        let results = || calls().filter_map(|call| self.pairs.of(*call));
        let ends_call = |result: BlockId| {
            let part = self.table.block(result);
            // The API continues by itself after its own tools.
            part.kind == BlockKind::ServerToolResult || self.table.row(part.row).ends_turn
        };
        // In dialects without ids, all answers of a turn are one: a block after the last result
        // ends it.
        let last_call = calls().map(row).max();
        let last_result = results().map(|result| row(&result)).max();
        let last_word = blocks.iter().map(row).max();
        let goes_on = last_word > last_result && last_word > last_call;
        let is_open = calls().any(|call| self.pairs.of(*call).is_none());
        is_open || (last_call.is_some() && !goes_on && !results().all(ends_call))
    }
}

/// Ends the running turn at a compaction.
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
