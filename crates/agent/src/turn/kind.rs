//! What goes into the machine, and what comes out of it.

use std::time::Duration;

use crate::api::ApiError;
use crate::api::stream::Ending;
use crate::tool::Answer;

/// What happens to a turn.
#[derive(Clone, Debug)]
pub enum Input {
    /// Somebody says something. While a turn runs, it waits for its next request.
    Prompt(Prompt),
    /// The API took the request.
    Accepted(String),
    /// The answer begins: the message without content.
    Started(String),
    /// A block of it is complete.
    Block(String),
    /// The same of a call that names a key: the block as it may be recorded, shown and sent, and
    /// the input as it came, which is what runs.
    Call(String, String),
    /// It is complete.
    Ended(Ending),
    /// There is none, or no whole one. The number is chance, from 0 to 1.
    Failed(ApiError, f64),
    /// The time to wait is over.
    Waited,
    /// A call has its answer.
    Answered(String, Answer),
    /// Somebody wants it to stop.
    Interrupt,
    /// Something could not be recorded.
    Unwritable(String),
}

/// What is to be done.
#[derive(Clone, Debug)]
pub enum Effect {
    /// This goes into the transcript.
    Record(Entry),
    /// This block is complete; it is recorded once it is known whether it is the last.
    Show(Block),
    /// What was recorded of the answer is not part of the conversation: another one takes its place.
    Rewind,
    /// The conversation is sent.
    Ask,
    /// Nothing is done for a while, because of this; so many times by now.
    Wait(Duration, ApiError, u32),
    /// A call is carried out.
    Run(Wanted),
    /// What runs is to end: the answer that comes in, and every call.
    Stop,
    /// The turn is over.
    Done(Outcome),
}

/// What somebody says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    /// The id that its record gets.
    pub id: String,
    /// Blocks, as JSON.
    pub blocks: Vec<String>,
}

/// What goes into the transcript.
#[derive(Clone, Debug)]
pub enum Entry {
    /// What somebody says.
    Prompt(Prompt),
    /// What the client says for itself.
    Meta(String),
    /// A block of an answer.
    Block(Block),
    /// The answer to a call.
    Result(String, Answer),
    /// Somebody stopped it.
    Interrupted(&'static str),
    /// The API failed for good.
    Failed(ApiError),
}

/// A block of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its number in this session.
    pub number: u64,
    /// The message as far as it is known, with this block as its content.
    pub message: String,
    /// The block.
    pub block: String,
    /// The API's id of the request.
    pub request: Option<String>,
    /// The id of the call that it is.
    pub call: Option<String>,
}

/// A call that is to be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The API's id of it.
    pub id: String,
    /// The tool.
    pub name: String,
    /// What is asked for, as JSON.
    pub input: String,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With an answer, for this reason.
    Answered(Option<String>),
    /// With an answer that is none, or not all of one; why, and what to do.
    Unfinished(&'static str),
    /// There were as many rounds as were allowed.
    MaxTurns(u32),
    /// Somebody stopped it.
    Interrupted,
    /// The API failed.
    Failed(ApiError),
    /// The transcript could not be written.
    Unwritable(String),
}
