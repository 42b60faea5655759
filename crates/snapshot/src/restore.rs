//! Carries out a plan: all of it, or nothing.
//!
//! First everything that is to be put in place is written beside it, in a folder of its own in the
//! same root; then a marker in the journal says that it happens; then names are moved. A run that
//! is stopped before the marker has done nothing, and what it left is removed; one that is stopped
//! after it is completed by the next run, because every step can be done again. Taking back is the
//! same plan in the other direction. Invariants: no link is followed on the way to a path; what
//! someone changed after a stopped run is left alone; the journal says what was done until it is
//! taken back or expires.

mod beneath;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::hash::Hash;
use crate::moment::millis;
use crate::plan::{Step, invalid};
use crate::scan::{Limits, state_at};
use crate::store::{Hook, Store};
use crate::tree::{Place, State};
use crate::vault::Vault;

use beneath::Beneath;

/// The beginning of the names of folders in which files wait.
pub(crate) const STAGING: &str = ".quipu-rewind-";
const PLAN: &str = "plan.json";
const FORWARD: &str = "forward";
const DONE: &str = "done";
const BACK: &str = "back";
/// A plan, at most.
const MOST: u64 = 1 << 30;

/// A rewind in the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewind {
    /// The name of its folder.
    pub name: String,
    /// Milliseconds since 1970.
    pub time: i64,
    pub session: String,
    /// The session that the conversation goes on in.
    pub made: Option<String>,
    pub steps: Vec<Step>,
}

#[derive(Serialize, Deserialize)]
struct Sealed<'a> {
    hash: Hash,
    #[serde(borrow)]
    rewind: &'a RawValue,
}

/// How far a rewind is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing has happened yet.
    Planned,
    /// It is happening.
    Forward,
    Done,
    /// It is being taken back.
    Back,
}

/// What the next run did about a rewind that was stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    pub rewind: Rewind,
    pub how: SettledHow,
    /// Paths that someone changed since: left alone.
    pub skipped: Vec<PathBuf>,
}

/// In which direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettledHow {
    /// It had not happened, and has not.
    Dropped,
    Completed,
    TakenBack,
}

/// Why something could not be restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error("`{}` has changed since", .0.display())]
    Changed(PathBuf),
    #[error("`{path}`: {1}", path = .0.display())]
    Io(PathBuf, io::Error),
}

/// The rewinds in a store's folder.
#[derive(Debug)]
pub struct Journal<'a> {
    store: &'a Store,
    vault: &'a Vault,
    limits: Limits,
}

impl<'a> Journal<'a> {
    pub fn new(store: &'a Store, vault: &'a Vault, limits: Limits) -> Journal<'a> {
        Journal { store, vault, limits }
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.store.folder().join("rewinds").join(name)
    }

    fn hook(&self) -> &Hook {
        &self.store.hook
    }

    /// Writes everything beside its place, and the plan into the journal. Nothing has happened yet.
    pub fn prepare(
        &self,
        session: &str,
        made: Option<String>,
        steps: Vec<Step>,
        now: SystemTime,
    ) -> Result<Rewind, RestoreError> {
        let time = millis(now);
        let short: String = session.chars().take(8).collect();
        let mut name = format!("{time}-{short}");
        let mut number = 1;
        while self.folder(&name).exists() {
            number += 1;
            name = format!("{time}-{short}-{number}");
        }
        let rewind = Rewind { name, time, session: session.to_owned(), made, steps };
        let folder = self.folder(&rewind.name);
        let failed = |error| RestoreError::Io(folder.clone(), error);
        let raw = serde_json::value::to_raw_value(&rewind).map_err(|e| failed(e.into()))?;
        let sealed = Sealed { hash: Hash::of(raw.get().as_bytes()), rewind: &raw };
        let bytes = serde_json::to_vec(&sealed).map_err(|e| failed(e.into()))?;
        (self.hook())("write the plan").map_err(failed)?;
        files::put(&folder.join(PLAN), &bytes, files::Durability::PowerCut).map_err(failed)?;
        let staged = self.stage(&rewind.name, &rewind.steps);
        if staged.is_err() {
            // What cannot be removed now, the next run removes.
            let _ = self.drop_staged(&rewind);
            let _ = self.forget(&rewind);
        }
        staged?;
        Ok(rewind)
    }

    /// Does it. From here on it is completed, if necessary by the next run.
    pub fn commit(&self, rewind: &Rewind) -> Result<(), RestoreError> {
        for step in &rewind.steps {
            if !self.is_as_good_as(step, step.from.as_ref()) {
                let changed = RestoreError::Changed(step.path());
                let _ = self.drop_staged(rewind).and_then(|()| self.forget(rewind));
                return Err(changed);
            }
        }
        self.mark(rewind, FORWARD)?;
        self.apply(&rewind.name, &rewind.steps)?;
        self.mark(rewind, DONE)?;
        self.drop_staged(rewind)
    }

    /// Gives up what was only prepared.
    pub fn give_up(&self, rewind: &Rewind) -> Result<(), RestoreError> {
        self.drop_staged(rewind)?;
        self.forget(rewind)
    }

    /// The paths of a rewind that are not as it left them.
    pub fn changed(&self, rewind: &Rewind) -> Vec<PathBuf> {
        let changed =
            rewind.steps.iter().filter(|step| !self.is_as_good_as(step, step.to.as_ref()));
        changed.map(Step::path).collect()
    }

    /// Takes a rewind back. What was changed since is kept by the caller's image, or refused by the
    /// caller before.
    pub fn take_back(&self, rewind: &Rewind) -> Result<(), RestoreError> {
        let back = reversed(&rewind.steps);
        self.stage(&rewind.name, &back)?;
        self.mark(rewind, BACK)?;
        self.apply(&rewind.name, &back)?;
        self.drop_staged(rewind)?;
        self.forget(rewind)
    }

    /// All rewinds that were done, newest first; those that are damaged are not listed.
    pub fn list(&self) -> Vec<Rewind> {
        let all = self.all().into_iter();
        let done = all.filter(|(_, phase)| *phase == Phase::Done).map(|(rewind, _)| rewind);
        let mut done: Vec<Rewind> = done.collect();
        done.sort_by(|one, other| (other.time, &other.name).cmp(&(one.time, &one.name)));
        done
    }

    fn all(&self) -> Vec<(Rewind, Phase)> {
        all(self.store.folder())
    }

    /// Completes, or takes back, what was stopped. `is_mine` says which rewinds are this program's
    /// business: another process may be in the middle of one.
    pub fn settle(&self) -> Result<Vec<Settled>, RestoreError> {
        let mut settled = Vec::new();
        for (rewind, phase) in self.all() {
            let (how, steps) = match phase {
                Phase::Done => {
                    // Stopped right at the end.
                    self.drop_staged(&rewind)?;
                    continue;
                }
                Phase::Planned => {
                    self.drop_staged(&rewind)?;
                    self.forget(&rewind)?;
                    settled.push(Settled { rewind, how: SettledHow::Dropped, skipped: Vec::new() });
                    continue;
                }
                Phase::Forward => (SettledHow::Completed, rewind.steps.clone()),
                Phase::Back => (SettledHow::TakenBack, reversed(&rewind.steps)),
            };
            self.drop_staged(&rewind)?;
            let (steps, skipped) = self.remaining(steps);
            self.stage(&rewind.name, &steps)?;
            self.apply(&rewind.name, &steps)?;
            self.drop_staged(&rewind)?;
            match how {
                SettledHow::Completed => self.mark(&rewind, DONE)?,
                _ => self.forget(&rewind)?,
            }
            settled.push(Settled { rewind, how, skipped });
        }
        Ok(settled)
    }

    /// The steps that are still to be done, and the paths that someone changed since.
    fn remaining(&self, steps: Vec<Step>) -> (Vec<Step>, Vec<PathBuf>) {
        let mut skipped = Vec::new();
        let mut left = Vec::new();
        for step in steps {
            let is = self.state(&step);
            // Folders are opened up while work goes on, and files are gone between two steps.
            let is_between = match (&is, &step.from, &step.to) {
                (None, ..) => true,
                (Some(State::Folder { .. }), from, to) => {
                    let is_folder =
                        |state: &Option<State>| matches!(state, Some(State::Folder { .. }));
                    is_folder(from) || is_folder(to)
                }
                _ => false,
            };
            if is == step.to || is == step.from || is_between {
                left.push(step);
            } else {
                skipped.push(step.path());
            }
        }
        (left, skipped)
    }

    fn state(&self, step: &Step) -> Option<State> {
        let is = Beneath::open(&step.root).map(|root| root.is_reachable(&step.place));
        if !is.unwrap_or(false) {
            return None;
        }
        let is_object = [&step.from, &step.to].contains(&&Some(State::Object));
        match state_at(&step.path(), self.limits) {
            Some(State::File { .. }) if is_object => Some(State::Object),
            state => state,
        }
    }

    fn is_at(&self, step: &Step, wanted: Option<&State>) -> bool {
        self.state(step).as_ref() == wanted
    }

    /// Whether nothing would be lost: an index of git that lists the same is as good as another
    /// one.
    fn is_as_good_as(&self, step: &Step, wanted: Option<&State>) -> bool {
        if self.is_at(step, wanted) {
            return true;
        }
        let is_index = step.place.rsplit(|byte| *byte == b'/').next() == Some(b"index");
        let Some(State::File { hash, .. }) = wanted.filter(|_| is_index) else { return false };
        let is = files::read(step.path(), self.limits.file);
        match (is, self.store.get(*hash)) {
            (Ok(is), Ok(wanted)) => crate::git::is_same_index(&is, &wanted),
            _ => false,
        }
    }

    /// Writes what is to be put in place beside it.
    fn stage(&self, name: &str, steps: &[Step]) -> Result<(), RestoreError> {
        for (number, step) in steps.iter().enumerate() {
            let is_content = matches!(&step.to, Some(State::File { .. } | State::Link(_)));
            if !is_content || self.is_at(step, step.to.as_ref()) {
                continue;
            }
            let failed = |error| RestoreError::Io(step.path(), error);
            (self.hook())("stage a file").map_err(failed)?;
            let root = Beneath::open(&step.root).map_err(failed)?;
            root.stage(&staging(name), number, step, self.store).map_err(failed)?;
        }
        Ok(())
    }

    fn apply(&self, name: &str, steps: &[Step]) -> Result<(), RestoreError> {
        let failed = |step: &Step, error| RestoreError::Io(step.path(), error);
        let is_folder = |state: &Option<State>| matches!(state, Some(State::Folder { .. }));
        // Folders that are read-only are opened up first.
        for step in steps.iter().filter(|step| is_folder(&step.from) || is_folder(&step.to)) {
            if let Some(State::Folder { mode }) = self.state(step)
                && mode & 0o300 != 0o300
            {
                self.run(step, |root| root.set_mode(&step.place, mode | 0o700))?;
            }
        }
        // What is in the way, the innermost first.
        for step in steps.iter().rev() {
            let Some(is) = self.state(step) else { continue };
            let is_kept = match (&is, &step.to) {
                (State::Folder { .. }, to) => is_folder(to),
                (_, None) => false,
                // Replaced in one step below.
                (_, to) => !is_folder(to),
            };
            if is_kept {
                continue;
            }
            if is == State::Object {
                self.vault.keep(&step.root, &step.place);
                if !self.vault.kept(&step.root, &step.place).exists() {
                    // The only copy stays: an object that nothing needs does no harm.
                    continue;
                }
            }
            self.run(step, |root| root.remove(&step.place, matches!(is, State::Folder { .. })))?;
        }
        // What has to be there, the outermost first.
        for (number, step) in steps.iter().enumerate() {
            let is = self.state(step);
            if is == step.to {
                continue;
            }
            match &step.to {
                Some(State::Folder { .. }) if is.is_none() => {
                    self.run(step, |root| root.make_folder(&step.place))?;
                }
                None | Some(State::Folder { .. } | State::Outside(..)) => {}
                Some(State::Object) => {
                    let kept = self.vault.kept(&step.root, &step.place);
                    (self.hook())("put an object back").map_err(|error| failed(step, error))?;
                    let put = Vault::put_back(&kept, &step.path());
                    put.map_err(|error| failed(step, error))?;
                }
                Some(State::File { .. } | State::Link(_)) => {
                    self.run(step, |root| root.place(&staging(name), number, &step.place))?;
                }
            }
        }
        // The modes of folders, the innermost first.
        for step in steps.iter().rev() {
            if let Some(State::Folder { mode }) = &step.to
                && self.state(step).is_some_and(|is| Some(is) != step.to)
            {
                self.run(step, |root| root.set_mode(&step.place, *mode))?;
            }
        }
        Ok(())
    }

    /// One change of the root's folder.
    fn run(
        &self,
        step: &Step,
        act: impl FnOnce(&Beneath) -> io::Result<()>,
    ) -> Result<(), RestoreError> {
        let failed = |error| RestoreError::Io(step.path(), error);
        (self.hook())("change the folder").map_err(failed)?;
        let root = Beneath::open(&step.root).map_err(failed)?;
        act(&root).map_err(failed)
    }

    fn mark(&self, rewind: &Rewind, what: &str) -> Result<(), RestoreError> {
        let path = self.folder(&rewind.name).join(what);
        (self.hook())("write a marker")
            .and_then(|()| files::put(&path, b"", files::Durability::PowerCut))
            .map_err(|error| RestoreError::Io(path, error))
    }

    fn drop_staged(&self, rewind: &Rewind) -> Result<(), RestoreError> {
        let mut roots: Vec<&Path> = rewind.steps.iter().map(|step| &*step.root).collect();
        roots.dedup();
        for root in roots {
            let folder = root.join(staging(&rewind.name));
            if fs::symlink_metadata(&folder).is_err() {
                continue;
            }
            (self.hook())("remove what was staged")
                .and_then(|()| fs::remove_dir_all(&folder))
                .map_err(|error| RestoreError::Io(folder, error))?;
        }
        Ok(())
    }

    /// Removes a rewind from the journal: in one step for other processes.
    pub fn forget(&self, rewind: &Rewind) -> Result<(), RestoreError> {
        let folder = self.folder(&rewind.name);
        let gone = self.folder(&format!(".gone-{}", rewind.name));
        (self.hook())("forget a rewind")
            .and_then(|()| fs::rename(&folder, &gone))
            .and_then(|()| fs::remove_dir_all(&gone))
            .map_err(|error| RestoreError::Io(folder, error))
    }
}

fn staging(name: &str) -> String {
    format!("{STAGING}{name}")
}

fn reversed(steps: &[Step]) -> Vec<Step> {
    let turned = steps.iter().map(|step| {
        let Step { root, place, from, to } = step.clone();
        Step { root, place, from: to, to: from }
    });
    turned.collect()
}

/// Every rewind in a store's folder that can be read.
pub(crate) fn all(store: &Path) -> Vec<(Rewind, Phase)> {
    let found = fs::read_dir(store.join("rewinds")).into_iter().flatten().flatten();
    let mut all: Vec<(Rewind, Phase)> = Vec::new();
    for entry in found {
        let folder = entry.path();
        let Ok(rewind) = read(&folder) else { continue };
        let has = |name: &str| folder.join(name).exists();
        let phase = match (has(BACK), has(DONE), has(FORWARD)) {
            (true, ..) => Phase::Back,
            (_, true, _) => Phase::Done,
            (_, _, true) => Phase::Forward,
            _ => Phase::Planned,
        };
        all.push((rewind, phase));
    }
    all.sort_by(|one, other| one.0.name.cmp(&other.0.name));
    all
}

fn read(folder: &Path) -> io::Result<Rewind> {
    let bytes = files::read(folder.join(PLAN), MOST)?;
    let sealed: Sealed<'_> = serde_json::from_slice(&bytes)?;
    if Hash::of(sealed.rewind.get().as_bytes()) != sealed.hash {
        return Err(invalid("its hash differs"));
    }
    let rewind: Rewind = serde_json::from_str(sealed.rewind.get())?;
    let is_its = folder.file_name().is_some_and(|name| name.to_string_lossy() == rewind.name);
    let is_plain = |step: &Step| is_plain(&step.place);
    if is_its && rewind.steps.iter().all(is_plain) {
        Ok(rewind)
    } else {
        Err(invalid("it does not belong here"))
    }
}

/// Whether a path stays below its root.
fn is_plain(place: &Place) -> bool {
    let mut names = place.split(|byte| *byte == b'/');
    place.is_empty() || names.all(|name| !matches!(name, b"" | b"." | b".."))
}
