//! What was typed and not sent: kept in a file until it is sent, offered again after a crash.
//!
//! Invariant: each console keeps its own draft; that of one that still runs is not taken from it.

use std::fs;
use std::path::{Path, PathBuf};

use transcript::conversation::place::slug;

/// The longest draft that is read.
const LONGEST: u64 = 8 << 20;

/// Where drafts of a project are kept, and which one is this console's.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    folder: PathBuf,
    /// How the names of the project's drafts begin; the number of a process follows.
    start: String,
}

impl Draft {
    pub(super) fn of(folder: &Path, project: &str) -> Draft {
        Draft { folder: folder.to_owned(), start: format!("chat-{}.", slug(project)) }
    }

    fn file(&self) -> PathBuf {
        self.folder.join(format!("{}{}.txt", self.start, std::process::id()))
    }

    /// Keeps a draft. An empty one is forgotten.
    pub(super) fn keep(&self, text: &str) {
        if text.is_empty() {
            // Nothing was kept, or it stays: it is offered again.
            let _ = fs::remove_file(self.file());
        } else {
            // Without it a draft is lost in a crash: no reason to disturb.
            let _ = files::put(&self.file(), text.as_bytes(), files::Durability::Process);
        }
    }

    /// The newest draft of consoles that have ended; it is this one's from now on.
    pub(super) fn take_over(&self) -> Option<String> {
        let entries = fs::read_dir(&self.folder).ok()?.flatten();
        let left = entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let process = name.strip_prefix(&self.start)?.strip_suffix(".txt")?;
            let is_left = process.parse().is_ok_and(|number| !runs(number));
            is_left.then(|| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))?
        });
        let (_, path) = left.max()?;
        let text = files::read_text(&path, LONGEST).ok().filter(|text| !text.is_empty());
        let text = text?;
        self.keep(&text);
        if path != self.file() {
            let _ = fs::remove_file(path);
        }
        Some(text)
    }
}

/// Whether another process of that number runs.
#[cfg(unix)]
fn runs(number: i32) -> bool {
    let is_this = u32::try_from(number).is_ok_and(|number| number == std::process::id());
    let process = rustix::process::Pid::from_raw(number).filter(|_| !is_this);
    let found = process.map(rustix::process::test_kill_process);
    // One that may not be asked runs.
    found.is_some_and(|found| found != Err(rustix::io::Errno::SRCH))
}

#[cfg(not(unix))]
fn runs(_: i32) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_writes_any_more_is_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let draft = Draft::of(folder.path(), "/x");
        assert_eq!(draft.take_over(), None);
        let path = |process: u32| folder.path().join(format!("chat--x.{process}.txt"));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let put = |path: &Path, text: &str| {
            files::put(path, text.as_bytes(), files::Durability::Process).unwrap();
        };
        put(&path(child.id()), "somebody is writing this");
        assert_eq!(draft.take_over(), None);
        put(&folder.path().join("chat--x-y.1.txt"), "of another project");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(draft.take_over().as_deref(), Some("somebody is writing this"));
        assert!(!path(child.id()).exists() && path(std::process::id()).exists());
        draft.keep("");
        assert_eq!(draft.take_over(), None);
    }
}
