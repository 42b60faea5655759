//! A text without what can split a secret: escapes of any depth, line breaks, the line numbers of a
//! listing, signs of a diff, colours of a terminal, quotes and all other punctuation.
//!
//! Two texts that show the same secret, in whatever way, have the same canonical bytes there.
//! Invariant: every canonical byte knows the whole range of the source that it stands for, so a
//! range of canonical bytes never begins or ends within an escape.

use std::ops::Range;

use super::border::colour;
use super::lines::gutter;

/// What a code begins with that a terminal obeys.
const ESCAPE: u8 = 0x1b;

/// How ambiguous parts of a text are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escaping {
    /// `\n` is a line break, `%2B` is a plus, and a number at the start of a line is its number.
    Escapes,
    /// `\n` is a backslash and a letter, and all numbers are text.
    Letters,
    /// `\n` is a line break, and all numbers are text.
    Numbers,
}

pub(super) const ESCAPINGS: [Escaping; 3] =
    [Escaping::Escapes, Escaping::Letters, Escaping::Numbers];

/// The canonical bytes of a text.
#[derive(Debug, Default)]
pub(super) struct Canon {
    pub(super) bytes: Vec<u8>,
    /// Where runs of bytes come from: an offset in `bytes`, and the offset in the source. In a run,
    /// each byte stands for one byte.
    runs: Vec<(usize, usize)>,
    /// Bytes that stand for an escape: their offset, and where the escape ends.
    escapes: Vec<(usize, usize)>,
}

impl Canon {
    pub(super) fn of(text: &[u8], reading: Escaping) -> Canon {
        let mut canon = Canon::default();
        let mut at = 0;
        while at < text.len() {
            at = canon.step(text, at, reading);
        }
        canon
    }

    /// Takes what is at an offset, and returns the offset after it.
    fn step(&mut self, text: &[u8], at: usize, reading: Escaping) -> usize {
        match text[at] {
            // Lines of a box.
            0xe2 if matches!(text.get(at + 1), Some(0x94 | 0x95)) => at + 3,
            byte if byte.is_ascii_alphanumeric() || byte >= 0x80 => {
                self.push(byte, at);
                at + 1
            }
            b'\\' => self.escape(text, at, reading),
            ESCAPE => at + 1 + colour(&text[at + 1..]).unwrap_or(0),
            b'\n' => after_break(text, at + 1, reading),
            b'%' if reading != Escaping::Letters => match hex(text, at + 1, 2) {
                Some(byte @ 0x20..0x7f) => {
                    self.push_escape(u8::try_from(byte).unwrap_or(b' '), at, at + 3);
                    at + 3
                }
                _ => at + 1,
            },
            _ => at + 1,
        }
    }

    fn escape(&mut self, text: &[u8], at: usize, reading: Escaping) -> usize {
        let letter = at + text[at..].iter().take_while(|byte| **byte == b'\\').count();
        let unit = if text.get(letter) == Some(&b'u') { hex(text, letter + 1, 4) } else { None };
        if let Some(unit) = unit {
            let end = letter + 5;
            match unit {
                0x0a | 0x0d => return after_break(text, end, reading),
                0x1b => return end + colour(&text[end..]).unwrap_or(0),
                0x80.. => {
                    // Compared as it is: no secret that is known by its form has these.
                    let character = char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER);
                    for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                        self.push_escape(byte, at, end);
                    }
                }
                unit => self.push_escape(u8::try_from(unit).unwrap_or(b' '), at, end),
            }
            return end;
        }
        match text.get(letter) {
            Some(b'n' | b'r') if reading != Escaping::Letters => {
                after_break(text, letter + 1, reading)
            }
            Some(b't' | b'b' | b'f') if reading != Escaping::Letters => letter + 1,
            _ => letter,
        }
    }

    fn push(&mut self, byte: u8, source: usize) {
        let at = self.bytes.len();
        let is_next = self.runs.last().is_some_and(|(start, from)| from + (at - start) == source);
        if !is_next {
            self.runs.push((at, source));
        }
        self.bytes.push(byte);
    }

    fn push_escape(&mut self, byte: u8, start: usize, end: usize) {
        if !byte.is_ascii_alphanumeric() && byte < 0x80 {
            return;
        }
        let at = self.bytes.len();
        self.runs.push((at, start));
        self.escapes.push((at, end));
        self.bytes.push(byte);
    }

    /// The range of the source that a range of canonical bytes, which is not empty, stands for.
    pub(super) fn source(&self, range: Range<usize>) -> Range<usize> {
        let last = range.end - 1;
        let escape = self.escapes.binary_search_by_key(&last, |(at, _)| *at);
        let end = escape.map_or_else(|_| self.start(last) + 1, |found| self.escapes[found].1);
        self.start(range.start)..end
    }

    fn start(&self, at: usize) -> usize {
        let run = self.runs.partition_point(|(start, _)| *start <= at).saturating_sub(1);
        self.runs.get(run).map_or(0, |(start, source)| source + (at - start))
    }
}

/// The offset after a line break and the number of the line that it begins.
fn after_break(text: &[u8], at: usize, reading: Escaping) -> usize {
    if reading != Escaping::Escapes {
        return at;
    }
    at + gutter(&text[at..])
}

/// The number that some hexadecimal digits are.
fn hex(text: &[u8], at: usize, count: usize) -> Option<u32> {
    let digits = text.get(at..at + count)?;
    digits.iter().try_fold(0, |number, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(number << 4 | digit)
    })
}
