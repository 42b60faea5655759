//! Removes secrets from texts before they leave the program.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use super::Redactor;
use super::cover::{Cover, hide, recognized, unnumbered};
use super::key_lines::{KeyLine, KeyLines};
use crate::format::json::{quote, unescape};

/// Hides secrets and counts them, or lets everything through.
#[derive(Debug, Default)]
pub struct Mask<'a> {
    by: By<'a>,
    hidden: BTreeMap<String, u64>,
    key: KeyLines,
    /// The number of the key whose lines are being read.
    key_number: Option<usize>,
}

/// What finds secrets.
#[derive(Debug, Default)]
enum By<'a> {
    #[default]
    Nothing,
    /// Rules, one text at a time.
    Rules(&'a Redactor),
    /// Rules, and the secrets of a session that was looked through before.
    Cover(&'a Cover),
}

impl<'a> Mask<'a> {
    /// Hides the secrets that the redactor finds, as `[redacted:github-token]`.
    pub fn new(redactor: &'a Redactor) -> Self {
        Mask { by: By::Rules(redactor), ..Mask::default() }
    }

    /// Hides the secrets that are known, wherever they stand, and those that are found: as
    /// `[redacted:github-token:1]`, with the same number for the same secret.
    pub fn of(cover: &'a Cover) -> Self {
        Mask { by: By::Cover(cover), ..Mask::default() }
    }

    /// Hides nothing.
    pub fn none() -> Self {
        Mask::default()
    }

    /// How many secrets were hidden, by kind.
    pub fn hidden(&self) -> &BTreeMap<String, u64> {
        &self.hidden
    }

    /// The text with its secrets replaced.
    pub fn text<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        self.text_in(None, text)
    }

    /// The same for JSON, which stays JSON: strings are decoded, and encoded again if they
    /// contained secrets.
    pub fn json<'t>(&mut self, json: &'t str) -> Cow<'t, str> {
        if matches!(self.by, By::Nothing) {
            return Cow::Borrowed(json);
        }
        let mut out = JsonMask::new(self, Vec::with_capacity(json.len()));
        // Writing into memory does not fail.
        let _ = out.write_all(json.as_bytes());
        let shown = out.finish().unwrap_or_default();
        Cow::Owned(String::from_utf8(shown).unwrap_or_default())
    }

    /// The replacement for a string that is a line of a key; `None` if it is not one.
    fn line_of_key(&mut self, text: &str) -> Option<String> {
        const KIND: &str = "private-key";
        if matches!(self.by, By::Nothing) {
            return None;
        }
        let (line, range) = self.key.line(text)?;
        if line == KeyLine::First {
            *self.hidden.entry(KIND.to_owned()).or_default() += 1;
            self.key_number = None;
        }
        let placeholder = match self.by {
            By::Cover(cover) => cover.of_key(&text[range.clone()], &mut self.key_number),
            By::Rules(_) | By::Nothing => unnumbered(KIND),
        };
        Some(format!("{}{placeholder}{}", &text[..range.start], &text[range.end..]))
    }

    fn text_in<'t>(&mut self, member: Option<&str>, text: &'t str) -> Cow<'t, str> {
        let hidden = &mut self.hidden;
        let mut count = |kind: &str| *hidden.entry(kind.to_owned()).or_default() += 1;
        let shown = match self.by {
            By::Nothing => None,
            By::Cover(cover) => cover.hide(member, text, &mut count),
            By::Rules(redactor) => hide(
                text,
                |text| recognized(redactor, member, text),
                |_, kind| {
                    count(kind);
                    unnumbered(kind)
                },
            ),
        };
        shown.map_or(Cow::Borrowed(text), Cow::Owned)
    }
}

/// A writer that takes JSON in pieces of any size and passes it on without the secrets in its
/// strings. Keeps one string in memory at a time.
#[derive(Debug)]
pub struct JsonMask<'m, 'a, W> {
    mask: &'m mut Mask<'a>,
    strings: Strings,
    out: W,
}

impl<'m, 'a, W: Write> JsonMask<'m, 'a, W> {
    /// Passes the JSON on to `out`.
    pub fn new(mask: &'m mut Mask<'a>, out: W) -> Self {
        JsonMask { mask, strings: Strings::default(), out }
    }

    /// Writes the rest.
    pub fn finish(mut self) -> crate::Result<W> {
        let (mask, out) = (&mut *self.mask, &mut self.out);
        let mut outcome = Ok(());
        self.strings.finish(&mut |piece| {
            if outcome.is_ok() {
                outcome = pass(mask, out, &piece);
            }
        });
        Ok(outcome.map(|()| self.out)?)
    }
}

impl<W: Write> Write for JsonMask<'_, '_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (mask, out) = (&mut *self.mask, &mut self.out);
        let mut outcome = Ok(());
        self.strings.read(bytes, &mut |piece| {
            if outcome.is_ok() {
                outcome = pass(mask, out, &piece);
            }
        });
        outcome.map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn pass(mask: &mut Mask<'_>, out: &mut impl Write, piece: &JsonPiece<'_>) -> io::Result<()> {
    match piece {
        JsonPiece::Between(bytes) => out.write_all(bytes),
        JsonPiece::Open(bytes) => {
            // The string is cut off, so it is not known what it would have been.
            let text = String::from_utf8_lossy(bytes);
            out.write_all(b"\"")?;
            out.write_all(mask.text(&text).as_bytes())
        }
        JsonPiece::String { bytes, member } => {
            let text = unescape(bytes);
            if member.is_none()
                && let Some(shown) = mask.line_of_key(&text)
            {
                return out.write_all(quote(&shown).as_bytes());
            }
            match mask.text_in(*member, &text) {
                Cow::Borrowed(_) => out.write_all(&[b"\"", *bytes, b"\""].concat()),
                Cow::Owned(shown) => out.write_all(quote(&shown).as_bytes()),
            }
        }
    }
}

/// The kind of each secret in JSON.
pub(super) fn kinds_in_json<'r>(redactor: &'r Redactor, json: &[u8]) -> Vec<&'r str> {
    let mut kinds = Vec::new();
    let mut take = |piece: JsonPiece<'_>| {
        let found = match piece {
            JsonPiece::Between(_) => return,
            JsonPiece::Open(bytes) => redactor.find(&String::from_utf8_lossy(bytes)),
            JsonPiece::String { bytes, member } => redactor.find_in(member, &unescape(bytes)),
        };
        kinds.extend(found.into_iter().map(|secret| secret.kind));
    };
    let mut strings = Strings::default();
    strings.read(json, &mut take);
    strings.finish(&mut take);
    kinds
}

/// A piece of JSON.
#[derive(Debug)]
enum JsonPiece<'a> {
    /// The bytes between strings.
    Between(&'a [u8]),
    /// A string without its quotes, and the name of the member whose value it is.
    String { bytes: &'a [u8], member: Option<&'a str> },
    /// The beginning of a string that has no end.
    Open(&'a [u8]),
}

/// Splits JSON into strings and the bytes between them, also if it arrives in pieces. No byte is
/// lost, even if the input is not JSON.
#[derive(Debug, Default)]
struct Strings {
    /// The string that is being read.
    open: Option<Vec<u8>>,
    /// The last byte was a backslash.
    is_escaped: bool,
    /// A complete string that may turn out to be the name of a member, and the white space after
    /// it.
    held: Option<(Vec<u8>, Vec<u8>)>,
    /// The name of the member whose value comes next.
    member: Option<String>,
}

impl Strings {
    fn read(&mut self, mut bytes: &[u8], take: &mut impl FnMut(JsonPiece<'_>)) {
        while !bytes.is_empty() {
            let used = match &mut self.open {
                Some(string) => {
                    let used = ends(bytes, &mut self.is_escaped);
                    string.extend_from_slice(&bytes[..used.unwrap_or(bytes.len())]);
                    match used {
                        Some(used) => {
                            self.held = self.open.take().map(|string| (string, Vec::new()));
                            used + 1
                        }
                        None => bytes.len(),
                    }
                }
                None => self.between(bytes, take),
            };
            bytes = &bytes[used..];
        }
    }

    /// Takes the bytes between strings, up to the next string.
    fn between(&mut self, bytes: &[u8], take: &mut impl FnMut(JsonPiece<'_>)) -> usize {
        if let Some((string, spaces)) = &mut self.held {
            let blank = bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            spaces.extend_from_slice(&bytes[..blank]);
            if blank == bytes.len() {
                return blank;
            }
            let is_name = bytes[blank] == b':';
            let member = self.member.take();
            take(JsonPiece::String {
                bytes: string,
                member: member.as_deref().filter(|_| !is_name),
            });
            take(JsonPiece::Between(spaces));
            self.member = is_name.then(|| unescape(string).into_owned());
            self.held = None;
            return blank;
        }
        let end = memchr::memchr(b'"', bytes);
        let between = &bytes[..end.unwrap_or(bytes.len())];
        if between.iter().any(|byte| b"{[,".contains(byte)) {
            self.member = None;
        }
        take(JsonPiece::Between(between));
        if end.is_some() {
            (self.open, self.is_escaped) = (Some(Vec::new()), false);
        }
        end.map_or(bytes.len(), |end| end + 1)
    }

    /// Emits the rest.
    fn finish(&mut self, take: &mut impl FnMut(JsonPiece<'_>)) {
        if let Some((string, spaces)) = self.held.take() {
            let member = self.member.take();
            take(JsonPiece::String { bytes: &string, member: member.as_deref() });
            take(JsonPiece::Between(&spaces));
        }
        if let Some(string) = self.open.take() {
            take(JsonPiece::Open(&string));
        }
    }
}

/// Where a string ends; `None` if it continues.
fn ends(bytes: &[u8], is_escaped: &mut bool) -> Option<usize> {
    let mut at = 0;
    if std::mem::take(is_escaped) {
        at = 1;
    }
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += found;
        if bytes[at] == b'"' {
            return Some(at);
        }
        if at + 1 == bytes.len() {
            *is_escaped = true;
            return None;
        }
        at += 2;
    }
    None
}
