//! Removes a session with everything that belongs to it: into the journal, from which `undo`
//! restores it, or for good.
//!
//! Invariants: a session that another process uses is left alone; the session's own file goes
//! first, in one step, so that a run that is stopped has removed the session or has not; what other
//! sessions use too stays.

use std::fs;

use transcript::conversation::place::Session;

use crate::all_files::AllFiles;
use crate::error::Error;
use crate::job::{Force, Mode};
use crate::store::{self, Deed, Disk, KeptBy, Leaving, Leftovers, Real};
use crate::work::Notice;
use crate::{Workshop, live};

/// Where a removed session goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removing {
    /// Into the journal: it counts towards its bounds, and `undo` restores it.
    ToTrash,
    /// Nowhere; the changes of the session that the journal has are removed too.
    ForGood,
}

/// What was removed, or would be.
#[derive(Debug)]
pub struct Removed {
    pub files: AllFiles,
    /// Its name in the journal.
    pub entry: Option<String>,
    /// The changes of the session that the journal has no more.
    pub forgotten: Leftovers,
}

impl Workshop {
    /// Removes a session, or shows what would be removed.
    pub fn remove(
        &mut self,
        session: &Session,
        removing: Removing,
        (mode, force): (Mode, Force),
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Removed, Error> {
        if mode == Mode::Write {
            self.lock(&session.path, "rm")?;
            if force == Force::Never {
                live::refuse_if_live(session, self.now)?;
                live::refuse_if_protected(&session.path)?;
            }
        }
        let mut removed =
            Removed { files: AllFiles::of(session)?, entry: None, forgotten: Leftovers::default() };
        match (mode, removing) {
            (Mode::DryRun, _) => {}
            (Mode::Write, Removing::ToTrash) => {
                removed.entry = Some(self.to_trash(session, &removed.files, notify)?);
            }
            (Mode::Write, Removing::ForGood) => {
                removed.forgotten = self.for_good(session, &removed.files)?;
            }
        }
        Ok(removed)
    }

    fn to_trash(
        &self,
        session: &Session,
        all: &AllFiles,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<String, Error> {
        let deed = Deed { what: "rm", session: &session.id, made: None, now: self.now };
        let leaving: Vec<Leaving> = all.files.iter().map(Leaving::from).collect();
        let failed = || Error::unwritable(&session.path);
        let begun = self.journal()?.begin(&mut Real, deed, &[]).map_err(failed())?;
        if begun.pruned.count > 0 {
            notify(Notice::Pruned(begun.pruned));
        }
        let kept = store::exchange(&mut Real, &begun, deed, &[], &leaving);
        let name = begun.name.clone();
        let settled = begun.settle(&mut Real);
        if kept.map_err(failed())? == KeptBy::Copy {
            notify(Notice::KeptCopy);
        }
        settled.map_err(failed())?;
        Ok(name)
    }

    fn for_good(&self, session: &Session, all: &AllFiles) -> Result<Leftovers, Error> {
        for file in &all.files {
            fs::remove_file(&file.path).map_err(Error::unwritable(&file.path))?;
            Real.remove_empty(&file.path, &file.inside.join("x"));
        }
        let journal = self.journal()?;
        journal.forget_session(&mut Real, &session.id).map_err(Error::unwritable(&session.path))
    }
}
