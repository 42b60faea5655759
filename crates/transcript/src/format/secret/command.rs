//! Passwords in the arguments of commands.

use std::ops::Range;

use super::words;

/// How far after the name of a command its options are searched.
const COMMAND: usize = 1 << 10;

/// What may be between an option and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gap {
    None,
    Any,
}

/// The rest of a command line from that place on: to the end of the line.
fn line(text: &[u8], from: usize) -> &[u8] {
    let rest = &text[from..text.len().min(from + COMMAND)];
    // A backslash continues the line.
    let ends = |at: &usize| rest[*at] == b'\n' && !rest[..*at].ends_with(b"\\");
    let end = (0..rest.len()).find(ends).unwrap_or(rest.len());
    &rest[..end]
}

/// The range of an option's value: a word, with or without quotes.
fn value(line: &[u8], mut at: usize, gap: Gap) -> Option<Range<usize>> {
    let spaces = line[at..].iter().take_while(|byte| matches!(byte, b' ' | b'=')).count();
    if gap == Gap::None && spaces > 0 {
        return None;
    }
    at += spaces;
    let slashes = line[at..].iter().take_while(|byte| **byte == b'\\').count();
    let quote = line.get(at + slashes).copied().filter(|byte| b"\"'".contains(byte));
    if quote.is_some() {
        at += slashes + 1;
    }
    let ends = |byte: &u8| match quote {
        Some(quote) => *byte == quote || *byte == b'\\' || *byte == b'\n',
        None => byte.is_ascii_whitespace() || b"\"'`\\;|&<>()".contains(byte),
    };
    let len = line[at..].iter().position(ends).unwrap_or(line.len() - at);
    (len > 0).then_some(at..at + len)
}

/// Whether a value looks like a real password.
fn is_password(value: &[u8]) -> bool {
    value.len() >= 4
        && !b"$<{%-@/".contains(&value[0])
        && value.iter().any(u8::is_ascii_alphabetic)
        && !words::is_common(value)
        && !words::is_placeholder(value)
        && (value.iter().any(u8::is_ascii_digit) || !words::reads_as_words(value))
}

/// The values of an option that are passwords.
pub(super) fn option(text: &[u8], end: usize, name: &[u8], gap: Gap) -> Vec<Range<usize>> {
    let line = line(text, end);
    let places = memchr::memmem::find_iter(line, name);
    let found = places.filter_map(|at| {
        let range = value(line, at + name.len(), gap)?;
        is_password(&line[range.clone()]).then(|| end + range.start..end + range.end)
    });
    found.collect()
}

/// The passwords of `curl -u name:password`.
pub(super) fn curl(text: &[u8], end: usize) -> Vec<Range<usize>> {
    let line = line(text, end);
    let options: [&[u8]; 4] = [b" -u", b" --user", b" -U", b" --proxy-user"];
    let found = options.iter().flat_map(|name| {
        memchr::memmem::find_iter(line, name).filter_map(|at| {
            let range = value(line, at + name.len(), Gap::Any)?;
            let colon = memchr::memchr(b':', &line[range.clone()])?;
            let range = range.start + colon + 1..range.end;
            is_password(&line[range.clone()]).then(|| end + range.start..end + range.end)
        })
    });
    let mut found: Vec<Range<usize>> = found.collect();
    found.sort_by_key(|range| range.start);
    found
}
