//! Why a file could not be read: which file, which line, and what the system said.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A failure to read a file, or to write what was made of it.
///
/// Reading never fails because of content, only because of I/O. So this is an [`io::Error`] with
/// its place.
#[derive(Debug)]
pub struct Error(Box<Place>);

/// The result of reading.
pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug)]
struct Place {
    path: Option<PathBuf>,
    line: Option<u64>,
    source: io::Error,
}

impl Error {
    /// The file, if it has a name.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// The number of the line, from 1, if it is about one.
    pub fn line(&self) -> Option<u64> {
        self.0.line
    }

    /// The kind of failure.
    pub fn kind(&self) -> io::ErrorKind {
        self.0.source.kind()
    }

    /// The failure without its place.
    pub fn cause(&self) -> &io::Error {
        &self.0.source
    }

    /// The failure without its place.
    pub fn into_io(self) -> io::Error {
        self.0.source
    }

    /// The same with this path, unless it has one.
    #[must_use]
    pub(crate) fn at(mut self, path: &Path) -> Error {
        self.0.path.get_or_insert_with(|| path.to_owned());
        self
    }

    /// The same with this line, unless it has one.
    #[must_use]
    pub(crate) fn at_line(mut self, line: u64) -> Error {
        self.0.line.get_or_insert(line);
        self
    }
}

/// Adds the path of the file to a failure.
pub(crate) trait AtPath<T> {
    fn at(self, path: &Path) -> Result<T>;
}

impl<T, E: Into<Error>> AtPath<T> for std::result::Result<T, E> {
    fn at(self, path: &Path) -> Result<T> {
        self.map_err(|error| error.into().at(path))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { path, line, source } = &*self.0;
        match (path, line) {
            (Some(path), Some(line)) => {
                write!(f, "cannot read `{}`, line {line}: {source}", path.display())
            }
            (Some(path), None) => write!(f, "cannot read `{}`: {source}", path.display()),
            (None, Some(line)) => write!(f, "line {line}: {source}"),
            (None, None) => source.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // The failure itself is in the message.
        self.0.source.source()
    }
}

impl From<io::Error> for Error {
    fn from(source: io::Error) -> Self {
        Error(Box::new(Place { path: None, line: None, source }))
    }
}

/// For callers that know the place themselves, and for `?` in functions about I/O.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        error.into_io()
    }
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
