//! Passwords in the arguments of commands, and in `.pgpass`.

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
pub(super) fn is_password(value: &[u8]) -> bool {
    value.len() >= 4
        && !b"$<{%-@/".contains(&value[0])
        && value.iter().any(u8::is_ascii_alphabetic)
        && !words::is_common(value)
        && !words::is_placeholder(value)
        && (value.iter().any(u8::is_ascii_digit) || !words::reads_as_words(value))
}

/// The values of an option that are passwords.
pub(super) fn option(text: &[u8], end: usize, name: &str, gap: Gap) -> Vec<Range<usize>> {
    // The name of the command may end with the space.
    let end = end - usize::from(text[..end].ends_with(b" "));
    let line = line(text, end);
    let name = [b" ", name.as_bytes()].concat();
    let mut places = memchr::memmem::find_iter(line, &name).peekable();
    // Nearly always there is none, and a line may have the command many times.
    if places.peek().is_none() {
        return Vec::new();
    }
    let command = first_command(line).len();
    let found = places.take_while(|at| *at < command).filter_map(|at| {
        let range = value(line, at + name.len(), gap)?;
        is_password(&line[range.clone()]).then(|| end + range.start..end + range.end)
    });
    found.collect()
}

/// A line up to the first `|` outside of quotes, behind which another command begins.
fn first_command(line: &[u8]) -> &[u8] {
    let mut open = None;
    for (at, byte) in line.iter().enumerate() {
        match (byte, open) {
            (b'|', None) => return &line[..at],
            (b'"' | b'\'', None) => open = Some(*byte),
            (byte, Some(quote)) if *byte == quote => open = None,
            _ => {}
        }
    }
    line
}

/// The passwords in options like `-u name:password`, also behind other letters: `-su`.
pub(super) fn account(text: &[u8], end: usize, account: Account) -> Vec<Range<usize>> {
    let line = line(text, end);
    let places = memchr::memmem::find_iter(line, b" -").filter_map(|at| {
        let dashes = at + 2;
        if line[dashes..].starts_with(b"-") {
            let names = ["user", "proxy-user"];
            let has = |name: &&str| line[dashes + 1..].starts_with(name.as_bytes());
            return names.iter().find(|name| has(name)).map(|name| dashes + 1 + name.len());
        }
        let letters = line[dashes..].iter().take_while(|byte| byte.is_ascii_alphabetic());
        letters.zip(dashes + 1..).find(|(byte, _)| account.letters.contains(byte)).map(|(_, at)| at)
    });
    let found = places.filter_map(|at| {
        let range = value(line, at, Gap::Any)?;
        let in_word = |range: &Range<usize>| memchr::memchr(account.sign, &line[range.clone()]);
        let (range, sign) = if let Some(sign) = in_word(&range) {
            (range, sign)
        } else {
            // `DOMAIN\name%password`.
            let rest = line[range.end..].strip_prefix(b"\\")?;
            let slashes = rest.iter().take_while(|byte| **byte == b'\\').count();
            let range = value(line, range.end + 1 + slashes, Gap::None)?;
            let sign = in_word(&range)?;
            (range, sign)
        };
        let range = range.start + sign + 1..range.end;
        is_password(&line[range.clone()]).then(|| end + range.start..end + range.end)
    });
    found.collect()
}

/// How a command takes a name and a password in one option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Account {
    /// The short names of the option.
    pub(super) letters: &'static [u8],
    /// What is between the name and the password.
    pub(super) sign: u8,
}

/// The words of a command, from there to what ends it.
fn words_of(line: &[u8]) -> Vec<Range<usize>> {
    let mut words: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    while let Some(range) = value(line, at, Gap::Any) {
        at = range.end;
        words.push(range);
        // The end of a quoted word.
        at += line[at..].iter().take_while(|byte| b"\\\"'".contains(byte)).count();
        if line.get(at) != Some(&b' ') {
            break;
        }
    }
    words
}

/// The first word that is no option.
pub(super) fn first_word(text: &[u8], end: usize) -> Option<Range<usize>> {
    let line = line(text, end);
    let range = words_of(line).into_iter().find(|range| line[range.start] != b'-')?;
    is_password(&line[range.clone()]).then(|| end + range.start..end + range.end)
}

/// The password of `htpasswd -b FILE NAME PASSWORD`, or `-bn NAME PASSWORD`.
pub(super) fn htpasswd(text: &[u8], end: usize) -> Option<Range<usize>> {
    let line = line(text, end);
    let (options, others): (Vec<_>, Vec<_>) =
        words_of(line).into_iter().partition(|range| line[range.start] == b'-');
    let has = |letter| options.iter().any(|range| line[range.clone()].contains(&letter));
    // A number is the value of `-C`.
    let is_number = |range: &Range<usize>| line[range.clone()].iter().all(u8::is_ascii_digit);
    let mut others = others.into_iter().filter(|range| !is_number(range));
    let range = others.nth(if has(b'n') { 1 } else { 2 }).filter(|_| has(b'b'))?;
    is_password(&line[range.clone()]).then(|| end + range.start..end + range.end)
}

/// The password in a line of `.pgpass`, behind some more fields.
pub(super) fn pgpass(text: &[u8], end: usize, fields: usize) -> Option<Range<usize>> {
    let rest = &text[end..text.len().min(end + COMMAND)];
    let ends = |byte: &u8| byte.is_ascii_whitespace() || b"\"'`".contains(byte);
    let line = &rest[..rest.iter().position(ends).unwrap_or(rest.len())];
    let start = memchr::memchr_iter(b':', line).nth(fields - 1)? + 1;
    // An escape, of the end of the line, ends it.
    let value = line[start..].split(|byte| *byte == b'\\').next()?;
    let is_last = !value.contains(&b':');
    (is_last && is_password(value)).then(|| end + start..end + start + value.len())
}
