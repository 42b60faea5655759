//! Finds where JSON values begin and end in bytes.
//!
//! This is the only JSON engine of the crate. It checks the grammar and returns ranges; it builds
//! no values, so it loses nothing that a value type could not represent (big numbers, key order,
//! duplicate keys, lone surrogates). Invariants: every input has a result, no input makes it panic
//! or recurse, and a value that it accepts is JSON by RFC 8259, except for bytes that are not UTF-8
//! (`line` looks for those).
//!
//! Why not a library: see `docs/decisions/0001-json-engine.md`.

pub(super) mod block;

use std::fmt;
use std::ops::Range;

/// Why bytes are not JSON, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Offset of the offending byte, from the start of the bytes that were read.
    pub at: usize,
    /// What is wrong there.
    pub why: Why,
}

/// What is wrong at the place of a [`Fault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The bytes end inside a string.
    EndsInString,
    /// The bytes end before the value does.
    EndsInValue,
    /// A byte that JSON does not allow there.
    Unexpected(u8),
    /// A backslash that does not begin a valid escape.
    BadEscape,
    /// A control character inside a string; JSON requires an escape.
    Control(u8),
    /// A run of NUL bytes, as file systems leave them after a crash.
    Nul,
    /// Bytes that are not UTF-8. The value is whole; these bytes are read as U+FFFD.
    NotUtf8,
    /// A line with more structure than is kept in memory.
    TooMuch,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::EndsInString => f.write_str("ends inside a string"),
            Why::EndsInValue => f.write_str("record is cut off"),
            Why::Unexpected(byte) if byte.is_ascii_graphic() => {
                write!(f, "unexpected `{}`", char::from(*byte))
            }
            Why::Unexpected(byte) => write!(f, "unexpected byte 0x{byte:02x}"),
            Why::BadEscape => f.write_str("bad escape in a string"),
            Why::Control(byte) => write!(f, "control character 0x{byte:02x} in a string"),
            Why::Nul => f.write_str("NUL bytes"),
            Why::NotUtf8 => f.write_str("invalid UTF-8"),
            Why::TooMuch => f.write_str("more structure than fits into memory"),
        }
    }
}

fn fault<T>(at: usize, why: Why) -> Result<T, Fault> {
    Err(Fault { at, why })
}

/// A key of an object.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    /// Its range, without the quotes.
    pub(crate) range: Range<usize>,
    /// Whether it contains escapes.
    pub(crate) escaped: bool,
    /// The position after its colon.
    colon: usize,
}

/// Reads values from one slice of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scanner<'a> {
    bytes: &'a [u8],
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Scanner { bytes }
    }

    /// The bytes of a range that the scanner returned.
    pub(crate) fn bytes(self, range: Range<usize>) -> &'a [u8] {
        &self.bytes[range]
    }

    pub(crate) fn byte(self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    /// The first position at or after `at` that is not white space.
    pub(crate) fn space(self, mut at: usize) -> usize {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.byte(at) {
            at += 1;
        }
        at
    }

    /// Returns the end of the object that begins at `at`. Calls `value` with each key and the
    /// position where its value begins; `value` returns where that ends.
    pub(crate) fn object(
        self,
        at: usize,
        mut value: impl FnMut(&Key, usize) -> Result<usize, Fault>,
    ) -> Result<usize, Fault> {
        let mut at = match self.byte(at) {
            Some(b'{') => self.space(at + 1),
            Some(byte) => return fault(at, Why::Unexpected(byte)),
            None => return fault(at, Why::EndsInValue),
        };
        if self.byte(at) == Some(b'}') {
            return Ok(at + 1);
        }
        loop {
            let key = self.key(at)?;
            let start = self.space(key.colon);
            at = self.space(value(&key, start)?);
            match self.byte(at) {
                Some(b',') => at = self.space(at + 1),
                Some(b'}') => return Ok(at + 1),
                Some(byte) => return fault(at, Why::Unexpected(byte)),
                None => return fault(at, Why::EndsInValue),
            }
        }
    }

    /// Returns the end of the array that begins at `at`. Calls `value` with the position where each
    /// element begins; `value` returns where that ends.
    pub(crate) fn array(
        self,
        at: usize,
        mut value: impl FnMut(usize) -> Result<usize, Fault>,
    ) -> Result<usize, Fault> {
        let mut at = match self.byte(at) {
            Some(b'[') => self.space(at + 1),
            Some(byte) => return fault(at, Why::Unexpected(byte)),
            None => return fault(at, Why::EndsInValue),
        };
        if self.byte(at) == Some(b']') {
            return Ok(at + 1);
        }
        loop {
            at = self.space(value(at)?);
            match self.byte(at) {
                Some(b',') => at = self.space(at + 1),
                Some(b']') => return Ok(at + 1),
                Some(byte) => return fault(at, Why::Unexpected(byte)),
                None => return fault(at, Why::EndsInValue),
            }
        }
    }

    /// The members of the object that these bytes are, one by one. For bytes that were accepted
    /// before: a fault ends the iteration.
    pub(crate) fn members(self) -> impl Iterator<Item = (Key, Range<usize>)> + use<'a> {
        let mut next = (self.byte(0) == Some(b'{')).then(|| self.space(1));
        std::iter::from_fn(move || {
            let key = self.key(next?).ok()?;
            let start = self.space(key.colon);
            let end = self.value(start).ok()?;
            next = self.behind_comma(end);
            Some((key, start..end))
        })
    }

    /// The elements of the array that these bytes are, one by one. For bytes that were accepted
    /// before: a fault ends the iteration.
    pub(crate) fn elements(self) -> impl Iterator<Item = Range<usize>> + use<'a> {
        let mut next = (self.byte(0) == Some(b'[')).then(|| self.space(1));
        std::iter::from_fn(move || {
            let start = next?;
            let end = self.value(start).ok()?;
            next = self.behind_comma(end);
            Some(start..end)
        })
    }

    fn behind_comma(self, at: usize) -> Option<usize> {
        let comma = self.space(at);
        (self.byte(comma) == Some(b',')).then(|| self.space(comma + 1))
    }

    /// Returns the end of the value of any kind that begins at `at`. Does not recurse: each level
    /// of nesting costs one bit.
    pub(crate) fn value(self, at: usize) -> Result<usize, Fault> {
        self.value_in(at, &mut Nest::default())
    }

    /// Like `value`. After a fault, `open` contains the positions of the objects and arrays that
    /// did not end before it. Scanning one of these alone leads to the same fault.
    pub(crate) fn value_noted(self, at: usize, open: &mut Places) -> Result<usize, Fault> {
        self.value_in(at, open)
    }

    fn value_in(self, mut at: usize, open: &mut impl Open) -> Result<usize, Fault> {
        loop {
            // A value begins here.
            at = match self.byte(at) {
                Some(b'"') => self.string(at + 1)?.0,
                Some(b'{') => {
                    let start = at;
                    at = self.space(at + 1);
                    if self.byte(at) != Some(b'}') {
                        open.push(Container::Object, start);
                        at = self.space(self.key(at)?.colon);
                        continue;
                    }
                    at + 1
                }
                Some(b'[') => {
                    let start = at;
                    at = self.space(at + 1);
                    if self.byte(at) != Some(b']') {
                        open.push(Container::Array, start);
                        continue;
                    }
                    at + 1
                }
                Some(b't') => self.word(at, b"true")?,
                Some(b'f') => self.word(at, b"false")?,
                Some(b'n') => self.word(at, b"null")?,
                Some(b'-' | b'0'..=b'9') => self.number(at)?,
                Some(byte) => return fault(at, Why::Unexpected(byte)),
                None => return fault(at, Why::EndsInValue),
            };
            // A value ended here.
            loop {
                let Some(container) = open.top() else { return Ok(at) };
                at = self.space(at);
                match (self.byte(at), container) {
                    (Some(b','), Container::Object) => {
                        at = self.space(self.key(self.space(at + 1))?.colon);
                        break;
                    }
                    (Some(b','), Container::Array) => {
                        at = self.space(at + 1);
                        break;
                    }
                    (Some(b'}'), Container::Object) | (Some(b']'), Container::Array) => {
                        open.pop();
                        at += 1;
                    }
                    (Some(byte), _) => return fault(at, Why::Unexpected(byte)),
                    (None, _) => return fault(at, Why::EndsInValue),
                }
            }
        }
    }

    /// The key at `at`, with its colon.
    fn key(self, at: usize) -> Result<Key, Fault> {
        match self.byte(at) {
            Some(b'"') => {}
            Some(byte) => return fault(at, Why::Unexpected(byte)),
            None => return fault(at, Why::EndsInValue),
        }
        let (end, escaped) = self.string(at + 1)?;
        let colon = self.space(end);
        match self.byte(colon) {
            Some(b':') => Ok(Key { range: at + 1..end - 1, escaped, colon: colon + 1 }),
            Some(byte) => fault(colon, Why::Unexpected(byte)),
            None => fault(colon, Why::EndsInValue),
        }
    }

    /// Scans the string whose first character is at `at`. Returns the position after its closing
    /// quote, and whether it contains an escape.
    #[inline]
    fn string(self, at: usize) -> Result<(usize, bool), Fault> {
        // Most strings are short.
        match self
            .bytes
            .get(at..)
            .and_then(<[u8]>::first_chunk)
            .map(|block| (block, block::first(block)))
        {
            Some((block, Some(end))) if block[end] == b'"' => Ok((at + end + 1, false)),
            Some((_, Some(end))) => self.long_string(at + end),
            Some((_, None)) => self.long_string(at + block::SIZE),
            None => self.long_string(at),
        }
    }

    /// Like `string`, for the rest of a string.
    #[inline(never)]
    fn long_string(self, mut at: usize) -> Result<(usize, bool), Fault> {
        let mut escaped = false;
        // Texts have escapes in every line: search several blocks at once, then handle each hit in
        // turn.
        'blocks: while let Some(blocks) = self.bytes.get(at..).and_then(<[u8]>::first_chunk) {
            let start = at;
            let mut special = block::special(blocks);
            while special != 0 {
                let place = start + special.trailing_zeros() as usize;
                match self.bytes[place] {
                    b'"' => return Ok((place + 1, escaped)),
                    b'\\' => at = self.escape(place)?,
                    byte => return fault(place, Why::Control(byte)),
                }
                escaped = true;
                if at - start >= block::MANY {
                    continue 'blocks;
                }
                // An escaped character is not special.
                special = special >> (at - start) << (at - start);
            }
            at = start + block::MANY;
        }
        loop {
            let rest = self.bytes.get(at..).unwrap_or_default();
            let found = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20));
            at += found.unwrap_or(rest.len());
            at = match self.byte(at) {
                Some(b'"') => return Ok((at + 1, escaped)),
                Some(b'\\') => self.escape(at)?,
                Some(byte) => return fault(at, Why::Control(byte)),
                None => return fault(at, Why::EndsInString),
            };
            escaped = true;
        }
    }

    /// The end of the escape whose backslash is at `at`.
    fn escape(self, at: usize) -> Result<usize, Fault> {
        match self.byte(at + 1) {
            Some(byte) if SHORT_ESCAPES[usize::from(byte)] => Ok(at + 2),
            Some(b'u') => {
                for digit in at + 2..at + 6 {
                    match self.byte(digit) {
                        Some(byte) if byte.is_ascii_hexdigit() => {}
                        Some(_) => return fault(at, Why::BadEscape),
                        None => return fault(digit, Why::EndsInString),
                    }
                }
                Ok(at + 6)
            }
            Some(_) => fault(at, Why::BadEscape),
            None => fault(at + 1, Why::EndsInString),
        }
    }

    fn word(self, at: usize, word: &[u8]) -> Result<usize, Fault> {
        for (place, expected) in (at..).zip(word) {
            match self.byte(place) {
                Some(byte) if byte == *expected => {}
                Some(byte) => return fault(place, Why::Unexpected(byte)),
                None => return fault(place, Why::EndsInValue),
            }
        }
        Ok(at + word.len())
    }

    fn number(self, mut at: usize) -> Result<usize, Fault> {
        if self.byte(at) == Some(b'-') {
            at += 1;
        }
        at = if self.byte(at) == Some(b'0') { at + 1 } else { self.digits(at)? };
        if self.byte(at) == Some(b'.') {
            at = self.digits(at + 1)?;
        }
        if let Some(b'e' | b'E') = self.byte(at) {
            at += 1;
            if let Some(b'+' | b'-') = self.byte(at) {
                at += 1;
            }
            at = self.digits(at)?;
        }
        Ok(at)
    }

    fn digits(self, start: usize) -> Result<usize, Fault> {
        let mut at = start;
        while let Some(b'0'..=b'9') = self.byte(at) {
            at += 1;
        }
        match self.byte(at) {
            _ if at > start => Ok(at),
            Some(byte) => fault(at, Why::Unexpected(byte)),
            None => fault(at, Why::EndsInValue),
        }
    }
}

/// Which bytes form an escape with just a backslash. A table, because a branch is often
/// mispredicted.
const SHORT_ESCAPES: [bool; 256] = {
    let mut table = [false; 256];
    let mut bytes: &[u8] = b"\"\\/bfnrt";
    while let [first, rest @ ..] = bytes {
        table[*first as usize] = true;
        bytes = rest;
    }
    table
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Container {
    Array,
    Object,
}

/// The containers that are open while a value is read.
trait Open {
    fn push(&mut self, container: Container, at: usize);
    fn top(&self) -> Option<Container>;
    fn pop(&mut self);
}

/// The open containers, with their positions.
#[derive(Debug, Default)]
pub(crate) struct Places(Vec<u32>);

impl Places {
    /// The position of the container with that number, in order.
    pub(crate) fn get(&self, number: usize) -> Option<usize> {
        self.0.get(number).map(|place| (place & !Places::OBJECT) as usize)
    }

    const OBJECT: u32 = 1 << 31;
}

impl Open for Places {
    fn push(&mut self, container: Container, at: usize) {
        // Lines that are kept in memory are far shorter. A longer position becomes one past every
        // byte.
        let place = u32::try_from(at).unwrap_or(u32::MAX) & !Places::OBJECT;
        let object = if container == Container::Object { Places::OBJECT } else { 0 };
        self.0.push(place | object);
    }

    fn top(&self) -> Option<Container> {
        let is_object = self.0.last()? & Places::OBJECT != 0;
        Some(if is_object { Container::Object } else { Container::Array })
    }

    fn pop(&mut self) {
        self.0.pop();
    }
}

/// The open containers, one bit each: the innermost 64 at hand, those around them on the heap.
#[derive(Debug, Default)]
struct Nest {
    bits: u64,
    depth: usize,
    outer: Vec<u64>,
}

impl Open for Nest {
    fn push(&mut self, container: Container, _: usize) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.bits);
        }
        self.bits = self.bits << 1 | u64::from(container == Container::Object);
        self.depth += 1;
    }

    fn top(&self) -> Option<Container> {
        match (self.depth, self.bits & 1) {
            (0, _) => None,
            (_, 0) => Some(Container::Array),
            _ => Some(Container::Object),
        }
    }

    fn pop(&mut self) {
        self.depth -= 1;
        self.bits >>= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.bits = self.outer.pop().unwrap_or_default();
        }
    }
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
