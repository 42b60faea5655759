//! What happens in a session, as a stream of typed events: what is printed, what programs get and
//! what a screen shows are all made of it.
//!
//! The driver sends every event to the [`Host`](crate::host::Host), with the agent that it is
//! about. Invariants: events of one agent are in the order in which they happened;
//! [`Event::TurnBegan`] and [`Event::TurnEnded`] of [`AgentId::Main`] surround everything else of a
//! turn, except for what agents in the background do; a call that [`Event::ToolStarted`] names has
//! exactly one [`Event::ToolFinished`] later, also if it was stopped; no event contains a secret.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use transcript::client::compaction::Receipt;

use crate::api::ApiError;
use crate::host::Summary;
use crate::model::Usage;
use crate::permit::Mode;
use crate::tool::{Answer, Progress};
use crate::turn::{Block, Entry};

/// Which agent something is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AgentId {
    /// The one that the user talks with.
    #[default]
    Main,
    /// A sub-agent; its id in the names of files.
    Sub(Arc<str>),
}

impl AgentId {
    /// The id of a sub-agent; None for the main one.
    pub fn name(&self) -> Option<&str> {
        match self {
            AgentId::Main => None,
            AgentId::Sub(id) => Some(id),
        }
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name().unwrap_or("main"))
    }
}

/// Something that happens in a session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A turn begins, with this model and permission mode.
    TurnBegan {
        /// The name of the model.
        model: String,
        /// The permission mode.
        mode: Mode,
    },
    /// A prompt was taken: its turn begins, or it goes along with the next request.
    Prompted {
        /// The id that its record gets.
        id: String,
        /// Its blocks, as JSON.
        blocks: Vec<String>,
        /// The line that it came on, if that is to be echoed.
        line: Option<Value>,
    },
    /// A prompt waits until the turn is over, or for the next request.
    Queued {
        /// Its text.
        text: String,
    },
    /// An event of the API's stream, as JSON.
    Streamed(String),
    /// A piece of the text that the model is writing.
    TextDelta(String),
    /// A piece of its thinking.
    ThinkingDelta(String),
    /// A block of an answer is complete; its record has, or will have, this id.
    Block {
        /// The block.
        block: Block,
        /// The id of its record.
        id: String,
    },
    /// An entry was written to the transcript.
    Recorded {
        /// The entry.
        entry: Entry,
        /// The id of its record.
        id: String,
    },
    /// A call runs now.
    ToolStarted {
        /// The id of the call.
        call: String,
        /// The name of the tool.
        tool: String,
        /// The input with which it runs.
        input: Value,
    },
    /// What a call has written so far.
    ToolOutput {
        /// The id of the call.
        call: String,
        /// The output.
        progress: Progress,
    },
    /// A call has its result: its own, an error, or an interruption.
    ToolFinished {
        /// The id of the call.
        call: String,
        /// The result.
        answer: Answer,
        /// What it changed in a file.
        patch: Vec<Hunk>,
    },
    /// The todo list is another one.
    Todos(Vec<Value>),
    /// The permission mode is another one.
    Mode(Mode),
    /// An answer is complete: what was used, and how full the context is.
    Usage(ContextUse),
    /// The conversation is being summarised.
    Compacting {
        /// Why.
        trigger: Trigger,
    },
    /// The conversation was summarised.
    Compacted(Compacted),
    /// A sub-agent begins; the events of the sub-agent itself follow under its id.
    AgentStarted {
        /// The call of its parent that started it.
        call: String,
        /// Its type, such as `Explore`.
        kind: String,
        /// What it is to do, in a few words.
        description: String,
        /// Whether its parent waits for it.
        is_background: bool,
    },
    /// A sub-agent has come further.
    AgentProgress {
        /// The call of its parent that started it.
        call: String,
        /// How many calls of its own have a result.
        tool_uses: u32,
        /// The tokens of its last request and answer.
        tokens: u64,
        /// For how long it has worked, in milliseconds.
        taken: i64,
        /// The tool of the last of these calls, and what that did in a few words.
        last: (String, String),
    },
    /// A sub-agent is done.
    AgentEnded {
        /// The call of its parent that started it.
        call: String,
        /// How.
        summary: Summary,
    },
    /// A hook begins.
    HookStarted {
        /// The id of this run.
        id: String,
        /// The event, such as `PreToolUse`.
        event: String,
        /// The event with what it is about, such as `PreToolUse:Bash`.
        name: String,
    },
    /// A hook is done.
    HookEnded {
        /// The id of the run.
        id: String,
        /// The event.
        event: String,
        /// The event with what it is about.
        name: String,
        /// What it printed.
        stdout: String,
        /// What it printed as errors.
        stderr: String,
        /// Its exit code; None if it was killed.
        code: Option<i32>,
        /// In a word: `success`, `error` or `cancelled`.
        outcome: &'static str,
    },
    /// The API failed, and the request will be retried.
    Retry {
        /// Why.
        error: ApiError,
        /// How often it failed.
        failures: u32,
        /// How often it may fail.
        most: u32,
        /// How long the session waits.
        wait: Duration,
    },
    /// The model was overloaded too often, and another one goes on.
    FellBack {
        /// The name of the model.
        from: String,
        /// The name of the other one.
        to: String,
    },
    /// A hook has a text for the user; it is a notice, too.
    HookSaid {
        /// What the hook was about.
        name: String,
        /// The text.
        text: String,
    },
    /// A call does not run.
    Denied {
        /// The name of the tool.
        tool: String,
        /// Why.
        why: String,
        /// The rule that would allow it.
        rule: Option<String>,
    },
    /// A request of the control protocol was answered.
    Controlled(Value),
    /// Something that a user should know.
    Notice(String),
    /// An input could not be understood.
    Complaint(String),
    /// There are no more prompts, and the session waits for what runs in the background.
    Waiting,
    /// A turn is over.
    TurnEnded(Summary),
    /// The session is over.
    Ended,
}

/// How full the context is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ContextUse {
    /// The tokens of the last request and its answer.
    pub last: Usage,
    /// The tokens of the turn so far.
    pub turn: Usage,
    /// How many tokens the last request and its answer have together.
    pub used: u64,
    /// How many fit into the model; None if that is not known.
    pub window: Option<u64>,
}

/// Why a conversation is summarised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// It is nearly too long.
    Auto,
    /// The user wants it.
    Manual,
}

impl Trigger {
    /// The word for it in transcripts.
    pub fn name(self) -> &'static str {
        match self {
            Trigger::Auto => "auto",
            Trigger::Manual => "manual",
        }
    }
}

/// A summarised conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Compacted {
    /// Why.
    pub trigger: Trigger,
    /// The tokens before.
    pub before: u64,
    /// The tokens afterwards, estimated.
    pub after: u64,
    /// The summary.
    pub summary: String,
    /// What is not sent any more.
    pub receipt: Receipt,
}

/// A part of a file that a call changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hunk {
    /// The first line before.
    pub old_start: usize,
    /// How many lines there were.
    pub old_lines: usize,
    /// The first line now.
    pub new_start: usize,
    /// How many lines there are.
    pub new_lines: usize,
    /// The lines, each after ` `, `-` or `+`.
    pub lines: Vec<String>,
}

/// What a call changed in a file, from its result.
pub(crate) fn patch(answer: &Answer) -> Vec<Hunk> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Changed {
        structured_patch: Vec<Hunk>,
    }
    let text = answer.detail.get();
    // Most results are long and change nothing.
    if !text.contains("structuredPatch") {
        return Vec::new();
    }
    serde_json::from_str::<Changed>(text)
        .map(|changed| changed.structured_patch)
        .unwrap_or_default()
}

/// The piece of text or thinking that an event of the API's stream brings.
pub(crate) fn delta(event: &str) -> Option<Event> {
    if !event.contains("_delta") {
        return None;
    }
    let value: Value = serde_json::from_str(event).ok()?;
    let delta = value.get("delta")?;
    let text = |name: &str| delta.get(name).and_then(Value::as_str).map(str::to_owned);
    match delta.get("type")?.as_str()? {
        "text_delta" => text("text").map(Event::TextDelta),
        "thinking_delta" => text("thinking").map(Event::ThinkingDelta),
        _ => None,
    }
}

#[cfg(test)]
#[path = "event_tests.rs"]
mod tests;
