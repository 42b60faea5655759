//! Files that are whole or not there, and that nobody else reads.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// Puts a file into its place in one step. Durable if it must outlive a power cut.
pub fn put(path: &Path, bytes: &[u8], is_durable: bool) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    make(folder)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // A process that is killed leaves its half behind; the next one with its number writes over it.
    let temp = folder.join(format!(".{name}.{}", std::process::id()));
    let written = write(&temp, bytes, is_durable).and_then(|()| fs::rename(&temp, path));
    if written.is_err() {
        // What is not there need not go.
        let _ = fs::remove_file(&temp);
    } else if is_durable {
        sync(folder)?;
    }
    written
}

fn write(path: &Path, bytes: &[u8], is_durable: bool) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    if is_durable { file.sync_all() } else { Ok(()) }
}

/// Folders cannot be opened everywhere; where they cannot, there is nothing to wait for.
fn sync(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Makes a folder that only its owner sees into.
pub(crate) fn make(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Holds a file for as long as what is given lives; nothing if another process does, and we do not wait.
pub(crate) fn lock(path: &Path, wait: bool) -> io::Result<Option<File>> {
    make(path.parent().unwrap_or(Path::new(".")))?;
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
