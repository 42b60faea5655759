//! What only the client itself is to know: the keys of the API, and their like.
//!
//! Commands do not see these variables, and what tools, commands and answers bring in is searched
//! for their values before anything is recorded, sent, shown or kept: as they are, as base64 (at
//! any place within it, of either alphabet), broken into lines, or cut at the edge of a piece. This
//! is no wall: whoever may run commands can turn a value into something that nobody recognises. It
//! keeps a key from ending up in files by accident. Invariant: whatever the pieces are in which
//! output comes, no piece of a value longer than a quarter stays.

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

/// The variables that hold keys.
pub const NAMES: [&str; 6] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_FOUNDRY_API_KEY",
    "AWS_BEARER_TOKEN_BEDROCK",
    "CLAUDE_CODE_OAUTH_TOKEN",
];

/// The variables that name a proxy, and may have a password in them.
pub const PROXIES: [&str; 6] =
    ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

/// Says how the keys came to this process, and nothing to any other.
pub const HANDOVER: &str = "QUIPU_HANDOVER";

/// What stands in the place of a value.
const INSTEAD: &str = "[redacted api key]";
/// Shorter values are no keys, but what servers on one's own machine want in their place
/// (`lmstudio`): whoever took them out would take other words out too.
const SHORTEST_KEY: usize = 16;
/// The same for passwords.
const SHORTEST_PASSWORD: usize = 8;

/// Whether no command may see a variable.
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
    /// What they look like: as they are, and as base64.
    shapes: Vec<Vec<u8>>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

/// Whether a text is whole, or may begin and end within a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Whole,
    Piece,
}

impl Secrets {
    /// The values of these variables, as far as they hold secrets.
    pub fn of<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Secrets {
        let mut shapes = Vec::new();
        for (name, value) in variables {
            if name == "ANTHROPIC_CUSTOM_HEADERS" {
                let headers = value.lines().filter_map(|line| line.split_once(':'));
                for (_, value) in headers.filter(|(name, _)| is_private(name)) {
                    let value = value.trim();
                    add(&mut shapes, value, SHORTEST_KEY);
                    // Behind the name of a scheme.
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

    /// How long a value is at most as it stands in a text: it may be broken into lines.
    pub(crate) fn span(&self) -> usize {
        self.shapes.first().map_or(0, |longest| longest.len() * 2)
    }

    /// Whether a new content of a file has something in the place of a value that the file holds:
    /// whoever was shown the file was not shown the value, and would take it away.
    pub(crate) fn would_be_lost(&self, old: &[u8], new: &[u8]) -> bool {
        memmem::find(new, INSTEAD.as_bytes()).is_some()
            && !self.found(old, Extent::Whole).is_empty()
    }

    /// A text without the values.
    pub(crate) fn redacted<'a>(&self, text: &'a str, extent: Extent) -> Cow<'a, str> {
        let found = self.found(text.as_bytes(), extent);
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut out = Vec::with_capacity(text.len());
        replace(text.as_bytes(), &found, &mut out);
        Cow::Owned(lossless(out))
    }

    /// JSON without the values in its texts; as it was if there are none.
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

    /// Takes the values out of all texts in a value. Whether there were any.
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

    /// Takes the values out of what a tool answers.
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

    /// Writes all that is read, without the values, however it is cut into pieces.
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

    /// Where values stand, in order and apart from each other.
    fn found(&self, bytes: &[u8], extent: Extent) -> Vec<Range<usize>> {
        if self.shapes.is_empty() {
            return Vec::new();
        }
        // Programs break long lines: a value may have line ends in it.
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
        // Back to where that is in the text with its line ends.
        let places: Vec<usize> = bytes
            .iter()
            .enumerate()
            .filter(|(_, byte)| is_kept(**byte))
            .map(|(at, _)| at)
            .collect();
        apart.into_iter().map(|found| places[found.start]..places[found.end - 1] + 1).collect()
    }
}

/// Whether a header of that name may hold a key. Those of the API itself say what it is asked for.
fn is_private(name: &str) -> bool {
    let name = name.trim().to_ascii_lowercase();
    !name.starts_with("anthropic-") && !["accept", "content-type", "user-agent"].contains(&&*name)
}

/// Adds what a value looks like.
fn add(shapes: &mut Vec<Vec<u8>>, value: &str, shortest: usize) {
    if value.len() < shortest {
        return;
    }
    shapes.push(value.as_bytes().to_vec());
    // Within base64 a value looks different by where it begins; what it shares a character with is
    // left out.
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
