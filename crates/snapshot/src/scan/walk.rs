//! The walk over a folder: metadata only, on all cores.
//!
//! A folder that is as it was in the last image costs one look at each name and no memory.
//! Invariants: a folder has a larger number than the one around it; every name that was listed is
//! in its listing, once, in order; nothing is opened but folders and patterns; every folder is
//! opened from the one around it, so that no link is followed on the way.

use std::collections::HashMap;
use std::ffi::{CStr, OsStr};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Instant, SystemTime};

use rustix::fs::{AtFlags, CWD, Dir, readlinkat, statat};

use super::{Limits, ScanError, threads};
use crate::git;
use crate::mark::Found;
use crate::restore::STAGING;
use crate::rules::{Cache, Rules, path_of};
use crate::sealed::OpenedUp;
use crate::tree::{DEEPEST, Folder, Item, Place, State, What, Why, find, join};

/// A folder as it was found.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) place: Place,
    pub(super) mode: u32,
    pub(super) body: Body,
    /// The folder in the last image.
    pub(super) last: Option<Arc<Folder>>,
    /// Why it could not be listed.
    pub(super) failed: Option<io::ErrorKind>,
}

/// What is in a folder.
#[derive(Debug)]
pub(super) enum Body {
    /// What is in it in the last image, as far as it shows; with the folders among these items that
    /// are listed: their place, and their numbers.
    Same(Vec<(usize, usize)>),
    Drafts(Vec<Draft>),
}

impl Body {
    /// The drafts, if there are any.
    pub(super) fn drafts(&self) -> &[Draft] {
        match self {
            Body::Same(_) => &[],
            Body::Drafts(drafts) => drafts,
        }
    }
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
    pub(super) opened: &'a OpenedUp,
    /// The folder of the journal.
    pub(super) rewinds: PathBuf,
    pub(super) forced: &'a [PathBuf],
    pub(super) covered: &'a [Arc<Folder>],
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
    /// The folder around it; None for the root.
    outer: Option<Arc<OwnedFd>>,
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
    /// Threads that wait for one.
    waiting: usize,
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
            queue.waiting += 1;
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.waiting -= 1;
        }
    }

    fn done(&self, more: Vec<Job>) {
        let mut queue = self.queue();
        queue.busy -= 1;
        queue.jobs.extend(more);
        let is_over = queue.busy == 0 && queue.jobs.is_empty();
        let is_stopped = self.stop.load(Ordering::Relaxed);
        if queue.waiting > 0 && (is_over || is_stopped || !queue.jobs.is_empty()) {
            self.changed.notify_all();
        }
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
            return Err(ScanError::NoFolder(self.root.to_owned()));
        }
        let found = Found::from(&found);
        // A root that cannot be listed would look empty.
        self.opened.folder(CWD, self.root, found.mode()).map_err(unreadable)?;
        let first = Job {
            id: 0,
            outer: None,
            place: Vec::new(),
            mode: found.mode(),
            depth: 0,
            kind: Kind::Plain,
            rules: self.cache.around(self.root, self.now),
            last: last.cloned(),
        };
        let shared = Shared {
            queue: Mutex::new(Queue { jobs: vec![first], busy: 0, waiting: 0 }),
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
    #[allow(clippy::too_many_lines, reason = "one pass over the names of a folder")]
    fn list(&self, job: Job, ids: &AtomicUsize) -> (Listing, Vec<Job>) {
        let leaf = job.place.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let opened = match &job.outer {
            None => self.opened.folder(CWD, self.root, job.mode),
            Some(outer) => self.opened.folder(outer.as_fd(), OsStr::from_bytes(leaf), job.mode),
        };
        let listed = opened.and_then(|folder| {
            let names = Names::of(&folder, |name| self.is_waiting(name))?;
            Ok((Arc::new(folder), names))
        });
        let (folder, names) = match listed {
            Ok(listed) => listed,
            Err(error) => {
                let Job { place, mode, last, .. } = job;
                let (body, failed) = (Body::Drafts(Vec::new()), Some(error.kind()));
                return (Listing { place, mode, body, last, failed }, Vec::new());
            }
        };
        self.seen.fetch_add(names.spans.len(), Ordering::Relaxed);
        let is_git = git::is_git(&|name| names.has(name));
        let has = (names.has(b".git"), names.has(b".gitignore"));
        let rules = match &job.rules {
            _ if is_git || job.kind != Kind::Plain => None,
            Some(rules) if has == (false, false) => Some(Arc::clone(rules)),
            None if !has.0 => None,
            rules => {
                let path = path_of(self.root, &job.place);
                self.cache.enter(&path, rules.as_ref(), has, self.now)
            }
        };
        let known = job.last.as_ref().map_or(&[][..], |last| &last.items);
        let is_like =
            |last: &Arc<Folder>| last.mode == job.mode && last.items.len() == names.spans.len();
        let mut looked = Looked {
            known,
            same: job.last.as_ref().filter(|last| is_like(last)).map(|_| (0, Vec::new())),
            drafts: Vec::new(),
        };
        let covering = (self.root, self.forced, self.covered);
        let (mut below, mut at) = (Vec::new(), 0);
        for name in names.iter() {
            let bytes = name.to_bytes();
            while known.get(at).is_some_and(|item| *item.name < *bytes) {
                at += 1;
            }
            let was = known.get(at).filter(|item| *item.name == *bytes);
            if job.kind == Kind::Leaf && git::is_object(leaf, bytes) {
                let is_new = was.is_none_or(|item| item.what != What::Object);
                looked.add((!is_new).then_some(at), None, || {
                    let what = Drafted::Known(What::Object);
                    Some(Draft {
                        name: bytes.into(),
                        mark: 0,
                        mode: 0,
                        what,
                        is_new_object: is_new,
                    })
                });
                continue;
            }
            let Ok(found) = statat(&*folder, name, AtFlags::SYMLINK_NOFOLLOW) else {
                looked.differ();
                continue;
            };
            let found = Found::from(&found);
            if !found.is_folder() {
                let is = found.mark(self.now);
                let is_same = was.is_some_and(|item| item.mark == is && is != 0);
                let target = || Some(readlinkat(&*folder, name, Vec::new()).ok()?.into_bytes());
                looked.add(is_same.then_some(at), None, || {
                    draft(bytes, found, self.limits, self.now, was, target)
                });
                continue;
            }
            let place = join(&job.place, bytes);
            let (is, mode) = (found.mark(self.now), found.mode());
            let kind = match job.kind {
                Kind::Plain if is_git && bytes == b"objects" => Kind::Objects,
                Kind::Objects if git::is_object_folder(bytes) => Kind::Leaf,
                _ => Kind::Plain,
            };
            let what = if job.depth >= DEEPEST {
                Drafted::Known(What::Outside(Why::Unreadable, 0))
            } else if is_left_out(covering, (self.cache, rules.as_ref()), &place, self.now) {
                Drafted::Known(What::Outside(Why::Ignored, 0))
            } else {
                match was.map(|item| (&item.what, item.mark)) {
                    // Names of objects do not change their contents: the folder shows it all.
                    Some((What::Folder(folder), was))
                        if kind == Kind::Leaf && was == is && is != 0 =>
                    {
                        Drafted::Known(What::Folder(Arc::clone(folder)))
                    }
                    was => {
                        let last = match was {
                            Some((What::Folder(folder), _)) => Some(Arc::clone(folder)),
                            _ => None,
                        };
                        let id = ids.fetch_add(1, Ordering::Relaxed);
                        let (rules, depth) = (rules.clone(), job.depth + 1);
                        let outer = Some(Arc::clone(&folder));
                        below.push(Job { id, outer, place, mode, depth, kind, rules, last });
                        Drafted::Below(id)
                    }
                }
            };
            let is_same = |item: &Item| {
                let is_what = match (&item.what, &what) {
                    (What::Folder(_), Drafted::Below(_)) => true,
                    (was, Drafted::Known(what)) => was == what,
                    _ => false,
                };
                is_what && (item.mark, item.mode) == (is, mode)
            };
            let id = if let Drafted::Below(id) = &what { Some(*id) } else { None };
            looked.add(was.is_some_and(is_same).then_some(at), id, || {
                Some(Draft { name: bytes.into(), mark: is, mode, what, is_new_object: false })
            });
        }
        let body = looked.body();
        let Job { place, mode, last, .. } = job;
        (Listing { place, mode, body, last, failed: None }, below)
    }

    /// Whether it is the folder in which files of a rewind wait that was stopped, or one of them
    /// where another file system is mounted.
    fn is_waiting(&self, name: &[u8]) -> bool {
        let rewind = name.strip_prefix(STAGING.as_bytes());
        // Their names begin with a number.
        let rewind = rewind.filter(|rewind| rewind.first().is_some_and(u8::is_ascii_digit));
        rewind.is_some_and(|rewind| self.rewinds.join(OsStr::from_bytes(rewind)).exists())
    }
}

/// Whether a folder is not covered because git ignores it: of a root, with the folders that are
/// covered all the same, and images of which everything stays so.
pub(super) fn is_left_out(
    (root, forced, covered): (&Path, &[PathBuf], &[Arc<Folder>]),
    (cache, rules): (&Cache, Option<&Arc<Rules>>),
    place: &[u8],
    now: SystemTime,
) -> bool {
    let Some(rules) = rules else { return false };
    let path = path_of(root, place);
    // Not even git ignores what belongs to it.
    if path.file_name().is_some_and(|name| name.as_bytes() == b".git") {
        return false;
    }
    if !cache.ignores(rules, &path, now) {
        return false;
    }
    if forced.iter().any(|forced| forced.starts_with(&path) || path.starts_with(forced)) {
        return false;
    }
    let is_covered = |image: &Arc<Folder>| matches!(find(image, place), Some(State::Folder { .. }));
    !covered.iter().any(is_covered)
}

/// The names in a folder, sorted.
struct Names {
    /// All of them, each with a zero behind it.
    text: Vec<u8>,
    spans: Vec<std::ops::Range<usize>>,
}

impl Names {
    fn of(folder: &OwnedFd, is_waiting: impl Fn(&[u8]) -> bool) -> io::Result<Names> {
        let mut names = Names { text: Vec::new(), spans: Vec::new() };
        for entry in Dir::new(folder.try_clone()?)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." || is_waiting(name) {
                continue;
            }
            let start = names.text.len();
            names.text.extend_from_slice(entry.file_name().to_bytes_with_nul());
            names.spans.push(start..names.text.len());
        }
        let text = &names.text;
        names.spans.sort_unstable_by(|one, other| text[one.clone()].cmp(&text[other.clone()]));
        Ok(names)
    }

    fn iter(&self) -> impl Iterator<Item = &CStr> {
        let name = |span: &std::ops::Range<usize>| {
            CStr::from_bytes_with_nul(&self.text[span.clone()]).unwrap_or_default()
        };
        self.spans.iter().map(name)
    }

    fn has(&self, name: &[u8]) -> bool {
        let without_zero = |span: &std::ops::Range<usize>| &self.text[span.start..span.end - 1];
        self.spans.binary_search_by(|span| without_zero(span).cmp(name)).is_ok()
    }
}

/// What was looked at in a folder: hardly more than a count as long as it is what the last image
/// has.
struct Looked<'a> {
    known: &'a [Item],
    /// How many items are the same so far, and the folders among them; None once something differs.
    same: Option<(usize, Vec<(usize, usize)>)>,
    drafts: Vec<Draft>,
}

impl Looked<'_> {
    /// Something differs: what was the same so far is written out.
    fn differ(&mut self) {
        if let Some((count, folders)) = self.same.take() {
            self.drafts = drafts_of(&self.known[..count], &folders);
        }
    }

    /// Adds an item: the known one at `same`, if it is that one; with its number if it is a folder
    /// that is listed.
    fn add(
        &mut self,
        same: Option<usize>,
        id: Option<usize>,
        make: impl FnOnce() -> Option<Draft>,
    ) {
        if let (Some(at), Some((count, folders))) = (same, &mut self.same)
            && at == *count
        {
            folders.extend(id.map(|id| (at, id)));
            *count += 1;
            return;
        }
        self.differ();
        self.drafts.extend(make());
    }

    fn body(mut self) -> Body {
        if self.same.as_ref().is_some_and(|(count, _)| *count != self.known.len()) {
            self.differ();
        }
        match self.same {
            Some((_, folders)) => Body::Same(folders),
            None => Body::Drafts(self.drafts),
        }
    }
}

/// Items of the last image as drafts; `folders` are those that are listed, with their numbers.
pub(super) fn drafts_of(items: &[Item], folders: &[(usize, usize)]) -> Vec<Draft> {
    let mut folders = folders.iter().peekable();
    let drafts = items.iter().enumerate().map(|(at, item)| {
        let what = match folders.next_if(|(folder, _)| *folder == at) {
            Some((_, id)) => Drafted::Below(*id),
            None => Drafted::Known(item.what.clone()),
        };
        let Item { name, mark, mode, .. } = item;
        Draft { name: name.clone(), mark: *mark, mode: *mode, what, is_new_object: false }
    });
    drafts.collect()
}

/// What is known about something that is not a folder. `target` reads a link.
pub(super) fn draft(
    name: &[u8],
    found: Found,
    limits: Limits,
    now: SystemTime,
    known: Option<&Item>,
    target: impl FnOnce() -> Option<Vec<u8>>,
) -> Option<Draft> {
    let is = found.mark(now);
    let what = match known {
        Some(item) if item.mark == is && is != 0 => Drafted::Known(item.what.clone()),
        _ if found.is_link() => Drafted::Known(What::Link(target()?.into())),
        _ if !found.is_file() => Drafted::Known(What::Outside(Why::Special, 0)),
        _ if found.size > limits.file => Drafted::Known(What::Outside(Why::Large, found.stamp())),
        _ => Drafted::Read(found.size),
    };
    // Links have no mode of their own that counts.
    let mode = if found.is_link() { 0 } else { found.mode() };
    Some(Draft { name: name.into(), mark: is, mode, what, is_new_object: false })
}
