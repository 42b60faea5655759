//! The output of a terminal as HTML.
//!
//! Colours and styles become classes; every other sequence (cursor, titles, links of OSC 8, device
//! control) is left out, so nothing of it acts on a page. Invariant: what is left of the text is
//! escaped, and each span is closed.

use crate::escape::push;

/// The style of some text: classes of the style sheet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "what a terminal can do to a text")]
struct Style {
    front: Option<u8>,
    back: Option<u8>,
    is_bold: bool,
    is_dim: bool,
    is_italic: bool,
    is_underlined: bool,
}

/// Adds the output of a terminal.
pub(crate) fn push_output(out: &mut String, text: &str) {
    // Mostly there is neither a sequence nor a line that is written over.
    if !['\u{1b}', '\u{9b}', '\r'].iter().any(|sign| text.contains(*sign)) {
        return push(out, text);
    }
    let mut style = Style::default();
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            out.push('\n');
        }
        // What a carriage return went back to is written over.
        let line = line.trim_end_matches('\r');
        let line = line.rsplit('\r').next().unwrap_or(line);
        push_line(out, line, &mut style);
    }
}

fn push_line(out: &mut String, line: &str, style: &mut Style) {
    let mut rest = line;
    while let Some(at) = rest.find(['\u{1b}', '\u{9b}']) {
        span(out, &rest[..at], *style);
        rest = sequence(&rest[at..], style);
    }
    span(out, rest, *style);
}

fn span(out: &mut String, text: &str, style: Style) {
    if text.is_empty() {
        return;
    }
    if style == Style::default() {
        return push(out, text);
    }
    out.push_str("<span class=\"");
    let mut classes = Vec::new();
    if let Some(front) = style.front {
        classes.push(format!("f{front}"));
    }
    if let Some(back) = style.back {
        classes.push(format!("b{back}"));
    }
    for (is_on, name) in [
        (style.is_bold, "bo"),
        (style.is_dim, "di"),
        (style.is_italic, "it"),
        (style.is_underlined, "un"),
    ] {
        if is_on {
            classes.push(name.to_owned());
        }
    }
    out.push_str(&classes.join(" "));
    out.push_str("\">");
    push(out, text);
    out.push_str("</span>");
}

/// Passes over an escape sequence, and returns what follows it.
fn sequence<'a>(text: &'a str, style: &mut Style) -> &'a str {
    let inside = match text.strip_prefix('\u{9b}') {
        Some(inside) => inside,
        None => match text[1..].strip_prefix('[') {
            Some(inside) => inside,
            None => return string_sequence(&text[1..]),
        },
    };
    let end = inside.find(|c: char| ('@'..='~').contains(&c) || !c.is_ascii());
    let Some(end) = end else { return "" };
    if inside[end..].starts_with('m') {
        apply(&inside[..end], style);
    }
    let last = inside[end..].chars().next().filter(char::is_ascii).map_or(0, char::len_utf8);
    &inside[end + last..]
}

/// Passes over what follows an escape character that begins no control sequence: OSC, DCS and
/// their like end with BEL or ST; others have one more character.
fn string_sequence(text: &str) -> &str {
    let Some(first) = text.chars().next() else { return "" };
    if (' '..='/').contains(&first) {
        // A set of characters, or the like: one more character belongs to it.
        let last = text[1..].chars().next().filter(char::is_ascii).map_or(0, char::len_utf8);
        return &text[1 + last..];
    }
    if !matches!(first, ']' | 'P' | '^' | '_' | 'X') {
        return &text[if first.is_ascii() { first.len_utf8() } else { 0 }..];
    }
    let inside = &text[1..];
    let end = inside.find(['\u{7}', '\u{1b}', '\u{9c}']);
    let Some(end) = end else { return "" };
    let rest = &inside[end..];
    rest.strip_prefix("\u{1b}\\").unwrap_or_else(|| {
        let skip = rest.chars().next().map_or(0, char::len_utf8);
        &rest[skip..]
    })
}

/// Applies the numbers of an SGR sequence.
fn apply(numbers: &str, style: &mut Style) {
    let mut numbers = numbers.split([';', ':']).map(|one| one.parse::<u16>().unwrap_or(0));
    while let Some(number) = numbers.next() {
        match number {
            0 => *style = Style::default(),
            1 => style.is_bold = true,
            2 => style.is_dim = true,
            3 => style.is_italic = true,
            4 => style.is_underlined = true,
            22 => (style.is_bold, style.is_dim) = (false, false),
            23 => style.is_italic = false,
            24 => style.is_underlined = false,
            30..=37 => style.front = small(number - 30),
            90..=97 => style.front = small(number - 82),
            39 => style.front = None,
            40..=47 => style.back = small(number - 40),
            100..=107 => style.back = small(number - 92),
            49 => style.back = None,
            38 | 48 => {
                let colour = match numbers.next() {
                    Some(5) => numbers.next().and_then(of_table),
                    Some(2) => {
                        let mut part = || numbers.next().unwrap_or(0).min(255);
                        Some(nearest([part(), part(), part()]))
                    }
                    _ => None,
                };
                if number == 38 {
                    style.front = colour;
                } else {
                    style.back = colour;
                }
            }
            _ => {}
        }
    }
}

fn small(number: u16) -> Option<u8> {
    u8::try_from(number).ok()
}

/// The colour of that number in the table of 256.
fn of_table(number: u16) -> Option<u8> {
    match number {
        0..16 => small(number),
        16..232 => {
            let step = |part: u16| if part == 0 { 0 } else { part * 40 + 55 };
            let cube = number - 16;
            Some(nearest([step(cube / 36), step(cube / 6 % 6), step(cube % 6)]))
        }
        232..256 => Some(nearest([(number - 232) * 10 + 8; 3])),
        _ => None,
    }
}

/// The nearest of the sixteen colours that the style sheet has.
fn nearest([red, green, blue]: [u16; 3]) -> u8 {
    let most = red.max(green).max(blue);
    let least = red.min(green).min(blue);
    if most - least < 32 {
        return match most {
            0..64 => 0,
            64..160 => 8,
            160..224 => 7,
            _ => 15,
        };
    }
    let is_on = |part: u16| u8::from(u32::from(part - least) * 2 > u32::from(most - least));
    let colour = is_on(red) | is_on(green) << 1 | is_on(blue) << 2;
    if most > 200 { colour + 8 } else { colour }
}

#[cfg(test)]
#[path = "ansi_tests.rs"]
mod tests;
