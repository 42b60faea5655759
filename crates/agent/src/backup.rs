//! Keeps copies of files from before they were changed, as the client does:
//! `file-history/<session>/<hash>@v<n>`.
//!
//! After that a file is watched: at every prompt it is copied again if it has changed, so that
//! clients can restore the state at that prompt. Invariant: a file is changed only after its copy
//! is complete; a copy is never changed.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

/// The copies of a session.
#[derive(Debug)]
pub struct Backups {
    /// `file-history/<session>`; None if no copies are kept.
    folder: Option<PathBuf>,
    watched: Mutex<Watched>,
}

#[derive(Debug, Default)]
struct Watched {
    files: BTreeMap<PathBuf, Backup>,
    /// Whether some of them are not recorded yet.
    has_new: bool,
}

/// The last copy of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// The name in the folder; None for a file that did not exist.
    pub name: Option<String>,
    /// How many copies there were at that time.
    pub version: u32,
    /// When it was first recorded.
    pub time: Option<String>,
}

impl Backups {
    /// Copies go into this folder.
    pub fn new(folder: Option<PathBuf>) -> Backups {
        Backups { folder, watched: Mutex::default() }
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Restores what a session watched before it was resumed. Accepts only the names that copies of
    /// these files have: a record may contain anything.
    pub(crate) fn restore(&self, files: impl Iterator<Item = (PathBuf, Backup)>) {
        let backups = files.filter(|(path, backup)| {
            backup.name.as_ref().is_none_or(|name| is_copy_of(name, path))
        });
        self.watched().files.extend(backups);
    }

    /// Copies a file that is about to be changed. A watched file was already copied when the prompt
    /// came.
    pub(crate) fn keep(&self, path: &Path) -> io::Result<()> {
        let mut watched = self.watched();
        if self.folder.is_none() || watched.files.contains_key(path) {
            return Ok(());
        }
        let backup = self.copied(path, 1)?;
        watched.files.insert(path.to_owned(), backup);
        watched.has_new = true;
        Ok(())
    }

    /// Copies a file, as this version or a later one.
    fn copied(&self, path: &Path, mut version: u32) -> io::Result<Backup> {
        let folder = self.folder.clone().unwrap_or_default();
        let hash = hash(path);
        while folder.join(format!("{hash}@v{version}")).exists() {
            version = next(version)?;
        }
        let name = format!("{hash}@v{version}");
        let is_there = path.is_file();
        if is_there {
            files::make_private_folder(&folder)?;
            let part = folder.join(format!("{name}.part"));
            files::put_with(&folder.join(&name), &part, files::NewAccess::Private, |file| {
                files::copy(path, file)
            })?;
        }
        Ok(Backup { name: is_there.then_some(name), version, time: None })
    }

    /// At a prompt: copies the files again that have changed since their last copy. If a file
    /// cannot be read, its last copy stays.
    pub(crate) fn renew(&self) {
        let Some(folder) = &self.folder else { return };
        let mut watched = self.watched();
        for (path, backup) in &mut watched.files {
            let is_same = match &backup.name {
                None => !path.exists(),
                Some(name) => is_equal(path, &folder.join(name)).unwrap_or(true),
            };
            let new = || next(backup.version).and_then(|version| self.copied(path, version));
            if !is_same && let Ok(new) = new() {
                *backup = new;
            }
        }
    }

    /// Whether files were added since the last call.
    pub(crate) fn has_new(&self) -> bool {
        std::mem::take(&mut self.watched().has_new)
    }

    /// The last copies, as they are recorded now.
    pub(crate) fn recorded(&self, now: &str) -> Vec<(PathBuf, Backup)> {
        let mut watched = self.watched();
        for backup in watched.files.values_mut() {
            backup.time.get_or_insert_with(|| now.to_owned());
        }
        watched.files.clone().into_iter().collect()
    }
}

/// The next version.
fn next(version: u32) -> io::Result<u32> {
    version.checked_add(1).ok_or_else(|| io::Error::other("there are too many copies of it"))
}

/// Whether a copy of that file may have this name: `<hash>@v<n>`, and nothing that leads elsewhere.
fn is_copy_of(name: &str, path: &Path) -> bool {
    let number = name.strip_prefix(&hash(path)).and_then(|rest| rest.strip_prefix("@v"));
    number.is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// The beginning of the names of a file's copies.
fn hash(path: &Path) -> String {
    let hash = Sha256::digest(path.to_string_lossy().as_bytes());
    format!("{:016x}", u64::from_be_bytes(hash[..8].try_into().unwrap_or_default()))
}

/// Whether two files have the same content. A missing file is different.
fn is_equal(one: &Path, other: &Path) -> io::Result<bool> {
    let Ok(one) = files::open(one) else { return Ok(false) };
    let other = files::open(other)?;
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut one, mut other) = (io::BufReader::new(one), io::BufReader::new(other));
    let (mut left, mut right) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let count = one.read(&mut left)?;
        if count == 0 {
            return Ok(true);
        }
        other.read_exact(&mut right[..count])?;
        if left[..count] != right[..count] {
            return Ok(false);
        }
    }
}

#[cfg(test)]
#[path = "backup_tests.rs"]
mod tests;
