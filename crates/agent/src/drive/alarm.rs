//! What agents get after a while, and the notes that come before.
//!
//! Invariant: nothing waits beyond the first alarm; a note that is there comes before an alarm.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::{Note, Report};
use crate::event::AgentId;

/// What is due, by the time and the order in which it was set.
#[derive(Debug, Default)]
pub(super) struct Alarms {
    all: BTreeMap<(Instant, u64), (AgentId, Report)>,
    next: u64,
}

impl Alarms {
    /// Has an agent get this after a while.
    pub(super) fn set(&mut self, wait: Duration, agent: AgentId, report: Report) {
        // What is too far away never comes.
        let Some(at) = Instant::now().checked_add(wait) else { return };
        self.all.insert((at, self.next), (agent, report));
        self.next += 1;
    }

    /// The next note, or what is due; at most so long is waited for it.
    pub(super) fn receive(
        &mut self,
        inbox: &Receiver<Note>,
        most: Option<Duration>,
    ) -> Result<Note, RecvTimeoutError> {
        let first = self.all.keys().next();
        let first = first.map(|(at, _)| at.saturating_duration_since(Instant::now()));
        let heard = match most.into_iter().chain(first).min() {
            Some(wait) => inbox.recv_timeout(wait),
            None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match heard {
            Err(RecvTimeoutError::Timeout) => self.due().ok_or(RecvTimeoutError::Timeout),
            heard => heard,
        }
    }

    fn due(&mut self) -> Option<Note> {
        let first = self.all.first_entry()?;
        let is_due = first.key().0 <= Instant::now();
        let (agent, report) = is_due.then(|| first.remove())?;
        Some(Note::From(agent, report))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn late(note: Result<Note, RecvTimeoutError>) -> String {
        match note {
            Ok(Note::From(_, Report::Late(id))) => id,
            Ok(Note::Closed) => "closed".to_owned(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn what_is_due_comes_in_order_behind_the_notes_that_are_there() {
        let (notes, inbox) = mpsc::channel();
        let mut alarms = Alarms::default();
        for (millis, id) in [(30, "third"), (10, "first"), (20, "second")] {
            let report = Report::Late(id.to_owned());
            alarms.set(Duration::from_millis(millis), AgentId::Main, report);
        }
        alarms.set(Duration::MAX, AgentId::Main, Report::Late("never".to_owned()));
        notes.send(Note::Closed).unwrap();
        let heard: Vec<String> = (0..4).map(|_| late(alarms.receive(&inbox, None))).collect();
        assert_eq!(heard, ["closed", "first", "second", "third"]);
        let nothing = alarms.receive(&inbox, Some(Duration::ZERO));
        assert!(matches!(nothing, Err(RecvTimeoutError::Timeout)));
        drop(notes);
        let nothing = alarms.receive(&inbox, None);
        assert!(matches!(nothing, Err(RecvTimeoutError::Disconnected)));
    }
}
