//! A line of text that is being typed.
//!
//! Invariants: it is one line, printable and bounded; the cursor is between two characters as
//! people see them.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use unicode_segmentation::UnicodeSegmentation;

use crate::text::{columns, one_line};

/// How many bytes can be typed.
const LONGEST: usize = 4_000;

/// A line and the place of the cursor in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edit {
    text: String,
    at: usize,
}

impl Edit {
    pub(crate) fn new(text: &str) -> Edit {
        let mut edit = Edit::default();
        edit.insert(text);
        edit
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// How many columns are before the cursor.
    pub(crate) fn cursor(&self) -> usize {
        columns(&self.text[..self.at])
    }

    /// Adds a text at the cursor, such as one that is pasted.
    pub(crate) fn insert(&mut self, text: &str) {
        // White space at either end counts while somebody types.
        let typed = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c });
        let mut typed: String = typed.collect();
        if typed.chars().count() > 1 {
            typed = one_line(&typed);
        }
        let typed = crate::text::printable(&typed);
        let mut room = LONGEST.saturating_sub(self.text.len()).min(typed.len());
        while !typed.is_char_boundary(room) {
            room -= 1;
        }
        self.text.insert_str(self.at, &typed[..room]);
        self.at += room;
    }

    /// Does what a key means to a line. Returns whether it means something.
    pub(crate) fn key(&mut self, key: KeyEvent) -> bool {
        let is_ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        let is_alt = key.modifiers.contains(KeyModifiers::ALT);
        match key.code {
            KeyCode::Left if is_ctrl || is_alt => self.at = self.word_start(),
            KeyCode::Left => self.at = self.before(),
            KeyCode::Right => self.at = self.after(),
            KeyCode::Backspace if is_alt || is_ctrl => self.remove_from(self.word_start()),
            KeyCode::Backspace => self.remove_from(self.before()),
            KeyCode::Delete => {
                let end = self.after();
                self.text.replace_range(self.at..end, "");
            }
            KeyCode::Char('a') if is_ctrl => self.at = 0,
            KeyCode::Char('e') if is_ctrl => self.at = self.text.len(),
            KeyCode::Char('h') if is_ctrl => self.remove_from(self.before()),
            KeyCode::Char('w') if is_ctrl => self.remove_from(self.word_start()),
            KeyCode::Char('u') if is_ctrl => self.remove_from(0),
            KeyCode::Char('k') if is_ctrl => self.text.truncate(self.at),
            KeyCode::Char(c) if !is_ctrl && !is_alt => self.insert(c.encode_utf8(&mut [0; 4])),
            _ => return false,
        }
        true
    }

    fn before(&self) -> usize {
        let last = self.text[..self.at].grapheme_indices(true).next_back();
        last.map_or(0, |(at, _)| at)
    }

    fn after(&self) -> usize {
        let next = self.text[self.at..].graphemes(true).next();
        self.at + next.map_or(0, str::len)
    }

    fn word_start(&self) -> usize {
        let before = self.text[..self.at].trim_end();
        before.rfind(' ').map_or(0, |at| at + 1)
    }

    fn remove_from(&mut self, start: usize) {
        self.text.replace_range(start..self.at, "");
        self.at = start;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ctrl(c: char) -> KeyEvent {
        KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL)
    }

    #[test]
    fn typing_removing_and_moving() {
        let mut edit = Edit::new("two words");
        edit.insert(" ");
        assert_eq!(edit.text(), "two words ");
        edit.key(ctrl('w'));
        assert_eq!((edit.text(), edit.cursor()), ("two ", 4));
        edit.key(ctrl('a'));
        edit.insert("日e\u{301}");
        // A wide character, and one with an accent.
        assert_eq!((edit.text(), edit.cursor()), ("日e\u{301}two ", 3));
        edit.key(KeyCode::Backspace.into());
        assert_eq!((edit.text(), edit.cursor()), ("日two ", 2));
        edit.key(KeyCode::Delete.into());
        edit.key(KeyCode::Left.into());
        assert_eq!((edit.text(), edit.cursor()), ("日wo ", 0));
        edit.key(ctrl('k'));
        assert_eq!(edit, Edit::default());
    }

    #[test]
    fn what_is_pasted_is_one_printable_line() {
        let edit = Edit::new("one\n\ttwo\u{1b}[31m \r\n");
        assert_eq!(edit.text(), "one two␛[31m");
        assert_eq!(Edit::new(&"é".repeat(LONGEST)).text().len(), LONGEST);
    }
}
