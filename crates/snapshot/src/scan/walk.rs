//! The walk over a folder: metadata only, on all cores.
//!
//! Invariants: a folder has a larger number than the one around it; every name that was listed is
//! in its listing, once, in order; nothing is opened but folders, patterns and links.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Instant, SystemTime};

use super::{Limits, ScanError, threads};
use crate::git;
use crate::mark::mark;
use crate::restore::STAGING;
use crate::rules::{Cache, Rules, path_of};
use crate::tree::{DEEPEST, Folder, Item, Place, State, What, Why, find, join};

/// A folder as it was found.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) place: Place,
    pub(super) mode: u32,
    pub(super) drafts: Vec<Draft>,
    /// The folder in the last image.
    pub(super) last: Option<Arc<Folder>>,
    /// Why it could not be listed.
    pub(super) failed: Option<io::ErrorKind>,
}

/// An item as far as it is known.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) name: Box<[u8]>,
    pub(super) mark: u64,
    pub(super) mode: u32,
    pub(super) what: Drafted,
    pub(super) is_new_object: bool,
}

#[derive(Debug)]
pub(super) enum Drafted {
    Known(What),
    /// A file that has to be read, with its size.
    Read(u64),
    /// The folder with this number.
    Below(usize),
    Gone,
}

/// Everything that a walk needs.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    pub(super) root: &'a Path,
    pub(super) forced: &'a [PathBuf],
    pub(super) covered: Option<&'a Arc<Folder>>,
    pub(super) cache: &'a Cache,
    pub(super) limits: Limits,
    pub(super) now: SystemTime,
    pub(super) begin: Instant,
    pub(super) seen: AtomicUsize,
}

/// What kind of folder it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    /// `objects` of git.
    Objects,
    /// A folder in it with objects.
    Leaf,
}

/// A folder that is to be listed.
#[derive(Debug)]
struct Job {
    id: usize,
    place: Place,
    mode: u32,
    depth: usize,
    kind: Kind,
    rules: Option<Arc<Rules>>,
    last: Option<Arc<Folder>>,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: Vec<Job>,
    /// Threads that work on one, and may add more.
    busy: usize,
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    ids: AtomicUsize,
    stop: AtomicBool,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next folder; None when all are done.
    fn next(&self) -> Option<Job> {
        let mut queue = self.queue();
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(job) = queue.jobs.pop() {
                queue.busy += 1;
                return Some(job);
            }
            if queue.busy == 0 {
                return None;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self, more: Vec<Job>) {
        let mut queue = self.queue();
        queue.busy -= 1;
        queue.jobs.extend(more);
        self.changed.notify_all();
    }
}

impl Walk<'_> {
    /// Lists the root and everything below it.
    pub(super) fn run(
        &self,
        last: Option<&Arc<Folder>>,
    ) -> Result<HashMap<usize, Listing>, ScanError> {
        let unreadable = |error| ScanError::Unreadable { path: self.root.to_owned(), error };
        let found = fs::symlink_metadata(self.root).map_err(unreadable)?;
        if !found.is_dir() {
            return Err(unreadable(io::ErrorKind::NotADirectory.into()));
        }
        // A root that cannot be listed would look empty.
        fs::read_dir(self.root).map_err(unreadable)?;
        let first = Job {
            id: 0,
            place: Vec::new(),
            mode: found.mode() & 0o7777,
            depth: 0,
            kind: Kind::Plain,
            rules: self.cache.around(self.root, self.now),
            last: last.cloned(),
        };
        let shared = Shared {
            queue: Mutex::new(Queue { jobs: vec![first], busy: 0 }),
            changed: Condvar::new(),
            ids: AtomicUsize::new(1),
            stop: AtomicBool::new(false),
        };
        let work = || {
            let mut found = Vec::new();
            while let Some(job) = shared.next() {
                let id = job.id;
                let (listing, more) = self.list(job, &shared.ids);
                found.push((id, listing));
                if self.begin.elapsed() > self.limits.walk {
                    shared.stop.store(true, Ordering::Relaxed);
                }
                shared.done(more);
            }
            found
        };
        let mut all = HashMap::new();
        thread::scope(|scope| {
            let others: Vec<_> = (1..threads()).map(|_| scope.spawn(work)).collect();
            all.extend(work());
            for other in others {
                all.extend(other.join().unwrap_or_default());
            }
        });
        if shared.stop.load(Ordering::Relaxed) {
            return Err(ScanError::TooMany {
                root: self.root.to_owned(),
                seen: self.seen.load(Ordering::Relaxed),
                limit: self.limits.walk,
            });
        }
        Ok(all)
    }

    /// Lists one folder. Returns the folders in it that are to be listed.
    fn list(&self, job: Job, ids: &AtomicUsize) -> (Listing, Vec<Job>) {
        let path = path_of(self.root, &job.place);
        let mut names: Vec<(Box<[u8]>, fs::DirEntry)> = Vec::new();
        let mut failed = None;
        match fs::read_dir(&path) {
            Err(error) => failed = Some(error.kind()),
            Ok(entries) => names.extend(
                entries.flatten().map(|entry| (entry.file_name().into_vec().into(), entry)),
            ),
        }
        if job.depth == 0 {
            names.retain(|(name, _)| !name.starts_with(STAGING.as_bytes()));
        }
        names.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        self.seen.fetch_add(names.len(), Ordering::Relaxed);
        let has = |name: &[u8]| names.binary_search_by(|(known, _)| (**known).cmp(name)).is_ok();
        let is_git = git::is_git(&has);
        let has = (has(b".git"), has(b".gitignore"));
        let rules = if is_git || job.kind != Kind::Plain {
            None
        } else {
            self.cache.enter(&path, job.rules.as_ref(), has, self.now)
        };
        let leaf = job.place.rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_vec();
        let (mut drafts, mut below) = (Vec::with_capacity(names.len()), Vec::new());
        for (name, entry) in names {
            let known = job.last.as_ref().and_then(|last| last.get(&name));
            if job.kind == Kind::Leaf && git::is_object(&leaf, &name) {
                let is_known = known.is_some_and(|item| item.what == What::Object);
                let what = Drafted::Known(What::Object);
                drafts.push(Draft { name, mark: 0, mode: 0, what, is_new_object: !is_known });
                continue;
            }
            let Ok(found) = entry.metadata() else { continue };
            if !found.is_dir() {
                let path = if found.is_symlink() { entry.path() } else { PathBuf::new() };
                drafts.extend(draft(&name, &found, self.limits, self.now, known, &path));
                continue;
            }
            let place = join(&job.place, &name);
            let (is, mode) = (mark(&found, self.now), found.mode() & 0o7777);
            let kind = match job.kind {
                Kind::Plain if is_git && &*name == b"objects" => Kind::Objects,
                Kind::Objects if git::is_object_folder(&name) => Kind::Leaf,
                _ => Kind::Plain,
            };
            let what = if job.depth >= DEEPEST {
                Drafted::Known(What::Outside(Why::Unreadable, 0))
            } else if self.is_left_out(rules.as_ref(), &place) {
                Drafted::Known(What::Outside(Why::Ignored, 0))
            } else {
                match known.map(|item| (&item.what, item.mark)) {
                    // Names of objects do not change their contents: the folder shows it all.
                    Some((What::Folder(folder), was))
                        if kind == Kind::Leaf && was == is && is != 0 =>
                    {
                        Drafted::Known(What::Folder(Arc::clone(folder)))
                    }
                    known => {
                        let last = match known {
                            Some((What::Folder(folder), _)) => Some(Arc::clone(folder)),
                            _ => None,
                        };
                        let id = ids.fetch_add(1, Ordering::Relaxed);
                        let (rules, depth) = (rules.clone(), job.depth + 1);
                        below.push(Job { id, place, mode, depth, kind, rules, last });
                        Drafted::Below(id)
                    }
                }
            };
            drafts.push(Draft { name, mark: is, mode, what, is_new_object: false });
        }
        let Job { place, mode, last, .. } = job;
        (Listing { place, mode, drafts, last, failed }, below)
    }

    /// Whether a folder is not covered because git ignores it.
    fn is_left_out(&self, rules: Option<&Arc<Rules>>, place: &[u8]) -> bool {
        let Some(rules) = rules else { return false };
        let path = path_of(self.root, place);
        // Not even git ignores what belongs to it.
        if path.file_name().is_some_and(|name| name.as_bytes() == b".git") {
            return false;
        }
        if !self.cache.ignores(rules, &path, self.now) {
            return false;
        }
        let is_forced = |forced: &PathBuf| forced.starts_with(&path) || path.starts_with(forced);
        if self.forced.iter().any(is_forced) {
            return false;
        }
        let was = self.covered.and_then(|image| find(image, place));
        !matches!(was, Some(State::Folder { .. }))
    }
}

/// When a file was changed last, which is all that is known about one that is not covered.
pub(super) fn stamp(found: &Metadata) -> u64 {
    let nanos = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
    u64::try_from(nanos).unwrap_or_default()
}

/// What is known about something that is not a folder.
pub(super) fn draft(
    name: &[u8],
    found: &Metadata,
    limits: Limits,
    now: SystemTime,
    known: Option<&Item>,
    path: &Path,
) -> Option<Draft> {
    let is = mark(found, now);
    let mode = found.mode() & 0o7777;
    let what = match known {
        Some(item) if item.mark == is && is != 0 => Drafted::Known(item.what.clone()),
        _ if found.is_symlink() => {
            let target = fs::read_link(path).ok()?;
            Drafted::Known(What::Link(target.into_os_string().into_vec().into()))
        }
        _ if !found.is_file() => Drafted::Known(What::Outside(Why::Special, 0)),
        _ if found.size() > limits.file => Drafted::Known(What::Outside(Why::Large, stamp(found))),
        _ => Drafted::Read(found.size()),
    };
    // Links have no mode of their own that counts.
    let mode = if found.is_symlink() { 0 } else { mode };
    Some(Draft { name: name.into(), mark: is, mode, what, is_new_object: false })
}
