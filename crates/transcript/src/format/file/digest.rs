//! Condenses a line that is too long to keep in memory to what identifies it.
//!
//! Long strings lose their middle. If that is still too much, containers lose their contents: first
//! deep ones, then all except the message, then those in blocks, and at last all. A line with many
//! records is returned in parts. The result is read like any line: the envelope and the ids are
//! there, so are the kinds of blocks in all forms except the last, damage shows as damage, and
//! [`Digest::place`] leads back to the file. Invariants: what is kept are bytes of the line in
//! their order; what JSON does not allow in a string is kept; memory is bounded by `limit::DIGEST`
//! for each of five forms.
//!
//! After a record that was cut off inside a string, the quotes are off by one: text looks like
//! structure. A byte that cannot be in structure is taken as the sign to switch back.

use std::io;
use std::ops::Range;

use memchr::memchr2;

use crate::format::json::Json;
use crate::format::limit::{DIGEST, KEPT_END, KEPT_FRONT, LONG_TEXT};

/// A condensed line.
#[derive(Debug)]
pub struct Digest {
    within: Within,
    /// The last bytes so far of the string that is being read, and how many bytes before them were
    /// dropped.
    text: Vec<u8>,
    dropped: usize,
    /// The front of that string was kept already.
    long: bool,
    /// The kind of bytes that are being read outside of strings, and how many there were so far.
    run: (ByteRun, usize),
    depth: usize,
    /// The last string at the top level of the record was `message`: a container that begins now is
    /// the message.
    message_next: bool,
    /// The container that is open at the top level of the record is its message.
    in_message: bool,
    /// The same line in forms that keep less and less.
    tiers: [Tier; 5],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Within {
    Structure,
    Text,
    /// After a backslash in text.
    Escape,
}

/// Kinds of bytes that are shortened where many follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByteRun {
    Nul,
    Space,
    Digit,
    Other,
}

/// One form of the line.
#[derive(Debug, Default)]
struct Tier {
    /// Containers nested deeper than this are emptied.
    deepest: usize,
    /// Containers at the top level of the record are emptied too, except its message.
    message_only: bool,
    kept: Vec<u8>,
    /// Offsets in `kept`, and how many bytes of the line are missing before each.
    cuts: Vec<(usize, usize)>,
    missing: usize,
    full: bool,
}

impl Default for Digest {
    fn default() -> Self {
        let tier = |deepest, message_only| Tier { deepest, message_only, ..Tier::default() };
        Digest {
            within: Within::Structure,
            text: Vec::new(),
            dropped: 0,
            long: false,
            run: (ByteRun::Other, 0),
            depth: 0,
            message_next: false,
            in_message: false,
            // A record is depth 1, its message 2, the content 3, a block 4, the content of a result
            // 5, a block in that 6, the source of an image there 7.
            tiers: [
                tier(usize::MAX, false),
                tier(7, false),
                tier(7, true),
                tier(4, true),
                tier(1, true),
            ],
        }
    }
}

impl Digest {
    /// The bytes of the condensed line.
    pub fn bytes(&self) -> &[u8] {
        &self.best().kept
    }

    /// The offset in the line of a byte of the condensed line.
    pub fn place(&self, at: usize) -> u64 {
        let cuts = &self.best().cuts;
        let before = cuts.partition_point(|cut| cut.0 <= at);
        let missing = before.checked_sub(1).map_or(0, |last| cuts[last].1);
        (at + missing) as u64
    }

    /// Whether even the shortest form is too long.
    pub(super) fn overflowed(&self) -> bool {
        self.best().full
    }

    fn best(&self) -> &Tier {
        let [others @ .., last] = &self.tiers;
        others.iter().find(|tier| !tier.full).unwrap_or(last)
    }

    /// Takes the next bytes of the line, and returns how many. It takes fewer than all of them when
    /// it stops between two records because the digest is already half full.
    pub(super) fn push(&mut self, line: &[u8]) -> usize {
        let mut bytes = line;
        while let Some(&byte) = bytes.first() {
            let used = match self.within {
                Within::Text => self.in_text(bytes),
                Within::Escape => {
                    self.content(&bytes[..1]);
                    self.within = Within::Text;
                    1
                }
                Within::Structure => {
                    self.structure(byte);
                    1
                }
            };
            bytes = &bytes[used..];
            let between = byte == b'}' && self.depth == 0 && self.within == Within::Structure;
            if between && self.tiers[0].is_half_full() && !bytes.trim_ascii().is_empty() {
                break;
            }
        }
        line.len() - bytes.len()
    }

    /// The line has ended.
    pub(super) fn finish(&mut self) {
        self.end_of_text();
        self.tiers.iter_mut().for_each(Tier::note_cut);
    }

    /// Takes text up to a quote or a backslash, and returns how many bytes.
    fn in_text(&mut self, bytes: &[u8]) -> usize {
        let found = memchr2(b'"', b'\\', bytes);
        let end = found.unwrap_or(bytes.len());
        self.content(&bytes[..end]);
        match found.map(|at| bytes[at]) {
            Some(b'"') => {
                self.end_of_text();
                self.keep(b"\"");
                self.within = Within::Structure;
                end + 1
            }
            Some(_) => {
                self.content(b"\\");
                self.within = Within::Escape;
                end + 1
            }
            None => end,
        }
    }

    /// Takes text of a string, which is held back until it is known to be long.
    fn content(&mut self, text: &[u8]) {
        self.text.extend_from_slice(text);
        if self.text.len() > LONG_TEXT {
            self.cut();
        }
    }

    /// Keeps the front of a long text, and drops the rest except its end.
    fn cut(&mut self) {
        if !self.long {
            self.long = true;
            let end = units(&self.text).take_while(|end| *end <= KEPT_FRONT).last().unwrap_or(0);
            let front: Vec<u8> = self.text.drain(..end).collect();
            self.keep(&front);
        }
        let excess = self.text.len().saturating_sub(KEPT_END);
        let end = units(&self.text).find(|end| *end >= excess).unwrap_or_default();
        let mut done = 0;
        for bad in first_bad(&self.text[..end]) {
            let bytes = self.text[bad.clone()].to_vec();
            self.skip(self.dropped + bad.start - done);
            self.keep(&bytes);
            self.dropped = 0;
            done = bad.end;
        }
        self.text.drain(..end);
        self.dropped += end - done;
    }

    fn end_of_text(&mut self) {
        if self.text.len() > 2 * KEPT_FRONT {
            self.cut();
        }
        if self.depth == 1 {
            self.message_next = self.text == b"message" && !self.long;
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
        let run = match byte {
            0 => ByteRun::Nul,
            b' ' | b'\t' | b'\r' => ByteRun::Space,
            b'0'..=b'9' => ByteRun::Digit,
            _ => ByteRun::Other,
        };
        let before = if self.run.0 == run { self.run.1 } else { 0 };
        self.run = (run, before + 1);
        if before >= KEPT_FRONT && run != ByteRun::Other {
            return self.skip(1);
        }
        match byte {
            b'"' => {
                self.keep(b"\"");
                self.within = Within::Text;
            }
            b'{' | b'[' => {
                self.keep(&[byte]);
                if self.depth == 1 {
                    self.in_message = self.message_next;
                }
                self.depth += 1;
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                self.keep(&[byte]);
            }
            0 => {
                // A record may begin after NUL bytes.
                self.depth = 0;
                self.keep(&[byte]);
            }
            b',' | b':' | b' ' | b'\t' | b'\r' | b'0'..=b'9' | b'+' | b'-' | b'.' | b'E' => {
                self.keep(&[byte]);
            }
            b't' | b'r' | b'u' | b'e' | b'f' | b'a' | b'l' | b's' | b'n' => self.keep(&[byte]),
            _ => {
                self.within = Within::Text;
                self.depth = 1;
                self.content(&[byte]);
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        for tier in &mut self.tiers {
            let passed_over = tier.message_only && self.depth > 1 && !self.in_message;
            if self.depth > tier.deepest || passed_over {
                tier.missing += bytes.len();
            } else {
                tier.keep(bytes);
            }
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
        Ok(self.push(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Tier {
    fn keep(&mut self, bytes: &[u8]) {
        if self.full {
            return;
        }
        self.note_cut();
        self.kept.extend_from_slice(bytes);
        if self.size() > DIGEST {
            self.full = true;
            self.kept = Vec::new();
            self.cuts = Vec::new();
        }
    }

    /// Records how much is missing before what is kept next.
    fn note_cut(&mut self) {
        if !self.full && self.cuts.last().map_or(0, |cut| cut.1) < self.missing {
            self.cuts.push((self.kept.len(), self.missing));
        }
    }

    fn size(&self) -> usize {
        self.kept.len() + self.cuts.len() * size_of::<(usize, usize)>()
    }

    fn is_half_full(&self) -> bool {
        self.full || self.size() > DIGEST / 2
    }
}

/// The first character of a text that is not UTF-8, and the first character or escape that JSON
/// does not allow in a string, in their order.
fn first_bad(text: &[u8]) -> Vec<Range<usize>> {
    let utf8 = simdutf8::compat::from_utf8(text).err().map(|error| error.valid_up_to());
    let suspect = text.iter().any(|byte| *byte == b'\\' || *byte < 0x20);
    let mut found = Vec::new();
    if utf8.is_none() && !suspect {
        return found;
    }
    let (mut start, mut fatal) = (0, false);
    for end in units(text) {
        let unit = start..end;
        start = end;
        // Checked as a string of its own.
        let quoted = [b"\"", &text[unit.clone()], b"\""].concat();
        let bad = suspect && !fatal && Json::parse(&quoted).is_none();
        if bad || utf8.is_some_and(|at| unit.contains(&at)) {
            found.push(unit);
        }
        fatal |= bad;
    }
    found
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
        // Continuation bytes belong to their character.
        while text.get(at).is_some_and(|byte| byte & 0xc0 == 0x80) {
            at += 1;
        }
        at = at.min(text.len());
        Some(at)
    })
}
