//! Whether another process is writing to a session.
//!
//! Invariant: what this program did to a session is no sign of another one, also if it did that a
//! moment ago.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use files::Protection;
use transcript::conversation::place::Session;

use crate::Workshop;
use crate::error::Error;

/// A file that was written to this recently may be written to again.
const RECENT: Duration = Duration::from_secs(10);

/// The maximum size of a client's file about a running session, in bytes.
const LONGEST: u64 = 1 << 20;

impl Workshop {
    /// Refuses to touch a session that seems to be in use.
    pub(crate) fn refuse_if_live(&self, session: &Session) -> Result<(), Error> {
        let recent = || {
            let why = "it was written to less than 10 seconds ago";
            self.is_recent(&session.path).then(|| why.to_owned())
        };
        match user(session).or_else(recent) {
            None => Ok(()),
            Some(why) => Err(Error::InUse { path: session.path.clone(), why }),
        }
    }

    /// Whether another program wrote to a file a moment ago.
    fn is_recent(&self, path: &Path) -> bool {
        // A time in the future is recent, too.
        let is_recent =
            |time: SystemTime| self.now.duration_since(time).unwrap_or_default() < RECENT;
        let modified = fs::metadata(path).and_then(|found| found.modified());
        if !modified.is_ok_and(is_recent) {
            return false;
        }
        // Without a journal, nobody knows who it was.
        let Ok(journal) = self.journal() else { return true };
        journal.written_by_others(path, self.now).is_some_and(is_recent)
    }
}

/// Refuses to replace a file that is protected.
pub(crate) fn refuse_if_protected(path: &Path) -> Result<(), Error> {
    match files::protection(path).map_err(Error::unreadable(path))? {
        None => Ok(()),
        Some(why) => Err(Error::Protected { path: path.to_owned(), why }),
    }
}

/// What protects a file from being replaced, in words.
pub fn words(found: &Protection) -> String {
    match found {
        Protection::HardLinked(names) => {
            format!("it has {names} names (hard links), and the others would keep the old contents")
        }
        Protection::ReadOnly => "it is write-protected".to_owned(),
        Protection::OtherOwner(user) => format!("it belongs to another user ({user})"),
    }
}

/// The process that uses a session, in words.
pub fn user(session: &Session) -> Option<String> {
    let named = named(session).map(|pid| format!("process {pid} is a client that uses it"));
    named.or_else(|| opened(&session.path).map(|pid| format!("process {pid} has it open")))
}

/// The process that uses this session, according to the client's own list of running sessions.
fn named(session: &Session) -> Option<u32> {
    let root = session.path.parent()?.parent()?.parent()?;
    for entry in fs::read_dir(root.join("sessions")).ok()?.flatten() {
        let path = entry.path();
        let Ok(bytes) = files::read(&path, LONGEST) else { continue };
        let Ok(found) = serde_json::from_slice::<serde_json::Value>(&bytes) else { continue };
        if found.get("sessionId").and_then(|id| id.as_str()) != Some(session.id.as_str()) {
            continue;
        }
        let pid = found.get("pid").and_then(serde_json::Value::as_u64);
        let stem = || path.file_stem()?.to_str()?.parse().ok();
        let pid = pid.and_then(|pid| u32::try_from(pid).ok()).or_else(stem);
        // Without `/proc`, the process counts as running.
        match pid {
            Some(pid)
                if Path::new("/proc/self").exists()
                    && !Path::new(&format!("/proc/{pid}")).exists() => {}
            pid => return pid.or(Some(0)),
        }
    }
    None
}

/// A process, other than this one, that has the file open.
fn opened(path: &Path) -> Option<u32> {
    let path = fs::canonicalize(path).ok()?;
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        if pid == std::process::id() {
            continue;
        }
        let files = fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        if files.filter_map(|file| fs::read_link(file.path()).ok()).any(|open| open == path) {
            return Some(pid);
        }
    }
    None
}
