//! Placeholders: what stands in a text where a secret was.
//!
//! Invariant: a placeholder is never a secret or a part of one, and announces none. Rules look at a
//! text in which the insides of placeholders are blank, and what they find around one is cut there;
//! so whatever a rule matches, a text that was redacted has nothing left to redact.

use std::ops::Range;

use super::table::TABLE;
use super::{Found, Redactor, words};

/// What a placeholder begins with: `[redacted:github-token:1]`, and `[redacted-github-token-1]` in
/// the name of a file.
const BEGIN: &[u8] = b"[redacted";
/// The longest name of a kind.
const LONGEST: usize = 64;
/// A name of this length is too short for a secret.
const SHORT: usize = 12;
/// What the insides are replaced with: no rule takes it for a part of a value.
const BLANK: u8 = b'*';

/// The placeholders in a text, in order.
pub(super) fn places(redactor: &Redactor, text: &[u8]) -> Vec<Range<usize>> {
    let begins = memchr::memmem::find_iter(text, BEGIN);
    let places = begins.filter_map(|start| {
        let length = length(redactor, &text[start..])?;
        Some(start..start + length)
    });
    places.collect()
}

/// The length of the placeholder that a text begins with.
fn length(redactor: &Redactor, text: &[u8]) -> Option<usize> {
    let rest = text.strip_prefix(BEGIN)?;
    let sign = *rest.first().filter(|sign| b":-".contains(sign))?;
    let inside = &rest[1..rest.len().min(LONGEST + 24)];
    let inside = &inside[..memchr::memchr(b']', inside)?];
    let number = inside.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let name = inside[..inside.len() - number].strip_suffix(&[sign]).filter(|_| number > 0);
    let is_one = [name, Some(inside)].into_iter().flatten().any(|name| is_kind(redactor, name));
    is_one.then(|| BEGIN.len() + inside.len() + 2)
}

/// Whether that is the name of a kind, or may be one of other rules: nobody may keep a secret by
/// writing it there.
fn is_kind(redactor: &Redactor, name: &[u8]) -> bool {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    (1..=LONGEST).contains(&name.len())
        && name.iter().all(is_name)
        && (name.len() <= SHORT
            || words::reads_as_words(name)
            || TABLE.anchors.iter().any(|anchor| anchor.kind.as_bytes() == name)
            || redactor.custom.iter().any(|rule| rule.name().as_bytes() == name))
}

/// A text whose placeholders are blank, of the same length.
pub(super) fn blanked(text: &[u8], places: &[Range<usize>]) -> Vec<u8> {
    let mut blank = text.to_vec();
    for place in places {
        // The brackets stay: they end what stands around them.
        blank[place.start + 1..place.end - 1].fill(BLANK);
    }
    blank
}

/// What is found in a text, without its placeholders. A secret around one becomes several.
pub(super) fn outside<'a>(
    found: Vec<Found<'a>>,
    text: &[u8],
    places: &[Range<usize>],
) -> Vec<Found<'a>> {
    let cut = |(range, named): Found<'a>| {
        let parts = parts(range, text, places).into_iter();
        parts.map(move |part| (part, named)).collect::<Vec<_>>()
    };
    found.into_iter().flat_map(cut).collect()
}

/// The parts of a range that are no placeholders, if there is more in them than signs.
pub(super) fn parts(
    range: Range<usize>,
    text: &[u8],
    places: &[Range<usize>],
) -> Vec<Range<usize>> {
    let first = places.partition_point(|place| place.end <= range.start);
    let within = places[first..].iter().take_while(|place| place.start < range.end);
    let (mut parts, mut from) = (Vec::new(), range.start);
    let mut is_cut = false;
    for place in within {
        parts.push(from..place.start.max(from));
        from = place.end;
        is_cut = true;
    }
    parts.push(from..range.end.max(from));
    let is_more = |part: &Range<usize>| {
        text[part.clone()].iter().any(|byte| byte.is_ascii_alphanumeric() || *byte >= 0x80)
    };
    parts.retain(|part| !is_cut || is_more(part));
    parts
}

/// Whether a string is the name of a tool, or the id of a call.
pub(super) fn is_name_of_call(member: Option<&[u8]>, text: &str) -> bool {
    const MEMBERS: [&[u8]; 7] = [
        b"name",
        b"tool_name",
        b"id",
        b"tool_use_id",
        b"toolUseID",
        b"parentToolUseID",
        b"sourceToolUseID",
    ];
    let is_named = || member.is_some_and(|member| MEMBERS.contains(&member));
    // Lists have names of tools, too.
    (text.starts_with("mcp__") || is_named())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// A placeholder of the signs that such a name may have: `redacted-github-token-1`.
pub(super) fn plain(placeholder: &str) -> String {
    let is_sign = |sign: char| !sign.is_ascii_alphanumeric() && !matches!(sign, '-' | '_');
    placeholder.trim_matches(is_sign).replace(is_sign, "-")
}

#[cfg(test)]
#[path = "placeholder_tests.rs"]
mod tests;
