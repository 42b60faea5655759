//! What the console hears, and what it wants.

use std::time::Duration;

use serde_json::Value;

use crate::composer::{Image, Prompt};
use crate::question::{Answer, Question};
use crate::text::Line;

use super::status::Meter;

/// What happens in a session.
#[derive(Clone, Debug)]
pub enum News {
    /// A turn begins.
    Begin,
    /// The prompt of the turn has this id.
    Prompted(String),
    /// The model writes.
    Text(String),
    /// The model thinks.
    Thinking(String),
    /// A block of the answer is complete.
    BlockEnd,
    /// A call is about to run, or to be asked about.
    Call {
        /// Its id.
        id: String,
        /// The name of the tool.
        name: String,
        /// Its input.
        input: Value,
    },
    /// What a call has written so far.
    Output {
        /// The id of the call.
        id: String,
        /// The last lines.
        text: String,
    },
    /// A call has its result.
    Result {
        /// The id of the call.
        id: String,
        /// Whether it failed.
        is_error: bool,
        /// What the model gets.
        text: String,
        /// The result as a structure.
        detail: Value,
    },
    /// Somebody must decide.
    Ask(Box<Question>),
    /// A question is not asked any more.
    Withdraw(String),
    /// The API failed, and is asked again.
    Retry(String, Duration),
    /// Something to know.
    Notice(String),
    /// The turn is over.
    End(Ending),
    /// The permission mode is another one.
    Mode(String),
    /// The model is another one.
    Model(String),
    /// Tokens and money.
    Meter(Meter),
    /// The context is another one, of unknown size.
    Shortened,
    /// The branch that is checked out.
    Branch(Option<String>),
    /// The agents at work.
    Agents(Vec<AgentRow>),
    /// The todo list.
    Todos(Vec<Todo>),
    /// The commands in the background.
    Tasks(Vec<Task>),
    /// The files that can be named.
    Files(Vec<String>),
    /// What the user's command for the status line printed.
    StatusLine(Vec<Line<'static>>),
    /// Lines of a command of the console.
    Lines(Vec<Line<'static>>),
    /// The end of what a command of the user's has printed so far.
    Printed(String),
    /// A text for the composer.
    Write(String),
    /// An image for the composer.
    Image(Image),
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With an answer.
    Answered,
    /// The user stopped it.
    Interrupted,
    /// For this reason.
    Failed(String),
}

/// An agent at work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentRow {
    /// What it does.
    pub about: String,
    /// What it does now.
    pub now: String,
    /// How many calls it has made.
    pub calls: usize,
    /// Whether it has finished.
    pub is_done: bool,
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Todo {
    /// In words.
    pub text: String,
    /// Its state.
    pub state: TodoState,
}

/// The state of a todo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TodoState {
    /// Not begun.
    Open,
    /// At work.
    Now,
    /// Done.
    Done,
}

impl Todo {
    /// The list in the input or result of a call.
    pub fn list(value: &Value) -> Vec<Todo> {
        let todo = |one: &Value| {
            let state = match one["status"].as_str() {
                Some("completed") => TodoState::Done,
                Some("in_progress") => TodoState::Now,
                _ => TodoState::Open,
            };
            Some(Todo { text: one["content"].as_str()?.to_owned(), state })
        };
        value.as_array().into_iter().flatten().filter_map(todo).collect()
    }
}

/// A command in the background.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its id.
    pub id: String,
    /// The command.
    pub command: String,
}

/// What the console wants.
#[derive(Clone, Debug, PartialEq)]
pub enum Wish {
    /// Send a prompt.
    Say(Prompt),
    /// The last prompt counts as not sent: nothing came of it.
    Unsay,
    /// Stop the turn.
    Interrupt,
    /// Go on with what a command does in the background.
    Background,
    /// Switch to the mode after this one.
    NextMode,
    /// An answer to a question.
    Answer(Box<Question>, Answer),
    /// A command of the console: its name, and what follows.
    Command(String, String),
    /// What a key of its own stands for: the name of a command of the console.
    Key(&'static str),
    /// Run a command of the user's.
    Shell(String),
    /// Write the prompt in an editor.
    Edit,
    /// Write the plan that is asked about in an editor.
    EditPlan,
    /// Take the image in the clipboard.
    PasteImage,
    /// Go back to an earlier prompt.
    Rewind,
    /// Stop the process until the shell continues it.
    Suspend,
    /// Draw everything anew.
    Redraw,
    /// Attract attention.
    Ring(String),
    /// Leave.
    Leave,
}
