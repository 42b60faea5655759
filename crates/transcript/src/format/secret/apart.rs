//! Values that stand apart from their names: in the next member, element, cell or line.

use std::ops::Range;

use super::context::quotes;

/// How far from a name its value begins.
const APART: usize = 96;

/// Where the value of a name begins that is not assigned to it directly:
/// `{"name": "DB_PASSWORD", "value": "x"}`, `<key>apiKey</key><string>x`, `| password | x |`,
/// `setPassword("x")`, `the password is x`.
pub(super) fn value(text: &[u8], start: usize, end: usize) -> Option<usize> {
    let near = end..text.len().min(end + APART);
    match text.get(end)? {
        b'"' | b'\'' | b'\n' | b'\r' | b'\\' => member(text, near),
        b'<' => {
            let at = memchr::memmem::find(&text[near.clone()], b"<string>")?;
            text[end..].starts_with(b"</").then_some(end + at + 8)
        }
        b'(' => {
            let name = &text[start..end];
            let is_password = name.eq_ignore_ascii_case(b"password");
            let is_setter =
                name.starts_with(b"set") || is_password && text[..start].ends_with(b".");
            (is_setter && quotes(&text[end + 1..]) > 0).then_some(end + 1)
        }
        b' ' => {
            let rest = text[near].trim_ascii_start();
            let blanks = |rest: &[u8]| rest.len() - rest.trim_ascii_start().len();
            let at = text.len().min(end + APART) - rest.len();
            if let Some(cell) = rest.strip_prefix(b"|") {
                let is_cell = text[..start].trim_ascii_end().ends_with(b"|");
                return is_cell.then(|| at + 1 + blanks(cell));
            }
            let after = rest.strip_prefix(b"is ")?;
            Some(at + 3 + blanks(after))
        }
        _ => None,
    }
}

/// Where a value begins that is on the line below its name, as in YAML: indented, and alone there;
/// `at` if it does not.
pub(super) fn below(text: &[u8], name: impl Fn() -> usize, at: usize) -> usize {
    let find = || {
        let rest = &text[at..text.len().min(at + 2 * APART)];
        // `>-`, `|`: a text of several lines.
        let rest = rest.strip_prefix(b">").or_else(|| rest.strip_prefix(b"|")).unwrap_or(rest);
        let rest = rest.strip_prefix(b"-").unwrap_or(rest);
        let rest = rest.strip_prefix(b"\r").unwrap_or(rest).strip_prefix(b"\n")?;
        let is_yaml = text[..at].trim_ascii_end().ends_with(b":");
        let indent = |line: &[u8]| line.iter().take_while(|byte| **byte == b' ').count();
        let begin = memchr::memrchr(b'\n', &text[..name()]).map_or(0, |end| end + 1);
        let value = &rest[indent(rest)..];
        let length = value.iter().take_while(|byte| byte.is_ascii_graphic()).count();
        let is_alone = matches!(value.get(length), None | Some(b'\r' | b'\n'))
            && !matches!(value[..length].last(), Some(b':' | b','));
        let is_below = indent(rest) > indent(&text[begin..]);
        (is_yaml && is_below && is_alone && length > 0)
            .then(|| value.as_ptr() as usize - text.as_ptr() as usize)
    };
    match text.get(at) {
        Some(b'\r' | b'\n' | b'>' | b'|') => find().unwrap_or(at),
        _ => at,
    }
}

/// The value of the next member with that name.
fn member(text: &[u8], near: Range<usize>) -> Option<usize> {
    let window = &text[near.clone()];
    let stop = window.iter().position(|byte| b"{}>".contains(byte)).unwrap_or(window.len());
    let found = memchr::memmem::find(&window[..stop], b"alue")?;
    let is_word = found > 0 && matches!(window[found - 1], b'v' | b'V');
    let mut at = near.start + found + 4;
    at += quotes(&text[at..]);
    let signs = text[at..].iter().take(4).take_while(|byte| b" :=".contains(byte)).count();
    (is_word && signs > 0).then_some(at + signs)
}
