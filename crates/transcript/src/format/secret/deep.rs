//! Searches a text more thoroughly than what leaves the program in a moment: keys that are wrapped
//! over several lines or have colours in them, and secrets inside base64 or with the escapes of a
//! URL.
//!
//! Also leaves out what only looks like a key inside a long run of base64, such as an image: there,
//! any few letters occur by chance.

use std::ops::Range;

use base64::Engine as _;
use wide::u8x16;

use super::border::{Plain, begins};
use super::canon::gutter;
use super::context::{self, LENIENT};
use super::shape::{Class, Text};
use super::table::TABLE;
use super::words;
use super::{Redactor, Secret};
use crate::format::scan::block;

/// A secret in a text.
pub(super) struct Hit<'a> {
    pub(super) kind: &'a str,
    pub(super) range: Range<usize>,
    /// The secret itself, joined and decoded.
    pub(super) value: Vec<u8>,
}

/// How often base64 is decoded.
const DEPTH: usize = 2;
/// The length of the shortest run of base64 that is decoded.
const SHORTEST_RUN: usize = 24;
/// Runs of this length are data: what looks like a key within one is a coincidence.
const DATA: usize = 200;
/// Lines of base64 are this long at least, except for the last one.
const WRAPPED: usize = 56;
/// How much of a wrapped key is looked at.
const LONGEST_KEY: usize = 4 << 10;

impl Redactor {
    /// The secrets in a text, in order, without overlap.
    pub(super) fn find_deep<'a>(&'a self, member: Option<&str>, text: &str) -> Vec<Hit<'a>> {
        self.find_to(member, text, DEPTH)
    }

    /// Whether a text of this length is too short for a secret.
    pub(super) fn needs_more(&self, length: usize) -> bool {
        self.custom.is_empty() && length < context::SHORTEST
    }

    fn find_to<'a>(&'a self, member: Option<&str>, text: &str, depth: usize) -> Vec<Hit<'a>> {
        let mut hits = self.find_as_it_is(member, text, depth);
        let Some(plain) = Plain::of_colours(text.as_bytes()) else { return hits };
        let inner = String::from_utf8_lossy(&plain.text);
        let mut more = self.find_as_it_is(member, &inner, depth);
        more.retain(|hit| !hit.range.is_empty());
        for Hit { range, .. } in &mut more {
            // Codes behind the secret stay.
            *range = plain.source(range.start)..plain.source(range.end - 1) + 1;
        }
        more.retain(|hit| !is_within(&hits, &hit.range));
        hits.retain(|hit| !is_in(&more, &hit.range));
        hits.extend(more);
        hits.sort_by_key(|hit| hit.range.start);
        hits
    }

    fn find_as_it_is<'a>(&'a self, member: Option<&str>, text: &str, depth: usize) -> Vec<Hit<'a>> {
        let bytes = text.as_bytes();
        let mut anchors = Vec::new();
        let has_lines = memchr::memchr(b'\n', bytes).is_some();
        let found = self.find_in_announced(member, text, |number, start| {
            if has_lines {
                anchors.push((number, start));
            }
        });
        let mut coded: Vec<Hit<'a>> = Vec::new();
        let mut data: Vec<Range<usize>> = Vec::new();
        runs(bytes, |run| {
            if depth > 0
                && let Some(inner) = Decoded::of(bytes, &run)
            {
                let text = String::from_utf8_lossy(&inner.text);
                // What is not UTF-8 was replaced, and then offsets differ.
                let is_same = text.len() == inner.text.len();
                for hit in self.find_to(None, &text, depth - 1) {
                    let range = if is_same { inner.source(&hit.range) } else { run.clone() };
                    coded.push(Hit { range, ..hit });
                }
            } else if run.len() >= DATA {
                data.push(run);
            }
        });
        if depth > 0
            && memchr::memchr(b'%', bytes).is_some()
            && let Some(plain) = Plain::of_url(bytes)
        {
            let inner = String::from_utf8_lossy(&plain.text);
            // Escapes of ASCII do not make other bytes invalid.
            let hits = self.find_to(None, &inner, depth - 1).into_iter();
            coded.extend(hits.map(|hit| {
                let range = plain.source(hit.range.start)..plain.source(hit.range.end);
                Hit { range, ..hit }
            }));
        }
        if found.is_empty() && coded.is_empty() && anchors.is_empty() {
            return Vec::new();
        }
        let is_data = |range: &Range<usize>| {
            let next = data.partition_point(|run| run.start < range.start);
            next.checked_sub(1).is_some_and(|at| range.end <= data[at].end)
        };
        let found = found.into_iter().filter(|secret| !is_data(&secret.range));
        let found = found.map(|Secret { kind, range }| {
            let value = bytes[range.clone()].to_vec();
            Hit { kind, range, value }
        });
        let found: Vec<Hit<'a>> = found.collect();
        let mut longer: Vec<Hit<'a>> = Vec::new();
        for (number, start) in anchors {
            let is_new = longer.last().is_none_or(|last| last.range.end <= start);
            if is_new
                && let Some(hit) = wrapped(bytes, number, start, &found)
                && !self.allows(&hit.value)
            {
                longer.push(hit);
            }
        }
        // What is known by its surroundings needs no look inside.
        coded.retain(|hit| !is_in(&found, &hit.range) && !is_in(&longer, &hit.range));
        let mut hits = found;
        hits.retain(|hit| !is_in(&longer, &hit.range));
        hits.extend(longer);
        hits.extend(coded);
        hits.sort_by_key(|hit| hit.range.start);
        hits
    }
}

/// Whether one of some hits, which are in order, overlaps a range.
fn is_in(hits: &[Hit<'_>], range: &Range<usize>) -> bool {
    let next = hits.partition_point(|hit| hit.range.end <= range.start);
    hits.get(next).is_some_and(|hit| hit.range.start < range.end)
}

/// Whether one of some hits, which are in order, contains a range.
fn is_within(hits: &[Hit<'_>], range: &Range<usize>) -> bool {
    let next = hits.partition_point(|hit| hit.range.start <= range.start);
    next.checked_sub(1).is_some_and(|at| range.end <= hits[at].range.end)
}

/// A key that goes on in the next line, or behind its number in a listing: all lines but the last
/// one are equally long. If what is on the first line is a key already, the rest must look like
/// more of it; what is a secret by itself is not the rest of another.
fn wrapped<'a>(text: &[u8], number: usize, start: usize, found: &[Hit<'_>]) -> Option<Hit<'a>> {
    let anchor = &TABLE.anchors[number];
    let run = |at: usize| Class::Url.run(&text[at..text.len().min(at + LONGEST_KEY)]);
    let mut end = start + run(start);
    let next = next_line(text, end)?;
    // The border before the anchor is checked in the text itself.
    if end < start + anchor.text.len() || !begins(text, start) {
        return None;
    }
    let begin = memchr::memrchr(b'\n', &text[..start]).map_or(0, |at| at + 1);
    let width = end - (begin + lead(&text[begin..])).min(start);
    let mut joined: Vec<u8> = text[start..end].to_vec();
    // Where the lines begin: in the joined text, and in the text.
    let mut lines = vec![(0, start)];
    let mut next = Some(next);
    while let Some(at) = next.filter(|_| joined.len() < LONGEST_KEY) {
        let length = run(at);
        let line = &text[at..at + length];
        if length > width || is_in(found, &(at..at + length)) || is_assignment(line) {
            break;
        }
        lines.push((joined.len(), at));
        joined.extend_from_slice(line);
        end = at + length;
        next = if length == width { next_line(text, end) } else { None };
    }
    let is_known = is_in(found, &(start..start + 1));
    let first = lines.get(1)?.0;
    let parts =
        lines[1..].iter().zip(lines[2..].iter().map(|(from, _)| *from).chain([joined.len()]));
    let is_rest = |part: &[u8]| part.len() >= 4 && !words::reads_as_words(part);
    if is_known && !parts.clone().all(|((from, _), to)| is_rest(&joined[*from..to])) {
        return None;
    }
    let range = anchor.shape.place(&Text::new(&joined), 0..anchor.text.len());
    let range = range.filter(|range| range.end > first)?;
    let (from, source) = lines[lines.partition_point(|(from, _)| *from < range.end) - 1];
    let source = start..source + (range.end - from);
    Some(Hit { kind: anchor.kind, range: source, value: joined[range].to_vec() })
}

/// Whether a line is the next assignment of a list, and not the rest of a key.
fn is_assignment(line: &[u8]) -> bool {
    line.iter()
        .position(|byte| *byte == b'=')
        .is_some_and(|at| line[at..].iter().any(|byte| *byte != b'='))
}

/// Where the text of the next line begins, if a line ends here and goes on there.
fn next_line(text: &[u8], at: usize) -> Option<usize> {
    let rest = &text[at..];
    let ending = if rest.starts_with(b"\r\n") { 2 } else { usize::from(rest.starts_with(b"\n")) };
    if ending == 0 {
        return None;
    }
    let begin = at + ending;
    let begin = begin + lead(&text[begin..]);
    text.get(begin).filter(|byte| Class::Url.has(**byte)).map(|_| begin)
}

/// The length of the number and the signs that a line begins with.
fn lead(line: &[u8]) -> usize {
    let number = gutter(line);
    number + line[number..].iter().take(8).take_while(|byte| b"+> \t".contains(byte)).count()
}

/// The six bits that a character of base64 stands for, in both of its alphabets; 64 for others.
const SIX_BITS: [u8; 256] = {
    let mut table = [64; 256];
    let mut bits = 0;
    while bits < 64 {
        let byte = match bits {
            0..26 => b'A' + bits,
            26..52 => b'a' + bits - 26,
            52..62 => b'0' + bits - 52,
            62 => b'+',
            _ => b'/',
        };
        table[byte as usize] = bits;
        bits += 1;
    }
    table[b'-' as usize] = 62;
    table[b'_' as usize] = 63;
    table
};

fn is_base64(byte: u8) -> bool {
    SIX_BITS[usize::from(byte)] < 64
}

/// Whether sixteen characters of base64 are text.
fn begins_text(characters: &[u8]) -> bool {
    characters.as_chunks::<4>().0.iter().all(|group| {
        let bits =
            group.iter().fold(0, |bits, byte| bits << 6 | u32::from(SIX_BITS[usize::from(*byte)]));
        bits.to_be_bytes()[1..].iter().all(|byte| is_text(*byte))
    })
}

/// Calls `take` with each run of base64, which may go over several lines.
fn runs(text: &[u8], mut take: impl FnMut(Range<usize>)) {
    let mut next = next_run(text, 0);
    while let Some(from) = next {
        let mut end = from + run_length(&text[from..]);
        let mut line = end - from;
        while line >= WRAPPED {
            let rest = &text[end..];
            let skip = if rest.starts_with(b"\r\n") { 2 } else { 1 };
            if !matches!(rest.first(), Some(b'\r' | b'\n')) {
                break;
            }
            line = run_length(rest.get(skip..).unwrap_or_default());
            if line == 0 {
                break;
            }
            end += skip + line;
        }
        let signs = text[end..].iter().take(2).take_while(|byte| **byte == b'=').count();
        take(from..end + signs);
        next = next_run(text, end + 1);
    }
}

/// Where the next run begins, from an offset on.
fn next_run(text: &[u8], mut at: usize) -> Option<usize> {
    // How many characters before the block belong to a run that may go on in it.
    let mut before = 0;
    while at < text.len() {
        let known = known_in(&block::at(text, at));
        if before + known.trailing_ones() as usize >= SHORTEST_RUN {
            return Some(at - before);
        }
        // The characters that so many others follow: two, four, eight, sixteen, and eight more.
        let eight = [1, 2, 4].into_iter().fold(known, |run, places| run & run >> places);
        let begins = eight & eight >> 8 & eight >> 16;
        if begins != 0 {
            return Some(at + begins.trailing_zeros() as usize);
        }
        before = known.leading_ones() as usize;
        at += block::MANY;
    }
    None
}

/// The characters of base64, as one bit each.
fn known_in(block: &[u8; block::MANY]) -> u64 {
    let mut known = 0;
    for (number, bytes) in block.as_chunks::<16>().0.iter().enumerate() {
        let bytes = u8x16::new(*bytes);
        let is = |byte: u8| bytes.simd_eq(u8x16::splat(byte));
        let within = |bytes: u8x16, first: u8, last: u8| {
            bytes.simd_eq(bytes.max(u8x16::splat(first)).min(u8x16::splat(last)))
        };
        let letters = within(bytes | u8x16::splat(0x20), b'a', b'z');
        // A slash stands right before the digits.
        let found = letters | within(bytes, b'/', b'9') | is(b'+') | is(b'-') | is(b'_');
        known |= u64::from(found.to_bitmask()) << (number * 16);
    }
    known
}

fn run_length(text: &[u8]) -> usize {
    text.iter().take_while(|byte| is_base64(**byte)).count()
}

/// Text that was encoded in base64.
struct Decoded {
    text: Vec<u8>,
    /// The offset of the character that each group of four begins with.
    groups: Vec<usize>,
    end: usize,
}

impl Decoded {
    /// Decodes a run, if it is text.
    fn of(text: &[u8], run: &Range<usize>) -> Option<Decoded> {
        // A path or a name may be glued to the front.
        let skip = (0..4).find(|skip| begins_text(&text[run.start + skip..][..16]))?;
        let places = run.clone().filter(|at| is_base64(text[*at])).skip(skip);
        let places: Vec<usize> = places.collect();
        let characters: Vec<u8> = places.iter().map(|at| standard(text[*at])).collect();
        // A run of one more character than whole groups have is cut off.
        let count = characters.len() - usize::from(characters.len() % 4 == 1);
        let decoded = LENIENT.decode(&characters[..count]).ok()?;
        let readable = decoded.iter().filter(|byte| is_text(**byte) || **byte >= 0x80).count();
        (readable * 10 >= decoded.len() * 9).then(|| Decoded {
            text: decoded,
            groups: places.into_iter().step_by(4).collect(),
            end: run.end,
        })
    }

    /// The characters that encode a range: whole groups.
    fn source(&self, range: &Range<usize>) -> Range<usize> {
        let start = self.groups.get(range.start / 3).copied().unwrap_or(self.end);
        let end = self.groups.get(range.end.div_ceil(3)).copied().unwrap_or(self.end);
        start..end.max(start)
    }
}

fn standard(byte: u8) -> u8 {
    match byte {
        b'-' => b'+',
        b'_' => b'/',
        byte => byte,
    }
}

fn is_text(byte: u8) -> bool {
    byte.is_ascii_graphic() || b" \t\r\n".contains(&byte)
}

#[cfg(test)]
#[path = "deep_tests.rs"]
mod tests;
