//! That commands leave the files alone that later decide what programs do outside.
//!
//! Most of these files cannot be changed while a command runs. What is left: files that a command
//! makes, and those that are too many or too deep to be mounted, of which copies are taken.
//! Invariants: what is done here follows no link below the session's folder, because a command may
//! have put one in the way; nothing that is taken away is lost; what could not be looked at, or not
//! be taken away, is reported.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::beneath::{self, Inner};
use super::repository::{is_harmless, obeyed};
use super::survey::{Survey, View};

/// Of how many files copies are taken.
const MOST: usize = 3_000;
/// How often folders are opened that a command has shut: one may be in another.
const ROUNDS: usize = 100;

/// What was there before a command.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    folders: Vec<PathBuf>,
    /// Folders of repositories outside of these that commands may write.
    gits: Vec<PathBuf>,
    /// What commands cannot change.
    fixed: Vec<PathBuf>,
    files: BTreeMap<PathBuf, Inner>,
    /// Where links of these names led.
    led: Vec<PathBuf>,
    /// What may not be made.
    missing: Vec<PathBuf>,
    /// Folders that could not be read before.
    shut: BTreeSet<PathBuf>,
    /// Where that goes which is taken away.
    aside: PathBuf,
}

/// A file that a command had no right to make or to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It was made, and taken away again.
    Made(PathBuf),
    /// It was changed, and put back.
    Changed(PathBuf),
    /// It was made or changed, and that could not be put right.
    Left(PathBuf),
    /// A folder in which not everything could be looked at.
    Unseen(PathBuf),
}

impl Taken {
    /// The same in words.
    pub fn in_words(&self) -> String {
        // The name was chosen by the command.
        let shown = |path: &Path| -> String {
            let text = path.display().to_string();
            let is_odd = |c: char| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c);
            text.chars().map(|c| if is_odd(c) { '\u{fffd}' } else { c }).collect()
        };
        match self {
            Taken::Made(path) => {
                format!("`{}` was made by the command and taken away again", shown(path))
            }
            Taken::Changed(path) => {
                format!("`{}` was changed by the command and put back", shown(path))
            }
            Taken::Left(path) => {
                format!("`{}` was changed by the command and could not be put right", shown(path))
            }
            Taken::Unseen(path) => {
                format!("`{}` could not be looked at, or contains too many folders", shown(path))
            }
        }
    }
}

/// What was looked at before a command.
#[derive(Debug, Default)]
pub(crate) struct Sight {
    /// What was found in the session's folders.
    pub(crate) views: Vec<(PathBuf, View)>,
    /// Folders of repositories outside of these that commands may write.
    pub(crate) gits: Vec<PathBuf>,
    /// What is not there, and may not be made.
    pub(crate) missing: Vec<PathBuf>,
}

impl Kept {
    /// Notes what there is, and takes copies of what is not `fixed`.
    pub(crate) fn new(sight: Sight, mut fixed: Vec<PathBuf>, aside: PathBuf) -> Kept {
        fixed.sort();
        let Sight { views, gits, missing } = sight;
        let mut kept = Kept { gits, fixed, missing, aside, ..Kept::default() };
        let of_gits: Vec<PathBuf> = kept.gits.iter().flat_map(|git| obeyed(git)).collect();
        for (folder, view) in views {
            kept.folders.push(folder);
            kept.shut.extend(view.shut);
            for path in view.found.iter().map(|found| &found.path).chain(&view.locked) {
                kept.note(path);
            }
            let links = view.found.iter().filter(|found| found.is_link);
            let led = links.filter_map(|found| fs::canonicalize(&found.path).ok());
            let folders = &kept.folders;
            // Not what contains a folder of the session.
            let is_inner = |path: &PathBuf| {
                folders.iter().any(|folder| path.starts_with(folder) && path != folder)
            };
            let led: Vec<PathBuf> = led.filter(is_inner).collect();
            for path in &led {
                kept.note(path);
            }
            kept.led.extend(led);
        }
        for path in &of_gits {
            kept.note(path);
        }
        kept
    }

    /// Whether commands cannot change what is at a path.
    fn is_fixed(&self, path: &Path) -> bool {
        let is_one = |above: &Path| self.fixed.binary_search_by(|it| it.as_path().cmp(above));
        path.ancestors().any(|above| is_one(above).is_ok())
    }

    /// Notes what is at or below a path.
    fn note(&mut self, path: &Path) {
        let is_fixed = self.is_fixed(path);
        // What is mounted needs no copy; only few files have another name.
        let below = Below::at(path, if is_fixed { MOST } else { usize::MAX });
        self.shut.extend(below.shut);
        for leaf in below.leaves {
            // What is mounted can be changed by another name.
            if is_fixed && !beneath::has_other_names(&leaf) {
                continue;
            }
            let has_room = self.files.len() < MOST;
            let content = if has_room { beneath::content(&leaf) } else { Inner::Other };
            self.files.insert(leaf, content);
        }
    }

    /// What a tool that was permitted to has changed.
    pub(crate) fn admit(&mut self, path: &Path) {
        self.files.insert(path.to_owned(), beneath::content(path));
    }

    /// Another command starts while something of an earlier one runs: only what neither can change
    /// is fixed.
    pub(crate) fn narrow(&mut self, later: &Kept) {
        self.fixed.retain(|path| later.fixed.contains(path));
    }

    fn folder_of(&self, path: &Path) -> Option<&PathBuf> {
        self.folders.iter().chain(&self.gits).find(|folder| path.starts_with(folder))
    }

    /// Puts back what was changed, and takes away what was made.
    pub(crate) fn restore(&self, survey: &mut Survey) -> Vec<Taken> {
        let mut taken = Vec::new();
        for (path, before) in &self.files {
            let Some(folder) = self.folder_of(path) else { continue };
            if before.is_kept() && beneath::content(path) != *before {
                let done = beneath::put_back(folder, path, before);
                taken.push(match done {
                    Ok(()) => Taken::Changed(path.clone()),
                    Err(_) => Taken::Left(path.clone()),
                });
            }
        }
        for folder in &self.folders {
            let view = self.opened(folder, survey, &mut taken);
            let found = view.found.iter().map(|found| &found.path);
            self.take_new(found.chain(&view.locked), &mut taken);
        }
        let is_folder = |path: &&PathBuf| path.is_dir() && !path.is_symlink();
        self.take_new(self.led.iter().filter(is_folder), &mut taken);
        let is_there = |path: &&PathBuf| path.symlink_metadata().is_ok();
        self.take_new(self.missing.iter().filter(is_there), &mut taken);
        for git in &self.gits {
            self.take_new(obeyed(git).iter(), &mut taken);
        }
        taken
    }

    /// What is in a folder now. What the command has shut is opened.
    fn opened(&self, folder: &Path, survey: &mut Survey, taken: &mut Vec<Taken>) -> View {
        for round in 0.. {
            let view = survey.look(folder);
            let shut: Vec<&PathBuf> =
                view.shut.iter().filter(|path| !self.shut.contains(*path)).collect();
            let is_open = |path: &&PathBuf| beneath::open_up(folder, path).is_ok();
            let opened = shut.iter().filter(|path| is_open(path)).count();
            if opened == 0 || round >= ROUNDS {
                if view.is_partial {
                    taken.push(Taken::Unseen(folder.to_owned()));
                }
                taken.extend(shut.into_iter().cloned().map(Taken::Unseen));
                return view;
            }
        }
        View::default()
    }

    /// Takes away what is new at or below these paths.
    fn take_new<'a>(&self, paths: impl Iterator<Item = &'a PathBuf>, taken: &mut Vec<Taken>) {
        for path in paths.filter(|path| !self.is_fixed(path)) {
            let Some(folder) = self.folder_of(path) else { continue };
            let mut below = Below::at(path, usize::MAX);
            for _ in 0..ROUNDS {
                let mut shut = below.shut.iter().filter(|path| !self.shut.contains(*path));
                if !shut.any(|path| beneath::open_up(folder, path).is_ok()) {
                    break;
                }
                below = Below::at(path, usize::MAX);
            }
            for leaf in below.leaves {
                if self.files.contains_key(&leaf) || is_harmless(&leaf) {
                    continue;
                }
                let done = beneath::take(folder, &leaf, &self.aside);
                taken.push(if done.is_ok() { Taken::Made(leaf) } else { Taken::Left(leaf) });
            }
        }
    }
}

/// What is at or below a path.
#[derive(Debug, Default)]
struct Below {
    /// Files, and links, which are not followed.
    leaves: Vec<PathBuf>,
    /// Folders that cannot be read.
    shut: Vec<PathBuf>,
}

impl Below {
    /// At most this many leaves.
    fn at(path: &Path, most: usize) -> Below {
        let mut below = Below::default();
        let mut todo = vec![path.to_owned()];
        while let Some(path) = todo.pop().filter(|_| below.leaves.len() < most) {
            if !fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir()) {
                below.leaves.push(path);
                continue;
            }
            match fs::read_dir(&path) {
                Ok(entries) => todo.extend(entries.flatten().map(|entry| entry.path())),
                Err(_) => below.shut.push(path),
            }
        }
        below
    }
}

#[cfg(test)]
#[path = "keep_tests.rs"]
mod tests;
