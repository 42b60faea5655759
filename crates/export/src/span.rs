//! What is known of one span, before anybody says how a receiver wants to be told.

use std::sync::Arc;

use transcript::price::{Cost, Spent};
use transcript::time::Time;

use crate::content::Text;
use crate::id::{SpanId, TraceId};

/// One thing that took time: a turn, an answer, a call, a sub-agent, a compaction.
#[derive(Clone, Debug)]
pub struct Span {
    /// What is the same for all spans of its turn.
    pub turn: Arc<Setting>,
    /// Its own id.
    pub id: SpanId,
    /// What it is a part of.
    pub parent: Option<SpanId>,
    /// What it is.
    pub what: What,
    /// What it is called.
    pub name: String,
    /// When it began.
    pub start: Time,
    /// When it ended.
    pub end: Time,
    /// What it was given.
    pub input: Option<Text>,
    /// What it gave.
    pub output: Option<Text>,
    /// How it went.
    pub level: Level,
    /// What the client noted while it ran.
    pub events: Vec<(Time, String)>,
}

/// What is the same for all spans of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The trace.
    pub trace: TraceId,
    /// The session.
    pub session: String,
    /// Which turn of the session it is, from 1.
    pub number: usize,
    /// The version of the client.
    pub version: Option<String>,
    /// The working directory.
    pub cwd: Option<String>,
    /// The branch in git.
    pub branch: Option<String>,
    /// The session's name in words.
    pub slug: Option<String>,
}

/// What a span is.
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
        /// When the first of the answer that it is in was there.
        answer: Time,
    },
    /// A run of a sub-agent.
    Agent {
        /// Its id.
        agent: String,
        /// What it was for.
        purpose: &'static str,
        /// What it was to do, in a few words.
        description: Option<String>,
        /// Whether it ran in the background.
        is_background: bool,
        /// Whether the call that it hangs on might as well be another.
        is_guess: bool,
    },
    /// A compaction.
    Compaction {
        /// Whether the client did it by itself.
        is_auto: bool,
        /// Tokens before and after, where the client says so.
        tokens: [Option<u64>; 2],
    },
}

/// An answer of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Generation {
    /// The model.
    pub model: Option<String>,
    /// The id of the message.
    pub message: Option<String>,
    /// The id of the request.
    pub request: Option<String>,
    /// The id of its last record.
    pub uuid: Option<String>,
    /// Why it ended.
    pub stop: Option<String>,
    /// What it took.
    pub spent: Option<Spent>,
    /// Whether that is all of it: if not, more was written than is counted.
    pub is_final: bool,
    /// How much of the output was thinking, where the API says so.
    pub thinking: Option<u64>,
    /// When the first of it was there.
    pub first: Option<Time>,
    /// When the next one began, or the turn ended.
    pub next: Time,
    /// Whether it is the first of its turn.
    pub is_first: bool,
    /// How many calls it made.
    pub calls: usize,
    /// Its text alone.
    pub text: String,
    /// Fast or not, where the API says so.
    pub speed: Option<String>,
    /// The service tier, where the API says so.
    pub tier: Option<String>,
}

impl Generation {
    /// What it cost; nothing if that is not known. The fast way has prices of its own, which are not.
    pub fn cost(&self) -> Option<Cost> {
        let is_usual = self.speed.as_deref().is_none_or(|speed| speed == "standard");
        let model = self.model.as_deref().filter(|_| is_usual)?;
        self.spent?.request_cost(model)
    }
}

/// How it went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Level {
    /// As usual.
    Default,
    /// Not as usual, and nobody's fault.
    Warning(String),
    /// It failed: the kind of error, and what was said.
    Error(String, String),
}
