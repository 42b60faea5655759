//! Which records belong to which turn of a path.
//!
//! Turns are numbered as everywhere (`conversation::turn`). A record beside the path belongs to the
//! turn that it hangs on, unless it begins a turn of its own. Invariants: a record is in at most
//! one turn; what a compaction says, and what the client notes ahead of the conversation, is fixed:
//! it is about more than the turn that it precedes.

use super::fork::{ForkError, end_below, main_record};
use crate::conversation::Conversation;
use crate::conversation::table::{RowId, Table};
use crate::conversation::turn::{Builder, Step, Turn};
use crate::format::entry::Kind;
use crate::format::input::Input;

/// The turns of a path, with their records.
pub(super) struct Spans {
    /// The records of the path, in order.
    pub(super) order: Vec<RowId>,
    pub(super) turns: Vec<Turn>,
    /// Where each turn begins on the path.
    starts: Vec<usize>,
    /// The index of each record of the table on the path.
    places: Vec<Option<usize>>,
    /// The turn of each record of the table, counted from 0.
    owners: Vec<Option<usize>>,
}

impl Spans {
    /// The turns of the live conversation.
    pub(super) fn live(conversation: &Conversation) -> Spans {
        let order = conversation.rows(&conversation.live()).collect();
        Spans::new(conversation, None, order)
    }

    /// The turns of the branch with that record, from where it parts from the live conversation.
    /// `None` if the record is on the live conversation.
    pub(super) fn branch(
        conversation: &Conversation,
        name: &str,
    ) -> Result<Option<Spans>, ForkError> {
        let record = main_record(conversation, name)?;
        let live = conversation.live();
        if live.contains(&conversation.graph.chain_of(record)) {
            return Ok(None);
        }
        let end = end_below(conversation, record);
        let mut path = conversation.graph.path(conversation.graph.chain_of(end));
        path.retain(|chain| !live.contains(chain));
        let after = path.first().and_then(|chain| conversation.graph.chain(*chain).start.after());
        let order = conversation.rows(&path).collect();
        Ok(Some(Spans::new(conversation, after, order)))
    }

    fn new(conversation: &Conversation, after: Option<RowId>, order: Vec<RowId>) -> Spans {
        let table = &conversation.table;
        let turns = Builder::new(table, &conversation.pairs).turns(after, order.iter().copied());
        let mut places = vec![None; table.rows().len()];
        for (place, row) in order.iter().enumerate() {
            places[row.index()] = Some(place);
        }
        let starts = starts(table, &turns, &places, order.len());
        let mut owners = vec![None; table.rows().len()];
        for (turn, start) in starts.iter().enumerate() {
            let end = starts.get(turn + 1).copied().unwrap_or(order.len());
            for row in &order[*start..end] {
                owners[row.index()] = Some(turn);
            }
        }
        // Beside the path: what hangs on it, up to the next opening.
        for row in conversation.graph.order() {
            let known = table.row(*row);
            if places[row.index()].is_some() || known.opens() || known.is_sidechain {
                continue;
            }
            let parent = conversation.graph.link(*row).parent();
            owners[row.index()] = parent.and_then(|parent| owners[parent.index()]);
        }
        let mut spans = Spans { order, turns, starts, places, owners };
        spans.sides(conversation);
        spans
    }

    /// Gives the records of sub-agents in the session's file to the turn during which they began.
    fn sides(&mut self, conversation: &Conversation) {
        for (id, chain) in conversation.graph.numbered().filter(|(_, chain)| chain.is_sidechain) {
            let began = |turn: &Turn| (turn.rows[0]..=turn.rows[1]).contains(&chain.first);
            let owner = self.turns.iter().position(began);
            for row in conversation.graph.rows(id) {
                if self.places[row.index()].is_none() {
                    self.owners[row.index()] = owner;
                }
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.turns.len()
    }

    /// The turn of a record, counted from 0.
    pub(super) fn owner(&self, row: RowId) -> Option<usize> {
        self.owners[row.index()]
    }

    /// The index of a record on the path.
    pub(super) fn place(&self, row: RowId) -> Option<usize> {
        self.places[row.index()]
    }

    /// The records of a turn that are on the path.
    pub(super) fn rows(&self, turn: usize) -> &[RowId] {
        let end = self.starts.get(turn + 1).copied().unwrap_or(self.order.len());
        &self.order[self.starts[turn].min(end)..end]
    }

    /// Where a turn begins on the path.
    pub(super) fn start(&self, turn: usize) -> usize {
        self.starts[turn]
    }

    /// The records of the prompt that opens a turn. Old clients wrote one prompt as several
    /// records.
    pub(super) fn prompt(&self, table: &Table, turn: usize) -> Vec<RowId> {
        let is_prompt = |row: &RowId| {
            let known = table.row(*row);
            let input = known.input;
            known.opens()
                && matches!(input, Some(Input::Plain | Input::IdeSelection | Input::IdeOpenedFile))
        };
        self.rows(turn).iter().copied().filter(is_prompt).collect()
    }

    /// Whether a compaction is among the records of a turn.
    pub(super) fn has_boundary(&self, table: &Table, turn: usize) -> bool {
        self.rows(turn).iter().any(|row| table.boundary(*row).is_some())
    }

    /// The records of a turn that stay if it goes: a compaction with what it says, and what the
    /// client notes there or at the beginning of the session.
    pub(super) fn fixed(&self, table: &Table, turn: usize) -> Vec<RowId> {
        let has_boundary = self.has_boundary(table, turn);
        let is_first = turn == 0;
        let mut found = Vec::new();
        let mut is_open = false;
        for row in self.rows(turn) {
            let known = table.row(*row);
            let is_summary = known.input == Some(Input::Summary);
            let is_note = matches!(known.kind, Kind::Attachment | Kind::System);
            let is_ahead = (has_boundary || is_first) && !is_open && known.input.is_none();
            if table.boundary(*row).is_some() || is_summary || (is_note && is_ahead) {
                found.push(*row);
            }
            // The command that compacts stands after the compaction, and the notes after both.
            let is_command = has_boundary && known.input == Some(Input::Command);
            is_open |= known.kind == Kind::Assistant || (known.opens() && !is_command);
        }
        found
    }
}

/// Where each turn begins on a path. What the builder puts ahead of a turn may stand among records
/// of the turn before it; then it stays there, so that turns follow each other.
fn starts(table: &Table, turns: &[Turn], places: &[Option<usize>], end: usize) -> Vec<usize> {
    let of_turn = |turn: &Turn| {
        let rows = turn.steps.iter().filter_map(|step| first_row(table, step));
        let mut found: Vec<usize> =
            rows.chain([turn.rows[0]]).filter_map(|row| places[row.index()]).collect();
        found.sort_unstable();
        found
    };
    let opening = |turn: &Turn| {
        turn.steps.iter().find_map(|step| match step {
            Step::Said(row) if table.row(*row).opens() => places[row.index()],
            _ => None,
        })
    };
    let mut starts: Vec<usize> = Vec::new();
    let mut before: Vec<usize> = Vec::new();
    for turn in turns {
        let all = of_turn(turn);
        let open = opening(turn).or(all.first().copied()).unwrap_or(end);
        let last = before.iter().copied().filter(|place| *place < open).max();
        let first = all.iter().copied().find(|place| Some(*place) > last).unwrap_or(open);
        starts.push(first.max(starts.last().copied().unwrap_or(0)));
        before = all;
    }
    starts
}

/// The first record of a step.
fn first_row(table: &Table, step: &Step) -> Option<RowId> {
    match step {
        Step::Said(row) | Step::Event(row) => Some(*row),
        Step::Answer { blocks, .. } => blocks.first().map(|block| table.block(*block).row),
        Step::Orphan(block) => Some(table.block(*block).row),
    }
}
