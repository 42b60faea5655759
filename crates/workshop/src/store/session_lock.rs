//! Locks for writing to a session: one process at a time.
//!
//! Invariants: the lock of a session is named after the real path of its file, so every path to the
//! file leads to the same lock; it ends with its process; a process that already has it gets it
//! again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use files::{Held, Lock};
use sha2::{Digest, Sha256};

/// The sessions that this process writes to.
#[derive(Debug, Default)]
pub struct SessionLocks {
    held: Vec<(PathBuf, Option<Held>)>,
}

/// Why this process may not write to a session.
#[derive(Debug)]
pub enum LockError {
    /// Another process has the lock.
    Busy(String),
    Io(io::Error),
}

/// A process that only checks whether a lock is held has it for a moment.
const PATIENCE: Duration = Duration::from_millis(300);

impl SessionLocks {
    /// Locks a session, in this folder, until the program ends. `what` is the command.
    pub fn take(&mut self, locks: &Path, session: &Path, what: &str) -> Result<(), LockError> {
        let path = locks.join(name(session));
        if self.held.iter().any(|(held, _)| *held == path) {
            return Ok(());
        }
        files::sweep_locks(locks).map_err(LockError::Io)?;
        match files::lock(&path, &super::who(what), PATIENCE).map_err(LockError::Io)? {
            Lock::Held(held) => {
                self.held.push((path, Some(held)));
                Ok(())
            }
            Lock::Busy(who) => Err(LockError::Busy(who)),
        }
    }
}

impl Drop for SessionLocks {
    fn drop(&mut self) {
        for (_, held) in &mut self.held {
            // A leftover lock file is free, and the next process removes it.
            let _ = held.take().map(Held::remove);
        }
    }
}

/// The name of a session's lock.
fn name(session: &Path) -> String {
    let hash = Sha256::digest(real(session).as_os_str().as_encoded_bytes());
    format!("{hash:x}")
}

/// The real path of a file that need not exist, nor its folder.
fn real(path: &Path) -> PathBuf {
    match (fs::canonicalize(path), path.parent(), path.file_name()) {
        (Ok(found), ..) => found,
        (Err(_), Some(folder), Some(name)) => real(folder).join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
#[path = "session_lock_tests.rs"]
mod tests;
