//! Which files in a session's folders later decide what programs do outside.
//!
//! Invariants: the walk is bounded, goes from the outside in, and follows no link; a folder is read
//! again whenever anything in it may have changed since it was read last: commands can set the time
//! at which a file was modified, but not the time at which its entry was changed.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rules::Pattern;

use super::repository;
use crate::sensitive::is_sensitive;

/// How many folders are looked at, and how deep.
const MOST: usize = 200_000;
const DEEPEST: usize = 1_000;
/// Folders of what was installed or built. Only their own entries are looked at: one may be a
/// repository, but what is deeper is code like that of the project.
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
    /// What rules deny to read, and to change.
    closed: Vec<Pattern>,
    locked: Vec<Pattern>,
}

/// What was found in a folder of a session.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) found: Vec<Found>,
    /// What fits a rule that denies to read, and one that denies to change.
    pub(crate) closed: Vec<PathBuf>,
    pub(crate) locked: Vec<PathBuf>,
    /// Folders in it that could not be read.
    pub(crate) shut: Vec<PathBuf>,
    /// Whether there were too many folders.
    pub(crate) is_partial: bool,
}

/// What was in a folder.
#[derive(Debug, Default)]
struct Looked {
    stamp: Option<Stamp>,
    found: Vec<(PathBuf, bool)>,
    repositories: Vec<PathBuf>,
    closed: Vec<PathBuf>,
    locked: Vec<PathBuf>,
    inner: Vec<PathBuf>,
    /// Sensitive folders, in which only what rules are about is looked for.
    apart: Vec<PathBuf>,
    is_shut: bool,
}

/// The inode, and when it was changed.
type Stamp = (u64, i64, i64);

impl Survey {
    /// Looks also for what rules deny to read, and to change.
    pub(crate) fn new(closed: Vec<Pattern>, locked: Vec<Pattern>) -> Survey {
        Survey { closed, locked, ..Survey::default() }
    }

    /// Whether rules deny something about files by their names.
    pub(crate) fn has_rules(&self) -> bool {
        !self.closed.is_empty() || !self.locked.is_empty()
    }

    /// The sensitive files and folders of a session's folder that exist.
    pub(crate) fn look(&mut self, folder: &Path) -> View {
        let has_rules = self.has_rules();
        let Survey { known, closed, locked: fixed } = self;
        let known = known.entry(folder.to_owned()).or_default();
        let mut view = View::default();
        let mut todo = VecDeque::from([(folder.to_owned(), 0, false)]);
        let mut count = 0;
        while let Some((inner, depth, is_apart)) = todo.pop_front() {
            count += 1;
            if count > MOST || depth > DEEPEST {
                view.is_partial = true;
                break;
            }
            let stamp = fs::symlink_metadata(&inner).ok().as_ref().and_then(stamp);
            let looked = match known.get(&inner) {
                Some(looked) if stamp.is_some() && looked.stamp == stamp => looked,
                _ => {
                    let mut looked = read(folder, &inner, is_apart);
                    looked.find(&inner, (closed.as_slice(), fixed.as_slice()));
                    looked.stamp = stamp.filter(is_settled);
                    known.entry(inner.clone()).insert_entry(looked).into_mut()
                }
            };
            let found = looked.found.iter().map(|(path, is_link)| (path.clone(), *is_link));
            let obeyed = looked.repositories.iter().flat_map(|git| repository::obeyed(git));
            let found = found.chain(obeyed.map(|path| {
                let is_link = path.is_symlink();
                (path, is_link)
            }));
            view.found.extend(found.map(|(path, is_link)| Found { path, depth, is_link }));
            if looked.is_shut {
                view.shut.push(inner);
            }
            view.closed.extend(looked.closed.iter().cloned());
            view.locked.extend(looked.locked.iter().cloned());
            todo.extend(looked.inner.iter().map(|inner| (inner.clone(), depth + 1, is_apart)));
            let apart = looked.apart.iter().filter(|_| has_rules);
            todo.extend(apart.map(|inner| (inner.clone(), depth + 1, true)));
        }
        view
    }
}

impl Looked {
    /// Looks for what rules are about.
    fn find(&mut self, inner: &Path, (closed, locked): (&[Pattern], &[Pattern])) {
        if closed.is_empty() && locked.is_empty() {
            return;
        }
        let fits = |rules: &[Pattern], path: &Path| rules.iter().any(|rule| rule.matches(path));
        for entry in fs::read_dir(inner).into_iter().flatten().flatten() {
            let path = entry.path();
            if fits(closed, &path) {
                self.closed.push(path);
            } else if fits(locked, &path) {
                self.locked.push(path);
            }
        }
    }
}

fn read(folder: &Path, inner: &Path, is_apart: bool) -> Looked {
    let mut looked = Looked::default();
    let is_skipped = |name: &OsStr| SKIPPED.iter().any(|skipped| name == *skipped);
    let is_shallow = inner != folder && inner.file_name().is_some_and(is_skipped);
    let entries = fs::read_dir(inner);
    // One that is gone contains nothing.
    looked.is_shut = entries.as_ref().is_err_and(|error| error.kind() != ErrorKind::NotFound);
    for entry in entries.into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let Ok(kind) = entry.file_type() else { continue };
        let Ok(below) = path.strip_prefix(folder) else { continue };
        if is_apart {
            if kind.is_dir() {
                looked.inner.push(path);
            }
        } else if name == ".git" && kind.is_dir() {
            looked.repositories.push(path);
        } else if is_sensitive(folder, below, None) {
            if kind.is_dir() {
                looked.apart.push(path.clone());
            }
            looked.found.push((path, kind.is_symlink()));
        } else if kind.is_dir() && !is_shallow {
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
