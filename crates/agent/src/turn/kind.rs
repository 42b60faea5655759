//! The inputs and effects of the state machine.

use std::time::Duration;

use crate::api::ApiError;
use crate::api::stream::Ending;
use crate::tool::Answer;

/// What happens to a turn.
#[derive(Clone, Debug)]
pub enum Input {
    /// The user says something. While a turn runs, it waits for the next request.
    Prompt(Prompt),
    /// The API accepted the request; its id.
    Accepted(String),
    /// The answer begins: the message without content.
    Started(String),
    /// A block of the answer is complete.
    Block(String),
    /// The same for a call whose input contains a key: the block in the form in which it may be
    /// recorded, shown and sent, and the original input, which is what runs.
    Call(String, String),
    /// The answer is complete.
    Ended(Ending),
    /// There is no answer, or an incomplete one. The number is random, from 0 to 1.
    Failed(ApiError, f64),
    /// The time to wait is over.
    Waited,
    /// What was decided about a call.
    Decided(String, Ruling),
    /// A call has its result.
    Answered(String, Answer),
    /// A text of the client for the model, which goes along with the next request.
    Remark(String),
    /// What the command stands for that the next prompt is.
    Expansion(String),
    /// What the shell command printed that the next prompt is.
    Printed(String),
    /// A text of the client after which the model is asked once more, although its turn was over.
    GoOn(String),
    /// The turn is to end before the next request; why.
    Halt(String),
    /// The run has cost what it may cost: the turn ends before the next request.
    OverBudget,
    /// The turn has returned what it was asked for, and the model has nothing to add.
    Complete,
    /// The user wants the turn to stop.
    Interrupt,
    /// Something could not be recorded.
    Unwritable(String),
}

/// What is to be done.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Write this to the transcript.
    Record(Entry),
    /// This block is complete; it is recorded once it is known whether it is the last.
    Show(Block),
    /// What was recorded of the answer is not part of the conversation: another answer replaces it.
    Rewind,
    /// Send the conversation.
    Ask,
    /// Wait this long because of this error; the number of failures so far.
    Wait(Duration, ApiError, u32),
    /// Decide whether a call may run.
    Decide(Wanted),
    /// Run a call.
    Run(Wanted),
    /// Stop what runs: the answer that is being received, and every call.
    Stop,
    /// The turn is over.
    Done(Outcome),
}

/// What the user says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    /// The id that its record gets.
    pub id: String,
    /// Blocks, as JSON.
    pub blocks: Vec<String>,
}

/// What is written to the transcript.
#[derive(Clone, Debug)]
pub enum Entry {
    /// What the user says.
    Prompt(Prompt),
    /// What the client itself says.
    Meta(String),
    /// What a command of the user stands for.
    Expansion(String),
    /// What a shell command of the user's printed.
    Printed(String),
    /// A block of an answer.
    Block(Block),
    /// The id of a call, and its result.
    Result(String, Answer),
    /// The user stopped the turn.
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
    /// The block, as JSON.
    pub block: String,
    /// The API's id of the request.
    pub request: Option<String>,
    /// The id of the call, if the block is a call.
    pub call: Option<String>,
}

/// A call that is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The API's id of the call.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The input, as JSON.
    pub input: String,
}

/// What was decided about a call.
#[derive(Clone, Debug)]
pub enum Ruling {
    /// It may run.
    Allow,
    /// It may run with this input, as JSON; the record keeps the input that the model gave.
    Change(String),
    /// It does not run; what the model gets instead.
    Deny(Answer),
    /// The same, and the turn ends.
    Interrupt(Answer),
    /// It does not run now. The turn ends once all other calls of the answer have results.
    Defer,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With an answer; its stop reason.
    Answered(Option<String>),
    /// With an answer that is empty or incomplete; why, and what to do.
    Unfinished(&'static str),
    /// The maximum number of rounds was reached.
    MaxTurns(u32),
    /// The run has cost what it may cost.
    OverBudget,
    /// What it has to return did not come, after so many reminders.
    NoOutput(u32),
    /// The user stopped it.
    Interrupted,
    /// A hook ended it; why.
    Halted(String),
    /// A hook put off this call.
    Deferred(Wanted),
    /// A hook refused the prompt; why.
    Blocked(String),
    /// The API failed.
    Failed(ApiError),
    /// The transcript could not be written.
    Unwritable(String),
}
