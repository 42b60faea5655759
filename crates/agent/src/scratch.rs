//! Folders for what commands put out, one for each session at work, where everybody may have some.
//!
//! Invariant: one that is in use is locked by its process; what is not locked any more was left by
//! one that was killed, and goes.

use std::fs;
use std::path::Path;
use std::time::Duration;

use files::Lock;

/// A folder of output that says nothing of its owner is somebody's for so long.
const YOUNG: Duration = Duration::from_secs(86_400);

/// What says that somebody uses a folder of output.
pub(crate) const LOCK: &str = "lock";

/// The name of a folder of output that nobody can guess, in a folder where everybody may write.
pub(crate) fn folder_name() -> String {
    format!("{PREFIX}{}", uuid::Uuid::new_v4().simple())
}

pub(crate) const PREFIX: &str = "quipu-";

/// Removes the folders of output beside one whose agents were killed.
pub(crate) fn sweep(own_folder: &Path) {
    let beside = own_folder.parent().and_then(|folder| fs::read_dir(folder).ok());
    for entry in beside.into_iter().flatten().flatten() {
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let is_ours = id.is_some_and(|id| id.len() == 32 && uuid::Uuid::try_parse(id).is_ok());
        let path = entry.path();
        // A link is none, and what others have made is theirs.
        let found =
            fs::symlink_metadata(&path).ok().filter(|found| found.is_dir() && is_mine(found));
        let Some(found) = found.filter(|_| is_ours && path != own_folder) else { continue };
        let lock = path.join(LOCK);
        let is_left = if lock.is_file() {
            matches!(files::try_lock(&lock, "swept"), Ok(Lock::Held(_)))
        } else {
            let age = found.modified().ok().and_then(|time| time.elapsed().ok());
            age.is_some_and(|age| age > YOUNG)
        };
        if is_left {
            // What cannot be removed is there the next time.
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
