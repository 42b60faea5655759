//! Files and folders whose owner may not read them: opened up for as long as they are looked at.
//!
//! `chmod -R 000` must not hide from an image what a command did. Invariants: only what belongs to
//! the user is opened up, and its mode is as before afterwards; no link is followed. Who may read
//! everything needs none of it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::path::Arg;

use crate::mark::Found;

/// What the owner of a folder needs to look into it.
pub(crate) const SEEN: u32 = 0o500;
/// What they need to change it, too.
pub(crate) const OPEN: u32 = 0o700;

/// Folders that were opened up; they are as before when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct OpenedUp(Mutex<Vec<(Node, u32)>>);

impl OpenedUp {
    /// Opens a folder that has this mode.
    pub(crate) fn folder(
        &self,
        around: BorrowedFd<'_>,
        name: impl Arg + Copy,
        mode: u32,
    ) -> io::Result<OwnedFd> {
        if lacks(mode, SEEN)
            && let Some(node) = Node::at(around, name)
            && node.set_mode(mode | SEEN).is_ok()
        {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push((node, mode));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(around, name, flags, Mode::empty())?)
    }
}

impl Drop for OpenedUp {
    fn drop(&mut self) {
        let all = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (node, mode) in all.drain(..).rev() {
            let _ = node.set_mode(mode);
        }
    }
}

/// Whether a folder with this mode has to be opened up for what needs these permissions.
pub(crate) fn lacks(mode: u32, needed: u32) -> bool {
    mode & needed != needed && !rustix::process::geteuid().is_root()
}

/// Gives something its mode, without following a link in the last part of its path.
pub(crate) fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    Node::at(CWD, path).ok_or(io::ErrorKind::NotFound)?.set_mode(mode)
}

/// Opens a regular file: neither a link nor anything that waits. Returns what was found first.
pub(crate) fn open_file(path: &Path) -> io::Result<(Found, File)> {
    match open(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let node = Node::at(CWD, path).ok_or(error)?;
            let found = node.found()?;
            if !found.is_file() {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            node.set_mode(found.mode() | 0o400)?;
            let opened = open(path);
            node.set_mode(found.mode())?;
            Ok((found, opened?.1))
        }
        opened => opened,
    }
}

fn open(path: &Path) -> io::Result<(Found, File)> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(i32::try_from(flags.bits()).unwrap_or_default());
    let file = options.open(path)?;
    let found = Found::from(&file.metadata()?);
    if found.is_file() { Ok((found, file)) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Something on disk, whatever its permissions are.
#[derive(Debug)]
struct Node(OwnedFd);

#[cfg(target_os = "linux")]
impl Node {
    fn at(around: BorrowedFd<'_>, name: impl Arg) -> Option<Node> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(around, name, flags, Mode::empty()).ok().map(Node)
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        use std::os::fd::AsRawFd;
        let path = format!("/proc/self/fd/{}", self.0.as_raw_fd());
        Ok(rustix::fs::chmod(path, Mode::from_raw_mode(mode))?)
    }
}

/// Elsewhere nothing can be held that may not be read.
#[cfg(not(target_os = "linux"))]
impl Node {
    fn at(_around: BorrowedFd<'_>, _name: impl Arg) -> Option<Node> {
        None
    }

    fn set_mode(&self, _mode: u32) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Node {
    fn found(&self) -> io::Result<Found> {
        Ok(Found::from(&rustix::fs::fstat(self.0.as_fd())?))
    }
}
