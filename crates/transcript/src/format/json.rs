//! A view of one JSON value in the bytes of the file.
//!
//! [`Json`] borrows the bytes of a value that `scan` has accepted, and reads them on demand. It
//! never fails: a string simply has no members. Invariant: [`Json::raw`] is exactly what is in the
//! file, so that writing it back loses nothing; text is decoded only when it is needed.

use std::borrow::Cow;
use std::ops::Range;
use std::string::FromUtf8Error;
use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::format::limit::NOTED;
use crate::format::scan::{Fault, Scanner, block};

/// One JSON value, as it is in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<'a> {
    raw: &'a [u8],
}

/// The six kinds of JSON values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of JSON")]
pub enum Shape {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

impl<'a> Json<'a> {
    /// Reads one whole value; `None` if the bytes are anything else.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let scanner = Scanner::new(bytes);
        let start = scanner.space(0);
        let end = scanner.value(start).ok()?;
        (scanner.space(end) == bytes.len()).then(|| Json { raw: &bytes[start..end] })
    }

    /// A value whose bytes were accepted before.
    pub(crate) fn trusted(raw: &'a [u8]) -> Self {
        Json { raw }
    }

    /// The bytes of the value.
    pub fn raw(self) -> &'a [u8] {
        self.raw
    }

    /// The kind of the value.
    pub fn shape(self) -> Shape {
        match self.raw.first() {
            Some(b'{') => Shape::Object,
            Some(b'[') => Shape::Array,
            Some(b'"') => Shape::String,
            Some(b't' | b'f') => Shape::Bool,
            Some(b'n') | None => Shape::Null,
            Some(_) => Shape::Number,
        }
    }

    /// The text of a string. Escapes are decoded; lone surrogates and bytes that are not UTF-8
    /// become U+FFFD.
    pub fn text(self) -> Option<Cow<'a, str>> {
        let inner = self.raw.strip_prefix(b"\"")?;
        Some(unescape(inner.strip_suffix(b"\"").unwrap_or(inner)))
    }

    /// Whether this is the string `text`.
    pub fn is(self, text: &str) -> bool {
        let inner = self.raw.strip_prefix(b"\"").and_then(|inner| inner.strip_suffix(b"\""));
        inner.is_some_and(|inner| {
            inner == text.as_bytes() || (inner.contains(&b'\\') && unescape(inner) == text)
        })
    }

    /// The value of `true` or `false`.
    pub fn bool(self) -> Option<bool> {
        match self.raw {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        }
    }

    /// The value of a number, if it is an integer that fits into an `i64`.
    pub fn integer(self) -> Option<i64> {
        std::str::from_utf8(self.raw).ok()?.parse().ok()
    }

    /// The value of a number, rounded to the nearest float.
    pub fn float(self) -> Option<f64> {
        match self.shape() {
            Shape::Number => std::str::from_utf8(self.raw).ok()?.parse().ok(),
            _ => None,
        }
    }

    /// The value as an object; `None` for anything else.
    pub fn object(self) -> Option<Object<'a>> {
        Object::scan(Scanner::new(self.raw), 0).ok().map(|(object, _)| object)
    }

    /// The elements of an array, in order; empty for anything else.
    pub fn elements(self) -> impl Iterator<Item = Json<'a>> + use<'a> {
        self.places().map(move |range| Json { raw: &self.raw[range] })
    }

    /// The ranges of the elements of an array, relative to its start; empty for anything else.
    pub fn places(self) -> impl Iterator<Item = Range<usize>> + use<'a> {
        Scanner::new(self.raw).elements()
    }

    /// The member of that name, if the value is an object. To read several members, use
    /// [`Json::object`].
    pub fn get(self, name: &str) -> Option<Json<'a>> {
        self.object()?.get(name)
    }
}

/// An object with the positions of its members: scanned once, queried often.
#[derive(Clone, Debug)]
pub struct Object<'a> {
    raw: &'a [u8],
    /// `None` if there are too many to keep.
    members: Option<Vec<Member>>,
}

/// The ranges of a member's key (without quotes) and value, relative to the start of the object.
#[derive(Clone, Debug)]
struct Member {
    key: Range<usize>,
    escaped: bool,
    value: Range<usize>,
}

impl<'a> Object<'a> {
    /// Reads one whole object; `None` if the bytes are anything else.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let scanner = Scanner::new(bytes);
        let (object, end) = Object::scan(scanner, scanner.space(0)).ok()?;
        (scanner.space(end) == bytes.len()).then_some(object)
    }

    /// Reads the object that begins at `at`. Returns the object, and where it ends.
    pub(crate) fn scan(scanner: Scanner<'a>, at: usize) -> Result<(Self, usize), Fault> {
        Object::scan_with(scanner, at, |_, start| scanner.value(start))
    }

    /// Like `scan`, but `value` reads the values: it gets the key and the position where its value
    /// begins, and returns where that ends. A caller can read nested values this way without
    /// scanning them twice.
    pub(crate) fn scan_with(
        scanner: Scanner<'a>,
        at: usize,
        mut value: impl FnMut(&[u8], usize) -> Result<usize, Fault>,
    ) -> Result<(Self, usize), Fault> {
        // As many as a record of a recent client has.
        let mut members = Vec::with_capacity(24);
        let mut count = 0;
        let end = scanner.object(at, |key, start| {
            let end = value(scanner.bytes(key.range.clone()), start)?;
            count += 1;
            if count <= NOTED {
                let shift = |range: Range<usize>| range.start - at..range.end - at;
                let (range, value) = (shift(key.range.clone()), shift(start..end));
                members.push(Member { key: range, escaped: key.escaped, value });
            }
            Ok(end)
        })?;
        let members = (count <= NOTED).then_some(members);
        Ok((Object { raw: scanner.bytes(at..end), members }, end))
    }

    /// The bytes of the object.
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// The object as a value.
    pub fn json(&self) -> Json<'a> {
        Json { raw: self.raw }
    }

    /// The ranges of the name (without quotes) and the value of each member, relative to the start
    /// of the object.
    pub fn places(&self) -> Vec<[Range<usize>; 2]> {
        match &self.members {
            Some(noted) => noted.iter().map(|one| [one.key.clone(), one.value.clone()]).collect(),
            None => {
                Scanner::new(self.raw).members().map(|(key, value)| [key.range, value]).collect()
            }
        }
    }

    /// The names and values, in file order, including duplicates.
    pub fn members(&self) -> impl Iterator<Item = (Cow<'a, str>, Json<'a>)> + use<'a> {
        let scanner = Scanner::new(self.raw);
        scanner.members().map(move |(key, value)| {
            (unescape(scanner.bytes(key.range)), Json { raw: scanner.bytes(value) })
        })
    }

    /// The member of that name. Of duplicates the last one counts, as in the client.
    pub fn get(&self, name: &str) -> Option<Json<'a>> {
        let is = |key: &Range<usize>, escaped: bool| {
            let key = &self.raw[key.clone()];
            key == name.as_bytes() || (escaped && unescape(key) == name)
        };
        let value = if let Some(noted) = &self.members {
            // Most names differ in length, so that the bytes need not be compared.
            let may_be = |one: &&Member| one.key.end - one.key.start == name.len() || one.escaped;
            let mut named = noted.iter().rev().filter(may_be);
            named.find(|one| is(&one.key, one.escaped))?.value.clone()
        } else {
            let members = Scanner::new(self.raw).members();
            members.filter(|(key, _)| is(&key.range, key.escaped)).last()?.1
        };
        Some(Json { raw: &self.raw[value] })
    }

    /// The bytes of the object with another value for a member; a new member is added at the end.
    pub fn with(&self, name: &str, value: &[u8]) -> Vec<u8> {
        let scanner = Scanner::new(self.raw);
        let is = |key: &[u8]| unescape(key) == name;
        let place =
            scanner.members().filter(|(key, _)| is(scanner.bytes(key.range.clone()))).last();
        if let Some((_, range)) = place {
            return [&self.raw[..range.start], value, &self.raw[range.end..]].concat();
        }
        let inside = self.raw.strip_suffix(b"}").unwrap_or(self.raw);
        let comma: &[u8] = if scanner.members().next().is_some() { b"," } else { b"" };
        [inside, comma, quote(name).as_bytes(), b":", value, b"}"].concat()
    }

    /// The text of the member of that name.
    pub fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name)?.text()
    }

    /// Whether the member of that name is `true`.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name).and_then(Json::bool) == Some(true)
    }
}

/// Encodes a text as a JSON string.
pub fn quote(text: &str) -> String {
    use std::fmt::Write;
    let mut out = String::with_capacity(text.len() + text.len() / 16 + 2);
    out.push('"');
    let is_special = |byte: &u8| *byte < b' ' || *byte == b'"' || *byte == b'\\';
    let mut done = 0;
    for (number, chunk) in text.as_bytes().chunks(CHUNK).enumerate() {
        // Checks many bytes at once: most chunks contain nothing special.
        if !chunk.iter().fold(false, |any, byte| any | is_special(byte)) {
            continue;
        }
        let from = number * CHUNK;
        for (at, byte) in (from..).zip(chunk).filter(|(_, byte)| is_special(byte)) {
            out.push_str(&text[done..at]);
            done = at + 1;
            match byte {
                b'"' => out.push_str("\\\""),
                b'\\' => out.push_str("\\\\"),
                b'\n' => out.push_str("\\n"),
                b'\r' => out.push_str("\\r"),
                b'\t' => out.push_str("\\t"),
                // Writing into a string does not fail.
                byte => _ = write!(out, "\\u{byte:04x}"),
            }
        }
    }
    out.push_str(&text[done..]);
    out.push('"');
    out
}

/// How many bytes are checked together.
const CHUNK: usize = 32;

/// How the escapes of surrogates begin.
static SURROGATES: LazyLock<[Finder<'static>; 2]> =
    LazyLock::new(|| [Finder::new("\\ud"), Finder::new("\\uD")]);

/// The bytes of a value with every unpaired escaped surrogate replaced by U+FFFD; `None` if there
/// is none.
pub(crate) fn replace_surrogates(raw: &[u8]) -> Option<Vec<u8>> {
    // Nearly no value contains any.
    if memchr::memchr(b'\\', raw).is_none()
        || !SURROGATES.iter().any(|finder| finder.find(raw).is_some())
    {
        return None;
    }
    let mut out = Vec::new();
    let (mut done, mut at) = (0, 0);
    while let Some(slash) = memchr::memchr(b'\\', &raw[at..]).map(|found| at + found) {
        if raw.get(slash + 1) != Some(&b'u') {
            at = slash + 2;
            if at > raw.len() {
                break;
            }
            continue;
        }
        let digits =
            raw.get(slash + 2..slash + 6).and_then(|digits| std::str::from_utf8(digits).ok());
        let unit = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let (_, used) = unicode_escape(&raw[slash..]);
        if used == 6 && unit.is_some_and(|unit| (0xd800..0xe000).contains(&unit)) {
            out.extend_from_slice(&raw[done..slash]);
            out.extend_from_slice(b"\\ufffd");
            done = slash + 6;
        }
        at = slash + used.max(2);
    }
    if done == 0 {
        return None;
    }
    out.extend_from_slice(&raw[done..]);
    Some(out)
}

/// Decodes the text between two quotes.
pub(crate) fn unescape(inner: &[u8]) -> Cow<'_, str> {
    match memchr::memchr(b'\\', inner) {
        None => simdutf8::basic::from_utf8(inner)
            .map_or_else(|_| String::from_utf8_lossy(inner), Cow::Borrowed),
        Some(slash) => {
            let text = String::from_utf8(decode(inner, slash));
            let lossy = |error: FromUtf8Error| String::from_utf8_lossy(error.as_bytes()).into();
            Cow::Owned(text.unwrap_or_else(lossy))
        }
    }
}

/// Decodes a text whose first escape is at `at`.
fn decode(inner: &[u8], mut at: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(inner.len() + block::MANY);
    let mut done = 0;
    // Texts have escapes in every line: looking for one after the other takes longer.
    while at < inner.len() {
        let mut slashes = block::slashes(&block::at(inner, at));
        while slashes != 0 {
            let slash = at + slashes.trailing_zeros() as usize;
            slashes &= slashes - 1;
            // The second of two is no escape.
            if slash >= done {
                push_bytes(&mut out, inner, done..slash);
                let (character, used) = escape(&inner[slash..]);
                match u8::try_from(character) {
                    Ok(byte) if byte.is_ascii() => out.push(byte),
                    _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
                }
                done = slash + used;
            }
        }
        at += block::MANY;
    }
    push_bytes(&mut out, inner, done..inner.len());
    out
}

/// Adds a range of some bytes. What is between two escapes is short: whole blocks of a known size
/// are copied in less time than a few bytes, and what is too much is cut off.
#[inline]
fn push_bytes(out: &mut Vec<u8>, bytes: &[u8], range: Range<usize>) {
    let mut from = range.start;
    let end = out.len() + range.len();
    while from < range.end {
        let Some(block) = bytes.get(from..).and_then(<[u8]>::first_chunk::<{ block::MANY }>) else {
            out.extend_from_slice(&bytes[from..range.end]);
            return;
        };
        out.extend_from_slice(block);
        from += block::MANY;
    }
    out.truncate(end);
}

/// The character that an escape represents, and how many bytes the escape takes.
fn escape(bytes: &[u8]) -> (char, usize) {
    let plain = match bytes.get(1) {
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return unicode_escape(bytes),
        Some(byte) => char::from(*byte),
        None => return (char::REPLACEMENT_CHARACTER, 1),
    };
    (plain, 2)
}

fn unicode_escape(bytes: &[u8]) -> (char, usize) {
    let unit = |at: usize| {
        let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let Some(first) = unit(0) else {
        return (char::REPLACEMENT_CHARACTER, bytes.len().min(2));
    };
    if let (0xd800..0xdc00, Some(second @ 0xdc00..0xe000)) = (first, unit(6)) {
        let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        return (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 12);
    }
    (char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), 6)
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
