//! Reads the bytes of one line.
//!
//! A line should contain one record. A crash, a full disk or two writers can leave something else:
//! records glued together, a cut-off record before a whole one, runs of NUL bytes, a torn end.
//! [`read`] finds every whole record in such a line. Invariants: [`read`] is total; the fragments
//! that it returns are in order, do not overlap, and together with the white space between them are
//! all bytes of the line.
//!
//! In a damaged line, two things count as a record. Where a record may begin (at the start of the
//! line, after a record, after NUL bytes): a whole object that has the shape of an entry, or that
//! is not followed by more of a larger one. Elsewhere, among the remains of a cut-off record: a
//! whole object that is not a value inside that record. A value comes after `:`, `,` or `[`, and
//! before `,`, `}` or `]`; a cut-off record contains whole objects that are not records. An object
//! with only one of these two signs must have the shape of an entry.

use std::ops::Range;

use memchr::memchr;

use crate::format::entry::Entry;
use crate::format::json::Json;
use crate::format::limit::SEARCH_EFFORT;
use crate::format::scan::{Fault, Places, Scanner, Why};

/// One piece of a line: a record, or bytes that are not a record.
#[derive(Clone, Debug)]
pub struct Fragment<'a> {
    /// Where the fragment is in the line, in bytes.
    pub range: Range<usize>,
    /// The record, or what is wrong with the bytes.
    pub meaning: Meaning<'a>,
}

/// What a fragment of a line is.
#[derive(Clone, Debug)]
pub enum Meaning<'a> {
    /// The line is this record and nothing else.
    Whole(Entry<'a>),
    /// A whole record in a damaged line. With a fault, the record itself contains bytes that are
    /// not UTF-8; the fault is the first of them.
    Recovered(Entry<'a>, Option<Fault>),
    /// The line is JSON, but not an object. The client skips it, and so may every other reader.
    Bare(Json<'a>),
    /// Bytes that are not a record.
    Damaged(Fault),
}

/// Reads one line, with or without its line ending. Total: every input has a result.
///
/// A blank line has no fragments.
pub fn read(line: &[u8]) -> Pieces<'_> {
    let start = leading_space(line);
    let end = line.len() - trailing_space(&line[start..]);
    Pieces {
        line,
        scanner: Scanner::new(&line[..end]),
        at: start,
        end,
        damaged: false,
        found: None,
        nul: start,
        unended: Places::default(),
        passed: 0,
        reached: 0,
        effort: SEARCH_EFFORT.saturating_mul(end - start),
    }
}

/// Reads a part of a line that contains more than one record, so that none is alone on its line.
pub(crate) fn read_part(part: &[u8]) -> Pieces<'_> {
    Pieces { damaged: true, ..read(part) }
}

/// Iterates over the fragments of a line, in order.
#[derive(Debug)]
pub struct Pieces<'a> {
    line: &'a [u8],
    scanner: Scanner<'a>,
    at: usize,
    /// Where the white space at the end of the line begins.
    end: usize,
    /// Something before `at` is damaged, so every record found from here on is a recovered one.
    damaged: bool,
    /// A record found while searching for the end of damage.
    found: Option<(Entry<'a>, Range<usize>)>,
    /// The first NUL byte at or after the place where the last search began.
    nul: usize,
    /// Objects and arrays that are known not to end before `reached`, and how many of these are
    /// before the place where the last search began.
    unended: Places,
    passed: usize,
    reached: usize,
    /// How many bytes a search may still read. Only input that is made to be slow uses them up.
    effort: usize,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Fragment<'a>;

    fn next(&mut self) -> Option<Fragment<'a>> {
        if let Some((entry, range)) = self.found.take() {
            return Some(self.recovered(entry, range));
        }
        // White space between records means nothing.
        self.at += leading_space(&self.line[self.at..self.end]);
        if self.at >= self.end {
            return None;
        }
        let text = &self.line[..self.end];
        if text[self.at] == 0 {
            self.damaged = true;
            let run = text[self.at..].iter().take_while(|byte| **byte == 0).count();
            return Some(self.piece(run, |at| Meaning::Damaged(Fault { at, why: Why::Nul })));
        }
        let fault = match Entry::scan(self.scanner, self.at) {
            Ok((entry, end)) if end == self.end && !self.damaged => {
                let range = self.at..end;
                if not_utf8(&text[range.clone()]).is_none() {
                    self.at = end;
                    return Some(Fragment { range, meaning: Meaning::Whole(entry) });
                }
                return Some(self.recovered(entry, range));
            }
            Ok((entry, end)) if entry.looks_genuine() || !goes_on(text, end) => {
                return Some(self.recovered(entry, self.at..end));
            }
            Ok((_, end)) => {
                let at = end + leading_space(&text[end..]);
                Fault { at, why: Why::Unexpected(text[at]) }
            }
            Err(fault) => fault,
        };
        if !self.damaged
            && let Some(json) = Json::parse(&text[self.at..])
        {
            return Some(self.piece(json.raw().len(), |_| Meaning::Bare(json)));
        }
        self.damaged = true;
        let range = self.at..self.search();
        self.at = range.end;
        // A cut-off record shows its fault only in what is glued to it.
        let cut = Fault { at: range.end, why: Why::EndsInValue };
        let fault = if fault.at < range.end { fault } else { cut };
        Some(Fragment { range, meaning: Meaning::Damaged(fault) })
    }
}

impl<'a> Pieces<'a> {
    fn piece(&mut self, len: usize, meaning: impl FnOnce(usize) -> Meaning<'a>) -> Fragment<'a> {
        let range = self.at..self.at + len;
        self.at = range.end;
        Fragment { meaning: meaning(range.start), range }
    }

    fn recovered(&mut self, entry: Entry<'a>, range: Range<usize>) -> Fragment<'a> {
        self.damaged = true;
        self.at = range.end;
        let fault = not_utf8(&self.line[range.clone()])
            .map(|at| Fault { at: range.start + at, why: Why::NotUtf8 });
        Fragment { range, meaning: Meaning::Recovered(entry, fault) }
    }

    /// The end of the damage that begins at `self.at`: the next record, NUL byte or end of line.
    fn search(&mut self) -> usize {
        let text = &self.line[..self.end];
        if self.nul <= self.at {
            self.nul = memchr(0, &text[self.at..]).map_or(self.end, |found| self.at + found);
        }
        let mut at = self.at + 1;
        while at < self.nul && self.effort > 0 {
            let Some(found) = memchr(b'{', &text[at..self.nul]) else { break };
            let open = at + found;
            if text.get(self.scanner.space(open + 1)) != Some(&b'"') {
                at = open + 1;
                continue;
            }
            // An earlier scan from further outside has shown that this object does not end.
            while self.unended.get(self.passed).is_some_and(|place| place < open) {
                self.passed += 1;
            }
            if self.unended.get(self.passed) == Some(open) {
                at = open + 1;
                continue;
            }
            let mut around = Places::default();
            match self.scanner.value_noted(open, &mut around) {
                Ok(end) => {
                    let signs = signs_of_value(text, open, end);
                    if let Ok((entry, _)) = Entry::scan(self.scanner, open)
                        && (signs == 0 || signs == 1 && entry.looks_genuine())
                    {
                        self.found = Some((entry, open..end));
                        return open;
                    }
                    // A whole object that is not a record contains none.
                    self.effort = self.effort.saturating_sub(end - open);
                    at = end;
                }
                Err(stop) => {
                    self.effort = self.effort.saturating_sub(stop.at - open);
                    if self.unended.get(self.passed).is_none() || stop.at > self.reached {
                        (self.unended, self.passed, self.reached) = (around, 0, stop.at);
                    }
                    at = open + 1;
                }
            }
        }
        self.nul
    }
}

/// Counts the signs that the object at `open..end` is a value in a larger record: one is what comes
/// before it, the other what comes after. A cut can produce either by chance, but hardly both.
fn signs_of_value(text: &[u8], open: usize, end: usize) -> u32 {
    let before = text[..open].iter().rev().find(|byte| !is_space(**byte));
    let before = matches!(before, Some(b':' | b',' | b'['));
    u32::from(before) + u32::from(goes_on(text, end))
}

/// Whether a larger record continues after the value that ends at `end`.
fn goes_on(text: &[u8], end: usize) -> bool {
    matches!(text.get(end + leading_space(&text[end..])), Some(b',' | b'}' | b']'))
}

/// The offset of the first byte that is not UTF-8.
fn not_utf8(bytes: &[u8]) -> Option<usize> {
    match simdutf8::basic::from_utf8(bytes) {
        Ok(_) => None,
        Err(_) => simdutf8::compat::from_utf8(bytes).err().map(|error| error.valid_up_to()),
    }
}

/// The byte order mark.
pub(crate) const BOM: &[u8] = b"\xef\xbb\xbf";

/// The length of the white space at the start, including a byte order mark (the client drops one
/// too).
fn leading_space(bytes: &[u8]) -> usize {
    let blank = |bytes: &[u8]| bytes.iter().take_while(|byte| is_space(**byte)).count();
    let mark = if bytes.starts_with(BOM) { BOM.len() } else { 0 };
    mark + blank(&bytes[mark..])
}

fn trailing_space(bytes: &[u8]) -> usize {
    bytes.iter().rev().take_while(|byte| is_space(**byte)).count()
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
