//! Objects of git in a plan: those that are needed come back, and those that may be needed stay.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Root, is_inside};
use crate::scan::ScanError;
use crate::tree::{Folder, Place, State, What, differences, find, join};
use crate::vault::Condition;

impl Root<'_> {
    /// Objects that were there and are gone come back with what may need them: wherever anything
    /// else of git's changes. They are named after their contents; one that has another content
    /// than its copy was damaged.
    pub(super) fn mend_objects(&mut self, before: &Folder) {
        let mut all = Vec::new();
        objects(&[], before, &mut all);
        let mut changing: HashMap<Place, bool> = HashMap::new();
        let mut modes: HashMap<Place, bool> = HashMap::new();
        for place in all {
            if self.targets.contains_key(&place) {
                continue;
            }
            let is_needed = match find(&self.is, &place) {
                Some(State::Object) => match self.vault.condition(self.root, &place) {
                    Condition::Whole => false,
                    // Who did it shows only in the rest of the repository.
                    Condition::OtherMode => git_of(&place).is_some_and(|git| {
                        let are_changing = || self.changes_modes(&git);
                        *modes.entry(git.clone()).or_insert_with(are_changing)
                    }),
                    Condition::Other => true,
                },
                None => git_of(&place).is_some_and(|git| {
                    let is_changing = || self.changes_git(&git);
                    *changing.entry(git.clone()).or_insert_with(is_changing)
                }),
                Some(_) => false,
            };
            if is_needed {
                self.targets.insert(place, Some(State::Object));
            }
        }
    }

    /// Whether anything of a folder of git changes that is no object.
    fn changes_git(&self, git: &[u8]) -> bool {
        let objects = join(git, b"objects");
        let is_changing = |place: &Place| {
            is_inside(place, git) && *place != objects && !is_inside(place, &objects)
        };
        self.targets.keys().any(is_changing)
    }

    /// Whether the modes of files or folders of a folder of git change.
    fn changes_modes(&self, git: &[u8]) -> bool {
        let is_mode = |(place, to): (&Place, &Option<State>)| match (find(&self.is, place), to) {
            (
                Some(State::File { mode: from, hash: one, .. }),
                Some(State::File { mode: to, hash: other, .. }),
            ) => from != *to && one == *other,
            (Some(State::Folder { mode: from }), Some(State::Folder { mode: to })) => from != *to,
            _ => false,
        };
        self.targets.iter().filter(|(place, _)| is_inside(place, git)).any(is_mode)
    }

    /// Objects that the agent added go only if everything else of the repository is as it was:
    /// otherwise someone may need them.
    pub(super) fn keep_needed_objects(&mut self, before: &Arc<Folder>) -> Result<(), ScanError> {
        let added: Vec<Place> = self
            .targets
            .iter()
            .filter(|(place, to)| to.is_none() && find(&self.is, place) == Some(State::Object))
            .map(|(place, _)| place.clone())
            .collect();
        if added.is_empty() {
            return Ok(());
        }
        let mut kept: HashSet<Place> = HashSet::new();
        let mut gits: Vec<Place> = added.iter().filter_map(|place| git_of(place)).collect();
        gits.dedup();
        let changes = differences(before, &self.is);
        for git in gits {
            let mut is_back = true;
            let objects = join(&git, b"objects");
            for change in changes.iter().filter(|change| is_inside(&change.place, &git)) {
                let is_object = change.before == Some(State::Object)
                    || change.after == Some(State::Object)
                    || change.place == objects
                    || is_inside(&change.place, &objects);
                let end = self.targets.get(&change.place).unwrap_or(&change.after);
                let is_folder =
                    |state: &Option<State>| matches!(state, Some(State::Folder { .. }) | None);
                if is_object || (is_folder(end) && is_folder(&change.before)) {
                    continue;
                }
                is_back &= self.is_same(&change.place, end.as_ref(), change.before.as_ref())?;
            }
            if !is_back {
                kept.insert(git);
            }
        }
        for place in added {
            if git_of(&place).is_some_and(|git| kept.contains(&git)) {
                self.targets.remove(&place);
            }
        }
        Ok(())
    }
}

/// The paths of objects in an image.
fn objects(place: &[u8], folder: &Folder, found: &mut Vec<Place>) {
    for item in &folder.items {
        match &item.what {
            What::Folder(below) => objects(&join(place, &item.name), below, found),
            What::Object => found.push(join(place, &item.name)),
            _ => {}
        }
    }
}

/// The folder of git that an object's path is in: without `objects/ab/cd`.
fn git_of(place: &[u8]) -> Option<Place> {
    let text: Vec<&[u8]> = place.split(|byte| *byte == b'/').collect();
    let at = text.iter().rposition(|name| *name == b"objects")?;
    Some(text[..at].join(&b'/'))
}
