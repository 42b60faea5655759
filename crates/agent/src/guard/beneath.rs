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

/// Whether a file has other names, by which it can be changed, too.
#[cfg(unix)]
pub(crate) fn has_other_names(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.nlink() > 1)
}

#[cfg(not(unix))]
pub(crate) fn has_other_names(_: &Path) -> bool {
    false
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
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    use rustix::fs::{AtFlags, CWD, Mode, OFlags};
    use rustix::fs::{fchmod, fstat, mkdirat, openat, renameat, symlinkat, unlinkat};
    use rustix::io::Errno;

    use super::{Inner, LONGEST};

    const FOLDER: OFlags = REACH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW);
    /// A folder that cannot be read can be reached all the same.
    #[cfg(target_os = "linux")]
    const REACH: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
    #[cfg(not(target_os = "linux"))]
    const REACH: OFlags = OFlags::CLOEXEC;
    /// The longest name that is kept of a file that is taken away.
    const NAMED: usize = 100;

    /// Gives the user all rights on a folder of theirs: a command may have taken them away.
    fn unlock(at: &OwnedFd) -> io::Result<()> {
        let mode = Mode::from_raw_mode((fstat(at)?.st_mode & 0o7777) | 0o700);
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsRawFd;
            Ok(rustix::fs::chmod(format!("/proc/self/fd/{}", at.as_raw_fd()), mode)?)
        }
        #[cfg(not(target_os = "linux"))]
        Ok(fchmod(at, mode)?)
    }

    /// Does something in a folder; if the rights are missing, gives them to the user first.
    fn in_folder<T>(at: &OwnedFd, act: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
        match act() {
            Err(Errno::ACCESS | Errno::PERM) if unlock(at).is_ok() => act(),
            done => done,
        }
    }

    /// Gives the user all rights on a folder below.
    pub(crate) fn open_up(folder: &Path, path: &Path) -> io::Result<()> {
        if path == folder {
            return unlock(&openat(CWD, folder, FOLDER, Mode::empty())?);
        }
        let (at, name) = parent(folder, path, Way::Clear)?;
        unlock(&in_folder(&at, || openat(&at, name, FOLDER, Mode::empty()))?)
    }

    /// The folder of a path, and the name in it.
    fn parent<'a>(folder: &Path, path: &'a Path, way: Way) -> io::Result<(OwnedFd, &'a OsStr)> {
        let below = path.strip_prefix(folder).map_err(io::Error::other)?;
        let mut names: Vec<&OsStr> = below.iter().collect();
        let inner = path.strip_prefix(folder).ok().and_then(Path::file_name);
        let name = inner.ok_or_else(|| io::Error::other("it has no name"))?;
        names.pop();
        let mut at = openat(CWD, folder, REACH | OFlags::DIRECTORY, Mode::empty())?;
        for one in names {
            let opened = in_folder(&at, || openat(&at, one, FOLDER, Mode::empty()));
            at = match opened {
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if way == Way::Cleared => {
                    // A link or a file, where there was a folder.
                    let _ = in_folder(&at, || unlinkat(&at, one, AtFlags::empty()));
                    in_folder(&at, || mkdirat(&at, one, Mode::from_raw_mode(0o755)))?;
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
                let mode_now = Mode::from_raw_mode(0o600);
                let new_file = in_folder(&at, || openat(&at, &*aside, flags, mode_now))?;
                let mut file = File::from(new_file);
                file.write_all(bytes)?;
                fchmod(&file, Mode::from_raw_mode(*mode))?;
            }
            Inner::Link(to) => in_folder(&at, || symlinkat(to, &at, &*aside))?,
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
        if let Ok(opened) = in_folder(&at, || openat(&at, name, flags, Mode::empty())) {
            let file = File::from(opened);
            let mut bytes = Vec::new();
            if file.metadata().is_ok_and(|found| found.is_file()) {
                file.take(LONGEST).read_to_end(&mut bytes)?;
                let id = uuid::Uuid::new_v4().simple();
                let short = &name.as_bytes()[..name.len().min(NAMED)];
                let place = aside.join(format!("{}-{id}", String::from_utf8_lossy(short)));
                // That nothing can be stored does not make it less dangerous.
                let _ = files::put(&place, &bytes, files::Durability::Process);
            }
        }
        Ok(in_folder(&at, || unlinkat(&at, name, AtFlags::empty()))?)
    }
}

#[cfg(unix)]
pub(crate) use system::{open_up, put_back, take};

/// There is no sandbox that needs it.
#[cfg(not(unix))]
pub(crate) fn open_up(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::Error::other("there is no sandbox"))
}

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
