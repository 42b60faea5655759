//! The live area: what is not finished, what runs, what waits, the composer, the status.

use std::time::Duration;

use super::call::Running;
use super::news::{AgentRow, TodoState};
use super::{Phase, Screen};
use crate::composer::ViMode;
use crate::terminal::{Live, Size};
use crate::text::{Line, Span, clip, fit, look, safe, wrap};

/// The signs of something that goes on; one after another.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// How many rows of unfinished text are shown.
const TAIL: usize = 8;
/// How many running calls, agents and todos are shown.
const ROWS: usize = 5;
/// How many lines of what a command of the user's prints.
const PRINTED: usize = 5;

impl Screen {
    /// What is drawn below the finished lines.
    pub fn live(&mut self, size: Size, now: Duration) -> Live {
        let width = usize::from(size.width.max(4));
        self.width = width;
        self.composer.set_width(width);
        let mut rows = self.unfinished(width);
        let waiting = self.dialogs.len().saturating_sub(1);
        if let Some(dialog) = self.dialogs.front_mut() {
            rows.push(Line::default());
            let first = rows.len();
            rows.extend(dialog.rows(waiting, width, now));
            let focus = Some(first + dialog.focus());
            // What is typed before a question can be answered stays to be seen.
            if !self.composer.is_empty() {
                let typed = format!("  (waiting in the composer: {})", safe(self.composer.text()));
                rows.push(Line::from(Span::styled(fit(&typed, width), look::DIM)));
            }
            if self.held() > 0 && !self.is_lines {
                let text = format!("  ({} lines wait; Ctrl-O prints them now)", self.held());
                rows.push(Line::from(Span::styled(fit(&text, width), look::DIM)));
            }
            return Live { rows, caret: None, focus, is_still: false };
        }
        let work = self.work(width, now);
        if !work.is_empty() {
            rows.push(Line::default());
        }
        rows.extend(work);
        rows.push(Line::default());
        let (mut lines, mut caret) = self.typed(width);
        let first = rows.len();
        let is_still = !self.is_busy();
        // A long text is shown around the caret.
        let most = usize::from(size.height).saturating_sub(first + 3).max(3);
        if lines.len() > most {
            let start = caret.0.saturating_sub(most - 1).min(lines.len() - most);
            lines = lines.split_off(start);
            lines.truncate(most);
            caret.0 -= start;
        }
        rows.extend(lines);
        rows.extend(self.below(width));
        let caret = (first + caret.0, caret.1);
        Live { rows, caret: Some(caret), focus: None, is_still }
    }

    /// What has come of the answer and is not finished.
    fn unfinished(&self, width: usize) -> Vec<Line<'static>> {
        let mut rows: Vec<Line<'static>> = Vec::new();
        if let Some((text, _)) = &self.thinking
            && self.is_open
        {
            let last = text.lines().next_back().unwrap_or_default();
            rows.extend(wrap(&crate::text::line(look::DIM, last), width));
        }
        for line in self.markdown.rest() {
            rows.extend(wrap(&line, width));
        }
        if rows.len() > TAIL {
            rows.drain(..rows.len() - TAIL);
        }
        rows
    }

    /// What goes on.
    fn work(&self, width: usize, now: Duration) -> Vec<Line<'static>> {
        let mut rows = Vec::new();
        // Agents have rows of their own.
        let is_agent = |call: &&Running| matches!(call.name.as_str(), "Task" | "Agent");
        let calls = self.calls.iter().filter(|call| self.agents.is_empty() || !is_agent(call));
        let calls: Vec<&Running> = calls.collect();
        for call in calls.iter().take(ROWS) {
            rows.extend(call.rows(width, now));
        }
        if calls.len() > ROWS {
            let more = format!("  and {} more calls", calls.len() - ROWS);
            rows.push(Line::from(Span::styled(more, look::DIM)));
        }
        for line in crate::text::output_lines(&self.printed).iter().rev().take(PRINTED).rev() {
            rows.push(Line::from(Span::styled(fit(&format!("  {line}"), width), look::DIM)));
        }
        for agent in self.agents.iter().take(ROWS) {
            rows.push(agent_row(agent, width));
        }
        if self.agents.len() > ROWS {
            let more = format!("  and {} more agents", self.agents.len() - ROWS);
            rows.push(Line::from(Span::styled(more, look::DIM)));
        }
        let is_open = |state: TodoState| state != TodoState::Done;
        if self.todos.iter().any(|todo| is_open(todo.state)) {
            // From the one before the current one on.
            let now_at = self.todos.iter().position(|todo| is_open(todo.state)).unwrap_or(0);
            for todo in self.todos.iter().skip(now_at.saturating_sub(1)).take(ROWS) {
                let (mark, style) = match todo.state {
                    TodoState::Done => ("☒", look::DIM),
                    TodoState::Now => ("▸", look::BOLD),
                    TodoState::Open => ("☐", look::DIM),
                };
                rows.push(Line::from(Span::styled(
                    fit(&format!("  {mark} {}", safe(&todo.text)), width),
                    style,
                )));
            }
        }
        if let Phase::Busy(since) = self.phase {
            let seconds = now.saturating_sub(since).as_secs();
            let sign = SPINNER[self.ticks % SPINNER.len()];
            let what = match (&self.thinking, self.calls.is_empty()) {
                (Some(_), _) => "thinking",
                (None, true) => "working",
                (None, false) => "running",
            };
            rows.push(Line::from(vec![
                Span::styled(format!("{sign} "), look::ACCENT),
                Span::raw(format!("{what} {seconds} s")),
                Span::styled(" · Esc stops", look::DIM),
            ]));
        }
        rows.extend(self.queue_rows(width));
        rows
    }

    /// The composer, or the search in the history.
    fn typed(&self, width: usize) -> (Vec<Line<'static>>, (usize, usize)) {
        if let Some(search) = &self.search {
            let lead = format!("(search) {}: ", safe(&search.text));
            let found = self.found().map_or("nothing found".to_owned(), |prompt| {
                safe(&prompt.display.replace('\n', " ⏎ "))
            });
            let caret = crate::text::columns(&lead).saturating_sub(2);
            let row = Line::from(vec![Span::styled(lead, look::ACCENT), Span::raw(found)]);
            return (vec![clip(&row, width)], (0, caret.min(width - 1)));
        }
        let mark = match self.composer.vi_mode() {
            Some(ViMode::Normal) => ": ",
            _ if self.composer.text().starts_with('!') => "! ",
            _ => "❯ ",
        };
        self.composer.rows(&Span::styled(mark, look::ACCENT), width)
    }

    /// What stands below the composer.
    fn below(&self, width: usize) -> Vec<Line<'static>> {
        let completions = self.completions();
        if !completions.is_empty() {
            let mut rows = Vec::new();
            for (number, (name, about)) in completions.iter().enumerate() {
                let is_selected = self.selected == Some(number);
                let mark = if is_selected { "❯ " } else { "  " };
                let style = if is_selected { look::ACCENT } else { look::DIM };
                let row = Line::from(vec![
                    Span::styled(format!("{mark}{:<14}", safe(name)), style),
                    Span::styled(format!(" {about}"), look::DIM),
                ]);
                rows.push(clip(&row, width));
            }
            return rows;
        }
        let mut rows = Vec::new();
        if let Some((hint, _)) = &self.hint {
            rows.push(Line::from(Span::styled(fit(hint, width), look::WARN)));
        } else if self.status.lines.is_empty() {
            rows.push(self.status.row(width));
        } else {
            rows.extend(self.status.lines.iter().map(|line| clip(line, width)));
            rows.push(self.status.row(width));
        }
        if !self.tasks.is_empty() {
            let noun = if self.tasks.len() == 1 { "command" } else { "commands" };
            let text = format!("{} {noun} in the background · /tasks", self.tasks.len());
            rows.push(Line::from(Span::styled(fit(&text, width), look::DIM)));
        }
        rows
    }
}

/// An agent at work: what it is for, how far it is, what it does.
fn agent_row(agent: &AgentRow, width: usize) -> Line<'static> {
    let (mark, style) = if agent.is_done { ("✓ ", look::GOOD) } else { ("◌ ", look::ACCENT) };
    let s = if agent.calls == 1 { "" } else { "s" };
    let count =
        if agent.calls > 0 { format!(" · {} call{s}", agent.calls) } else { String::new() };
    let now =
        if agent.now.is_empty() { String::new() } else { format!(" · {}", safe(&agent.now)) };
    let row = Line::from(vec![
        Span::styled(mark, style),
        Span::raw(safe(&agent.about)),
        Span::styled(format!("{count}{now}"), look::DIM),
    ]);
    clip(&row, width)
}
