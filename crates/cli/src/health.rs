//! Whether the newest sessions resume, as far as that can be found out in a moment.
//!
//! The check is that of `quipu check`, with the rules of the newest client. Invariants: no check
//! starts when the time is over, nor one that would clearly take longer than what is left; a
//! session that was not checked is not called healthy.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use transcript::client::check::{Code, Report, Verdict, check_with};
use transcript::client::history::Rules;
use transcript::conversation::place::{Agent, Beside, Session, agents_among};
use transcript::format::time::Time;

/// The outcome.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// How many sessions were checked.
    pub(crate) checked: usize,
    /// Those that do not resume fully, newest first.
    pub(crate) bad: Vec<(Session, Verdict)>,
    /// How many contain no conversation: there is nothing to resume, and nothing is lost.
    pub(crate) silent: usize,
    /// Those that could not be read.
    pub(crate) unreadable: Vec<transcript::Error>,
}

/// How many bytes can be checked in a millisecond, on a slow machine.
const BYTES_A_MILLISECOND: u128 = 50_000;

/// Checks as many sessions as there is time for, in their order; all of them if there is no limit.
pub(crate) fn look(sessions: &[Session], patience: Option<Duration>, now: Option<Time>) -> Health {
    let clock = Clock { begin: Instant::now(), patience };
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let projects = Projects::default();
    // Secrets do not affect whether a session resumes, so the user's rules for them are not needed.
    let redactor = Arc::default();
    let work = || {
        while clock.has_time() {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(session) = sessions.get(at) else { return };
            let Some(agents) = projects.agents(session, &clock) else { continue };
            if clock.is_enough_for(session, &agents) {
                let report = check_with(session, agents, Rules::newest(), now, &redactor);
                found.lock().unwrap_or_else(PoisonError::into_inner).push((at, report));
            }
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from).min(4);
    thread::scope(|scope| {
        for _ in 1..workers {
            scope.spawn(work);
        }
        work();
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(at, _)| *at);
    let mut health = Health::default();
    for (at, report) in found {
        health.add(&sessions[at], report);
    }
    health
}

impl Health {
    fn add(&mut self, session: &Session, report: transcript::Result<Report>) {
        match report {
            Ok(report) => {
                self.checked += 1;
                let is_silent = report.findings.iter().any(|one| one.code == Code::NoConversation);
                if is_silent {
                    self.silent += 1;
                } else if report.verdict != Verdict::Full {
                    self.bad.push((session.clone(), report.verdict));
                }
            }
            Err(error) => self.unreadable.push(error),
        }
    }
}

struct Clock {
    begin: Instant,
    patience: Option<Duration>,
}

impl Clock {
    fn left(&self) -> Duration {
        self.patience.map_or(Duration::MAX, |all| all.saturating_sub(self.begin.elapsed()))
    }

    fn has_time(&self) -> bool {
        self.left() > Duration::ZERO
    }

    fn is_enough_for(&self, session: &Session, agents: &[Agent]) -> bool {
        let sizes = agents.iter().filter_map(|agent| files::metadata(&agent.path).ok());
        let bytes = session.size + sizes.map(|found| found.len()).sum::<u64>();
        u128::from(bytes) <= self.left().as_millis().saturating_mul(BYTES_A_MILLISECOND)
    }
}

/// The files beside the sessions of each project, listed once. `None` for a project where that
/// takes too long.
#[derive(Default)]
struct Projects {
    known: Mutex<HashMap<PathBuf, Option<Arc<Beside>>>>,
}

impl Projects {
    /// The sub-agents' files of a session; `None` if there was no time to find them.
    fn agents(&self, session: &Session, clock: &Clock) -> Option<Vec<Agent>> {
        let project = session.path.parent().unwrap_or(Path::new("")).to_owned();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let beside = known.entry(project).or_insert_with_key(|project| {
            Beside::in_project_while(project, || clock.has_time()).map(Arc::new)
        });
        let beside = beside.clone();
        drop(known);
        beside.map(|beside| agents_among(session, &beside))
    }
}
