//! Files of sessions, and the client's settings, written so that nothing is lost, and a journal to take it back.
//!
//! A file is replaced like this: the new one is complete on disk, in the same folder under another name; a copy of the old one is complete in the journal, with an entry that
//! says what is about to happen; then one rename. New files are written under another name first, too, and never take the place of one that is there. Invariants: whenever
//! the program is stopped, the old file or the new one is whole; what the journal has can be brought back; nothing outside of the journal is ever deleted, but files that the entry to be taken back made and nobody changed since.

mod disk;
mod journal;

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

pub(crate) use disk::{Disk, Real, private, take_after};
pub(crate) use journal::{Entry, Item, Journal, Was};

/// What tells whether a file has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    size: u64,
    /// Nanoseconds since 1970.
    modified: u128,
}

impl Mark {
    pub(crate) fn of(path: &Path) -> io::Result<Mark> {
        fs::metadata(path).map(|found| Mark::of_metadata(&found))
    }

    pub(crate) fn of_metadata(found: &Metadata) -> Mark {
        let modified = found.modified().unwrap_or(UNIX_EPOCH);
        let modified = modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        Mark { size: found.len(), modified }
    }
}

/// A file that is ready to take its place.
#[derive(Clone, Debug)]
pub(crate) struct Ready {
    /// Where it is complete.
    pub(crate) temp: PathBuf,
    /// Where it is to be.
    pub(crate) path: PathBuf,
}

/// What a change does to files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deed<'a> {
    /// The command.
    pub(crate) what: &'a str,
    /// The session that it is about; `settings` for those of the client.
    pub(crate) session: &'a str,
    pub(crate) now: SystemTime,
}

/// Puts a file in the place of another, which is what `was` says. What the journal calls the entry.
pub(crate) fn replace(
    disk: &mut dyn Disk,
    journal: &Journal,
    deed: Deed<'_>,
    ready: &Ready,
    was: Mark,
) -> io::Result<String> {
    let entry = journal.begin(disk, deed)?;
    let copy = entry.folder.join("0");
    disk.copy(&ready.path, &copy)?;
    let after = Mark::of(&ready.temp)?;
    let item = Item { path: ready.path.clone(), was: Was::There { copy, before: was }, after };
    entry.finish(disk, deed, &[item])?;
    // The last look: whoever wrote since then would lose what they wrote.
    if Mark::of(&ready.path)? != was {
        journal.forget(disk, &entry.name)?;
        return Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "the file has changed since it was read",
        ));
    }
    disk.rename(&ready.temp, &ready.path)?;
    Ok(entry.name)
}

/// Puts new files in their places, none of which may be there. The first is the session's own, and comes last.
pub(crate) fn create(
    disk: &mut dyn Disk,
    journal: &Journal,
    deed: Deed<'_>,
    ready: &[Ready],
) -> io::Result<String> {
    let entry = journal.begin(disk, deed)?;
    let items = ready.iter().map(|one| {
        Ok(Item { path: one.path.clone(), was: Was::Nothing, after: Mark::of(&one.temp)? })
    });
    let items: Vec<Item> = items.collect::<io::Result<_>>()?;
    entry.finish(disk, deed, &items)?;
    let mut placed: Vec<&Path> = Vec::new();
    for one in ready.iter().rev() {
        if let Err(error) = disk.place(&one.temp, &one.path) {
            // All of it or nothing.
            for path in placed {
                disk.remove(path)?;
            }
            journal.forget(disk, &entry.name)?;
            return Err(error);
        }
        placed.push(&one.path);
    }
    Ok(entry.name)
}

/// Removes files that did not come to their places.
pub(crate) fn discard(ready: &[Ready]) {
    for one in ready {
        // What is not there need not go.
        let _ = fs::remove_file(&one.temp);
    }
}

/// Takes an entry of the journal back. With `force` also what was changed since; that is kept in a new entry.
pub(crate) fn undo(
    disk: &mut dyn Disk,
    journal: &Journal,
    entry: &Entry,
    now: SystemTime,
    force: bool,
) -> Result<Vec<PathBuf>, UndoError> {
    for item in &entry.items {
        let is = Mark::of(&item.path).ok();
        let is_expected = match item.was {
            // Where nothing is, nothing can be lost.
            Was::There { before, .. } => {
                is.is_none() || is == Some(item.after) || is == Some(before)
            }
            Was::Nothing => is.is_none() || is == Some(item.after),
        };
        if !is_expected && !force {
            return Err(UndoError::Changed(item.path.clone()));
        }
    }
    let mut done = Vec::new();
    for item in &entry.items {
        let is = Mark::of(&item.path).ok();
        let failed = |error| UndoError::Io(item.path.clone(), error);
        if is.is_some()
            && is != Some(item.after)
            && !matches!(item.was, Was::There { before, .. } if is == Some(before))
        {
            let deed = Deed { what: "undo", session: &entry.session, now };
            let saved = journal.begin(disk, deed).map_err(failed)?;
            let copy = saved.folder.join("0");
            disk.copy(&item.path, &copy).map_err(failed)?;
            let was = is.unwrap_or(item.after);
            // It is what it was before, once this is done; or nothing.
            let after = match item.was {
                Was::There { before, .. } => before,
                Was::Nothing => item.after,
            };
            let kept =
                Item { path: item.path.clone(), was: Was::There { copy, before: was }, after };
            saved.finish(disk, deed, &[kept]).map_err(failed)?;
        }
        match &item.was {
            Was::There { copy, before } => {
                let temp = beside(&item.path);
                disk.copy(copy, &temp).map_err(failed)?;
                disk.set_modified(&temp, before.modified).map_err(failed)?;
                // The last look, as above.
                if Mark::of(&item.path).ok() != is {
                    disk.remove(&temp).map_err(failed)?;
                    return Err(UndoError::Changed(item.path.clone()));
                }
                disk.rename(&temp, &item.path).map_err(failed)?;
                done.push(item.path.clone());
            }
            Was::Nothing if is.is_some() => {
                disk.remove(&item.path).map_err(failed)?;
                done.push(item.path.clone());
                disk.remove_empty(&item.path, &entry.items[0].path);
            }
            Was::Nothing => {}
        }
    }
    let failed = |error| UndoError::Io(entry.folder.clone(), error);
    journal.forget(disk, &entry.name).map_err(failed)?;
    Ok(done)
}

/// Why an entry is not taken back.
#[derive(Debug)]
pub(crate) enum UndoError {
    /// Somebody has written to the file since.
    Changed(PathBuf),
    Io(PathBuf, io::Error),
}

/// A name beside a file that no client takes for a session.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.quipu", std::process::id()))
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
