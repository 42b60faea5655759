//! Reads a file while another process appends to it.
//!
//! The file is polled, so this works on every operating system and file system; the caller sleeps
//! between polls. A line is returned once it is whole: ended by a newline, or, at the end of the
//! file, a whole record without one (some clients write it like that). Truncation, replacement and
//! rewriting are detected, and reading begins again at the start. Invariant: between two such
//! events no byte is returned twice and none is left out.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use same_file::Handle;

use super::{Body, Line, Lines, State, copy_at};
use crate::error::{AtPath, Error};
use crate::format::limit::FINGERPRINT;

/// What a poll has found.
#[derive(Debug)]
pub enum Event<'a> {
    /// A new line.
    Line(Line<'a>),
    /// The file has become shorter; reading begins again at its start.
    Truncated,
    /// Another file has the name now, or what was read has been rewritten; reading begins again.
    Replaced,
    /// No file has the name now. A later poll may find one again.
    Gone,
}

/// Follows a file while another process appends to it.
#[derive(Debug)]
pub struct Follow {
    path: PathBuf,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    handle: Handle,
    given: Given,
}

/// How much of the file was returned.
#[derive(Debug, Default)]
struct Given {
    /// Everything before this offset was returned.
    offset: u64,
    lines: u64,
    /// The bytes just before `offset`, to detect a rewrite in place.
    last: Vec<u8>,
    /// The last line had no newline, which may still follow.
    unended: bool,
    /// The file's length and modification time when its end was not a whole record. Until these
    /// change, there is no need to read it again.
    waiting: Option<(u64, Option<SystemTime>)>,
}

impl Follow {
    /// Begins at the start of the file.
    pub fn from_start(path: &Path) -> crate::Result<Self> {
        let handle = files::open(path).and_then(Handle::from_file).at(path)?;
        let open = Open { handle, given: Given::default() };
        Ok(Follow { path: path.to_owned(), open: Some(open) })
    }

    /// Begins after the current end of the file. Reads the file once, to count its lines.
    pub fn from_end(path: &Path) -> crate::Result<Self> {
        let mut follow = Follow::from_start(path)?;
        follow.poll(|_| ())?;
        Ok(follow)
    }

    /// Looks for what is new, and passes it to `each`. Returns whether there was anything.
    pub fn poll(&mut self, mut each: impl FnMut(Event<'_>)) -> crate::Result<bool> {
        let mut news = false;
        let now = match files::open(&self.path).and_then(Handle::from_file) {
            Ok(now) => now,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if self.open.take().is_some() {
                    each(Event::Gone);
                    news = true;
                }
                return Ok(news);
            }
            Err(error) => return Err(Error::from(error).at(&self.path)),
        };
        let mut open = match self.open.take() {
            Some(open) if open.handle == now => open,
            Some(_) => {
                each(Event::Replaced);
                news = true;
                Open { handle: now, given: Given::default() }
            }
            None => Open { handle: now, given: Given::default() },
        };
        let file = open.handle.as_file();
        let len = file.metadata()?.len();
        if let Some(event) = open.given.disturbed(file, len)? {
            each(event);
            news = true;
            open.given = Given::default();
        }
        let result = open.given.read(file, len, &mut each);
        self.open = Some(open);
        Ok(result? || news)
    }
}

impl Given {
    /// Whether what was read is no longer there.
    fn disturbed(&self, file: &File, len: u64) -> crate::Result<Option<Event<'static>>> {
        if len < self.offset {
            return Ok(Some(Event::Truncated));
        }
        let mut last = Vec::new();
        let count = self.last.len() as u64;
        copy_at(file, self.offset - count, count, &mut last)?;
        Ok((last != self.last).then_some(Event::Replaced))
    }

    /// Passes the whole lines between `offset` and `len` to `each`.
    fn read(
        &mut self,
        mut file: &File,
        len: u64,
        each: &mut impl FnMut(Event<'_>),
    ) -> crate::Result<bool> {
        let now = (len, file.metadata()?.modified().ok());
        if len == self.offset || self.waiting == Some(now) {
            return Ok(false);
        }
        if self.unended {
            let mut next = Vec::new();
            copy_at(file, self.offset, 1, &mut next)?;
            if next == b"\n" {
                self.add(1, b"\n");
            } else {
                // Glued to the record before: the same line.
                self.lines -= 1;
            }
            self.unended = false;
        }
        let mut news = false;
        file.seek(SeekFrom::Start(self.offset))?;
        let mut lines = Lines::from(file.take(len - self.offset), self.offset, self.lines);
        while let Some(line) = lines.next_line()? {
            if !line.ended && !is_whole(&line) {
                self.waiting = Some(now);
                break;
            }
            news = true;
            self.lines += 1;
            self.unended = !line.ended;
            let end: &[u8] = match line.body {
                Body::Held(bytes) => &bytes[bytes.len().saturating_sub(FINGERPRINT)..],
                Body::Condensed(_) => b"",
            };
            self.add(line.len, end);
            if line.ended {
                self.add(1, b"\n");
            }
            each(Event::Line(line));
        }
        Ok(news)
    }

    fn add(&mut self, len: u64, end: &[u8]) {
        self.offset += len;
        if end.len() as u64 == len {
            self.last.extend_from_slice(end);
        } else {
            self.last = end.to_vec();
        }
        let excess = self.last.len().saturating_sub(FINGERPRINT);
        self.last.drain(..excess);
    }
}

/// Whether a line without a newline is one whole record. A bare number does not count: it may still
/// grow.
fn is_whole(line: &Line<'_>) -> bool {
    let mut records = line.records();
    let first = records.next();
    first.is_some_and(|one| one.state == State::Whole && one.entry.is_some())
        && records.next().is_none()
}
