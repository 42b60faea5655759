//! Locks that end with the process that holds them.
//!
//! A lock is a file of its own. Only the system's lock on it counts; its contents just name the
//! process that holds it. Invariant: a lock that is held is always on the file that has the name
//! now, so that lock files can be removed while they are held.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::private::{make_private_folder, open_private, parent};

/// A lock, held until this value is dropped.
#[derive(Debug)]
pub struct Held {
    /// Kept open: the lock ends when it is closed.
    _file: File,
    path: PathBuf,
}

impl Held {
    /// Releases the lock, and removes its file.
    pub fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

/// The result of an attempt to take a lock.
#[derive(Debug)]
pub enum Lock {
    /// This process has it now.
    Held(Held),
    /// Another process holds it; the text is that process's `who`, or empty.
    Busy(String),
}

/// Takes a lock if no other process holds it. `who` is the text that others get, such as "process
/// 17 (quipu ship)".
pub fn try_lock(path: &Path, who: &str) -> io::Result<Lock> {
    make_private_folder(parent(path))?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    loop {
        let mut file = open_private(&mut options, path)?;
        match file.try_lock() {
            // The file was removed after it was opened. A lock on a file that no other process can
            // find is worthless.
            Ok(()) if !is_at(&file, path) => {}
            Ok(()) => {
                // If this fails, others only learn that the lock is held.
                let _ = file.set_len(0).and_then(|()| file.write_all(who.as_bytes()));
                return Ok(Lock::Held(Held { _file: file, path: path.to_owned() }));
            }
            Err(TryLockError::WouldBlock) => {
                let mut bytes = Vec::new();
                let _ = file.take(LONGEST).read_to_end(&mut bytes);
                return Ok(Lock::Busy(String::from_utf8_lossy(&bytes).into_owned()));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let (Ok(one), Ok(other)) = (file.metadata(), fs::symlink_metadata(path)) else { return false };
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// On systems where an open file cannot be removed.
#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> bool {
    true
}

/// Removes the lock files in a folder that no process holds any more.
pub fn sweep_locks(folder: &Path) -> io::Result<()> {
    let found = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    for entry in found {
        let entry = entry?;
        if entry.file_type()?.is_file()
            && let Lock::Held(held) = try_lock(&entry.path(), "")?
        {
            held.remove()?;
        }
    }
    Ok(())
}

/// Whether a process with that id is running. True on systems that cannot tell.
pub fn is_running(pid: u32) -> bool {
    #[cfg(unix)]
    {
        let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
        pid.is_some_and(|pid| {
            rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
        })
    }
    #[cfg(not(unix))]
    {
        let _ = pid;
        true
    }
}

/// Takes a lock as soon as no other process holds it, but waits no longer than `patience`.
pub fn lock(path: &Path, who: &str, patience: Duration) -> io::Result<Lock> {
    let begin = Instant::now();
    loop {
        let found = try_lock(path, who)?;
        if matches!(found, Lock::Held(_)) || begin.elapsed() >= patience {
            return Ok(found);
        }
        thread::sleep(Duration::from_millis(20).min(patience));
    }
}

/// How many bytes of the holder's `who` are read.
const LONGEST: u64 = 200;

#[cfg(test)]
#[path = "lock_tests.rs"]
mod tests;
