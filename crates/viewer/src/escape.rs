//! Texts of a transcript as HTML.
//!
//! Invariant: nothing that goes through here is markup, in a text or in an attribute: all five
//! characters that HTML gives a meaning are escaped, and characters that cannot be seen or that
//! reorder others are replaced. Everything of a transcript goes through [`T`], or through `ansi` or
//! `prose`, which use [`push`].

use maud::{Markup, PreEscaped, Render};
use transcript::conversation::view::visible;

/// A text of a transcript.
pub(crate) struct T<'a>(pub(crate) &'a str);

impl Render for T<'_> {
    fn render_to(&self, out: &mut String) {
        push(out, self.0);
    }
}

/// Adds a text, escaped.
pub(crate) fn push(out: &mut String, text: &str) {
    out.reserve(text.len() + text.len() / 16);
    let (mut done, mut at) = (0, 0);
    // Mostly nothing has to be replaced: whole runs are copied.
    while let Some(plain) =
        text.as_bytes()[at..].iter().position(|byte| SPECIAL[usize::from(*byte)])
    {
        at += plain;
        let mut chars = text[at..].chars();
        let Some(c) = chars.next() else { break };
        let end = at + c.len_utf8();
        if c.is_ascii() || visible(c) != c {
            out.push_str(&text[done..at]);
            one(out, c, chars.as_str());
            done = end;
        }
        at = end;
    }
    out.push_str(&text[done..]);
}

/// The bytes with which a character begins that is, or may be, replaced.
static SPECIAL: [bool; 256] = {
    let mut special = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        special[byte] = match byte {
            // `"`, `&`, `'`, `<`, `>`.
            0x22 | 0x26 | 0x27 | 0x3c | 0x3e => true,
            // From 0x80 on: the rest of a character begins none.
            0x09 | 0x0a | 0x20..=0x7e | 0x80..=0xbf => false,
            _ => true,
        };
        byte += 1;
    }
    special
};

fn one(out: &mut String, c: char, after: &str) {
    match c {
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        '&' => out.push_str("&amp;"),
        '"' => out.push_str("&quot;"),
        '\'' => out.push_str("&#39;"),
        '\n' | '\t' => out.push(c),
        // The end of a line on Windows.
        '\r' if after.starts_with('\n') || after.is_empty() => {}
        c => out.push(visible(c)),
    }
}

/// A text on one line, at most so many characters of it.
pub(crate) fn line(text: &str, most: usize) -> Markup {
    let mut out = String::new();
    push(&mut out, &one_line(text, most));
    PreEscaped(out)
}

/// A text on one line, at most so many characters of it; not escaped.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let mut words = String::new();
    let mut count = 0;
    for word in text.split_whitespace() {
        if count > 0 {
            words.push(' ');
            count += 1;
        }
        for c in word.chars() {
            if count >= most {
                words.push('…');
                return words;
            }
            words.push(c);
            count += 1;
        }
    }
    words
}

/// The beginning of a text, and how many bytes of it are left out. Cuts at the end of a line if one
/// is near.
pub(crate) fn start(text: &str, most: usize) -> (&str, usize) {
    if text.len() <= most {
        return (text, 0);
    }
    let mut end = most;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let near = text[..end].rfind('\n').filter(|at| *at > most / 2);
    let end = near.unwrap_or(end);
    (&text[..end], text.len() - end)
}

/// JSON with white space where it helps, and otherwise as it is: no number and no escape changes.
pub(crate) fn indented(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let (mut depth, mut is_text, mut is_escaped) = (0_usize, false, false);
    let mut chars = json.chars().peekable();
    while let Some(c) = chars.next() {
        if is_text {
            out.push(c);
            is_text = is_escaped || c != '"';
            is_escaped = !is_escaped && c == '\\';
            continue;
        }
        let new_line = |depth: usize, out: &mut String| {
            out.push('\n');
            out.extend(std::iter::repeat_n("  ", depth.min(64)));
        };
        match c {
            '{' | '[' => {
                out.push(c);
                while chars.peek().is_some_and(char::is_ascii_whitespace) {
                    chars.next();
                }
                if chars.peek().is_some_and(|next| matches!(next, '}' | ']')) {
                    out.extend(chars.next());
                } else {
                    depth += 1;
                    new_line(depth, &mut out);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(depth, &mut out);
                out.push(c);
            }
            ',' => {
                out.push(c);
                new_line(depth, &mut out);
            }
            ':' => out.push_str(": "),
            '"' => {
                is_text = true;
                out.push(c);
            }
            c if c.is_ascii_whitespace() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
#[path = "escape_tests.rs"]
mod tests;
