//! Files and folders that only their owner can read, whatever the umask is.
//!
//! Invariant: after [`put`], the path has either the whole new file or what was there before.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use crate::open::{open_folder_itself, refuse_special};

/// What a file must survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The end of the process.
    Process,
    /// A power cut: wait until the data is on disk.
    PowerCut,
}

/// Writes a file to its place in one step (by renaming), and creates the folders around it.
pub fn put(path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
    let folder = parent(path);
    make_private_folder(folder)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // A killed process leaves its temporary file; the next process with the same id overwrites it.
    let temp = folder.join(format!(".{name}.{}", std::process::id()));
    let written = write(&temp, bytes, durability).and_then(|()| fs::rename(&temp, path));
    if written.is_err() {
        // The file may not exist, which is fine.
        let _ = fs::remove_file(&temp);
    } else if durability == Durability::PowerCut {
        sync_folder(folder)?;
    }
    written
}

fn write(path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
    let mut file = create_private(path)?;
    file.write_all(bytes)?;
    match durability {
        Durability::Process => Ok(()),
        Durability::PowerCut => file.sync_all(),
    }
}

/// Creates an empty file that no other user can read. An existing file is truncated; a link is not
/// followed.
pub fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        options.custom_flags(i32::try_from(flags.bits()).unwrap_or_default()).mode(0o600);
    }
    options.open(path)
}

/// Opens a file that no other user can read, for appending. It and the folders around it are
/// created if they are missing. A link is not followed, and the call never waits: a pipe or a
/// device is an error.
pub fn append_private(path: &Path) -> io::Result<File> {
    make_private_folder(parent(path))?;
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        options.custom_flags(i32::try_from(flags.bits()).unwrap_or_default()).mode(0o600);
    }
    let file = options.open(path)?;
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
