//! Bounds what is kept, and deletes what belongs to a session.
//!
//! Invariants: nothing that a session or a rewind that is kept needs is removed; nothing is swept
//! while a process takes images or uses them.

use std::collections::HashSet;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::hash::Hash;
use crate::moment::{Log, Moment, millis};
use crate::restore::{self, Journal, Rewind};
use crate::scan::Limits;
use crate::store::{self, Hook, Store, Swept};
use crate::tree::{Place, State, What, decode, join};
use crate::vault::{self, Vault};

/// How long images are kept, and how many bytes of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub days: u64,
    pub bytes: u64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { days: 30, bytes: 10_000_000_000 }
    }
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// How long contents are looked over for damage, each day.
const LOOK: Duration = Duration::from_secs(3);

/// Deletes the images of a session, and its rewinds.
pub fn forget(folder: &Path, session: &str, hook: Hook) -> io::Result<Swept> {
    if !folder.is_dir() {
        return Ok(Swept::default());
    }
    let store = Store::open(folder, hook)?;
    let file = files::append_private(&folder.join("lock"))?;
    file.lock()?;
    let vault = Vault::new(&folder.join("objects"));
    let journal = Journal::new(&store, &vault, Limits::default());
    let log = Log::of(folder, session);
    let is_known = log.as_ref().is_some_and(|log| log.path().exists());
    let rewinds = restore::all(folder).into_iter().filter(|(one, _)| one.session == session);
    let rewinds: Vec<_> = rewinds.collect();
    if !is_known && rewinds.is_empty() {
        return Ok(Swept::default());
    }
    for (rewind, _) in rewinds {
        forget_rewind(&journal, &rewind)?;
    }
    if let Some(log) = log {
        log.remove(&store.hook)?;
    }
    sweep(&store, &vault)
}

/// Gives a session that goes on from another one the moments of that one; `prompt` has the new ids
/// of its prompts. What a session has already is not touched.
pub fn inherit(
    folder: &Path,
    (from, to): (&str, &str),
    prompt: impl Fn(&str) -> String,
    hook: &Hook,
) -> io::Result<()> {
    let (Some(from), Some(to)) = (Log::of(folder, from), Log::of(folder, to)) else {
        return Ok(());
    };
    if !from.path().exists() || to.path().exists() {
        return Ok(());
    }
    // Nothing is swept between reading and writing.
    let file = files::append_private(&folder.join("lock"))?;
    file.lock_shared()?;
    let mut moments = from.read()?;
    for id in moments.iter_mut().filter_map(|moment| moment.about.prompt.as_mut()) {
        *id = prompt(id);
    }
    to.put(&moments, hook)
}

/// Takes from a session that is gone the moments that it was given; another one has them, too.
pub fn disinherit(folder: &Path, session: &str, hook: &Hook) -> io::Result<()> {
    Log::of(folder, session).map_or(Ok(()), |log| log.remove(hook))
}

/// Whether it is time to tidy up: once a day, and whenever there is too much, or damage.
pub fn is_due(folder: &Path, bounds: Bounds, now: SystemTime) -> bool {
    let packs = std::fs::read_dir(folder.join("packs")).into_iter().flatten().flatten();
    let bytes: u64 = packs.filter_map(|entry| entry.metadata().ok()).map(|is| is.len()).sum();
    let last = std::fs::metadata(folder.join("tidied")).and_then(|found| found.modified());
    let is_old =
        last.map_or(bytes > 0, |last| now.duration_since(last).is_ok_and(|since| since > DAY));
    is_old || bytes > bounds.bytes || store::has_damage(folder)
}

/// Removes what is too old, and the oldest if there is too much: images of sessions, and rewinds.
/// The images of `current`, the session that asks, go last. What is damaged does not count as
/// stored any more. Does nothing while another process uses the store.
pub fn tidy(
    folder: &Path,
    bounds: Bounds,
    current: Option<&str>,
    now: SystemTime,
    hook: Hook,
) -> io::Result<Swept> {
    if !folder.is_dir() {
        return Ok(Swept::default());
    }
    let store = Store::open(folder, hook)?;
    let file = files::append_private(&folder.join("lock"))?;
    if file.try_lock().is_err() {
        return Ok(Swept::default());
    }
    let vault = Vault::new(&folder.join("objects"));
    let journal = Journal::new(&store, &vault, Limits::default());
    let days = i64::try_from(bounds.days.saturating_mul(86_400_000)).unwrap_or(i64::MAX);
    let limit = millis(now).saturating_sub(days);
    let current = current.and_then(|session| Log::of(folder, session));
    let mut queue: Vec<(i64, Kept)> = Vec::new();
    for log in Log::all(folder)? {
        let moments = log.read()?;
        let time = moments.last().map_or(0, |moment| moment.time);
        let is_current = current.as_ref().is_some_and(|one| one.path() == log.path());
        let time = if is_current { i64::MAX } else { time };
        queue.push((time, if is_current { Kept::Half(log, moments) } else { Kept::Log(log) }));
    }
    queue.extend(journal.list().into_iter().map(|rewind| (rewind.time, Kept::Rewind(rewind))));
    // The oldest first; of the session that asks, the older half of its moments.
    queue.sort_by_key(|(time, _)| *time);
    let old = queue.partition_point(|(time, _)| *time < limit);
    let mut queue = queue.into_iter().map(|(_, kept)| kept);
    for kept in queue.by_ref().take(old) {
        kept.remove(&store, &journal)?;
    }
    if store.has_damage() {
        store.look_over(0, None)?;
    } else {
        // Somewhere else each time.
        let begin = usize::try_from(millis(now) / 1000).unwrap_or_default();
        store.look_over(begin, Some(LOOK))?;
    }
    let mut all = sweep(&store, &vault)?;
    while store.size() + vault.size() > bounds.bytes {
        let Some(kept) = queue.next() else { break };
        kept.remove(&store, &journal)?;
        let more = sweep(&store, &vault)?;
        all.contents += more.contents;
        all.bytes += more.bytes;
    }
    files::put(&folder.join("tidied"), b"", files::Durability::Process)?;
    Ok(all)
}

/// Something that needs contents, and can be removed.
enum Kept {
    Log(Log),
    /// Only the older half of the moments goes.
    Half(Log, Vec<Moment>),
    Rewind(Rewind),
}

impl Kept {
    fn remove(self, store: &Store, journal: &Journal<'_>) -> io::Result<()> {
        match self {
            Kept::Log(log) => log.remove(&store.hook),
            Kept::Half(log, moments) => log.put(&moments[moments.len() / 2..], &store.hook),
            Kept::Rewind(rewind) => forget_rewind(journal, &rewind),
        }
    }
}

fn forget_rewind(journal: &Journal<'_>, rewind: &Rewind) -> io::Result<()> {
    journal.forget(rewind).map_err(|error| io::Error::other(error.to_string()))
}

/// Removes every content, and every object of git, that no log and no rewind needs.
fn sweep(store: &Store, vault: &Vault) -> io::Result<Swept> {
    let mut live: HashSet<Hash> = HashSet::new();
    let mut objects: HashSet<Place> = HashSet::new();
    // Listings, with the names of their folders.
    let mut trees: Vec<(Hash, Box<[u8]>)> = Vec::new();
    let mut roots: HashSet<PathBuf> = HashSet::new();
    for log in Log::all(store.folder())? {
        for moment in log.read()? {
            if let Some(State::File { hash, .. }) = moment.single.and_then(|single| single.state) {
                live.insert(hash);
            }
            for tree in moment.trees {
                let name = tree.root.file_name().unwrap_or_default().as_bytes().into();
                trees.push((tree.image, name));
                roots.insert(tree.root);
            }
        }
    }
    for (rewind, _) in restore::all(store.folder()) {
        for step in rewind.steps {
            for state in [&step.from, &step.to].into_iter().flatten() {
                match state {
                    State::File { hash, .. } => _ = live.insert(*hash),
                    State::Object => _ = objects.insert(vault::object_name(&step.path())),
                    _ => {}
                }
            }
            roots.insert(step.root);
        }
    }
    while let Some((tree, folder)) = trees.pop() {
        if !live.insert(tree) {
            continue;
        }
        // An image that cannot be read needs nothing any more.
        let Some((_, items)) = store.get(tree).ok().and_then(|bytes| decode(&bytes)) else {
            continue;
        };
        for (item, below) in items {
            match (&item.what, below) {
                (_, Some(below)) => trees.push((below, item.name)),
                (What::File { hash, .. }, None) => _ = live.insert(*hash),
                (What::Object, None) => _ = objects.insert(join(&folder, &item.name)),
                _ => {}
            }
        }
    }
    vault.keep_only(&roots, &objects)?;
    store.keep_only(&live)
}
