//! Turns: what was asked, and all that was done about it.
//!
//! `docs/conversation.md` says where a turn begins and ends. A turn is made of steps, which name rows and blocks of the table; texts
//! are read when they are wanted. Invariants: a block that is no repeat is in exactly one step of the turns of its chain, or is the
//! result of a call that is; an answer's usage is counted in one turn only; nothing is dropped for a missing
//! `stop_reason`.

mod build;
mod detail;
mod pair;
pub mod seed;

pub use build::Builder;
pub use detail::{Answered, Call, Piece, What};
pub use pair::Pairs;

use crate::input::Input;
use crate::table::{AnswerId, BlockId, Id, RowId, Table};
use crate::time::Time;

/// One turn.
#[derive(Clone, Debug)]
pub struct Turn {
    /// What opens it; nothing if it begins in the middle.
    pub input: Option<Input>,
    /// How it follows what was before.
    pub round: Round,
    /// What happened, in order.
    pub steps: Vec<Step>,
    /// How it ended.
    pub outcome: Outcome,
    /// Its first and its last row in the file.
    pub rows: [RowId; 2],
    /// Times of its first and its last record.
    pub times: Option<[Time; 2]>,
    /// How long the client says it took, in milliseconds.
    pub measured: Option<u64>,
    /// A compaction ended it.
    pub is_cut: bool,
}

/// How a turn follows what was before, in the words of seed 004.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// It is the first.
    NewSession,
    /// It follows another.
    NewRound,
    /// It goes on with the one before: nobody asked anything.
    Continue,
    /// It follows another after a break.
    Resume,
}

impl Round {
    /// The name in output.
    pub fn name(self) -> &'static str {
        match self {
            Round::NewSession => "new_session",
            Round::NewRound => "new_round",
            Round::Continue => "continue",
            Round::Resume => "resume",
        }
    }
}

/// After how many milliseconds of silence a session counts as taken up again (seed 004).
pub const BREAK: i64 = 5 * 60 * 1_000;

/// One thing that happened in a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Something was said to the model or the client. Of a record with results, only the rest of its blocks.
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
    /// A result whose call is nowhere.
    Orphan(BlockId),
    /// The client noted something.
    Event(RowId),
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The model's last word is there.
    Answered,
    /// A person stopped it.
    Interrupted,
    /// The API failed.
    Failed,
    /// The client did it by itself.
    Local,
    /// A compaction came, and the next turn goes on with it.
    Compacted,
    /// A call has no result, or the last result no answer.
    Open,
    /// Nobody answered.
    Unanswered,
}

impl Outcome {
    /// The name in output.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Answered => "answered",
            Outcome::Interrupted => "interrupted",
            Outcome::Failed => "failed",
            Outcome::Local => "local",
            Outcome::Compacted => "compacted",
            Outcome::Open => "open",
            Outcome::Unanswered => "unanswered",
        }
    }

    /// Whether nothing more is to come.
    pub fn is_complete(self) -> bool {
        !matches!(self, Outcome::Open | Outcome::Unanswered)
    }
}

/// Tokens of several answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Input tokens that no cache had.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Input tokens from the cache.
    pub cache_read: u64,
    /// Input tokens that went into the cache.
    pub cache_write: u64,
    /// The output is only a lower bound.
    pub at_least: bool,
}

impl Tokens {
    /// All of them.
    pub fn total(self) -> u64 {
        self.input + self.output + self.cache_read + self.cache_write
    }

    /// Adds others.
    pub fn add(&mut self, other: Tokens) {
        self.input += other.input;
        self.output += other.output;
        self.cache_read += other.cache_read;
        self.cache_write += other.cache_write;
        self.at_least |= other.at_least;
    }
}

impl Turn {
    /// What the answers of the turn took.
    pub fn tokens(&self, table: &Table) -> Tokens {
        let mut sum = Tokens::default();
        for id in self.answers() {
            let answer = table.answer(id);
            if let Some(usage) = &answer.usage {
                sum.add(Tokens {
                    input: usage.input,
                    output: usage.output,
                    cache_read: usage.cache_read,
                    cache_write: usage.cache_write,
                    at_least: !answer.is_final(),
                });
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
        self.blocks().filter(|block| table.part(*block).kind.is_call())
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
