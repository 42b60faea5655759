//! Maps paths: a folder that has another place now, wherever a session names it.
//!
//! A path is recognized at its borders: `/w/app` is found in `/w/app/x`, `"/w/app"` and
//! `file:///w/app`, but not in `/w/app2`, `/w/app.old` or `/mnt/w/app`. Strings stay as they are
//! encoded. Invariants: signed content (thinking) is never changed; everything except the paths
//! keeps its bytes; mapping back gives the same bytes again, unless the new path was mentioned
//! before, which is counted; one line is in memory at a time, and of a very long one a block.

use std::fs::File;
use std::io::{Read, Write};
use std::ops::Range;

use memchr::memmem;

use super::splice::range_of;
use super::write::{Written, signed_in};
use crate::format::file::{Body, From, Line, Lines};
use crate::format::json::quote;
use crate::format::limit::READ_BLOCK;

/// Old folders and their new places.
#[derive(Clone, Debug, Default)]
pub struct PathMap {
    pairs: Vec<Pair>,
}

#[derive(Clone, Debug)]
struct Pair {
    old: memmem::Finder<'static>,
    new: memmem::Finder<'static>,
    /// What may be before it.
    start: Start,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// Anything that ends a word: the path is absolute.
    Word,
    /// A separator: it is a part of a path.
    Separator,
}

/// What was mapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MappedPaths {
    /// Lines that were kept and altered, and bytes.
    pub written: Written,
    /// How many paths were mapped.
    pub mapped: u64,
    /// How often a new path was mentioned before: mapping back would change these too.
    pub before: u64,
}

impl PathMap {
    /// Maps a folder to its new place. Both are absolute paths.
    pub fn folder(&mut self, old: &str, new: &str) {
        let trimmed = |path: &str| path.trim_end_matches(['/', '\\']).to_owned();
        self.pair(&trimmed(old), &trimmed(new), Start::Word);
    }

    /// Maps a project's folder in a home, by its name.
    pub fn project(&mut self, old: &str, new: &str) {
        self.pair(&format!("projects/{old}"), &format!("projects/{new}"), Start::Separator);
    }

    fn pair(&mut self, old: &str, new: &str, start: Start) {
        if old.is_empty() || new.is_empty() || old == new {
            return;
        }
        let inside = |text: &str| quote(text).trim_matches('"').to_owned();
        let (mut old, mut new) = (inside(old), inside(new));
        // Also in JSON in a string; most paths look the same there.
        for _ in 0..2 {
            if self.pairs.iter().any(|pair| pair.old.needle() == old.as_bytes()) {
                break;
            }
            let finder = |text: &str| memmem::Finder::new(text).into_owned();
            self.pairs.push(Pair { old: finder(&old), new: finder(&new), start });
            (old, new) = (inside(&old), inside(&new));
        }
        // Of two that begin at the same place, the longer one counts.
        self.pairs.sort_by_key(|pair| std::cmp::Reverse(pair.old.needle().len()));
    }

    /// Whether it maps nothing.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// A path of the file system, mapped if it is in one of the folders, or is one.
    pub fn path(&self, path: &str) -> String {
        let mut out = Vec::new();
        self.text(path.as_bytes(), &mut out, &mut MappedPaths::default());
        String::from_utf8(out).unwrap_or_else(|_| path.to_owned())
    }

    /// Appends a side file's bytes with their paths mapped.
    pub fn text(&self, bytes: &[u8], out: &mut Vec<u8>, done: &mut MappedPaths) {
        self.piece(bytes, 0, bytes.len(), out, done);
    }

    /// Writes a transcript with its paths mapped.
    pub fn write(&self, file: &File, out: &mut dyn Write) -> crate::Result<MappedPaths> {
        let mut done = MappedPaths::default();
        let mut lines = Lines::new(From::new(file, 0));
        let (mut end, mut changed) = (0, Vec::new());
        while let Some(line) = lines.next_line()? {
            gap(file, end..line.offset, out, &mut done)?;
            end = line.offset + line.len;
            let before = done.mapped;
            match line.body {
                Body::Held(bytes) if !self.is_in(bytes) => {
                    out.write_all(bytes)?;
                    done.written.bytes += bytes.len() as u64;
                }
                Body::Held(bytes) => {
                    changed.clear();
                    let mut at = 0;
                    for range in signed(&line, |at| at as u64) {
                        let (start, stop) = (place(range.start), place(range.end));
                        self.piece(bytes, at, start, &mut changed, &mut done);
                        changed.extend_from_slice(&bytes[start..stop]);
                        at = stop;
                    }
                    self.piece(bytes, at, bytes.len(), &mut changed, &mut done);
                    out.write_all(&changed)?;
                    done.written.bytes += changed.len() as u64;
                }
                Body::Condensed(digest) => {
                    let mut at = line.offset;
                    let protected = signed(&line, |place| line.offset + digest.place(place));
                    for range in protected {
                        self.stream(file, at..range.start, out, &mut done)?;
                        copy(file, range.clone(), out, &mut done)?;
                        at = range.end;
                    }
                    self.stream(file, at..end, out, &mut done)?;
                }
            }
            if done.mapped > before {
                done.written.altered += 1;
            } else {
                done.written.kept += 1;
            }
        }
        let size = file.metadata()?.len();
        gap(file, end..size.max(end), out, &mut done)?;
        Ok(done)
    }

    /// Whether anything in a line may have to be mapped or counted.
    fn is_in(&self, bytes: &[u8]) -> bool {
        self.pairs
            .iter()
            .any(|pair| pair.old.find(bytes).is_some() || pair.new.find(bytes).is_some())
    }

    /// Appends `bytes[from..to]` with its paths mapped; the bytes around show where paths end.
    fn piece(
        &self,
        bytes: &[u8],
        from: usize,
        to: usize,
        out: &mut Vec<u8>,
        done: &mut MappedPaths,
    ) {
        let mut next: Vec<Option<usize>> =
            self.pairs.iter().map(|pair| pair.find(bytes, from, to)).collect();
        let mut at = from;
        loop {
            for (pair, next) in self.pairs.iter().zip(&mut next) {
                if next.is_some_and(|found| found < at) {
                    *next = pair.find(bytes, at, to);
                }
            }
            let found = self.pairs.iter().zip(&next);
            let first = found.filter_map(|(pair, next)| Some(((*next)?, pair)));
            let first = first
                .min_by_key(|(place, pair)| (*place, std::cmp::Reverse(pair.old.needle().len())));
            let end = first.map_or(to, |(place, _)| place);
            done.before += self.mentions(bytes, at, end);
            out.extend_from_slice(&bytes[at..end]);
            let Some((_, pair)) = first else { return };
            out.extend_from_slice(pair.new.needle());
            done.mapped += 1;
            at = end + pair.old.needle().len();
        }
    }

    /// How often the new paths are between two places.
    fn mentions(&self, bytes: &[u8], from: usize, to: usize) -> u64 {
        let mut count = 0;
        for pair in &self.pairs {
            let found = pair.new.find_iter(&bytes[from..to]).map(|at| from + at);
            let len = pair.new.needle().len();
            count += found.filter(|at| pair.is_bordered(bytes, *at..at + len)).count() as u64;
        }
        count
    }

    /// Maps a part of a line that is too long to hold.
    fn stream(
        &self,
        file: &File,
        range: Range<u64>,
        out: &mut dyn Write,
        done: &mut MappedPaths,
    ) -> crate::Result<()> {
        let longest = self.pairs.iter().map(|pair| pair.old.needle().len()).max().unwrap_or(0);
        let mut source = From::new(file, range.start).take(range.end - range.start);
        // The bytes that are not written yet, after some that are, so that borders are seen.
        let (mut bytes, mut from) = (Vec::new(), 0);
        loop {
            let before = bytes.len();
            (&mut source).take(READ_BLOCK as u64).read_to_end(&mut bytes)?;
            let is_end = bytes.len() == before;
            let mut to = if is_end {
                bytes.len()
            } else {
                bytes.len().saturating_sub(longest + CONTEXT).max(from)
            };
            // No path may lie across the cut.
            for pair in self.pairs.iter().filter(|_| !is_end) {
                let near = to.saturating_sub(longest).max(from);
                let mut found = pair.old.find_iter(&bytes[near..]).map(|at| near + at);
                let across = found.find(|at| *at < to && at + pair.old.needle().len() > to);
                to = across.unwrap_or(to);
            }
            let mut changed = Vec::with_capacity(to - from);
            self.piece(&bytes, from, to, &mut changed, done);
            out.write_all(&changed)?;
            done.written.bytes += changed.len() as u64;
            if is_end {
                return Ok(());
            }
            let keep = to.saturating_sub(CONTEXT);
            bytes.drain(..keep);
            from = to - keep;
        }
    }
}

/// How many bytes before and after a path show where it begins and ends.
const CONTEXT: usize = 8;

impl Pair {
    /// The next place of the old path.
    fn find(&self, bytes: &[u8], from: usize, to: usize) -> Option<usize> {
        let len = self.old.needle().len();
        let mut found = self.old.find_iter(bytes.get(from..to)?).map(|at| from + at);
        found.find(|at| self.is_bordered(bytes, *at..at + len))
    }

    fn is_bordered(&self, bytes: &[u8], range: Range<usize>) -> bool {
        let begins = match self.start {
            Start::Word => begins_word(&bytes[..range.start]),
            Start::Separator => {
                matches!(range.start.checked_sub(1).map(|at| bytes[at]), Some(b'/' | b'\\'))
            }
        };
        begins && ends_name(&bytes[range.end..])
    }
}

/// Whether an absolute path can begin after these bytes.
fn begins_word(before: &[u8]) -> bool {
    let Some((last, rest)) = before.split_last() else { return true };
    let is_hex = |bytes: &[u8]| bytes.iter().all(u8::is_ascii_hexdigit);
    match last {
        // The escape of a control character ends with a letter or a digit.
        b'n' | b't' | b'r' | b'b' | b'f' if rest.ends_with(b"\\") => true,
        _ if last.is_ascii_hexdigit()
            && before.len() >= 6
            && before[before.len() - 6..].starts_with(b"\\u")
            && is_hex(&before[before.len() - 4..]) =>
        {
            true
        }
        b'/' => rest.ends_with(b":/"),
        b'_' | b'.' | b'~' => false,
        _ => !last.is_ascii_alphanumeric(),
    }
}

/// Whether the name of a file or folder ends before these bytes.
fn ends_name(after: &[u8]) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-~+@%#$".contains(&byte);
    match after.first() {
        None => true,
        Some(b'.') => after.get(1).is_none_or(|next| !is_part(*next) && *next != b'.'),
        Some(byte) if byte.is_ascii() => !is_part(*byte),
        Some(_) => {
            let end = after.len().min(4);
            let text = match std::str::from_utf8(&after[..end]) {
                Ok(text) => text,
                Err(error) => {
                    std::str::from_utf8(&after[..error.valid_up_to()]).unwrap_or_default()
                }
            };
            text.chars().next().is_some_and(|letter| !letter.is_alphanumeric())
        }
    }
}

/// The ranges of thinking in a line, in order.
fn signed(line: &Line<'_>, place: impl Fn(usize) -> u64) -> Vec<Range<u64>> {
    let bytes = match line.body {
        Body::Held(bytes) => bytes,
        Body::Condensed(digest) => digest.bytes(),
    };
    let mut ranges = Vec::new();
    for entry in line.records().filter_map(|record| record.entry) {
        let Some(whole) = range_of(entry.raw(), bytes) else { continue };
        for range in signed_in(&entry) {
            let last = whole.start + range.end.max(range.start + 1) - 1;
            ranges.push(place(whole.start + range.start)..place(last) + 1);
        }
    }
    ranges.sort_by_key(|range| range.start);
    ranges
}

fn place(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

/// Copies the bytes between two lines: a newline, unless the file is damaged.
fn gap(
    file: &File,
    range: Range<u64>,
    out: &mut dyn Write,
    done: &mut MappedPaths,
) -> crate::Result<()> {
    if range.end > range.start { copy(file, range, out, done) } else { Ok(()) }
}

/// Copies a range of the file as it is.
fn copy(
    file: &File,
    range: Range<u64>,
    out: &mut dyn Write,
    done: &mut MappedPaths,
) -> crate::Result<()> {
    let mut source = From::new(file, range.start).take(range.end - range.start);
    done.written.bytes += std::io::copy(&mut source, out)?;
    Ok(())
}

#[cfg(test)]
#[path = "paths_tests.rs"]
mod tests;
