//! Secrets beside what names them: the key of an AWS account behind its id, the private members of
//! a JSON web key, the password before or behind a command.

use std::ops::Range;

use super::border::begins;
use super::command::is_password;
use super::context::{is_made, quotes};
use super::shape::Class;

/// How far from the type of a JSON web key its members are.
const KEY_OBJECT: usize = 4096;
/// The shortest private member of one.
const MEMBER: usize = 16;
/// How far before a command its line is looked at.
const LINE: usize = 512;

/// The secret key behind an id of an AWS account, with nothing but signs between them: in a CSV
/// file, in a table.
pub(super) fn aws(text: &[u8], anchor: Range<usize>) -> Option<Range<usize>> {
    const ID: usize = 16;
    const SECRET: usize = 40;
    const SIGNS: usize = 8;
    let end = anchor.end + ID;
    let id = text.get(anchor.end..end)?;
    if !id.iter().all(|byte| Class::Upper.has(*byte)) || !begins(text, anchor.start) {
        return None;
    }
    let is_sign = |byte: &&u8| b"\"',;:|/ \t\r\n".contains(*byte);
    let signs = text[end..].iter().take(SIGNS + 1).take_while(is_sign).count();
    let start = end + signs;
    let is_base64 = |byte: &&u8| byte.is_ascii_alphanumeric() || b"+/=".contains(*byte);
    let run = text[start..].iter().take(SECRET + 1).take_while(is_base64).count();
    let value = &text[start..start + run];
    let has = |is: fn(&u8) -> bool| value.iter().any(is);
    let is_secret = (1..=SIGNS).contains(&signs)
        && run == SECRET
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_digit)
        && !value.ends_with(b"EXAMPLEKEY")
        && is_made(value);
    is_secret.then_some(start..start + run)
}

/// The private members of a JSON web key whose type has that name.
pub(super) fn web_key(text: &[u8], end: usize) -> Vec<Range<usize>> {
    const PRIVATE: [&[u8]; 7] = [b"d", b"k", b"p", b"q", b"dp", b"dq", b"qi"];
    let from = end.saturating_sub(KEY_OBJECT);
    let to = text.len().min(end + KEY_OBJECT);
    if quotes(&text[end..]) == 0 {
        return Vec::new();
    }
    let before = text[from..end].iter().rposition(|byte| b"{}".contains(byte));
    let Some(start) = before.map(|at| from + at).filter(|at| text[*at] == b'{') else {
        return Vec::new();
    };
    let object = start..memchr::memchr(b'}', &text[end..to]).map_or(to, |at| end + at);
    let inside = &text[object.clone()];
    let found = memchr::memchr_iter(b':', inside).filter_map(|colon| {
        let name = inside[..colon].trim_ascii_end();
        let name = name.strip_suffix(b"\"")?;
        let name = &name[..name.len() - name.iter().rev().take_while(|b| **b == b'\\').count()];
        let name = &name[memchr::memrchr(b'"', name)? + 1..];
        let rest = inside[colon + 1..].trim_ascii_start();
        let value = &rest[quotes(rest)..];
        let run = Class::Word.run(value);
        let is_secret = PRIVATE.contains(&name)
            && quotes(rest) > 0
            && quotes(&value[run..]) > 0
            && run >= MEMBER
            && is_made(&value[..run]);
        let at = object.end - value.len();
        is_secret.then(|| at..at + run)
    });
    found.collect()
}

/// The password that goes into `chpasswd`: `echo 'name:x' | chpasswd`, `chpasswd <<< "name:x"`.
pub(super) fn chpasswd(text: &[u8], anchor: Range<usize>) -> Option<Range<usize>> {
    // The anchor lacks the last letter: something must follow it.
    let end = anchor.end + usize::from(text.get(anchor.end) == Some(&b'd'));
    let from = anchor.start.saturating_sub(LINE);
    let before = &text[from..anchor.start];
    let before = &before[memchr::memrchr(b'\n', before).map_or(0, |at| at + 1)..];
    let piped = before.trim_ascii_end();
    let piped = piped.strip_suffix(b"sudo").unwrap_or(piped).trim_ascii_end();
    let word = if let Some(line) = piped.strip_suffix(b"|") {
        let line = line.trim_ascii_end();
        last_word(line)
    } else {
        let rest = text[end..text.len().min(end + LINE)].trim_ascii_start();
        let rest = rest.strip_prefix(b"<<<")?.trim_ascii_start();
        first_word(&rest[quotes(rest)..])
    };
    let colon = memchr::memchr(b':', word).filter(|colon| *colon > 0)?;
    within(text, &word[colon + 1..])
}

/// The password in `sqlplus name/x@host`.
pub(super) fn sqlplus(text: &[u8], end: usize) -> Option<Range<usize>> {
    let rest = &text[end..text.len().min(end + LINE)];
    let line = &rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())];
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let word = words.find(|word| !word.starts_with(b"-"))?;
    let word = first_word(&word[quotes(word)..]);
    let slash = memchr::memchr(b'/', word).filter(|slash| *slash > 0)?;
    let at = memchr::memrchr(b'@', word).filter(|at| *at > slash)?;
    within(text, &word[slash + 1..at])
}

/// The place of a part of a text, if that is a password.
fn within(text: &[u8], value: &[u8]) -> Option<Range<usize>> {
    let start = value.as_ptr() as usize - text.as_ptr() as usize;
    let is_one = is_password(value);
    is_one.then(|| start..start + value.len())
}

/// What ends a word.
fn ends(byte: u8) -> bool {
    byte.is_ascii_whitespace() || b"\"'`\\".contains(&byte)
}

fn first_word(text: &[u8]) -> &[u8] {
    &text[..text.iter().position(|byte| ends(*byte)).unwrap_or(text.len())]
}

/// The last word of a text, without its quotes.
fn last_word(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| !b"\"'\\".contains(byte)).map_or(0, |at| at + 1);
    let start = text[..end].iter().rposition(|byte| ends(*byte)).map_or(0, |at| at + 1);
    &text[start..end]
}

#[cfg(test)]
#[path = "beside_tests.rs"]
mod tests;
