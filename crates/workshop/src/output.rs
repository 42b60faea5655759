//! Where a result goes, after a look at what is there.
//!
//! Invariant: a file given by the user is only written if it did not exist or the user forces it,
//! and then it stays what it was: the target of a link is replaced, and a pipe or a device is
//! written into.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, OutputError};
use crate::job::{Force, Job, Mode, Place, temporary};
use crate::store::Ready;

pub(crate) enum Output {
    /// Nowhere: the change is only shown.
    Nowhere,
    /// To the caller.
    Returned,
    /// Into a pipe or a device.
    Into(PathBuf),
    /// To a file that the user named.
    File(PathBuf),
    /// In the place of the session, or beside it, with an entry in the journal.
    Session(PathBuf),
}

impl Output {
    pub(crate) fn of(job: &Job<'_>) -> Result<Output, Error> {
        let session = &job.session.path;
        let is_shown = job.policy.mode == Mode::DryRun;
        match &job.policy.place {
            Place::File(path) => check(path, session)?,
            Place::Beside | Place::InPlace | Place::Returned => {}
        }
        Ok(match &job.policy.place {
            _ if is_shown => Output::Nowhere,
            Place::Beside => {
                Output::Session(session.with_file_name(format!("{}.jsonl", job.new_id)))
            }
            // For a link, its target.
            Place::InPlace => {
                Output::Session(fs::canonicalize(session).unwrap_or_else(|_| session.clone()))
            }
            Place::Returned => Output::Returned,
            Place::File(path) => named(path, job.policy.force)?,
        })
    }

    /// The file that the result replaces or becomes.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Output::File(path) | Output::Session(path) => Some(path),
            Output::Nowhere | Output::Returned | Output::Into(_) => None,
        }
    }

    /// Where the user finds the result.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Output::Into(path) => Some(path),
            _ => self.file(),
        }
    }
}

/// A file that the user named for a document about a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentFile {
    /// A file that does not exist, or is replaced; for a link, its target.
    Regular(PathBuf),
    /// A pipe or a device, which is written into.
    Special(PathBuf),
}

impl DocumentFile {
    /// Looks at what is there, by the rules that results of changes follow.
    pub fn at(path: &Path, session: &Path, force: Force) -> Result<DocumentFile, Error> {
        check(path, session)?;
        Ok(match named(path, force)? {
            Output::Into(path) => DocumentFile::Special(path),
            other => DocumentFile::Regular(other.file().unwrap_or(path).to_owned()),
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        match self {
            DocumentFile::Regular(path) | DocumentFile::Special(path) => path,
        }
    }

    /// Writes the rest of a file there: a regular file at once or not at all.
    pub(crate) fn fill(&self, from: &mut File, force: Force) -> io::Result<()> {
        match self {
            DocumentFile::Special(path) => {
                io::copy(from, &mut files::open_special(path)?)?;
            }
            DocumentFile::Regular(path) => {
                let mut made = temporary(&Ready::at(path).temp)?;
                io::copy(from, made.as_file_mut())?;
                made.as_file().sync_all()?;
                match force {
                    Force::Never => made.persist_noclobber(path),
                    Force::InUse | Force::Always => made.persist(path),
                }
                .map_err(|error| error.error)?;
            }
        }
        Ok(())
    }
}

fn refused(path: &Path, why: OutputError) -> Error {
    Error::Output { path: path.to_owned(), why }
}

/// Refuses the session's own file, whatever it is called.
fn check(path: &Path, session: &Path) -> Result<(), Error> {
    let real = fs::canonicalize(path).ok();
    if real.is_some() && real == fs::canonicalize(session).ok() {
        return Err(refused(path, OutputError::Session));
    }
    Ok(())
}

/// The place of a result that goes to a file of the user.
fn named(path: &Path, force: Force) -> Result<Output, Error> {
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if fs::symlink_metadata(path).is_ok() {
                return Err(refused(path, OutputError::BrokenLink));
            }
            return Ok(Output::File(path.to_owned()));
        }
        found => found.map_err(Error::unwritable(path))?,
    };
    let is_forced = force != Force::Never;
    if found.is_dir() {
        return Err(refused(path, OutputError::Folder));
    }
    if !found.is_file() {
        let into = || Output::Into(path.to_owned());
        return is_forced.then(into).ok_or_else(|| refused(path, OutputError::Special));
    }
    if !is_forced {
        return Err(refused(path, OutputError::Exists));
    }
    Ok(Output::File(fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())))
}
