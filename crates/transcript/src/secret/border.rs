//! Where words begin, in text as it is and in text that was escaped for something else.
//!
//! A key rarely stands alone: it follows a colour code, a percent escape of an address, an escape
//! of JSON in JSON. The last letters of these belong to the escape, not to the word behind it.

/// How much before a word can be an escape.
const LOOK_BACK: usize = 24;

/// Whether a word can begin there: what stands before is no letter and no digit, or ends an escape.
pub(super) fn begins(text: &[u8], at: usize) -> bool {
    let before = &text[at.saturating_sub(LOOK_BACK)..at];
    match before.last() {
        Some(last) if last.is_ascii_alphanumeric() => ends_escape(before),
        Some(_) | None => true,
    }
}

/// Whether these bytes end with an escape.
fn ends_escape(before: &[u8]) -> bool {
    // `\n`, and whatever else is one letter.
    if let [.., b'\\', _] = before {
        return true;
    }
    // `%3D`, `=3D` of mail, `\x1b`.
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
    // `[0;32m`, with or without the byte that terminals want before it; `(B` with it.
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

/// A text in which letters, digits and signs stand for themselves, and where each part of it comes
/// from.
#[derive(Debug)]
pub(super) struct Plain {
    pub(super) text: Vec<u8>,
    /// From where in `text` on which bytes of the source stand there.
    from: Vec<(usize, usize)>,
}

impl Plain {
    /// The text without escapes (`\u0067`, of whatever depth) of printable ASCII; nothing if it has
    /// none.
    pub(super) fn of(source: &[u8]) -> Option<Plain> {
        let mut plain = Plain { text: Vec::new(), from: vec![(0, 0)] };
        let mut done = 0;
        for at in memchr::memmem::find_iter(source, b"\\u00") {
            let Some(byte) = printable(source, at + 4).filter(|_| at >= done) else { continue };
            let slashes = source[done..at].iter().rev().take_while(|byte| **byte == b'\\').count();
            plain.text.extend_from_slice(&source[done..at - slashes]);
            plain.from.push((plain.text.len(), at - slashes));
            plain.text.push(byte);
            done = at + 6;
            plain.from.push((plain.text.len(), done));
        }
        if done == 0 {
            return None;
        }
        plain.text.extend_from_slice(&source[done..]);
        Some(plain)
    }

    /// Where in the source that place of the text is.
    pub(super) fn source(&self, at: usize) -> usize {
        let part = self.from.partition_point(|(start, _)| *start <= at).saturating_sub(1);
        let (start, source) = self.from[part];
        source + (at - start)
    }
}

/// The printable character that two hexadecimal digits stand for.
pub(super) fn printable(text: &[u8], at: usize) -> Option<u8> {
    let digits = std::str::from_utf8(text.get(at..at + 2)?).ok()?;
    let byte = u8::from_str_radix(digits, 16).ok()?;
    (byte.is_ascii_graphic() && !digits.starts_with('+')).then_some(byte)
}
