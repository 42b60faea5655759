//! A file that a session needs cannot be read or written.

use std::io;
use std::path::{Path, PathBuf};

/// Which file, and why.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read `{}`", path.display())]
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It, or its folder, cannot be written.
    #[error("cannot write `{}`", path.display())]
    Unwritable {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

pub(super) fn unreadable(path: &Path) -> impl Fn(io::Error) -> FileError {
    |source| FileError::Unreadable { path: path.to_owned(), source }
}

pub(super) fn unwritable(path: &Path) -> impl Fn(io::Error) -> FileError {
    |source| FileError::Unwritable { path: path.to_owned(), source }
}
