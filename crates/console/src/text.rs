//! Text for a terminal: spans in a style (ratatui's), made safe, wrapped, and as bytes.
//!
//! Invariants: what [`safe`] returns has no character that a terminal obeys, that people do not
//! see, or that changes the order of others; [`wrap`] loses no character and no row is too wide.

use std::fmt::Write as _;

pub use ratatui::style::{Color, Modifier, Style};
pub use ratatui::text::{Line, Span};
use transcript::conversation::view::visible;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The styles of the console: the terminal's own colours, so that light and dark themes both work.
pub mod look {
    use super::{Color, Modifier, Style};

    /// Less important.
    pub const DIM: Style = Style::new().add_modifier(Modifier::DIM);
    /// Important.
    pub const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
    /// What the user types, and marks of the console.
    pub const ACCENT: Style = Style::new().fg(Color::Cyan);
    /// Something went well, or was added.
    pub const GOOD: Style = Style::new().fg(Color::Green);
    /// Something failed, or was removed.
    pub const BAD: Style = Style::new().fg(Color::Red);
    /// Something to look at.
    pub const WARN: Style = Style::new().fg(Color::Yellow);
    /// The place of the cursor, if the terminal's is elsewhere.
    pub const CARET: Style = Style::new().add_modifier(Modifier::REVERSED);
}

/// Whether a character must not reach a terminal as it is.
pub fn is_hidden(c: char) -> bool {
    visible(c) != c
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0080}'..='\u{e0fff}')
}

/// A line of text that a terminal shows and does not obey: a tab as spaces, other characters of
/// control, direction and nothing as escapes. What joins emoji and letters stays.
pub fn safe(text: &str) -> String {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\t' => out.push_str("    "),
            c if !is_hidden(c) || joins(before, c, rest.peek().copied()) => out.push(c),
            c if c.is_ascii() => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
        }
        before = c;
    }
    out
}

/// Whether a character that is not seen by itself is a part of what is before it: of an emoji, of
/// the picture of a key, of a word in a script whose letters join.
fn joins(before: char, c: char, after: Option<char>) -> bool {
    match c {
        '\u{fe0f}' if after == Some('\u{20e3}') => matches!(before, '0'..='9' | '#' | '*'),
        '\u{200d}' | '\u{fe0e}' | '\u{fe0f}' if is_picture(before) => true,
        '\u{200c}' | '\u{200d}' => is_joined(before),
        _ => false,
    }
}

/// Whether a character may be part of an emoji that others join.
fn is_picture(c: char) -> bool {
    matches!(c, '\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}' | '\u{fe0f}'
        | '©' | '®' | '‼' | '⁉' | '™' | 'ℹ' | '〰' | '〽' | '㊗' | '㊙')
}

/// Whether a character is of a script whose letters join: Arabic to Thaana, those of India, Tibet,
/// Myanmar, Khmer, Mongolian.
fn is_joined(c: char) -> bool {
    matches!(c, '\u{600}'..='\u{dff}' | '\u{f00}'..='\u{109f}' | '\u{1780}'..='\u{18af}'
        | '\u{fb50}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}')
        && !is_hidden(c)
}

/// The same with every invisible character as an escape: for what somebody decides about.
pub fn exact(text: &str) -> String {
    text.chars().map(|c| safe(c.encode_utf8(&mut [0; 4]))).collect()
}

/// What a command wrote, as lines without what it said to a terminal: colours and movements are
/// left out, and of a line that was written over only the last state stays.
pub fn output_lines(text: &str) -> Vec<String> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        plain.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let used = match after.chars().next() {
            // What does not end where such a thing ends hides nothing.
            Some('[') => {
                let end = after[1..].find(|c: char| !(' '..='?').contains(&c));
                end.filter(|end| matches!(after.as_bytes()[end + 1], b'@'..=b'~'))
                    .map(|end| end + 2)
            }
            Some(']') => {
                let line = after.split('\n').next().unwrap_or_default();
                let bell = line.find('\u{7}').map(|end| end + 1);
                let other = line.find("\u{1b}\\").map(|end| end + 2);
                bell.into_iter().chain(other).min()
            }
            // Such as a set of characters that is chosen: `ESC ( B`.
            Some(' '..='/') => {
                let end = after.find(|c: char| !(' '..='/').contains(&c));
                end.filter(|end| matches!(after.as_bytes()[*end], b'0'..=b'~')).map(|end| end + 1)
            }
            Some(c) if c.is_ascii_graphic() => Some(1),
            _ => None,
        };
        if used.is_none() {
            plain.push('\u{1b}');
        }
        rest = &after[used.unwrap_or(0)..];
    }
    plain.push_str(rest);
    let last = |line: &str| {
        let line = line.strip_suffix('\r').unwrap_or(line);
        safe(line.rsplit('\r').next().unwrap_or_default())
    };
    plain.lines().map(last).collect()
}

/// How many columns a text takes.
pub fn columns(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.width() }
}

/// How many columns a line takes.
pub fn width(line: &Line<'_>) -> usize {
    line.spans.iter().map(|span| columns(&span.content)).sum()
}

/// At most that many columns of a text; a cut is marked.
pub fn fit(text: &str, room: usize) -> String {
    if columns(text) <= room {
        return text.to_owned();
    }
    let mut used = 0;
    let mut kept = String::new();
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used + 1 > room {
            break;
        }
        kept.push(c);
    }
    if room > 0 {
        kept.push('…');
    }
    kept
}

/// At most that many columns of a line.
pub fn clip(line: &Line<'_>, room: usize) -> Line<'static> {
    let mut left = room;
    let mut spans = Vec::new();
    for span in &line.spans {
        let wide = columns(&span.content);
        if wide <= left {
            spans.push(Span::styled(span.content.to_string(), span.style));
            left -= wide;
            continue;
        }
        let text = fit(&span.content, left);
        spans.push(Span::styled(text, span.style));
        break;
    }
    Line::from(spans)
}

/// A line in rows of at most that many columns, broken between clusters, as a terminal does it.
pub fn wrap(line: &Line<'_>, room: usize) -> Vec<Line<'static>> {
    let room = room.max(2);
    let mut rows = vec![Line::default()];
    let mut used = 0;
    for span in &line.spans {
        let mut piece = String::new();
        for cluster in span.content.graphemes(true) {
            let wide = columns(cluster);
            if used + wide > room {
                push(&mut rows, &mut piece, span.style);
                rows.push(Line::default());
                used = 0;
            }
            used += wide;
            piece.push_str(cluster);
        }
        push(&mut rows, &mut piece, span.style);
    }
    rows
}

/// A line in rows of at most that many columns, broken between words; the rows after the first one
/// begin where its text does, after a mark or a number.
pub fn words(line: &Line<'static>, room: usize) -> Vec<Line<'static>> {
    if width(line) <= room {
        return vec![line.clone()];
    }
    let is_mark = |c: &char| matches!(c, ' ' | '❯' | '.' | '0'..='9');
    let lead: String = plain(line).chars().take_while(is_mark).collect();
    let indent = columns(&lead).min(room / 2);
    let mut rows = crate::words::wrap(&line.spans, room.saturating_sub(indent).max(4));
    for row in rows.iter_mut().skip(1).filter(|_| indent > 0) {
        row.insert(0, Span::raw(" ".repeat(indent)));
    }
    rows.into_iter().map(Line::from).collect()
}

fn push(rows: &mut [Line<'static>], piece: &mut String, style: Style) {
    if let Some(row) = rows.last_mut().filter(|_| !piece.is_empty()) {
        row.spans.push(Span::styled(std::mem::take(piece), style));
    }
}

/// The text of a line.
pub fn plain(line: &Line<'_>) -> String {
    line.spans.iter().map(|span| span.content.as_ref()).collect()
}

/// The text of several lines.
pub fn plain_lines(lines: &[Line<'_>]) -> String {
    lines.iter().map(|line| plain(line) + "\n").collect()
}

/// Whether colours are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colors {
    /// The terminal's sixteen colours.
    Sixteen,
    /// Only bold, dim, underlined and reversed.
    None,
}

/// A text in a style, as bytes for a terminal.
pub fn styled(style: Style, text: &str) -> String {
    ansi(&Line::from(Span::styled(text, style)), Colors::Sixteen)
}

/// A line as bytes for a terminal. Ends in the usual style.
pub fn ansi(line: &Line<'_>, colors: Colors) -> String {
    let mut out = String::new();
    let mut is_styled = false;
    for span in &line.spans {
        let codes = codes(line.style.patch(span.style), colors);
        if is_styled {
            out.push_str("\u{1b}[0m");
        }
        is_styled = !codes.is_empty();
        if is_styled {
            let _ = write!(out, "\u{1b}[{codes}m");
        }
        out.push_str(&span.content);
    }
    if is_styled {
        out.push_str("\u{1b}[0m");
    }
    out
}

fn codes(style: Style, colors: Colors) -> String {
    let mut codes: Vec<String> = Vec::new();
    let modifiers = [
        (Modifier::BOLD, "1"),
        (Modifier::DIM, "2"),
        (Modifier::ITALIC, "3"),
        (Modifier::UNDERLINED, "4"),
        (Modifier::REVERSED, "7"),
        (Modifier::CROSSED_OUT, "9"),
    ];
    for (modifier, code) in modifiers {
        if style.add_modifier.contains(modifier) {
            codes.push(code.to_owned());
        }
    }
    if colors == Colors::Sixteen {
        codes.extend(style.fg.and_then(|color| Some((30 + basic(color)?).to_string())));
        codes.extend(style.bg.and_then(|color| Some((40 + basic(color)?).to_string())));
    }
    codes.join(";")
}

/// The number of one of the terminal's first eight colours, or of their bright forms.
fn basic(color: Color) -> Option<u8> {
    Some(match color {
        Color::Black => 0,
        Color::Red => 1,
        Color::Green => 2,
        Color::Yellow => 3,
        Color::Blue => 4,
        Color::Magenta => 5,
        Color::Cyan => 6,
        Color::Gray => 7,
        Color::DarkGray => 60,
        _ => return None,
    })
}

/// A line of safe text in one style.
pub fn line(style: Style, text: &str) -> Line<'static> {
    Line::from(Span::styled(safe(text), style))
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
