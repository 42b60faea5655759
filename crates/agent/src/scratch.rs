//! Folders for the output of commands, one for each running session, in a place where every user
//! may write.
//!
//! Invariant: a folder in use is locked by its process; a folder that is no longer locked was left
//! by a process that was killed, and is removed.

use std::fs;
use std::path::Path;
use std::time::Duration;

use files::Lock;

/// How long a folder without a lock file counts as in use.
const YOUNG: Duration = Duration::from_secs(86_400);

/// The name of the lock file in a folder in use.
pub(crate) const LOCK: &str = "lock";

/// A name that cannot be guessed, for a folder in a place where every user may write.
pub(crate) fn folder_name() -> String {
    format!("{PREFIX}{}", uuid::Uuid::new_v4().simple())
}

pub(crate) const PREFIX: &str = "quipu-";

/// Removes the folders next to this one whose agents were killed.
pub(crate) fn sweep(own_folder: &Path) {
    let beside = own_folder.parent().and_then(|folder| fs::read_dir(folder).ok());
    for entry in beside.into_iter().flatten().flatten() {
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let is_ours = id.is_some_and(|id| id.len() == 32 && uuid::Uuid::try_parse(id).is_ok());
        if !is_ours {
            continue;
        }
        let path = entry.path();
        // A link is not such a folder, and folders of other users are theirs.
        let found =
            fs::symlink_metadata(&path).ok().filter(|found| found.is_dir() && is_mine(found));
        let Some(found) = found.filter(|_| path != own_folder) else { continue };
        let lock = path.join(LOCK);
        // Whoever holds the lock writes its name into it. An empty one may have been made just now,
        // by a process that is about to take it.
        let has_owner = fs::symlink_metadata(&lock).is_ok_and(|it| it.is_file() && it.len() > 0);
        let is_left = if has_owner {
            matches!(files::try_lock(&lock, "swept"), Ok(Lock::Held(_)))
        } else {
            let age = found.modified().ok().and_then(|time| time.elapsed().ok());
            age.is_some_and(|age| age > YOUNG)
        };
        if is_left {
            // What cannot be removed is tried again the next time.
            let _ = fs::remove_dir_all(&path);
        }
    }
}

#[cfg(unix)]
fn is_mine(found: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    found.uid() == rustix::process::geteuid().as_raw()
}

#[cfg(not(unix))]
fn is_mine(_: &fs::Metadata) -> bool {
    true
}

#[cfg(test)]
#[path = "scratch_tests.rs"]
mod tests;
