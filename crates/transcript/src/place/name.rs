//! A session by the name that a person gives it.
//!
//! A path, `last`, an id, the beginning of an id, or a title, tried in this order; the first that fits
//! anything decides. A name that fits several sessions is an error that lists them: nothing is guessed.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::{Home, Session};
use crate::glance::glance;

/// Sessions that one name fits.
pub type Candidates = Vec<Session>;

/// Why a name leads to no session.
#[derive(Debug, Error)]
pub enum NameError {
    /// Nothing has that name.
    #[error("no session is called `{name}`")]
    NotFound {
        /// The name.
        name: String,
    },
    /// More than one session has it.
    #[error("`{name}` fits {} sessions", candidates.len())]
    Ambiguous {
        /// The name.
        name: String,
        /// The sessions, newest first.
        candidates: Candidates,
    },
    /// The file is there, but cannot be looked at.
    #[error("cannot read `{}`", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Finds the session that a name means.
pub fn find(homes: &[Home], name: &str) -> Result<Session, NameError> {
    let path = Path::new(name);
    match Session::at(path) {
        Ok(session) if !path.is_dir() => return Ok(session),
        Err(source) if source.kind() == io::ErrorKind::PermissionDenied => {
            return Err(NameError::Unreadable { path: path.to_owned(), source });
        }
        _ => {}
    }
    let mut sessions: Vec<Session> = homes.iter().flat_map(Home::sessions).collect();
    sessions.sort_by_key(|session| std::cmp::Reverse(session.modified));
    if name == "last" {
        let newest = sessions.into_iter().find(|session| session.size > 0);
        return newest.ok_or_else(|| NameError::NotFound { name: name.to_owned() });
    }
    let fits: [&dyn Fn(&Session) -> bool; 3] = [
        &|session| session.id == name,
        &|session| !name.is_empty() && session.id.starts_with(name),
        &|session| glance(&session.path).is_ok_and(|seen| seen.title.as_deref() == Some(name)),
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
    Err(NameError::NotFound { name: name.to_owned() })
}
