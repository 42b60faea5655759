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
    /// The user leaves the session: the turn is stopped.
    Leave(Departure),
    /// There will be no more prompts.
    Closed,
    /// An input that cannot be understood, and why.
    Nonsense(String),
}

/// Why a user leaves a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// For the shell.
    Exit,
    /// For a new session.
    Clear,
    /// For another session.
    Resume,
}

impl Departure {
    /// As hooks know it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Departure::Exit => "prompt_input_exit",
            Departure::Clear => "clear",
            Departure::Resume => "resume",
        }
    }
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
    /// A hook that nothing waited for is done: the number of the run, and what it did.
    Aside(u64, Box<(Hook, Ran)>),
    /// The summary with this number, and what it took.
    Summarised(u64, Summarised),
    /// The model is to be asked for the summary with this number again.
    SummaryDue(u64),
    /// What a command of the user stands for; the number of the expansion.
    Expanded(u64, String),
    /// A person has not answered for a while; the id of the question.
    Unanswered(String),
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
    /// The record of a command of the user in place of what was typed.
    pub typed: Option<String>,
    /// What such a command stands for.
    pub body: Option<String>,
    /// What a shell command of the user's printed: a record of its own, after the command.
    pub printed: Option<String>,
    /// Whether it is sent as it is: no command is run, and nothing that it mentions is read.
    pub is_verbatim: bool,
    /// If it is `/compact`: the prompt from which on the conversation is summarised.
    pub since: Option<String>,
}

impl Said {
    /// A plain text.
    pub fn text(text: &str) -> Said {
        Said { blocks: vec![text_block(text)], ..Said::default() }
    }

    /// A wish that what follows a prompt, itself included, is summarised.
    pub fn compact_since(prompt: &str) -> Said {
        Said { since: Some(prompt.to_owned()), ..Said::text("/compact") }
    }

    /// What the program itself has to say: nobody typed it, whatever it quotes.
    pub(crate) fn notice(text: &str) -> Said {
        Said { is_verbatim: true, ..Said::text(text) }
    }

    /// A shell command that the user ran, and what it printed.
    pub fn shell(command: &str, stdout: &str, stderr: &str) -> Said {
        let printed =
            format!("<bash-stdout>{stdout}</bash-stdout><bash-stderr>{stderr}</bash-stderr>");
        let command = Said::text(&format!("<bash-input>{command}</bash-input>"));
        Said { printed: Some(printed), ..command }
    }
}
