//! Turns: what was asked, and everything that was done about it.
//!
//! `docs/conversation.md` defines where a turn begins and ends. A turn consists of steps, which
//! refer to rows and blocks of the table; texts are read when they are needed. Invariants: a block
//! that is not a repeat is in exactly one step of the turns of its chain, or is the result of a
//! call that is; the usage of an answer is counted in one turn only; nothing is dropped because of
//! a missing `stop_reason`.

mod build;
mod pair;
pub mod reference;

pub use build::Builder;
pub use pair::Pairs;

use crate::conversation::price::Prices;
use crate::conversation::table::{AnswerId, BlockId, Id, RowId, Table};
use crate::conversation::usage::{Spending, Usage};
use crate::format::input::Input;
use crate::format::time::Time;
use crate::names::named;

/// One turn.
#[derive(Clone, Debug)]
pub struct Turn {
    /// Who opens it and how; `None` if it begins in the middle.
    pub input: Option<Input>,
    /// How it follows the turn before.
    pub round: Round,
    /// What happened, in order.
    pub steps: Vec<Step>,
    /// How it ended.
    pub outcome: Outcome,
    /// Its first and its last row in the file.
    pub rows: [RowId; 2],
    /// The times of its first and its last record.
    pub times: Option<[Time; 2]>,
    /// How long it took according to the client, in milliseconds.
    pub measured: Option<u64>,
    /// A compaction ended it.
    pub is_cut: bool,
}

named! {
    /// How a turn follows the turn before.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Round {
        /// It is the first.
        NewSession = "new_session",
        /// It follows another.
        NewRound = "new_round",
        /// It continues the turn before, without a new prompt.
        Continue = "continue",
        /// It follows another after a break.
        Resume = "resume",
    }
}

/// After how many milliseconds of silence the next turn counts as a resumed session.
pub const BREAK: i64 = 5 * 60 * 1_000;

/// One thing that happened in a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Something was said to the model or the client. If the record also has results, only its
    /// other blocks count.
    Said(RowId),
    /// The model answered with these blocks.
    Answer {
        /// The answer.
        id: AnswerId,
        /// Its blocks in this turn.
        blocks: Vec<BlockId>,
        /// Its usage counts here, and nowhere else.
        counts: bool,
    },
    /// A result without a call in the file.
    Orphan(BlockId),
    /// The client noted something.
    Event(RowId),
}

named! {
    /// How a turn ended.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Outcome {
        /// The model has finished its answer.
        Answered = "answered",
        /// A person stopped it.
        Interrupted = "interrupted",
        /// The API failed.
        Failed = "failed",
        /// The client handled it without the model.
        Local = "local",
        /// A compaction interrupted it, and the next turn continues it.
        Compacted = "compacted",
        /// A call has no result, or the last result has no answer.
        Open = "open",
        /// The model did not answer.
        Unanswered = "unanswered",
    }
}

impl Outcome {
    /// Whether the turn is over, so that nothing more can follow in it.
    pub fn is_complete(self) -> bool {
        !matches!(self, Outcome::Open | Outcome::Unanswered)
    }
}

impl Turn {
    /// The tokens that the answers of the turn took.
    pub fn tokens(&self, table: &Table) -> Usage {
        let reported = |id| {
            let answer = table.answer(id);
            let usage = answer.counted(&table.ids)?.usage;
            Some(Usage { at_least: !answer.is_final(), ..usage })
        };
        self.answers().filter_map(reported).sum()
    }

    /// What the answers of the turn took and cost.
    pub fn spending(&self, table: &Table, prices: &Prices) -> Spending {
        let mut sum = Spending::default();
        for answer in self.answers().map(|id| table.answer(id)) {
            if let Some(reported) = answer.counted(&table.ids) {
                let usage = Usage { at_least: !answer.is_final(), ..reported.usage };
                let (model, speed) = (table.text(answer.model), table.text(reported.speed));
                sum += Spending::of_message(usage, model, speed, prices);
            }
        }
        sum
    }

    /// The answers whose usage counts here.
    fn answers(&self) -> impl Iterator<Item = AnswerId> {
        self.steps.iter().filter_map(|step| match step {
            Step::Answer { id, counts: true, .. } => Some(*id),
            _ => None,
        })
    }

    /// The blocks of its answers.
    pub fn blocks(&self) -> impl Iterator<Item = BlockId> {
        self.steps
            .iter()
            .flat_map(|step| match step {
                Step::Answer { blocks, .. } => blocks.as_slice(),
                _ => &[],
            })
            .copied()
    }

    /// The calls in it.
    pub fn calls<'a>(&'a self, table: &'a Table) -> impl Iterator<Item = BlockId> + 'a {
        self.blocks().filter(|block| table.block(*block).kind.is_call())
    }

    /// The models that answered, each once.
    pub fn models(&self, table: &Table) -> Vec<Id> {
        let mut models: Vec<Id> = Vec::new();
        for step in &self.steps {
            if let Step::Answer { id, .. } = step
                && let Some(model) = table.answer(*id).model
                && !models.contains(&model)
            {
                models.push(model);
            }
        }
        models
    }
}

#[cfg(test)]
#[path = "turn_tests.rs"]
mod tests;
