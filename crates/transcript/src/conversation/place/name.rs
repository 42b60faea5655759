//! Finds a session by the name that the user gives.
//!
//! A path, an id, the beginning of an id, a title, a part of a title, a part of the first prompt,
//! the id of a sub-agent: tried in this order, and the first kind that matches anything decides. A
//! name that matches several sessions is an error that lists them: nothing is guessed.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::{Home, Listed, Session};
use crate::conversation::preview::preview;

/// The sessions that one name matches.
pub type Candidates = Vec<Session>;

/// Why a name does not lead to a session.
#[derive(Debug, Error)]
pub enum NameError {
    /// No session has that name.
    #[error("no session is named `{name}`")]
    NotFound {
        /// The name.
        name: String,
    },
    /// It is the name of a file that does not exist.
    #[error("there is no file `{name}`")]
    NoFile {
        /// The name.
        name: String,
    },
    /// It matches more than one session.
    #[error("`{name}` matches {} sessions", candidates.len())]
    Ambiguous {
        /// The name.
        name: String,
        /// The sessions, newest first.
        candidates: Candidates,
    },
    /// The file exists, but cannot be read.
    #[error("cannot read `{}`", path.display())]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// Whether a name can only be a path.
pub fn is_path(name: &str) -> bool {
    let is_jsonl = Path::new(name).extension().is_some_and(|ending| ending == "jsonl");
    is_jsonl || name.starts_with(['/', '.']) || Path::new(name).is_absolute()
}

/// Finds the session that a name refers to.
pub fn find(homes: &[Home], name: &str) -> Result<Session, NameError> {
    let path = Path::new(name);
    match Session::at(path) {
        Ok(session) => return Ok(session),
        Err(_) if path.is_dir() || is_no_path(path) => {}
        Err(error) => {
            let (path, source) = (path.to_owned(), error.into_io());
            return Err(NameError::Unreadable { path, source });
        }
    }
    let mut all = Listed::default();
    for home in homes {
        all.merge(home.list());
    }
    let Listed { mut sessions, unreadable } = all;
    sessions.sort_by_key(|session| std::cmp::Reverse(session.modified));
    let by_id: [&dyn Fn(&Session) -> bool; 2] = [&|session| session.id == name, &|session| {
        !name.is_empty() && session.id.starts_with(name)
    }];
    for fits in by_id {
        let found = sessions.iter().filter(|session| fits(session));
        if let Some(session) = only(name, found)? {
            return Ok(session);
        }
    }
    // Only now: this reads from every file. What fits is noted, and nothing else is held.
    let part = name.to_lowercase();
    let is_long = name.chars().count() >= SHORTEST_PART;
    let has_part = |text: Option<&String>| {
        is_long && text.is_some_and(|text| text.to_lowercase().contains(&part))
    };
    let fits: Vec<[bool; 3]> = sessions
        .iter()
        .map(|session| {
            let Ok(seen) = preview(&session.path) else { return [false; 3] };
            let is_title = seen.title.as_deref() == Some(name);
            [is_title, has_part(seen.title.as_ref()), has_part(seen.prompt.as_ref())]
        })
        .collect();
    for kind in 0..3 {
        let found = sessions.iter().zip(&fits).filter(|(_, fits)| fits[kind]);
        if let Some(session) = only(name, found.map(|(session, _)| session))? {
            return Ok(session);
        }
    }
    let agent = name.trim_start_matches("agent-");
    if agent.chars().count() >= SHORTEST_PART {
        let stem = format!("agent-{agent}");
        let is_agent = |path: &PathBuf| {
            path.file_stem().is_some_and(|name| name.to_string_lossy().starts_with(&stem))
        };
        let files = homes.iter().flat_map(Home::transcripts).filter(is_agent);
        let agents: Vec<Session> = files.filter_map(|path| Session::at(&path).ok()).collect();
        if let Some(session) = only(name, agents.iter())? {
            return Ok(session);
        }
    }
    let is_named = |path: &Path| {
        let id = path.file_stem().unwrap_or_default().to_string_lossy();
        !name.is_empty() && id.starts_with(name)
    };
    if let Some(error) = unreadable.into_iter().find(|error| error.path().is_some_and(is_named)) {
        let path = error.path().unwrap_or(path).to_owned();
        return Err(NameError::Unreadable { path, source: error.into_io() });
    }
    let name = name.to_owned();
    Err(if is_path(&name) { NameError::NoFile { name } } else { NameError::NotFound { name } })
}

/// A part of a title or prompt, or of a sub-agent's id, must have this many characters: a shorter
/// one would match by accident.
const SHORTEST_PART: usize = 3;

/// The session that was found, if it is the only one.
fn only<'a>(
    name: &str,
    found: impl Iterator<Item = &'a Session>,
) -> Result<Option<Session>, NameError> {
    let mut candidates: Candidates = found.cloned().collect();
    match candidates.len() {
        0 => Ok(None),
        1 => Ok(Some(candidates.remove(0))),
        _ => Err(NameError::Ambiguous { name: name.to_owned(), candidates }),
    }
}

/// Whether no file has that name, or none could have it.
fn is_no_path(path: &Path) -> bool {
    use io::ErrorKind::{InvalidFilename, InvalidInput, NotADirectory, NotFound};
    let found = std::fs::metadata(path);
    found.is_err_and(|error| {
        matches!(error.kind(), NotFound | NotADirectory | InvalidInput | InvalidFilename)
    })
}
