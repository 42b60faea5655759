//! What keys do.

use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::call::Running;
use super::{Phase, Screen, Search, Wish};
use crate::complete::{self, Wanted};
use crate::composer::{Prompt, Reaction, ViMode};
use crate::question::Reply;
use crate::text::{line, look};

/// How soon a second key must follow.
const TWICE: Duration = Duration::from_millis(1_500);

impl Screen {
    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent, now: Duration) -> Vec<Wish> {
        let is_ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        if is_ctrl && let KeyCode::Char(c) = key.code {
            match c {
                'z' => return vec![Wish::Suspend],
                'l' => return vec![Wish::Redraw],
                'o' => {
                    self.open_all(now);
                    return Vec::new();
                }
                _ => {}
            }
        }
        if let Some(dialog) = self.dialogs.front_mut() {
            match dialog.key(key, now) {
                Reply::Waits | Reply::Unclear => return Vec::new(),
                Reply::Answered(answer) => return self.answered(answer, now),
                Reply::Rewrite => return vec![Wish::EditPlan],
                // A key that came too early is typed; one that would send waits.
                Reply::Early if key.code == KeyCode::Enter || key.code == KeyCode::Esc => {
                    return Vec::new();
                }
                Reply::Early => {}
            }
        }
        if self.search.is_some() {
            return self.search_key(key, now);
        }
        if is_ctrl && let KeyCode::Char(c) = key.code {
            match c {
                'c' => return self.ctrl_c(now),
                'd' if self.composer.is_empty() => return self.ctrl_d(now),
                'r' => {
                    self.search =
                        Some(Search { draft: self.composer.prompt(), ..Search::default() });
                    return Vec::new();
                }
                'g' => return vec![Wish::Edit],
                'v' => return vec![Wish::PasteImage],
                's' => return self.put_aside(now),
                'b' if self.is_busy() && self.composer.is_empty() => return vec![Wish::Background],
                _ => {}
            }
        }
        if key.modifiers == KeyModifiers::ALT {
            // As in Claude Code.
            let command = match key.code {
                KeyCode::Char('p') => Some("model"),
                KeyCode::Char('t') => Some("thinking"),
                _ => None,
            };
            if let Some(name) = command {
                return vec![Wish::Key(name)];
            }
        }
        match key.code {
            KeyCode::BackTab => return vec![Wish::NextMode],
            KeyCode::Esc => return self.escape(key, now),
            KeyCode::Char('?') if self.composer.is_empty() && !is_ctrl => {
                self.print_keys();
                return Vec::new();
            }
            _ => {}
        }
        (self.escaped, self.leaving) = (None, None);
        if self.completion_key(key) {
            return Vec::new();
        }
        self.composer_key(key, now)
    }

    /// Does what a key means to a list of completions. Returns whether that was all.
    fn completion_key(&mut self, key: KeyEvent) -> bool {
        let completions = self.completions();
        if let Some(selected) = self.selected.filter(|_| !completions.is_empty()) {
            let last = completions.len() - 1;
            match key.code {
                KeyCode::Up => {
                    self.selected = Some(selected.checked_sub(1).unwrap_or(last));
                    return true;
                }
                KeyCode::Down => {
                    self.selected = Some(if selected >= last { 0 } else { selected + 1 });
                    return true;
                }
                KeyCode::Tab => {
                    self.complete(&completions[selected.min(last)].0);
                    return true;
                }
                KeyCode::Enter if key.modifiers.is_empty() => {
                    let chosen = completions[selected.min(last)].0.clone();
                    let is_command = chosen.starts_with('/');
                    let typed = &self.composer.text()[..self.composer.at()];
                    // A name that is there as a whole needs nothing more.
                    if typed.ends_with(&chosen) {
                        return false;
                    }
                    self.complete(&chosen);
                    if !is_command {
                        return true;
                    }
                }
                _ => {}
            }
        }
        false
    }

    /// Does what a key means to the composer.
    fn composer_key(&mut self, key: KeyEvent, now: Duration) -> Vec<Wish> {
        let before = self.composer.text().to_owned();
        match self.composer.key(key) {
            Reaction::None => {}
            Reaction::Done => {
                self.selected = Some(0);
                if self.composer.text() != before {
                    self.history.leave();
                }
            }
            Reaction::Send => return self.send(now),
            Reaction::Older => {
                if self.take_next(true, now) || self.composer.is_empty() && self.take_back() {
                    return Vec::new();
                }
                let typed = self.composer.prompt();
                if let Some(prompt) = self.history.older(typed) {
                    self.show(prompt);
                }
            }
            Reaction::Newer => {
                if self.take_next(false, now) {
                    return Vec::new();
                }
                if let Some(prompt) = self.history.newer() {
                    self.show(prompt);
                }
            }
        }
        Vec::new()
    }

    /// Takes a whole line, where there is no composer to be seen: nothing is completed, and what
    /// means nothing to a question is said.
    pub fn line(&mut self, text: &str, now: Duration) -> Vec<Wish> {
        let enter = KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE);
        let is_ready = self.dialogs.front().is_some_and(|dialog| dialog.is_ready(now));
        if let Some(dialog) = self.dialogs.front_mut().filter(|_| is_ready) {
            return match dialog.line(text, now) {
                Reply::Answered(answer) => self.answered(answer, now),
                Reply::Unclear => {
                    let hint = line(look::WARN, "answer with the number of a choice");
                    self.out.insert(self.free, hint);
                    self.free += 1;
                    Vec::new()
                }
                Reply::Waits | Reply::Early | Reply::Rewrite => Vec::new(),
            };
        }
        if text.trim() == "?" && self.composer.is_empty() {
            self.print_keys();
            return Vec::new();
        }
        self.composer.insert(text);
        self.selected = None;
        let was_waiting = self.queue.len();
        let wishes = self.composer_key(enter, now);
        if self.queue.len() > was_waiting {
            self.note(look::DIM, "(waits until this turn is over)");
        }
        wishes
    }

    /// Takes a pasted text.
    pub fn paste(&mut self, pasted: &str, now: Duration) {
        if let Some(dialog) = self.dialogs.front_mut().filter(|dialog| dialog.is_ready(now))
            && dialog.paste(pasted, now) == Reply::Waits
        {
            return;
        }
        if let Some(search) = &mut self.search {
            search.text.push_str(&pasted.replace(['\r', '\n'], " "));
            return;
        }
        self.composer.paste(pasted);
        self.selected = Some(0);
    }

    /// Replaces what is written by a prompt.
    pub(super) fn show(&mut self, prompt: Prompt) {
        self.composer.clear();
        self.composer.take_back(prompt);
        // What is recalled is not completed.
        self.selected = None;
    }

    fn answered(&mut self, answer: crate::question::Answer, now: Duration) -> Vec<Wish> {
        let Some(dialog) = self.dialogs.pop_front() else { return Vec::new() };
        if let crate::question::Answer::YesAnd(words) = &answer {
            self.echo(&Prompt::typed(words));
        }
        // What it takes to decide is not what it takes to run.
        let asked = |call: &&mut Running| call.id == dialog.question.call;
        if let Some(call) = self.calls.iter_mut().find(asked) {
            call.since = now;
        }
        self.ask();
        vec![Wish::Answer(Box::new(dialog.question), answer)]
    }

    fn complete(&mut self, chosen: &str) {
        let text = self.composer.text();
        let Some(Wanted::Command(range) | Wanted::File(range)) =
            complete::wanted(text, self.composer.at())
        else {
            return;
        };
        // A folder is completed further.
        let more = if chosen.ends_with('/') { "" } else { " " };
        let name = chosen.trim_start_matches(['/', '@']);
        let name = if name.contains(' ') { format!("\"{name}\"") } else { name.to_owned() };
        self.composer.replace(range, &format!("{name}{more}"));
        self.selected = Some(0);
    }

    fn send(&mut self, now: Duration) -> Vec<Wish> {
        let prompt = self.composer.prompt();
        let text = prompt.text.trim().to_owned();
        if text.is_empty() {
            // One that was taken back and emptied is not sent at all.
            let is_dropped = self.taken.take().is_some();
            let is_waiting = self.is_busy() && !self.queue.is_empty() && !is_dropped;
            return if is_waiting { self.hand_over(None, now) } else { Vec::new() };
        }
        self.composer.clear();
        self.selected = Some(0);
        if let Some(aside) = self.aside.take() {
            self.show(aside);
        }
        if let Some(command) = text.strip_prefix('/')
            && let Some((name, rest)) = self.command(command)
        {
            self.echo_typed(&prompt);
            return vec![Wish::Command(name, rest)];
        }
        if let Some(command) = text.strip_prefix('!').filter(|command| !command.trim().is_empty()) {
            if self.is_busy() {
                self.composer.take_back(prompt);
                self.hint("a command of yours runs when the turn is over", now);
                return Vec::new();
            }
            self.echo_typed(&prompt);
            return vec![Wish::Shell(command.trim().to_owned())];
        }
        if self.is_busy() {
            self.enqueue(prompt, now);
            return Vec::new();
        }
        self.taken = None;
        self.echo_typed(&prompt);
        self.phase = Phase::Busy(now);
        self.unanswered = Some(prompt.clone());
        vec![Wish::Say(prompt)]
    }

    /// Prints what was typed; with lines only it is on the terminal already.
    fn echo_typed(&mut self, prompt: &Prompt) {
        if !self.is_lines {
            self.echo(prompt);
        }
    }

    /// The command that a text names, and what follows; a path is none.
    fn command(&mut self, text: &str) -> Option<(String, String)> {
        let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let is_known = self.commands.iter().any(|command| command.name == name);
        let is_word = name.chars().all(|c| c.is_alphanumeric() || "-_:".contains(c));
        (is_known || is_word && !name.is_empty()).then(|| (name.to_owned(), rest.trim().to_owned()))
    }

    /// Puts aside what is typed, or takes it back.
    fn put_aside(&mut self, now: Duration) -> Vec<Wish> {
        if !self.composer.is_empty() {
            self.aside = Some(self.composer.prompt());
            self.composer.clear();
            self.hint("put aside; Ctrl-S takes it back, and so does the next prompt", now);
        } else if let Some(prompt) = self.aside.take() {
            self.show(prompt);
        }
        Vec::new()
    }

    fn ctrl_c(&mut self, now: Duration) -> Vec<Wish> {
        if !self.composer.is_empty() {
            self.composer.clear();
            self.history.leave();
            return Vec::new();
        }
        if self.is_busy() && self.leaving.is_none_or(|at| now.saturating_sub(at) > TWICE) {
            self.leaving = Some(now);
            self.hint("stopping; Ctrl-C again leaves", now);
            return vec![Wish::Interrupt];
        }
        if self.leaving.is_some_and(|at| now.saturating_sub(at) <= TWICE) {
            return vec![Wish::Leave];
        }
        self.leaving = Some(now);
        self.hint(&format!("Ctrl-C again leaves{}", self.losses()), now);
        Vec::new()
    }

    /// Leaves; if that ends commands in the background, only when it is pressed twice.
    fn ctrl_d(&mut self, now: Duration) -> Vec<Wish> {
        let is_meant = self.leaving.is_some_and(|at| now.saturating_sub(at) <= TWICE);
        if self.tasks.is_empty() || is_meant {
            return vec![Wish::Leave];
        }
        self.leaving = Some(now);
        self.hint(&format!("Ctrl-D again leaves{}", self.losses()), now);
        Vec::new()
    }

    /// What ends with the session.
    fn losses(&self) -> String {
        match self.tasks.len() {
            0 => String::new(),
            1 => ", and ends the command in the background".to_owned(),
            number => format!(", and ends {number} commands in the background"),
        }
    }

    fn escape(&mut self, key: KeyEvent, now: Duration) -> Vec<Wish> {
        if !self.completions().is_empty() {
            self.selected = None;
            return Vec::new();
        }
        if self.composer.vi_mode() == Some(ViMode::Insert) && !self.composer.is_empty() {
            self.composer.key(key);
            return Vec::new();
        }
        if self.composer.vi_mode().is_some()
            && self.composer.key(key) == Reaction::Done
            && !self.composer.is_empty()
        {
            return Vec::new();
        }
        if self.is_busy() {
            return vec![Wish::Interrupt];
        }
        if self.escaped.take().is_some_and(|at| now.saturating_sub(at) <= TWICE) {
            if self.composer.is_empty() {
                return vec![Wish::Rewind];
            }
            self.composer.clear();
            return Vec::new();
        }
        self.escaped = Some(now);
        let text = if self.composer.is_empty() {
            "Esc again: go back to an earlier prompt"
        } else {
            "Esc again clears"
        };
        self.hint(text, now);
        Vec::new()
    }

    fn search_key(&mut self, key: KeyEvent, now: Duration) -> Vec<Wish> {
        let is_ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        let Some(search) = &mut self.search else { return Vec::new() };
        match key.code {
            KeyCode::Char('r') if is_ctrl => search.hit += 1,
            KeyCode::Char('s') if is_ctrl => search.hit = search.hit.saturating_sub(1),
            KeyCode::Esc => self.end_search(None),
            KeyCode::Char('c' | 'g') if is_ctrl => self.end_search(None),
            KeyCode::Backspace => {
                search.text.pop();
                search.hit = 0;
            }
            KeyCode::Char(c) if !is_ctrl => {
                search.text.push(c);
                search.hit = 0;
            }
            KeyCode::Enter | KeyCode::Tab | KeyCode::Right | KeyCode::Left => {
                let found = self.found();
                self.end_search(found);
            }
            _ => {
                let found = self.found();
                self.end_search(found);
                return self.key(key, now);
            }
        }
        if let Some(search) = &mut self.search {
            let most = self.history.search(&search.text, usize::MAX).len();
            search.hit = search.hit.min(most.saturating_sub(1));
        }
        Vec::new()
    }

    /// The entry of the history that is found.
    pub(super) fn found(&self) -> Option<Prompt> {
        let search = self.search.as_ref()?;
        let hits = self.history.search(&search.text, search.hit + 1);
        hits.get(search.hit).map(|prompt| (*prompt).clone())
    }

    fn end_search(&mut self, found: Option<Prompt>) {
        if let Some(search) = self.search.take() {
            self.show(found.unwrap_or(search.draft));
        }
    }

    /// The keys, to be printed.
    pub fn print_keys(&mut self) {
        self.gap();
        for (keys, about) in KEYS {
            let line = format!("  {keys:<22} {about}");
            self.note(look::DIM, &line);
        }
    }
}

/// The keys, in the order in which they are listed.
pub const KEYS: [(&str, &str); 34] = [
    ("Enter", "send; while it works: wait in the queue"),
    ("Shift-Enter, Alt-Enter", "a new line; everywhere also Ctrl-J and \\ Enter"),
    ("Esc", "stop the turn; before an answer: the prompt is back"),
    ("Esc Esc", "go back to an earlier prompt; clear what is typed"),
    ("Shift-Tab", "the next permission mode"),
    ("Ctrl-C", "clear the line, stop the turn; twice: leave"),
    ("Ctrl-D", "leave, on an empty line"),
    ("↑ ↓, Ctrl-P, Ctrl-N", "lines, waiting prompts, then the history"),
    ("Ctrl-R", "search the history; again: older"),
    ("Tab", "complete a /command or an @file"),
    ("Ctrl-O", "show everything that is folded; again: fold"),
    ("Ctrl-B", "send the running command to the background"),
    ("Ctrl-G", "write the prompt, or a plan, in $EDITOR"),
    ("Ctrl-V", "paste the clipboard's image; a pasted path works, too"),
    ("Ctrl-S", "put aside what is typed; again: back"),
    ("Alt-P", "choose the model"),
    ("Alt-T", "choose how much is thought"),
    ("Ctrl-L", "draw again"),
    ("Ctrl-Z", "suspend; `fg` comes back"),
    ("! command", "run a command; the model sees what it printed"),
    ("@ file", "name a file"),
    ("/ command", "a command; /help lists them"),
    ("Ctrl-A Ctrl-E", "start and end of the line"),
    ("Ctrl-F Ctrl-B", "a character forward, back"),
    ("Alt-F Alt-B", "a word forward, back"),
    ("Ctrl-W, Alt-Backspace", "remove the word before"),
    ("Alt-D", "remove the word after"),
    ("Ctrl-U Ctrl-K", "remove to the start, to the end of the line"),
    ("Ctrl-Y", "put back what was removed; Alt-Y: what was before"),
    ("Ctrl-T", "swap two characters"),
    ("Alt-U Alt-L Alt-C", "a word in capitals, in small letters, capitalised"),
    ("Ctrl-_", "undo; Alt-_ redoes"),
    ("Esc, then keys of vi", "with /vim: motions, operators, text objects, `.`"),
    ("?", "this list, on an empty line"),
];
