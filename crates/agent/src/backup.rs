//! What files were before they were changed, kept as the client keeps it: `file-history/<session>/<hash>@v<n>`.
//!
//! Invariant: a file is changed only after its copy is complete; a copy is never changed.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};

/// The copies of a session.
#[derive(Debug)]
pub struct Backups {
    /// `file-history/<session>`; nothing if no copies are kept.
    folder: Option<PathBuf>,
    kept: Mutex<BTreeMap<PathBuf, Backup>>,
}

/// One copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// The name in the folder; nothing for a file that was not there.
    pub name: Option<String>,
    /// How many copies there were by then.
    pub version: u32,
}

impl Backups {
    /// Copies go there.
    pub fn new(folder: Option<PathBuf>) -> Backups {
        Backups { folder, kept: Mutex::default() }
    }

    /// Keeps a file that is about to be changed. Of a turn, what it was at its beginning is kept.
    pub(crate) fn keep(&self, path: &Path) -> io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.contains_key(path) {
            return Ok(());
        }
        let hash = Sha256::digest(path.to_string_lossy().as_bytes());
        let short = u64::from_be_bytes(hash[..8].try_into().unwrap_or_default());
        let mut version = 1;
        while folder.join(format!("{short:016x}@v{version}")).exists() {
            version += 1;
        }
        let name = format!("{short:016x}@v{version}");
        let is_there = path.is_file();
        if is_there {
            fs::create_dir_all(folder)?;
            let part = folder.join(format!("{name}.part"));
            fs::copy(path, &part)?;
            fs::rename(&part, folder.join(&name))?;
        }
        kept.insert(path.to_owned(), Backup { name: is_there.then_some(name), version });
        Ok(())
    }

    /// What was kept since the last call, for the record of it.
    pub fn take(&self) -> BTreeMap<PathBuf, Backup> {
        std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
