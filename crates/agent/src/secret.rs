//! Values that only the client itself may know: the keys of the API, and similar ones.
//!
//! Commands do not see these variables. What tools, commands and answers bring in is searched for
//! the values before anything is recorded, sent, shown or stored: as plain text, as base64 (at any
//! offset, in either alphabet), broken into lines, or cut at the edge of a piece. This is not a
//! wall: a program that may run commands can turn a value into something that is not recognized. It
//! keeps a key from ending up in files by accident. Invariant: in whatever pieces output comes, no
//! part of a value longer than a quarter remains.

mod events;

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Read, Write};
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use memchr::memmem;
use percent_encoding::percent_decode_str;
use serde_json::Value;

pub(crate) use events::Events;

use crate::tool::{Answer, Content};

/// The variables that contain keys.
pub const NAMES: [&str; 6] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_FOUNDRY_API_KEY",
    "AWS_BEARER_TOKEN_BEDROCK",
    "CLAUDE_CODE_OAUTH_TOKEN",
];

/// The variables that name a proxy, and may contain a password.
pub const PROXIES: [&str; 6] =
    ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

/// The variable that tells a process that its keys are handed over to it. Its value is that
/// process's id, so it means nothing to other processes.
pub const HANDOVER: &str = "QUIPU_HANDOVER";

/// The text that replaces a value.
const INSTEAD: &str = "[redacted api key]";
/// Shorter values are not keys, but what local servers accept in place of a key (`lmstudio`).
/// Replacing them would also replace ordinary words.
const SHORTEST_KEY: usize = 16;
/// The same for passwords.
const SHORTEST_PASSWORD: usize = 8;

/// Whether commands must not see a variable.
pub fn is_secret(name: &str, value: &str) -> bool {
    NAMES.contains(&name) || (PROXIES.contains(&name) && password(value).is_some())
}

/// The password in the address of a proxy.
fn password(url: &str) -> Option<&str> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (user, _) = rest.split('/').next()?.rsplit_once('@')?;
    user.split_once(':').map(|(_, password)| password).filter(|password| !password.is_empty())
}

/// The values that are kept secret.
#[derive(Clone, Default)]
pub struct Secrets {
    /// The forms in which they are searched for: plain and as base64.
    shapes: Vec<Vec<u8>>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

/// Whether a text is complete, or may begin and end within a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Whole,
    Piece,
}

impl Secrets {
    /// The values of these variables, as far as they contain secrets.
    pub fn of<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Secrets {
        let mut shapes = Vec::new();
        for (name, value) in variables {
            if name == "ANTHROPIC_CUSTOM_HEADERS" {
                let headers = value.lines().filter_map(|line| line.split_once(':'));
                for (_, value) in headers.filter(|(name, _)| is_private(name)) {
                    let value = value.trim();
                    add(&mut shapes, value, SHORTEST_KEY);
                    // Without the name of the scheme.
                    let key = value.rsplit(' ').next().unwrap_or(value);
                    add(&mut shapes, key, SHORTEST_KEY);
                }
            } else if let Some(password) = password(value).filter(|_| PROXIES.contains(&name)) {
                add(&mut shapes, password, SHORTEST_PASSWORD);
                let plain = percent_decode_str(password).decode_utf8_lossy();
                add(&mut shapes, &plain, SHORTEST_PASSWORD);
            } else if NAMES.contains(&name) {
                add(&mut shapes, value.trim(), SHORTEST_KEY);
            }
        }
        // The longest first: one may be a part of another.
        shapes.sort_by_key(|shape: &Vec<u8>| std::cmp::Reverse(shape.len()));
        shapes.dedup();
        Secrets { shapes }
    }

    /// The most bytes that a value can take up in a text: it may be broken into lines.
    pub(crate) fn span(&self) -> usize {
        self.shapes.first().map_or(0, |longest| longest.len() * 2)
    }

    /// Whether the new content of a file contains the replacement text while the file contains a
    /// value: the model saw the file without the value, and would overwrite it.
    pub(crate) fn would_be_lost(&self, old: &[u8], new: &[u8]) -> bool {
        memmem::find(new, INSTEAD.as_bytes()).is_some()
            && !self.found(old, Extent::Whole).is_empty()
    }

    /// The text with the values replaced.
    pub(crate) fn redacted<'a>(&self, text: &'a str, extent: Extent) -> Cow<'a, str> {
        let found = self.found(text.as_bytes(), extent);
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut out = Vec::with_capacity(text.len());
        replace(text.as_bytes(), &found, &mut out);
        Cow::Owned(lossless(out))
    }

    /// JSON with the values in its texts replaced; unchanged if there are none.
    pub(crate) fn redacted_json<'a>(&self, json: &'a str) -> Cow<'a, str> {
        if self.shapes.is_empty() {
            return Cow::Borrowed(json);
        }
        let Ok(mut value) = serde_json::from_str::<Value>(json) else {
            return self.redacted(json, Extent::Whole);
        };
        if self.clean_value(&mut value) {
            Cow::Owned(value.to_string())
        } else {
            Cow::Borrowed(json)
        }
    }

    /// Replaces the values in all texts of a JSON value. Returns whether there were any.
    pub(crate) fn clean_value(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => {
                let cleaned = match self.redacted(text, Extent::Whole) {
                    Cow::Owned(cleaned) => cleaned,
                    Cow::Borrowed(_) => return false,
                };
                *text = cleaned;
                true
            }
            Value::Array(list) => self.clean_all(list.iter_mut()),
            Value::Object(members) => self.clean_all(members.values_mut()),
            _ => false,
        }
    }

    fn clean_all<'a>(&self, values: impl Iterator<Item = &'a mut Value>) -> bool {
        let mut found = false;
        for value in values {
            found |= self.clean_value(value);
        }
        found
    }

    /// Replaces the values in the result of a tool.
    pub(crate) fn clean(&self, answer: &mut Answer) {
        if self.shapes.is_empty() {
            return;
        }
        let cleaned = |raw: &serde_json::value::RawValue| {
            let Cow::Owned(text) = self.redacted_json(raw.get()) else { return None };
            serde_json::value::RawValue::from_string(text).ok()
        };
        match &mut answer.content {
            Content::Text(text) => {
                if let Cow::Owned(cleaned) = self.redacted(text, Extent::Whole) {
                    *text = cleaned;
                }
            }
            Content::Blocks(blocks) => {
                for block in blocks {
                    if let Some(cleaned) = cleaned(block) {
                        *block = cleaned;
                    }
                }
            }
        }
        if let Some(cleaned) = cleaned(&answer.detail) {
            answer.detail = cleaned;
        }
    }

    /// Copies everything that is read, with the values replaced, however it is cut into pieces.
    pub(crate) fn copy(&self, from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
        let (mut held, mut piece) = (Vec::new(), vec![0; 1 << 16]);
        loop {
            let count = from.read(&mut piece)?;
            held.extend_from_slice(&piece[..count]);
            let found = self.found(&held, Extent::Whole);
            // What may be the beginning of a value waits for the rest of it.
            let mut end =
                if count == 0 { held.len() } else { held.len().saturating_sub(self.span()) };
            end = found
                .iter()
                .filter(|found| found.contains(&end))
                .map(|found| found.end)
                .next()
                .unwrap_or(end);
            let found: Vec<_> = found.into_iter().filter(|found| found.end <= end).collect();
            let mut out = Vec::with_capacity(end);
            replace(&held[..end], &found, &mut out);
            to.write_all(&out)?;
            held.drain(..end);
            if count == 0 {
                return Ok(());
            }
        }
    }

    /// The positions of values, in order and without overlaps.
    fn found(&self, bytes: &[u8], extent: Extent) -> Vec<Range<usize>> {
        if self.shapes.is_empty() {
            return Vec::new();
        }
        // Programs break long lines: a value may contain line ends.
        let is_kept = |byte: u8| byte != b'\n' && byte != b'\r';
        let joined: Vec<u8> = bytes.iter().copied().filter(|byte| is_kept(*byte)).collect();
        let mut found: Vec<Range<usize>> = Vec::new();
        for shape in &self.shapes {
            found.extend(memmem::find_iter(&joined, shape).map(|at| at..at + shape.len()));
            if extent == Extent::Piece {
                let least = (shape.len() / 4).max(SHORTEST_PASSWORD);
                let lengths = || (least..shape.len()).rev();
                let tail = lengths().find(|len| joined.ends_with(&shape[..*len]));
                found.extend(tail.map(|len| joined.len() - len..joined.len()));
                let head = lengths().find(|len| joined.starts_with(&shape[shape.len() - len..]));
                found.extend(head.map(|len| 0..len));
            }
        }
        if found.is_empty() {
            return found;
        }
        found.sort_by_key(|found| found.start);
        let mut apart: Vec<Range<usize>> = Vec::new();
        for next in found {
            match apart.last_mut().filter(|last| next.start < last.end) {
                Some(last) => last.end = last.end.max(next.end),
                None => apart.push(next),
            }
        }
        // Map the positions back to the text with its line ends.
        let places: Vec<usize> = bytes
            .iter()
            .enumerate()
            .filter(|(_, byte)| is_kept(**byte))
            .map(|(at, _)| at)
            .collect();
        apart.into_iter().map(|found| places[found.start]..places[found.end - 1] + 1).collect()
    }
}

/// Whether a header of that name may contain a key. Those of the API itself only describe the
/// request.
fn is_private(name: &str) -> bool {
    let name = name.trim().to_ascii_lowercase();
    !name.starts_with("anthropic-") && !["accept", "content-type", "user-agent"].contains(&&*name)
}

/// Adds the forms of a value.
fn add(shapes: &mut Vec<Vec<u8>>, value: &str, shortest: usize) {
    if value.len() < shortest {
        return;
    }
    shapes.push(value.as_bytes().to_vec());
    // The base64 form of a value depends on its offset; characters that also encode neighbouring
    // bytes are left out.
    for before in 0..3 {
        let shifted = [&[0; 3][..before], value.as_bytes()].concat();
        let (first, end) = ((before * 8).div_ceil(6), shifted.len() * 8 / 6);
        for text in [STANDARD_NO_PAD.encode(&shifted), URL_SAFE_NO_PAD.encode(&shifted)] {
            shapes.push(text.as_bytes()[first..end].to_vec());
        }
    }
}

fn replace(bytes: &[u8], found: &[Range<usize>], out: &mut Vec<u8>) {
    let mut end = 0;
    for place in found {
        out.extend_from_slice(&bytes[end..place.start]);
        out.extend_from_slice(INSTEAD.as_bytes());
        end = place.end;
    }
    out.extend_from_slice(&bytes[end..]);
}

fn lossless(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
#[path = "secret_tests.rs"]
mod tests;
