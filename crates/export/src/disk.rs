//! Files that are whole or not there, and that nobody else reads.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

/// Holds a file for as long as what is given lives; nothing if another process does, and we do not wait.
pub(crate) fn lock(path: &Path, wait: bool) -> io::Result<Option<File>> {
    files::make_private_folder(path.parent().unwrap_or(Path::new(".")))?;
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
    if wait {
        file.lock()?;
        return Ok(Some(file));
    }
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}

/// A name that can be a file's.
pub fn safe(name: &str) -> String {
    let kept = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let name: String = name.chars().map(|own| if kept(own) { own } else { '_' }).collect();
    name.trim_start_matches('.').chars().take(120).collect()
}
