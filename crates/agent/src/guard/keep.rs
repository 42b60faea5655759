//! Files in a session's folders that later decide what programs do outside: which ones there are,
//! and that commands leave them as they were.
//!
//! Invariant: the walk is bounded, and the same before and after a command.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::sensitive::is_sensitive;

/// How many names are looked at, and how deep.
const MOST: usize = 3_000;
const DEEPEST: usize = 3;
/// The largest file of which a copy is taken.
const LONGEST: u64 = 1 << 20;
/// Folders whose content nobody obeys, or too many.
const SKIPPED: [&str; 6] = ["node_modules", "target", ".venv", "venv", "__pycache__", "dist"];
/// What git obeys in a repository, in a folder that may otherwise be written.
const OF_GIT: [&str; 5] = ["config", "config.worktree", "hooks", "info", "commondir"];
/// Settings of a repository that run nothing.
const HARMLESS: [&str; 7] = [
    "core.repositoryformatversion",
    "core.filemode",
    "core.bare",
    "core.logallrefupdates",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.symlinks",
];

/// What was there before a command.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    folders: Vec<PathBuf>,
    files: BTreeMap<PathBuf, Option<Vec<u8>>>,
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
        match self {
            Taken::Made(path) => {
                format!("`{}` was made by the command and taken away again", path.display())
            }
            Taken::Changed(path) => {
                format!("`{}` was changed by the command and put back", path.display())
            }
        }
    }
}

/// The sensitive files and folders of a session's folder that exist.
pub(crate) fn sensitive_in(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![(folder.to_owned(), 0)];
    let mut count = 0;
    while let Some((inner, depth)) = todo.pop() {
        for entry in fs::read_dir(&inner).into_iter().flatten().flatten() {
            count += 1;
            if count > MOST {
                return found;
            }
            let (name, path) = (entry.file_name(), entry.path());
            let Ok(kind) = entry.file_type() else { continue };
            let Ok(below) = path.strip_prefix(folder) else { continue };
            if name == ".git" && kind.is_dir() {
                found.extend(of_repository(&path));
            } else if is_sensitive(folder, below, None) {
                // A link cannot be mounted over; where it leads is outside, or sensitive itself.
                if !kind.is_symlink() {
                    found.push(path);
                }
            } else if kind.is_dir()
                && depth < DEEPEST
                && !SKIPPED.iter().any(|skipped| name == *skipped)
            {
                todo.push((path, depth + 1));
            }
        }
    }
    found
}

/// What git obeys in a repository's folder.
pub(crate) fn of_repository(git: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        OF_GIT.iter().map(|name| git.join(name)).filter(|path| path.exists()).collect();
    for module in fs::read_dir(git.join("modules")).into_iter().flatten().flatten().take(100) {
        found.extend(of_repository(&module.path()));
    }
    found
}

/// The repository's folder of a worktree, if it names the worktree as its own.
pub(crate) fn worktree_of(folder: &Path) -> Option<PathBuf> {
    let text = files::read_text(folder.join(".git"), 4_096).ok()?;
    let entry = fs::canonicalize(text.strip_prefix("gitdir:")?.trim()).ok()?;
    let back = files::read_text(entry.join("gitdir"), 4_096).ok()?;
    let is_mine =
        fs::canonicalize(back.trim()).ok()? == fs::canonicalize(folder.join(".git")).ok()?;
    let git = entry.parent()?.parent()?;
    let is_git =
        git.file_name()? == ".git" && git.join("objects").is_dir() && git.join("HEAD").is_file();
    (is_mine && is_git).then(|| git.to_owned())
}

/// Takes copies of what sensitive files contain.
pub(crate) fn keep(folders: &[PathBuf]) -> Kept {
    let found = folders.iter().flat_map(|folder| sensitive_in(folder));
    let files = found.flat_map(|path| leaves(&path)).map(|path| (path.clone(), content(&path)));
    Kept { folders: folders.to_vec(), files: files.collect() }
}

/// The files at or below a path.
fn leaves(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() || path.is_symlink() {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten().take(200);
    entries.flat_map(|entry| leaves(&entry.path())).take(MOST).collect()
}

fn content(path: &Path) -> Option<Vec<u8>> {
    let found = fs::symlink_metadata(path).ok()?;
    (found.is_file() && found.len() <= LONGEST).then(|| files::read(path, LONGEST).ok()).flatten()
}

impl Kept {
    /// Puts back what was changed, and takes away what was made.
    pub(crate) fn restore(&self) -> Vec<Taken> {
        let mut taken = Vec::new();
        for (path, before) in &self.files {
            if let Some(before) = before
                && content(path).as_ref() != Some(before)
                && put_back(path, before)
            {
                taken.push(Taken::Changed(path.clone()));
            }
        }
        for folder in &self.folders {
            for path in sensitive_in(folder).iter().flat_map(|path| leaves(path)) {
                let is_new = !self.files.contains_key(&path);
                if is_new && !is_harmless(&path) && fs::remove_file(&path).is_ok() {
                    taken.push(Taken::Made(path));
                }
            }
        }
        taken
    }
}

fn put_back(path: &Path, before: &[u8]) -> bool {
    // What stands in its place may be a link, or a folder.
    if let Ok(found) = fs::symlink_metadata(path) {
        let _ = if found.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    }
    path.parent().is_some_and(|folder| fs::create_dir_all(folder).is_ok())
        && files::put(path, before, files::Durability::Process).is_ok()
}

/// Whether a new file is one that `git init` or `git clone` makes, and runs nothing.
fn is_harmless(path: &Path) -> bool {
    let names: Vec<String> = path.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    if !names.iter().any(|name| name == ".git") {
        return false;
    }
    let name = names.last().map(String::as_str).unwrap_or_default();
    match name {
        "config" => {
            content(path).is_some_and(|text| is_harmless_config(&String::from_utf8_lossy(&text)))
        }
        "exclude" | "commondir" => true,
        _ => name.ends_with(".sample"),
    }
}

/// Whether a configuration of git runs nothing.
fn is_harmless_config(text: &str) -> bool {
    let mut section = String::new();
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with(['#', ';']))
        .all(|line| {
            if let Some(head) = line.strip_prefix('[') {
                let name = head.trim_end_matches(']').split_whitespace().next().unwrap_or_default();
                section = name.to_ascii_lowercase();
                return line.ends_with(']')
                    && matches!(
                        section.as_str(),
                        "core" | "remote" | "branch" | "user" | "init" | "extensions"
                    );
            }
            let (key, value) = line.split_once('=').unwrap_or((line, ""));
            let key = key.trim().to_ascii_lowercase();
            let is_address = !value.contains("ext::") && !value.trim_start().starts_with('-');
            match section.as_str() {
                "core" => HARMLESS.contains(&format!("core.{key}").as_str()),
                "remote" => matches!(key.as_str(), "url" | "fetch" | "pushurl") && is_address,
                "branch" => {
                    matches!(key.as_str(), "remote" | "merge" | "rebase" | "vscode-merge-base")
                }
                "user" => matches!(key.as_str(), "name" | "email"),
                "init" => key == "defaultbranch",
                "extensions" => matches!(key.as_str(), "objectformat" | "refstorage"),
                _ => false,
            }
        })
}
