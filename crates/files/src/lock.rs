//! Locks that die with the process that holds them.
//!
//! A lock is a file of its own; the system's lock on it counts, what stands in it only says who holds it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::private::{make_private_folder, parent};

/// A lock that is held as long as this lives.
#[derive(Debug)]
pub struct Held {
    _file: File,
}

/// What came of trying to take a lock.
#[derive(Debug)]
pub enum Lock {
    /// It is ours.
    Held(Held),
    /// Another process holds it; what that said about itself, if it said anything.
    Busy(String),
}

/// Takes a lock if nobody else holds it. `who` is what others are told, such as "process 17 (quipu ship)".
pub fn try_lock(path: &Path, who: &str) -> io::Result<Lock> {
    make_private_folder(parent(path))?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        options.custom_flags(i32::try_from(flags.bits()).unwrap_or_default()).mode(0o600);
    }
    let mut file = options.open(path)?;
    match file.try_lock() {
        Ok(()) => {
            // Whoever is not told who it is is told that it is somebody.
            let _ = file.set_len(0).and_then(|()| file.write_all(who.as_bytes()));
            Ok(Lock::Held(Held { _file: file }))
        }
        Err(TryLockError::WouldBlock) => {
            let mut bytes = Vec::new();
            let _ = file.take(LONGEST).read_to_end(&mut bytes);
            Ok(Lock::Busy(String::from_utf8_lossy(&bytes).into_owned()))
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Takes a lock as soon as nobody else holds it, but does not wait longer than that.
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

/// So much of what a holder says about itself is read.
const LONGEST: u64 = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_has_it() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("locks/a");
        let Lock::Held(first) = try_lock(&path, "process 1 (a)").unwrap() else {
            panic!("nobody else has it")
        };
        let Lock::Busy(who) = lock(&path, "b", Duration::from_millis(30)).unwrap() else {
            panic!("the first has it")
        };
        assert_eq!(who, "process 1 (a)");
        drop(first);
        assert!(matches!(try_lock(&path, "b").unwrap(), Lock::Held(_)));
    }
}
