//! Passwords that people chose: they have signs that end other values, and may be short.
//!
//! Invariant: what a program would read as code is none: calls, members, variables.

use std::ops::Range;

use super::words;

/// The longest one that is recognized.
const LONGEST: usize = 128;

/// A password without quotes that goes on behind what other values end with; `None` if the value is
/// all there is.
pub(super) fn signed(text: &[u8], value: Range<usize>) -> Option<Range<usize>> {
    let rest = &text[value.start..text.len().min(value.start + LONGEST)];
    let ends = |byte: &u8| !byte.is_ascii_graphic() || b"\"'`\\|".contains(byte);
    let mut word = &rest[..rest.iter().position(ends).unwrap_or(rest.len())];
    word = &word[..next_name(word).unwrap_or(word.len())];
    while let [before @ .., b',' | b';' | b'.' | b':' | b')' | b']' | b'}' | b'>'] = word {
        word = before;
    }
    let is_more = word.len() > value.len();
    (is_more && is_password(word)).then(|| value.start..value.start + word.len())
}

fn is_password(word: &[u8]) -> bool {
    let has = |is: fn(&u8) -> bool| word.iter().any(is);
    word.len() >= super::context::SHORTEST_PASSWORD
        && !b"$<{%@([".contains(&word[0])
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_alphabetic)
        && !is_code(word)
        && !is_member(word)
        && !words::is_stand_in(word)
        && !words::reads_as_words(word)
}

/// Where the next assignment of a list begins: `,user=`, `&x=`, `;Database=`.
fn next_name(word: &[u8]) -> Option<usize> {
    let is_name = |at: &usize| {
        let rest = &word[at + 1..];
        let name = rest.iter().take_while(|byte| byte.is_ascii_alphabetic() || **byte == b'_');
        let length = name.count();
        length > 0 && rest.get(length).is_some_and(|byte| b"=:;".contains(byte))
    };
    (0..word.len()).filter(|at| b",;&".contains(&word[*at])).find(is_name)
}

/// Whether brackets make it a call, an index or a type, and a sign makes it a variable.
fn is_code(word: &[u8]) -> bool {
    if let Some(at) = memchr::memchr(b'$', word) {
        let name = &word[at + 1..];
        let is_name = |byte: &u8| byte.is_ascii_uppercase() || *byte == b'_';
        if name.first().is_some_and(|byte| b"({".contains(byte))
            || name.len() > 2 && name.iter().all(is_name)
        {
            return true;
        }
    }
    let Some(open) = word.iter().position(|byte| b"([{<".contains(byte)) else { return false };
    let close = match word[open] {
        b'(' => b')',
        b'[' => b']',
        b'{' => b'}',
        _ => b'>',
    };
    let Some(closed) = memchr::memrchr(close, word) else { return true };
    // What follows a call is another one, or nothing.
    let is_end = !word.get(closed + 1).is_some_and(u8::is_ascii_alphanumeric);
    closed < open || is_end || open == 0 || words::reads_as_words(&word[..open])
}

/// Whether a value is a member of something in a program: `process.env.DB_PASSWORD_V2`.
pub(super) fn is_member(value: &[u8]) -> bool {
    let is_name = |part: &[u8]| {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        part.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
            && part.iter().all(is_part)
    };
    value.contains(&b'.')
        && value.split(|byte| *byte == b'.').all(is_name)
        && words::reads_as_words(value)
}

/// Words that are passwords, and nothing else.
pub(super) fn is_weak(value: &[u8]) -> bool {
    const WEAK: [&str; 8] = [
        "letmein",
        "iloveyou",
        "supersecret",
        "topsecret",
        "topsecretpassword",
        "trustno1",
        "opensesame",
        "correct horse battery staple",
    ];
    WEAK.iter().any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
}
