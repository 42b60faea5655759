//! Where a result goes.
//!
//! Invariant: a file given by `-o` is only written if it did not exist or `--force` was given, and
//! then it stays what it was: the target of a link is replaced, and a pipe or a device is written
//! into.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Job, Target};
use crate::failure::Failure;

pub(super) enum Place {
    /// Nowhere: the change is only shown.
    Nowhere,
    /// To the standard output.
    Output,
    /// Into a pipe or a device.
    Into(PathBuf),
    /// To a file that the user named.
    File(PathBuf),
    /// In the place of the session, or beside it, with an entry in the journal.
    Session(PathBuf),
}

impl Place {
    pub(super) fn of(job: &Job<'_>, target: &Target, id: &str) -> Result<Place, Failure> {
        let Some(output) = &target.output else {
            let session = &job.session.path;
            return Ok(if target.dry_run {
                Place::Nowhere
            } else if job.in_place {
                // For a link, its target.
                Place::Session(fs::canonicalize(session).unwrap_or_else(|_| session.clone()))
            } else {
                Place::Session(session.with_file_name(format!("{id}.jsonl")))
            });
        };
        if output == Path::new("-") {
            return Ok(if target.dry_run { Place::Nowhere } else { Place::Output });
        }
        let real = fs::canonicalize(output).ok();
        if real.is_some() && real == fs::canonicalize(&job.session.path).ok() {
            let hint = "use another name, or `--in-place` (`strip` and `repair`)";
            return Err(Failure::usage("that is the session's own file", Some(hint)));
        }
        if target.dry_run {
            return Ok(Place::Nowhere);
        }
        let refused = |what: &str, hint: &str| {
            Err(Failure::usage(format!("`{}` {what}", output.display()), Some(hint)))
        };
        let found = match fs::metadata(output) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if fs::symlink_metadata(output).is_ok() {
                    return refused("is a broken link", "use another name");
                }
                return Ok(Place::File(output.clone()));
            }
            found => found.map_err(|error| Failure::unwritable(output, error))?,
        };
        if found.is_dir() {
            return refused("is a folder", "use the name of a file in it");
        }
        if !found.is_file() {
            if !target.force {
                return refused("is a pipe or a device", "use `--force` to write into it");
            }
            return Ok(Place::Into(output.clone()));
        }
        if !target.force {
            let hint = "use another name, or `--force` to overwrite it";
            return refused("already exists", hint);
        }
        Ok(Place::File(real.unwrap_or_else(|| output.clone())))
    }

    /// The file that the result replaces or becomes.
    pub(super) fn file(&self) -> Option<&Path> {
        match self {
            Place::File(path) | Place::Session(path) => Some(path),
            Place::Nowhere | Place::Output | Place::Into(_) => None,
        }
    }

    /// Where the user finds the result.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Place::Into(path) => Some(path),
            _ => self.file(),
        }
    }
}
