//! The turns of one conversation, grouped so that they stay the same while the file grows.
//!
//! A turn is shipped once and may be examined again later, after the session was continued, rewound
//! or compacted. So it is identified by the record that opens it. All descendants of that record,
//! up to the next record that opens a turn, are part of it, on any branch: a second answer to the
//! same prompt joins the first. Invariants: every answer is in exactly one turn; appending records
//! never moves an answer from one turn to another and never changes a number.

use std::collections::HashMap;

use crate::conversation::table::{AnswerId, BlockId, RowId};
use crate::conversation::turn::{Outcome, Step, Turn};
use crate::conversation::{Conversation, Turns};
use crate::format::input::Input;
use crate::format::time::Time;

/// One request to the model and everything that was done about it.
#[derive(Debug)]
pub struct StableTurn {
    /// The record that identifies it.
    pub first: RowId,
    /// What opened it; None if it begins in the middle.
    pub input: Option<Input>,
    /// Its parts on all branches. The last part is the one that counts: the part on the live
    /// branch, else the newest.
    pub parts: Vec<Turn>,
    /// Its answers, each with its blocks, in file order.
    pub answers: Vec<(AnswerId, Vec<BlockId>)>,
    /// Whether no other was opened after it.
    pub is_last: bool,
    is_live: bool,
}

impl StableTurn {
    /// How the last of its turns ended.
    pub fn outcome(&self) -> Outcome {
        self.parts.last().map_or(Outcome::Unanswered, |turn| turn.outcome)
    }

    /// Whether a model took part or should have, including to summarize the conversation.
    pub fn counts(&self, conversation: &Conversation) -> bool {
        let table = &conversation.table;
        let is_boundary =
            |step: &Step| matches!(step, Step::Event(row) if table.boundary(*row).is_some());
        let is_opened = self.input.is_some_and(Input::opens);
        let mut steps = self.parts.iter().flat_map(|turn| &turn.steps);
        !self.answers.is_empty()
            || is_opened && (self.outcome() != Outcome::Local || steps.any(is_boundary))
    }

    /// The line of its last record.
    pub fn last_line(&self, conversation: &Conversation) -> u64 {
        let last = self.parts.iter().map(|turn| turn.rows[1]).max().unwrap_or(self.first);
        conversation.table.row(last).line
    }
}

/// How many ancestors are searched for the record that opened a part of a turn.
const LONGEST_TURN: usize = 1 << 16;

/// The turns of a conversation, in file order.
pub fn stable_turns(conversation: &Conversation, found: Turns) -> Vec<StableTurn> {
    let dead = found.dead.into_iter().flat_map(|(_, turns)| turns);
    group(conversation, found.live, dead)
}

/// Groups turns by the records that open them, in file order.
pub(super) fn group(
    conversation: &Conversation,
    live: Vec<Turn>,
    dead: impl IntoIterator<Item = Turn>,
) -> Vec<StableTurn> {
    let mut grouped: Vec<StableTurn> = Vec::new();
    let mut by_row: HashMap<RowId, usize> = HashMap::new();
    let mut loose = Vec::new();
    let alive = live.len();
    for (at, turn) in live.into_iter().chain(dead).enumerate() {
        let Some(opener) = opener(conversation, &turn) else {
            loose.push(turn);
            continue;
        };
        by_row.insert(opener, grouped.len());
        grouped.push(StableTurn { is_live: at < alive, ..new(opener, turn) });
    }
    // Parts that were opened on another branch, or by no record.
    for turn in loose {
        let Some(first) = turn.steps.iter().map(|step| row(conversation, step)).min() else {
            continue;
        };
        let mut at = Some(first);
        let mut found = None;
        for _ in 0..LONGEST_TURN {
            let Some(here) = at else { break };
            found = by_row.get(&here).copied();
            if found.is_some() {
                break;
            }
            at = conversation.graph.link(here).parent();
        }
        if let Some(at) = found {
            grouped[at].parts.insert(0, turn);
        } else {
            by_row.insert(first, grouped.len());
            grouped.push(new(first, turn));
        }
    }
    for stable in grouped.iter_mut().filter(|stable| !stable.is_live) {
        stable.parts.sort_by_key(|turn| turn.rows[1]);
    }
    grouped.sort_by_key(|stable| stable.first);
    if let Some(last) = grouped.last_mut() {
        last.is_last = true;
    }
    place_answers(conversation, &mut grouped);
    grouped
}

fn new(first: RowId, turn: Turn) -> StableTurn {
    let input = turn.input;
    StableTurn {
        first,
        input,
        parts: vec![turn],
        answers: Vec::new(),
        is_last: false,
        is_live: false,
    }
}

/// The record that opens a turn.
fn opener(conversation: &Conversation, turn: &Turn) -> Option<RowId> {
    let wanted = turn.input?;
    turn.steps.iter().find_map(|step| match step {
        Step::Said(row) if conversation.table.row(*row).input == Some(wanted) => Some(*row),
        _ => None,
    })
}

/// The first record of a step.
fn row(conversation: &Conversation, step: &Step) -> RowId {
    match step {
        Step::Said(row) | Step::Event(row) => *row,
        Step::Answer { id, blocks, .. } => {
            let first = blocks.first().map(|block| conversation.table.block(*block).row);
            first.unwrap_or_else(|| conversation.table.answer(*id).first)
        }
        Step::Orphan(block) => conversation.table.block(*block).row,
    }
}

/// Assigns each answer to the first stable that contains a part of it.
fn place_answers(conversation: &Conversation, turns: &mut [StableTurn]) {
    let mut owner: HashMap<AnswerId, usize> = HashMap::new();
    let mut blocks: HashMap<AnswerId, Vec<BlockId>> = HashMap::new();
    for (at, stable) in turns.iter().enumerate() {
        for step in stable.parts.iter().flat_map(|turn| &turn.steps) {
            if let Step::Answer { id, blocks: its_blocks, .. } = step
                && !conversation.table.is_filler(*id)
            {
                owner.entry(*id).or_insert(at);
                blocks.entry(*id).or_default().extend(its_blocks);
            }
        }
    }
    for (id, at) in owner {
        let mut its_blocks = blocks.remove(&id).unwrap_or_default();
        its_blocks.sort_unstable();
        its_blocks.dedup();
        turns[at].answers.push((id, its_blocks));
    }
    for stable in turns {
        stable.answers.sort_by_key(|(id, _)| conversation.table.answer(*id).first);
    }
}

/// The time of each record. A record without a time gets that of the record before it; those at the
/// beginning get that of the first record that has one.
pub(super) fn times(conversation: &Conversation) -> Vec<Time> {
    let rows = conversation.table.rows();
    let mut last = rows.iter().find_map(|row| row.time).unwrap_or(Time(0));
    let filled = rows.iter().map(|row| {
        last = row.time.unwrap_or(last);
        last
    });
    filled.collect()
}
