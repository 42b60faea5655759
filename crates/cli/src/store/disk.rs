//! Every write to a disk that the program does to sessions and to its journal: one method each, so
//! that tests can stop it before any of them.

use std::fs::{self, FileTimes, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use files::Attributes;

pub(crate) trait Disk {
    fn create_folder(&mut self, path: &Path) -> io::Result<()>;
    /// A new file with these bytes, complete on disk; nobody else can read it.
    fn create(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Another name for a file that is complete on disk.
    fn link(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    /// A copy that is complete on disk; nobody else can read it.
    fn copy(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    /// Mode, owner and extended attributes of a file.
    fn dress(&mut self, path: &Path, attributes: &Attributes) -> io::Result<()>;
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
    path.parent().map_or(Ok(()), files::sync_folder)
}

impl Disk for Real {
    fn create_folder(&mut self, path: &Path) -> io::Result<()> {
        files::make_private_folder(path)
    }

    fn create(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = files::create_private(path)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        sync_folder(path)
    }

    fn link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        files::open(from)?.sync_all()?;
        fs::hard_link(from, to)?;
        sync_folder(to)
    }

    fn copy(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let mut file = files::create_private(to)?;
        files::copy(from, &mut file)?;
        file.sync_all()?;
        sync_folder(to)
    }

    fn dress(&mut self, path: &Path, attributes: &Attributes) -> io::Result<()> {
        attributes.give(&files::open(path)?)
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
        match fs::remove_dir_all(path) {
            // Somebody else was quicker.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    fn set_modified(&mut self, path: &Path, modified: u128) -> io::Result<()> {
        let since = Duration::from_nanos(u64::try_from(modified).unwrap_or_default());
        let times = FileTimes::new().set_modified(UNIX_EPOCH + since);
        OpenOptions::new().write(true).open(path)?.set_times(times)
    }
}
