//! Takes an image of a folder: looks at every file, reads those that may have changed.
//!
//! Three passes: the walk looks at metadata only, on all cores; then what is new, has another mark
//! or is too young to tell is read, hashed and stored; then listings are made of it. Invariants:
//! links are never followed; a file whose mark is as before has not changed; a content is stored
//! before a listing names it; what cannot be covered is in the listing, with the reason.

mod walk;

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::hash::Hash;
use crate::mark::{Found, mark};
use crate::moment::Moment;
use crate::restore::REWINDS;
use crate::rules::{Cache, path_of};
use crate::sealed::{self, OpenedUp};
use crate::store::{BLOCK, LARGE, Part, Store};
use crate::tree::{self, Folder, Item, Place, State, What, Why, join};
use crate::vault::Vault;

use walk::{Body, Draft, Drafted, Listing, Walk, drafts_of};

/// What an image may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A larger file is not covered.
    pub file: u64,
    /// How long looking at all files may take.
    pub walk: Duration,
    /// How long reading what has changed may take.
    pub read: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { file: 64 << 20, walk: Duration::from_secs(2), read: Duration::from_secs(20) }
    }
}

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    #[error("`{}` has too many files: {seen} were looked at in {} s", .root.display(), .limit.as_secs_f32())]
    TooMany { root: PathBuf, seen: usize, limit: Duration },
    #[error("reading what has changed in `{}` takes longer than {} s", .root.display(), .limit.as_secs_f32())]
    TooMuch { root: PathBuf, limit: Duration },
    #[error("the store `{}` is inside the folder `{}` that it should have images of", .store.display(), .root.display())]
    Inside { root: PathBuf, store: PathBuf },
    #[error("`{}` is not a folder any more: move it away, and run this again", .0.display())]
    NoFolder(PathBuf),
    #[error("cannot read `{}`: {error}", .path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("cannot store it: {0}")]
    Store(#[from] io::Error),
}

/// Takes images of one folder, each from the one before.
#[derive(Debug)]
pub struct Scanner {
    pub(crate) root: PathBuf,
    /// Folders below the root that are covered whatever git ignores.
    pub(crate) forced: Vec<PathBuf>,
    /// The last image, with marks.
    last: Option<Arc<Folder>>,
    /// The first image and the last one: what is covered in them stays covered, whatever git
    /// ignores since.
    covered: Vec<Arc<Folder>>,
    cache: Cache,
}

impl Scanner {
    /// For a folder, whose path has no links.
    pub fn new(root: PathBuf) -> Scanner {
        Scanner {
            root,
            forced: Vec::new(),
            last: None,
            covered: Vec::new(),
            cache: Cache::default(),
        }
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The last image.
    pub fn last(&self) -> Option<&Arc<Folder>> {
        self.last.as_ref()
    }

    /// Continues from an image with marks.
    pub(crate) fn set_last(&mut self, last: Arc<Folder>) {
        self.last = Some(last);
    }

    /// What the first and the last of these moments cover stays covered.
    pub(crate) fn keep_covered(&mut self, store: &Store, moments: &[Moment]) {
        let images = || moments.iter().filter_map(|moment| moment.image(&self.root));
        let ends: Vec<Hash> = images().next().into_iter().chain(images().next_back()).collect();
        for id in ends {
            let known = self.covered.iter().chain(&self.last).find(|image| image.id == id).cloned();
            // Of an image that is damaged nothing can be brought back.
            if let Some(image) = known.or_else(|| Folder::load(store, id).ok()) {
                self.cover(image);
            }
        }
    }

    fn cover(&mut self, image: Arc<Folder>) {
        self.covered.truncate(1);
        self.covered.push(image);
    }

    /// Reads everything again next time: what is stored may have been swept.
    pub(crate) fn start_over(&mut self) {
        self.last = None;
    }

    /// Takes an image.
    pub fn scan(
        &mut self,
        store: &Store,
        vault: &Vault,
        limits: Limits,
        now: SystemTime,
    ) -> Result<Arc<Folder>, ScanError> {
        // Until everything is read.
        let opened = OpenedUp::default();
        self.scan_opened((store, vault), limits, now, &opened)
    }

    /// Takes an image. What has to be opened up for it stays so.
    pub(crate) fn scan_opened(
        &mut self,
        (store, vault): (&Store, &Vault),
        limits: Limits,
        now: SystemTime,
        opened: &OpenedUp,
    ) -> Result<Arc<Folder>, ScanError> {
        if store.folder().starts_with(&self.root) {
            let (root, store) = (self.root.clone(), store.folder().to_owned());
            return Err(ScanError::Inside { root, store });
        }
        let walk = Walk {
            root: &self.root,
            opened,
            rewinds: store.folder().join(REWINDS),
            forced: &self.forced,
            covered: &self.covered,
            cache: &self.cache,
            limits,
            now,
            begin: Instant::now(),
            seen: AtomicUsize::new(0),
        };
        let mut listings = walk.run(self.last.as_ref())?;
        self.read(store, limits, now, &mut listings)?;
        self.keep_objects(vault, &listings);
        let image = assemble(store, listings)?;
        self.last = Some(Arc::clone(&image));
        self.cover(Arc::clone(&image));
        Ok(image)
    }

    /// Reads and stores the files that may have changed.
    fn read(
        &self,
        store: &Store,
        limits: Limits,
        now: SystemTime,
        listings: &mut HashMap<usize, Listing>,
    ) -> Result<(), ScanError> {
        let mut wanted: Vec<(Place, usize, usize, u64)> = Vec::new();
        for (id, listing) in &*listings {
            for (at, draft) in listing.body.drafts().iter().enumerate() {
                if let Drafted::Read(size) = draft.what {
                    wanted.push((join(&listing.place, &draft.name), *id, at, size));
                }
            }
        }
        // Neighbours compress well together.
        wanted.sort_unstable();
        let runs = runs(&wanted);
        let (next, begin) = (AtomicUsize::new(0), Instant::now());
        let results = Mutex::new(Vec::new());
        let failed: Mutex<Option<ScanError>> = Mutex::new(None);
        let work = || {
            while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                let is_late = begin.elapsed() > limits.read;
                let read = if is_late {
                    Err(ScanError::TooMuch { root: self.root.clone(), limit: limits.read })
                } else {
                    read_run(&self.root, store, now, run)
                };
                match read {
                    Ok(read) => {
                        results.lock().unwrap_or_else(PoisonError::into_inner).extend(read);
                    }
                    Err(error) => {
                        *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                        next.store(runs.len(), Ordering::Relaxed);
                    }
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..threads().min(runs.len()) {
                scope.spawn(work);
            }
            work();
        });
        if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        for (id, at, what, mark) in results.into_inner().unwrap_or_else(PoisonError::into_inner) {
            if let Some(Body::Drafts(drafts)) = listings.get_mut(&id).map(|found| &mut found.body)
                && let Some(draft) = drafts.get_mut(at)
            {
                draft.mark = mark;
                draft.what = what.map_or(Drafted::Gone, Drafted::Known);
            }
        }
        Ok(())
    }

    /// Keeps the objects of git that are new, on all cores.
    fn keep_objects(&self, vault: &Vault, listings: &HashMap<usize, Listing>) {
        let mut leaves: Vec<(&[u8], Vec<&[u8]>)> = Vec::new();
        for listing in listings.values() {
            let new = listing.body.drafts().iter().filter(|draft| draft.is_new_object);
            let names: Vec<&[u8]> = new.map(|draft| &*draft.name).collect();
            if !names.is_empty() {
                leaves.push((&listing.place, names));
            }
        }
        if leaves.is_empty() {
            return;
        }
        let (next, how) = (AtomicUsize::new(0), vault.prepare(&self.root, &leaves));
        let work = || {
            while let Some((leaf, names)) = leaves.get(next.fetch_add(1, Ordering::Relaxed)) {
                vault.keep_all(&self.root, leaf, names, how);
            }
        };
        thread::scope(|scope| {
            for _ in 1..threads().min(leaves.len()) {
                scope.spawn(work);
            }
            work();
        });
    }

    /// Brings the last image up to date for one path alone, which the caller knows to be the only
    /// one that it changes. Without a last image, or for a path that is not covered, returns None.
    pub fn touch_up(
        &mut self,
        store: &Store,
        limits: Limits,
        now: SystemTime,
        path: &Path,
    ) -> Result<Option<Arc<Folder>>, ScanError> {
        let Some(last) = self.last.clone() else { return Ok(None) };
        let Ok(relative) = path.strip_prefix(&self.root) else { return Ok(None) };
        let names: Vec<&[u8]> = relative.iter().map(OsStrExt::as_bytes).collect();
        let Some(image) = self.touched(&last, &[], &names, (store, limits, now))? else {
            return Ok(None);
        };
        self.last = Some(Arc::clone(&image));
        self.cover(Arc::clone(&image));
        Ok(Some(image))
    }

    fn touched(
        &self,
        folder: &Arc<Folder>,
        place: &[u8],
        names: &[&[u8]],
        about: (&Store, Limits, SystemTime),
    ) -> Result<Option<Arc<Folder>>, ScanError> {
        let Some((name, below)) = names.split_first() else { return Ok(None) };
        let (store, limits, now) = about;
        let here = join(place, name);
        let path = path_of(&self.root, &here);
        let is = fs::symlink_metadata(&path).ok();
        let known = folder.get(name);
        // A folder that is made for the file may be one that git ignores.
        let is_known = matches!(known.map(|item| &item.what), Some(What::Folder(_)));
        if !below.is_empty() && !is_known {
            let rules = self.cache.around(&path, now);
            let parts = (&*self.root, &*self.forced, &*self.covered);
            if walk::is_left_out(parts, (&self.cache, rules.as_ref()), &here, now) {
                return Ok(None);
            }
        }
        let item = match (is, known.map(|item| &item.what)) {
            (_, Some(What::Outside(Why::Ignored, _) | What::Object)) => return Ok(None),
            (None, _) => None,
            (Some(is), what) if is.is_dir() => {
                let before = match what {
                    Some(What::Folder(folder)) => Arc::clone(folder),
                    _ => Arc::new(Folder { mode: 0, id: Hash::default(), items: Vec::new() }),
                };
                let mode = Found::from(&is).mode();
                let before = with_mode(store, &before, mode)?;
                let after = self.touched(&before, &here, below, about)?;
                let what = What::Folder(after.unwrap_or(before));
                Some(Item { name: (*name).into(), mark: mark(&is, now), mode, what })
            }
            (Some(_), _) if !below.is_empty() => return Ok(None),
            (Some(is), _) => {
                let target = || Some(fs::read_link(&path).ok()?.into_os_string().into_vec());
                walk::draft(name, Found::from(&is), limits, now, known, target)
                    .map(|draft| {
                        let size = std::os::unix::fs::MetadataExt::size(&is);
                        if let Drafted::Known(what) = draft.what {
                            let Draft { name, mark, mode, .. } = draft;
                            Ok(Some(Item { name, mark, mode, what }))
                        } else {
                            let run = [(here.clone(), 0, 0, size)];
                            let mut read = read_run(&self.root, store, now, &run)?;
                            let Draft { name, mode, .. } = draft;
                            let item = read.pop().and_then(|(_, _, what, mark)| {
                                what.map(|what| Item { name, mark, mode, what })
                            });
                            Ok::<_, ScanError>(item)
                        }
                    })
                    .transpose()?
                    .flatten()
            }
        };
        let mut items = folder.items.clone();
        match (items.binary_search_by(|item| (*item.name).cmp(name)), item) {
            (Ok(at), Some(item)) => items[at] = item,
            (Err(at), Some(item)) => items.insert(at, item),
            (Ok(at), None) => drop(items.remove(at)),
            (Err(_), None) => return Ok(Some(Arc::clone(folder))),
        }
        Ok(Some(made(store, folder.mode, items)?))
    }

    /// What stands at a path now, without storing anything.
    pub fn state_now(&self, place: &[u8], limits: Limits) -> Option<State> {
        state_at(&path_of(&self.root, place), limits)
    }
}

/// What stands at a path, without following a link in its last part.
pub(crate) fn state_at(path: &Path, limits: Limits) -> Option<State> {
    use std::os::unix::fs::MetadataExt;
    let is = fs::symlink_metadata(path).ok()?;
    let mode = is.mode() & 0o7777;
    if is.is_dir() {
        return Some(State::Folder { mode });
    }
    if is.is_symlink() {
        let target = fs::read_link(path).ok()?;
        return Some(State::Link(target.as_os_str().as_bytes().into()));
    }
    if !is.is_file() {
        return Some(State::Outside(Why::Special, 0));
    }
    if is.size() > limits.file {
        return Some(State::Outside(Why::Large, Found::from(&is).stamp()));
    }
    let Ok(mut file) = open(path) else { return Some(State::Outside(Why::Unreadable, 0)) };
    match crate::store::hash_of(&mut file) {
        Ok((hash, size)) => Some(State::File { mode, size, hash }),
        Err(_) => Some(State::Outside(Why::Unreadable, 0)),
    }
}

/// The state of a file over the size limit.
pub(crate) fn large(path: &Path, limits: Limits) -> Option<State> {
    let found = Found::from(&fs::symlink_metadata(path).ok()?);
    let is_large = found.is_file() && found.size > limits.file;
    is_large.then(|| State::Outside(Why::Large, found.stamp()))
}

/// Stores what a file contains now. Returns its state; None if there is nothing.
pub fn keep(store: &Store, path: &Path, now: SystemTime) -> Result<Option<State>, ScanError> {
    use std::os::unix::fs::MetadataExt;
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(None) };
    let run = [(name.as_bytes().to_vec(), 0, 0, 0)];
    let mode = found.mode() & 0o7777;
    Ok(match read_run(folder, store, now, &run)?.pop() {
        Some((_, _, Some(What::File { size, hash }), _)) => Some(State::File { mode, size, hash }),
        Some((_, _, Some(What::Outside(why, stamp)), _)) => Some(State::Outside(why, stamp)),
        _ => None,
    })
}

fn with_mode(store: &Store, folder: &Arc<Folder>, mode: u32) -> io::Result<Arc<Folder>> {
    if folder.mode == mode && folder.id != Hash::default() {
        return Ok(Arc::clone(folder));
    }
    made(store, mode, folder.items.clone())
}

/// A folder with these items, stored.
fn made(store: &Store, mode: u32, items: Vec<Item>) -> io::Result<Arc<Folder>> {
    let bytes = Folder::encode(mode, &items);
    let id = Hash::of(&bytes);
    if !store.has(id) {
        store.put(&[(id, 0, bytes.len() as u64)], &bytes)?;
    }
    Ok(Arc::new(Folder { mode, id, items }))
}

pub(crate) fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(8)
}

type Want = (Place, usize, usize, u64);

/// Divides files into runs of about a block each.
fn runs(wanted: &[Want]) -> Vec<&[Want]> {
    let mut runs = Vec::new();
    let (mut start, mut size) = (0, 0);
    for (at, (.., bytes)) in wanted.iter().enumerate() {
        if at > start && size + bytes > BLOCK as u64 {
            runs.push(&wanted[start..at]);
            (start, size) = (at, 0);
        }
        size += bytes;
    }
    if start < wanted.len() {
        runs.push(&wanted[start..]);
    }
    runs
}

/// A file that was read: its listing, its place in it, what it is (None if it is gone), its mark.
type Done = (usize, usize, Option<What>, u64);

/// Reads files, and stores what is new of them.
fn read_run(
    root: &Path,
    store: &Store,
    now: SystemTime,
    run: &[Want],
) -> Result<Vec<Done>, ScanError> {
    let mut done = Vec::with_capacity(run.len());
    let mut raw: Vec<u8> = Vec::new();
    let mut parts: Vec<Part> = Vec::new();
    let mut new: HashSet<Hash> = HashSet::new();
    for (place, id, at, _) in run {
        let (found, mut file) = match sealed::open_file(&path_of(root, place)) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                done.push((*id, *at, None, 0));
                continue;
            }
            Err(_) => {
                done.push((*id, *at, Some(What::Outside(Why::Unreadable, 0)), 0));
                continue;
            }
        };
        let what = if found.size >= LARGE {
            let (hash, size) = store.put_large(&mut file)?;
            What::File { size, hash }
        } else {
            let start = raw.len();
            if read_small(&mut file, found.size, &mut raw).is_err() {
                raw.truncate(start);
                What::Outside(Why::Unreadable, 0)
            } else {
                let hash = Hash::of(&raw[start..]);
                let size = (raw.len() - start) as u64;
                if store.has(hash) || !new.insert(hash) {
                    raw.truncate(start);
                } else {
                    parts.push((hash, start as u64, size));
                }
                What::File { size, hash }
            }
        };
        // A file that was written to meanwhile is read again next time.
        let after = file.metadata().map_or(0, |after| mark(&after, now));
        let is_same = after == found.mark(now);
        done.push((*id, *at, Some(what), if is_same { after } else { 0 }));
    }
    store.put(&parts, &raw)?;
    Ok(done)
}

/// Opens a regular file: neither a link nor anything that waits.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    sealed::open_file(path).map(|(_, file)| file)
}

/// Appends what a file contains, which is about `size` bytes and at most a block.
fn read_small(file: &mut File, size: u64, raw: &mut Vec<u8>) -> io::Result<()> {
    let start = raw.len();
    let mut end = start;
    // With one byte more the end is seen without another piece.
    let mut room = usize::try_from(size).unwrap_or(BLOCK).min(BLOCK - 1) + 1;
    loop {
        raw.resize(end + room, 0);
        match file.read(&mut raw[end..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(0) => break,
            Ok(count) => end += count,
        }
        if end - start >= BLOCK {
            break;
        }
        room = (raw.len() - end).max(1 << 12).min(BLOCK - (end - start));
    }
    raw.truncate(end);
    Ok(())
}

/// Makes listings, the innermost first, and stores those that are new.
fn assemble(store: &Store, listings: HashMap<usize, Listing>) -> Result<Arc<Folder>, ScanError> {
    let mut ids: Vec<usize> = listings.keys().copied().collect();
    ids.sort_unstable();
    let mut listings = listings;
    let mut folders: HashMap<usize, Arc<Folder>> = HashMap::new();
    let mut raw: Vec<u8> = Vec::new();
    let mut parts: Vec<Part> = Vec::new();
    let mut new: HashSet<Hash> = HashSet::new();
    let mut gone: HashSet<usize> = HashSet::new();
    // A folder has a larger number than the one around it.
    for id in ids.into_iter().rev() {
        let Some(listing) = listings.remove(&id) else { continue };
        if let Some(failed) = listing.failed {
            if failed == io::ErrorKind::NotFound {
                gone.insert(id);
            }
            continue;
        }
        let drafts = match (listing.body, &listing.last) {
            (Body::Drafts(drafts), _) => drafts,
            (Body::Same(below), Some(last)) => {
                let is_same = |(at, id): &(usize, usize)| match &last.items[*at].what {
                    What::Folder(was) => folders.get(id).is_some_and(|is| Arc::ptr_eq(is, was)),
                    _ => false,
                };
                if below.iter().all(is_same) {
                    for (_, id) in &below {
                        folders.remove(id);
                    }
                    folders.insert(id, Arc::clone(last));
                    continue;
                }
                drafts_of(&last.items, &below)
            }
            (Body::Same(_), None) => Vec::new(),
        };
        let mut items = Vec::with_capacity(drafts.len());
        for Draft { name, mark, mode, what, .. } in drafts {
            let what = match what {
                Drafted::Known(what) => what,
                Drafted::Below(below) if gone.contains(&below) => continue,
                Drafted::Below(below) => match folders.remove(&below) {
                    Some(folder) => What::Folder(folder),
                    None => What::Outside(Why::Unreadable, 0),
                },
                Drafted::Read(_) => What::Outside(Why::Unreadable, 0),
                Drafted::Gone => continue,
            };
            items.push(Item { name, mark, mode, what });
        }
        let folder = match listing.last {
            Some(last) if last.mode == listing.mode && is_same(&last.items, &items) => {
                let has_same_marks =
                    last.items.iter().zip(&items).all(|(one, other)| one.mark == other.mark);
                if has_same_marks && has_same_folders(&last.items, &items) {
                    last
                } else {
                    Arc::new(Folder { mode: listing.mode, id: last.id, items })
                }
            }
            _ => {
                let bytes = Folder::encode(listing.mode, &items);
                let hash = Hash::of(&bytes);
                if !store.has(hash) && new.insert(hash) {
                    parts.push((hash, raw.len() as u64, bytes.len() as u64));
                    raw.extend(bytes);
                    if raw.len() >= BLOCK {
                        store.put(&parts, &raw)?;
                        parts.clear();
                        raw.clear();
                    }
                }
                Arc::new(Folder { mode: listing.mode, id: hash, items })
            }
        };
        folders.insert(id, folder);
    }
    store.put(&parts, &raw)?;
    let root = folders.remove(&0);
    root.ok_or_else(|| ScanError::Store(tree::damaged(Hash::default())))
}

fn is_same(one: &[Item], other: &[Item]) -> bool {
    let same = |(one, other): (&Item, &Item)| {
        one.name == other.name && one.mode == other.mode && one.what == other.what
    };
    one.len() == other.len() && one.iter().zip(other).all(same)
}

fn has_same_folders(one: &[Item], other: &[Item]) -> bool {
    one.iter().zip(other).all(|(one, other)| match (&one.what, &other.what) {
        (What::Folder(one), What::Folder(other)) => Arc::ptr_eq(one, other),
        _ => true,
    })
}
