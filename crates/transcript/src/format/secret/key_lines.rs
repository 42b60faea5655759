//! A private key whose lines are strings of their own in JSON, as diffs are stored.

use std::ops::Range;

use super::context::{KEY_LINE, is_key_char};

/// Whether the strings of JSON are lines of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum KeyLines {
    #[default]
    None,
    /// The first line of a key was found.
    Begun,
    /// Lines of its body were found too.
    Within,
}

/// Which line of a key's body a string is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyLine {
    First,
    More,
}

impl KeyLines {
    /// Looks at the next string. If it is a line of a key's body, returns which one, and where the
    /// line is in it.
    pub(super) fn line(&mut self, text: &str) -> Option<(KeyLine, Range<usize>)> {
        let has = |word: &str| text.contains(word);
        // Most strings are not near a key.
        if *self == KeyLines::None && !has("BEGIN ") && !has("PuTTY-User-Key-File-") {
            return None;
        }
        if has("END ") || has("Private-MAC:") {
            *self = KeyLines::None;
        } else if has("BEGIN ") && has("PRIVATE KEY") || has("PuTTY-User-Key-File-") {
            *self = KeyLines::Begun;
        } else if *self != KeyLines::None {
            let from = text.len() - text.trim_start_matches(['+', '-', ' ', '\t']).len();
            let line = text[from..].trim_end();
            let is_line = line.bytes().all(is_key_char) && !line.is_empty();
            if is_line && (line.len() >= KEY_LINE || *self == KeyLines::Within) {
                let which = if *self == KeyLines::Begun { KeyLine::First } else { KeyLine::More };
                *self = KeyLines::Within;
                return Some((which, from..from + line.len()));
            }
            // A key's headers are before its lines.
            if !line.is_empty() && !has(": ") {
                *self = KeyLines::None;
            }
        }
        None
    }
}
