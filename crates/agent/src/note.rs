//! What reaches a session at work.

use serde_json::Value;

use crate::api::request::text_block;
use crate::tool::{self, Progress};
use crate::turn::Input;

/// What reaches the driver.
#[derive(Debug)]
pub enum Note {
    /// Of the answer or the wait with this number.
    Of(u64, Input),
    /// An event of the answer with this number, as it came.
    Event(u64, String),
    /// A call has its answer.
    Answered(String, tool::Answer),
    /// A call has put something out.
    Progress(String, Progress, u64),
    /// Somebody says something.
    Say(Said),
    /// Whoever hosts the session wants something: a line of the control protocol.
    Control(Value),
    /// The program is to end: the turn is stopped, with this exit code.
    End(u8),
    /// There is nobody who could say more.
    Closed,
    /// What somebody said is nothing that can be understood.
    Nonsense(String),
}

/// What somebody says.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// Blocks, as JSON.
    pub blocks: Vec<String>,
    /// The id that its record is to have.
    pub id: Option<String>,
    /// The line that it came on, if it is to be shown again.
    pub line: Option<Value>,
}

impl Said {
    /// A text.
    pub fn text(text: &str) -> Said {
        Said { blocks: vec![text_block(text)], ..Said::default() }
    }
}
