//! Files as lines with their offsets.
//!
//! [`Lines`] reads forward from any reader, [`Backward`] from the end of a file to its start, and
//! [`Follow`] reads while another process appends. All return [`Line`]s, and a line contains
//! [`Record`]s. Invariants: memory is bounded by `limit`, whatever the file contains; offsets and
//! lengths are those of the file, and the ranges of all lines with their endings are the file, byte
//! for byte.

mod backward;
mod digest;
mod follow;
mod lines;

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

pub use backward::Backward;
pub use digest::Digest;
pub use follow::{Event, Follow};
pub use lines::Lines;

use crate::format::entry::Entry;
use crate::format::json::Json;
use crate::format::limit::{HELD_LINE, READ_BLOCK};
use crate::format::line::{self, Meaning, Pieces};
use crate::format::scan::{Fault, Why};
use crate::names::named;

/// One line of a file.
#[derive(Debug)]
pub struct Line<'a> {
    /// Its number, from 1; `None` when the file is read backward.
    pub number: Option<u64>,
    /// The byte offset of its start in the file.
    pub offset: u64,
    /// Its length in bytes, without the line ending.
    pub len: u64,
    /// Whether a newline ends it. The last line may lack one.
    pub ended: bool,
    /// Which part of its line this is, from 0, if the line has more records than fit into memory.
    /// Parts end between records, have the number of the line, and follow each other.
    pub part: Option<u32>,
    /// Its bytes, complete or condensed.
    pub body: Body<'a>,
}

/// The bytes of a line.
#[derive(Debug)]
pub enum Body<'a> {
    /// All bytes.
    Held(&'a [u8]),
    /// A condensed form of a line that is too long to keep in memory.
    Condensed(&'a Digest),
}

impl<'a> Line<'a> {
    /// The records on the line: one, unless it is blank or damaged.
    pub fn records(&self) -> Records<'a> {
        let (bytes, digest) = match self.body {
            Body::Held(bytes) => (bytes, None),
            Body::Condensed(digest) => (digest.bytes(), Some(digest)),
        };
        let pieces = if self.part.is_some() { line::read_part(bytes) } else { line::read(bytes) };
        let overflow = digest.is_some_and(Digest::overflowed).then_some(self.len);
        Records { line: self.number, offset: self.offset, pieces, digest, overflow }
    }
}

/// Iterates over the records of a line, in order.
#[derive(Debug)]
pub struct Records<'a> {
    line: Option<u64>,
    offset: u64,
    pieces: Pieces<'a>,
    digest: Option<&'a Digest>,
    /// The length of the line, if it is too long even when condensed.
    overflow: Option<u64>,
}

/// One record, or bytes that are not a record, with its offset in the file.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// The number of its line, from 1; `None` when the file is read backward.
    pub line: Option<u64>,
    /// The byte offset of its start in the file.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
    /// Whether it is whole, recovered or damaged.
    pub state: State,
    /// The record; `None` for damage and for JSON that is not an object.
    pub entry: Option<Entry<'a>>,
    /// JSON that is not an object.
    pub bare: Option<Json<'a>>,
    /// What is wrong, and at which byte offset of the file.
    pub fault: Option<(u64, Why)>,
    /// The entry's long strings are cut; only the file has all of it.
    pub condensed: bool,
}

named! {
    /// Whether a record is whole, recovered or damaged.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum State {
        /// Alone on its line.
        Whole = "whole",
        /// Whole, but in a damaged line, or with bytes that are not UTF-8.
        Recovered = "recovered",
        /// Not a record.
        Damaged = "damaged",
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        if let Some(len) = self.overflow.take() {
            self.pieces = line::read(b"");
            return Some(Record {
                line: self.line,
                offset: self.offset,
                len,
                state: State::Damaged,
                entry: None,
                bare: None,
                fault: Some((self.offset, Why::TooMuch)),
                condensed: true,
            });
        }
        let piece = self.pieces.next()?;
        let place =
            |at: usize| self.offset + self.digest.map_or(at as u64, |digest| digest.place(at));
        let (state, entry, bare, fault) = match piece.meaning {
            Meaning::Whole(entry) => (State::Whole, Some(entry), None, None),
            Meaning::Recovered(entry, fault) => (State::Recovered, Some(entry), None, fault),
            Meaning::Bare(json) => (State::Whole, None, Some(json), None),
            Meaning::Damaged(fault) => (State::Damaged, None, None, Some(fault)),
        };
        let offset = place(piece.range.start);
        // Bytes that the digest dropped after a record are not part of it; after damage they are.
        let end = match state {
            State::Damaged => place(piece.range.end),
            _ => place(piece.range.end.saturating_sub(1)) + 1,
        };
        Some(Record {
            line: self.line,
            offset,
            len: end - offset,
            state,
            entry,
            bare,
            fault: fault.map(|Fault { at, why }| (place(at), why)),
            condensed: self.digest.is_some(),
        })
    }
}

/// Reads all records of bytes in memory. Never fails, never panics.
///
/// ```
/// let bytes = b"{\"type\":\"user\",\"uuid\":\"a\"}{\"type\":\"user\",\"uuid\":\"b\"}\n\0\0\n";
/// let mut found = Vec::new();
/// transcript::format::file::read(bytes, |record| found.push((record.state, record.offset)));
/// use transcript::format::file::State::{Damaged, Recovered};
/// assert_eq!(found, [(Recovered, 0), (Recovered, 26), (Damaged, 53)]);
/// ```
pub fn read(bytes: &[u8], mut each: impl FnMut(Record<'_>)) {
    let mut lines = Lines::new(bytes);
    // Reading a slice does not fail.
    while let Ok(Some(line)) = lines.next_line() {
        line.records().for_each(&mut each);
    }
}

/// Reads a file from a byte offset. Several of these can read one file at once, because none uses
/// the file's own position.
#[derive(Clone, Copy, Debug)]
pub struct From<'a> {
    file: &'a File,
    at: u64,
}

impl<'a> From<'a> {
    /// Reads from that offset on.
    pub fn new(file: &'a File, at: u64) -> Self {
        From { file, at }
    }

    /// Reads up to `most` bytes, or as many as there are. A used buffer need not be cleared.
    pub(crate) fn read_up_to(mut self, most: usize, mut buffer: Vec<u8>) -> crate::Result<Vec<u8>> {
        buffer.resize(most, 0);
        let mut end = 0;
        while end < most {
            match self.read(&mut buffer[end..]) {
                Ok(0) => break,
                Ok(count) => end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        buffer.truncate(end);
        Ok(buffer)
    }
}

impl Read for From<'_> {
    #[cfg(unix)]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = std::os::unix::fs::FileExt::read_at(self.file, buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }

    #[cfg(windows)]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = std::os::windows::fs::FileExt::seek_read(self.file, buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// Reads the bytes of one record by its offset. For records that fit into memory; else see
/// [`copy_at`].
pub fn read_at(file: &File, offset: u64, len: u64) -> crate::Result<Vec<u8>> {
    if len > HELD_LINE as u64 {
        return Err(
            io::Error::new(io::ErrorKind::OutOfMemory, "record is too long for memory").into()
        );
    }
    let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
    fill_at(file, offset, &mut bytes)?;
    Ok(bytes)
}

/// Fills a buffer from an offset on.
pub(crate) fn fill_at(file: &File, offset: u64, buffer: &mut [u8]) -> crate::Result<()> {
    From::new(file, offset).read_exact(buffer).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), SHORTER).into(),
        _ => error.into(),
    })
}

/// How many lines are before a byte offset.
pub(crate) fn lines_before(file: &File, offset: u64) -> crate::Result<u64> {
    let mut source = From::new(file, 0).take(offset);
    let mut block = vec![0; READ_BLOCK.min(usize::try_from(offset).unwrap_or(READ_BLOCK))];
    let mut lines = 0;
    loop {
        match source.read(&mut block) {
            Ok(0) => return Ok(lines),
            Ok(count) => lines += memchr::memchr_iter(b'\n', &block[..count]).count() as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}

const SHORTER: &str = "the file has become shorter";

/// Copies the bytes of one record by its offset, however long it is.
pub fn copy_at(
    mut file: &File,
    offset: u64,
    len: u64,
    to: &mut impl io::Write,
) -> crate::Result<()> {
    file.seek(SeekFrom::Start(offset))?;
    let copied = io::copy(&mut file.take(len), to)?;
    if copied < len {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, SHORTER).into());
    }
    Ok(())
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
