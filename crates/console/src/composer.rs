//! The composer: what the user types, on several lines.
//!
//! Invariants: the caret is between two characters as people see them; every change can be undone;
//! a pasted newline never sends; long pastes and images stand in the text as short marks, and are
//! put in their place when it is sent; what was pasted belongs to one prompt, and no mark of
//! another one means it.

mod keys;
mod paste;
mod vi;
mod vi_object;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use unicode_segmentation::UnicodeSegmentation;

pub use keys::Reaction;
pub use paste::{Content, Image, Pasted, Prompt};
pub use vi::ViMode;

use crate::text::{self, Line, Span, columns, look};

/// How many bytes can be typed or pasted in all.
const LONGEST: usize = 4 << 20;
/// How many columns the mark before the text takes.
const LEAD: usize = 2;
/// How many texts that were removed are remembered, beside the last one, and how long these are.
const KILLS: usize = 20;
const KILLED: usize = 64 << 10;
/// How many states can be undone.
const UNDOS: usize = 200;
/// How many bytes these may have in all; the newest is kept in any case.
const UNDO_BYTES: usize = 16 << 20;

/// Which keys move and change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keymap {
    /// As in most shells.
    #[default]
    Emacs,
    /// As in vi.
    Vi,
}

/// What is being written.
#[derive(Clone, Debug, Default)]
pub struct Composer {
    text: String,
    at: usize,
    undo: Vec<State>,
    redo: Vec<State>,
    /// Whether the last change was a typed character: a word is undone at once.
    is_typing: bool,
    /// What was removed last, and before that.
    killed: String,
    removed: VecDeque<String>,
    /// Where the former was put back, and how many of the latter ago it was removed.
    yanked: Option<(Range<usize>, usize)>,
    /// What was pasted into this prompt, also what is not in the text any more: it may come back.
    pasted: Vec<Arc<Pasted>>,
    vi: Option<vi::Vi>,
    memory: vi::ViMemory,
    /// How many columns its rows have on the screen, once that is known.
    room: Option<usize>,
}

/// What can be gone back to.
#[derive(Clone, Debug)]
struct State {
    text: String,
    at: usize,
    pasted: Vec<Arc<Pasted>>,
}

impl Composer {
    /// An empty composer.
    pub fn new(keymap: Keymap) -> Composer {
        let vi = (keymap == Keymap::Vi).then(vi::Vi::default);
        Composer { vi, ..Composer::default() }
    }

    /// Uses other keys from now on.
    pub fn set_keymap(&mut self, keymap: Keymap) {
        self.vi = (keymap == Keymap::Vi).then(vi::Vi::default);
    }

    /// The mode of vi, if its keys are used.
    pub fn vi_mode(&self) -> Option<ViMode> {
        self.vi.as_ref().map(|vi| vi.mode)
    }

    /// What is written, with marks for what was pasted.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where the caret is: a place in the text.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Whether nothing is written.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Replaces everything. That can be undone.
    pub fn set(&mut self, text: &str) {
        self.keep();
        bounded(text, LONGEST).clone_into(&mut self.text);
        self.at = self.text.len();
    }

    /// Empties it, and forgets what was pasted.
    pub fn clear(&mut self) {
        self.set("");
        self.pasted.clear();
        self.forget_keys();
        if let Some(vi) = &mut self.vi {
            *vi = vi::Vi::default();
        }
    }

    /// Writes a text at the caret.
    pub fn insert(&mut self, text: &str) {
        let is_letter = text.chars().all(char::is_alphanumeric) && text.len() < 8;
        if !(self.is_typing && is_letter) {
            self.keep();
        }
        self.is_typing = is_letter;
        let room = LONGEST.saturating_sub(self.text.len());
        let text = bounded(text, room);
        self.text.insert_str(self.at, text);
        self.at += text.len();
    }

    /// Replaces a part of the text, as a completion does.
    pub fn replace(&mut self, range: Range<usize>, by: &str) {
        self.keep();
        self.text.replace_range(range.clone(), by);
        self.at = range.start + by.len();
    }

    /// Remembers the state for undo.
    fn keep(&mut self) {
        self.is_typing = false;
        self.yanked = None;
        self.redo.clear();
        let now = self.state();
        if self.undo.last().is_some_and(|last| last.text == now.text && last.pasted == now.pasted) {
            return;
        }
        self.undo.push(now);
        let mut bytes = 0;
        let is_too_much = |state: &State| {
            bytes += state.text.len();
            bytes > UNDO_BYTES
        };
        let most = self.undo.iter().rev().position(is_too_much).map_or(UNDOS, |most| most.max(1));
        self.undo.drain(..self.undo.len().saturating_sub(most.min(UNDOS)));
    }

    fn state(&self) -> State {
        State { text: self.text.clone(), at: self.at, pasted: self.pasted.clone() }
    }

    fn go_to(&mut self, state: State) {
        (self.text, self.at, self.pasted) = (state.text, state.at, state.pasted);
    }

    /// Goes back to before the last change.
    pub fn undo(&mut self) {
        let now = self.state();
        while let Some(state) = self.undo.pop() {
            if state.text != now.text {
                self.redo.push(now);
                self.go_to(state);
                break;
            }
        }
        self.is_typing = false;
    }

    /// Takes an undo back.
    pub fn redo(&mut self) {
        if let Some(state) = self.redo.pop() {
            self.undo.push(self.state());
            self.go_to(state);
        }
    }

    /// The place of the character before a place; a mark is one character.
    fn before(&self, at: usize) -> usize {
        if let Some(mark) = self.mark_ending(at) {
            return mark;
        }
        self.text[..at].grapheme_indices(true).next_back().map_or(0, |(at, _)| at)
    }

    fn after(&self, at: usize) -> usize {
        if let Some(end) = self.mark_starting(at) {
            return end;
        }
        at + self.text[at..].graphemes(true).next().map_or(0, str::len)
    }

    fn line_start(&self, at: usize) -> usize {
        self.text[..at].rfind('\n').map_or(0, |found| found + 1)
    }

    fn line_end(&self, at: usize) -> usize {
        self.text[at..].find('\n').map_or(self.text.len(), |found| at + found)
    }

    fn word_left(&self, at: usize) -> usize {
        let text = self.text[..at].trim_end_matches(|c: char| !c.is_alphanumeric());
        text.rfind(|c: char| !c.is_alphanumeric())
            .map_or(0, |found| found + text[found..].chars().next().map_or(1, char::len_utf8))
    }

    fn word_right(&self, at: usize) -> usize {
        let rest = &self.text[at..];
        let start = rest.find(char::is_alphanumeric).unwrap_or(rest.len());
        let end = rest[start..].find(|c: char| !c.is_alphanumeric());
        at + end.map_or(rest.len(), |end| start + end)
    }

    /// The window is so wide: up and down go by the rows that are seen.
    pub fn set_width(&mut self, width: usize) {
        self.room = Some(room(LEAD, width));
    }

    /// The parts of the text that are rows of their own, if a row has so many columns.
    fn parts(&self, room: usize) -> Vec<Range<usize>> {
        let mut parts = Vec::new();
        let mut start = 0;
        for source in self.text.split('\n') {
            let (mut from, mut used) = (start, 0);
            for (at, cluster) in source.grapheme_indices(true) {
                let wide = columns(&text::safe(cluster));
                if used + wide > room {
                    parts.push(from..start + at);
                    (from, used) = (start + at, 0);
                }
                used += wide;
            }
            let end = start + source.len();
            parts.push(from..end);
            start = end + 1;
        }
        parts
    }

    /// The place one row up or down in about the same column; None if there is no such row.
    fn vertical(&self, is_up: bool) -> Option<usize> {
        let parts = self.parts(self.room.unwrap_or(usize::MAX));
        let row = parts.iter().rposition(|part| part.start <= self.at)?;
        let column = columns(&shown(&self.text[parts[row].start..self.at]));
        let to = if is_up { row.checked_sub(1)? } else { row + 1 };
        let part = parts.get(to)?.clone();
        let mut used = 0;
        for (at, cluster) in self.text[part.clone()].grapheme_indices(true) {
            if used >= column {
                return Some(part.start + at);
            }
            used += columns(&text::safe(cluster));
        }
        // Where the next row begins without a newline, the end of this one is its start.
        let is_wrapped = parts.get(to + 1).is_some_and(|next| next.start == part.end);
        Some(if is_wrapped { self.before(part.end) } else { part.end })
    }

    /// Removes a part, and keeps it to be put back.
    fn kill(&mut self, from: usize, to: usize) {
        if from < to {
            self.keep();
            let killed = std::mem::replace(&mut self.killed, self.text[from..to].to_owned());
            if !killed.is_empty() && killed.len() <= KILLED {
                self.removed.push_back(killed);
                self.removed.drain(..self.removed.len().saturating_sub(KILLS));
            }
            self.text.replace_range(from..to, "");
            self.at = from;
        }
    }

    /// The rows, and the place of the caret in them, for a window that wide. `lead` is written
    /// before the first row, and as many spaces before the others.
    pub fn rows(&self, lead: &Span<'static>, width: usize) -> (Vec<Line<'static>>, (usize, usize)) {
        let indent = columns(&lead.content);
        let parts = self.parts(room(indent, width));
        let row = parts.iter().rposition(|part| part.start <= self.at).unwrap_or(0);
        let before = parts.get(row).map_or("", |part| &self.text[part.start..self.at]);
        let caret = (row, indent + columns(&shown(before)));
        let mut rows: Vec<Line<'static>> =
            parts.into_iter().map(|part| Line::from(shown(&self.text[part]))).collect();
        for (number, row) in rows.iter_mut().enumerate() {
            let before = if number == 0 { lead.clone() } else { Span::raw(" ".repeat(indent)) };
            row.spans.insert(0, before);
        }
        (rows, caret)
    }
}

/// How many columns are left for a text after so many, and one for the caret.
fn room(indent: usize, width: usize) -> usize {
    width.saturating_sub(indent + 1).max(4)
}

/// A text as it is shown, cluster by cluster.
fn shown(text: &str) -> String {
    text.graphemes(true).map(text::safe).collect()
}

/// Draws the caret as a cell of its own, where the terminal's cursor is elsewhere.
pub fn with_caret(row: &Line<'static>, column: usize) -> Line<'static> {
    let mut spans = Vec::new();
    let mut used = 0;
    let mut is_drawn = false;
    for span in &row.spans {
        for cluster in span.content.graphemes(true) {
            let wide = columns(cluster);
            let is_here = !is_drawn && used + wide > column;
            is_drawn |= is_here;
            let style = if is_here { span.style.patch(look::CARET) } else { span.style };
            spans.push(Span::styled(cluster.to_owned(), style));
            used += wide;
        }
    }
    if !is_drawn {
        spans.push(Span::styled(" ", look::CARET));
    }
    Line::from(spans)
}

/// The start of a text, in at most that many bytes.
fn bounded(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
#[path = "composer_tests.rs"]
mod tests;
