//! Changes of files below a folder in which somebody else may put links.
//!
//! Invariant: no link below the folder is followed; the folder itself is a real path.

#[cfg(not(unix))]
use std::io;
use std::path::{Path, PathBuf};

/// The largest file of which a copy is taken.
const LONGEST: u64 = 1 << 20;

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Inner {
    /// A file: what it contains, and its mode.
    File(Vec<u8>, u32),
    /// A link: where it leads.
    Link(PathBuf),
    /// Nothing, or something of which no copy is taken.
    Other,
}

impl Inner {
    /// Whether it can be put back.
    pub(crate) fn is_kept(&self) -> bool {
        *self != Inner::Other
    }
}

/// What is at a path.
pub(crate) fn content(path: &Path) -> Inner {
    let Ok(found) = std::fs::symlink_metadata(path) else { return Inner::Other };
    if found.is_symlink() {
        return std::fs::read_link(path).map_or(Inner::Other, Inner::Link);
    }
    if !found.is_file() || found.len() > LONGEST {
        return Inner::Other;
    }
    files::read(path, LONGEST).map_or(Inner::Other, |bytes| Inner::File(bytes, mode(&found)))
}

#[cfg(unix)]
fn mode(found: &std::fs::Metadata) -> u32 {
    std::os::unix::fs::MetadataExt::mode(found) & 0o7777
}

#[cfg(not(unix))]
fn mode(_: &std::fs::Metadata) -> u32 {
    0
}

#[cfg(unix)]
mod system {
    use std::ffi::OsStr;
    use std::fs::File;
    use std::io::{self, Read, Write};
    use std::os::fd::OwnedFd;
    use std::path::Path;

    use rustix::fs::{AtFlags, CWD, Mode, OFlags};
    use rustix::fs::{fchmod, mkdirat, openat, renameat, symlinkat, unlinkat};
    use rustix::io::Errno;

    use super::{Inner, LONGEST};

    const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

    /// The folder of a path, and the name in it.
    fn parent<'a>(folder: &Path, path: &'a Path, way: Way) -> io::Result<(OwnedFd, &'a OsStr)> {
        let below = path.strip_prefix(folder).map_err(io::Error::other)?;
        let mut names: Vec<&OsStr> = below.iter().collect();
        let inner = path.strip_prefix(folder).ok().and_then(Path::file_name);
        let name = inner.ok_or_else(|| io::Error::other("it has no name"))?;
        names.pop();
        let mut at = openat(CWD, folder, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        for one in names {
            let opened = openat(&at, one, FOLDER, Mode::empty());
            at = match opened {
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if way == Way::Cleared => {
                    // A link or a file, where there was a folder.
                    let _ = unlinkat(&at, one, AtFlags::empty());
                    mkdirat(&at, one, Mode::from_raw_mode(0o755))?;
                    openat(&at, one, FOLDER, Mode::empty())?
                }
                opened => opened?,
            };
        }
        Ok((at, name))
    }

    /// What happens to links on the way.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Way {
        /// They are an error.
        Clear,
        /// They are replaced by folders.
        Cleared,
    }

    pub(crate) fn put_back(folder: &Path, path: &Path, before: &Inner) -> io::Result<()> {
        let (at, name) = parent(folder, path, Way::Cleared)?;
        let aside = format!(".quipu-{}", uuid::Uuid::new_v4().simple());
        match before {
            Inner::File(bytes, mode) => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let mut file = File::from(openat(&at, &*aside, flags, Mode::from_raw_mode(0o600))?);
                file.write_all(bytes)?;
                fchmod(&file, Mode::from_raw_mode(*mode))?;
            }
            Inner::Link(to) => symlinkat(to, &at, &*aside)?,
            Inner::Other => return Err(io::Error::other("there is no copy")),
        }
        // A folder in its place is moved out of the way, with everything in it.
        if renameat(&at, &*aside, &at, name) == Err(Errno::ISDIR) {
            renameat(&at, name, &at, &*format!("{aside}-folder"))?;
            renameat(&at, &*aside, &at, name)?;
        }
        Ok(())
    }

    pub(crate) fn take(folder: &Path, path: &Path, aside: &Path) -> io::Result<()> {
        let (at, name) = parent(folder, path, Way::Clear)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        if let Ok(opened) = openat(&at, name, flags, Mode::empty()) {
            let file = File::from(opened);
            let mut bytes = Vec::new();
            if file.metadata().is_ok_and(|found| found.is_file()) {
                file.take(LONGEST).read_to_end(&mut bytes)?;
                let id = uuid::Uuid::new_v4().simple();
                let place = aside.join(format!("{}-{id}", name.to_string_lossy()));
                // That nothing can be stored does not make it less dangerous.
                let _ = files::put(&place, &bytes, files::Durability::Process);
            }
        }
        Ok(unlinkat(&at, name, AtFlags::empty())?)
    }
}

#[cfg(unix)]
pub(crate) use system::{put_back, take};

/// There is no sandbox that needs it.
#[cfg(not(unix))]
pub(crate) fn put_back(_: &Path, _: &Path, _: &Inner) -> io::Result<()> {
    Err(io::Error::other("there is no sandbox"))
}

/// There is no sandbox that needs it.
#[cfg(not(unix))]
pub(crate) fn take(_: &Path, _: &Path, _: &Path) -> io::Result<()> {
    Err(io::Error::other("there is no sandbox"))
}
