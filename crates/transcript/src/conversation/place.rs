//! Where sessions are, and which files belong to them.
//!
//! A *home* is the client's config folder. Under `projects` it has a folder for each working
//! directory, named by [`slug()`], with a file for each session. The folder name cannot be
//! converted back into a path: the working directory of a session is in its records. Invariants:
//! nothing is written; a folder that cannot be read counts as empty, and [`Home::unreadable`] lists
//! it; only a regular file is a session, and [`Listed`] lists the others; below a project's folder,
//! symbolic links to folders are not followed.

mod belongings;
mod home_folders;
mod name;
mod secrets;
mod slug;

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use thiserror::Error;

pub use belongings::{
    Agent, Belonging, Beside, Thing, agents, agents_among, belongings, files_below,
};
pub use home_folders::{folder_around, for_session, home_of, is_record};
pub use name::{Candidates, NameError, find, is_path};
pub use secrets::{FoundSecrets, SeenKinds, find_secrets, obstacle, roots, secrets};
pub use slug::{slug, slug_uncut};

use crate::conversation::id::SessionId;
use crate::error::AtPath;
use crate::format::file::Lines;
use crate::format::json::Json;
use crate::format::limit::{GLANCE_HEAD, SIDECAR};

/// After how many days the client deletes sessions, unless its settings say otherwise.
pub const CLEANUP_DAYS: u32 = 30;

/// One config folder of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// The path of the folder.
    pub root: PathBuf,
}

/// The file of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its id: the file name without the extension.
    pub id: SessionId,
    /// The path of the file.
    pub path: PathBuf,
    /// The name of the folder it is in: the project's slug.
    pub project: String,
    /// Its size in bytes.
    pub size: u64,
    /// When it was last modified. The client uses this for `--continue` and for deleting old
    /// sessions.
    pub modified: SystemTime,
}

impl Session {
    /// The session in a file, wherever that is. Only a regular file can be a session.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("0a1b2c3d.jsonl");
    /// # let line = r#"{"type":"user","uuid":"a","message":{"role":"user","content":"hello"}}"#;
    /// # std::fs::write(&path, format!("{line}\n"))?;
    /// let session = transcript::Session::at(&path)?;
    /// assert_eq!((session.id.as_str(), session.size), ("0a1b2c3d", 71));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn at(path: &Path) -> crate::Result<Self> {
        let metadata = files::metadata(path).at(path)?;
        // The files that belong to a session are found through the folders around it.
        let path = &std::path::absolute(path).at(path)?;
        let name = |part: Option<&std::ffi::OsStr>| {
            part.map(|part| part.to_string_lossy().into_owned()).unwrap_or_default()
        };
        Ok(Session {
            id: name(path.file_stem()).into(),
            path: path.to_owned(),
            project: name(path.parent().and_then(Path::file_name)),
            size: metadata.len(),
            modified: metadata.modified().at(path)?,
        })
    }

    /// The folder of the same name, which contains sub-agents and large results.
    pub fn folder(&self) -> PathBuf {
        self.path.with_extension("")
    }
}

/// Why a folder cannot be used as a home.
#[derive(Debug, Error)]
pub enum HomeError {
    /// It contains no folder with sessions.
    #[error("`{}` is not a Claude home", root.display())]
    Missing {
        /// The path of the folder.
        root: PathBuf,
    },
    /// It contains such a folder, which cannot be read.
    #[error("cannot read `{}`", path.display())]
    Unreadable {
        /// The path that cannot be read.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// The sessions in a folder, and the files there that are named like one but cannot be read as one.
#[derive(Debug, Default)]
pub struct Listed {
    /// The sessions.
    pub sessions: Vec<Session>,
    /// Pipes, devices, cycles of links; each with the reason why it is not a session.
    pub unreadable: Vec<crate::Error>,
}

impl Listed {
    /// Adds the contents of another folder.
    pub fn merge(&mut self, other: Listed) {
        self.sessions.extend(other.sessions);
        self.unreadable.extend(other.unreadable);
    }
}

impl Home {
    /// Opens the home in that folder.
    pub fn open(root: &Path) -> Result<Home, HomeError> {
        let mut found = None;
        for path in ["projects", "conversations"].map(|name| root.join(name)) {
            // A broken link shows that there should be something, so it is an error.
            let seen = fs::symlink_metadata(&path);
            match seen.and_then(|_| fs::read_dir(&path)) {
                Ok(_) => found = Some(Home { root: root.to_owned() }),
                Err(_) if is_absent(&path) => {}
                Err(source) => return Err(HomeError::Unreadable { path, source }),
            }
        }
        found.ok_or_else(|| HomeError::Missing { root: root.to_owned() })
    }

    /// The default locations of homes, given the user's home directory.
    pub fn usual(user: &Path) -> [PathBuf; 2] {
        [user.join(".claude"), user.join(".config").join("claude")]
    }

    /// The folders of the projects; the dialect `human` has them in `conversations`.
    ///
    /// A link to a folder counts too, once: users move projects to other disks.
    pub fn projects(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut real = HashSet::new();
        for name in ["projects", "conversations"] {
            let all = self.root.join(name);
            let inside = listing(&all);
            // Resolved once for all folders: with hundreds of projects, once for each takes longer
            // than a status line may.
            let all = fs::canonicalize(&all).unwrap_or(all);
            for folder in inside.folders {
                if real.insert(folder.file_name().map_or_else(|| folder.clone(), |n| all.join(n))) {
                    found.push(folder);
                }
            }
            for link in inside.files.into_iter().filter(|path| path.is_dir()) {
                if real.insert(fs::canonicalize(&link).unwrap_or_else(|_| link.clone())) {
                    found.push(link);
                }
            }
        }
        found
    }

    /// The folders of projects that cannot be read, so that their sessions are missing everywhere.
    pub fn unreadable(&self) -> Vec<PathBuf> {
        self.projects().into_iter().filter(|folder| fs::read_dir(folder).is_err()).collect()
    }

    /// All sessions, in no particular order. Sub-agents' files are not sessions.
    pub fn sessions(&self) -> Vec<Session> {
        self.list().sessions
    }

    /// Like [`Home::sessions`], with the files that cannot be read.
    pub fn list(&self) -> Listed {
        let mut all = Listed::default();
        for project in self.projects() {
            all.merge(list(&project));
        }
        all
    }

    /// All transcripts, including those of sub-agents, by path.
    pub fn transcripts(&self) -> Vec<PathBuf> {
        self.projects().iter().flat_map(|project| transcripts_of(project)).collect()
    }

    /// After how many days without a change the client deletes a session.
    pub fn cleanup_days(&self) -> crate::Result<u32> {
        let bytes = match files::read(self.settings(), SIDECAR) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(CLEANUP_DAYS),
            read => read.at(&self.settings())?,
        };
        let named = || Json::parse(&bytes)?.get("cleanupPeriodDays")?.integer();
        Ok(named().and_then(|days| u32::try_from(days).ok()).unwrap_or(CLEANUP_DAYS))
    }

    /// The path of the user's settings for the client.
    pub fn settings(&self) -> PathBuf {
        self.root.join("settings.json")
    }
}

/// All transcripts of a project, including those of sub-agents, by path.
pub fn transcripts_of(project: &Path) -> Vec<PathBuf> {
    let mut found = files_under(&[project.to_owned()]);
    found.retain(|path| {
        let mut parts = path.strip_prefix(project).unwrap_or(path).components();
        parts.clone().count() == 1 || parts.any(|part| part.as_os_str() == "subagents")
    });
    found
}

/// Whether nothing has that name, not even a link.
fn is_absent(path: &Path) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    let seen = fs::symlink_metadata(path);
    seen.is_err_and(|error| matches!(error.kind(), NotFound | NotADirectory))
}

/// The sessions in the folder of one project.
pub fn sessions_in(project: &Path) -> Vec<Session> {
    list(project).sessions
}

/// Like [`sessions_in`], with the files that cannot be read.
pub fn list(project: &Path) -> Listed {
    let mut all = Listed::default();
    let files = listing(project).files.into_iter();
    for path in files.filter(|path| is_jsonl(path) && !is_agent(path)) {
        match Session::at(&path) {
            Ok(session) => all.sessions.push(session),
            // It was deleted in the meantime, or is a broken link.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => all.unreadable.push(error),
        }
    }
    all
}

/// All transcripts in a folder and its subfolders, sorted by path: files that have the right
/// extension, are not other files of the client, and contain records.
pub fn transcripts_under(folder: &Path) -> crate::Result<Vec<PathBuf>> {
    fs::read_dir(folder).at(folder)?;
    let mut found = files_under(&[folder.to_owned()]);
    found.retain(|path| is_transcript(path));
    Ok(found)
}

/// All files in these folders and their subfolders that have the right extension, by path.
fn files_under(folders: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = folders.to_vec();
    while let Some(folder) = open.pop() {
        let inside = listing(&folder);
        open.extend(inside.folders);
        found.extend(inside.files.into_iter().filter(|path| is_jsonl(path)));
    }
    found.sort();
    found
}

/// Whether a file contains records of a session. The prompt history, the output of the client's
/// `stream-json` mode and files of other programs do not. An empty or unreadable file may be one.
pub fn is_transcript(path: &Path) -> bool {
    let Ok(file) = files::open(path) else { return true };
    let mut lines = Lines::new(file.take(GLANCE_HEAD as u64));
    let mut other = false;
    while let Ok(Some(line)) = lines.next_line() {
        for entry in line.records().filter_map(|record| record.entry) {
            if entry.is_of_transcript() {
                return true;
            }
            other = true;
        }
    }
    !other
}

/// The directory that a session belongs to: the first one in its records that its folder is named
/// after; if none is, the first one.
pub fn working_directory(session: &Session) -> crate::Result<Option<String>> {
    let mut lines =
        Lines::new(files::open(&session.path).at(&session.path)?.take(GLANCE_HEAD as u64));
    let mut first = None;
    while let Some(line) = lines.next_line().at(&session.path)? {
        for entry in line.records().filter_map(|record| record.entry) {
            let Some(cwd) = entry.text("cwd") else { continue };
            if slug(&cwd) == session.project || slug_uncut(&cwd) == session.project {
                return Ok(Some(cwd.into_owned()));
            }
            first.get_or_insert(cwd.into_owned());
        }
    }
    Ok(first)
}

/// Whether a file can be a transcript, by its name.
pub fn is_jsonl(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "jsonl")
}

/// Whether a file belongs to a sub-agent, by its name.
pub fn is_agent(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("agent-"))
}

/// A name with everything replaced that is not safe in a file name.
pub fn safe_name(name: &str) -> String {
    let kept = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let name: String = name.chars().map(|letter| if kept(letter) { letter } else { '_' }).collect();
    name.trim_start_matches('.').chars().take(120).collect()
}

/// The contents of a folder; empty if it cannot be read.
#[derive(Debug, Default)]
struct Listing {
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
}

fn listing(folder: &Path) -> Listing {
    let mut listing = Listing::default();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => listing.folders.push(entry.path()),
            // A link counts as a file, and is never followed as a folder.
            Ok(_) => listing.files.push(entry.path()),
            Err(_) => {}
        }
    }
    listing.files.sort();
    listing.folders.sort();
    listing
}

/// The bytes of a small file beside sessions.
fn sidecar(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    files::open(path).ok()?.take(SIDECAR).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
#[path = "place_tests.rs"]
mod tests;
