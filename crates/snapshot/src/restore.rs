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
mod hold;
mod shelf;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::moment::millis;
use crate::plan::{GONE, Step};
use crate::scan::{Limits, state_at};
use crate::sealed::{self, OPEN, SEEN};
use crate::store::{Hook, Store};
use crate::tree::State;
use crate::vault::Vault;

use beneath::Beneath;
use hold::Hold;

pub(crate) use shelf::all;

/// The beginning of the names of folders in which files wait.
pub(crate) const STAGING: &str = ".quipu-rewind-";
/// The folder of the journal, in that of the store.
pub(crate) const REWINDS: &str = "rewinds";
const PLAN: &str = "plan.json";
const FORWARD: &str = "forward";
const DONE: &str = "done";
const BACK: &str = "back";

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

/// Where in settling a rewind that was stopped the caller is asked to do its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Nothing has been done about it yet.
    Before,
    /// Its files are as they were before it, and the journal is about to forget it.
    Undone,
    /// It is settled.
    After,
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettledHow {
    /// It had not happened, and has not.
    Dropped,
    Completed,
    TakenBack,
    /// Nothing can be done about it now; why.
    Stuck(String),
}

/// Why something could not be restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error("`{}` has changed since", .0.display())]
    Changed(PathBuf),
    #[error("`{path}`: {1}", path = .0.display())]
    Io(PathBuf, io::Error),
    /// The next run says so in the journal.
    #[error("it is done, but that cannot be written down: {0}")]
    Unmarked(Box<RestoreError>),
    /// It was begun, and can be neither completed nor taken back now.
    #[error("{doing}; what was done already cannot be taken back either: {back}")]
    Stuck { doing: Box<RestoreError>, back: Box<RestoreError> },
}

/// The rewinds in a store's folder.
#[derive(Debug)]
pub struct Journal<'a> {
    store: &'a Store,
    vault: &'a Vault,
    limits: Limits,
    hold: Hold,
}

impl<'a> Journal<'a> {
    pub fn new(store: &'a Store, vault: &'a Vault, limits: Limits) -> Journal<'a> {
        Journal { store, vault, limits, hold: Hold::default() }
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.store.folder().join(REWINDS).join(name)
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
        self.hold.take(self.store.folder())?;
        let time = millis(now);
        let short: String = session.chars().take(8).collect();
        let mut name = format!("{time}-{short}");
        let mut number = 1;
        while self.folder(&name).exists() {
            number += 1;
            name = format!("{time}-{short}-{number}");
        }
        self.make_roots(&steps)?;
        let rewind = Rewind { name, time, session: session.to_owned(), made, steps };
        let folder = self.folder(&rewind.name);
        let failed = |error| RestoreError::Io(folder.clone(), error);
        let bytes = shelf::sealed(&rewind).map_err(failed)?;
        (self.hook())("write the plan").map_err(failed)?;
        // What it needs is on disk before it is.
        self.store.sync().map_err(failed)?;
        files::put(&folder.join(PLAN), &bytes, files::Durability::PowerCut).map_err(failed)?;
        let staged =
            self.open_sealed(&rewind.steps).and_then(|()| self.stage(&rewind.name, &rewind.steps));
        if staged.is_err() {
            // What cannot be removed now, the next run removes.
            let _ = self.drop_prepared(&rewind, &mut || {});
            self.hold.release();
        }
        staged?;
        Ok(rewind)
    }

    /// Makes the roots that are gone.
    fn make_roots(&self, steps: &[Step]) -> Result<(), RestoreError> {
        let mut roots: Vec<&Path> = steps.iter().map(|step| &*step.root).collect();
        roots.dedup();
        for root in roots.into_iter().filter(|root| fs::symlink_metadata(root).is_err()) {
            let failed = |error| RestoreError::Io(root.to_owned(), error);
            (self.hook())("make a root").map_err(failed)?;
            let mut builder = fs::DirBuilder::new();
            builder.mode(GONE).create(root).map_err(failed)?;
        }
        Ok(())
    }

    /// Does it. From here on it is completed, if necessary by the next run. If nothing of it is
    /// done in the end, `undone` takes away what belongs to it, before the journal forgets it.
    pub fn commit(&self, rewind: &Rewind, undone: &mut dyn FnMut()) -> Result<(), RestoreError> {
        self.hold.take(self.store.folder())?;
        let committed = self.commit_held(rewind, undone);
        self.hold.release();
        committed
    }

    fn commit_held(&self, rewind: &Rewind, undone: &mut dyn FnMut()) -> Result<(), RestoreError> {
        let is_changed = |step: &&Step| !self.is_as_good_as(step, step.from.as_ref());
        let changed = rewind.steps.iter().find(is_changed);
        let changed = changed.map_or(Ok(()), |step| Err(RestoreError::Changed(step.path())));
        if let Err(error) = changed.and_then(|()| self.mark(rewind, FORWARD)) {
            // What cannot be removed now, the next run removes.
            let _ = self.drop_prepared(rewind, undone);
            return Err(error);
        }
        let done = self
            .apply(&rewind.name, &rewind.steps)
            .and_then(|()| self.drop_staged(&rewind.name, &rewind.steps))
            .and_then(|()| self.close_roots(&rewind.steps));
        if let Err(doing) = done {
            self.abandon(rewind, doing, undone)?;
        }
        self.mark(rewind, DONE).map_err(|error| RestoreError::Unmarked(error.into()))
    }

    /// Takes back what was done of a rewind that cannot be completed: all of it or nothing. If that
    /// is not possible either, the next run tries it again.
    fn abandon(
        &self,
        rewind: &Rewind,
        doing: RestoreError,
        undone: &mut dyn FnMut(),
    ) -> Result<(), RestoreError> {
        let taken = self.mark(rewind, BACK).and_then(|()| {
            self.go_on(&rewind.name, &reversed(&rewind.steps))?;
            undone();
            self.forget(rewind)
        });
        match taken {
            Ok(()) => Err(doing),
            Err(back) => Err(RestoreError::Stuck { doing: doing.into(), back: back.into() }),
        }
    }

    /// Does what is still to be done of these steps. Returns the paths that someone changed since.
    fn go_on(&self, name: &str, steps: &[Step]) -> Result<Vec<PathBuf>, RestoreError> {
        self.open_sealed(steps)?;
        self.drop_staged(name, steps)?;
        let (left, skipped) = self.remaining(steps.to_vec());
        self.stage(name, &left)?;
        self.apply(name, &left)?;
        self.drop_staged(name, steps)?;
        self.close_roots(&left)?;
        Ok(skipped)
    }

    /// Gives up what was only prepared.
    pub fn give_up(&self, rewind: &Rewind) -> Result<(), RestoreError> {
        self.drop_prepared(rewind, &mut || {})?;
        self.hold.release();
        Ok(())
    }

    fn drop_prepared(&self, rewind: &Rewind, undone: &mut dyn FnMut()) -> Result<(), RestoreError> {
        self.drop_staged(&rewind.name, &rewind.steps)?;
        // Folders that were only opened up for it.
        for step in rewind.steps.iter().rev() {
            if let Some(State::Folder { mode }) = step.from
                && sealed::lacks(mode, needed(step))
                && self.state(step) == Some(State::Folder { mode: mode | needed(step) })
            {
                self.set_mode(step, mode)?;
            }
        }
        undone();
        self.forget(rewind)
    }

    /// Opens up folders in which nothing could be seen, the outermost first.
    fn open_sealed(&self, steps: &[Step]) -> Result<(), RestoreError> {
        for step in steps {
            if let Some(State::Folder { mode }) = self.state(step)
                && sealed::lacks(mode, needed(step))
                && [&step.from, &step.to].into_iter().any(|state| is_folder(state.as_ref()))
            {
                self.set_mode(step, mode | needed(step))?;
            }
        }
        Ok(())
    }

    fn set_mode(&self, step: &Step, mode: u32) -> Result<(), RestoreError> {
        let failed = |error| RestoreError::Io(step.path(), error);
        if step.place.is_empty() {
            // A root that may not be read cannot be opened; its path has no links.
            (self.hook())("change the folder").map_err(failed)?;
            return sealed::set_mode(&step.root, mode).map_err(failed);
        }
        self.run(step, |root| root.set_mode(&step.place, mode))
    }

    /// The paths of a rewind that are not as it left them.
    pub fn changed(&self, rewind: &Rewind) -> Vec<PathBuf> {
        let changed =
            rewind.steps.iter().filter(|step| !self.is_as_good_as(step, step.to.as_ref()));
        changed.map(Step::path).collect()
    }

    /// The objects of git that taking a rewind back needs, and of which the copies are damaged.
    pub fn damaged(&self, rewind: &Rewind) -> Vec<PathBuf> {
        let is_damaged = |step: &&Step| {
            step.from == Some(State::Object)
                && !self.is_at(step, step.from.as_ref())
                && !self.vault.is_sound(&step.root, &step.place)
        };
        rewind.steps.iter().filter(is_damaged).map(Step::path).collect()
    }

    /// Takes a rewind back. What was changed since is kept by the caller's image, or refused by the
    /// caller before. `undone` takes away what else belongs to it, before the journal forgets it:
    /// if this is stopped, the next run does both.
    pub fn take_back(&self, rewind: &Rewind, undone: &mut dyn FnMut()) -> Result<(), RestoreError> {
        self.hold.take(self.store.folder())?;
        let taken = self.take_back_held(rewind, undone);
        self.hold.release();
        taken
    }

    fn take_back_held(
        &self,
        rewind: &Rewind,
        undone: &mut dyn FnMut(),
    ) -> Result<(), RestoreError> {
        let back = reversed(&rewind.steps);
        self.open_sealed(&back)?;
        self.stage(&rewind.name, &back)?;
        self.mark(rewind, BACK)?;
        self.apply(&rewind.name, &back)?;
        self.drop_staged(&rewind.name, &rewind.steps)?;
        self.close_roots(&back)?;
        undone();
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

    /// Completes, or takes back, what was stopped; `at` is called at the points of each. While
    /// another process is in the middle of a rewind, nothing was stopped.
    pub fn settle(&self, at: &mut dyn FnMut(&Rewind, Point)) -> Result<Vec<Settled>, RestoreError> {
        if self.all().is_empty() || !self.hold.try_take(self.store.folder())? {
            return Ok(Vec::new());
        }
        let settled = self.settle_held(at);
        self.hold.release();
        Ok(settled)
    }

    fn settle_held(&self, at: &mut dyn FnMut(&Rewind, Point)) -> Vec<Settled> {
        let mut settled = Vec::new();
        for (rewind, phase) in self.all() {
            let is_stopped = phase != Phase::Done;
            if is_stopped {
                at(&rewind, Point::Before);
            }
            let done = self.settle_one(&rewind, phase, &mut || at(&rewind, Point::Undone));
            if is_stopped && done.is_ok() {
                at(&rewind, Point::After);
            }
            match done {
                Ok(None) => {}
                Ok(Some((how, skipped))) => settled.push(Settled { rewind, how, skipped }),
                // One that cannot be settled does not hold up others.
                Err(error) => {
                    let how = SettledHow::Stuck(error.to_string());
                    settled.push(Settled { rewind, how, skipped: Vec::new() });
                }
            }
        }
        settled
    }

    /// How a rewind was settled, and the paths that were left alone; None if it is done.
    fn settle_one(
        &self,
        rewind: &Rewind,
        phase: Phase,
        undone: &mut dyn FnMut(),
    ) -> Result<Option<(SettledHow, Vec<PathBuf>)>, RestoreError> {
        let back = |undone: &mut dyn FnMut()| {
            let skipped = self.go_on(&rewind.name, &reversed(&rewind.steps))?;
            undone();
            self.forget(rewind)?;
            Ok(Some((SettledHow::TakenBack, skipped)))
        };
        match phase {
            Phase::Done => {
                // It was about to be taken back.
                self.drop_staged(&rewind.name, &rewind.steps)?;
                Ok(None)
            }
            Phase::Planned => {
                self.drop_prepared(rewind, undone)?;
                Ok(Some((SettledHow::Dropped, Vec::new())))
            }
            Phase::Forward => {
                if let Ok(skipped) = self.go_on(&rewind.name, &rewind.steps) {
                    self.mark(rewind, DONE)?;
                    return Ok(Some((SettledHow::Completed, skipped)));
                }
                self.mark(rewind, BACK)?;
                back(undone)
            }
            Phase::Back => back(undone),
        }
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
                    is_folder(from.as_ref()) || is_folder(to.as_ref())
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
        let is = || Beneath::open(&step.root).map(|root| root.is_reachable(&step.place));
        // A root may be closed to its owner.
        if !step.place.is_empty() && !is().unwrap_or(false) {
            return None;
        }
        let is_object = [&step.from, &step.to].contains(&&Some(State::Object));
        if is_object && self.vault.is_whole(&step.root, &step.place) {
            return Some(State::Object);
        }
        // What is to go was kept, whatever its size.
        state_at(&step.path(), Limits { file: u64::MAX, ..self.limits })
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
        if let (Some(State::Folder { mode }), Some(State::Folder { mode: is })) =
            (wanted, self.state(step))
        {
            return is == mode | needed(step);
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
            let is_content =
                matches!(&step.to, Some(State::File { .. } | State::Link(_) | State::Object));
            if !is_content || self.is_at(step, step.to.as_ref()) {
                continue;
            }
            let failed = |error| RestoreError::Io(step.path(), error);
            (self.hook())("stage a file").map_err(failed)?;
            let root = Beneath::open(&step.root).map_err(failed)?;
            let parts = (self.store, self.vault);
            root.stage(&staging(name), number, step, parts).map_err(failed)?;
        }
        Ok(())
    }

    fn apply(&self, name: &str, steps: &[Step]) -> Result<(), RestoreError> {
        // Folders that are read-only are opened up first.
        for step in
            steps.iter().filter(|step| is_folder(step.from.as_ref()) || is_folder(step.to.as_ref()))
        {
            if let Some(State::Folder { mode }) = self.state(step)
                && mode & OPEN != OPEN
            {
                self.set_mode(step, mode | OPEN)?;
            }
        }
        // What is in the way, the innermost first.
        for step in steps.iter().rev() {
            let Some(is) = self.state(step) else { continue };
            let is_kept = match (&is, &step.to) {
                (State::Folder { .. }, to) => is_folder(to.as_ref()),
                (_, None) => false,
                // Replaced in one step below.
                (_, to) => !is_folder(to.as_ref()),
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
                Some(State::File { .. } | State::Link(_) | State::Object) => {
                    self.run(step, |root| root.place(&staging(name), number, &step.place))?;
                }
            }
        }
        // The modes of folders, the innermost first.
        for step in steps.iter().rev().filter(|step| !step.place.is_empty()) {
            if let Some(State::Folder { mode }) = &step.to
                && self.state(step).is_some_and(|is| Some(is) != step.to)
            {
                self.set_mode(step, *mode)?;
            }
        }
        Ok(())
    }

    /// The modes of roots come last: nothing may be left in them that cannot be removed then.
    fn close_roots(&self, steps: &[Step]) -> Result<(), RestoreError> {
        for step in steps.iter().filter(|step| step.place.is_empty()) {
            if let Some(State::Folder { mode }) = &step.to
                && self.state(step).is_some_and(|is| Some(is) != step.to)
            {
                self.set_mode(step, *mode)?;
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

    fn drop_staged(&self, name: &str, steps: &[Step]) -> Result<(), RestoreError> {
        let mut roots: Vec<&Path> = steps.iter().map(|step| &*step.root).collect();
        roots.dedup();
        for root in roots {
            let folder = root.join(staging(name));
            Self::drop_beside(name, root, steps);
            if fs::symlink_metadata(&folder).is_err() {
                continue;
            }
            (self.hook())("remove what was staged")
                .and_then(|()| fs::remove_dir_all(&folder))
                .map_err(|error| RestoreError::Io(folder, error))?;
        }
        Ok(())
    }

    /// Removes what was left where another file system is mounted. What cannot be removed does no
    /// harm.
    fn drop_beside(name: &str, root: &Path, steps: &[Step]) {
        let Ok(opened) = Beneath::open(root) else { return };
        let here = steps.iter().filter(|step| step.root == root);
        let folders: BTreeSet<&[u8]> = here.map(|step| folder_of(&step.place)).collect();
        for folder in folders {
            opened.drop_beside(&staging(name), folder);
        }
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

/// What is needed of a folder before anything is changed: in a root files wait.
fn needed(step: &Step) -> u32 {
    if step.place.is_empty() { OPEN } else { SEEN }
}

fn is_folder(state: Option<&State>) -> bool {
    matches!(state, Some(State::Folder { .. }))
}

/// The folder that a path is in.
fn folder_of(place: &[u8]) -> &[u8] {
    let end = place.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    &place[..end]
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
