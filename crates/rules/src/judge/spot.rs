//! Where a command may be, and which files its words may mean there.
//!
//! Invariant: a folder that a command changes to is where the next one is only if that is certain;
//! otherwise it is one of several, and what is allowed is allowed in all of them.

use std::path::{Component, Path, PathBuf};

use super::Judge;
use crate::path::plain;
use crate::shell::{Arg, Simple};

/// In how many folders a command may be; with more, that cannot be told.
const MOST: usize = 16;

/// The folders in which the commands of a list may be.
#[derive(Debug)]
pub(super) struct Spots {
    /// All folders in which one of them may have been.
    all: Vec<PathBuf>,
    /// Those in which the commands of this chain may be.
    here: Vec<PathBuf>,
    chain: usize,
    /// Whether one of them has changed the folder.
    pub(super) is_moved: bool,
    /// Whether it is not known where they are.
    pub(super) is_lost: bool,
}

impl Spots {
    pub(super) fn new(cwd: &Path) -> Spots {
        let all = vec![cwd.to_owned()];
        Spots { here: all.clone(), all, chain: 0, is_moved: false, is_lost: false }
    }

    /// The folders in which a command may be.
    pub(super) fn of(&mut self, simple: &Simple) -> Vec<PathBuf> {
        if simple.chain != self.chain {
            self.chain = simple.chain;
            self.here.clone_from(&self.all);
        }
        self.here.clone()
    }

    /// Follows a command that changes the folder.
    pub(super) fn follow(&mut self, simple: &Simple, judge: &Judge<'_>) {
        let Some((name, words)) = simple.words.split_first() else { return };
        if runs_here(&name.text) && words.iter().any(names_mover) {
            (self.is_moved, self.is_lost) = (true, true);
        }
        if !MOVERS.contains(&name.text.as_str()) {
            return;
        }
        self.is_moved = true;
        // The next time, it begins where this time has led.
        self.is_lost |= simple.is_repeated;
        if self.is_lost {
            return;
        }
        let home = Arg { text: "~".to_owned(), ..Arg::default() };
        let to = match words {
            [] if name.text == "cd" => &home,
            [to] if is_plain(to) => to,
            _ => return self.is_lost = true,
        };
        let here = self.of(simple);
        let mut found: Vec<PathBuf> = Vec::new();
        for from in &here {
            // The shell remembers the way; programs are where it leads.
            let path = judge.joined(to, from);
            found.extend([plain(&path), (judge.place.real)(&judge.physical(&path))]);
        }
        found.sort();
        found.dedup();
        self.all.extend(found.iter().cloned());
        self.all.sort();
        self.all.dedup();
        self.is_lost |= self.all.len() > MOST;
        // A part of a pipe is in a shell of its own.
        if !simple.is_piped {
            self.here = found;
        }
    }
}

/// Commands of the shell that change its folder.
const MOVERS: [&str; 3] = ["cd", "pushd", "popd"];

/// Whether a command runs its words in the same shell.
fn runs_here(name: &str) -> bool {
    matches!(name, "builtin" | "command" | "eval" | "trap")
}

/// Whether a word is, or contains, a command that changes the folder.
fn names_mover(word: &Arg) -> bool {
    let mut names = word.text.split(|c: char| !c.is_ascii_alphanumeric());
    names.any(|name| MOVERS.contains(&name))
}

/// Whether a word names one folder.
fn is_plain(word: &Arg) -> bool {
    let is_known = !word.is_unknown || word.text.starts_with('$');
    is_known && !word.is_pattern && !word.text.starts_with(['-', '+'])
}

impl Judge<'_> {
    /// The path that a word means in this folder, as it is written.
    pub(super) fn joined(&self, word: &Arg, cwd: &Path) -> PathBuf {
        let home = self.place.home.unwrap_or(Path::new("/"));
        let behind = |start: &str| {
            let rest = word.text.strip_prefix(start).filter(|_| !word.is_literal)?;
            (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/'))
        };
        let names = [("~", home), ("$HOME", home), ("${HOME}", home)];
        let names = names.into_iter().chain([("$PWD", cwd), ("${PWD}", cwd)]);
        let mut found = names.filter_map(|(name, folder)| Some(folder.join(behind(name)?)));
        // With something else behind it, the name of a folder is the beginning of another one.
        let other = |name: &str, folder: &Path| {
            let rest = word.text.strip_prefix(name).filter(|_| !word.is_literal)?;
            Some(PathBuf::from(format!("{}{rest}", folder.display())))
        };
        found
            .next()
            .or_else(|| other("${HOME}", home))
            .or_else(|| other("${PWD}", cwd))
            .or_else(|| other("$HOME", home))
            .or_else(|| other("$PWD", cwd))
            .unwrap_or_else(|| cwd.join(&word.text))
    }

    /// Where the system finds a path: by `..` it leaves the folder to which a link has led.
    pub(super) fn physical(&self, path: &Path) -> PathBuf {
        let mut now = PathBuf::new();
        for part in path.components() {
            match part {
                Component::CurDir => {}
                Component::ParentDir => {
                    now = (self.place.real)(&now);
                    now.pop();
                }
                part => now.push(part),
            }
        }
        now
    }

    /// The paths that a word may mean in these folders; of a pattern, the folder before it, the
    /// pattern as a name, and what it means now. None if that cannot be told.
    pub(super) fn meant(&self, word: &Arg, spots: &[PathBuf]) -> Option<Vec<PathBuf>> {
        let mut found = Vec::new();
        for cwd in spots {
            let path = self.joined(word, cwd);
            found.extend([plain(&path), self.physical(&path)]);
            if word.is_pattern {
                if word.has_quoted_signs {
                    return None;
                }
                let start = word.text.split(['*', '?', '[', '{']).next().unwrap_or_default();
                let before = start
                    .rsplit_once('/')
                    .map_or(".", |(folder, _)| if folder.is_empty() { "/" } else { folder });
                let before = Arg { text: before.to_owned(), ..word.clone() };
                let before = self.joined(&before, cwd);
                found.extend([plain(&before), self.physical(&before)]);
                found.extend((self.place.fitting)(&path)?);
            }
        }
        found.sort();
        found.dedup();
        Some(found)
    }

    /// Whether all that a word may mean is so.
    pub(super) fn all_meant(
        &self,
        word: &Arg,
        spots: &[PathBuf],
        is_so: impl Fn(&Path) -> bool,
    ) -> bool {
        self.meant(word, spots).is_some_and(|paths| paths.iter().all(|path| is_so(path)))
    }

    /// Whether a pattern may become an option: a file in the folder has such a name.
    pub(super) fn may_be_option(&self, word: &Arg, spots: &[PathBuf]) -> bool {
        let is_open = word.is_pattern && word.text.starts_with(['*', '?', '[', '-']);
        let is_option = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"-"))
        };
        is_open
            && !word.text.starts_with('-')
            && self.meant(word, spots).is_none_or(|paths| paths.iter().any(is_option))
    }
}
