//! The table of a file that grows: read on from where it ended.
//!
//! Invariants: the table equals that of a fresh read of the same bytes; a line counts only when it
//! has ended, so nothing is read twice; a file that was rewritten is noticed, not misread.

use std::fs::File;
use std::io::Read;

use memchr::memrchr;

use super::Table;
use super::read::Reading;
use crate::format::file::{From, Lines};
use crate::format::limit::READ_BLOCK;

/// The table of a file to which lines are appended.
#[derive(Clone, Default)]
pub struct GrowingTable {
    reading: Reading,
    /// How many bytes were read: to the end of a line.
    end: u64,
    /// The last bytes before that.
    last: Vec<u8>,
}

/// What happened to a file since it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// That many records were appended.
    Records(usize),
    /// The file is not the one that was read: it is shorter, or other bytes are where reading
    /// ended. Begin anew.
    Replaced,
}

/// How many bytes are compared to recognize a file.
const COMPARED: u64 = 256;

impl GrowingTable {
    /// Reads the lines that were appended.
    pub fn extend(&mut self, file: &File) -> crate::Result<Growth> {
        let length = file.metadata()?.len();
        if length < self.end || bytes_before(file, self.end)? != self.last {
            return Ok(Growth::Replaced);
        }
        let Some(end) = last_line_end(file, self.end, length)? else {
            return Ok(Growth::Records(0));
        };
        let before = self.reading.table.rows.len();
        let more = From::new(file, self.end).take(end - self.end);
        let more = Reading::read(Lines::from(more, self.end, 0), &mut ())?;
        self.reading.append(more);
        (self.end, self.last) = (end, bytes_before(file, end)?);
        Ok(Growth::Records(self.reading.table.rows.len() - before))
    }

    /// The table of what was read so far.
    pub fn table(&self) -> Table {
        self.reading.clone().finish()
    }

    /// The table of what was read so far, and of the rest of the file, which may end within a line:
    /// that of a fresh read.
    pub fn table_to_end(&self, file: &File) -> crate::Result<Table> {
        let rest = Lines::from(From::new(file, self.end), self.end, 0);
        let rest = Reading::read(rest, &mut ())?;
        let mut reading = self.reading.clone();
        if rest.table.lines > 0 {
            reading.append(rest);
        }
        Ok(reading.finish())
    }

    /// How many bytes were read so far.
    pub fn end(&self) -> u64 {
        self.end
    }
}

impl std::fmt::Debug for GrowingTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GrowingTable").field("end", &self.end).finish_non_exhaustive()
    }
}

/// The last bytes before an offset.
fn bytes_before(file: &File, end: u64) -> crate::Result<Vec<u8>> {
    let start = end.saturating_sub(COMPARED);
    let mut bytes = Vec::new();
    From::new(file, start).take(end - start).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The offset after the last line end in a range; `None` if there is none.
fn last_line_end(file: &File, start: u64, end: u64) -> crate::Result<Option<u64>> {
    let mut at = end;
    while at > start {
        let from = at.saturating_sub(READ_BLOCK as u64).max(start);
        let mut bytes = Vec::new();
        From::new(file, from).take(at - from).read_to_end(&mut bytes)?;
        if let Some(place) = memrchr(b'\n', &bytes) {
            return Ok(Some(from + place as u64 + 1));
        }
        at = from;
    }
    Ok(None)
}

#[cfg(test)]
#[path = "grow_tests.rs"]
mod tests;
