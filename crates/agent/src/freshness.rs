//! Which files the model has seen, and with which content: no file is changed that the model has
//! not read, or whose content is different by now.
//!
//! Only the content counts. Times do not: `cp -p`, `rsync` and `tar` give a new file an old time.
//! After a resume, the content is what the records contain; if they do not contain all of it, for
//! example because only some lines were read, the file has to be read again.

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};

/// The files that were read or written in a session.
#[derive(Debug, Default)]
pub struct Freshness(Mutex<HashMap<PathBuf, Known>>);

/// The content of a file when it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// Exactly these bytes.
    Bytes(Print),
    /// This text, with any line ends and with or without a byte order mark: records leave them out.
    Text(Print),
}

/// A SHA-256: equal fingerprints mean equal content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Print([u8; 32]);

impl Print {
    /// The fingerprint of these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Print {
        Print(Sha256::digest(bytes).into())
    }

    /// The fingerprint of a text, ignoring line ends and a byte order mark.
    pub(crate) fn of_text(text: &str) -> Print {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Print::of(text.replace("\r\n", "\n").as_bytes())
    }
}

/// A reader that also computes the fingerprint of what was read.
#[derive(Debug)]
pub(crate) struct Printed<R> {
    inner: R,
    hash: Sha256,
}

impl<R: Read> Printed<R> {
    pub(crate) fn new(inner: R) -> Printed<R> {
        Printed { inner, hash: Sha256::new() }
    }

    /// The fingerprint of everything that was read.
    pub(crate) fn print(self) -> Print {
        Print(self.hash.finalize().into())
    }
}

impl<R: Read> Read for Printed<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(bytes)?;
        self.hash.update(&bytes[..count]);
        Ok(count)
    }
}

/// Whether a file may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The model knows its current content.
    Known,
    /// The model has not read it.
    Unread,
    /// It has changed since.
    Changed,
}

impl Freshness {
    /// Records the content of a file that was read or written.
    pub(crate) fn note(&self, path: &Path, print: Print) {
        self.insert(path, Known::Bytes(print));
    }

    /// Records a file that had this text before the session was resumed.
    pub fn restore(&self, path: &Path, print: Print) {
        self.insert(path, Known::Text(print));
    }

    fn insert(&self, path: &Path, known: Known) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(path.to_owned(), known);
    }

    /// Whether the model knows the current content of a file. Reads the file.
    pub(crate) fn state(&self, path: &Path) -> State {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(path).copied();
        let is_same = match known {
            None => return State::Unread,
            Some(Known::Bytes(print)) => bytes(path).is_ok_and(|now| now == print),
            // No record contains a longer text.
            Some(Known::Text(print)) => {
                files::read_text(path, 256 << 20).is_ok_and(|now| Print::of_text(&now) == print)
            }
        };
        if is_same { State::Known } else { State::Changed }
    }
}

/// The fingerprint of the current content of a file.
fn bytes(path: &Path) -> io::Result<Print> {
    let mut file = Printed::new(files::open(path)?);
    io::copy(&mut file, &mut io::sink())?;
    Ok(file.print())
}

#[cfg(test)]
#[path = "freshness_tests.rs"]
mod tests;
