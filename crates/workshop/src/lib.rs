//! Changes sessions, and loses nothing: a change is planned (`transcript::client::change`), written
//! beside the session, read again, proved, put in its place by one rename, and kept in a journal
//! from which it can be undone.
//!
//! A [`Job`] says what to change and by which [`Policy`]; [`Workshop::carry_out`] returns an
//! [`Outcome`], which the caller presents. [`store`] does the writing, for sessions and for the
//! client's settings.
//!
//! Invariants: unless the result goes in place, the session's own file is not opened for writing;
//! while a session is changed in place, no other quipu writes to it; a result that resumes less
//! well than the session is not put anywhere; a file given by the user is the only thing written
//! if there is one.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests look at what was written"))]

mod all_files;
mod before_resume;
mod copies;
mod error;
mod job;
pub mod live;
mod output;
pub mod pack;
mod redact;
mod relocate;
mod remove;
pub mod store;
mod sum;
mod sum_up;
mod title;
mod work;

pub use all_files::{AllFiles, SessionFile};
pub use before_resume::RepairedFirst;
pub use copies::{CarriedAgent, Copies, carried_agents};
pub use error::{Error, OutputError};
pub use job::{Agents, Force, Ids, Job, Mode, Place, Plan, Policy, Read, Verb};
pub use output::DocumentFile;
pub use redact::{
    Elsewhere, Looked, Stand, Unreadable, form_of, look_through, refuse_files, shown_path,
    write_files,
};
pub use relocate::{Relocated, RelocatedSession, Relocation, map_session};
pub use remove::{Removed, Removing};
pub use sum_up::SumUpError;
pub use title::without_secrets;
pub use work::{Done, Notice, Outcome};

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use store::{Bounds, Journal, LockError, SessionLocks};

/// Where changes are made: the journal, and the locks of the sessions that this process writes to.
#[derive(Debug)]
pub struct Workshop {
    /// The folder of the journal and of the locks, if there can be one.
    state: Option<PathBuf>,
    bounds: Bounds,
    now: SystemTime,
    locks: SessionLocks,
}

impl Workshop {
    /// A workshop with its state in this folder; without one, it only shows changes and writes
    /// them to files of the user.
    pub fn new(state: Option<PathBuf>, bounds: Bounds, now: SystemTime) -> Workshop {
        Workshop { state, bounds, now, locks: SessionLocks::default() }
    }

    /// The journal of changes.
    pub fn journal(&self) -> Result<Journal, Error> {
        Ok(Journal::at(self.folder("undo")?, self.bounds))
    }

    /// Locks a session for writing, until the workshop is closed. `what` is the command.
    pub fn lock(&mut self, session: &Path, what: &str) -> Result<(), Error> {
        let locks = self.folder("locks")?;
        self.locks.take(&locks, session, what).map_err(|error| match error {
            LockError::Busy(who) => Error::Locked { path: session.to_owned(), who },
            LockError::Io(source) => Error::Unwritable { path: locks, source },
        })
    }

    fn folder(&self, name: &str) -> Result<PathBuf, Error> {
        self.state.as_ref().map(|state| state.join(name)).ok_or(Error::NoState)
    }
}
