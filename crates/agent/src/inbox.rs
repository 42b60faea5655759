//! What reaches a running session: from the user, from a host, and from the threads that work for
//! its agents.

use serde_json::Value;

use crate::api::request::text_block;
use crate::control::Reply;
use crate::drive::Summarised;
use crate::event::AgentId;
use crate::hook::Hook;
use crate::hook::run::Ran;
use crate::permit::Mode;
use crate::tool::{self, Progress};
use crate::turn::Input;

/// What reaches the driver.
#[derive(Debug)]
pub enum Note {
    /// A thread that works for an agent reports something.
    From(AgentId, Report),
    /// The user says something. While a turn runs, it waits, or goes along with the next request.
    Say(Said),
    /// The user wants the turn to stop.
    Interrupt,
    /// The user wants a command or a sub-agent, by the id of its call, to go on in the background.
    Background(String),
    /// The user wants another permission mode.
    Mode(Mode),
    /// An answer to the question with this id.
    Decide(String, Reply),
    /// A request of the host: a line of the control protocol.
    Control(Value),
    /// An answer of the host: a line of the control protocol.
    Reply(Value),
    /// The program is to end: the turn is stopped, with this exit code.
    End(u8),
    /// There will be no more prompts.
    Closed,
    /// An input that cannot be understood, and why.
    Nonsense(String),
}

/// What a thread that works for an agent reports.
#[derive(Debug)]
pub enum Report {
    /// An input from the answer or the wait with this number.
    Input(u64, Input),
    /// An event of the answer with this number, as it came.
    Streamed(u64, String),
    /// The id of a call, and its result.
    Answered(String, tool::Answer),
    /// The id of a call, what it has written so far, and a number.
    Progress(String, Progress, u64),
    /// The commands of hooks are done: the number of the run, and what they did.
    Hooked(u64, Vec<(Hook, Ran)>),
    /// The summary with this number, and what it took.
    Summarised(u64, Summarised),
    /// A hook of the host has not answered in time; the id of the request.
    Late(String),
}

/// What the user says.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// Blocks, as JSON.
    pub blocks: Vec<String>,
    /// The id that its record is to have.
    pub id: Option<String>,
    /// The line that it came on, if it is to be echoed.
    pub line: Option<Value>,
}

impl Said {
    /// A plain text.
    pub fn text(text: &str) -> Said {
        Said { blocks: vec![text_block(text)], ..Said::default() }
    }
}
