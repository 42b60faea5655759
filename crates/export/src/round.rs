//! The turns of one conversation, grouped so that they stay the same while the file grows.
//!
//! A turn is shipped once and may be examined again later, after the session was continued, rewound
//! or compacted. So it is identified by the record that opens it. All descendants of that record,
//! up to the next record that opens a turn, are part of it, on any branch: a second answer to the
//! same prompt joins the first. Invariants: every answer is in exactly one round; appending records
//! never moves an answer from one round to another and never changes a number.

use std::collections::HashMap;

use transcript::conversation::{Conversation, Turns};
use transcript::input::Input;
use transcript::table::{AnswerId, BlockId, RowId};
use transcript::time::Time;
use transcript::turn::{Outcome, Step, Turn};

/// One request to the model and everything that was done about it.
#[derive(Debug)]
pub(crate) struct Round {
    /// The record that identifies it.
    pub(crate) first: RowId,
    /// What opened it; None if it begins in the middle.
    pub(crate) input: Option<Input>,
    /// Its parts on all branches. The last part is the one that counts: the part on the live
    /// branch, else the newest.
    pub(crate) turns: Vec<Turn>,
    /// Its answers, each with its blocks, in file order.
    pub(crate) answers: Vec<(AnswerId, Vec<BlockId>)>,
    /// Whether no round was opened after it.
    pub(crate) is_last: bool,
    is_live: bool,
}

impl Round {
    /// How the last of its turns ended.
    pub(crate) fn outcome(&self) -> Outcome {
        self.turns.last().map_or(Outcome::Unanswered, |turn| turn.outcome)
    }

    /// Whether a model took part or should have, including to summarize the conversation.
    pub(crate) fn counts(&self, conversation: &Conversation) -> bool {
        let table = &conversation.table;
        let is_boundary =
            |step: &Step| matches!(step, Step::Event(row) if table.boundary(*row).is_some());
        let is_opened = self.input.is_some_and(Input::opens);
        let mut steps = self.turns.iter().flat_map(|turn| &turn.steps);
        !self.answers.is_empty()
            || is_opened && (self.outcome() != Outcome::Local || steps.any(is_boundary))
    }

    /// The line of its last record.
    pub(crate) fn last_line(&self, conversation: &Conversation) -> u64 {
        let last = self.turns.iter().map(|turn| turn.rows[1]).max().unwrap_or(self.first);
        conversation.table.row(last).line
    }
}

/// How many ancestors are searched for the record that opened a part of a turn.
const LONGEST_TURN: usize = 1 << 16;

/// The rounds of a conversation, in file order.
pub(crate) fn rounds(conversation: &Conversation, found: Turns) -> Vec<Round> {
    let dead = found.dead.into_iter().flat_map(|(_, turns)| turns);
    group(conversation, found.live, dead)
}

/// Groups turns into rounds, in file order.
pub(crate) fn group(
    conversation: &Conversation,
    live: Vec<Turn>,
    dead: impl IntoIterator<Item = Turn>,
) -> Vec<Round> {
    let mut rounds: Vec<Round> = Vec::new();
    let mut by_row: HashMap<RowId, usize> = HashMap::new();
    let mut parts = Vec::new();
    let alive = live.len();
    for (at, turn) in live.into_iter().chain(dead).enumerate() {
        let Some(opener) = opener(conversation, &turn) else {
            parts.push(turn);
            continue;
        };
        by_row.insert(opener, rounds.len());
        rounds.push(Round { is_live: at < alive, ..new(opener, turn) });
    }
    // Parts that were opened on another branch, or by no record.
    for turn in parts {
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
            rounds[at].turns.insert(0, turn);
        } else {
            by_row.insert(first, rounds.len());
            rounds.push(new(first, turn));
        }
    }
    for round in rounds.iter_mut().filter(|round| !round.is_live) {
        round.turns.sort_by_key(|turn| turn.rows[1]);
    }
    rounds.sort_by_key(|round| round.first);
    if let Some(last) = rounds.last_mut() {
        last.is_last = true;
    }
    place_answers(conversation, &mut rounds);
    rounds
}

fn new(first: RowId, turn: Turn) -> Round {
    let input = turn.input;
    Round { first, input, turns: vec![turn], answers: Vec::new(), is_last: false, is_live: false }
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

/// Assigns each answer to the first round that contains a part of it.
fn place_answers(conversation: &Conversation, rounds: &mut [Round]) {
    let mut owner: HashMap<AnswerId, usize> = HashMap::new();
    let mut blocks: HashMap<AnswerId, Vec<BlockId>> = HashMap::new();
    for (at, round) in rounds.iter().enumerate() {
        for step in round.turns.iter().flat_map(|turn| &turn.steps) {
            if let Step::Answer { id, blocks: own_blocks, .. } = step
                && !conversation.table.is_filler(*id)
            {
                owner.entry(*id).or_insert(at);
                blocks.entry(*id).or_default().extend(own_blocks);
            }
        }
    }
    for (id, at) in owner {
        let mut own_blocks = blocks.remove(&id).unwrap_or_default();
        own_blocks.sort_unstable();
        own_blocks.dedup();
        rounds[at].answers.push((id, own_blocks));
    }
    for round in rounds {
        round.answers.sort_by_key(|(id, _)| conversation.table.answer(*id).first);
    }
}

/// The time of each record. A record without a time gets that of the record before it; those at the
/// beginning get that of the first record that has one.
pub(crate) fn times(conversation: &Conversation) -> Vec<Time> {
    let rows = conversation.table.rows();
    let mut last = rows.iter().find_map(|row| row.time).unwrap_or(Time(0));
    let filled = rows.iter().map(|row| {
        last = row.time.unwrap_or(last);
        last
    });
    filled.collect()
}
