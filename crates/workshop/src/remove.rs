//! Removes a session with everything that belongs to it: into the journal, from which `undo`
//! restores it, or for good.
//!
//! Invariants: a session that another process uses is left alone; the session's own file goes
//! first, in one step, so that a run that is stopped has removed the session or has not, and the
//! next run does the rest; what other sessions use too stays.

use std::fs;
use std::io::ErrorKind;

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
                self.refuse_if_live(session)?;
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
                removed.forgotten = self.for_good(session, &removed.files, notify)?;
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

    /// By way of the journal, which completes what is stopped in between.
    fn for_good(
        &self,
        session: &Session,
        all: &AllFiles,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Leftovers, Error> {
        let mut tell_pruned = |notice| {
            if !matches!(notice, Notice::KeptCopy) {
                notify(notice);
            }
        };
        let in_trash = match self.to_trash(session, all, &mut tell_pruned) {
            Ok(name) => Some(name),
            // Whoever deletes to get space back has none for the journal.
            Err(Error::Unwritable { source, .. }) if is_full(source.kind()) => {
                one_by_one(all)?;
                None
            }
            Err(error) => return Err(error),
        };
        self.journal()?
            .forget_session(&mut Real, &session.id, in_trash.as_deref())
            .map_err(Error::unwritable(&session.path))
    }
}

fn is_full(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

fn one_by_one(all: &AllFiles) -> Result<(), Error> {
    for file in &all.files {
        fs::remove_file(&file.path).map_err(Error::unwritable(&file.path))?;
        Real.remove_empty(&file.path, &file.inside.join("x"));
    }
    Ok(())
}
