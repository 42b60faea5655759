//! Reads a file from its end to its start.
//!
//! For what is at the end: the last title, the leaf, a torn tail. Reads only as much as the caller
//! asks for.

use std::fs::File;

use memchr::memrchr;

use super::{Body, Digest, Line, copy_at};
use crate::format::limit::{FIRST_READ, HELD_LINE, READ_BLOCK};

/// Reads lines from the end of a file.
#[derive(Debug)]
pub struct Backward<'f> {
    file: &'f File,
    buffer: Vec<u8>,
    /// The end of what was not returned yet in the buffer: where the last returned line began.
    end: usize,
    /// The offset of the buffer in the file.
    offset: u64,
    digest: Digest,
}

impl<'f> Backward<'f> {
    /// Begins at the end of the file as it is now.
    pub fn new(file: &'f File) -> crate::Result<Self> {
        let offset = file.metadata()?.len();
        Ok(Backward { file, buffer: Vec::new(), end: 0, offset, digest: Digest::default() })
    }

    /// The line before the one returned last; `None` at the start of the file.
    pub fn next_line(&mut self) -> crate::Result<Option<Line<'_>>> {
        if self.end == 0 && self.fill()? == 0 {
            return Ok(None);
        }
        // The newline at the very end belongs to the line being searched for.
        let ended = self.buffer[self.end - 1] == b'\n';
        self.end -= usize::from(ended);
        let end = self.offset + self.end as u64;
        let mut unsearched = self.end;
        loop {
            if let Some(found) = memrchr(b'\n', &self.buffer[..unsearched]) {
                return self.give(found + 1, end, ended).map(Some);
            }
            if end - self.offset > HELD_LINE as u64 {
                // Too long to keep: only its start is still needed.
                self.end = 0;
            }
            unsearched = self.fill()?;
            if unsearched == 0 {
                return self.give(0, end, ended).map(Some);
            }
        }
    }

    /// Reads the block before the buffer. Returns its length, 0 at the start of the file.
    fn fill(&mut self) -> crate::Result<usize> {
        // The first read is short, for callers that need no more than that.
        let size = if self.buffer.is_empty() { FIRST_READ } else { READ_BLOCK };
        let count = self.offset.min(size as u64);
        self.offset -= count;
        let mut block = Vec::with_capacity(size + self.end);
        copy_at(self.file, self.offset, count, &mut block)?;
        let length = block.len();
        block.extend_from_slice(&self.buffer[..self.end]);
        self.end = block.len();
        self.buffer = block;
        Ok(length)
    }

    /// Returns the line from `start` in the buffer to `end` in the file.
    fn give(&mut self, start: usize, end: u64, ended: bool) -> crate::Result<Line<'_>> {
        let offset = self.offset + start as u64;
        let len = end - offset;
        let held = start..std::mem::replace(&mut self.end, start);
        let body = if held.len() as u64 == len {
            Body::Held(&self.buffer[held])
        } else {
            self.digest = Digest::default();
            copy_at(self.file, offset, len, &mut self.digest)?;
            self.digest.finish();
            Body::Condensed(&self.digest)
        };
        Ok(Line { number: None, offset, len, ended, part: None, body })
    }
}
