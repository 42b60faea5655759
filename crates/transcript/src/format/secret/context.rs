//! Secrets that are recognized by what surrounds them: names, headers, URLs, the lines of key
//! files.

use std::ops::Range;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::shape::{Class, Text};
use super::words::{self, Named};
use super::{apart, cookie, password};

/// The longest key file that is recognized.
const KEY_FILE: usize = 1 << 16;
/// At least this many base64 characters in a row are a line of a key, and not a word.
pub(super) const KEY_LINE: usize = 16;
/// At least this many such characters in total are a key.
const KEY: usize = 40;

/// A private key, from its first line to its last, whatever precedes each line: numbers, diff
/// signs, quotes. `None` if only the first line is there.
pub(super) fn private_key(text: &[u8], anchor: Range<usize>) -> Option<Range<usize>> {
    let lead = anchor.start.saturating_sub(40);
    let begin = memchr::memmem::rfind(&text[lead..anchor.start], b"BEGIN ")? + lead;
    let dashes = |at: usize| {
        let signs = text[..at].iter().rev().take(8).take_while(|byte| b"- ".contains(byte));
        signs.count()
    };
    let begin = begin - dashes(begin);
    let begin = begin + text[begin..].iter().take_while(|byte| **byte == b' ').count();
    if !text[begin..].starts_with(b"-") {
        return None;
    }
    let body = anchor.end;
    let rest = &text[body..text.len().min(body + KEY_FILE)];
    // If another key begins, this one has no end.
    let rest = &rest[..memchr::memmem::find(rest, b"BEGIN ").unwrap_or(rest.len())];
    if let Some(end) = memchr::memmem::find(rest, b"END ")
        && lines_of_key(&rest[..end]).0 >= KEY
    {
        let after = &rest[end..rest.len().min(end + 64)];
        let close = memchr::memmem::find(after, b"KEY").map_or(0, |at| at + 3);
        let block = if after[close..].starts_with(b" BLOCK") { 6 } else { 0 };
        let close = close + block;
        let tail = after[close..].iter().take(6).take_while(|byte| b"- ".contains(byte)).count();
        let tail = after[close..close + tail]
            .iter()
            .rposition(|byte| *byte == b'-')
            .map_or(0, |at| at + 1);
        return Some(begin..body + end + close + tail);
    }
    let (count, end) = lines_of_key(rest);
    (count >= KEY).then(|| begin..body + end)
}

/// How many characters are in lines of a key, and where the last of these lines ends. Something
/// short may precede each line.
fn lines_of_key(text: &[u8]) -> (usize, usize) {
    let (mut count, mut end, mut gap, mut at) = (0, 0, 0, 0);
    while at < text.len() {
        let run = text[at..].iter().take_while(|byte| is_key_char(**byte)).count();
        if run >= KEY_LINE || (count >= KEY && run > 0 && gap <= 4) {
            count += run;
            end = at + run;
            gap = 0;
        } else {
            gap += run.max(1);
        }
        // A key's headers are before its first line.
        if gap > if count == 0 { 512 } else { 32 } {
            break;
        }
        at += run.max(1);
    }
    (count, end)
}

pub(super) fn is_key_char(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=".contains(&byte)
}

/// A `PuTTY` key file, to its last line.
pub(super) fn putty(text: &[u8], anchor: Range<usize>) -> Option<Range<usize>> {
    let rest = &text[anchor.end..text.len().min(anchor.end + KEY_FILE)];
    let (count, lines) = lines_of_key(rest);
    if count < KEY {
        return None;
    }
    let end = memchr::memmem::find(rest, b"Private-MAC: ").map(|at| at + 13);
    let end = end.map(|at| at + Class::Hex.run(&rest[at..]));
    Some(anchor.start..anchor.end + end.unwrap_or(lines).max(lines))
}

/// The password in `scheme://user:password@host`, or a key in place of the user.
pub(super) fn url(text: &[u8], end: usize) -> Option<Range<usize>> {
    let stops = |byte: &u8| byte.is_ascii_whitespace() || b"/?#\"'`<>\\(){}[]|,;@".contains(byte);
    let rest = &text[end..text.len().min(end + 512)];
    let Some(stop) = rest.iter().position(stops) else { return signed_url(rest, end) };
    let is_host = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'[' || *byte == b'_';
    if rest[stop] != b'@' || !rest.get(stop + 1).is_some_and(is_host) {
        return signed_url(rest, end);
    }
    // A sign that ends other URLs may stand behind the first `@`.
    if let Some(range) = signed_url(rest, end).filter(|range| range.end > end + stop) {
        return Some(range);
    }
    let Some(colon) = memchr::memchr(b':', &rest[..stop]) else {
        // Sentry's URLs have a key there.
        let user = &rest[..stop];
        let is_key = user.len() >= 20
            && user.iter().all(u8::is_ascii_alphanumeric)
            && !words::reads_as_words(user)
            && !words::is_placeholder(user);
        return is_key.then_some(end..end + stop);
    };
    let value = &rest[colon + 1..stop];
    let is_variable = value.starts_with(b"$") || value.starts_with(b"%");
    let is_secret = value.len() >= 4
        && !is_variable
        && !words::is_common(value)
        && !words::is_placeholder(value)
        && (value.len() >= SHORTEST_PASSWORD || !value.iter().all(u8::is_ascii_digit));
    is_secret.then(|| end + colon + 1..end + stop)
}

/// The same if the password has signs that end other URLs: up to the last `@` before what ends a
/// word. Only what no person would write there counts, because URLs are also parts of lists.
fn signed_url(rest: &[u8], end: usize) -> Option<Range<usize>> {
    let ends = |byte: &u8| byte.is_ascii_whitespace() || b"/?\"'`\\|".contains(byte);
    let word = &rest[..rest.iter().position(ends).unwrap_or(rest.len())];
    let at = memchr::memrchr(b'@', word)?;
    let is_host = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'[' || *byte == b'_';
    let user = Class::Word.run(word);
    let value = word.get(user + 1..at).filter(|_| word[user] == b':')?;
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_port = digits > 0 && value.get(digits).is_some_and(u8::is_ascii_punctuation);
    let is_secret = value.len() >= SHORTEST
        && word.get(at + 1).is_some_and(is_host)
        && !is_port
        && value.iter().any(u8::is_ascii_digit)
        && value.iter().any(u8::is_ascii_alphabetic)
        && !b"$%{<([".contains(&value[0])
        && !value.contains(&b':')
        && is_made(value)
        && !words::is_stand_in(value);
    is_secret.then(|| end + user + 1..end + at)
}

/// The token after `Bearer`.
pub(super) fn bearer(text: &Text<'_>, end: usize) -> Option<Range<usize>> {
    let rest = &text.bytes[end..];
    let spaces = rest.iter().take_while(|byte| **byte == b' ').count();
    let spaces = if rest.starts_with(b"%20") { 3 } else { spaces };
    let at = end + spaces;
    let value = trimmed(&text.bytes[at..at + text.run(Class::Url, at)]);
    (spaces > 0 && value.len() >= 16 && is_made(value)).then(|| at..at + value.len())
}

/// A name and a password in base64, after `Basic`.
pub(super) fn basic(text: &[u8], end: usize) -> Option<Range<usize>> {
    let spaces = text[end..].iter().take_while(|byte| **byte == b' ').count();
    let at = end + spaces;
    let run = text[at..].iter().take_while(|byte| is_key_char(**byte)).count();
    (spaces > 0 && is_pair(&text[at..at + run])).then(|| at..at + run)
}

/// Decodes base64 with or without padding.
pub(super) const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Whether a value is base64 of `name:password`.
fn is_pair(value: &[u8]) -> bool {
    pair(value).is_some()
}

/// The password in base64 of `name:password`.
pub(super) fn pair(value: &[u8]) -> Option<Vec<u8>> {
    if !(8..=4096).contains(&value.len()) {
        return None;
    }
    let pair = LENIENT.decode(value).ok()?;
    let colon = memchr::memchr(b':', &pair)?;
    let is_text = !pair.iter().any(u8::is_ascii_control) && pair.is_ascii();
    is_text.then(|| pair[colon + 1..].to_vec())
}

/// The credential after `Authorization`.
pub(super) fn authorization(text: &[u8], end: usize) -> Option<Range<usize>> {
    let at = given(text, end)?;
    credential(text, at + quotes(&text[at..]))
}

/// A credential, with or without the name of its scheme.
fn credential(text: &[u8], at: usize) -> Option<Range<usize>> {
    let scheme = Class::Word.run(&text[at..text.len().min(at + 24)]);
    let is_scheme = (3..=20).contains(&scheme) && text.get(at + scheme) == Some(&b' ');
    let at = if is_scheme { at + scheme + 1 } else { at };
    let is_value = |byte: &&u8| Class::Url.has(**byte) || **byte == b':';
    let run = text[at..].iter().take(4096).take_while(is_value).count();
    let value = trimmed(&text[at..at + run]);
    (value.len() >= 8 && is_made(value)).then(|| at..at + value.len())
}

/// The secret in the value of a JSON member, by the member's name.
pub(super) fn member(name: &[u8], value: &[u8]) -> Option<Range<usize>> {
    if ends_with(name, b"authorization") {
        return credential(value, 0);
    }
    if ends_with(name, b"cookie") {
        return cookie::cookies(value, 0);
    }
    let named = words::named(name)?;
    is_assigned(named, value, true, b"").then_some(0..value.len())
}

/// Whether [`member`] looks at the values of members with that name.
pub(super) fn is_telling(name: &[u8]) -> bool {
    ends_with(name, b"authorization") || ends_with(name, b"cookie") || words::named(name).is_some()
}

/// The length of the shortest value that counts as a secret because of its name.
pub(super) const SHORTEST: usize = 8;
/// The same of a password.
pub(super) const SHORTEST_PASSWORD: usize = 6;

/// The value that is assigned to a name that means a secret.
pub(super) fn assigned(text: &[u8], anchor: Range<usize>) -> Option<Range<usize>> {
    // Short anchors have the sign behind the name.
    let has_sign = text[..anchor.end].ends_with(b"=") || text[..anchor.end].ends_with(b":");
    let anchor = anchor.start..anchor.end - usize::from(has_sign);
    // Nearly all matches are token counts. The plural is the fastest sign of these.
    let is_plural = matches!(text.get(anchor.end), Some(b's' | b'S'))
        && !text.get(anchor.end + 1).is_some_and(|byte| Class::Word.has(*byte));
    if is_plural && !ends_with(&text[..anchor.end], b"credential") {
        return None;
    }
    let start = || anchor.start - Class::Word.run_before(&text[..anchor.start], 64);
    let end = anchor.end + Class::Word.run(&text[anchor.end..text.len().min(anchor.end + 32)]);
    let at = given(text, end)
        .map(|at| apart::below(text, start, at))
        .map(|at| behind_type(text, at))
        .or_else(|| separate(text, start(), end))
        .or_else(|| argument(text, start, end))
        .or_else(|| apart::value(text, start(), end))?;
    // Most values are short, and then the name does not matter.
    let (value, is_quoted) = value(text, at)?;
    if value.len() < SHORTEST_PASSWORD && (is_quoted || !goes_on(&text[value.end..])) {
        return None;
    }
    let start = start();
    // People write `api key: x`.
    let is_api = || ends_with(&text[..start], b"api ") && text[start..end].len() == 3;
    let named = words::named(text[start..end].trim_ascii());
    let named = named.or_else(|| is_api().then_some(Named::Key))?;
    // The name of a secret in AWS.
    let before = &text[start.saturating_sub(96)..start];
    if before.ends_with(b":") && memchr::memmem::find(before, b"arn:aws").is_some() {
        return None;
    }
    if named == Named::Password
        && !is_quoted
        && let Some(range) = password::signed(text, value.clone())
    {
        return Some(range);
    }
    // `--- PASS: TestName`, `token: csrfToken`.
    let name = &text[start..end];
    let is_verdict =
        name.eq_ignore_ascii_case(b"pass") && !text[..at].trim_ascii_end().ends_with(b"=");
    let is_variable = ["token", "key", "secret", "password", "pass"]
        .iter()
        .any(|word| ends_with(&text[value.clone()], word.as_bytes()));
    if !is_quoted && (is_verdict || is_variable) {
        return None;
    }
    is_assigned(named, &text[value.clone()], is_quoted, &text[value.end..]).then_some(value)
}

/// Whether a value is the kind of secret that its name says. `after` is the text after it.
pub(super) fn is_assigned(named: Named, value: &[u8], is_quoted: bool, after: &[u8]) -> bool {
    if named == Named::Pair {
        return value.len() >= 12 && is_pair(value);
    }
    let is_password = named == Named::Password;
    let has_letter = value.iter().any(u8::is_ascii_alphabetic);
    let has_digit = value.iter().any(u8::is_ascii_digit);
    // A call, an index, or a type with parameters.
    let is_code = !is_quoted && begins_code(after)
        || value.contains(&b'.')
            && value.iter().all(|byte| byte.is_ascii_alphabetic() || b"._".contains(byte))
        || password::is_member(value);
    let reads = words::reads_as_words(value);
    let is_path = value.contains(&b'/') && !value.iter().any(u8::is_ascii_uppercase)
        || reads
            && [&b"/"[..], b"./", b"../", b"~/"].iter().any(|prefix| value.starts_with(prefix));
    let is_variable = b"$<{%@".contains(value.first().unwrap_or(&b'$'));
    // A phrase has digits and signs where words have none.
    let is_spaced = value.iter().any(u8::is_ascii_whitespace)
        && !(is_password && is_quoted && has_digit && !reads && value.len() <= 64);
    let is_address = value.len() == 42
        && value.starts_with(b"0x")
        && value[2..].iter().all(u8::is_ascii_hexdigit);
    let shortest = if is_password { SHORTEST_PASSWORD } else { SHORTEST };
    let is_stand_in = words::is_common(value)
        || words::is_stand_in(value)
        || value.iter().all(|byte| byte == &value[0]);
    let is_random = if is_password { has_digit } else { has_digit && has_letter };
    if is_password && password::is_weak(value) {
        return true;
    }
    // Short passwords are of letters and digits: a number is a setting.
    let is_short = value.len() < SHORTEST;
    value.len() >= shortest
        && (!is_short || has_letter && has_digit)
        && !is_address
        && !is_code
        && !is_path
        && !is_variable
        && !is_spaced
        && !is_stand_in
        && (is_random && (!reads || is_password) || has_letter && !reads)
}

/// Whether the text after a word makes it a call, an index, or a type with parameters. Colour codes
/// and tags are not code.
fn begins_code(after: &[u8]) -> bool {
    match after {
        [b'(' | b'{' | b'$', ..] => true,
        [b'<', next, ..] => next.is_ascii_alphabetic(),
        [b'[', rest @ ..] => {
            let numbers =
                rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b';').count();
            !rest.get(numbers).is_some_and(|byte| b"mK".contains(byte))
        }
        _ => false,
    }
}

/// Where the value that is assigned to a name begins: after `=`, `:`, `:=`, `=>`, `%3D`, or the `>`
/// of a tag.
fn given(text: &[u8], end: usize) -> Option<usize> {
    let spaces =
        |at: usize| text[at..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let mut at = end + quotes(&text[end..]);
    at += usize::from(text.get(at) == Some(&b']'));
    at += spaces(at);
    let rest = &text[at..];
    let signs = if rest.starts_with(b"%3D") || rest.starts_with(b"%3d") {
        3
    } else if rest.starts_with(b"::") {
        // A path in Rust or C++.
        0
    } else {
        rest.iter().take(3).take_while(|byte| b":=>".contains(byte)).count()
    };
    at += signs;
    (signs > 0).then(|| at + spaces(at))
}

/// Where a value begins behind the type of what it is assigned to: `token: string = "x"`.
fn behind_type(text: &[u8], at: usize) -> usize {
    const LONGEST: usize = 32;
    let near = &text[at..text.len().min(at + LONGEST)];
    let is_type = |byte: &&u8| byte.is_ascii_alphanumeric() || b"&'_<>[]?.".contains(*byte);
    let name = near.iter().take_while(is_type).count();
    let rest = near[name..].trim_ascii_start();
    let Some(value) = rest.strip_prefix(b"=").filter(|_| name > 0) else { return at };
    let value = value.trim_ascii_start();
    if quotes(value) > 0 { at + near.len() - value.len() } else { at }
}

/// Whether what follows a value may be more of a password.
fn goes_on(after: &[u8]) -> bool {
    after.first().is_some_and(|byte| b"$&({<[,;!?".contains(byte))
}

/// The same after a space: `--password x`, and `login x password y` in a netrc file.
fn separate(text: &[u8], start: usize, end: usize) -> Option<usize> {
    if !matches!(text.get(end), Some(b' ' | b'\t')) {
        return None;
    }
    let name = &text[start..end];
    // The letter of an escape may precede the dashes.
    let is_option = memchr::memmem::find(name, b"--").is_some();
    let is_netrc = || {
        let before = &text[start.saturating_sub(256)..start];
        name.eq_ignore_ascii_case(b"password") && memchr::memmem::find(before, b"login ").is_some()
    };
    // Variables of a Dockerfile and of shells, settings of `aws` and `npm`; SQL.
    let is_set = || {
        let before = &text[start.saturating_sub(16)..start];
        let sets = ["ENV ", "set -x ", "set -gx ", "setx ", "configure set "];
        sets.iter().any(|set| before.ends_with(set.as_bytes())) || name.ends_with(b"_authToken")
    };
    let is_sql = || name == b"PASSWORD" && text.get(end + 1) == Some(&b'\'');
    (is_option || is_netrc() || is_set() || is_sql()).then_some(end + 1)
}

/// The same as the argument of a call that follows the name: `define('DB_PASSWORD', 'x')`.
fn argument(text: &[u8], start: impl Fn() -> usize, end: usize) -> Option<usize> {
    let quote = quotes(&text[end..]);
    let rest = text[end + quote..].strip_prefix(b",").filter(|_| quote > 0)?;
    let spaces = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let before = text[..start()].strip_suffix(&text[end + quote - 1..end + quote])?;
    let slashes = before.iter().rev().take_while(|byte| **byte == b'\\').count();
    let is_first = before[..before.len() - slashes].trim_ascii_end().ends_with(b"(");
    (is_first && quotes(&rest[spaces..]) > 0).then_some(end + quote + 1 + spaces)
}

/// The range of a value, in quotes or up to the first character that cannot belong to it; and
/// whether it is in quotes.
fn value(text: &[u8], at: usize) -> Option<(Range<usize>, bool)> {
    const LONGEST: usize = 1 << 10;
    let slashes = text[at..].iter().take_while(|byte| **byte == b'\\').count();
    let quote = text.get(at + slashes).copied().filter(|byte| b"\"'`".contains(byte));
    let Some(quote) = quote else {
        let is_value =
            |byte: &&u8| byte.is_ascii_alphanumeric() || b"-_+/=.~!@#%^*:?".contains(*byte);
        let run = text[at..].iter().take(LONGEST).take_while(is_value).count();
        let value = trimmed(&text[at..at + run]);
        return (!value.is_empty()).then(|| (at..at + value.len(), false));
    };
    let from = at + slashes + 1;
    let mut end = from;
    // Deeper escapes belong to the value.
    while end < text.len().min(from + LONGEST) {
        let depth = text[end..].iter().take_while(|byte| **byte == b'\\').count();
        match text.get(end + depth) {
            Some(byte) if *byte == quote && depth <= slashes => return Some((from..end, true)),
            Some(b'\n') | None => return None,
            Some(_) => end += depth + 1,
        }
    }
    None
}

/// Whether a value looks machine-made, and is not a placeholder.
pub(super) fn is_made(value: &[u8]) -> bool {
    !words::is_placeholder(value) && !words::reads_as_words(value)
}

/// The value without punctuation that ends a sentence or a clause.
fn trimmed(value: &[u8]) -> &[u8] {
    let end = value.iter().rposition(|byte| !b".:?!".contains(byte)).map_or(0, |at| at + 1);
    &value[..end]
}

/// The length of the quote that a text begins with, including its escapes; 0 if there is none.
pub(super) fn quotes(text: &[u8]) -> usize {
    let slashes = text.iter().take_while(|byte| **byte == b'\\').count();
    match text.get(slashes) {
        Some(byte) if b"\"'`".contains(byte) => slashes + 1,
        _ => 0,
    }
}

pub(super) fn ends_with(text: &[u8], end: &[u8]) -> bool {
    text.len().checked_sub(end.len()).is_some_and(|at| text[at..].eq_ignore_ascii_case(end))
}
