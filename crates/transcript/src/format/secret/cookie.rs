//! Cookies: in headers, options and programs, and in the files of `curl` and `wget`.

use std::ops::Range;

use super::border::begins;
use super::context::{ends_with, is_made, quotes};

/// The shortest value of a cookie that may be a session.
const SESSION: usize = 16;
/// The longest line or dictionary that is looked through.
const LONGEST: usize = 4096;

/// The value of a cookie header.
pub(super) fn cookie(text: &[u8], anchor: Range<usize>) -> Option<Range<usize>> {
    let before = &text[..anchor.start];
    let start = anchor.start - if ends_with(before, b"set-") { 4 } else { 0 };
    let is_option = text[..start].ends_with(b"--");
    if !begins(text, start) {
        return None;
    }
    if let Some(range) = in_dictionary(text, anchor.end) {
        return Some(range);
    }
    let mut at = anchor.end + quotes(&text[anchor.end..]);
    let is_header = text.get(at) == Some(&b':');
    let is_set =
        || before.ends_with(b"document.") && text[at..].trim_ascii_start().starts_with(b"=");
    if !is_header && !is_option && !is_set() {
        return None;
    }
    at += usize::from(is_header);
    at += text[at..].iter().take(8).take_while(|byte| matches!(byte, b' ' | b'=' | b'[')).count();
    at += quotes(&text[at..]);
    cookies(text, at)
}

/// The cookies that begin there, up to the end of the line or the closing quote.
pub(super) fn cookies(text: &[u8], at: usize) -> Option<Range<usize>> {
    let rest = &text[at..text.len().min(at + 4096)];
    let ends = |byte: &u8| byte.is_ascii_control() || b"\"'`\\<>".contains(byte);
    let end = rest.iter().position(ends).unwrap_or(rest.len());
    let line = rest[..end].trim_ascii_end();
    let is_secret = |pair: &[u8]| {
        let value = memchr::memchr(b'=', pair).map(|equals| pair[equals + 1..].trim_ascii());
        value.is_some_and(|value| value.len() >= 8 && is_made(value))
    };
    line.split(|byte| *byte == b';').any(is_secret).then(|| at..at + line.len())
}

/// The values in a dictionary: `cookies={'sessionid': 'x'}`; from the first secret to the last.
fn in_dictionary(text: &[u8], end: usize) -> Option<Range<usize>> {
    let rest = text[end..text.len().min(end + LONGEST)].strip_prefix(b"s")?;
    let rest = rest.strip_prefix(b"_dict").unwrap_or(rest);
    let rest = &rest[quotes(rest)..];
    let signs = rest.iter().take_while(|byte| b" :=".contains(byte)).count();
    let inside = rest[signs..].strip_prefix(b"{").filter(|_| signs > 0)?;
    let inside = &inside[..memchr::memchr(b'}', inside)?];
    let base = inside.as_ptr() as usize - text.as_ptr() as usize;
    let (mut secrets, mut at) = (None, 0);
    // A name or a value is between the same quotes.
    while let Some(open) = inside[at..].iter().position(|byte| b"\"'".contains(byte)) {
        let from = at + open + 1;
        let Some(length) = memchr::memchr(inside[from - 1], &inside[from..]) else { break };
        let is_value = inside[..from - 1].trim_ascii_end().ends_with(b":");
        at = from + length + 1;
        let value = inside[from..from + length].trim_ascii_end();
        if is_value && is_session(value) {
            let start = secrets.map_or(base + from, |secrets: Range<usize>| secrets.start);
            secrets = Some(start..base + from + value.len());
        }
    }
    secrets
}

/// The value on a line of a cookie jar, behind the flag and the path: `TRUE`, when it ends, its
/// name, its value.
pub(super) fn in_jar(text: &[u8], end: usize) -> Option<Range<usize>> {
    let rest = &text[end..text.len().min(end + LONGEST)];
    let line = &rest[..rest.iter().position(|byte| b"\r\n".contains(byte)).unwrap_or(rest.len())];
    let mut fields = line.split(|byte| *byte == b'\t');
    let (_path, is_secure, until, _name, value) =
        (fields.next()?, fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let is_line = matches!(is_secure, b"TRUE" | b"FALSE")
        && !until.is_empty()
        && until.iter().all(u8::is_ascii_digit)
        && fields.next().is_none();
    let start = value.as_ptr() as usize - text.as_ptr() as usize;
    (is_line && is_session(value)).then(|| start..start + value.len())
}

/// Whether a value may let its owner in.
fn is_session(value: &[u8]) -> bool {
    value.len() >= SESSION
        && value.iter().all(u8::is_ascii_graphic)
        && value.iter().any(u8::is_ascii_digit)
        && value.iter().any(u8::is_ascii_alphabetic)
        && is_made(value)
}
