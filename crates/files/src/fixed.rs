//! Files by paths that contain no link: what somebody puts in the way meanwhile is not followed.
//!
//! A path is judged first and used later. In between, a process that may write to one of its
//! folders can put a link in the place of a file or a folder. Invariant: what is opened, created or
//! replaced here is at the given path itself, or it is an error. Elsewhere than on Unix, links are
//! followed.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::open::{read_whole, refuse_special};

/// What happens to folders that do not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// It is an error.
    Error,
    /// They are made.
    Made,
}

/// A folder that was reached without following a link.
#[derive(Debug)]
pub struct FixedFolder(system::Opened);

impl FixedFolder {
    /// Opens a folder by an absolute path without `.` and `..`.
    pub fn open(path: &Path, missing: Missing) -> io::Result<FixedFolder> {
        system::folder(path, missing).map(FixedFolder)
    }

    /// Creates a file, for writing; one that exists is an error. Only the user can read it if it is
    /// to be `private`.
    pub fn create(&self, name: &OsStr, access: NewAccess) -> io::Result<File> {
        system::create(&self.0, name, access)
    }

    /// Opens a file and removes its content, for writing.
    pub fn truncate(&self, name: &OsStr) -> io::Result<File> {
        let file = system::truncate(&self.0, name)?;
        refuse_special(&file.metadata()?)?;
        Ok(file)
    }

    /// Renames a file in the folder; it replaces another one.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        system::rename(&self.0, from, to)
    }

    /// Removes a file.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        system::remove(&self.0, name)
    }
}

/// Who can read a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewAccess {
    /// Only the user.
    Private,
    /// As the system has it for new files.
    Usual,
}

/// Like [`open`](crate::open), without following a link anywhere in the path.
pub fn open_fixed(path: &Path) -> io::Result<File> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let folder = system::folder(folder, Missing::Error)?;
    let file = system::open(&folder, name)?;
    refuse_special(&file.metadata()?)?;
    Ok(file)
}

/// Like [`read`](crate::read), without following a link anywhere in the path.
pub fn read_fixed(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_whole(open_fixed(path)?, most)
}

/// Like [`read_text`](crate::read_text), without following a link anywhere in the path.
pub fn read_text_fixed(path: &Path, most: u64) -> io::Result<String> {
    let mut text = String::new();
    read_fixed(path, most)?.as_slice().read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(unix)]
mod system {
    use std::ffi::OsStr;
    use std::fs::File;
    use std::io;
    use std::os::fd::OwnedFd;
    use std::path::{Component, Path};

    use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, renameat, statat, unlinkat};
    use rustix::io::Errno;

    use super::{Missing, NewAccess};
    use crate::open::not_regular;

    pub(super) type Opened = OwnedFd;

    /// A folder that cannot be listed can be passed through all the same.
    #[cfg(target_os = "linux")]
    const FOLDER: OFlags = OFlags::PATH.union(OFlags::CLOEXEC).union(OFlags::DIRECTORY);
    #[cfg(not(target_os = "linux"))]
    const FOLDER: OFlags = OFlags::CLOEXEC.union(OFlags::DIRECTORY);
    const FILE: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

    pub(super) fn folder(path: &Path, missing: Missing) -> io::Result<OwnedFd> {
        let mut at = openat(CWD, "/", FOLDER, Mode::empty())?;
        for part in path.components() {
            let name = match part {
                Component::RootDir => continue,
                Component::Normal(name) => name,
                _ => return Err(io::ErrorKind::InvalidInput.into()),
            };
            let open = || openat(&at, name, FOLDER | OFlags::NOFOLLOW, Mode::empty());
            at = match open() {
                Err(Errno::NOENT) if missing == Missing::Made => {
                    match mkdirat(&at, name, Mode::from_raw_mode(0o777)) {
                        Ok(()) | Err(Errno::EXIST) => open().map_err(elsewhere)?,
                        Err(error) => return Err(error.into()),
                    }
                }
                opened => opened.map_err(elsewhere)?,
            };
        }
        Ok(at)
    }

    /// A link in the way is no folder, and no file either.
    fn elsewhere(error: Errno) -> io::Error {
        match error {
            Errno::LOOP => io::Error::other("it has become a link since it was permitted"),
            error => error.into(),
        }
    }

    pub(super) fn open(folder: &OwnedFd, name: &OsStr) -> io::Result<File> {
        // Checked first, because opening some devices has an effect.
        let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = rustix::fs::FileType::from_raw_mode(found.st_mode);
        if kind == rustix::fs::FileType::Symlink {
            return Err(elsewhere(Errno::LOOP));
        }
        if kind != rustix::fs::FileType::RegularFile {
            return Err(not_regular(kind == rustix::fs::FileType::Directory));
        }
        let flags = FILE | OFlags::RDONLY | OFlags::NONBLOCK;
        Ok(openat(folder, name, flags, Mode::empty()).map_err(elsewhere)?.into())
    }

    pub(super) fn create(folder: &OwnedFd, name: &OsStr, access: NewAccess) -> io::Result<File> {
        let flags = FILE | OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let mode = if access == NewAccess::Private { 0o600 } else { 0o666 };
        Ok(openat(folder, name, flags, Mode::from_raw_mode(mode))?.into())
    }

    pub(super) fn truncate(folder: &OwnedFd, name: &OsStr) -> io::Result<File> {
        let flags = FILE | OFlags::WRONLY | OFlags::TRUNC | OFlags::NONBLOCK;
        Ok(openat(folder, name, flags, Mode::empty()).map_err(elsewhere)?.into())
    }

    pub(super) fn rename(folder: &OwnedFd, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(renameat(folder, from, folder, to)?)
    }

    pub(super) fn remove(folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(folder, name, AtFlags::empty())?)
    }
}

#[cfg(not(unix))]
mod system {
    use std::ffi::OsStr;
    use std::fs::{self, File};
    use std::io;
    use std::path::{Path, PathBuf};

    use super::{Missing, NewAccess};

    pub(super) type Opened = PathBuf;

    pub(super) fn folder(path: &Path, missing: Missing) -> io::Result<PathBuf> {
        if missing == Missing::Made {
            fs::create_dir_all(path)?;
        }
        Ok(path.to_owned())
    }

    pub(super) fn open(folder: &Path, name: &OsStr) -> io::Result<File> {
        crate::open(folder.join(name))
    }

    pub(super) fn create(folder: &Path, name: &OsStr, _: NewAccess) -> io::Result<File> {
        File::options().write(true).create_new(true).open(folder.join(name))
    }

    pub(super) fn truncate(folder: &Path, name: &OsStr) -> io::Result<File> {
        File::options().write(true).truncate(true).open(folder.join(name))
    }

    pub(super) fn rename(folder: &Path, from: &OsStr, to: &OsStr) -> io::Result<()> {
        fs::rename(folder.join(from), folder.join(to))
    }

    pub(super) fn remove(folder: &Path, name: &OsStr) -> io::Result<()> {
        fs::remove_file(folder.join(name))
    }
}

#[cfg(all(test, unix))]
#[path = "fixed_tests.rs"]
mod tests;
