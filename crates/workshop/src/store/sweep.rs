//! Removes what killed or failed runs left behind, and changes that have expired.
//!
//! Invariants: nothing of a running process is removed, and nothing that is not ours. A file is
//! removed if the `begun.json` of a process that has ended names it, if an entry that was not
//! completed created it and no other program changed it since, or if it has a name that only quipu
//! uses and is old. No change younger than a day is ever pruned.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::entry::{self, Entry, Item, State, Was};
use super::journal::{
    Bounds, INTENT, Intent, LOCK, Standing, Worker, forget, millis, standing, worker,
};
use super::{Disk, Mark, Ready};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// A file with the id of a process that does not run is left alone this long: the process may run
/// in a container, where its id is not visible from here.
const SAFE: Duration = Duration::from_secs(60 * 60);

/// How many items, and how many bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    pub count: u64,
    pub bytes: u64,
}

impl Leftovers {
    pub(super) fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
    }
}

/// Removes everything that is left behind: in these folders of the journal, and beside these files.
pub(super) fn sweep(
    disk: &mut dyn Disk,
    folders: &[PathBuf],
    ready: &[Ready],
    now: SystemTime,
) -> io::Result<Leftovers> {
    let mut swept = Leftovers::default();
    let mut places: Vec<PathBuf> = Vec::new();
    for folder in folders {
        let is_begun = folder.join(INTENT).exists();
        match standing(folder) {
            Standing::Scrap => {
                swept.add(size(folder));
                forget(disk, folder)?;
            }
            Standing::Nothing | Standing::Change(_) if is_begun => {
                let left = settle(disk, folder)?;
                swept.count += left.count;
                swept.bytes += left.bytes;
            }
            Standing::Change(entry) => places.extend(around(&entry)),
            _ => {}
        }
    }
    places.extend(ready.iter().filter_map(|one| one.path.parent()).map(Path::to_owned));
    for temp in abandoned(places, now) {
        swept.add(Mark::of(&temp).map_or(0, |mark| mark.size));
        remove(disk, &temp)?;
    }
    Ok(swept)
}

/// Removes what interrupted runs left beside a file that no journal mentions.
pub fn sweep_beside(disk: &mut dyn Disk, path: &Path, now: SystemTime) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let temps = abandoned(vec![folder.unwrap_or(Path::new(".")).to_owned()], now);
    temps.iter().try_for_each(|temp| remove(disk, temp).map(drop))
}

/// What `sweep` would remove.
pub(super) fn count(folders: &[PathBuf], now: SystemTime) -> Leftovers {
    let mut left = Leftovers::default();
    let mut places: Vec<PathBuf> = Vec::new();
    let mut counted: Vec<PathBuf> = Vec::new();
    let file = |path: &Path| Mark::of(path).ok().map(|mark| mark.size);
    for folder in folders {
        match standing(folder) {
            Standing::Scrap => left.add(size(folder)),
            Standing::Nothing => {
                left.add(size(folder));
                let entry = Entry::read(folder);
                for item in entry.iter().flat_map(|entry| &entry.items) {
                    if item.was == Was::Nothing && Mark::of(&item.path).ok() == item.after {
                        left.add(item.after.map_or(0, |mark| mark.size));
                    }
                }
            }
            Standing::Change(entry) => places.extend(around(&entry)),
            Standing::AtWork => continue,
            Standing::Past | Standing::Foreign => {}
        }
        if matches!(worker(folder), Worker::Dead) {
            for temp in Intent::read(folder).temps.iter().filter(|temp| is_ours(temp)) {
                if let Some(size) = file(temp) {
                    left.add(size);
                    counted.push(temp.clone());
                }
            }
        }
    }
    for temp in abandoned(places, now).iter().filter(|temp| !counted.contains(temp)) {
        left.add(file(temp).unwrap_or_default());
    }
    left
}

/// Ends the work on a change whose worker has finished, or was killed. Returns what was removed.
pub(super) fn settle(disk: &mut dyn Disk, folder: &Path) -> io::Result<Leftovers> {
    let mut swept = Leftovers::default();
    let intent = Intent::read(folder);
    for temp in intent.temps.iter().filter(|temp| is_ours(temp)) {
        let size = Mark::of(temp).map(|mark| mark.size);
        if remove(disk, temp)? {
            swept.add(size.unwrap_or_default());
        }
    }
    let is_kept = match Entry::read(folder) {
        None => false,
        Some(entry) if matches!(entry.state, State::Damaged(_)) => true,
        Some(entry) if entry.is_half() => {
            let (gone, new): (Vec<&Item>, Vec<&Item>) =
                entry.items.iter().partition(|item| item.is_gone());
            for item in gone.iter().rev().filter(|item| !item.path.exists()) {
                super::bring_back(disk, &entry, (item, &Ready::at(&item.path)))?;
            }
            for item in &new {
                // A file that another program changed since belongs to that program.
                let Some(size) = item.after.map(|mark| mark.size) else { continue };
                if Mark::of(&item.path).ok() == item.after && remove(disk, &item.path)? {
                    swept.add(size);
                }
            }
            new.iter().any(|item| item.path.exists())
        }
        Some(entry) if is_half_replaced(&entry) => {
            super::put_back(disk, &entry)?;
            entry.items.iter().any(|item| item.is_done(folder))
        }
        Some(entry) => {
            // What the change has not removed yet; the journal has it.
            for item in entry.items.iter().filter(|item| item.is_gone() && !item.is_done(folder)) {
                remove(disk, &item.path)?;
                disk.remove_empty(&item.path, &entry.items[0].path);
            }
            entry.items.iter().any(|item| item.is_done(folder))
        }
    };
    if !is_kept {
        swept.add(size(folder));
        // The innermost first.
        let mut folders = intent.folders;
        folders.sort();
        for made in folders.iter().rev() {
            // A folder that is not empty is in use.
            if made.is_dir() {
                disk.remove_empty(&made.join("x"), made.parent().unwrap_or(made));
            }
        }
        forget(disk, folder)?;
        return Ok(swept);
    }
    // In this order: a lock without an intent would never be found.
    remove(disk, &folder.join(LOCK))?;
    remove(disk, &folder.join(INTENT))?;
    Ok(swept)
}

/// Whether the first file, which is replaced last, was not, whatever happened to others. Undoing
/// begins with the first one, which then is as it was, too: then the rest is still to be undone.
fn is_half_replaced(entry: &Entry) -> bool {
    let is_done = |item: &Item| item.is_done(&entry.folder);
    let is_replaced = |item: &Item| matches!(item.was, Was::There { .. }) && !item.is_gone();
    entry.items.first().is_some_and(|item| is_replaced(item) && !is_done(item))
        && entry.items.iter().all(|item| !(item.is_gone() && is_done(item)))
}

/// Removes changes that are too old, and the oldest ones if there are too many.
pub(super) fn prune(
    disk: &mut dyn Disk,
    folders: &[PathBuf],
    now: SystemTime,
    bounds: Bounds,
) -> io::Result<Leftovers> {
    let finished = |folder: &&PathBuf| !folder.join(INTENT).exists();
    let dated = |folder: &PathBuf| {
        let time = entry::time_of(&folder.file_name()?.to_string_lossy())?;
        Some((time, folder.clone(), size(folder)))
    };
    let mut changes: Vec<_> = folders.iter().filter(finished).filter_map(dated).collect();
    changes.sort();
    let mut total: u64 = changes.iter().map(|(.., bytes)| bytes).sum();
    let days = |days: u64| i64::try_from(u128::from(days) * DAY.as_millis()).unwrap_or(i64::MAX);
    let mut pruned = Leftovers::default();
    for (time, folder, bytes) in changes {
        let age = millis(now).saturating_sub(time);
        if age <= days(1) || (age <= days(bounds.days) && total <= bounds.bytes) {
            continue;
        }
        forget(disk, &folder)?;
        total -= bytes;
        pruned.add(bytes);
    }
    Ok(pruned)
}

/// The folders of the files that an entry names.
fn around(entry: &Entry) -> impl Iterator<Item = PathBuf> {
    entry.items.iter().filter_map(|item| item.path.parent().map(Path::to_owned))
}

/// Files in these folders that have names only quipu uses, and that no process works on.
fn abandoned(mut folders: Vec<PathBuf>, now: SystemTime) -> Vec<PathBuf> {
    folders.sort();
    folders.dedup();
    let mut found = Vec::new();
    for entry in folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(pid) = pid_of(&name) else { continue };
        let Ok(file) = entry.metadata() else { continue };
        let age = file.modified().ok().and_then(|modified| now.duration_since(modified).ok());
        let is_abandoned = match pid {
            Some(pid) => !files::is_running(pid) && age.is_some_and(|age| age > SAFE),
            None => age.is_some_and(|age| age > DAY),
        };
        if file.is_file() && is_abandoned {
            found.push(entry.path());
        }
    }
    found
}

/// The process id in a name of ours. The outer `None`: not a name of ours; the inner `None`: the
/// name has no process id, as in the first version.
#[allow(clippy::option_option, reason = "not ours, ours without a process, ours with one")]
fn pid_of(name: &str) -> Option<Option<u32>> {
    if let Some(middle) = name.strip_prefix(".quipu-").and_then(|rest| rest.strip_suffix(".tmp")) {
        let is_plain = middle.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let pid = middle.split_once('-').and_then(|(pid, _)| pid.parse().ok());
        return is_plain.then_some(pid);
    }
    let middle = name.strip_prefix('.')?.strip_suffix(".quipu")?;
    middle.rsplit_once('.')?.1.parse().ok().map(Some)
}

/// Whether a file has a name that only quipu uses.
fn is_ours(path: &Path) -> bool {
    path.file_name().is_some_and(|name| pid_of(&name.to_string_lossy()).is_some())
}

/// Removes a file. Returns whether it existed.
fn remove(disk: &mut dyn Disk, path: &Path) -> io::Result<bool> {
    let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    if fs::symlink_metadata(path).is_err_and(|error| is_gone(&error)) {
        return Ok(false);
    }
    match disk.remove(path) {
        // Another process was quicker.
        Err(error) if is_gone(&error) => Ok(false),
        removed => removed.map(|()| true),
    }
}

/// The bytes of the files in a folder, except the lock, which every check may write to. A file that
/// has another name elsewhere counts, too.
pub(super) fn size(folder: &Path) -> u64 {
    let found = fs::read_dir(folder).into_iter().flatten().flatten();
    let counts = found.filter(|one| one.file_name() != LOCK);
    counts.filter_map(|one| one.metadata().ok()).map(|found| found.len()).sum()
}
