//! Reads forward, line by line, in bounded memory.
//!
//! Only `\n` ends a line: other separators occur inside strings of genuine files. A line longer
//! than `limit::HELD_LINE` is condensed while it is read.

use std::io::{self, Read};

use memchr::memchr;

use super::{Body, Digest, Line};
use crate::error::Error;
use crate::format::limit::{FIRST_READ, HELD_LINE, READ_BLOCK};

/// Reads lines from a file or from memory.
#[derive(Debug)]
pub struct Lines<R> {
    source: R,
    buffer: Vec<u8>,
    /// The bytes of the buffer that were not returned yet are `start..end`.
    start: usize,
    end: usize,
    /// The offset of `start` in the file.
    offset: u64,
    number: u64,
    digest: Digest,
    held: usize,
    /// How many parts of the current line were returned; 0 between lines.
    parts: u32,
}

impl<R: Read> Lines<R> {
    /// Reads lines from the start of a file.
    pub fn new(source: R) -> Self {
        Lines::from(source, 0, 0)
    }

    /// Reads lines from a source that is at byte `offset` of its file, after `number` lines.
    pub fn from(source: R, offset: u64, number: u64) -> Self {
        Lines {
            source,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            offset,
            number,
            digest: Digest::default(),
            held: HELD_LINE,
            parts: 0,
        }
    }

    /// Reuses the buffers for another file, from its start.
    pub fn reopen<S: Read>(self, source: S) -> Lines<S> {
        Lines { buffer: self.buffer, ..Lines::new(source) }
    }

    /// Sets another bound than `limit::HELD_LINE` for the lines that are kept in memory.
    #[must_use]
    pub fn holding(mut self, longest: usize) -> Self {
        self.held = longest;
        self
    }

    /// The next line; `None` at the end.
    pub fn next_line(&mut self) -> crate::Result<Option<Line<'_>>> {
        let mut searched = self.start;
        loop {
            let newline = memchr(b'\n', &self.buffer[searched..self.end]).map(|at| searched + at);
            if newline.unwrap_or(self.end) - self.start > self.held {
                return self.condense().map(Some);
            }
            if let Some(newline) = newline {
                return Ok(Some(self.give(newline, true)));
            }
            searched = self.end;
            let moved = self.start;
            if self.fill()? == 0 {
                let last = self.end;
                return Ok((self.start < last).then(|| self.give(last, false)));
            }
            // `fill` may have moved the unread bytes to the front.
            searched -= moved - self.start;
        }
    }

    fn give(&mut self, end: usize, ended: bool) -> Line<'_> {
        let start = self.start;
        let offset = self.offset;
        let len = end - start;
        self.advance(len + usize::from(ended));
        let (number, part) = self.count(false);
        let body = Body::Held(&self.buffer[start..end]);
        Line { number: Some(number), offset, len: len as u64, ended, part, body }
    }

    /// The number of the line that is returned now, and which part of it; `more` tells whether
    /// another part follows.
    fn count(&mut self, more: bool) -> (u64, Option<u32>) {
        let part = (more || self.parts > 0).then_some(self.parts);
        self.number += u64::from(self.parts == 0);
        self.parts = if more { self.parts + 1 } else { 0 };
        (self.number, part)
    }

    fn advance(&mut self, by: usize) {
        self.start += by;
        self.offset += by as u64;
    }

    /// Reads more into the buffer. Returns how many bytes, 0 at the end.
    fn fill(&mut self) -> crate::Result<usize> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        // The first read is short, for callers that need no more than that.
        if self.buffer.len() < READ_BLOCK || self.end > self.buffer.len() / 2 {
            let longest = self.held + READ_BLOCK;
            let wanted = (self.buffer.len() * 2).clamp(FIRST_READ, longest);
            self.buffer.resize(wanted.max(self.end + FIRST_READ), 0);
        }
        loop {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(count) => {
                    self.end += count;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::from(error).at_line(self.number + 1)),
            }
        }
    }

    /// Reads through a line that is too long to keep in memory.
    fn condense(&mut self) -> crate::Result<Line<'_>> {
        let offset = self.offset;
        let mut len = 0;
        let (mut ended, mut more) = (false, false);
        self.digest = Digest::default();
        while !ended && !more {
            if self.start == self.end && self.fill()? == 0 {
                break;
            }
            let waiting = &self.buffer[self.start..self.end];
            let newline = memchr(b'\n', waiting);
            let line = &waiting[..newline.unwrap_or(waiting.len())];
            let used = self.digest.push(line);
            more = used < line.len();
            ended = newline.is_some() && !more;
            len += used as u64;
            self.advance(used + usize::from(ended));
        }
        // Several long lines are rare, so the memory of this one is freed.
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        self.buffer.truncate(self.end.max(READ_BLOCK));
        self.buffer.shrink_to_fit();
        self.digest.finish();
        let (number, part) = self.count(more);
        let body = Body::Condensed(&self.digest);
        Ok(Line { number: Some(number), offset, len, ended, part, body })
    }
}
