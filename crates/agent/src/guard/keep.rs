//! That commands leave the files alone that later decide what programs do outside.
//!
//! Most of these files cannot be changed while a command runs. What is left: files that a command
//! makes, and those that are too many or too deep to be mounted, of which copies are taken.
//! Invariants: what is done here follows no link below the session's folder, because a command may
//! have put one in the way; nothing that is taken away is lost.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::beneath::{self, Inner};
use super::repository::is_harmless;
use super::survey::{Found, Survey};

/// How many files are looked at in a folder that is sensitive as a whole.
const MOST: usize = 3_000;

/// What was there before a command.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    folders: Vec<PathBuf>,
    /// What commands cannot change.
    fixed: Vec<PathBuf>,
    files: BTreeMap<PathBuf, Inner>,
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
}

impl Taken {
    /// The same in words.
    pub fn in_words(&self) -> String {
        // The name was chosen by the command.
        let shown = |path: &Path| -> String {
            let text = path.display().to_string();
            text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
        };
        match self {
            Taken::Made(path) => {
                format!("`{}` was made by the command and taken away again", shown(path))
            }
            Taken::Changed(path) => {
                format!("`{}` was changed by the command and put back", shown(path))
            }
        }
    }
}

impl Kept {
    /// Notes what there is, and takes copies of what is not `fixed`.
    pub(crate) fn new(
        folders: &[PathBuf],
        found: &[Found],
        fixed: Vec<PathBuf>,
        aside: PathBuf,
    ) -> Kept {
        let open = found.iter().filter(|found| !fixed.contains(&found.path));
        let leaves = open.flat_map(|found| leaves(&found.path));
        let files = leaves.map(|path| (path.clone(), beneath::content(&path)));
        Kept { folders: folders.to_vec(), files: files.collect(), fixed, aside }
    }

    /// What a tool that was permitted to has changed.
    pub(crate) fn admit(&mut self, path: &Path) {
        self.files.insert(path.to_owned(), beneath::content(path));
    }

    /// Puts back what was changed, and takes away what was made.
    pub(crate) fn restore(&self, survey: &mut Survey) -> Vec<Taken> {
        let mut taken = Vec::new();
        let folder_of = |path: &Path| self.folders.iter().find(|folder| path.starts_with(folder));
        for (path, before) in &self.files {
            let Some(folder) = folder_of(path) else { continue };
            if before.is_kept()
                && beneath::content(path) != *before
                && beneath::put_back(folder, path, before).is_ok()
            {
                taken.push(Taken::Changed(path.clone()));
            }
        }
        for folder in &self.folders {
            let found = survey.look(folder);
            let open = found.iter().filter(|found| !self.fixed.contains(&found.path));
            for path in open.flat_map(|found| leaves(&found.path)) {
                let is_new = !self.files.contains_key(&path);
                if is_new
                    && !is_harmless(&path)
                    && beneath::take(folder, &path, &self.aside).is_ok()
                {
                    taken.push(Taken::Made(path));
                }
            }
        }
        taken
    }
}

/// The files at or below a path, and links, which are not followed.
fn leaves(path: &Path) -> Vec<PathBuf> {
    if !fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten().take(MOST);
    entries.flat_map(|entry| leaves(&entry.path())).take(MOST).collect()
}

#[cfg(test)]
#[path = "keep_tests.rs"]
mod tests;
