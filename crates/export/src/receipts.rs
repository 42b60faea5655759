//! What a receiver has of each session: one small file per session, in a folder of the receiver.
//!
//! Written after the receiver has confirmed something, never before. Losing a file costs only time:
//! everything is sent again under the same ids. Invariants: a file is complete or missing; a
//! damaged one counts as missing.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use transcript::conversation::place::safe_name;

use crate::disk;

/// What is done when a batch has arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Update {
    /// The session, by the name of its file.
    pub session: String,
    /// The units that have arrived, by their keys, with their marks.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub done: BTreeMap<String, String>,
    /// How far the session was read, once everything finished has arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
}

/// How far a session was read and shipped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The session's file.
    pub path: PathBuf,
    /// The last line of the last finished turn.
    pub line: u64,
    /// The length of the file when it was read.
    pub byte: u64,
    /// How many finished turns there were.
    pub turns: usize,
    /// The id of the record that opened the last of them.
    pub last_prompt: Option<String>,
    /// A hash of the paths, sizes and times of the session's files; None if something in the
    /// session was not finished.
    pub look: Option<String>,
}

/// What a receiver has of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// How far the session was read.
    pub position: Option<Position>,
    /// The units that have arrived, by their keys, with their marks.
    pub done: BTreeMap<String, String>,
}

impl State {
    /// Adds what has arrived.
    pub fn apply(&mut self, update: &Update) {
        self.done.extend(update.done.clone());
        if update.position.is_some() {
            self.position.clone_from(&update.position);
        }
    }
}

/// The states of all sessions.
#[derive(Clone, Debug)]
pub struct States {
    folder: PathBuf,
}

/// The most bytes that the file of a session may have.
const LONGEST: u64 = 64 << 20;

impl States {
    /// The states in that folder, which need not exist.
    pub fn at(folder: &Path) -> States {
        States { folder: folder.to_owned() }
    }

    /// What is known of a session. A damaged file counts as missing.
    pub fn load(&self, session: &str) -> State {
        disk::load(&self.path(session), LONGEST).unwrap_or_default()
    }

    /// Records what has arrived.
    pub fn apply(&self, updates: &[Update]) -> io::Result<()> {
        let mut changed: BTreeMap<&str, State> = BTreeMap::new();
        for update in updates {
            let entry = changed.entry(&update.session);
            entry.or_insert_with(|| self.load(&update.session)).apply(update);
        }
        changed.iter().try_for_each(|(session, state)| self.save(session, state))
    }

    /// Writes what is known of a session.
    pub fn save(&self, session: &str, state: &State) -> io::Result<()> {
        disk::save(&self.path(session), state)
    }

    /// When something last arrived.
    pub fn newest(&self) -> Option<std::time::SystemTime> {
        let files = fs::read_dir(&self.folder).ok()?.flatten();
        files.filter_map(|file| file.metadata().ok()?.modified().ok()).max()
    }

    fn path(&self, session: &str) -> PathBuf {
        self.folder.join(format!("{}.json", safe_name(session)))
    }
}

#[cfg(test)]
#[path = "receipts_tests.rs"]
mod tests;
