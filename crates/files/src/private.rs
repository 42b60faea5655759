//! Files and folders that only their owner can read, whatever the umask says.
//!
//! Invariant: a file that is put into its place is whole there, or what was there before is.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use crate::open::{open_folder_itself, refuse_special};

/// What a file has to outlive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The process.
    Process,
    /// A power cut: it is waited for the disk.
    PowerCut,
}

/// Puts a file into its place in one step, and makes the folders around it.
pub fn put(path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
    let folder = parent(path);
    make_private_folder(folder)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // A process that is killed leaves its half behind; the next one with its number writes over it.
    let temp = folder.join(format!(".{name}.{}", std::process::id()));
    let written = write(&temp, bytes, durability).and_then(|()| fs::rename(&temp, path));
    if written.is_err() {
        // What is not there need not go.
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

/// An empty file that nobody else can read. One that is there already is made empty; a link is not
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

/// A file that nobody else can read, to be written to at its end; it and the folders around it are
/// made if they are missing. A link is not followed, and nobody is waited for: a pipe or a device
/// is an error.
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

/// A folder that only its owner sees into, and those around it that are missing.
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

/// The names in a folder are on disk. Folders cannot be opened everywhere; where they cannot, there
/// is nothing to wait for.
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
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_is_put_is_whole_and_private() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b/c");
        put(&path, b"one", Durability::PowerCut).unwrap();
        put(&path, b"two", Durability::Process).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_added_to_is_private_and_no_pipe() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/log");
        append_private(&path).unwrap().write_all(b"one").unwrap();
        append_private(&path).unwrap().write_all(b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"onetwo");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        let pipe = root.path().join("pipe");
        let both = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, both).unwrap();
        assert!(append_private(&pipe).is_err());
    }

    #[test]
    fn a_link_in_the_way_is_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let (victim, link) = (root.path().join("victim"), root.path().join("link"));
        fs::write(&victim, "old").unwrap();
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        assert!(create_private(&link).is_err());
        assert_eq!(fs::read(&victim).unwrap(), b"old");
    }
}
