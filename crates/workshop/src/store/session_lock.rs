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
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_session_has_one_owner_whatever_it_is_called() {
        let root = tempfile::tempdir().unwrap();
        let (locks, path) = (root.path().join("locks"), root.path().join("s.jsonl"));
        let link = root.path().join("link.jsonl");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let mut first = SessionLocks::default();
        // Also if it does not exist yet.
        first.take(&locks, &path, "chat").unwrap();
        std::io::Write::write_all(&mut fs::File::create(&path).unwrap(), b"x").unwrap();
        first.take(&locks, &link, "repair").unwrap();
        let mut second = SessionLocks::default();
        let Err(LockError::Busy(who)) = second.take(&locks, &link, "strip") else {
            panic!("the first has it")
        };
        assert_eq!(who, format!("process {} (quipu chat)", std::process::id()));
        drop(first);
        assert_eq!(fs::read_dir(&locks).unwrap().count(), 0, "its file goes with it");
        second.take(&locks, &path, "strip").unwrap();
    }
}
