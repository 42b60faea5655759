//! The variables that commands see.
//!
//! Invariants: no command sees a key of the API, or a proxy's password; `PATH` is that of the
//! user's own shell, asked once, together with what whoever started the program has added.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use crate::secret;

/// How long the first command waits for the user's shell.
const PATIENCE: Duration = Duration::from_secs(6);
/// Folders that are in every `PATH`, so that nobody has put them there on purpose.
const USUAL: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// What changes what a shell makes of the text of a command: it was judged without that.
const MISLEADING: [&str; 4] = ["BASHOPTS", "CDPATH", "GLOBIGNORE", "SHELLOPTS"];

/// The user's shell, their home, and variables that say who they are.
type UserShell = (PathBuf, PathBuf, Vec<(String, String)>);

/// The `PATH` of the user's own shell, which is asked while other things happen.
#[derive(Debug, Default)]
pub(crate) struct UserPath {
    /// The shell, until it is asked.
    shell: Mutex<Option<UserShell>>,
    coming: Mutex<Option<Receiver<Option<OsString>>>>,
    known: OnceLock<Option<OsString>>,
}

impl UserPath {
    /// That of this shell. `variables` say who the user is.
    pub(crate) fn of(shell: PathBuf, home: PathBuf, variables: Vec<(String, String)>) -> UserPath {
        UserPath { shell: Mutex::new(Some((shell, home, variables))), ..UserPath::default() }
    }

    /// Asks the shell, unless that has happened.
    pub(crate) fn ask(&self) {
        let mut shell = self.shell.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((shell, home, variables)) = shell.take() else { return };
        let (sender, coming) = channel();
        *self.coming.lock().unwrap_or_else(PoisonError::into_inner) = Some(coming);
        thread::spawn(move || {
            // Nobody may want it any more.
            let _ = sender.send(sandbox::user_path(&shell, &home, &variables));
        });
    }

    fn get(&self) -> Option<&OsStr> {
        self.ask();
        let known = self.known.get_or_init(|| {
            let coming = self.coming.lock().unwrap_or_else(PoisonError::into_inner).take();
            coming.and_then(|coming| coming.recv_timeout(PATIENCE).ok().flatten())
        });
        known.as_deref()
    }
}

/// All variables of a command: those of this program, with these set and these removed.
pub(crate) fn of_command(
    settings: &[(String, String)],
    set: Vec<(OsString, OsString)>,
    removed: &[String],
    path: &UserPath,
) -> Vec<(OsString, OsString)> {
    let mut all: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    if let Some(users) = path.get() {
        let inherited = all.get(OsStr::new("PATH")).cloned().unwrap_or_default();
        all.insert("PATH".into(), joined(&inherited, users));
    }
    let is_open = |(name, value): &&(String, String)| !secret::is_secret(name, value);
    for (name, value) in settings.iter().filter(is_open) {
        all.insert(name.into(), value.into());
    }
    all.extend(set);
    for name in secret::NAMES.into_iter().chain([secret::HANDOVER]) {
        all.remove(OsStr::new(name));
    }
    for name in MISLEADING {
        all.remove(OsStr::new(name));
    }
    for name in removed {
        all.remove(OsStr::new(name));
    }
    // Proxies whose address contains a password; one that the settings give without a password
    // stays.
    for name in secret::PROXIES {
        let value = all.get(OsStr::new(name));
        if value.is_some_and(|value| secret::is_secret(name, &value.to_string_lossy())) {
            all.remove(OsStr::new(name));
        }
    }
    all.into_iter().collect()
}

/// What was added on purpose comes first, then what the user's shell has, then the rest.
fn joined(inherited: &OsStr, users: &OsStr) -> OsString {
    let users: Vec<PathBuf> = std::env::split_paths(users).collect();
    let is_new = |folder: &PathBuf| !users.contains(folder);
    let is_usual = |folder: &PathBuf| USUAL.iter().any(|usual| folder == Path::new(usual));
    let (usual, added): (Vec<PathBuf>, Vec<PathBuf>) =
        std::env::split_paths(inherited).filter(is_new).partition(is_usual);
    let all = added.iter().chain(&users).chain(&usual);
    std::env::join_paths(all).unwrap_or_else(|_| inherited.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_on_purpose_comes_first() {
        let path = joined(OsStr::new("/venv/bin:/usr/bin:/bin"), OsStr::new("/nvm/bin:/usr/bin"));
        assert_eq!(path, "/venv/bin:/nvm/bin:/usr/bin:/bin");
        let same = joined(OsStr::new("/a:/usr/bin"), OsStr::new("/a:/usr/bin"));
        assert_eq!(same, "/a:/usr/bin");
    }
}
