//! Where words begin, in plain text and in text that was escaped.
//!
//! A key often follows a colour code, a percent escape in a URL, or an escape of nested JSON. The
//! last letters of these belong to the escape, not to the word after it.

/// How many bytes before a word can be an escape.
const LOOK_BACK: usize = 24;

/// Whether a word can begin there: the byte before is not a letter or digit, or it ends an escape.
pub(super) fn begins(text: &[u8], at: usize) -> bool {
    let before = &text[at.saturating_sub(LOOK_BACK)..at];
    match before.last() {
        Some(last) if last.is_ascii_alphanumeric() => ends_escape(before),
        Some(_) | None => true,
    }
}

/// Whether these bytes end with an escape.
fn ends_escape(before: &[u8]) -> bool {
    // `\n`, and every other escape of one letter.
    if let [.., b'\\', _] = before {
        return true;
    }
    // `%3D`, `=3D` in mail, `\x1b`.
    if let [.., first, second] = before
        && first.is_ascii_hexdigit()
        && second.is_ascii_hexdigit()
    {
        let rest = &before[..before.len() - 2];
        if rest.ends_with(b"%") || rest.ends_with(b"=") || rest.ends_with(b"\\x") {
            return true;
        }
        // `\033` and `\u001b`.
        let digits = rest.iter().rev().take_while(|byte| byte.is_ascii_hexdigit()).count();
        if digits >= 1 && rest[..rest.len() - 1].ends_with(b"\\")
            || digits >= 2 && rest[..rest.len() - 2].ends_with(b"\\u")
        {
            return true;
        }
    }
    // `[0;32m`, with or without the escape byte before it; `(B` only with it.
    let [rest @ .., last] = before else { return false };
    if !last.is_ascii_alphabetic() {
        return false;
    }
    if let [rest @ .., b'('] = rest {
        return [&b"\x1b"[..], b"1b", b"1B", b"\\e", b"\\033"]
            .iter()
            .any(|escape| rest.ends_with(escape));
    }
    let is_number = |byte: &&u8| byte.is_ascii_digit() || b";:?".contains(byte);
    let numbers = rest.iter().rev().take_while(is_number).count();
    rest[..rest.len() - numbers].ends_with(b"[")
}

/// The length of the code that a terminal obeys (`[0;31m`), if one follows an escape there.
pub(super) fn colour(text: &[u8]) -> Option<usize> {
    let rest = text.strip_prefix(b"[")?;
    let numbers = rest.iter().take(LOOK_BACK).take_while(|byte| matches!(byte, 0x20..=0x3f));
    let numbers = numbers.count();
    matches!(rest.get(numbers)?, 0x40..=0x7e).then_some(numbers + 2)
}

/// The printable character that two hexadecimal digits encode.
pub(super) fn printable(text: &[u8], at: usize) -> Option<u8> {
    let digits = std::str::from_utf8(text.get(at..at + 2)?).ok()?;
    let byte = u8::from_str_radix(digits, 16).ok()?;
    (matches!(byte, 0x20..=0x7e) && !digits.starts_with('+')).then_some(byte)
}
