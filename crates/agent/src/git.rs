//! What a folder's repository says, read from its files: no process is started for it.

use std::path::{Path, PathBuf};

/// So long is a file that names a folder or a branch.
const LONGEST: u64 = 1 << 16;

/// The folder `.git` that a folder belongs to.
fn folder(cwd: &Path) -> Option<PathBuf> {
    let found = cwd.ancestors().map(|above| above.join(".git")).find(|git| git.exists())?;
    if found.is_dir() {
        return Some(found);
    }
    // Of a worktree, a file that names the folder.
    let text = files::read_text(&found, LONGEST).ok()?;
    let named = text.strip_prefix("gitdir:")?.trim();
    Some(found.parent()?.join(named))
}

/// Whether a folder lies in a repository.
pub(crate) fn is_repository(cwd: &Path) -> bool {
    folder(cwd).is_some()
}

/// The branch that a folder is on: `HEAD` if it is on none.
pub(crate) fn branch(cwd: &Path) -> Option<String> {
    let head = files::read_text(folder(cwd)?.join("HEAD"), LONGEST).ok()?;
    let name = head.trim().strip_prefix("ref: refs/heads/");
    Some(name.unwrap_or("HEAD").to_owned())
}
