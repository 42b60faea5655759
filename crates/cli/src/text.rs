//! Text made fit for a terminal.
//!
//! Transcripts and file names contain whatever tools or strangers put there. Invariant: no
//! character of them reaches a terminal that the terminal would obey, or that people do not see
//! while a model reads it. `visible` decides which characters these are, for the whole program.

use std::collections::BTreeSet;

use transcript::conversation::usage::{Spending, Usage};
use transcript::conversation::view;
pub(crate) use transcript::conversation::view::{grouped, local, short_number, size, visible};
use transcript::format::time::Time;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The text with control characters made visible: a terminal shows them and does not obey them.
pub(crate) fn printable(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { text.chars().map(visible).collect() }
}

/// How many columns of a terminal a printable text takes.
pub(crate) fn columns(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.width() }
}

/// Whether there are only spaces and characters of ASCII that are seen, as in most texts.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Whether a terminal would obey a character, or hide it.
pub(crate) fn is_harmful(c: char) -> bool {
    !c.is_ascii_graphic() && visible(c) != c
}

/// A line of text as a terminal can show it: tabs as spaces, other control characters visible.
pub(crate) fn shown(line: &str) -> String {
    printable(&line.trim_end_matches('\r').replace('\t', "    "))
}

/// The text without the colours that the client gives to the output of its commands.
pub(crate) fn uncoloured(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\u{1b}[") {
        let (before, after) = (&rest[..at], &rest[at + 2..]);
        out.push_str(before);
        let numbers = after.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(after.len());
        if after[numbers..].starts_with('m') {
            rest = &after[numbers + 1..];
        } else {
            // Another escape sequence: it stays visible.
            out.push_str("\u{1b}[");
            rest = after;
        }
    }
    out + rest
}

/// A word of a command line for display, quoted as a shell needs it. Blanks stay as they are: the
/// command must mean what it says.
pub(crate) fn quoted(word: &str) -> String {
    shell_word(&printable(word))
}

/// A word of a command line to run, quoted as a shell needs it.
pub(crate) fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-~:".contains(c);
    // A shell replaces `~` at the start by a folder.
    if word.chars().all(plain) && !word.is_empty() && !word.starts_with('~') {
        word.to_owned()
    } else {
        rules::single_quoted(word)
    }
}

/// The text on one line: white space collapsed, control characters visible.
pub(crate) fn one_line(text: &str) -> String {
    printable(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// At most `width` columns of the text; a cut is marked.
pub(crate) fn fit(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut used = 0;
    let mut kept: String = text
        .chars()
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used < width
        })
        .collect();
    kept.push('…');
    kept
}

/// How many line numbers are printed.
const LINES: usize = 8;

/// Line numbers in words, each once: the first ones, and how many more there are.
pub(crate) fn line_list(lines: &[u64]) -> Option<String> {
    let lines: Vec<u64> = lines.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
    let shown: Vec<String> = lines.iter().take(LINES).map(u64::to_string).collect();
    let more = lines.len().saturating_sub(LINES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    match shown.as_slice() {
        [] => None,
        [line] => Some(format!("line {line}{more}")),
        shown => Some(format!("lines {}{more}", shown.join(", "))),
    }
}

/// Output tokens; marked if the number is only a lower bound.
pub(crate) fn output(tokens: Usage) -> String {
    let more = if tokens.at_least && tokens.total() > 0 { ">" } else { "" };
    format!("{more}{}", short_number(tokens.output))
}

/// Money for people; `?` if no price is known.
pub(crate) fn dollars(sum: &Spending) -> String {
    view::dollars(sum).unwrap_or_else(|| "?".to_owned())
}

/// A duration for people: the largest unit that fits.
pub(crate) fn age(seconds: u64) -> String {
    match seconds {
        0..60 => "now".to_owned(),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        86_400..5_184_000 => format!("{}d", seconds / 86_400),
        5_184_000..31_536_000 => format!("{}mo", seconds / 2_592_000),
        _ => format!("{}y", seconds / 31_536_000),
    }
}

/// How long something took, for people.
#[allow(clippy::cast_precision_loss, reason = "two digits are shown")]
pub(crate) fn span(millis: i64) -> String {
    let seconds = millis.max(0) / 1_000;
    match seconds {
        0..10 => format!("{:.1}s", millis.max(0) as f64 / 1_000.0),
        10..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
    }
}

/// A time on the user's clock.
pub(crate) fn clock(time: Time) -> String {
    local(time, "%Y-%m-%d %H:%M")
}

/// A size as people type it: `4000`, `64k`, `1M`.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    sized(text, "bytes")
}

/// A number of tokens as people type it: `4000`, `40k`, `1M`.
pub(crate) fn tokens(text: &str) -> Result<u64, String> {
    sized(text, "tokens")
}

fn sized(text: &str, what: &str) -> Result<u64, String> {
    let (digits, unit) = match text.to_ascii_lowercase().chars().last() {
        Some('k') => (&text[..text.len() - 1], 1_000),
        Some('m') => (&text[..text.len() - 1], 1_000_000),
        Some('g') => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    let number: u64 =
        digits.parse().map_err(|_| format!("use a number of {what}, like 4000, 64k or 1M"))?;
    number.checked_mul(unit).ok_or_else(|| "too large".to_owned())
}

/// A number with its noun; an irregular plural is given as `batch|batches`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    match (number, noun.split_once('|')) {
        (1, Some((one, _))) => format!("1 {one}"),
        (_, Some((_, many))) => format!("{number} {many}"),
        (1, None) => format!("1 {noun}"),
        (_, None) => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
