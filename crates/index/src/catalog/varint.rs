//! Numbers in few bytes, and texts.

/// Adds a number, seven bits a byte, the lowest first.
pub(super) fn push(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(u8::try_from(number & 0x7f).unwrap_or(0) | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap_or(0));
}

/// Takes a number from the start; `None` if there is none.
pub(super) fn pull(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Adds a text, its length first.
pub(super) fn push_text(bytes: &mut Vec<u8>, text: &str) {
    push(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

/// Takes a text from the start; `None` if there is none.
pub(super) fn pull_text<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    let length = usize::try_from(pull(bytes)?).ok()?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    std::str::from_utf8(text).ok()
}
