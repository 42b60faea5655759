//! What is known of one span, independent of how a receiver wants it.

use std::sync::Arc;

use transcript::conversation::price::Cost;
use transcript::conversation::usage::Usage;
use transcript::format::time::Time;

use crate::content::Text;
use crate::id::{SpanId, TraceId};

/// Something that took time: a turn, an answer, a call, a sub-agent, a compaction.
#[derive(Clone, Debug)]
pub struct Span {
    /// What is the same for all spans of its turn.
    pub turn: Arc<Setting>,
    /// The id of the span.
    pub id: SpanId,
    /// The id of the parent span.
    pub parent: Option<SpanId>,
    /// The kind of span, with what only that kind has.
    pub what: What,
    /// The name that receivers show.
    pub name: String,
    /// When it began.
    pub start: Time,
    /// When it ended.
    pub end: Time,
    /// Its input: a prompt, or the input of a call.
    pub input: Option<Text>,
    /// Its output: an answer, or the result of a call.
    pub output: Option<Text>,
    /// Whether it succeeded.
    pub level: Level,
    /// What the client noted while it ran, with times.
    pub events: Vec<(Time, String)>,
}

/// What is the same for all spans of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The id of the trace.
    pub trace: TraceId,
    /// The id of the session.
    pub session: String,
    /// Which turn of the session it is, from 1.
    pub number: usize,
    /// The version of the client.
    pub version: Option<String>,
    /// The working directory.
    pub cwd: Option<String>,
    /// The git branch.
    pub branch: Option<String>,
    /// The session's name in words.
    pub slug: Option<String>,
}

/// The kind of span, with what only that kind has.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A turn.
    Turn {
        /// How it ended.
        outcome: &'static str,
        /// What opened it: a prompt, a command, a notification.
        opened: Option<&'static str>,
    },
    /// An answer of the model.
    Generation(Box<Generation>),
    /// A call of a tool.
    Tool {
        /// The id of the call.
        call: Option<String>,
        /// When the first part of the answer with this call arrived.
        answer: Time,
    },
    /// A run of a sub-agent.
    Agent {
        /// The id of the sub-agent.
        agent: String,
        /// The name of its purpose.
        purpose: &'static str,
        /// Its task, in a few words.
        description: Option<String>,
        /// Whether it ran in the background.
        is_background: bool,
        /// Whether the parent call is a guess.
        is_guess: bool,
    },
    /// A compaction.
    Compaction {
        /// Whether the client started it by itself.
        is_auto: bool,
        /// Tokens before and after, if the client reports them.
        tokens: [Option<u64>; 2],
    },
}

/// An answer of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Generation {
    /// The name of the model.
    pub model: Option<String>,
    /// The id of the message.
    pub message: Option<String>,
    /// The id of the request.
    pub request: Option<String>,
    /// The id of its last record.
    pub uuid: Option<String>,
    /// Why it ended (`stop_reason`).
    pub stop: Option<String>,
    /// The tokens that it used.
    pub spent: Option<Usage>,
    /// Whether these are all tokens. If not, more output was written than is counted.
    pub is_final: bool,
    /// How many output tokens were thinking, if the API reports it.
    pub thinking: Option<u64>,
    /// When its first part arrived.
    pub first: Option<Time>,
    /// When the next answer began, or the turn ended.
    pub next: Time,
    /// Whether it is the first of its turn.
    pub is_first: bool,
    /// How many calls it made.
    pub calls: usize,
    /// Only its text, without thinking and calls.
    pub text: String,
    /// Fast or standard, if the API reports it.
    pub speed: Option<String>,
    /// The service tier, if the API reports it.
    pub tier: Option<String>,
}

impl Generation {
    /// The cost; None if it is not known.
    pub fn cost(&self) -> Option<Cost> {
        self.spent?.request_cost(self.model.as_deref()?, self.speed.as_deref())
    }
}

/// Whether a span succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Level {
    /// Nothing unusual.
    Default,
    /// Something unusual that is not an error.
    Warning(String),
    /// It failed: the kind of error, and its message.
    Error(String, String),
}
