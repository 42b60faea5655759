//! What is known about whether a session continues.

use std::fs;
use std::time::{Duration, SystemTime};

use crate::conversation::Conversation;
use crate::conversation::id::AgentId;
use crate::conversation::place::{Agent, Session};
use crate::conversation::table::Answer;
use crate::conversation::turn::Step;
use crate::format::time::Time;

/// How long nothing must be written until an answer that does not say why it ended counts as ended:
/// some clients never write that.
pub const QUIET: Duration = Duration::from_secs(5 * 60);
/// How long nothing must be written until an open turn counts as abandoned: commands may take long.
pub const IDLE: Duration = Duration::from_secs(60 * 60);

/// What is known about whether a session continues, and since when. It does not apply to what was
/// opened later, even if that exists by the time it is asked. (The length of the file at that time
/// would not do: the client may write a whole turn after it has reported that it is over.)
#[derive(Clone, Debug)]
pub struct Closing {
    /// When the client reported that the turn is over.
    pub stopped: Time,
    /// When the session ended; the latest possible time if nothing was written for long.
    pub ended: Time,
    /// The ids of the sub-agents that the client reports as done.
    pub agents: Vec<AgentId>,
}

/// Nothing is known.
impl Default for Closing {
    fn default() -> Self {
        Closing { stopped: NEVER, ended: NEVER, agents: Vec::new() }
    }
}

/// Before any other time, and after any other time.
const NEVER: Time = Time(i64::MIN);
const ALWAYS: Time = Time(i64::MAX);

impl Closing {
    /// The whole session is over.
    pub fn ended() -> Closing {
        Closing { ended: ALWAYS, ..Closing::default() }
    }

    /// What follows from how long nothing was written to a session and to its sub-agents.
    pub fn by_time(session: &Session, agents: &[Agent], now: SystemTime) -> Closing {
        let files = agents.iter().map(|agent| &agent.path).chain([&session.path]);
        let newest = files.filter_map(|path| fs::metadata(path).ok()?.modified().ok()).max();
        let silent = newest.and_then(|newest| now.duration_since(newest).ok()).unwrap_or_default();
        let after = |least: Duration| if silent > least { ALWAYS } else { NEVER };
        Closing { stopped: after(QUIET), ended: after(IDLE), ..Closing::default() }
    }

    /// The same, and what a client reported.
    #[must_use]
    pub fn or(mut self, reported: &Closing) -> Closing {
        self.stopped = self.stopped.max(reported.stopped);
        self.ended = self.ended.max(reported.ended);
        self.agents.clone_from(&reported.agents);
        self
    }
}

/// Whether the last turn of a session is complete and contains the reason why it ended: the client
/// writes the last lines late.
pub fn is_complete(session: &Session) -> crate::Result<bool> {
    let conversation = Conversation::open(&session.path)?;
    let turns = conversation.turns().live;
    let Some(last) = turns.last() else { return Ok(true) };
    let mut answers = last.steps.iter().filter_map(|step| match step {
        Step::Answer { id, .. } => Some(conversation.table.answer(*id)),
        _ => None,
    });
    Ok(last.outcome.is_complete() && answers.next_back().is_none_or(Answer::is_final))
}
