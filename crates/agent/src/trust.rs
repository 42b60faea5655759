//! Which folders the user trusts: the list, what it covers, and what can never be on it.
//!
//! Pure, except for the question whether a folder is a repository. Invariants: trust covers a
//! folder and what is below it, except nested repositories, whose content comes from other people;
//! the home folder, the folders above it and the root of the file system are never covered as a
//! whole; a damaged list grants nothing.

use std::path::{Component, Path};

use serde::{Deserialize, Serialize};

use crate::git;

/// Whether the user has confirmed that instructions and settings in a folder may be obeyed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// The user has confirmed it.
    Trusted,
    /// The user has not confirmed it.
    #[default]
    Untrusted,
}

/// The folders that the user trusts, by their real paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustList {
    folders: Vec<String>,
}

/// Why a text is not a list of trusted folders.
#[derive(Debug, thiserror::Error)]
pub enum DamagedList {
    /// It is not the JSON that Quipu writes.
    #[error("it is no JSON object with `folders`: {0}")]
    Json(#[from] serde_json::Error),
    /// A name in it is not the real path of a folder.
    #[error("`{0}` is no absolute path without `.` and `..`")]
    Path(String),
}

/// Why a folder cannot be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Untrustable {
    /// Too much is below it.
    #[error("the home folder, what is above it, and `/` cannot be trusted as a whole")]
    TooWide,
    /// Its name is not valid text.
    #[error("its path is not plain text")]
    NotText,
}

impl TrustList {
    /// Reads a list in the form that [`TrustList::text`] writes.
    pub fn parse(text: &str) -> Result<TrustList, DamagedList> {
        let list: TrustList = serde_json::from_str(text)?;
        match list.folders.iter().find(|folder| !is_real_path(folder)) {
            Some(folder) => Err(DamagedList::Path(folder.clone())),
            None => Ok(list),
        }
    }

    /// The list as text that people can read.
    pub fn text(&self) -> String {
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        text + "\n"
    }

    /// Adds a folder to the list; `folder` and `home` are real paths. Returns whether it is new.
    pub fn add(&mut self, folder: &Path, home: Option<&Path>) -> Result<bool, Untrustable> {
        if is_too_wide(folder, home) {
            return Err(Untrustable::TooWide);
        }
        let name = folder.to_str().filter(|name| is_real_path(name));
        let name = name.ok_or(Untrustable::NotText)?.to_owned();
        let is_new = !self.folders.contains(&name);
        if is_new {
            self.folders.push(name);
        }
        Ok(is_new)
    }

    /// Whether a folder is covered; `folder` and `home` are real paths.
    pub fn covers(&self, folder: &Path, home: Option<&Path>) -> Trust {
        let covers = |trusted: &Path| {
            let below = folder.ancestors().take_while(|above| *above != trusted);
            folder.starts_with(trusted)
                && !is_too_wide(trusted, home)
                && !below.into_iter().any(git::is_repository_itself)
        };
        let is_covered = self.folders.iter().any(|trusted| covers(Path::new(trusted)));
        if is_covered { Trust::Trusted } else { Trust::Untrusted }
    }
}

fn is_too_wide(folder: &Path, home: Option<&Path>) -> bool {
    folder.parent().is_none() || home.is_some_and(|home| home.starts_with(folder))
}

/// Whether a text can be the real path of a folder.
fn is_real_path(text: &str) -> bool {
    let path = Path::new(text);
    // Compared as text: components leave out `.` and duplicate separators.
    let again: std::path::PathBuf = path.components().collect();
    path.is_absolute()
        && !path.components().any(|part| part == Component::ParentDir)
        && again.as_os_str() == path.as_os_str()
        && !text.chars().any(char::is_control)
}

#[cfg(test)]
#[path = "trust_tests.rs"]
mod tests;
