//! The journal: what was done to files, and what is needed to undo it.
//!
//! It has a folder for each change: `entry.json`, the files that were replaced, and, while a
//! process works on it, `begun.json` with the names of everything that may be left behind, and a
//! lock that ends with its process. A folder appears with its `begun.json` in it and disappears by
//! a rename, so one that has neither `begun.json` nor `entry.json` is damaged, never half made.
//! Nothing happens to a session before `entry.json` is complete.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use files::{Held, Lock};
use serde::{Deserialize, Serialize};

use super::entry::{self, Body, Entry, Item, State, Was};
use super::sweep::{self, Leftovers};
use super::{Deed, Disk, Mark, Ready};

/// What a process has begun to do.
pub(super) const INTENT: &str = "begun.json";
pub(super) const LOCK: &str = "lock";
/// Prefixes of folders that are being created, or removed.
const NEW: &str = ".new-";
const GONE: &str = ".gone-";
/// The maximum size of `begun.json`, in bytes.
const LONGEST: u64 = 16 << 20;
/// In milliseconds.
const HOUR: i64 = 60 * 60 * 1000;
/// How long to wait for another process that uses the journal.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub struct Journal {
    root: PathBuf,
    bounds: Bounds,
}

/// How long changes are kept, and how many bytes of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub days: u64,
    pub bytes: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { days: 90, bytes: 5_000_000_000 }
    }
}

/// `begun.json`: everything that may be left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Intent {
    /// Temporary files.
    pub(super) temps: Vec<PathBuf>,
    /// Folders that did not exist.
    pub(super) folders: Vec<PathBuf>,
}

impl Intent {
    fn of(ready: &[Ready]) -> Intent {
        let mut folders: Vec<PathBuf> = Vec::new();
        for one in ready {
            let around = one.path.ancestors().skip(1);
            for folder in around.take_while(|folder| !folder.as_os_str().is_empty()) {
                if folder.exists() || folders.iter().any(|known| known == folder) {
                    break;
                }
                folders.push(folder.to_owned());
            }
        }
        Intent { temps: ready.iter().map(|one| one.temp.clone()).collect(), folders }
    }

    /// An intent that cannot be read is empty.
    pub(super) fn read(folder: &Path) -> Intent {
        let bytes = files::read(folder.join(INTENT), LONGEST).unwrap_or_default();
        Intent::parse(&bytes)
    }

    pub(super) fn parse(bytes: &[u8]) -> Intent {
        serde_json::from_slice(bytes).unwrap_or_default()
    }
}

/// A change that a process works on: it is being made, or undone.
#[derive(Debug)]
pub struct Begun {
    pub name: String,
    pub folder: PathBuf,
    /// The changes that were removed because they were too old, or too many.
    pub pruned: Leftovers,
    /// A file that will be kept, and its hash, if that was computed before.
    hashed: OnceLock<(PathBuf, Mark, String)>,
    _lock: Held,
}

impl Begun {
    /// Takes the hash of a file in that state: then the file need not be read again.
    pub(crate) fn hashed(&self, path: &Path, mark: Mark, sha256: String) {
        // There is only one.
        let _ = self.hashed.set((path.to_owned(), mark, sha256));
    }

    /// The hash of a file in that state, if it is known.
    pub(super) fn hash_of(&self, path: &Path, mark: Mark) -> Option<String> {
        let known = self.hashed.get().filter(|(of, state, _)| of == path && *state == mark);
        known.map(|(.., sha256)| sha256.clone())
    }

    /// Completes an entry: from here on it counts.
    pub(super) fn finish(
        &self,
        disk: &mut dyn Disk,
        deed: Deed<'_>,
        items: &[Item],
    ) -> io::Result<()> {
        let body = Body {
            name: self.name.clone(),
            time: millis(deed.now),
            what: deed.what.to_owned(),
            session: deed.session.to_owned(),
            made: deed.made.map(str::to_owned),
            items: items.to_vec(),
        };
        let temp = self.folder.join("entry.json.new");
        disk.create(&temp, &body.to_json()?)?;
        disk.rename(&temp, &self.folder.join(entry::FILE))
    }

    /// Records that late lines of the old file are in the new one, too.
    pub fn amend(&self, disk: &mut dyn Disk, deed: Deed<'_>, bytes: u64) -> io::Result<()> {
        let Some(entry) = Entry::read(&self.folder) else { return Ok(()) };
        let mut items = entry.items;
        // Only a session's own file, which is the first, has late lines.
        for item in items.iter_mut().take(1) {
            item.after = Some(Mark::of(&item.path)?);
            if let Was::There { copy, .. } = &mut item.was
                && let entry::How::Link { taken } = &mut copy.how
            {
                *taken += bytes;
            }
        }
        self.finish(disk, deed, &items)
    }

    /// Ends the work on it: removes whatever was not put in its place, and an entry of which
    /// nothing came.
    pub fn settle(self, disk: &mut dyn Disk) -> io::Result<()> {
        sweep::settle(disk, &self.folder).map(drop)
    }
}

pub(super) fn millis(now: SystemTime) -> i64 {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The state of a folder in the journal.
#[derive(Debug)]
pub(super) enum Standing {
    /// It is being created or removed; if no process works on it, one was stopped there.
    Scrap,
    /// A process works on it.
    AtWork,
    /// A process was stopped before anything happened.
    Nothing,
    /// Something was done, and the process has finished or was stopped after that.
    Change(Box<Entry>),
    /// What was done does not exist any more: there is nothing to undo.
    Past,
    /// Not ours.
    Foreign,
}

/// The process that has begun something in a folder.
#[derive(Debug)]
pub(super) enum Worker {
    Nobody,
    Dead,
    Alive,
}

pub(super) fn worker(folder: &Path) -> Worker {
    if !folder.join(INTENT).exists() {
        return Worker::Nobody;
    }
    let lock = folder.join(LOCK);
    if !lock.exists() {
        return Worker::Dead;
    }
    match files::try_lock(&lock, "") {
        Ok(Lock::Held(_)) => Worker::Dead,
        Ok(Lock::Busy(_)) | Err(_) => Worker::Alive,
    }
}

pub(super) fn standing(folder: &Path) -> Standing {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if name.starts_with(NEW) || name.starts_with(GONE) {
        return Standing::Scrap;
    }
    if entry::time_of(&name).is_none() {
        return Standing::Foreign;
    }
    let worker = worker(folder);
    match (worker, Entry::read(folder)) {
        (Worker::Alive, _) => Standing::AtWork,
        (Worker::Dead, None) => Standing::Nothing,
        (Worker::Nobody, None) => {
            let why = format!("`{}` is missing", entry::FILE);
            Standing::Change(Box::new(Entry::damaged(folder, why)))
        }
        (_, Some(entry)) if matches!(entry.state, State::Damaged(_)) => {
            Standing::Change(Box::new(entry))
        }
        (worker, Some(entry)) => {
            let is_done = entry.items.iter().any(|item| item.is_done(folder));
            match worker {
                Worker::Dead if !is_done || entry.is_half() => Standing::Nothing,
                _ if !is_done => Standing::Past,
                _ => Standing::Change(Box::new(entry)),
            }
        }
    }
}

impl Journal {
    pub fn at(root: PathBuf, bounds: Bounds) -> Journal {
        Journal { root, bounds }
    }

    /// Locks the journal: no other process begins anything in it, or sweeps it, meanwhile.
    fn lock(&self, disk: &mut dyn Disk) -> io::Result<RootLock> {
        // Without this, the error would seem to be about the session's own folder.
        let named = |error: io::Error| {
            let message = format!("no copy can be kept in `{}`: {error}", self.root.display());
            io::Error::new(error.kind(), message)
        };
        disk.create_folder(&self.root).map_err(named)?;
        match files::lock(&self.root.join(".lock"), &super::who("in the journal"), PATIENCE) {
            Ok(Lock::Held(held)) => Ok(RootLock(Some(held))),
            Ok(Lock::Busy(who)) => {
                let message = format!("the journal is in use by {who}");
                Err(io::Error::new(io::ErrorKind::ResourceBusy, message))
            }
            Err(error) => Err(named(error)),
        }
    }

    /// Begins a change that will put these files in their places. First removes what other runs
    /// left behind, and changes that have expired.
    pub fn begin(&self, disk: &mut dyn Disk, deed: Deed<'_>, ready: &[Ready]) -> io::Result<Begun> {
        let _root = self.lock(disk)?;
        sweep::sweep(disk, &self.folders()?, ready, deed.now)?;
        let pruned = sweep::prune(disk, &self.folders()?, deed.now, self.bounds)?;
        let short: String = deed.session.chars().take(8).collect();
        let mut name = format!("{}-{}-{short}", millis(deed.now), deed.what);
        let mut number = 1;
        while self.root.join(&name).exists() {
            number += 1;
            name = format!("{}-{}-{short}-{number}", millis(deed.now), deed.what);
        }
        let new = self.root.join(format!("{NEW}{name}"));
        let folder = self.root.join(&name);
        let intent = serde_json::to_vec(&Intent::of(ready))?;
        let mut made = || {
            disk.create_folder(&new)?;
            let lock = lock_entry(&new)?;
            disk.create(&new.join(INTENT), &intent)?;
            disk.rename(&new, &folder)?;
            Ok(lock)
        };
        let made: io::Result<Held> = made();
        // On a full disk every byte counts; what is left here, the next change removes.
        let lock = made.inspect_err(|_| drop(disk.remove_folder(&new)))?;
        Ok(Begun { name, folder, pruned, hashed: OnceLock::new(), _lock: lock })
    }

    /// Begins to undo a change; `ready` are the files that will be restored.
    pub(super) fn begin_undo(
        &self,
        disk: &mut dyn Disk,
        entry: &Entry,
        ready: &[Ready],
    ) -> io::Result<Begun> {
        let _root = self.lock(disk)?;
        // Another process may have undone it since it was read.
        fs::metadata(&entry.folder)?;
        let lock = lock_entry(&entry.folder)?;
        disk.create(&entry.folder.join(INTENT), &serde_json::to_vec(&Intent::of(ready))?)?;
        let (name, folder) = (entry.name.clone(), entry.folder.clone());
        let (pruned, hashed) = (Leftovers::default(), OnceLock::new());
        Ok(Begun { name, folder, pruned, hashed, _lock: lock })
    }

    /// All changes that can be undone, including damaged ones, newest first.
    pub fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut found = Vec::new();
        for folder in self.folders()? {
            if let Standing::Change(entry) = standing(&folder) {
                found.push(*entry);
            }
        }
        found.sort_by(|one, other| (other.time, &other.name).cmp(&(one.time, &one.name)));
        Ok(found)
    }

    /// What interrupted runs have left behind, here and beside the files that changes name.
    pub fn leftovers(&self, now: SystemTime) -> io::Result<Leftovers> {
        Ok(sweep::count(&self.folders()?, now))
    }

    /// Removes what interrupted runs have left behind.
    pub fn sweep(&self, disk: &mut dyn Disk, now: SystemTime) -> io::Result<Leftovers> {
        if !self.root.is_dir() {
            return Ok(Leftovers::default());
        }
        let _root = self.lock(disk)?;
        sweep::sweep(disk, &self.folders()?, &[], now)
    }

    /// Removes changes that are older than this many days, whatever the configuration says.
    pub fn prune(&self, disk: &mut dyn Disk, now: SystemTime, days: u64) -> io::Result<Leftovers> {
        if !self.root.is_dir() {
            return Ok(Leftovers::default());
        }
        let _root = self.lock(disk)?;
        sweep::prune(disk, &self.folders()?, now, Bounds { days, bytes: u64::MAX })
    }

    /// Removes the changes of a session, so that nothing of it is left here. Returns what was
    /// removed beside the removal itself, if that is one of them.
    pub(crate) fn forget_session(
        &self,
        disk: &mut dyn Disk,
        session: &str,
        removal: Option<&str>,
    ) -> io::Result<Leftovers> {
        let mut gone = Leftovers::default();
        if !self.root.is_dir() {
            return Ok(gone);
        }
        let _root = self.lock(disk)?;
        for folder in self.folders()? {
            let Some(entry) = Entry::read(&folder) else { continue };
            if entry.session == session && !matches!(worker(&folder), Worker::Alive) {
                if removal != Some(entry.name.as_str()) {
                    gone.add(sweep::size(&folder));
                }
                forget(disk, &folder)?;
            }
        }
        Ok(gone)
    }

    /// Removes a change, with everything that it keeps.
    pub fn forget(&self, disk: &mut dyn Disk, entry: &Entry) -> io::Result<()> {
        let _root = self.lock(disk)?;
        forget(disk, &entry.folder)
    }

    /// The changes of a session whose old files were written to after they were replaced.
    pub fn late(&self, session: &str, path: &Path) -> Vec<Entry> {
        let short: String = session.chars().take(8).collect();
        let is_its = |folder: &PathBuf| {
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            name.contains(&format!("-{short}"))
        };
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let folders = self.folders().unwrap_or_default().into_iter().filter(is_its);
        let entries = folders.filter_map(|folder| Entry::read(&folder));
        entries
            .filter(|entry| entry.items.iter().any(|item| item.path == path))
            .filter(|entry| entry.late().bytes > 0)
            .collect()
    }

    /// When another program last wrote to a file, as far as the changes of the last hour show;
    /// `None` if it has only been written by changes that are here.
    pub fn written_by_others(&self, path: &Path, now: SystemTime) -> Option<SystemTime> {
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let is_new = |folder: &PathBuf| {
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            entry::time_of(&name).is_some_and(|time| time > millis(now) - HOUR)
        };
        let folders = self.folders().unwrap_or_default().into_iter().filter(is_new);
        let entries: Vec<Entry> = folders.filter_map(|folder| Entry::read(&folder)).collect();
        let items = || entries.iter().flat_map(|one| one.items.iter().map(move |item| (one, item)));
        let mut state = Mark::of(&path).ok()?;
        // Each change leads to the state before it.
        for _ in &entries {
            let made = items().find(|(_, item)| item.path == path && item.after == Some(state));
            let Some((entry, item)) = made else { break };
            let Was::There { copy, before } = &item.was else {
                // A file that was moved has the time at which it was written.
                let is_moved = state.modified / 1_000_000 < u128::try_from(entry.time).unwrap_or(0);
                return is_moved.then(|| state.time());
            };
            let kept = Mark::of(&entry.folder.join(&copy.name)).ok();
            match kept.filter(|_| matches!(copy.how, entry::How::Link { .. })) {
                // Somebody went on writing to the old file.
                Some(kept) if kept != *before => return Some(kept.time()),
                _ => state = *before,
            }
        }
        Some(state.time())
    }

    fn folders(&self) -> io::Result<Vec<PathBuf>> {
        let found = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            found => found?,
        };
        let mut folders = Vec::new();
        for one in found {
            let one = one?;
            if one.file_type()?.is_dir() {
                folders.push(one.path());
            }
        }
        folders.sort();
        Ok(folders)
    }
}

/// The journal's own lock; its file is removed with it.
struct RootLock(Option<Held>);

impl Drop for RootLock {
    fn drop(&mut self) {
        // A leftover lock file is free.
        let _ = self.0.take().map(Held::remove);
    }
}

fn lock_entry(folder: &Path) -> io::Result<Held> {
    // A process that only checks whether another is at work has it for a moment.
    let patience = Duration::from_millis(300);
    match files::lock(&folder.join(LOCK), &super::who("at work"), patience)? {
        Lock::Held(held) => Ok(held),
        Lock::Busy(who) => {
            let message = format!("{who} uses it");
            Err(io::Error::new(io::ErrorKind::ResourceBusy, message))
        }
    }
}

/// Removes a folder of the journal: in one step for other processes, and then for good.
pub(super) fn forget(disk: &mut dyn Disk, folder: &Path) -> io::Result<()> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with(NEW) || name.starts_with(GONE) {
        return disk.remove_folder(folder);
    }
    let gone = folder.with_file_name(format!("{GONE}{name}"));
    disk.rename(folder, &gone)?;
    disk.remove_folder(&gone)
}
