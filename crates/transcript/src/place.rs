//! Where sessions stand, and what stands beside them.
//!
//! A *home* is the client's config folder; under `projects` it has a folder for each working directory,
//! named by [`slug()`], and in it a file for each session. The folder name cannot be turned back into a
//! path: the working directory of a session is what its records say. Invariants: nothing is written;
//! a folder that cannot be read holds nothing, and [`Home::unreadable`] names it; what is no regular file is
//! no session, and [`Listed`] names it; below a project's folder symbolic links to folders are not followed.

mod name;
mod side;
mod slug;

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use thiserror::Error;

pub use name::{Candidates, NameError, find, is_path};
pub use side::{Agent, Belonging, Beside, Thing, agents, agents_among, belongings};
pub use slug::{slug, slug_uncut};

use crate::file::Lines;
use crate::json::Json;
use crate::limit::{GLANCE_HEAD, SIDECAR};

/// How long the client keeps sessions if its settings do not say.
pub const CLEANUP_DAYS: u32 = 30;

/// One config folder of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// The folder.
    pub root: PathBuf,
}

/// The file of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its id: the file's name without the ending.
    pub id: String,
    /// The file.
    pub path: PathBuf,
    /// The name of the folder it is in: the project's slug.
    pub project: String,
    /// Size in bytes.
    pub size: u64,
    /// When it was last written: what the client goes by, for `--continue` and for cleaning up.
    pub modified: SystemTime,
}

impl Session {
    /// The session in a file, wherever that is. Only a regular file can be one.
    pub fn at(path: &Path) -> io::Result<Self> {
        let metadata = files::metadata(path)?;
        // What belongs to a session is found through the folders around it.
        let path = &std::path::absolute(path)?;
        let name = |part: Option<&std::ffi::OsStr>| {
            part.map(|part| part.to_string_lossy().into_owned()).unwrap_or_default()
        };
        Ok(Session {
            id: name(path.file_stem()),
            path: path.to_owned(),
            project: name(path.parent().and_then(Path::file_name)),
            size: metadata.len(),
            modified: metadata.modified()?,
        })
    }

    /// The folder of the same name, which holds sub-agents and large results.
    pub fn folder(&self) -> PathBuf {
        self.path.with_extension("")
    }
}

/// Why a folder is no home that can be used.
#[derive(Debug, Error)]
pub enum HomeError {
    /// There are no sessions' folders in it.
    #[error("`{}` is no Claude home", root.display())]
    Missing {
        /// The folder.
        root: PathBuf,
    },
    /// They are there, but cannot be read.
    #[error("cannot read `{}`", path.display())]
    Unreadable {
        /// What cannot be read.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The sessions in a folder, and what has the name of one there but cannot be read as one.
#[derive(Debug, Default)]
pub struct Listed {
    /// The sessions.
    pub sessions: Vec<Session>,
    /// Pipes, devices, loops of links; each with why it is no session.
    pub unreadable: Vec<(PathBuf, io::Error)>,
}

impl Listed {
    /// Adds what is in another folder.
    pub fn merge(&mut self, other: Listed) {
        self.sessions.extend(other.sessions);
        self.unreadable.extend(other.unreadable);
    }
}

impl Home {
    /// The home in that folder.
    pub fn open(root: &Path) -> Result<Home, HomeError> {
        let mut found = None;
        for path in ["projects", "conversations"].map(|name| root.join(name)) {
            // Of a link that leads nowhere it is known that there should be something.
            let seen = fs::symlink_metadata(&path);
            match seen.and_then(|_| fs::read_dir(&path)) {
                Ok(_) => found = Some(Home { root: root.to_owned() }),
                Err(_) if is_absent(&path) => {}
                Err(source) => return Err(HomeError::Unreadable { path, source }),
            }
        }
        found.ok_or_else(|| HomeError::Missing { root: root.to_owned() })
    }

    /// Where homes are if nobody says otherwise.
    pub fn usual(user: &Path) -> [PathBuf; 2] {
        [user.join(".claude"), user.join(".config").join("claude")]
    }

    /// The folders of the projects; `conversations` is where seed 000 has them.
    ///
    /// A link to a folder counts, once: people move projects to other disks.
    pub fn projects(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut real = HashSet::new();
        for name in ["projects", "conversations"] {
            let inside = listing(&self.root.join(name));
            let links = inside.files.into_iter().filter(|path| path.is_dir());
            for folder in inside.folders.into_iter().chain(links) {
                if real.insert(fs::canonicalize(&folder).unwrap_or_else(|_| folder.clone())) {
                    found.push(folder);
                }
            }
        }
        found
    }

    /// The projects' folders that cannot be read, so that their sessions are missing everywhere.
    pub fn unreadable(&self) -> Vec<PathBuf> {
        self.projects().into_iter().filter(|folder| fs::read_dir(folder).is_err()).collect()
    }

    /// All sessions, in no order. Sub-agents' files are not sessions.
    pub fn sessions(&self) -> Vec<Session> {
        self.list().sessions
    }

    /// The same, with what cannot be read.
    pub fn list(&self) -> Listed {
        let mut all = Listed::default();
        for project in self.projects() {
            all.merge(list(&project));
        }
        all
    }

    /// All transcripts, sub-agents' included, by path.
    pub fn transcripts(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for project in self.projects() {
            let inside = files_under(std::slice::from_ref(&project)).into_iter().filter(|path| {
                let below = path.strip_prefix(&project).unwrap_or(path);
                let mut parts = below.components();
                parts.clone().count() == 1 || parts.any(|part| part.as_os_str() == "subagents")
            });
            found.extend(inside);
        }
        found
    }

    /// After how many days without a change the client deletes a session.
    pub fn cleanup_days(&self) -> io::Result<u32> {
        let bytes = match files::read(self.settings(), SIDECAR) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(CLEANUP_DAYS),
            read => read?,
        };
        let named = || Json::parse(&bytes)?.get("cleanupPeriodDays")?.integer();
        Ok(named().and_then(|days| u32::try_from(days).ok()).unwrap_or(CLEANUP_DAYS))
    }

    /// The user's settings for the client.
    pub fn settings(&self) -> PathBuf {
        self.root.join("settings.json")
    }
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

/// The same, with what cannot be read.
pub fn list(project: &Path) -> Listed {
    let mut all = Listed::default();
    let files = listing(project).files.into_iter();
    for path in files.filter(|path| is_jsonl(path) && !is_agent(path)) {
        match Session::at(&path) {
            Ok(session) => all.sessions.push(session),
            // It went while we looked, or is a link to what went.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => all.unreadable.push((path, error)),
        }
    }
    all
}

/// All transcripts in a folder and the folders in it, sorted by path: what has the right ending, is
/// none of the client's other files, and holds records.
pub fn transcripts_under(folder: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(folder)?;
    let mut found = files_under(&[folder.to_owned()]);
    found.retain(|path| is_transcript(path));
    Ok(found)
}

/// All files in these folders and the folders in them that have the right ending, by path.
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

/// Whether a file holds records of a session. Not so: the prompt history, the output of the client's
/// `stream-json` mode, other programs' lines. An empty or unreadable file may be one.
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

/// Whether a file can be a transcript, by its name.
pub fn is_jsonl(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "jsonl")
}

/// Whether a file is a sub-agent's, by its name.
pub fn is_agent(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("agent-"))
}

/// What is in a folder; nothing if it cannot be read.
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
            // A link is as good as the file, but is never a folder to look into.
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
