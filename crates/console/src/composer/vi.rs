//! The keys of vi: insert and normal mode, motions, counts, `d`, `c`, `y`, text objects, `.`.

use ratatui::crossterm::event::{KeyCode, KeyEvent};

use super::{Composer, Reaction};

/// How many keys of a command are remembered: one with more is not repeated.
const LONGEST: usize = 2_000;

/// What a line is moved to the right by.
const INDENT: &str = "  ";

/// A mode of vi.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ViMode {
    /// Keys are written.
    #[default]
    Insert,
    /// Keys are commands.
    Normal,
}

/// Where vi is in a command.
#[derive(Clone, Debug, Default)]
pub(super) struct Vi {
    pub(super) mode: ViMode,
    /// What is to be done with the next motion.
    operator: Option<char>,
    count: usize,
    /// A key that waits for a character: `f`, `t`, `F`, `T`, `r`, `g`, `i`, `a`, `<`, `>`.
    waits: Option<char>,
}

/// What vi remembers from one command to the next.
#[derive(Clone, Debug, Default)]
pub(super) struct ViMemory {
    /// The last character that was looked for, and the key: `f`, `t`, `F`, `T`.
    found: Option<(char, char)>,
    /// The keys of the command that is being typed, what it writes included.
    keys: Vec<KeyEvent>,
    /// The keys of the last command that changed something.
    change: Vec<KeyEvent>,
    /// The text before the command that is being typed.
    before: Option<String>,
    is_repeating: bool,
}

impl Composer {
    /// Does what a key means to vi; None if it is written, or means what it means without vi.
    pub(super) fn vi_key(&mut self, key: KeyEvent) -> Option<Reaction> {
        if self.is_vi_resting() && key.code == KeyCode::Char('.') {
            self.repeat();
            return Some(Reaction::Done);
        }
        self.note_key(key);
        let reaction = self.vi_key_now(key);
        if self.is_vi_resting() {
            self.note_change();
        }
        reaction
    }

    /// Whether the next key begins a command.
    fn is_vi_resting(&self) -> bool {
        self.vi.as_ref().is_some_and(|vi| {
            let is_open = vi.operator.is_some() || vi.waits.is_some() || vi.count > 0;
            vi.mode == ViMode::Normal && !is_open
        })
    }

    fn note_key(&mut self, key: KeyEvent) {
        let is_normal = self.vi_mode() == Some(ViMode::Normal);
        if self.memory.keys.is_empty() && is_normal {
            self.memory.before = Some(self.text.clone());
        }
        if self.memory.before.is_some() && self.memory.keys.len() < LONGEST {
            self.memory.keys.push(key);
        }
    }

    /// A command is complete: one that changed something can be repeated.
    fn note_change(&mut self) {
        let keys = std::mem::take(&mut self.memory.keys);
        let before = self.memory.before.take();
        let is_undo = matches!(keys.as_slice(), [KeyEvent { code: KeyCode::Char('u' | 'U'), .. }]);
        let is_change = before.is_some_and(|before| before != self.text);
        if is_change && !is_undo && keys.len() < LONGEST && !self.memory.is_repeating {
            self.memory.change = keys;
        }
    }

    /// What is typed now begins nothing that could be repeated.
    pub(super) fn forget_keys(&mut self) {
        (self.memory.keys, self.memory.before) = (Vec::new(), None);
    }

    /// Does the last change again.
    fn repeat(&mut self) {
        self.memory.is_repeating = true;
        for key in self.memory.change.clone() {
            self.key(key);
        }
        self.memory.is_repeating = false;
        self.forget_keys();
    }

    fn vi_key_now(&mut self, key: KeyEvent) -> Option<Reaction> {
        let mode = self.vi.as_ref()?.mode;
        if mode == ViMode::Insert {
            if key.code != KeyCode::Esc {
                return None;
            }
            let start = self.line_start(self.at);
            self.set_vi(Vi { mode: ViMode::Normal, ..Vi::default() });
            if self.at > start {
                self.go(self.before(self.at));
            }
            return Some(Reaction::Done);
        }
        match key.code {
            // A second Esc is the console's.
            KeyCode::Esc => {
                let vi = self.vi.clone()?;
                let is_open = vi.operator.is_some() || vi.waits.is_some() || vi.count > 0;
                self.set_vi(Vi { mode: ViMode::Normal, ..Vi::default() });
                is_open.then_some(Reaction::Done)
            }
            KeyCode::Char(c) => Some(self.normal(c)),
            KeyCode::Backspace => Some(self.normal('h')),
            _ => None,
        }
    }

    fn set_vi(&mut self, vi: Vi) {
        self.vi = Some(vi);
    }

    fn insert_mode(&mut self) {
        self.set_vi(Vi::default());
    }

    fn normal(&mut self, c: char) -> Reaction {
        let Some(mut vi) = self.vi.clone() else { return Reaction::None };
        if let Some(waits) = vi.waits.take() {
            self.set_vi(vi.clone());
            return self.awaited(waits, c, &vi);
        }
        if c.is_ascii_digit() && (c != '0' || vi.count > 0) {
            vi.count = (vi.count * 10 + c as usize - '0' as usize).min(9_999);
            self.set_vi(vi);
            return Reaction::Done;
        }
        let is_object = vi.operator.is_some() && "ia".contains(c);
        if is_object || "fFtTrg<>".contains(c) {
            vi.waits = Some(c);
            self.set_vi(vi);
            return Reaction::Done;
        }
        let times = vi.count.max(1);
        if let Some(operator) = vi.operator {
            self.set_vi(Vi { mode: ViMode::Normal, ..Vi::default() });
            if c == operator {
                let start = self.line_start(self.at);
                let end = self.line_end(self.at);
                self.operate(operator, start, end, c == 'd');
            } else if let Some(to) = self.motion(c, times, operator) {
                let is_ahead = to > self.at && ";,".contains(c);
                let (from, to) = (self.at.min(to), self.at.max(to));
                let to = if c == 'e' || is_ahead { self.after(to) } else { to };
                self.operate(operator, from, to, false);
            }
            return Reaction::Done;
        }
        if "dcy".contains(c) {
            vi.operator = Some(c);
            self.set_vi(vi);
            return Reaction::Done;
        }
        self.set_vi(Vi { mode: ViMode::Normal, ..Vi::default() });
        if let Some(to) = self.motion(c, times, ' ') {
            self.go(to);
            return Reaction::Done;
        }
        self.command(c, times)
    }

    fn command(&mut self, c: char, times: usize) -> Reaction {
        let end = self.line_end(self.at);
        match c {
            'i' => self.insert_mode(),
            'a' => {
                let at = if self.at < end { self.after(self.at) } else { self.at };
                self.go(at);
                self.insert_mode();
            }
            'I' => {
                self.go(self.line_start(self.at));
                self.insert_mode();
            }
            'A' => {
                self.go(end);
                self.insert_mode();
            }
            'Y' => self.killed = self.text[self.line_start(self.at)..end].to_owned(),
            'o' => {
                self.go(end);
                self.insert("\n");
                self.insert_mode();
            }
            'O' => {
                self.go(self.line_start(self.at));
                self.insert("\n");
                self.go(self.at - 1);
                self.insert_mode();
            }
            'x' => {
                let to =
                    (0..times).fold(self.at, |at, _| if at < end { self.after(at) } else { at });
                self.kill(self.at, to);
            }
            'X' => self.kill(self.before(self.at), self.at),
            'D' => self.kill(self.at, end),
            'C' => {
                self.kill(self.at, end);
                self.insert_mode();
            }
            's' => {
                self.kill(self.at, if self.at < end { self.after(self.at) } else { self.at });
                self.insert_mode();
            }
            'S' => {
                self.kill(self.line_start(self.at), end);
                self.insert_mode();
            }
            'p' => {
                let at = if self.at < end { self.after(self.at) } else { self.at };
                self.go(at);
                let killed = self.killed.clone();
                self.insert(&killed);
            }
            'P' => {
                let killed = self.killed.clone();
                self.insert(&killed);
            }
            'u' => self.undo(),
            'U' => self.redo(),
            'J' => {
                if end < self.text.len() {
                    self.replace(end..end + 1, " ");
                }
            }
            '~' if self.at < end => {
                let next = self.after(self.at);
                let old = self.text[self.at..next].to_owned();
                let upper = old.to_uppercase();
                let new = if upper == old { old.to_lowercase() } else { upper };
                let range = self.at..next;
                self.replace(range, &new);
            }
            'k' => return self.up(),
            'j' => return self.down(),
            _ => return Reaction::None,
        }
        Reaction::Done
    }

    /// Where a motion leads.
    fn motion(&self, c: char, times: usize, operator: char) -> Option<usize> {
        let mut at = self.at;
        for _ in 0..times {
            at = match c {
                'h' if at > self.line_start(at) => self.before(at),
                'l' | ' ' if at < self.line_end(at) => self.after(at),
                'h' | 'l' | ' ' => at,
                'w' if operator == 'c' => self.word_end(at).max(at),
                'w' => self.next_word(at),
                'b' => self.word_left(at),
                'e' => {
                    let end = self.word_end(self.after(at));
                    if end > at { self.before(end) } else { at }
                }
                '0' => self.line_start(at),
                '^' => {
                    let start = self.line_start(at);
                    let line = &self.text[start..self.line_end(at)];
                    start + (line.len() - line.trim_start().len())
                }
                '$' => self.line_end(at),
                'G' => self.text.len(),
                ';' | ',' => {
                    let (key, wanted) = self.memory.found?;
                    let key = if c == ';' { key } else { turned(key) };
                    let found = self.look_for(key, wanted, at)?;
                    // Beside the one that was found last, the next one counts.
                    let beside = if key == 't' { self.after(at) } else { self.before(at) };
                    if found == at { self.look_for(key, wanted, beside)? } else { found }
                }
                _ => return None,
            };
        }
        Some(at)
    }

    fn next_word(&self, at: usize) -> usize {
        let rest = &self.text[at..];
        let is_word = rest.chars().next().is_some_and(char::is_alphanumeric);
        let end = rest.find(|c: char| c.is_alphanumeric() != is_word || c.is_whitespace());
        let end = end.unwrap_or(rest.len());
        let gap = rest[end..].len() - rest[end..].trim_start().len();
        at + end + gap
    }

    fn word_end(&self, at: usize) -> usize {
        let rest = &self.text[at.min(self.text.len())..];
        let start = rest.len() - rest.trim_start().len();
        let is_word = rest[start..].chars().next().is_some_and(char::is_alphanumeric);
        let end = rest[start..].find(|c: char| c.is_alphanumeric() != is_word || c.is_whitespace());
        at + end.map_or(rest.len(), |end| start + end)
    }

    fn operate(&mut self, operator: char, from: usize, to: usize, is_line: bool) {
        match operator {
            'y' => self.killed = self.text[from..to].to_owned(),
            'd' if is_line => {
                let to = if to < self.text.len() { to + 1 } else { to };
                let from = if to == self.text.len() { from.saturating_sub(1) } else { from };
                self.kill(from, to);
                self.go(self.line_start(self.at));
            }
            _ => self.kill(from, to),
        }
        if operator == 'c' {
            self.insert_mode();
        }
    }

    /// A character came for which a key has waited.
    fn awaited(&mut self, waits: char, c: char, vi: &Vi) -> Reaction {
        let (start, end) = (self.line_start(self.at), self.line_end(self.at));
        if let (Some(operator), 'i' | 'a') = (vi.operator, waits) {
            self.set_vi(Vi { mode: ViMode::Normal, ..Vi::default() });
            if let Some(object) = self.object(c, waits == 'a') {
                self.operate(operator, object.start, object.end, false);
            }
            return Reaction::Done;
        }
        let to = match waits {
            'g' if c == 'g' => Some(0),
            'f' | 't' | 'F' | 'T' => {
                self.memory.found = Some((waits, c));
                self.look_for(waits, c, self.at)
            }
            '>' if c == '>' => {
                self.replace(start..start, INDENT);
                None
            }
            '<' if c == '<' => {
                let line = &self.text[start..end];
                let rest = line.trim_start_matches(' ');
                let width = (line.len() - rest.len()).min(INDENT.len());
                self.replace(start..start + width, "");
                None
            }
            'r' if self.at < end => {
                let range = self.at..self.after(self.at);
                self.replace(range, c.encode_utf8(&mut [0; 4]));
                self.go(self.before(self.at));
                None
            }
            _ => None,
        };
        self.set_vi(Vi { mode: ViMode::Normal, ..Vi::default() });
        if let Some(to) = to {
            match vi.operator {
                Some(operator) => {
                    let is_on = waits == 'f' || waits == 't';
                    let past = if is_on { self.after(to) } else { to };
                    let (from, to) = (self.at.min(past), self.at.max(past));
                    self.operate(operator, from, to, false);
                }
                None => self.go(to),
            }
        }
        Reaction::Done
    }

    /// Where a character is found in the line, from a place on.
    fn look_for(&self, key: char, c: char, at: usize) -> Option<usize> {
        let (start, end) = (self.line_start(at), self.line_end(at));
        let rest = self.after(at).min(end);
        match key {
            'f' => self.text[rest..end].find(c).map(|found| rest + found),
            't' => self.text[rest..end].find(c).map(|found| self.before(rest + found)),
            'F' => self.text[start..at].rfind(c).map(|found| start + found),
            _ => self.text[start..at].rfind(c).map(|found| self.after(start + found)),
        }
    }
}

/// The key that looks in the other direction.
fn turned(key: char) -> char {
    if key.is_lowercase() { key.to_ascii_uppercase() } else { key.to_ascii_lowercase() }
}
