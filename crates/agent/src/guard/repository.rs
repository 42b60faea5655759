//! What git obeys in a repository, and which configurations run nothing.
//!
//! Invariant: what git could read in another way than this does is not harmless.

use std::fs;
use std::path::{Path, PathBuf};

/// What git obeys in a repository, in a folder that may otherwise be written.
const OF_GIT: [&str; 5] = ["config", "config.worktree", "hooks", "info", "commondir"];
/// What it obeys in the folder of a worktree in there.
const OF_WORKTREE: [&str; 3] = ["commondir", "config.worktree", "gitdir"];
/// How many folders are looked at for submodules, and how deep their names may be.
const MOST: usize = 20_000;
const DEEPEST: usize = 20;
/// Where git keeps what it does next in a rebase, which may be commands.
const STEPS: &str = "rebase-merge/git-rebase-todo";
/// The largest configuration that is read.
const LONGEST: u64 = 1 << 20;
/// The largest index that is read.
const LARGEST_INDEX: u64 = 1 << 26;
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

/// What git obeys in a repository's folder, as far as it exists.
pub(crate) fn obeyed(git: &Path) -> Vec<PathBuf> {
    let of = |folder: &Path, names: &[&str]| -> Vec<PathBuf> {
        let paths = names.iter().map(|name| folder.join(name));
        paths.filter(|path| path.symlink_metadata().is_ok()).collect()
    };
    let mut found = of(git, &OF_GIT);
    found.extend(linked_hooks(git));
    found.extend(named(git));
    let steps = |git: &Path| Some(git.join(STEPS)).filter(|steps| runs_commands(steps));
    found.extend(steps(git));
    for worktree in folders(&git.join("worktrees")) {
        found.extend(of(&worktree, &OF_WORKTREE));
        found.extend(steps(&worktree));
    }
    // The name of a submodule may contain slashes.
    let mut todo = vec![(git.join("modules"), 0)];
    let mut count = 0;
    while let Some((folder, depth)) = todo.pop() {
        for inner in folders(&folder) {
            count += 1;
            if count > MOST {
                return found;
            }
            if inner.join("HEAD").symlink_metadata().is_ok() {
                found.extend(of(&inner, &OF_GIT));
                todo.push((inner.join("modules"), 0));
            } else if depth < DEEPEST {
                todo.push((inner, depth + 1));
            }
        }
    }
    found
}

/// Where hooks of a repository that are links lead in it.
fn linked_hooks(git: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(git.join("hooks")).into_iter().flatten().flatten();
    let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    let Some(root) = git.parent().and_then(|root| fs::canonicalize(root).ok()) else {
        return Vec::new();
    };
    let files = links.filter_map(|entry| fs::canonicalize(entry.path()).ok());
    files.filter(|path| path.starts_with(&root) && path.is_file()).collect()
}

/// The links on the way to a path below a folder.
fn links_to(path: &Path, root: &Path) -> Vec<PathBuf> {
    let above = path.ancestors().take_while(|above| above.starts_with(root) && *above != root);
    above.filter(|above| above.is_symlink()).map(Path::to_owned).collect()
}

/// Hooks and further configurations in the repository that its configuration names, and links on
/// the way to them.
fn named(git: &Path) -> Vec<PathBuf> {
    let Ok(text) = files::read_text(git.join("config"), LONGEST) else { return Vec::new() };
    let Some(root) = git.parent() else { return Vec::new() };
    let paths = text.lines().filter_map(|line| {
        let (key, value) = line.split_once('=')?;
        let key = key.rsplit(']').next().unwrap_or(key).trim();
        let around = match key.to_ascii_lowercase().as_str() {
            "hookspath" => root,
            "path" => git,
            _ => return None,
        };
        // A remark may follow.
        let plain = value.split(['#', ';']).next().unwrap_or_default();
        let both = [value, plain].map(|value| around.join(value.trim().trim_matches('"')));
        Some(both)
    });
    let mut found = Vec::new();
    for path in paths.flatten() {
        for path in links_to(&path, root).into_iter().chain(fs::canonicalize(path)) {
            let is_inside = path.starts_with(root) && path != root && !git.starts_with(&path);
            if is_inside && !found.contains(&path) {
                found.push(path);
            }
        }
    }
    found
}

/// Whether a list of steps of a rebase runs commands.
fn runs_commands(steps: &Path) -> bool {
    let Ok(found) = steps.symlink_metadata() else { return false };
    let is_command = |line: &str| matches!(line.split_whitespace().next(), Some("x" | "exec"));
    // What cannot be read is not known to be harmless.
    !found.is_file()
        || files::read_text(steps, LONGEST).is_ok_and(|text| text.lines().any(is_command))
        || found.len() > LONGEST
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries.filter(is_folder).map(|entry| entry.path()).collect()
}

/// The repository's folder of a worktree, if it names the worktree as its own.
pub(crate) fn of_worktree(folder: &Path) -> Option<PathBuf> {
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

/// Whether git runs nothing in a folder because of what is in the repository around it. Of the one
/// that the user trusts, that does not matter.
pub(crate) fn runs_nothing(folder: &Path, trusted: Option<&Path>) -> bool {
    for above in folder.ancestors() {
        let git = above.join(".git");
        let is_there = git.symlink_metadata().is_ok();
        if is_there && trusted == Some(above) {
            return true;
        }
        let is_bare = is_git(above);
        if (is_there && !is_quiet(&git)) || (is_bare && !is_quiet(above)) {
            return false;
        }
        // Past a `.git` that is no repository, git goes on.
        if is_bare || git.is_file() || is_git(&git) {
            return true;
        }
    }
    true
}

/// Whether git takes a folder for that of a repository.
fn is_git(folder: &Path) -> bool {
    let has = |name: &str| folder.join(name).symlink_metadata().is_ok();
    has("HEAD") && ((has("objects") && has("refs")) || has("commondir"))
}

/// Whether a repository, by its folder or the file that names it, has no settings and no hooks that
/// run anything, and contains no other repository.
fn is_quiet(git: &Path) -> bool {
    let linked = |path: &Path, prefix: &str| {
        let text = files::read_text(path, 4_096).ok()?;
        Some(path.parent()?.join(text.strip_prefix(prefix)?.trim()))
    };
    let folder = if git.is_dir() { Some(git.to_owned()) } else { linked(git, "gitdir:") };
    let Some(folder) = folder else { return false };
    let common = folder.join("commondir");
    let common = if common.symlink_metadata().is_ok() { linked(&common, "") } else { None };
    let common = common.unwrap_or_else(|| folder.clone());
    let is_missing = |path: &Path| path.symlink_metadata().is_err();
    let is_plain = |path: PathBuf| {
        let text = files::read_text(&path, LONGEST);
        is_missing(&path) || text.is_ok_and(|text| is_harmless_config(&text))
    };
    let entries = fs::read_dir(common.join("hooks")).into_iter().flatten().flatten();
    let mut hooks = entries.map(|entry| entry.file_name());
    let index = folder.join("index");
    // The mode of an entry that is a repository itself.
    let holds = |index: &[u8]| index.windows(4).any(|bytes| bytes == [0, 0, 0xe0, 0]);
    is_plain(common.join("config"))
        && is_plain(folder.join("config.worktree"))
        && hooks.all(|name| name.as_encoded_bytes().ends_with(b".sample"))
        && (is_missing(&index)
            || files::read(&index, LARGEST_INDEX).is_ok_and(|index| !holds(&index)))
}

/// Whether a new file is one that `git init` or `git clone` makes, and runs nothing.
pub(crate) fn is_harmless(path: &Path) -> bool {
    let is_file = path.symlink_metadata().is_ok_and(|found| found.is_file());
    if !is_file || !path.iter().any(|name| name == ".git") {
        return false;
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match &*name {
        "config" => files::read_text(path, LONGEST).is_ok_and(|text| is_harmless_config(&text)),
        "exclude" => path.parent().is_some_and(|folder| folder.ends_with("info")),
        _ => name.ends_with(".sample"),
    }
}

/// Whether a configuration of git runs nothing.
fn is_harmless_config(text: &str) -> bool {
    let mut section = None;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.filter(|line| !line.starts_with(['#', ';'])).all(|line| {
        if line.starts_with('[') {
            section = section_of(line);
            return section.is_some();
        }
        // A value may go on in the next line; then that line is not what it seems.
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
        let is_plain = !value.contains(['\\', '"', '\0']);
        let is_address = !value.contains("::") && !value.starts_with('-');
        is_plain
            && match section.as_deref() {
                Some("core") => HARMLESS.contains(&format!("core.{key}").as_str()),
                Some("remote") => matches!(key.as_str(), "url" | "fetch" | "pushurl") && is_address,
                Some("branch") => {
                    matches!(key.as_str(), "remote" | "merge" | "rebase" | "vscode-merge-base")
                        && is_address
                }
                Some("user") => matches!(key.as_str(), "name" | "email"),
                Some("init") => key == "defaultbranch",
                Some("extensions") => matches!(key.as_str(), "objectformat" | "refstorage"),
                _ => false,
            }
    })
}

/// The name of a section that can be harmless. Nothing may follow its head: git reads `[a "b"]c=d`
/// as a section and a setting.
fn section_of(line: &str) -> Option<String> {
    let head = line.strip_prefix('[')?.strip_suffix(']')?;
    let (name, rest) = head.split_once(' ').unwrap_or((head, ""));
    let rest = rest.trim();
    let inner = rest.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let is_named = rest.is_empty() || inner.is_some_and(|inner| !inner.contains(['"', '\\', ']']));
    let name = name.to_ascii_lowercase();
    let is_known =
        matches!(name.as_str(), "core" | "remote" | "branch" | "user" | "init" | "extensions");
    (is_known && is_named).then_some(name)
}

#[cfg(test)]
#[path = "repository_tests.rs"]
mod tests;
