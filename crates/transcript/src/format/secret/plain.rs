//! Parts of a text without what stands in the way of rules: escapes are decoded, or left out.
//!
//! Invariants: every byte knows which bytes of the source it stands for; texts are as long as what
//! they are made of at most; parts of one text do not overlap, and are in order.

use std::borrow::Cow;
use std::ops::Range;

use super::border::{colour, printable};
use super::wrap::Wrap;

/// A part of a text, and a map from it to its source.
#[derive(Debug, Default)]
pub(super) struct Plain {
    pub(super) text: Vec<u8>,
    pieces: Vec<Stretch>,
    /// It differs from its source in more than letters and digits.
    has_signs: bool,
}

/// Bytes that come from one place: an offset in the text, one in the source, and how many bytes of
/// the source each of them stands for.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    at: usize,
    source: usize,
    width: usize,
}

/// What stands for something else: where, and for which byte; `None` if it is left out.
pub(super) type Escape = (Range<usize>, Option<u8>);

impl Plain {
    /// Appends bytes of the source.
    fn copy(&mut self, source: &[u8], range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        self.pieces.push(Stretch { at: self.text.len(), source: range.start, width: 1 });
        self.text.extend_from_slice(&source[range]);
    }

    fn put(&mut self, (range, byte): &Escape) {
        if let Some(byte) = *byte {
            let (at, source) = (self.text.len(), range.start);
            self.pieces.push(Stretch { at, source, width: range.len() });
            self.text.push(byte);
        }
        self.has_signs |= byte.is_none_or(|byte| !byte.is_ascii_alphanumeric());
    }

    /// UTF-16 as a text of one byte per character: every second byte, from `first` on.
    pub(super) fn of_wide(source: &[u8], first: usize) -> Plain {
        let text: Vec<u8> = source.iter().skip(first).step_by(2).copied().collect();
        let piece = Stretch { at: 0, source: first, width: 2 };
        Plain { text, pieces: vec![piece], has_signs: true }
    }

    /// The same if a text is UTF-16: nearly all of one half of its bytes are zeros.
    pub(super) fn of_wide_text(source: &[u8]) -> Option<Plain> {
        memchr::memchr(0, &source[..source.len().min(WIDE)])?;
        let zeros = |first: usize| source.iter().skip(first).step_by(2).filter(|byte| **byte == 0);
        let many = source.len() / 2 / 10 * 9;
        let first = (0..2).find(|first| zeros(1 - first).count() > many.max(8))?;
        Some(Plain::of_wide(source, first))
    }

    /// Whether it was made of all of a text.
    pub(super) fn is_all_of(&self, source: &[u8]) -> bool {
        let last = self.text.len();
        last > 0 && self.source(&(0..last)) == (0..source.len())
    }

    /// The range of the source that a range, which is not empty, stands for.
    pub(super) fn source(&self, range: &Range<usize>) -> Range<usize> {
        let (first, last) = (self.piece(range.start), self.piece(range.end - 1));
        let start = |piece: Stretch, at: usize| piece.source + (at - piece.at) * piece.width;
        start(first, range.start)..start(last, range.end - 1) + last.width
    }

    fn piece(&self, at: usize) -> Stretch {
        let after = self.pieces.partition_point(|piece| piece.at <= at);
        self.pieces[after - 1]
    }

    /// The text as a string of the same length.
    pub(super) fn to_str(&self) -> Cow<'_, str> {
        same_length(&self.text)
    }

    /// A whole text with the escapes (`\u0067`, nested to any depth) of printable ASCII decoded;
    /// `None` if there are none.
    pub(super) fn of_letters(source: &[u8]) -> Option<Plain> {
        let mut plain = Plain::default();
        let mut done = 0;
        for at in memchr::memmem::find_iter(source, b"\\u00") {
            let Some(byte) = printable(source, at + 4).filter(|_| at >= done) else { continue };
            let slashes = source[done..at].iter().rev().take_while(|byte| **byte == b'\\').count();
            plain.copy(source, done..at - slashes);
            plain.put(&(at - slashes..at + 6, Some(byte)));
            done = at + 6;
        }
        if done == 0 {
            return None;
        }
        plain.copy(source, done..source.len());
        Some(plain)
    }
}

/// A text of the same length, in which bytes that are not UTF-8 are signs.
pub(super) fn same_length(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = simdutf8::basic::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let sign = |byte: &u8| if byte.is_ascii() { char::from(*byte) } else { '?' };
    Cow::Owned(bytes.iter().map(sign).collect())
}

/// How much of a text is looked at before and after what is decoded. Rules look at less, except for
/// private keys, which have escapes in every line.
const BEFORE: usize = 512;
const AFTER: usize = 1 << 10;
/// If a text is UTF-16, one of its first bytes is zero.
const WIDE: usize = 256;
/// A part begins and ends at a space that is not farther away than this.
const SPACE: usize = 256;

/// The parts of a text around these escapes, which are in order, without them.
pub(super) fn parts(source: &[u8], escapes: &[Escape]) -> Vec<Plain> {
    let mut parts: Vec<Plain> = Vec::new();
    let mut part = Plain::default();
    // How much was copied, and where the part ends unless another escape is in it.
    let (mut done, mut end) = (0, 0);
    for escape in escapes {
        let Range { start, end: after } = escape.0;
        if start < done {
            continue;
        }
        if start > end {
            part.copy(source, done..end);
            parts.push(std::mem::take(&mut part));
            done = begin_of(source, start.saturating_sub(BEFORE)).clamp(end, start);
        }
        part.copy(source, done..start);
        part.put(escape);
        done = after;
        end = end_of(source, after + AFTER).max(after);
    }
    part.copy(source, done..end.max(done));
    parts.push(part);
    parts.retain(|part| part.has_signs && !part.text.is_empty());
    parts
}

/// The first space from an offset on, so that no word is cut; the offset itself if there is none.
fn begin_of(source: &[u8], at: usize) -> usize {
    if at == 0 {
        return 0;
    }
    let near = &source[at..source.len().min(at + SPACE)];
    at + near.iter().position(u8::is_ascii_whitespace).unwrap_or(0)
}

/// The same for where a part ends.
fn end_of(source: &[u8], at: usize) -> usize {
    if at >= source.len() {
        return source.len();
    }
    begin_of(source, at)
}

/// What is written in another way: with the escapes of a URL (`%3A`) or of HTML (`&quot;`), slashes
/// as JSON may have them (`\/`), and the codes that a terminal obeys, which stand for nothing.
pub(super) fn escapes(source: &[u8]) -> Vec<Escape> {
    let mut found: Vec<Escape> = Vec::new();
    for at in memchr::memchr3_iter(b'%', b'&', 0x1b, source) {
        let rest = &source[at + 1..];
        let escape = match source[at] {
            b'%' => printable(source, at + 1).map(|byte| (3, Some(byte))),
            b'&' => entity(rest).map(|(length, byte)| (1 + length, Some(byte))),
            _ => colour(rest).map(|length| (1 + length, None)),
        };
        found.extend(escape.map(|(length, byte)| (at..at + length, byte)));
    }
    let before = found.len();
    for at in memchr::memchr_iter(b'\\', source) {
        if source.get(at + 1) != Some(&b'/') {
            continue;
        }
        let slashes = source[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
        found.push((at - slashes..at + 2, Some(b'/')));
    }
    if before > 0 && found.len() > before {
        found.sort_by_key(|(range, _)| range.start);
    }
    found
}

/// The length of the entity that a text begins with, without its `&`, and what it stands for.
fn entity(text: &[u8]) -> Option<(usize, u8)> {
    /// Longer ones are no ASCII.
    const LONGEST: usize = 7;
    const NAMES: [(&[u8], u8); 5] =
        [(b"quot", b'"'), (b"amp", b'&'), (b"lt", b'<'), (b"gt", b'>'), (b"apos", b'\'')];
    let first = *text.first().filter(|byte| b"#qalg".contains(byte))?;
    let end = text.iter().take(LONGEST).position(|byte| *byte == b';')?;
    let name = &text[..end];
    let byte = if first == b'#' {
        let number = std::str::from_utf8(&name[1..]).ok()?;
        let byte = match number.strip_prefix(['x', 'X']) {
            Some(digits) => u8::from_str_radix(digits, 16),
            None => number.parse(),
        };
        byte.ok().filter(|byte| matches!(byte, 0x20..=0x7e))?
    } else {
        NAMES.iter().find(|(known, _)| *known == name)?.1
    };
    Some((end + 1, byte))
}

/// Some lines of a text with those joined that may have been one.
#[derive(Debug)]
pub(super) struct Joined {
    pub(super) plain: Plain,
    /// Where in the text lines were joined.
    pub(super) joints: Vec<usize>,
}

impl Joined {
    /// The parts of a text around some breaks, which are in order, with so many bytes around each.
    pub(super) fn of(source: &[u8], wraps: &[Wrap], around: usize) -> Vec<Joined> {
        let mut all: Vec<Joined> = Vec::new();
        // How much was copied, and where the part ends.
        let (mut done, mut end) = (0, 0);
        let mut part = Joined { plain: Plain::default(), joints: Vec::new() };
        for wrap in wraps {
            if wrap.end < done {
                continue;
            }
            let near = wrap.line.max(wrap.end.saturating_sub(around));
            if near >= end {
                part.plain.copy(source, done..end);
                let empty = Joined { plain: Plain::default(), joints: Vec::new() };
                all.push(std::mem::replace(&mut part, empty));
                done = if near > wrap.line { begin_of(source, near) } else { near };
                done = done.min(wrap.end);
            }
            part.plain.copy(source, done..wrap.end);
            part.joints.push(part.plain.text.len());
            done = wrap.begin;
            let rest = &source[done..source.len().min(done + around)];
            end = done + memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        }
        part.plain.copy(source, done..end.max(done));
        all.push(part);
        all.retain(|part| !part.joints.is_empty());
        all
    }
}
