//! Files that are written whole, and files and folders that only their owner can read, whatever the
//! umask is.
//!
//! Invariants: after [`put`] and [`put_with`], the path has either the whole new file or what was
//! there before; a link, a pipe or a device that somebody put in the way is not written to.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use crate::fixed::NewAccess;
use crate::open::{not_a_link, open_folder_itself, refuse_special};

/// What a file must survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The end of the process.
    Process,
    /// A power cut: wait until the data is on disk.
    PowerCut,
}

/// Writes a private file to its place in one step (by renaming), and creates the folders around it.
pub fn put(path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
    let folder = parent(path);
    make_private_folder(folder)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // A killed process leaves its temporary file; the next process with the same id replaces it.
    let part = folder.join(format!(".{name}.{}", std::process::id()));
    put_with(path, &part, NewAccess::Private, |file| {
        file.write_all(bytes)?;
        if durability == Durability::PowerCut { file.sync_all() } else { Ok(()) }
    })?;
    if durability == Durability::PowerCut { sync_folder(folder) } else { Ok(()) }
}

/// Writes a file to its place in one step: `write` fills a new file with the name `part`, which
/// then gets the name `path`. Both are in the same folder. Whatever has the name `part` already, a
/// stopped run's file or a link, is removed.
pub fn put_with<T, E: From<io::Error>>(
    path: &Path,
    part: &Path,
    access: NewAccess,
    write: impl FnOnce(&mut File) -> Result<T, E>,
) -> Result<T, E> {
    let mut file = match create_new(part, access) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(part)?;
            create_new(part, access)?
        }
        created => created?,
    };
    let placed = write(&mut file).and_then(|done| {
        fs::rename(part, path)?;
        Ok(done)
    });
    if placed.is_err() {
        // A full disk has no place for what is of no use.
        let _ = fs::remove_file(part);
    }
    placed
}

/// Creates a file; one that exists is an error, whatever it is.
pub fn create_new(path: &Path, access: NewAccess) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if access == NewAccess::Private {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    #[cfg(not(unix))]
    let _ = access;
    options.open(path)
}

/// Creates an empty file that no other user can read. An existing file is truncated; a link is not
/// followed, and the call never waits: a pipe or a device is an error.
pub fn create_private(path: &Path) -> io::Result<File> {
    open_private(OpenOptions::new().write(true).create(true).truncate(true), path)
}

/// Opens a file that no other user can read, for appending, and for reading. It and the folders
/// around it are created if they are missing. A link is not followed, and the call never waits: a
/// pipe or a device is an error.
pub fn append_private(path: &Path) -> io::Result<File> {
    make_private_folder(parent(path))?;
    open_private(OpenOptions::new().read(true).append(true).create(true), path)
}

/// Opens a regular file at the path itself, which is private if it is new.
pub(crate) fn open_private(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        options.custom_flags(i32::try_from(flags.bits()).unwrap_or_default()).mode(0o600);
    }
    let file = options.open(path).map_err(not_a_link)?;
    refuse_special(&file.metadata()?)?;
    Ok(file)
}

/// Creates a folder that only its owner can access, and the missing folders around it.
pub fn make_private_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Waits until the entries of a folder are on disk. Does nothing on systems where a folder cannot
/// be opened.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { open_folder_itself(folder)?.sync_all() } else { Ok(()) }
}

pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(all(test, unix))]
#[path = "private_tests.rs"]
mod tests;
