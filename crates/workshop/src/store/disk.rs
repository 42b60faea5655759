//! Every write to disk that the program does to sessions and to its journal: one method each, so
//! that tests can stop it before any of them.

use std::fs::{self, FileTimes, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use files::Attributes;

pub trait Disk {
    fn create_folder(&mut self, path: &Path) -> io::Result<()>;
    /// Creates a file with these bytes, complete on disk; other users cannot read it.
    fn create(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Gives a file that is complete on disk another name.
    fn link(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes a copy that is complete on disk; other users cannot read it.
    fn copy(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    /// Sets mode, owner and extended attributes of a file.
    fn dress(&mut self, path: &Path, attributes: &Attributes) -> io::Result<()>;
    /// Renames in one step, and replaces an existing file.
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    /// Renames, and never replaces an existing file.
    fn place(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&mut self, path: &Path) -> io::Result<()>;
    /// Removes the folders around a removed file, as far as they are empty and do not contain
    /// `other`.
    fn remove_empty(&mut self, gone: &Path, other: &Path);
    fn remove_folder(&mut self, path: &Path) -> io::Result<()>;
    /// In nanoseconds since 1970.
    fn set_modified(&mut self, path: &Path, modified: u128) -> io::Result<()>;
}

/// The real disk.
#[derive(Debug)]
pub struct Real;

/// Syncs the folder of a file to disk, where the system supports it.
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
        // A link fails if the name is taken; without links, a check has to do.
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
        // A folder that contains something else is not removed, and neither are those around it.
        for folder in around {
            if fs::remove_dir(folder).is_err() {
                break;
            }
        }
    }

    fn remove_folder(&mut self, path: &Path) -> io::Result<()> {
        match fs::remove_dir_all(path) {
            // Another process was quicker.
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
