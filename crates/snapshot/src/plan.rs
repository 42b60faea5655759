//! Finds what has to be done so that what the agent did since a moment is undone, and nothing else.
//!
//! The spans of the agent are taken back one by one, the last one first: what stands at a path now
//! must be what the span left there; then it becomes what was there before. Whatever someone else
//! did before, between or after therefore stays, and where both changed the same path there is a
//! conflict. A file that no image covers is taken back alike, by itself. Invariants: a plan changes
//! no path that the agent did not change; without conflicts it overwrites nothing that the agent
//! did not write; every content that it needs was verified.

mod objects;
mod single;

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::diff::is_gits;
use crate::git;
use crate::hash::Hash;
use crate::index;
use crate::moment::{Actor, Moment, Tree, spans};
use crate::rules::path_of;
use crate::scan::{Limits, ScanError, Scanner, keep};
use crate::sealed::{OPEN, OpenedUp};
use crate::store::Store;
use crate::tree::{Change, Folder, Folders, Place, State, Why, differences, find, join};
use crate::vault::Vault;
use crate::wire;

pub use single::{put_single, state_of_single};

/// A file over the size limit that the agent left is kept when it goes, up to this size.
const HUGE: u64 = 4 << 30;

/// The mode with which a root that is gone is made again, before it gets the one that it had.
pub(crate) const GONE: u32 = OPEN;

/// One path: what is there, and what will be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    #[serde(with = "wire::path")]
    pub root: PathBuf,
    #[serde(with = "wire::bytes")]
    pub place: Place,
    pub from: Option<State>,
    pub to: Option<State>,
}

impl Step {
    /// The whole path.
    pub fn path(&self) -> PathBuf {
        path_of(&self.root, &self.place)
    }
}

/// Why a path cannot simply be put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clash {
    /// Someone else has changed it since.
    Changed,
    /// An object that git needs is gone, and no copy is left.
    Gone,
    /// An object that git needs is gone, and the copy of it is not what git wrote.
    Damaged,
    /// Something that is not covered is in the way.
    InTheWay,
    /// It was changed while a command went on that was not watched, or not seen to end.
    Unended,
}

impl Clash {
    /// A few words for people.
    pub fn words(self) -> &'static str {
        match self {
            Clash::Changed => "someone else has changed it since",
            Clash::Gone => "git needs it, and no copy is left",
            Clash::Damaged => "git needs it, and the copy that was kept is damaged",
            Clash::InTheWay => "something that is not covered is in the way",
            Clash::Unended => {
                "someone else has changed it, or a command in the background, or one that was stopped"
            }
        }
    }
}

/// What has to be done.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub steps: Vec<Step>,
    /// What stands against it.
    pub clashes: Vec<(PathBuf, Clash)>,
    /// What the agent changed that is not covered, and stays as it is.
    pub stays: Vec<(PathBuf, Why)>,
    /// What is not covered, whether the agent changed it or not.
    pub outside: Vec<(PathBuf, Why)>,
    /// The images of now.
    pub now: Vec<Tree>,
}

/// Whether what others changed is overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    Respect,
    /// It is; it can be taken back.
    Overwrite,
}

/// Plans to undo what the agent did from the moment `cut` on.
pub fn plan(
    (store, vault): (&Store, &Vault),
    moments: &[Moment],
    cut: usize,
    others: Others,
    (limits, now): (Limits, SystemTime),
) -> Result<Plan, ScanError> {
    let mut plan = Plan::default();
    let mut roots: Vec<&Path> = Vec::new();
    for tree in moments.get(cut..).unwrap_or_default().iter().flat_map(|moment| &moment.trees) {
        if !roots.contains(&&*tree.root) {
            roots.push(&tree.root);
        }
    }
    let folders = Folders::new(store);
    for root in roots {
        // Until the plan is made.
        let opened = OpenedUp::default();
        let is = looked((store, vault), root, moments, (limits, now), &opened)?;
        folders.know(&is);
        plan.now.push(Tree { root: root.to_owned(), image: is.id });
        let found = crate::tree::outside(&is);
        plan.outside.extend(found.into_iter().map(|(at, why, _)| (path_of(root, &at), why)));
        let (folders, targets) = (&folders, BTreeMap::new());
        let plan = &mut plan;
        let mut one = Root { root, store, vault, folders, is, now, targets, plan };
        one.take_back(moments, cut)?;
        one.finish(moments, cut)?;
    }
    single::take_back(&mut plan, store, (moments, cut), (limits, now))?;
    if others == Others::Overwrite {
        plan.clashes.retain(|(_, clash)| *clash == Clash::InTheWay);
    }
    verify(store, &plan.steps)?;
    Ok(plan)
}

/// The image of a folder now. What its first and its last image cover is covered.
pub fn look(
    parts: (&Store, &Vault),
    root: &Path,
    moments: &[Moment],
    about: (Limits, SystemTime),
) -> Result<Arc<Folder>, ScanError> {
    looked(parts, root, moments, about, &OpenedUp::default())
}

fn looked(
    (store, vault): (&Store, &Vault),
    root: &Path,
    moments: &[Moment],
    (limits, now): (Limits, SystemTime),
    opened: &OpenedUp,
) -> Result<Arc<Folder>, ScanError> {
    // A folder that is gone is as good as an empty one: it is made again.
    let found = std::fs::symlink_metadata(root);
    if found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(Arc::new(Folder { mode: GONE, id: Hash::default(), items: Vec::new() }));
    }
    let mut scanner = Scanner::new(root.to_owned());
    if let Some(last) = index::load(store, root) {
        scanner.set_last(last);
    }
    scanner.keep_covered(store, moments);
    scanner.scan_opened((store, vault), limits, now, opened)
}

/// Reads every content that is needed.
fn verify(store: &Store, steps: &[Step]) -> Result<(), ScanError> {
    let mut wanted: Vec<Hash> = Vec::new();
    for state in steps.iter().flat_map(|step| [&step.to, &step.from]) {
        if let Some(State::File { hash, .. }) = state {
            wanted.push(*hash);
        }
    }
    let mut known = HashSet::new();
    for hash in wanted.into_iter().filter(|hash| known.insert(*hash)) {
        store.verify(hash)?;
    }
    Ok(())
}

#[allow(clippy::struct_field_names, reason = "its path")]
struct Root<'a> {
    root: &'a Path,
    store: &'a Store,
    vault: &'a Vault,
    folders: &'a Folders<'a>,
    /// The image of now.
    is: Arc<Folder>,
    now: SystemTime,
    targets: BTreeMap<Place, Option<State>>,
    plan: &'a mut Plan,
}

impl Root<'_> {
    fn clash(&mut self, place: &[u8], clash: Clash) {
        let path = path_of(self.root, place);
        if !self.plan.clashes.iter().any(|(known, _)| *known == path) {
            self.plan.clashes.push((path, clash));
        }
    }

    /// Goes back through what the agent did.
    fn take_back(&mut self, moments: &[Moment], cut: usize) -> Result<(), ScanError> {
        let all = spans(moments);
        let agent =
            all.iter().enumerate().filter(|(at, span)| *at >= cut && span.actor != Actor::Other);
        for (_, span) in agent.rev() {
            let Some(before) = span.from.image(self.root) else { continue };
            let after = match span.to {
                Some(to) => to.image(self.root),
                None => Some(self.is.id),
            };
            let Some(after) = after.filter(|after| *after != before) else { continue };
            let before = self.folders.load(before)?;
            let after = if after == self.is.id {
                Arc::clone(&self.is)
            } else {
                self.folders.load(after)?
            };
            for change in differences(&before, &after) {
                // Where there is only a folder, nothing can be lost.
                let (was, is) = (change.before.as_ref(), change.after.as_ref());
                let has_content = !matches!(is, None | Some(State::Folder { .. }));
                let is_unsure = span.actor == Actor::Unsure && has_content;
                if is_unsure && !self.is_same(&change.place, was, is)? {
                    self.clash(&change.place, Clash::Unended);
                }
                self.take_back_one(change)?;
            }
        }
        Ok(())
    }

    fn take_back_one(&mut self, change: Change) -> Result<(), ScanError> {
        let Change { place, before, after } = change;
        let is_outside = |state: &Option<State>| matches!(state, Some(State::Outside(..)));
        let is = match self.targets.get(&place) {
            Some(target) => target.clone(),
            None => find(&self.is, &place),
        };
        // What was covered before comes back, also from under something that is not covered.
        let can_go = matches!(is, Some(State::Outside(Why::Large | Why::Special, _)));
        if !is_outside(&before) && is == after && can_go {
            self.targets.insert(place, before);
            return Ok(());
        }
        if is_outside(&before) || is_outside(&after) || is_outside(&is) {
            let why = [&before, &after, &is].into_iter().find_map(|state| match state {
                Some(State::Outside(why, _)) => Some(*why),
                _ => None,
            });
            self.plan.stays.push((path_of(self.root, &place), why.unwrap_or(Why::Ignored)));
            return Ok(());
        }
        if !self.is_same(&place, is.as_ref(), after.as_ref())? {
            // An object has no content that could be lost.
            if after != Some(State::Object) && before != Some(State::Object) && is != before {
                self.clash(&place, Clash::Changed);
            }
        }
        self.targets.insert(place, before);
        Ok(())
    }

    fn is_same(
        &self,
        place: &[u8],
        one: Option<&State>,
        other: Option<&State>,
    ) -> Result<bool, ScanError> {
        if one == other {
            return Ok(true);
        }
        let is_index = place.rsplit(|byte| *byte == b'/').next() == Some(b"index");
        match (one, other) {
            (Some(State::File { hash: one, .. }), Some(State::File { hash: other, .. }))
                if is_index =>
            {
                Ok(git::is_same_index(&self.store.get(*one)?, &self.store.get(*other)?))
            }
            _ => Ok(false),
        }
    }

    /// Turns targets into steps.
    fn finish(&mut self, moments: &[Moment], cut: usize) -> Result<(), ScanError> {
        let before = moments.get(cut).and_then(|moment| moment.image(self.root));
        if let Some(before) = before {
            let before = self.folders.load(before)?;
            self.keep_needed_objects(&before)?;
            self.mend_objects(&before);
        }
        self.leave_locks();
        self.leave_what_cannot_be_kept();
        self.keep_used_folders();
        let is = Arc::clone(&self.is);
        let mut steps: Vec<Step> = Vec::new();
        let targets = std::mem::take(&mut self.targets);
        let mut folders: BTreeMap<Place, Option<State>> = BTreeMap::new();
        for (place, to) in &targets {
            let mut from = find(&is, place);
            if from == *to && *to != Some(State::Object) {
                continue;
            }
            // Without its HEAD a repository is a folder like others, and its objects are files.
            // What is behind a link on the way is not there.
            let is_whole = || from.is_some() && self.vault.is_whole(self.root, place);
            if *to == Some(State::Object) && is_whole() {
                continue;
            }
            let path = path_of(self.root, place);
            match from {
                // So that it can be taken back, it is kept now.
                Some(State::Outside(Why::Large, _)) => from = keep(self.store, &path, self.now)?,
                Some(State::Object) if !self.vault.is_whole(self.root, place) => {
                    from = keep(self.store, &path, self.now)?;
                }
                _ => {}
            }
            if *to == Some(State::Object) && !self.vault.kept(self.root, place).exists() {
                self.clash(place, Clash::Gone);
                continue;
            }
            if *to == Some(State::Object) && !self.vault.is_sound(self.root, place) {
                self.clash(place, Clash::Damaged);
            }
            // Folders around it: whether they are there, and may be written to.
            let ends = place.iter().enumerate().filter(|(_, byte)| **byte == b'/');
            for at in ends.map(|(at, _)| at).chain((!place.is_empty()).then_some(0)) {
                let around = &place[..at];
                if !targets.contains_key(around) {
                    folders.entry(around.to_owned()).or_insert_with(|| find(&is, around));
                }
            }
            steps.push(Step {
                root: self.root.to_owned(),
                place: place.clone(),
                from,
                to: to.clone(),
            });
        }
        for (place, state) in folders {
            let is_needed = || {
                let is_below = |step: &Step| step.to.is_some() && is_inside(&step.place, &place);
                steps.iter().any(is_below)
            };
            match state {
                Some(State::Folder { mode }) if mode & OPEN != OPEN => {
                    let state = Some(State::Folder { mode });
                    let root = self.root.to_owned();
                    steps.push(Step { root, place, from: state.clone(), to: state });
                }
                None if is_needed() => {
                    let to = Some(State::Folder { mode: 0o755 });
                    steps.push(Step { root: self.root.to_owned(), place, from: None, to });
                }
                Some(State::Folder { .. }) | None => {}
                Some(_) => self.clash(&place, Clash::InTheWay),
            }
        }
        steps.sort_by(|one, other| one.place.cmp(&other.place));
        self.plan.steps.extend(steps);
        Ok(())
    }

    /// A lock of git was held by a process that has ended since, and would be held for ever.
    fn leave_locks(&mut self) {
        let root = self.root;
        self.targets.retain(|place, to| {
            let is_lock = place.ends_with(b".lock") && is_gits(&path_of(root, place));
            to.is_none() || !is_lock
        });
    }

    /// What could not be brought back stays, and with it the folders that it is in.
    fn leave_what_cannot_be_kept(&mut self) {
        let (is, root) = (Arc::clone(&self.is), self.root);
        let stays = &mut self.plan.stays;
        self.targets.retain(|place, _| match find(&is, place) {
            Some(State::Outside(why, _)) => {
                let path = path_of(root, place);
                let can_go = match why {
                    Why::Large => !is_huge(&path),
                    Why::Special => true,
                    Why::Unreadable | Why::Ignored => false,
                };
                if !can_go {
                    stays.push((path, why));
                }
                can_go
            }
            _ => true,
        });
    }

    /// A folder that will still have something in it stays.
    fn keep_used_folders(&mut self) {
        let going: Vec<Place> = self
            .targets
            .iter()
            .filter(|(_, to)| !matches!(to, Some(State::Folder { .. })))
            .map(|(place, _)| place.clone())
            .collect();
        // The innermost first.
        for place in going.into_iter().rev() {
            let Some(State::Folder { .. }) = find(&self.is, &place) else { continue };
            let Some(folder) = folder_at(&self.is, &place) else { continue };
            let stays = folder.items.iter().any(|item| {
                let below = join(&place, &item.name);
                match self.targets.get(&below) {
                    Some(to) => to.is_some(),
                    None => true,
                }
            });
            if stays {
                if self.targets.get(&place).is_some_and(Option::is_some) {
                    self.clash(&place, Clash::InTheWay);
                }
                self.targets.remove(&place);
            }
        }
    }
}

/// Whether a file is too large to be kept.
fn is_huge(path: &Path) -> bool {
    std::fs::symlink_metadata(path).map_or(true, |found| found.len() > HUGE)
}

fn is_inside(place: &[u8], folder: &[u8]) -> bool {
    folder.is_empty() || place.strip_prefix(folder).is_some_and(|rest| rest.starts_with(b"/"))
}

fn folder_at(root: &Arc<Folder>, place: &[u8]) -> Option<Arc<Folder>> {
    let mut folder = Arc::clone(root);
    for name in place.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        let next = match &folder.get(name)?.what {
            crate::tree::What::Folder(next) => Arc::clone(next),
            _ => return None,
        };
        folder = next;
    }
    Some(folder)
}

/// The error for a plan that is not what it should be.
pub(crate) fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.to_owned())
}
