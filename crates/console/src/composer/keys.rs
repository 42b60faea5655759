//! The keys of the composer, as in a shell.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::Composer;

/// What a key did to the composer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// It means nothing here.
    None,
    /// Something was changed, or the caret moved.
    Done,
    /// What is written is to be sent.
    Send,
    /// One entry back in the history: the caret is on the first line.
    Older,
    /// One entry forward.
    Newer,
}

impl Composer {
    /// Does what a key means.
    pub fn key(&mut self, key: KeyEvent) -> Reaction {
        let is_ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        let is_alt = key.modifiers.contains(KeyModifiers::ALT);
        let is_shift = key.modifiers.contains(KeyModifiers::SHIFT);
        if key.code == KeyCode::Enter {
            return self.enter(is_ctrl || is_alt || is_shift);
        }
        if self.vi.is_some()
            && !is_ctrl
            && !is_alt
            && let Some(reaction) = self.vi_key(key)
        {
            return reaction;
        }
        match key.code {
            KeyCode::Char(c) if is_ctrl => return self.control(c),
            KeyCode::Char(c) if is_alt => return self.alt(c),
            KeyCode::Char(c) => self.insert(c.encode_utf8(&mut [0; 4])),
            KeyCode::Backspace if is_alt || is_ctrl => self.kill(self.word_left(self.at), self.at),
            KeyCode::Backspace => self.remove(self.before(self.at), self.at),
            KeyCode::Delete => self.remove(self.at, self.after(self.at)),
            KeyCode::Left if is_ctrl || is_alt => self.go(self.word_left(self.at)),
            KeyCode::Right if is_ctrl || is_alt => self.go(self.word_right(self.at)),
            KeyCode::Left => self.go(self.before(self.at)),
            KeyCode::Right => self.go(self.after(self.at)),
            KeyCode::Home if is_ctrl => self.go(0),
            KeyCode::End if is_ctrl => self.go(self.text.len()),
            KeyCode::Home => self.go(self.line_start(self.at)),
            KeyCode::End => self.go(self.line_end(self.at)),
            KeyCode::Up => return self.up(),
            KeyCode::Down => return self.down(),
            _ => return Reaction::None,
        }
        Reaction::Done
    }

    /// Enter sends, except with a modifier or after a backslash.
    fn enter(&mut self, is_modified: bool) -> Reaction {
        if is_modified {
            self.newline();
            return Reaction::Done;
        }
        if self.text[..self.at].ends_with('\\') {
            self.keep();
            self.text.replace_range(self.at - 1..self.at, "\n");
            return Reaction::Done;
        }
        Reaction::Send
    }

    fn newline(&mut self) {
        self.keep();
        self.insert("\n");
    }

    fn control(&mut self, c: char) -> Reaction {
        match c {
            'a' => self.go(self.line_start(self.at)),
            'e' => self.go(self.line_end(self.at)),
            'b' => self.go(self.before(self.at)),
            'f' => self.go(self.after(self.at)),
            'd' => self.remove(self.at, self.after(self.at)),
            'h' => self.remove(self.before(self.at), self.at),
            'w' => {
                let text = self.text[..self.at].trim_end();
                let start = text.rfind(char::is_whitespace);
                let start = start.map_or(0, |found| {
                    found + text[found..].chars().next().map_or(1, char::len_utf8)
                });
                self.kill(start, self.at);
            }
            'u' => self.kill(self.line_start(self.at), self.at),
            'k' => {
                let end = self.line_end(self.at);
                let end = if end == self.at { self.after(self.at) } else { end };
                self.kill(self.at, end);
            }
            'y' => {
                let killed = self.killed.clone();
                self.keep();
                self.insert(&killed);
                self.yanked = Some((self.at - killed.len().min(self.at)..self.at, 0));
            }
            't' => self.swap(),
            'j' => self.newline(),
            'p' => return self.up(),
            'n' => return self.down(),
            '_' | '7' | '/' | '-' => self.undo(),
            _ => return Reaction::None,
        }
        Reaction::Done
    }

    fn alt(&mut self, c: char) -> Reaction {
        match c {
            'b' => self.go(self.word_left(self.at)),
            'f' => self.go(self.word_right(self.at)),
            'd' => self.kill(self.at, self.word_right(self.at)),
            '<' => self.go(0),
            '>' => self.go(self.text.len()),
            'y' => self.yank_older(),
            '_' | 'z' => self.redo(),
            'u' | 'l' | 'c' => self.change_case(c),
            _ => return Reaction::None,
        }
        Reaction::Done
    }

    /// Puts what was removed before in the place of what was put back last.
    fn yank_older(&mut self) {
        let Some((range, back)) = self.yanked.clone().filter(|(range, _)| range.end == self.at)
        else {
            return;
        };
        let back = (back + 1) % (self.removed.len() + 1);
        let older = match back.checked_sub(1) {
            Some(back) => self.removed.iter().rev().nth(back),
            None => Some(&self.killed),
        };
        let Some(older) = older.cloned() else { return };
        let start = range.start;
        self.replace(range, &older);
        self.yanked = Some((start..self.at, back));
    }

    fn change_case(&mut self, how: char) {
        let end = self.word_right(self.at);
        let word = &self.text[self.at..end];
        let changed = match how {
            'u' => word.to_uppercase(),
            'l' => word.to_lowercase(),
            _ => {
                let start = word.find(char::is_alphanumeric).unwrap_or(0);
                let next = word[start..].chars().next().map_or(start, |c| start + c.len_utf8());
                format!(
                    "{}{}{}",
                    &word[..start],
                    word[start..next].to_uppercase(),
                    word[next..].to_lowercase()
                )
            }
        };
        let range = self.at..end;
        self.replace(range, &changed);
    }

    /// Swaps the characters around the caret.
    fn swap(&mut self) {
        let end = if self.at == self.text.len() { self.at } else { self.after(self.at) };
        let middle = self.before(end);
        let start = self.before(middle);
        if start < middle {
            let swapped = format!("{}{}", &self.text[middle..end], &self.text[start..middle]);
            self.replace(start..end, &swapped);
        }
    }

    pub(super) fn go(&mut self, at: usize) {
        self.is_typing = false;
        self.at = at;
    }

    pub(super) fn remove(&mut self, from: usize, to: usize) {
        if from < to {
            self.keep();
            self.text.replace_range(from..to, "");
            self.at = from;
        }
    }

    pub(super) fn up(&mut self) -> Reaction {
        match self.vertical(true) {
            Some(at) => self.go(at),
            None => return Reaction::Older,
        }
        Reaction::Done
    }

    pub(super) fn down(&mut self) -> Reaction {
        match self.vertical(false) {
            Some(at) => self.go(at),
            None => return Reaction::Newer,
        }
        Reaction::Done
    }
}
