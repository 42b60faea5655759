//! Which files in a session's folders later decide what programs do outside.
//!
//! Invariants: the walk is bounded, goes from the outside in, and follows no link; a folder is read
//! again whenever anything in it may have changed since it was read last: commands can set the time
//! at which a file was modified, but not the time at which its entry was changed.

use std::collections::{HashMap, VecDeque};
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use super::repository;
use crate::sensitive::is_sensitive;

/// How many folders are looked at, and how deep.
const MOST: usize = 20_000;
const DEEPEST: usize = 40;
/// How many names of one folder are looked at.
const WIDEST: usize = 50_000;
/// Folders whose content nobody obeys, or too many.
const SKIPPED: [&str; 6] = ["node_modules", "target", ".venv", "venv", "__pycache__", "dist"];
/// A folder that was changed this shortly before it was read may be changed again without a trace.
const YOUNG: Duration = Duration::from_millis(100);

/// A file or folder that decides what programs do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    /// How many folders are between it and the session's folder.
    pub(crate) depth: usize,
    pub(crate) is_link: bool,
}

/// What is known of the folders of a session, so that not all of them are read for each command.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    known: HashMap<PathBuf, HashMap<PathBuf, Looked>>,
}

/// What was in a folder.
#[derive(Debug, Default)]
struct Looked {
    stamp: Option<Stamp>,
    found: Vec<(PathBuf, bool)>,
    repositories: Vec<PathBuf>,
    inner: Vec<PathBuf>,
}

/// The inode, and when it was changed.
type Stamp = (u64, i64, i64);

impl Survey {
    /// The sensitive files and folders of a session's folder that exist.
    pub(crate) fn look(&mut self, folder: &Path) -> Vec<Found> {
        let known = self.known.entry(folder.to_owned()).or_default();
        let mut all = Vec::new();
        let mut todo = VecDeque::from([(folder.to_owned(), 0)]);
        let mut count = 0;
        while let Some((inner, depth)) = todo.pop_front() {
            count += 1;
            if count > MOST {
                break;
            }
            let stamp = fs::symlink_metadata(&inner).ok().as_ref().and_then(stamp);
            let looked = match known.get(&inner) {
                Some(looked) if stamp.is_some() && looked.stamp == stamp => looked,
                _ => {
                    let mut looked = read(folder, &inner);
                    looked.stamp = stamp.filter(is_settled);
                    known.entry(inner.clone()).insert_entry(looked).into_mut()
                }
            };
            let found = looked.found.iter().map(|(path, is_link)| (path.clone(), *is_link));
            let obeyed = looked.repositories.iter().flat_map(|git| repository::obeyed(git));
            let found = found.chain(obeyed.map(|path| (path, false)));
            all.extend(found.map(|(path, is_link)| Found { path, depth, is_link }));
            if depth < DEEPEST {
                todo.extend(looked.inner.iter().map(|inner| (inner.clone(), depth + 1)));
            }
        }
        all
    }
}

fn read(folder: &Path, inner: &Path) -> Looked {
    let mut looked = Looked::default();
    for entry in fs::read_dir(inner).into_iter().flatten().flatten().take(WIDEST) {
        let (name, path) = (entry.file_name(), entry.path());
        let Ok(kind) = entry.file_type() else { continue };
        let Ok(below) = path.strip_prefix(folder) else { continue };
        if name == ".git" && kind.is_dir() {
            looked.repositories.push(path);
        } else if is_sensitive(folder, below, None) {
            looked.found.push((path, kind.is_symlink()));
        } else if kind.is_dir() && !SKIPPED.iter().any(|skipped| name == *skipped) {
            looked.inner.push(path);
        }
    }
    looked
}

#[cfg(unix)]
#[allow(clippy::unnecessary_wraps, reason = "elsewhere there is none")]
fn stamp(found: &Metadata) -> Option<Stamp> {
    use std::os::unix::fs::MetadataExt;
    Some((found.ino(), found.ctime(), found.ctime_nsec()))
}

#[cfg(not(unix))]
fn stamp(_: &Metadata) -> Option<Stamp> {
    None
}

/// Whether the change is so long ago that another one has another time.
fn is_settled((_, seconds, nanoseconds): &Stamp) -> bool {
    let whole = u64::try_from(*seconds).ok().map(Duration::from_secs);
    let rest = u64::try_from(*nanoseconds).ok().map(Duration::from_nanos);
    let changed = whole.zip(rest).map(|(whole, rest)| whole + rest);
    let now = UNIX_EPOCH.elapsed().ok();
    now.zip(changed)
        .and_then(|(now, changed)| now.checked_sub(changed))
        .is_some_and(|age| age > YOUNG)
}
