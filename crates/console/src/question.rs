//! A question whether a call may run: what will happen, and what can be answered.
//!
//! What will happen is printed above, whole, where it can be scrolled; the choices are in the live
//! area. Invariants: nothing of a call is cut, and every character that could deceive is an escape;
//! a key that was pressed before the question was on the screen for [`PATIENCE`] answers nothing,
//! nor does one that follows a letter as soon, nor Enter after a letter: somebody is typing a
//! prompt; *yes* is not preselected where the sandbox does not hold; a rule that is not understood,
//! or has no limit where its brackets promise one, is no answer.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use rules::{Kind, Rule};
use serde_json::Value;

use crate::composer::{Composer, Keymap, with_caret};
use crate::diff;
use crate::markdown::Markdown;
use crate::text::{Line, Span, Style, exact, look, words};

/// How long a question must have been on the screen before a key answers it.
pub const PATIENCE: Duration = Duration::from_millis(300);

/// Somebody wants to know whether a call may run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Question {
    /// The id of the request.
    pub request: String,
    /// The id of the call that it is about.
    pub call: String,
    /// The name of the tool.
    pub tool: String,
    /// The input of the call.
    pub input: Value,
    /// Why it is asked.
    pub why: String,
    /// The rule that would allow it from now on.
    pub rule: Option<String>,
    /// The files that such a rule can go to, as they are shown; the first one if nobody says more.
    pub rule_files: Vec<String>,
    /// Whether it is about running outside the sandbox.
    pub is_outside: bool,
    /// The parts of a command and what was decided about each: text, decision, reason.
    pub parts: Vec<(String, String, String)>,
    /// What the sandbox will allow, in words; empty if there is none.
    pub sandbox: String,
    /// What it would do to a file, or why it could not; None if it is not about one.
    pub change: Option<Result<Change, String>>,
    /// The agent that asks, if it is not the main one.
    pub agent: Option<String>,
    /// Whether the user has written the plan anew that it is about.
    pub is_rewritten: bool,
}

/// What a call would do to a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The file.
    pub path: String,
    /// What is in it; None if there is no such file.
    pub before: Option<String>,
    /// What would be in it.
    pub after: String,
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Yes, this time.
    Yes,
    /// Yes, this time, and something to say.
    YesAnd(String),
    /// Yes, and by this rule from now on; it goes to the file of that number.
    Always(Rule, usize),
    /// Yes, and changes of files need no question in this session.
    AcceptEdits,
    /// Yes to a plan, and calls are asked about as before.
    Manual,
    /// No, because of this.
    Because(String),
    /// No, and the turn ends.
    No,
    /// The answers to the questions of a call: question and choice.
    Chosen(Vec<(String, String)>),
}

/// What a choice does.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Choice {
    Give(Answer),
    EditRule,
    SayWhy,
    /// An option of the model's question.
    Option(String),
    /// A text of the user's.
    Other,
}

/// A question on the screen.
#[derive(Clone, Debug)]
pub struct Dialog {
    /// The question.
    pub question: Question,
    choices: Vec<(Choice, String)>,
    selected: usize,
    /// What is being typed: a rule or a reason.
    field: Option<Composer>,
    /// What is wrong with it.
    wrong: Option<String>,
    /// The file that a rule goes to.
    file: usize,
    /// When it was first drawn, or a prompt was typed last while it was there.
    shown: Option<Duration>,
    /// Whether a prompt is being typed: Enter would be for that.
    is_typing: bool,
    /// Whether it is answered by whole lines.
    is_lines: bool,
    /// Of several questions of the model: the number of this one, and the answers so far.
    step: usize,
    chosen: Vec<(String, String)>,
    /// The options that are ticked.
    ticked: Vec<usize>,
    focus: usize,
}

/// What a key did to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing yet.
    Waits,
    /// It came too early, and belongs to the composer.
    Early,
    /// A line that means nothing here.
    Unclear,
    /// The plan is to be written anew, in an editor.
    Rewrite,
    /// It is answered.
    Answered(Answer),
}

impl Dialog {
    /// A question that is not on the screen yet.
    pub fn new(question: Question) -> Dialog {
        let mut dialog = Dialog {
            question,
            choices: Vec::new(),
            selected: 0,
            field: None,
            wrong: None,
            file: 0,
            shown: None,
            is_typing: false,
            is_lines: false,
            step: 0,
            chosen: Vec::new(),
            ticked: Vec::new(),
            focus: 0,
        };
        dialog.choose();
        dialog
    }

    /// The same, answered by whole lines.
    #[must_use]
    pub fn by_lines(self, is_lines: bool) -> Dialog {
        Dialog { is_lines, ..self }
    }

    fn choose(&mut self) {
        let question = &self.question;
        let mut choices: Vec<(Choice, String)> = Vec::new();
        let mut add = |choice: Choice, text: &str| choices.push((choice, text.to_owned()));
        let no_because = "No, because …";
        self.selected = 0;
        if question.is_outside {
            add(Choice::Give(Answer::No), "No, keep the result");
            add(Choice::Give(Answer::Yes), "Yes, once, outside the sandbox");
        } else if let Some(asked) = self.asked() {
            for option in asked["options"].as_array().into_iter().flatten() {
                let label = option["label"].as_str().unwrap_or_default();
                let about = option["description"].as_str().unwrap_or_default();
                let text = if about.is_empty() {
                    exact(label)
                } else {
                    format!("{} – {}", exact(label), exact(about))
                };
                add(Choice::Option(label.to_owned()), &text);
            }
            if question.input["is_closed"] != true {
                add(Choice::Other, "Something else …");
            }
        } else if question.tool == "ExitPlanMode" {
            add(Choice::Give(Answer::AcceptEdits), "Yes, and changes of files need no question");
            add(Choice::Give(Answer::Manual), "Yes, and ask about each change");
            add(Choice::SayWhy, "No, change the plan: …");
        } else {
            add(Choice::Give(Answer::Yes), "Yes");
            if matches!(question.tool.as_str(), "Edit" | "Write" | "NotebookEdit") {
                let text = "Yes, and changes of files need no question in this session";
                add(Choice::Give(Answer::AcceptEdits), text);
            }
            // One that allows every command is not a key away.
            let rule = question.rule.as_ref().filter(|rule| *rule != "Bash");
            if let Some(rule) = rule {
                let file = question.rule_files.first().map(|file| exact(file));
                let file = file.unwrap_or_default();
                let text = format!("Yes, always: {} → {file}", exact(rule));
                add(Choice::EditRule, &text);
            }
            add(Choice::SayWhy, no_because);
            add(Choice::Give(Answer::No), "No, and stop");
            if question.sandbox.is_empty() && question.tool == "Bash" {
                // Without a sandbox a command can do anything.
                self.selected = choices.len() - 2;
            }
        }
        self.choices = choices;
        self.ticked.clear();
    }

    /// The question of the model that is asked now.
    fn asked(&self) -> Option<&Value> {
        let is_asking = self.question.tool == "AskUserQuestion";
        self.question.input["questions"].get(self.step).filter(|_| is_asking)
    }

    /// What will happen, whole, to be printed.
    pub fn lines(&self, width: usize) -> Vec<Line<'static>> {
        let question = &self.question;
        let input = &question.input;
        let text = |name: &str| input[name].as_str().unwrap_or_default();
        let bold = |text: String| Line::from(Span::styled(text, look::BOLD));
        let mut lines = vec![Line::default()];
        let change = question.change.as_ref().and_then(|change| change.as_ref().ok());
        let from = question
            .agent
            .as_ref()
            .map_or(String::new(), |agent| format!(" (agent {})", exact(agent)));
        match (question.tool.as_str(), change) {
            ("Bash", _) => {
                let wish = if question.is_outside {
                    "Run again outside the sandbox?"
                } else {
                    "Run this command?"
                };
                lines.push(bold(format!("{wish}{from}")));
                lines.extend(text("command").lines().map(|line| Line::from(exact(line))));
                for (part, decision, why) in
                    question.parts.iter().filter(|_| question.parts.len() > 1)
                {
                    let style = if decision == "allow" { look::GOOD } else { look::WARN };
                    lines.push(Line::from(vec![
                        Span::styled(format!("  {decision}: "), style),
                        Span::raw(exact(part)),
                        Span::styled(format!("  ({})", exact(why)), look::DIM),
                    ]));
                }
            }
            ("ExitPlanMode", _) => {
                lines.push(bold("Go on with this plan?".to_owned()));
                let mut markdown = Markdown::default();
                lines.extend(markdown.push(text("plan"), width));
                lines.extend(markdown.end(width));
            }
            // They are with what can be chosen, and with what was chosen.
            ("AskUserQuestion", _) => lines.clear(),
            (tool, Some(change)) => {
                let verb = match (tool, &change.before) {
                    (_, None) => "Create",
                    ("Write", Some(_)) => "Overwrite",
                    (_, Some(_)) => "Change",
                };
                lines.push(bold(format!("{verb} {}?{from}", exact(&change.path))));
                let before = change.before.as_deref().unwrap_or_default();
                lines.extend(diff::lines(before, &change.after).0);
            }
            (tool, None) => {
                lines.push(bold(format!("Use {}?{from}", exact(tool))));
                let shown = serde_json::to_string_pretty(input).unwrap_or_default();
                lines.extend(shown.lines().map(|line| Line::from(exact(line))));
            }
        }
        if let Some(Err(why)) = &question.change {
            let text = format!("As the file is now, it would fail: {why}");
            lines
                .extend(text.lines().map(|line| Line::from(Span::styled(exact(line), look::WARN))));
        }
        if !question.why.is_empty() && question.tool != "AskUserQuestion" {
            lines.push(Line::from(Span::styled(
                format!("Asked because: {}", exact(&question.why)),
                look::DIM,
            )));
        }
        if question.tool == "Bash" {
            let text = match (question.is_outside, question.sandbox.as_str()) {
                (true, _) => "Outside the sandbox it can do everything that you can.".to_owned(),
                (false, "") => "There is no sandbox: it can do everything that you can.".to_owned(),
                (false, sandbox) => format!("Sandbox: {}", exact(sandbox)),
            };
            lines.push(Line::from(Span::styled(
                text,
                if question.sandbox.is_empty() { look::WARN } else { look::DIM },
            )));
        }
        lines
    }

    /// The choices, in rows of at most that width. `waiting` is how many more questions there are.
    pub fn rows(&mut self, waiting: usize, width: usize, now: Duration) -> Vec<Line<'static>> {
        self.shown.get_or_insert(now);
        let mut rows = Vec::new();
        let more = if waiting > 0 { format!(" ({waiting} more waiting)") } else { String::new() };
        let title = match self.asked() {
            Some(asked) => exact(asked["question"].as_str().unwrap_or_default()),
            None if self.question.tool == "ExitPlanMode" => "Plan: go on with it?".to_owned(),
            None => format!("{}: allow it?", exact(&self.question.tool)),
        };
        rows.push(Line::from(vec![
            Span::styled(title, look::BOLD),
            Span::styled(more, look::WARN),
        ]));
        for (number, (_, text)) in self.choices.iter().enumerate() {
            let is_selected = number == self.selected;
            let mark = if is_selected { "❯ " } else { "  " };
            let tick = match self.is_multi() {
                true if self.ticked.contains(&number) => "[x] ",
                true => "[ ] ",
                false => "",
            };
            let style = if is_selected { look::ACCENT } else { Style::new() };
            rows.push(Line::from(Span::styled(
                format!("{mark}{}. {tick}{text}", number + 1),
                style,
            )));
        }
        if let Some(field) = &self.field {
            let (lines, caret) = field.rows(&Span::styled("  > ", look::ACCENT), width);
            for (number, line) in lines.iter().enumerate() {
                rows.push(if number == caret.0 { with_caret(line, caret.1) } else { line.clone() });
            }
        }
        let field_end = rows.len();
        if let Some(wrong) = &self.wrong {
            rows.push(Line::from(Span::styled(format!("  {wrong}"), look::BAD)));
        }
        if self.is_on_rule() && self.field.is_some() {
            let file = self.question.rule_files.get(self.file).map(|file| exact(file));
            rows.push(Line::from(Span::raw(format!("  → {}", file.unwrap_or_default()))));
        }
        let hint = match (&self.field, self.is_multi()) {
            _ if self.is_lines => self.line_hint(),
            (Some(_), _) if self.is_on_rule() => "Enter: done · Tab: another file · Esc: back",
            (Some(_), _) => "Enter: done · Esc: back",
            (None, true) => "Space: tick · Enter: done · Esc: no",
            (None, false) if self.is_typing => {
                "what you type waits; a number, or ↑ ↓ and Enter, answers · Esc: no"
            }
            (None, false) if self.is_on_yes() => {
                "a number, or ↑ ↓ and Enter · Tab: yes, and … · Esc: no, and stop"
            }
            (None, false) if self.is_plan() => {
                "a number, or ↑ ↓ and Enter · Ctrl-G: edit the plan · Esc: no, and stop"
            }
            // It is not about a call that could be stopped.
            (None, false) if self.question.input["is_closed"] == true => {
                "a number, or ↑ ↓ and Enter · Esc: nothing"
            }
            (None, false) => "a number, or ↑ ↓ and Enter · Esc: no, and stop",
        };
        rows.push(Line::from(Span::styled(hint, look::DIM)));
        // The title comes first, and the hint last.
        let focus = if self.field.is_some() { field_end - 1 } else { self.selected + 1 };
        // What is decided about is never cut.
        self.focus = rows.iter().take(focus).map(|row| words(row, width).len()).sum();
        rows.iter().flat_map(|row| words(row, width)).collect()
    }

    /// What a line can be now.
    fn line_hint(&self) -> &'static str {
        match (&self.field, self.is_multi()) {
            (Some(_), _) if self.is_on_rule() => {
                "a rule, or an empty line for this one; 0: back to the choices"
            }
            (Some(_), _) => "what you have to say; 0: back to the choices",
            (None, true) => "the numbers of your choices, such as 1 3",
            (None, false) => "the number of your choice",
        }
    }

    /// Whether a rule can be edited where the selection is.
    fn is_on_rule(&self) -> bool {
        matches!(self.choices.get(self.selected), Some((Choice::EditRule, _)))
    }

    /// Whether a plain yes is selected, to which something can be added.
    fn is_on_yes(&self) -> bool {
        let selected = self.choices.get(self.selected);
        !self.question.is_outside && matches!(selected, Some((Choice::Give(Answer::Yes), _)))
    }

    fn is_multi(&self) -> bool {
        self.asked().is_some_and(|asked| asked["multiSelect"] == true)
    }

    /// Whether a key would answer now.
    pub fn is_ready(&self, now: Duration) -> bool {
        self.shown.is_some_and(|shown| now.saturating_sub(shown) >= PATIENCE)
    }

    /// Does what a key means.
    pub fn key(&mut self, key: KeyEvent, now: Duration) -> Reply {
        let is_ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        let is_text = matches!(key.code, KeyCode::Char(_)) && !is_ctrl;
        if !self.is_ready(now) {
            return if is_text { self.early(now) } else { Reply::Early };
        }
        let is_ctrl_c = is_ctrl && key.code == KeyCode::Char('c');
        let is_on_rule = self.is_on_rule();
        if let Some(field) = &mut self.field {
            self.wrong = None;
            match key.code {
                KeyCode::Esc => self.field = None,
                KeyCode::Enter if key.modifiers.is_empty() => return self.typed(),
                _ if is_ctrl_c => self.field = None,
                KeyCode::Tab if is_on_rule => {
                    self.file = (self.file + 1) % self.question.rule_files.len().max(1);
                }
                _ => {
                    field.key(key);
                }
            }
            return Reply::Waits;
        }
        // What is selected is taken only by somebody who looks at it.
        let was_typing = std::mem::take(&mut self.is_typing);
        match key.code {
            KeyCode::Esc => return Reply::Answered(Answer::No),
            KeyCode::Enter if was_typing => {
                self.is_typing = true;
                return Reply::Early;
            }
            _ if is_ctrl_c => return Reply::Answered(Answer::No),
            KeyCode::Up => self.selected = self.selected.saturating_sub(1),
            KeyCode::Tab if self.is_on_yes() => {
                self.field = Some(Composer::new(Keymap::Emacs));
            }
            KeyCode::Down | KeyCode::Tab => {
                self.selected = (self.selected + 1).min(self.choices.len() - 1);
            }
            KeyCode::Char('g') if is_ctrl && self.is_plan() => return Reply::Rewrite,
            KeyCode::Char(' ') if self.is_multi() => self.tick(),
            KeyCode::Enter if self.is_multi() => return self.multi(),
            KeyCode::Enter => return self.take(),
            KeyCode::Char(c) if c.is_ascii_digit() && key.modifiers.is_empty() => {
                let number = c as usize - '0' as usize;
                if (1..=self.choices.len()).contains(&number) {
                    self.selected = number - 1;
                    if self.is_multi() {
                        self.tick();
                    } else {
                        return self.take();
                    }
                }
            }
            // A sentence, and a digit in it is part of it.
            _ if is_text => return self.early(now),
            _ => {}
        }
        Reply::Waits
    }

    /// A key of somebody who types: the next one answers only after a pause.
    fn early(&mut self, now: Duration) -> Reply {
        self.shown = self.shown.map(|_| now);
        self.is_typing = true;
        Reply::Early
    }

    /// Takes a plan as the user has written it.
    pub fn rewrite(&mut self, plan: &str) {
        self.question.input["plan"] = plan.into();
        self.question.is_rewritten = true;
        self.shown = None;
    }

    /// Whether it is about a plan.
    pub fn is_plan(&self) -> bool {
        self.question.tool == "ExitPlanMode" && self.question.input["plan"].is_string()
    }

    /// Takes a whole line: the number of a choice, several of them where several can be chosen, or
    /// what a choice asks for. Numbers in a sentence choose nothing.
    pub fn line(&mut self, text: &str, now: Duration) -> Reply {
        if !self.is_ready(now) {
            return Reply::Early;
        }
        if let Some(field) = &mut self.field {
            if text.trim() == "0" {
                self.field = None;
                return Reply::Waits;
            }
            // An empty line takes what is there already.
            if !text.trim().is_empty() {
                field.set(text.trim());
            }
            return self.typed();
        }
        let is_between = |c: char| c == ',' || c.is_whitespace();
        let number = |word: &str| {
            let number: usize = word.parse().ok()?;
            number.checked_sub(1).filter(|at| *at < self.choices.len())
        };
        let words = text.split(is_between).filter(|word| !word.is_empty());
        let numbers: BTreeSet<usize> = words.map(number).collect::<Option<_>>().unwrap_or_default();
        let Some(&first) = numbers.first().filter(|_| numbers.len() == 1 || self.is_multi()) else {
            return Reply::Unclear;
        };
        self.selected = first;
        if self.is_multi() {
            self.ticked = numbers.into_iter().collect();
            return self.multi();
        }
        self.take()
    }

    /// The row of those of the last drawing that must be seen: what is selected or typed.
    pub fn focus(&self) -> usize {
        self.focus
    }

    /// Takes a pasted text, into what is typed. Where nothing is, it belongs to the composer.
    pub fn paste(&mut self, pasted: &str, now: Duration) -> Reply {
        let Some(field) = &mut self.field else { return self.early(now) };
        field.insert(&pasted.replace(['\r', '\n'], " "));
        Reply::Waits
    }

    fn tick(&mut self) {
        let selected = self.selected;
        match self.ticked.iter().position(|one| *one == selected) {
            Some(at) => {
                self.ticked.remove(at);
            }
            None => self.ticked.push(selected),
        }
    }

    fn take(&mut self) -> Reply {
        let Some((choice, _)) = self.choices.get(self.selected).cloned() else {
            return Reply::Waits;
        };
        let mut open = |text: &str| {
            let mut field = Composer::new(Keymap::Emacs);
            field.set(text);
            self.field = Some(field);
            Reply::Waits
        };
        match choice {
            Choice::Give(answer) => Reply::Answered(answer),
            Choice::EditRule => {
                let rule = self.question.rule.clone().unwrap_or_default();
                open(&rule)
            }
            Choice::SayWhy | Choice::Other => open(""),
            Choice::Option(label) => self.next(label),
        }
    }

    fn multi(&mut self) -> Reply {
        let mut ticked = self.ticked.clone();
        ticked.sort_unstable();
        let label = |at: &usize| match self.choices.get(*at) {
            Some((Choice::Option(label), _)) => Some(label.clone()),
            _ => None,
        };
        let labels: Vec<String> = ticked.iter().filter_map(label).collect();
        let is_other = |at: &usize| matches!(self.choices.get(*at), Some((Choice::Other, _)));
        if let Some(other) = ticked.iter().copied().chain([self.selected]).find(is_other) {
            // What else there is, is typed first.
            self.selected = other;
            return self.take();
        }
        if labels.is_empty() {
            return self.take();
        }
        self.next(labels.join(", "))
    }

    /// The options that are ticked, and a text of the user's.
    fn with_ticked(&self, text: String) -> String {
        let mut ticked = self.ticked.clone();
        ticked.sort_unstable();
        let labels = ticked.iter().filter_map(|at| match self.choices.get(*at) {
            Some((Choice::Option(label), _)) => Some(label.clone()),
            _ => None,
        });
        labels.chain([text]).collect::<Vec<_>>().join(", ")
    }

    /// One of the model's questions is answered.
    fn next(&mut self, choice: String) -> Reply {
        let question =
            self.asked().and_then(|asked| asked["question"].as_str()).unwrap_or_default();
        self.chosen.push((question.to_owned(), choice));
        self.step += 1;
        if self.asked().is_none() {
            return Reply::Answered(Answer::Chosen(std::mem::take(&mut self.chosen)));
        }
        self.choose();
        // The next one is not on the screen yet.
        self.shown = None;
        Reply::Waits
    }

    /// What was typed into the field is complete.
    fn typed(&mut self) -> Reply {
        let Some(field) = self.field.take() else { return Reply::Waits };
        let text = field.text().trim().to_owned();
        self.wrong = None;
        match self.choices.get(self.selected).map(|(choice, _)| choice.clone()) {
            Some(Choice::EditRule) if !text.is_empty() => match rule(&text) {
                Ok(rule) => Reply::Answered(Answer::Always(rule, self.file)),
                Err(why) => {
                    (self.field, self.wrong) = (Some(field), Some(why));
                    Reply::Waits
                }
            },
            Some(Choice::SayWhy) if text.is_empty() => Reply::Answered(Answer::No),
            Some(Choice::SayWhy) => Reply::Answered(Answer::Because(text)),
            Some(Choice::Other) if !text.is_empty() => self.next(self.with_ticked(text)),
            Some(Choice::Give(Answer::Yes)) if !text.is_empty() => {
                Reply::Answered(Answer::YesAnd(text))
            }
            _ => Reply::Waits,
        }
    }
}

/// The rule that a user means. Brackets without anything between them promise a limit that there
/// is not.
fn rule(text: &str) -> Result<Rule, String> {
    let parsed = Rule::parse(text, Kind::Allow, "", PathBuf::new());
    let rule = parsed.map_err(|why| format!("this is no rule: {why}"))?;
    if rule.content.is_none() && text.contains('(') {
        let tool = &rule.tool;
        return Err(format!("its brackets limit nothing; `{tool}` allows every call of {tool}"));
    }
    Ok(rule)
}

#[cfg(test)]
#[path = "question_tests.rs"]
mod tests;
