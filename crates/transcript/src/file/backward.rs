//! From the end of a file to its start.
//!
//! For what stands at the end: the last title, the leaf, a torn tail. Reads only as much as is asked for.

use std::fs::File;
use std::io;

use memchr::memrchr;

use super::{Body, Digest, Line, copy_at};
use crate::limit::{FIRST_READ, HELD_LINE, READ_BLOCK};

/// Reads lines from the end.
#[derive(Debug)]
pub struct Backward<'f> {
    file: &'f File,
    /// What was read and not given yet; it ends where the last given line began.
    buffer: Vec<u8>,
    /// Where `buffer` begins in the file.
    offset: u64,
    /// Whether the line before the ones given ends with a newline: all but the file's last.
    ended: bool,
    line: Vec<u8>,
    digest: Digest,
}

impl<'f> Backward<'f> {
    /// Begins at the end of the file as it is now.
    pub fn new(file: &'f File) -> io::Result<Self> {
        let offset = file.metadata()?.len();
        let (buffer, line) = (Vec::new(), Vec::new());
        Ok(Backward { file, buffer, offset, ended: false, line, digest: Digest::default() })
    }

    /// The line before the one given last; `None` at the start of the file.
    pub fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        let mut end = self.offset + self.buffer.len() as u64;
        if end == 0 {
            return Ok(None);
        }
        if self.buffer.is_empty() {
            self.fill()?;
        }
        // The newline at the very end belongs to the line that is looked for.
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
            self.ended = true;
            end -= 1;
        }
        let mut unsearched = self.buffer.len();
        loop {
            if let Some(found) = memrchr(b'\n', &self.buffer[..unsearched]) {
                return self.give(found + 1, end).map(Some);
            }
            if self.offset == 0 {
                return self.give(0, end).map(Some);
            }
            if end - self.offset > HELD_LINE as u64 {
                // Too long to hold: only its start is still of interest.
                self.buffer.clear();
            }
            unsearched = self.fill()?;
        }
    }

    /// Reads the block before what is held: its length.
    fn fill(&mut self) -> io::Result<usize> {
        // A first look is short, for callers that need no more than that.
        let size = if self.line.is_empty() { FIRST_READ } else { READ_BLOCK };
        let count = self.offset.min(size as u64);
        self.offset -= count;
        let mut block = Vec::new();
        copy_at(self.file, self.offset, count, &mut block)?;
        let length = block.len();
        block.append(&mut self.buffer);
        self.buffer = block;
        Ok(length)
    }

    /// Gives the line from `start` in the buffer to `end` in the file.
    fn give(&mut self, start: usize, end: u64) -> io::Result<Line<'_>> {
        let offset = self.offset + start as u64;
        let len = end - offset;
        self.line = self.buffer.split_off(start);
        let body = if self.line.len() as u64 == len {
            Body::Held(&self.line)
        } else {
            self.digest = Digest::default();
            copy_at(self.file, offset, len, &mut self.digest)?;
            self.digest.finish();
            Body::Condensed(&self.digest)
        };
        let ended = std::mem::take(&mut self.ended);
        Ok(Line { number: None, offset, len, ended, part: false, body })
    }
}
