//! Changes below a folder, without ever following a link.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, Mode, OFlags, chmodat, mkdirat, openat, readlinkat, renameat, statat, symlinkat,
    unlinkat,
};
use rustix::io::Errno;

use crate::mark::Found;
use crate::plan::Step;
use crate::sealed;
use crate::store::Store;
use crate::tree::{State, join};
use crate::vault::Vault;

/// A folder.
#[derive(Debug)]
pub(super) struct Beneath(OwnedFd);

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn mode(bits: u32) -> Mode {
    // The type is another one on some systems.
    #[allow(clippy::useless_conversion, reason = "see above")]
    Mode::from_raw_mode(bits.try_into().unwrap_or_default())
}

impl Beneath {
    /// A root, whose path has no links.
    pub(super) fn open(root: &Path) -> io::Result<Beneath> {
        Ok(Beneath(openat(rustix::fs::CWD, root, FOLDER, Mode::empty())?))
    }

    /// The folder around a path, and its last name.
    fn around<'a>(&self, place: &'a [u8]) -> io::Result<(OwnedFd, &'a OsStr)> {
        let mut names = place.split(|byte| *byte == b'/').map(OsStr::from_bytes).peekable();
        let mut folder = self.0.try_clone()?;
        while let Some(name) = names.next() {
            if names.peek().is_none() {
                return Ok((folder, name));
            }
            folder = openat(&folder, name, FOLDER, Mode::empty())?;
        }
        Err(io::ErrorKind::InvalidInput.into())
    }

    /// Whether the folders around a path are folders.
    pub(super) fn is_reachable(&self, place: &[u8]) -> bool {
        place.is_empty() || self.around(place).is_ok()
    }

    /// Removes a file or an empty folder; one that is not empty stays.
    pub(super) fn remove(&self, place: &[u8], is_folder: bool) -> io::Result<()> {
        let (folder, name) = self.around(place)?;
        let flags = if is_folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        match unlinkat(&folder, name, flags) {
            Err(Errno::NOTEMPTY | Errno::NOENT) => Ok(()),
            removed => Ok(removed?),
        }
    }

    pub(super) fn make_folder(&self, place: &[u8]) -> io::Result<()> {
        let (folder, name) = self.around(place)?;
        Ok(mkdirat(&folder, name, mode(0o700))?)
    }

    pub(super) fn set_mode(&self, place: &[u8], bits: u32) -> io::Result<()> {
        if place.is_empty() {
            return Ok(rustix::fs::fchmod(&self.0, mode(bits))?);
        }
        let (folder, name) = self.around(place)?;
        Ok(chmodat(&folder, name, mode(bits), AtFlags::empty())?)
    }

    /// Writes what a step puts in place, under a number in the staging folder.
    pub(super) fn stage(
        &self,
        staging: &str,
        number: usize,
        step: &Step,
        (store, vault): (&Store, &Vault),
    ) -> io::Result<()> {
        match mkdirat(&self.0, staging, mode(0o700)) {
            Err(Errno::EXIST) | Ok(()) => {}
            Err(error) => return Err(error.into()),
        }
        let waiting = openat(&self.0, staging, FOLDER, Mode::empty())?;
        let name = number.to_string();
        match &step.to {
            Some(State::File { mode: bits, hash, .. }) => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW;
                let file = openat(&waiting, name.as_str(), flags | OFlags::CLOEXEC, mode(0o600))?;
                let mut file = File::from(file);
                store.write_to(*hash, &mut file)?;
                file.flush()?;
                // Owner and extended attributes of the file that it replaces.
                if let Ok(old) = crate::scan::open(&step.path())
                    && let Ok(attributes) = files::Attributes::of(&old)
                {
                    let _ = attributes.give(&file);
                }
                file.set_permissions(fs::Permissions::from_mode(*bits))
            }
            Some(State::Link(target)) => {
                let _ = unlinkat(&waiting, name.as_str(), AtFlags::empty());
                Ok(symlinkat(OsStr::from_bytes(target), &waiting, name.as_str())?)
            }
            Some(State::Object) => {
                let _ = unlinkat(&waiting, name.as_str(), AtFlags::empty());
                vault.put_back(&step.root, &step.place, &step.root.join(staging).join(name))
            }
            _ => Ok(()),
        }
    }

    /// Moves what was staged to its place, in one step.
    pub(super) fn place(&self, staging: &str, number: usize, place: &[u8]) -> io::Result<()> {
        let waiting = openat(&self.0, staging, FOLDER, Mode::empty())?;
        let (folder, name) = self.around(place)?;
        match renameat(&waiting, number.to_string(), &folder, name) {
            // Another file system is mounted there: it is written once more, beside its place.
            Err(Errno::XDEV) => {
                copy(&waiting, OsStr::new(&number.to_string()), &folder, staging)?;
                Ok(renameat(&folder, staging, &folder, name)?)
            }
            moved => Ok(moved?),
        }
    }

    /// Removes what a stopped run wrote beside the places in this folder. What is not there, or in
    /// the root is the folder in which files wait, cannot be removed so.
    pub(super) fn drop_beside(&self, staging: &str, folder: &[u8]) {
        if let Ok((folder, name)) = self.around(&join(folder, staging.as_bytes())) {
            let _ = unlinkat(&folder, name, AtFlags::empty());
        }
    }
}

/// Copies a file or a link to another folder, under a name that may exist.
fn copy(from: &OwnedFd, name: &OsStr, to: &OwnedFd, part: &str) -> io::Result<()> {
    match unlinkat(to, part, AtFlags::empty()) {
        Err(Errno::NOENT) | Ok(()) => {}
        Err(error) => return Err(error.into()),
    }
    let found = Found::from(&statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?);
    if found.is_link() {
        return Ok(symlinkat(readlinkat(from, name, Vec::new())?, to, part)?);
    }
    if sealed::lacks(found.mode(), 0o400) {
        chmodat(from, name, mode(found.mode() | 0o400), AtFlags::empty())?;
    }
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut old = File::from(openat(from, name, flags | OFlags::RDONLY, Mode::empty())?);
    let new = openat(to, part, flags | OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, mode(0o600));
    let mut new = File::from(new?);
    io::copy(&mut old, &mut new)?;
    if let Ok(attributes) = files::Attributes::of(&old) {
        let _ = attributes.give(&new);
    }
    new.set_permissions(fs::Permissions::from_mode(found.mode()))
}
