//! A line that is too long to hold, condensed to what identifies it.
//!
//! Long strings lose their middle; if there is still too much, deep containers lose what is in them.
//! The result is read like any line: envelope, ids and kinds of blocks are all there, damage shows as
//! damage, and [`Digest::place`] leads back to the file. Invariant: what is kept is the bytes of the
//! line in their order, and memory is bounded by `limit::DIGEST` for each of three depths.
//!
//! Where a record was cut off inside a string, quotes change sides: what is text looks like structure.
//! A byte that structure cannot have is taken as the sign to change sides again.

use std::io;

use memchr::memchr2;

use crate::limit::{DIGEST, KEPT_END, KEPT_FRONT};

/// How much of a string is held before it is cut.
const LONG_TEXT: usize = 16 * KEPT_FRONT;

/// A condensed line.
#[derive(Debug)]
pub struct Digest {
    side: Side,
    /// The end so far of the string that is being read, and how many bytes before it are gone.
    text: Vec<u8>,
    dropped: usize,
    /// The front of that string was kept already.
    long: bool,
    /// Length so far of the run of NUL bytes that is being read.
    nuls: usize,
    depth: usize,
    /// The same line with containers kept to different depths, deepest first.
    tiers: [Tier; 3],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Structure,
    Text,
    /// Behind a backslash in text.
    Escape,
}

#[derive(Debug)]
struct Tier {
    /// Containers nested deeper than this are emptied.
    deepest: usize,
    kept: Vec<u8>,
    /// Places of `kept`, and how many bytes of the line are missing before each.
    cuts: Vec<(usize, usize)>,
    missing: usize,
    full: bool,
}

impl Default for Digest {
    fn default() -> Self {
        // A record is depth 1, its message 2, the content 3, a block 4, a result's content 5, a block in
        // it 6, the source of an image there 7.
        let tier =
            |deepest| Tier { deepest, kept: Vec::new(), cuts: Vec::new(), missing: 0, full: false };
        Digest {
            side: Side::Structure,
            text: Vec::new(),
            dropped: 0,
            long: false,
            nuls: 0,
            depth: 0,
            tiers: [tier(usize::MAX), tier(7), tier(1)],
        }
    }
}

impl Digest {
    /// The condensed line.
    pub fn bytes(&self) -> &[u8] {
        &self.best().kept
    }

    /// Where a byte of the condensed line stands in the line.
    pub fn place(&self, at: usize) -> u64 {
        let cuts = &self.best().cuts;
        let before = cuts.partition_point(|cut| cut.0 <= at);
        let missing = before.checked_sub(1).map_or(0, |last| cuts[last].1);
        (at + missing) as u64
    }

    /// Whether even the flattest form is too long.
    pub(super) fn overflowed(&self) -> bool {
        self.best().full
    }

    fn best(&self) -> &Tier {
        let [deep, middle, flat] = &self.tiers;
        [deep, middle].into_iter().find(|tier| !tier.full).unwrap_or(flat)
    }

    /// Takes the next bytes of the line.
    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        while let Some(&byte) = bytes.first() {
            let used = match self.side {
                Side::Text => self.in_text(bytes),
                Side::Escape => {
                    self.content(&bytes[..1]);
                    self.side = Side::Text;
                    1
                }
                Side::Structure => {
                    self.structure(byte);
                    1
                }
            };
            bytes = &bytes[used..];
        }
    }

    /// The line has ended.
    pub(super) fn finish(&mut self) {
        self.end_of_text();
    }

    /// Text up to a quote or a backslash: how many bytes were used.
    fn in_text(&mut self, bytes: &[u8]) -> usize {
        let found = memchr2(b'"', b'\\', bytes);
        let end = found.unwrap_or(bytes.len());
        self.content(&bytes[..end]);
        match found.map(|at| bytes[at]) {
            Some(b'"') => {
                self.end_of_text();
                self.keep(b"\"");
                self.side = Side::Structure;
                end + 1
            }
            Some(_) => {
                self.content(b"\\");
                self.side = Side::Escape;
                end + 1
            }
            None => end,
        }
    }

    /// Text of a string: held until it is known to be long.
    fn content(&mut self, text: &[u8]) {
        self.text.extend_from_slice(text);
        if self.text.len() > LONG_TEXT {
            self.cut();
        }
    }

    /// Keeps the front of a long text and lets go of all but its end.
    fn cut(&mut self) {
        if !self.long {
            self.long = true;
            let end = units(&self.text).take_while(|end| *end <= KEPT_FRONT).last().unwrap_or(0);
            let front: Vec<u8> = self.text.drain(..end).collect();
            self.keep(&front);
        }
        let excess = self.text.len().saturating_sub(KEPT_END);
        let end = units(&self.text).find(|end| *end >= excess).unwrap_or_default();
        // What JSON does not allow must not vanish with the text around it.
        if let Some(bad) = self.text[..end].iter().position(|byte| *byte < 0x20) {
            let byte = self.text[bad];
            self.skip(self.dropped + bad);
            self.keep(&[byte]);
            self.text.drain(..=bad);
            self.dropped = end - bad - 1;
            self.text.drain(..self.dropped);
            return;
        }
        self.text.drain(..end);
        self.dropped += end;
    }

    fn end_of_text(&mut self) {
        if self.text.len() > 2 * KEPT_FRONT {
            self.cut();
        }
        self.skip(self.dropped);
        self.dropped = 0;
        self.long = false;
        let text = std::mem::take(&mut self.text);
        self.keep(&text);
        self.text = text;
        self.text.clear();
    }

    fn structure(&mut self, byte: u8) {
        self.nuls = if byte == 0 { self.nuls + 1 } else { 0 };
        match byte {
            b'"' => {
                self.keep(b"\"");
                self.side = Side::Text;
            }
            b'{' | b'[' => {
                self.keep(&[byte]);
                self.depth += 1;
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                self.keep(&[byte]);
            }
            0 if self.nuls > KEPT_FRONT => self.skip(1),
            0 => {
                // Behind NUL bytes a record may begin.
                self.depth = 0;
                self.keep(&[byte]);
            }
            b',' | b':' | b' ' | b'\t' | b'\r' | b'0'..=b'9' | b'+' | b'-' | b'.' | b'E' => {
                self.keep(&[byte]);
            }
            b't' | b'r' | b'u' | b'e' | b'f' | b'a' | b'l' | b's' | b'n' => self.keep(&[byte]),
            _ => {
                self.side = Side::Text;
                self.depth = 1;
                self.content(&[byte]);
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let depth = self.depth;
        for tier in &mut self.tiers {
            tier.keep(bytes, depth);
        }
    }

    fn skip(&mut self, count: usize) {
        for tier in &mut self.tiers {
            tier.missing += count;
        }
    }
}

impl io::Write for Digest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.push(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Tier {
    fn keep(&mut self, bytes: &[u8], depth: usize) {
        if self.full {
            return;
        }
        if depth > self.deepest {
            self.missing += bytes.len();
            return;
        }
        if self.cuts.last().map_or(0, |cut| cut.1) < self.missing {
            self.cuts.push((self.kept.len(), self.missing));
        }
        self.kept.extend_from_slice(bytes);
        if self.kept.len() + self.cuts.len() * size_of::<(usize, usize)>() > DIGEST {
            self.full = true;
            self.kept = Vec::new();
            self.cuts = Vec::new();
        }
    }
}

/// The ends of the characters and escapes of a text that begins with a whole one.
fn units(text: &[u8]) -> impl Iterator<Item = usize> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let first = *text.get(at)?;
        at += match (first, text.get(at + 1)) {
            (b'\\', Some(b'u')) => 6,
            (b'\\', _) => 2,
            _ => 1,
        };
        // Bytes that go on with a character belong to it.
        while text.get(at).is_some_and(|byte| byte & 0xc0 == 0x80) {
            at += 1;
        }
        at = at.min(text.len());
        Some(at)
    })
}
