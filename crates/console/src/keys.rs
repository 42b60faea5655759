//! What a terminal sends for keys, as keys.
//!
//! Not by `crossterm`: its reader waits inside of a sequence that is cut in two, does not end when
//! the terminal is gone, and may run another program to learn the size. Invariants: total, bounded;
//! a sequence that means nothing here is skipped as a whole.

use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};

/// What is around a paste.
const PASTE: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";
/// How many bytes of a paste are kept.
const LONGEST_PASTE: usize = 1 << 20;
/// How many bytes another sequence can have.
const LONGEST: usize = 256;

/// What the first bytes mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// This, and how many bytes it takes.
    Event(Event, usize),
    /// Nothing here.
    Skip(usize),
    /// It is not complete.
    More,
}

/// The meaning of the first bytes that are not decided yet; there is at least one.
pub(crate) fn meaning(bytes: &[u8]) -> Meaning {
    match *bytes {
        [] | [0x1b] | [0x1b, b'O'] => Meaning::More,
        [0x1b, b'[', ref rest @ ..] => control_sequence(rest),
        [0x1b, b'O', code, ..] => key(letter(code).map(|code| (code, KeyModifiers::NONE)), 3),
        // What a terminal reports by itself.
        [0x1b, b']' | b'P' | b'_' | b'^', ..] => report(bytes),
        [0x1b, 0x1b, ..] => key(Some((KeyCode::Esc, KeyModifiers::NONE)), 1),
        [0x1b, ref rest @ ..] => match meaning(rest) {
            Meaning::Event(Event::Key(mut found), used) => {
                found.modifiers |= KeyModifiers::ALT;
                Meaning::Event(Event::Key(found), used + 1)
            }
            Meaning::Event(_, used) | Meaning::Skip(used) => Meaning::Skip(used + 1),
            Meaning::More => Meaning::More,
        },
        [byte @ (0..0x20 | 0x7f), ..] => key(Some(control(byte)), 1),
        [..] => character(bytes),
    }
}

/// What incomplete bytes mean if no more come: the key Esc, a paste without an end, or nothing.
pub(crate) fn meaning_at_end(bytes: &[u8]) -> Meaning {
    if let Some(pasted) = bytes.strip_prefix(PASTE) {
        return Meaning::Event(pasted_text(pasted), bytes.len());
    }
    match bytes {
        [0x1b] => key(Some((KeyCode::Esc, KeyModifiers::NONE)), 1),
        bytes => Meaning::Skip(bytes.len()),
    }
}

/// Whether this is the start of a paste. Its rest may take longer than that of a key, and must not
/// be taken for keys.
pub(crate) fn is_paste(bytes: &[u8]) -> bool {
    bytes.starts_with(PASTE)
}

fn key(found: Option<(KeyCode, KeyModifiers)>, used: usize) -> Meaning {
    match found {
        Some((code, modifiers)) => Meaning::Event(Event::Key(KeyEvent::new(code, modifiers)), used),
        None => Meaning::Skip(used),
    }
}

fn control(byte: u8) -> (KeyCode, KeyModifiers) {
    match byte {
        b'\r' => (KeyCode::Enter, KeyModifiers::NONE),
        b'\t' => (KeyCode::Tab, KeyModifiers::NONE),
        0x7f => (KeyCode::Backspace, KeyModifiers::NONE),
        0 => (KeyCode::Char(' '), KeyModifiers::CONTROL),
        1..=0x1a => (KeyCode::Char(char::from(byte - 1 + b'a')), KeyModifiers::CONTROL),
        _ => (KeyCode::Char(char::from(byte - 0x1c + b'4')), KeyModifiers::CONTROL),
    }
}

fn character(bytes: &[u8]) -> Meaning {
    let len = match bytes[0] {
        0..0x80 => 1,
        0xc2..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..0xf5 => 4,
        _ => return Meaning::Skip(1),
    };
    let Some(whole) = bytes.get(..len) else {
        // What cannot become a character does not wait for one.
        let is_start = bytes[1..].iter().all(|byte| (0x80..0xc0).contains(byte));
        return if is_start { Meaning::More } else { Meaning::Skip(1) };
    };
    match std::str::from_utf8(whole).ok().and_then(|text| text.chars().next()) {
        Some(c) => key(Some((KeyCode::Char(c), KeyModifiers::NONE)), len),
        None => Meaning::Skip(1),
    }
}

/// What comes after `ESC [`.
fn control_sequence(rest: &[u8]) -> Meaning {
    if let Some(pasted) = rest.strip_prefix(b"200~") {
        return paste(pasted);
    }
    let Some(len) = rest.iter().position(|byte| !(0x20..0x40).contains(byte)) else {
        return if rest.len() > LONGEST { Meaning::Skip(rest.len() + 2) } else { Meaning::More };
    };
    let (end, used) = (rest[len], len + 3);
    if !(0x40..0x7f).contains(&end) {
        // Another sequence begins inside of this one.
        return Meaning::Skip(used - 1);
    }
    let mut numbers = rest[..len].split(|byte| *byte == b';').map(|digits| {
        // The kind of a press may stand behind a colon.
        let digits = digits.split(|byte| *byte == b':').next().unwrap_or_default();
        std::str::from_utf8(digits).ok().and_then(|text| text.parse::<u32>().ok())
    });
    let (first, second) = (numbers.next().flatten(), numbers.next().flatten());
    let third = numbers.next().flatten();
    let modifiers = modifiers(second.unwrap_or(1));
    let code = match (end, first) {
        (b'~', Some(1 | 7)) => Some(KeyCode::Home),
        (b'~', Some(2)) => Some(KeyCode::Insert),
        (b'~', Some(3)) => Some(KeyCode::Delete),
        (b'~', Some(4 | 8)) => Some(KeyCode::End),
        (b'~', Some(5)) => Some(KeyCode::PageUp),
        (b'~', Some(6)) => Some(KeyCode::PageDown),
        // How xterm reports keys with modifiers: the modifiers, then the character.
        (b'~', Some(27)) => third.and_then(coded),
        (b'u', Some(code)) if !rest.starts_with(b"?") => coded(code),
        (b'Z', _) => Some(KeyCode::BackTab),
        (end, _) => letter(end),
    };
    key(code.map(|code| (code, modifiers)), used)
}

/// The key of a character code.
fn coded(code: u32) -> Option<KeyCode> {
    Some(match code {
        27 => KeyCode::Esc,
        13 => KeyCode::Enter,
        9 => KeyCode::Tab,
        127 => KeyCode::Backspace,
        PAD_START..=PAD_END => PAD[usize::try_from(code - PAD_START).ok()?],
        // Keys without a character, such as those for music.
        0xe000..=0xf8ff => return None,
        code => KeyCode::Char(char::from_u32(code)?),
    })
}

/// The keys of the number pad, in the order of kitty's codes.
const PAD: [KeyCode; 28] = [
    KeyCode::Char('0'),
    KeyCode::Char('1'),
    KeyCode::Char('2'),
    KeyCode::Char('3'),
    KeyCode::Char('4'),
    KeyCode::Char('5'),
    KeyCode::Char('6'),
    KeyCode::Char('7'),
    KeyCode::Char('8'),
    KeyCode::Char('9'),
    KeyCode::Char('.'),
    KeyCode::Char('/'),
    KeyCode::Char('*'),
    KeyCode::Char('-'),
    KeyCode::Char('+'),
    KeyCode::Enter,
    KeyCode::Char('='),
    KeyCode::Char(','),
    KeyCode::Left,
    KeyCode::Right,
    KeyCode::Up,
    KeyCode::Down,
    KeyCode::PageUp,
    KeyCode::PageDown,
    KeyCode::Home,
    KeyCode::End,
    KeyCode::Insert,
    KeyCode::Delete,
];
/// The codes of the first and of the last of them.
const PAD_START: u32 = 57_399;
const PAD_END: u32 = 57_426;

fn letter(code: u8) -> Option<KeyCode> {
    Some(match code {
        b'A' => KeyCode::Up,
        b'B' => KeyCode::Down,
        b'C' => KeyCode::Right,
        b'D' => KeyCode::Left,
        b'H' => KeyCode::Home,
        b'F' => KeyCode::End,
        b'M' => KeyCode::Enter,
        _ => return None,
    })
}

fn modifiers(number: u32) -> KeyModifiers {
    let bits = number.saturating_sub(1);
    let mut all = KeyModifiers::NONE;
    for (bit, one) in
        [KeyModifiers::SHIFT, KeyModifiers::ALT, KeyModifiers::CONTROL].into_iter().enumerate()
    {
        if bits >> bit & 1 == 1 {
            all |= one;
        }
    }
    all
}

/// What comes after the start of a paste, up to its end.
fn paste(rest: &[u8]) -> Meaning {
    match rest.windows(PASTE_END.len()).position(|part| part == PASTE_END) {
        Some(end) => {
            let used = PASTE.len() + end + PASTE_END.len();
            Meaning::Event(pasted_text(&rest[..end]), used)
        }
        None => Meaning::More,
    }
}

/// Whether this is the start of what a terminal reports by itself. Its rest may come late, and must
/// not be taken for keys.
pub(crate) fn is_report(bytes: &[u8]) -> bool {
    matches!(bytes, [0x1b, b']' | b'P' | b'_' | b'^', ..] | [0x1b, b'[', b'?' | b'>', ..])
}

/// Drops what is too much of a paste, until its end comes. None of it is ever taken for keys.
pub(crate) fn shorten(held: &mut Vec<u8>) {
    let most = PASTE.len() + LONGEST_PASTE;
    // The end may have begun.
    let tail = held.len().saturating_sub(PASTE_END.len());
    if is_paste(held)
        && tail > most
        && !held[most..].windows(PASTE_END.len()).any(|part| part == PASTE_END)
    {
        held.drain(most..tail);
    }
}

fn pasted_text(bytes: &[u8]) -> Event {
    let start = &bytes[..bytes.len().min(LONGEST_PASTE)];
    Event::Paste(String::from_utf8_lossy(start).into_owned())
}

/// A report of the terminal, up to its end.
fn report(bytes: &[u8]) -> Meaning {
    let end = bytes.iter().position(|byte| *byte == 7).map(|at| at + 1);
    let other = bytes[2..].windows(2).position(|two| two == b"\x1b\\").map(|at| at + 4);
    match (end, other) {
        (Some(end), Some(other)) => Meaning::Skip(end.min(other)),
        (Some(end), None) | (None, Some(end)) => Meaning::Skip(end),
        (None, None) if bytes.len() > LONGEST => Meaning::Skip(bytes.len()),
        (None, None) => Meaning::More,
    }
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
