//! Shows a session to a person or a program, and asks them.
//!
//! [`Headless`] prints one text, one JSON object, or one event per line, in the form of Claude
//! Code.

mod headless;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::event::{AgentId, Event};
use crate::model::Usage;
use crate::turn::Outcome;

pub(crate) use headless::usage;
pub use headless::{Format, Headless, Init};

/// Follows what happens.
pub trait Listener {
    /// Something happens to an agent.
    fn event(&mut self, agent: &AgentId, event: &Event);
}

/// A listener that can also be asked: a program without a screen, or a screen.
///
/// What a host wants reaches the session as a [`Note`](crate::drive::Note).
pub trait Host: Listener {
    /// Whether the output is no longer read.
    fn is_gone(&self) -> bool {
        false
    }
    /// Asks something. Returns whether anybody is asked; the answer comes as
    /// [`Note::Decide`](crate::drive::Note::Decide) or
    /// [`Note::Reply`](crate::drive::Note::Reply), and may take any time.
    fn ask(&mut self, _: &Asked) -> bool {
        false
    }
    /// A question is not asked any more.
    fn withdraw(&mut self, _: &str) {}
    /// Calls a hook of the host. Returns whether there is one to call; its answer comes as
    /// [`Note::Reply`](crate::drive::Note::Reply).
    fn call_back(&mut self, _: &Callback<'_>) -> bool {
        false
    }
}

/// A call of a hook of the host.
#[derive(Clone, Copy, Debug)]
pub struct Callback<'a> {
    /// The id of the request.
    pub request: &'a str,
    /// The id of the hook.
    pub callback: &'a str,
    /// What the hook gets.
    pub input: &'a Value,
    /// The id of the tool call that it is about.
    pub call: Option<&'a str>,
}

/// A question whether a call may run.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The agent that wants the call.
    pub agent: AgentId,
    /// The id of the request.
    pub request: String,
    /// The id of the call.
    pub call: String,
    /// The name of the tool.
    pub tool: String,
    /// The input of the call.
    pub input: Value,
    /// Why it is asked.
    pub why: String,
    /// The file that it is about.
    pub path: Option<String>,
    /// The rule that would allow it.
    pub rule: Option<String>,
    /// The parts of a command, and what was decided about each.
    pub parts: Vec<rules::Part>,
    /// What is asked about it.
    pub what: AskedWhat,
    /// What it would do to a file, or why it could not; None if it writes none, or if a program is
    /// asked.
    pub preview: Option<Result<Preview, String>>,
}

/// What a call would do to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preview {
    /// The file.
    pub path: String,
    /// What is in it; None if there is no such file.
    pub before: Option<String>,
    /// What would be in it.
    pub after: String,
}

/// What is asked about a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AskedWhat {
    /// Whether it may run.
    #[default]
    Call,
    /// Whether it runs again outside the sandbox.
    Outside,
    /// Whether the plan in its input (`plan`) is carried out. `updates` of the answer can switch
    /// the mode.
    Plan,
    /// The questions in its input (`questions`): the answer's input has `answers` in addition, the
    /// chosen label for each question.
    Questions,
}

/// Who is asked whether calls may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asking {
    /// Nobody: what would be a question is refused.
    #[default]
    Nobody,
    /// The program that hosts the session, by control requests.
    Host,
}

/// Who follows a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Audience {
    /// A program, or nobody.
    #[default]
    Program,
    /// A person, who can be asked and may switch the permission mode at any time.
    Person,
}

/// The outcome of a turn.
#[derive(Clone, Debug)]
pub struct Summary {
    /// How it ended.
    pub outcome: Outcome,
    /// The last text of the last answer.
    pub text: String,
    /// Milliseconds in total.
    pub taken: i64,
    /// The part of `taken` that was spent waiting for the API.
    pub api: i64,
    /// The number of tool results, plus one.
    pub turns: u32,
    /// The tokens of this turn.
    pub usage: Usage,
    /// The tokens of the whole run, by model.
    pub models: BTreeMap<String, Usage>,
    /// Calls that were not permitted.
    pub denials: Vec<Value>,
    /// What the turn returned in the form that was asked for.
    pub output: Option<Value>,
}

impl Summary {
    /// The exit code.
    pub fn code(&self) -> u8 {
        u8::from(self.is_error())
    }

    fn is_error(&self) -> bool {
        !matches!(
            self.outcome,
            Outcome::Answered(_) | Outcome::Halted(_) | Outcome::Deferred(_) | Outcome::Blocked(_)
        )
    }

    /// The cost of the run; None if it is not known.
    fn cost(&self) -> Option<f64> {
        let mut costs = self.models.iter().map(|(model, usage)| Some(usage.cost(model)?.total()));
        costs.try_fold(0.0, |sum, cost| Some(sum + cost?))
    }

    /// The text that a person sees.
    pub(crate) fn in_words(&self) -> String {
        match &self.outcome {
            Outcome::Blocked(why) => why.clone(),
            Outcome::Halted(why) if self.text.is_empty() => why.clone(),
            Outcome::Answered(_) | Outcome::Halted(_) | Outcome::Deferred(_) => self.text.clone(),
            Outcome::Unfinished(why) if self.text.is_empty() => (*why).to_owned(),
            Outcome::Unfinished(why) => format!("{}\n{why}", self.text),
            Outcome::MaxTurns(most) => format!("Error: Reached max turns ({most})"),
            Outcome::NoOutput(most) => {
                format!("Error: no valid StructuredOutput call after {most} reminders")
            }
            Outcome::OverBudget => "Error: Reached maximum budget".to_owned(),
            Outcome::Interrupted => INTERRUPTED.to_owned(),
            Outcome::Failed(error) => error.to_string(),
            Outcome::Unwritable(why) => format!("The session could not be written: {why}"),
        }
    }
}

/// The text that a person sees after an interrupted turn.
const INTERRUPTED: &str = "Interrupted.";
