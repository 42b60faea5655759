//! Text that was encoded in base64: runs of its characters, which may go over several lines, and
//! what they say.
//!
//! Invariants: every character of a run that is decoded knows its place; what is not text is not
//! decoded, because in other data any few letters occur by chance.

use std::ops::Range;

use base64::Engine as _;
use wide::u8x16;

use super::context::LENIENT;
use super::lines::next_line;
use super::plain::Plain;
use crate::format::scan::block;

/// The length of the shortest run that is decoded.
const SHORTEST_RUN: usize = 24;
/// Lines of base64 are this long, except for the last one. Shorter lines have nothing else on them.
const WRAPPED: usize = 56;
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

fn six_bits(byte: u8) -> u8 {
    SIX_BITS[usize::from(byte)]
}

fn is_base64(byte: u8) -> bool {
    six_bits(byte) < 64
}

/// What a run of base64 says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    /// Text, one byte after the other.
    Text,
    /// UTF-16, whose letters are at even or at odd offsets.
    Wide { first: usize },
}

/// What sixteen characters of base64 begin; `None` if it is no text.
fn coding(characters: &[u8]) -> Option<Coding> {
    let mut bytes = [0; 12];
    for (group, to) in characters.as_chunks::<4>().0.iter().zip(bytes.as_chunks_mut::<3>().0) {
        let bits = group.iter().fold(0, |bits, byte| bits << 6 | u32::from(six_bits(*byte)));
        to.copy_from_slice(&bits.to_be_bytes()[1..]);
    }
    if bytes.iter().all(|byte| is_text(*byte)) {
        return Some(Coding::Text);
    }
    let is_wide = |first: usize| {
        let is_half = |(at, byte): (usize, &u8)| match at % 2 {
            half if half == first => is_text(*byte),
            _ => *byte == 0,
        };
        bytes.iter().enumerate().all(is_half)
    };
    if let Some(first) = (0..2).find(|first| is_wide(*first)) {
        return Some(Coding::Wide { first });
    }
    // Letters of other languages; the last one may be cut off.
    let is_known = bytes.iter().all(|byte| is_text(*byte) || *byte >= 0x80);
    let is_whole =
        || std::str::from_utf8(&bytes).map_or_else(|bad| bad.error_len().is_none(), |_| true);
    (is_known && is_whole()).then_some(Coding::Text)
}

/// Calls `take` with each run of base64: its lines.
pub(super) fn runs(text: &[u8], mut take: impl FnMut(&[Range<usize>])) {
    let mut lines: Vec<Range<usize>> = Vec::new();
    let mut next = next_run(text, 0);
    while let Some(from) = next {
        let mut line = from..from + run_length(&text[from..]);
        lines.clear();
        while let Some(begin) = next_line(text, line.end).filter(|_| line.len() >= SHORTEST_RUN) {
            let more = begin..begin + run_length(&text[begin..]);
            // A line that is not full is the last one.
            let is_full =
                line.len() >= WRAPPED || more.len() <= line.len() && ends_line(text, more.end);
            if more.is_empty() || !is_full {
                break;
            }
            lines.push(std::mem::replace(&mut line, more));
        }
        let signs = text[line.end..].iter().take(2).take_while(|byte| **byte == b'=').count();
        line.end += signs;
        next = next_run(text, line.end + 1);
        lines.push(line);
        take(&lines);
    }
}

/// Whether a line, or the text, ends there, but for padding.
fn ends_line(text: &[u8], at: usize) -> bool {
    let rest = &text[at..];
    let rest = &rest[rest.iter().take(2).take_while(|byte| **byte == b'=').count()..];
    matches!(rest.first(), None | Some(b'\n' | b'\r' | b'\\' | b'"'))
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
pub(super) struct Decoded {
    pub(super) text: Vec<u8>,
    /// The offset of the character that each group of four begins with.
    groups: Vec<usize>,
    end: usize,
    coding: Coding,
}

impl Decoded {
    /// Decodes a run, if it is text.
    pub(super) fn of(text: &[u8], lines: &[Range<usize>]) -> Option<Decoded> {
        let first = lines.first()?;
        // A path or a name may be glued to the front.
        let begins = |skip: usize| {
            let characters = text[first.clone()].get(skip..skip + 16)?;
            Some((skip, coding(characters)?))
        };
        let (skip, coding) = (0..4).find_map(begins)?;
        let places = lines.iter().flat_map(Range::clone).filter(|at| is_base64(text[*at]));
        let places: Vec<usize> = places.skip(skip).collect();
        let characters: Vec<u8> = places.iter().map(|at| standard(text[*at])).collect();
        // A run of one more character than whole groups have is cut off.
        let count = characters.len() - usize::from(characters.len() % 4 == 1);
        let mut decoded = LENIENT.decode(&characters[..count]).ok()?;
        if let Coding::Wide { first } = coding {
            decoded = Plain::of_wide(&decoded, first).text;
        }
        let readable = decoded.iter().filter(|byte| is_text(**byte) || **byte >= 0x80).count();
        (readable * 10 >= decoded.len() * 9).then(|| Decoded {
            text: decoded,
            groups: places.into_iter().step_by(4).collect(),
            end: lines.last().map_or(first.end, |last| last.end),
            coding,
        })
    }

    /// The characters that encode a range: whole groups.
    pub(super) fn source(&self, range: &Range<usize>) -> Range<usize> {
        let byte = |at: usize| match self.coding {
            Coding::Text => at,
            Coding::Wide { first } => first + 2 * at,
        };
        let start = self.groups.get(byte(range.start) / 3).copied().unwrap_or(self.end);
        let end = self.groups.get(byte(range.end).div_ceil(3)).copied().unwrap_or(self.end);
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
#[path = "coded_tests.rs"]
mod tests;
