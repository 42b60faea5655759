//! Which files the model has seen, and as what: nobody changes a file that it has not read, or that has changed since.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// The files that were read or written in a session.
#[derive(Debug, Default)]
pub struct Seen(Mutex<HashMap<PathBuf, Stamp>>);

/// What a file was when it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    len: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    fn of(found: &Metadata) -> Stamp {
        Stamp { len: found.len(), modified: found.modified().ok() }
    }
}

/// Whether a file may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It is as the model knows it.
    Known,
    /// The model has not read it.
    Unread,
    /// It has changed since.
    Changed,
}

impl Seen {
    /// Notes a file as it was found, before it was read: what has changed while it was read was not seen.
    pub(crate) fn note(&self, path: &Path, found: &Metadata) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(path.to_owned(), Stamp::of(found));
    }

    /// Takes up a file that was seen at a time, in milliseconds, before the session was resumed; one that was changed later is not known any more.
    pub fn restore(&self, path: &Path, time: i64) {
        let Ok(found) = fs::metadata(path) else { return };
        let modified = found.modified().ok();
        let age =
            modified.and_then(|modified| modified.duration_since(SystemTime::UNIX_EPOCH).ok());
        if age.is_some_and(|age| i64::try_from(age.as_millis()).is_ok_and(|age| age <= time)) {
            self.note(path, &found);
        }
    }

    /// What the model knows of a file.
    pub(crate) fn state(&self, path: &Path) -> State {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match seen.get(path) {
            None => State::Unread,
            Some(stamp) if fs::metadata(path).is_ok_and(|now| Stamp::of(&now) == *stamp) => {
                State::Known
            }
            Some(_) => State::Changed,
        }
    }
}
