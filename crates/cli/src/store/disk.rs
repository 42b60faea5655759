//! Every write to a disk that the program does to sessions and to its journal: one method each, so that tests can stop it before any of them.

use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

pub(crate) trait Disk {
    fn create_folder(&mut self, path: &Path) -> io::Result<()>;
    /// A new file with these bytes, complete on disk.
    fn create(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// A copy that is complete on disk, with the same permissions.
    fn copy(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    /// In one step, over whatever is there.
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    /// The same, but never over anything.
    fn place(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&mut self, path: &Path) -> io::Result<()>;
    /// The folders around a file that is gone, as far as they are empty and not around another one.
    fn remove_empty(&mut self, gone: &Path, other: &Path);
    fn remove_folder(&mut self, path: &Path) -> io::Result<()>;
    /// In nanoseconds since 1970.
    fn set_modified(&mut self, path: &Path, modified: u128) -> io::Result<()>;
}

/// The disk there is.
#[derive(Debug)]
pub(crate) struct Real;

/// A folder's list of files is complete on disk, where that can be asked for.
fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(unix)
        && let Some(folder) = path.parent()
    {
        files::sync_folder(folder)?;
    }
    Ok(())
}

impl Disk for Real {
    fn create_folder(&mut self, path: &Path) -> io::Result<()> {
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(path)
    }

    fn create(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = private(path)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        sync_folder(path)
    }

    fn copy(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let (mut source, mut file) = (files::open(from)?, private(to)?);
        io::copy(&mut source, &mut file)?;
        take_after(&file, &source.metadata()?)?;
        file.sync_all()?;
        sync_folder(to)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)?;
        sync_folder(to)
    }

    fn place(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        // A link fails if the name is taken; where there are no links, a look has to do.
        match fs::hard_link(from, to) {
            Ok(()) => fs::remove_file(from)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
            Err(_) if to.exists() => return Err(io::ErrorKind::AlreadyExists.into()),
            Err(_) => fs::rename(from, to)?,
        }
        sync_folder(to)
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_empty(&mut self, gone: &Path, other: &Path) {
        let around = gone.ancestors().skip(1).take_while(|folder| !other.starts_with(folder));
        // One that holds something else is not removed, and neither are those around it.
        for folder in around {
            if fs::remove_dir(folder).is_err() {
                break;
            }
        }
    }

    fn remove_folder(&mut self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }

    fn set_modified(&mut self, path: &Path, modified: u128) -> io::Result<()> {
        let since = Duration::from_nanos(u64::try_from(modified).unwrap_or_default());
        let times = FileTimes::new().set_modified(UNIX_EPOCH + since);
        OpenOptions::new().write(true).open(path)?.set_times(times)
    }
}

/// Gives a file the permissions of another, and its owner, as far as that is allowed: whoever may write everything must not take a session away from its user.
pub(crate) fn take_after(file: &File, other: &fs::Metadata) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, fchown};
        let _ = fchown(file, Some(other.uid()), Some(other.gid()));
    }
    file.set_permissions(other.permissions())
}

/// A new file that nobody else can read; one left by a run that was stopped is overwritten.
pub(crate) fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
