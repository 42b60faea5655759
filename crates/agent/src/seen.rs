//! Which files the model has seen, and what they held: nobody changes a file that it has not read,
//! or that holds something else by now.
//!
//! Only what a file holds counts. Times do not: `cp -p`, `rsync` and `tar` give a new file an old
//! one. After a resume it is what the records say that a file held; where they do not say all of
//! it, as with a file of which some lines were read, it has to be read again.

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};

/// The files that were read or written in a session.
#[derive(Debug, Default)]
pub struct Seen(Mutex<HashMap<PathBuf, Known>>);

/// What a file held when it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// These bytes.
    Bytes(Print),
    /// This text, with whatever line ends and mark: records leave them out.
    Text(Print),
}

/// A fingerprint: two that are the same are of the same content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Print([u8; 32]);

impl Print {
    /// Of these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Print {
        Print(Sha256::digest(bytes).into())
    }

    /// Of a text, whatever its line ends are.
    pub(crate) fn of_text(text: &str) -> Print {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Print::of(text.replace("\r\n", "\n").as_bytes())
    }
}

/// Something to read, and what came of it.
#[derive(Debug)]
pub(crate) struct Printed<R> {
    inner: R,
    hash: Sha256,
}

impl<R: Read> Printed<R> {
    pub(crate) fn new(inner: R) -> Printed<R> {
        Printed { inner, hash: Sha256::new() }
    }

    /// The fingerprint of all that was read.
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
    /// It is as the model knows it.
    Known,
    /// The model has not read it.
    Unread,
    /// It has changed since.
    Changed,
}

impl Seen {
    /// Notes what a file held as it was read or written.
    pub(crate) fn note(&self, path: &Path, print: Print) {
        self.insert(path, Known::Bytes(print));
    }

    /// Takes up a file that held this text before the session was resumed.
    pub fn restore(&self, path: &Path, print: Print) {
        self.insert(path, Known::Text(print));
    }

    fn insert(&self, path: &Path, known: Known) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(path.to_owned(), known);
    }

    /// What the model knows of a file. It is read.
    pub(crate) fn state(&self, path: &Path) -> State {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(path).copied();
        let is_same = match known {
            None => return State::Unread,
            Some(Known::Bytes(print)) => bytes(path).is_ok_and(|now| now == print),
            // Nobody has such a long text in a record.
            Some(Known::Text(print)) => {
                files::read_text(path, 256 << 20).is_ok_and(|now| Print::of_text(&now) == print)
            }
        };
        if is_same { State::Known } else { State::Changed }
    }
}

/// The fingerprint of what a file holds now.
fn bytes(path: &Path) -> io::Result<Print> {
    let mut file = Printed::new(files::open(path)?);
    io::copy(&mut file, &mut io::sink())?;
    Ok(file.print())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn what_a_file_holds_counts_and_its_times_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        let put = |text: &str, age: u64| {
            fs::write(&path, text).unwrap();
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(age);
            File::options().append(true).open(&path).unwrap().set_modified(time).unwrap();
        };
        let seen = Seen::default();
        put("one", 1_000);
        assert_eq!(seen.state(&path), State::Unread);
        seen.note(&path, Print::of(b"one"));
        assert_eq!(seen.state(&path), State::Known);
        // The same length and the same time, or an older one: as `cp -p` leaves it.
        for age in [1_000, 10] {
            put("two", age);
            assert_eq!(seen.state(&path), State::Changed);
        }
        put("one", 5_000);
        assert_eq!(seen.state(&path), State::Known);
        fs::remove_file(&path).unwrap();
        assert_eq!(seen.state(&path), State::Changed);
    }

    #[test]
    fn after_a_resume_the_text_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        let seen = Seen::default();
        seen.restore(&path, Print::of_text("a\nb\n"));
        for (bytes, state) in [
            (&b"a\nb\n"[..], State::Known),
            (b"\xef\xbb\xbfa\r\nb\r\n", State::Known),
            (b"a\nb", State::Changed),
            (b"a\nb\n\xff", State::Changed),
        ] {
            fs::write(&path, bytes).unwrap();
            assert_eq!(seen.state(&path), state, "{bytes:?}");
        }
    }
}
