//! The file with the list of trusted folders: read, and added to. `trust` decides what the list
//! covers.
//!
//! Invariant: a damaged list grants nothing, is reported, and is never overwritten.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use files::{Durability, Lock};

use super::error::{FileError, unreadable, unwritable};
use super::{Folders, Notice};
use crate::context;
use crate::trust::{DamagedList, Trust, TrustList, Untrustable};

/// The maximum size of the list, in bytes.
const LONGEST: u64 = 1 << 20;
/// How long another process may have the list.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is trusted of the place where a session starts.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// The folder.
    pub folder: Trust,
    /// The repository that contains the folder: git may obey more of it than this folder.
    pub repository: Trust,
}

/// Whether a folder was on the list already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It is now.
    New,
    /// It was.
    Known,
}

/// Why a folder is not trusted, or the list cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The list cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Another process is writing to the list.
    #[error(transparent)]
    Locked(workshop::Error),
    /// It is not a list that Quipu wrote.
    #[error("the list of trusted folders `{}` is damaged: {why}", path.display())]
    Damaged {
        /// Its path.
        path: PathBuf,
        /// What is wrong with it.
        why: DamagedList,
    },
    /// The folder cannot be on a list.
    #[error("cannot trust `{}`: {why}", folder.display())]
    Untrustable {
        /// The folder.
        folder: PathBuf,
        /// Why not.
        why: Untrustable,
    },
}

/// Adds the folder of a session to the list. `who` names this process to others that want to add
/// to the list meanwhile.
pub fn trust(list: &Path, folders: &Folders, who: &str) -> Result<Added, TrustError> {
    let lock = files::lock(&list.with_extension("lock"), who, PATIENCE);
    let _held = match lock.map_err(unwritable(list))? {
        Lock::Held(held) => held,
        Lock::Busy(who) => {
            let path = list.to_owned();
            return Err(TrustError::Locked(workshop::Error::Locked { path, who }));
        }
    };
    let mut known = read(list)?;
    let is_new = known
        .add(&folders.cwd, folders.real_user().as_deref())
        .map_err(|why| TrustError::Untrustable { folder: folders.cwd.clone(), why })?;
    if !is_new {
        return Ok(Added::Known);
    }
    files::put(list, known.text().as_bytes(), Durability::PowerCut).map_err(unwritable(list))?;
    Ok(Added::New)
}

/// What the list covers of a session's folder. A damaged list covers nothing, and is reported.
pub(super) fn standing(
    list: Option<&Path>,
    folders: &Folders,
    notify: &mut dyn FnMut(Notice),
) -> Standing {
    let list = list.map_or_else(|| Ok(TrustList::default()), read).unwrap_or_else(|error| {
        notify(Notice::NothingTrusted(error));
        TrustList::default()
    });
    let home = folders.real_user();
    let covers = |folder: &Path| list.covers(folder, home.as_deref());
    let folder = covers(&folders.cwd);
    // A trusted folder may contain another repository.
    let repository = context::repository(&folders.cwd).filter(|_| folder == Trust::Trusted);
    Standing { folder, repository: repository.map_or(Trust::Untrusted, covers) }
}

fn read(path: &Path) -> Result<TrustList, TrustError> {
    let text = match files::read_text(path, LONGEST) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(TrustList::default()),
        Err(error) => return Err(unreadable(path)(error).into()),
    };
    TrustList::parse(&text).map_err(|why| TrustError::Damaged { path: path.to_owned(), why })
}
