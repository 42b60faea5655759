//! Finds a session by the name that the user gives.
//!
//! A path, an id, the beginning of an id, or a title, tried in this order; the first kind that
//! matches anything decides. A name that matches several sessions is an error that lists them:
//! nothing is guessed.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::{Home, Listed, Session};
use crate::preview::preview;

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
        Err(source) => return Err(NameError::Unreadable { path: path.to_owned(), source }),
    }
    let mut all = Listed::default();
    for home in homes {
        all.merge(home.list());
    }
    let Listed { mut sessions, unreadable } = all;
    sessions.sort_by_key(|session| std::cmp::Reverse(session.modified));
    let fits: [&dyn Fn(&Session) -> bool; 3] = [
        &|session| session.id == name,
        &|session| !name.is_empty() && session.id.starts_with(name),
        &|session| preview(&session.path).is_ok_and(|seen| seen.title.as_deref() == Some(name)),
    ];
    for fit in fits {
        let mut candidates: Candidates =
            sessions.iter().filter(|session| fit(session)).cloned().collect();
        match candidates.len() {
            0 => {}
            1 => return Ok(candidates.remove(0)),
            _ => return Err(NameError::Ambiguous { name: name.to_owned(), candidates }),
        }
    }
    let is_named = |path: &Path| {
        let id = path.file_stem().unwrap_or_default().to_string_lossy();
        !name.is_empty() && id.starts_with(name)
    };
    if let Some((path, source)) = unreadable.into_iter().find(|(path, _)| is_named(path)) {
        return Err(NameError::Unreadable { path, source });
    }
    let name = name.to_owned();
    Err(if is_path(&name) { NameError::NoFile { name } } else { NameError::NotFound { name } })
}

/// Whether no file has that name, or none could have it.
fn is_no_path(path: &Path) -> bool {
    use io::ErrorKind::{InvalidFilename, InvalidInput, NotADirectory, NotFound};
    let found = std::fs::metadata(path);
    found.is_err_and(|error| {
        matches!(error.kind(), NotFound | NotADirectory | InvalidInput | InvalidFilename)
    })
}
