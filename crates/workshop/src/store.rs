//! Writes the files of sessions, and the client's settings, so that nothing is lost; and keeps a
//! journal to undo it.
//!
//! To replace a file: the journal records what begins; the new file is complete on disk, in the
//! same folder under another name; the old file has a second name in the journal (on another file
//! system, a copy), with an entry that says what is about to happen, and hashes; then one rename.
//! New files are written under another name first, too, and never replace an existing file.
//! Invariants: whenever the program is stopped, the old file or the new one is whole; the journal
//! returns exactly what it was given; nothing outside the journal is ever deleted, except files
//! that the entry to be undone created and no other program changed since, and what interrupted
//! runs left behind.

mod disk;
mod entry;
mod journal;
mod session_lock;
mod sweep;

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use files::Attributes;
use serde::{Deserialize, Serialize};

use crate::all_files::SessionFile;

pub use disk::{Disk, Real};
pub use entry::{Entry, How, Item, Kept, State, Was};
pub use journal::{Begun, Bounds, Journal};
pub use session_lock::{LockError, SessionLocks};
pub use sweep::{Leftovers, sweep_beside};

/// Size and time of a file, which show whether it has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    size: u64,
    /// Nanoseconds since 1970.
    modified: u128,
}

impl Mark {
    pub fn of(path: &Path) -> io::Result<Mark> {
        fs::metadata(path).map(|found| Mark::of_metadata(&found))
    }

    pub(crate) fn size(self) -> u64 {
        self.size
    }

    /// In nanoseconds since 1970.
    pub(crate) fn modified(self) -> u128 {
        self.modified
    }

    /// When it was modified.
    pub(crate) fn time(self) -> SystemTime {
        let nanos = u64::try_from(self.modified).unwrap_or(u64::MAX);
        UNIX_EPOCH + Duration::from_nanos(nanos)
    }

    pub fn of_metadata(found: &Metadata) -> Mark {
        let modified = found.modified().unwrap_or(UNIX_EPOCH);
        let modified = modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        Mark { size: found.len(), modified }
    }
}

/// A file that is ready to be put in its place, or will be.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The temporary name, under which it is complete.
    pub temp: PathBuf,
    /// Its final path.
    pub path: PathBuf,
}

impl Ready {
    /// A file with this final path.
    pub fn at(path: &Path) -> Ready {
        Ready { temp: beside(path), path: path.to_owned() }
    }
}

/// A change of files.
#[derive(Clone, Copy, Debug)]
pub struct Deed<'a> {
    /// The command.
    pub what: &'a str,
    /// The session that it is about; `settings` for the client's settings.
    pub session: &'a str,
    /// The id of the session that it creates.
    pub made: Option<&'a str>,
    pub now: SystemTime,
}

/// How other processes see this one, in their messages.
pub fn who(what: &str) -> String {
    format!("process {} (quipu {what})", std::process::id())
}

/// How the old file is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptBy {
    Link,
    Copy,
}

/// Replaces files, whose states must be `was`, and gives the new ones the attributes of the old
/// ones. Files with no state are new, and none of them may exist. The first is the session's own,
/// and is replaced last: while it is the old one, the change has not happened, and the others are
/// put back. Returns how the old ones are kept.
pub fn replace(
    disk: &mut dyn Disk,
    begun: &Begun,
    deed: Deed<'_>,
    ready: &[Ready],
    was: &[Option<Mark>],
) -> io::Result<KeptBy> {
    replace_and_remove(disk, begun, deed, ready, was, &[])
}

/// Like [`replace`]; then removes other files, which the journal keeps. A run that is stopped
/// before the session's own file was replaced did nothing, and one that is stopped after it is
/// completed by the next run.
pub fn replace_and_remove(
    disk: &mut dyn Disk,
    begun: &Begun,
    deed: Deed<'_>,
    ready: &[Ready],
    was: &[Option<Mark>],
    leaving: &[Leaving],
) -> io::Result<KeptBy> {
    let mut items = Vec::new();
    let mut by = KeptBy::Link;
    for (number, (one, was)) in ready.iter().zip(was).enumerate() {
        let Some(before) = *was else {
            let after = Some(Mark::of(&one.temp)?);
            items.push(Item { path: one.path.clone(), was: Was::Nothing, after });
            continue;
        };
        let attributes = Attributes::of(&files::open(&one.path)?)?;
        disk.dress(&one.temp, &attributes)?;
        let after = Some(Mark::of(&one.temp)?);
        let number = (number, &mut by);
        let item = kept_item(disk, begun, number, (&one.path, before), after);
        items.push(item.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => changed(),
            _ => error,
        })?);
    }
    for (number, one) in (ready.len()..).zip(leaving) {
        items.push(kept_item(disk, begun, (number, &mut by), (&one.path, one.was), None)?);
    }
    begun.finish(disk, deed, &items)?;
    if let Err(error) = swap(disk, ready, was, leaving) {
        give_back(disk, begun, ready)?;
        return Err(error);
    }
    Ok(by)
}

/// Keeps a file that will be replaced or removed, under a number. Notes in `by` if it took a copy.
fn kept_item(
    disk: &mut dyn Disk,
    begun: &Begun,
    (number, by): (usize, &mut KeptBy),
    (path, before): (&Path, Mark),
    after: Option<Mark>,
) -> io::Result<Item> {
    let copy = keep(disk, path, (begun, number), before)?;
    if !matches!(copy.how, How::Link { .. }) {
        *by = KeptBy::Copy;
    }
    Ok(Item { path: path.to_owned(), was: Was::There { copy, before }, after })
}

/// Puts files in their places, the first one last, and then removes others.
fn swap(
    disk: &mut dyn Disk,
    ready: &[Ready],
    was: &[Option<Mark>],
    leaving: &[Leaving],
) -> io::Result<()> {
    // The last check: what another process wrote since then would be lost.
    for (one, was) in ready.iter().zip(was) {
        if was.is_some_and(|was| Mark::of(&one.path).ok() != Some(was)) {
            return Err(changed());
        }
    }
    are_as_before(leaving)?;
    for (one, was) in ready.iter().zip(was).rev() {
        match was {
            Some(_) => disk.rename(&one.temp, &one.path)?,
            None => disk.place(&one.temp, &one.path)?,
        }
    }
    leaving.iter().try_for_each(|one| remove(disk, one))
}

/// Refuses files that another program changed since they were looked at.
fn are_as_before(leaving: &[Leaving]) -> io::Result<()> {
    let is_as_before = |one: &Leaving| Mark::of(&one.path).ok() == Some(one.was);
    if leaving.iter().all(is_as_before) { Ok(()) } else { Err(changed()) }
}

/// Removes a file, and the folders around it that are empty then.
fn remove(disk: &mut dyn Disk, one: &Leaving) -> io::Result<()> {
    disk.remove(&one.path)?;
    disk.remove_empty(&one.path, &one.inside.join("x"));
    Ok(())
}

/// Takes back what was done of a change that cannot be completed. Without its entry, it did not
/// happen. The temporary names are those that the change began with, so nothing unknown is left.
fn give_back(disk: &mut dyn Disk, begun: &Begun, ready: &[Ready]) -> io::Result<()> {
    let Some(entry) = Entry::read(&begun.folder) else { return Ok(()) };
    let (new, old): (Vec<&Item>, Vec<&Item>) =
        entry.items.iter().partition(|item| item.was == Was::Nothing);
    // What was there comes back first: whenever this is stopped, nothing is missing. A file that
    // another program changed since belongs to that program.
    for item in old.into_iter().rev().chain(new) {
        if item.is_done(&entry.folder) && Mark::of(&item.path).ok() == item.after {
            let known = ready.iter().find(|one| one.path == item.path);
            let ready = known.cloned().unwrap_or_else(|| Ready::at(&item.path));
            bring_back(disk, &entry, (item, &ready))?;
        }
    }
    disk.remove(&begun.folder.join(entry::FILE))
}

fn changed() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "the file has changed since it was read")
}

/// The hash of a file, if it is in that state.
pub(crate) fn hash_of(path: &Path, mark: Mark) -> Option<String> {
    let is_it = || Mark::of(path).ok() == Some(mark);
    let hash = if is_it() { entry::hash(path, mark.size).ok() } else { None };
    hash.filter(|_| is_it())
}

/// Keeps a file in the folder of a change, under a number: the file itself, by a hard link; if that
/// is not possible, a copy.
fn keep(
    disk: &mut dyn Disk,
    path: &Path,
    (begun, number): (&Begun, usize),
    was: Mark,
) -> io::Result<Kept> {
    let name = number.to_string();
    let kept = begun.folder.join(&name);
    if disk.link(path, &kept).is_ok() {
        let known = begun.hash_of(path, was);
        let sha256 = Some(known.map_or_else(|| entry::hash(&kept, was.size), Ok)?);
        return Ok(Kept { name, sha256, how: How::Link { taken: 0 } });
    }
    let sha256 = entry::hash(path, was.size)?;
    disk.copy(path, &kept)?;
    if Mark::of(&kept)?.size != was.size || entry::hash(&kept, was.size)? != sha256 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let how = How::copy(&Attributes::of(&files::open(path)?)?);
    Ok(Kept { name, sha256: Some(sha256), how })
}

/// Puts files back that were replaced, and removes new ones, if the session's own was not replaced:
/// it is the first, and replaced last; nothing is removed before it.
fn put_back(disk: &mut dyn Disk, entry: &Entry) -> io::Result<()> {
    for item in entry.items.iter().skip(1).filter(|item| item.is_done(&entry.folder)) {
        // A file that another program changed since belongs to that program.
        if Mark::of(&item.path).ok() == item.after {
            bring_back(disk, entry, (item, &Ready::at(&item.path)))?;
        }
    }
    Ok(())
}

/// Puts new files in their places; none of them may exist. The first is the session's own, and is
/// placed last.
pub fn create(
    disk: &mut dyn Disk,
    begun: &Begun,
    deed: Deed<'_>,
    ready: &[Ready],
) -> io::Result<()> {
    let items = ready.iter().map(|one| {
        Ok(Item { path: one.path.clone(), was: Was::Nothing, after: Some(Mark::of(&one.temp)?) })
    });
    let items: Vec<Item> = items.collect::<io::Result<_>>()?;
    begun.finish(disk, deed, &items)?;
    place(disk, begun, ready)
}

/// A file that is to be removed, and its state.
#[derive(Clone, Debug)]
pub struct Leaving {
    pub path: PathBuf,
    pub was: Mark,
    /// The folder around it that stays, even if it is empty then.
    pub inside: PathBuf,
}

impl From<&SessionFile> for Leaving {
    fn from(file: &SessionFile) -> Leaving {
        Leaving { path: file.path.clone(), was: file.mark, inside: file.inside.clone() }
    }
}

/// Puts new files in their places, as [`create`] does, and then removes others, which the journal
/// keeps. The first of the new files is placed last; without any, the first of the others is
/// removed first. That is the step that counts: a run that is stopped before it did nothing, and
/// one that is stopped after it is completed by the next run. A file that is in both lists is
/// replaced. If a step fails, what was done is taken back. Returns how the old files are kept.
pub fn exchange(
    disk: &mut dyn Disk,
    begun: &Begun,
    deed: Deed<'_>,
    ready: &[Ready],
    leaving: &[Leaving],
) -> io::Result<KeptBy> {
    let (mut items, mut by) = (Vec::new(), KeptBy::Link);
    let new = |path: &Path| ready.iter().find(|one| one.path == path);
    for one in ready.iter().filter(|one| leaving.iter().all(|old| old.path != one.path)) {
        let after = Some(Mark::of(&one.temp)?);
        items.push(Item { path: one.path.clone(), was: Was::Nothing, after });
    }
    for (number, one) in leaving.iter().enumerate() {
        let after = new(&one.path).map(|new| Mark::of(&new.temp)).transpose()?;
        items.push(kept_item(disk, begun, (number, &mut by), (&one.path, one.was), after)?);
    }
    begun.finish(disk, deed, &items)?;
    if let Err(error) = carry(disk, begun, ready, leaving) {
        give_back(disk, begun, ready)?;
        return Err(error);
    }
    Ok(by)
}

/// Puts new files in their places, and removes others.
fn carry(
    disk: &mut dyn Disk,
    begun: &Begun,
    ready: &[Ready],
    leaving: &[Leaving],
) -> io::Result<()> {
    are_as_before(leaving)?;
    let new = |path: &Path| ready.iter().find(|one| one.path == path);
    let is_replaced = |path: &Path| leaving.iter().any(|old| old.path == path);
    let added: Vec<Ready> = ready.iter().filter(|one| !is_replaced(&one.path)).cloned().collect();
    place(disk, begun, &added)?;
    for one in leaving.iter().rev() {
        if let Some(new) = new(&one.path) {
            disk.rename(&new.temp, &new.path)?;
        }
    }
    let mut gone = leaving.iter().filter(|one| new(&one.path).is_none());
    gone.try_for_each(|one| remove(disk, one))
}

/// Puts new files in their places, the first one last: all or none.
fn place(disk: &mut dyn Disk, begun: &Begun, ready: &[Ready]) -> io::Result<()> {
    let mut placed: Vec<&Path> = Vec::new();
    for one in ready.iter().rev() {
        if let Err(error) = disk.place(&one.temp, &one.path) {
            // All or nothing; without its entry, the change did not happen.
            for path in placed {
                disk.remove(path)?;
            }
            disk.remove(&begun.folder.join(entry::FILE))?;
            return Err(error);
        }
        placed.push(&one.path);
    }
    Ok(())
}

/// Whether files that have changed since are restored, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    Refuse,
    /// They are; their current contents are kept in a new entry.
    Keep,
}

/// Undoes an entry of the journal. Returns the files that were restored or removed.
pub fn undo(
    disk: &mut dyn Disk,
    journal: &Journal,
    entry: &Entry,
    now: SystemTime,
    changed: Changed,
) -> Result<Vec<PathBuf>, UndoError> {
    entry.verify().map_err(UndoError::Damaged)?;
    for item in &entry.items {
        if !is_expected(item, &entry.folder) && changed == Changed::Refuse {
            return Err(UndoError::Changed(item.path.clone()));
        }
    }
    let ready: Vec<Ready> = entry.items.iter().map(|item| Ready::at(&item.path)).collect();
    let failed = |error| UndoError::Io(entry.folder.clone(), error);
    let begun = journal.begin_undo(disk, entry, &ready).map_err(failed)?;
    let mut done = Vec::new();
    // What was removed comes back first, and its first file last: whenever this is stopped,
    // `settle` finds a change that was made, or one that was not.
    let all = || entry.items.iter().zip(&ready);
    let gone = all().rev().filter(|(item, _)| item.is_gone());
    for (item, ready) in gone.chain(all().filter(|(item, _)| !item.is_gone())) {
        match take_back(disk, journal, entry, (item, ready), now) {
            Ok(true) => done.push(item.path.clone()),
            Ok(false) => {}
            Err(error) => {
                // The first error matters more than leftovers, which the next run removes.
                let _ = begun.settle(disk);
                return Err(error);
            }
        }
    }
    journal::forget(disk, &begun.folder).map_err(failed)?;
    // A folder that was made for the new files.
    for item in entry.items.iter().filter(|item| item.was == Was::Nothing) {
        if let Some(around) = item.path.ancestors().nth(2).filter(|one| one.ends_with("projects")) {
            disk.remove_empty(&item.path, &around.join("x"));
        }
    }
    Ok(done)
}

/// Restores a file that a change has removed or replaced, or removes a new one, when the change
/// did not happen after all.
fn bring_back(
    disk: &mut dyn Disk,
    entry: &Entry,
    (item, ready): (&Item, &Ready),
) -> io::Result<()> {
    let restored = restore(disk, entry, (item, ready), item.after);
    restored.map(drop).map_err(|error| match error {
        UndoError::Io(_, error) => error,
        UndoError::Changed(_) => changed(),
        UndoError::Damaged(why) => io::Error::other(why),
    })
}

/// Whether a file is as the change left it, or as it was before; if it does not exist, nothing can
/// be lost.
fn is_expected(item: &Item, folder: &Path) -> bool {
    let Ok(is) = Mark::of(&item.path) else { return true };
    let is_before = matches!(item.was, Was::There { before, .. } if is == before);
    Some(is) == item.after || is_before || !item.is_done(folder)
}

/// Restores one file. Returns whether there was anything to do.
fn take_back(
    disk: &mut dyn Disk,
    journal: &Journal,
    entry: &Entry,
    (item, ready): (&Item, &Ready),
    now: SystemTime,
) -> Result<bool, UndoError> {
    let failed = |error| UndoError::Io(item.path.clone(), error);
    let is = Mark::of(&item.path).ok();
    // The state of the file after this.
    let after = match &item.was {
        Was::There { copy, before } => match copy.how {
            How::Link { .. } => Some(Mark::of(&entry.folder.join(&copy.name)).map_err(failed)?),
            How::Copy { .. } | How::Plain => Some(*before),
        },
        Was::Nothing => item.after,
    };
    if let Some(is) = is.filter(|_| !is_expected(item, &entry.folder)) {
        let deed = Deed { what: "undo", session: &entry.session, made: None, now };
        let saved = journal.begin(disk, deed, &[]).map_err(failed)?;
        let copy = keep(disk, &item.path, (&saved, 0), is).map_err(failed)?;
        let was = Was::There { copy, before: is };
        saved
            .finish(disk, deed, &[Item { path: item.path.clone(), was, after }])
            .map_err(failed)?;
        restore(disk, entry, (item, ready), Some(is))?;
        saved.settle(disk).map_err(failed)?;
        return Ok(true);
    }
    restore(disk, entry, (item, ready), is)
}

fn restore(
    disk: &mut dyn Disk,
    entry: &Entry,
    (item, ready): (&Item, &Ready),
    is: Option<Mark>,
) -> Result<bool, UndoError> {
    let failed = |error| UndoError::Io(item.path.clone(), error);
    let Was::There { copy, before } = &item.was else {
        if is.is_none() {
            return Ok(false);
        }
        disk.remove(&item.path).map_err(failed)?;
        disk.remove_empty(&item.path, &entry.items[0].path);
        return Ok(true);
    };
    let kept = entry.folder.join(&copy.name);
    if entry::is_same(&kept, &item.path) {
        return Ok(true);
    }
    if item.is_gone()
        && let Some(folder) = item.path.parent()
    {
        disk.create_folder(folder).map_err(failed)?;
    }
    let is_link = matches!(copy.how, How::Link { .. });
    if !is_link || disk.link(&kept, &ready.temp).is_err() {
        let attributes = copy.how.attributes(&kept).map_err(failed)?;
        let modified =
            if is_link { Mark::of(&kept).map_err(failed)?.modified } else { before.modified };
        disk.copy(&kept, &ready.temp).map_err(failed)?;
        disk.set_modified(&ready.temp, modified).map_err(failed)?;
        disk.dress(&ready.temp, &attributes).map_err(failed)?;
    }
    // The last check, as above.
    if Mark::of(&item.path).ok() != is {
        return Err(UndoError::Changed(item.path.clone()));
    }
    disk.rename(&ready.temp, &item.path).map_err(failed)?;
    Ok(true)
}

/// Why an entry is not undone.
#[derive(Debug)]
pub enum UndoError {
    /// Another program has written to the file since.
    Changed(PathBuf),
    /// The journal does not contain what it was given: which part, and how it differs.
    Damaged(String),
    Io(PathBuf, io::Error),
}

/// A name beside a file that no client takes for a session, and that only quipu uses.
fn beside(path: &Path) -> PathBuf {
    let chance = uuid::Uuid::new_v4().simple().to_string();
    path.with_file_name(format!(".quipu-{}-{}.tmp", std::process::id(), &chance[..12]))
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
