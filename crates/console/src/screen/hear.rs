//! What news do to the console.

use std::time::Duration;

use serde_json::Value;

use super::call::Running;
use super::news::TodoState;
use super::{Cache, Ending, News, OLDER, Phase, Screen, Todo, WARM, Wish};
use crate::composer::Prompt;
use crate::question::Dialog;
use crate::text::{Line, Span, line, look, plain_lines, safe};

impl Screen {
    /// Takes news.
    #[allow(clippy::needless_pass_by_value, reason = "it is used up")]
    pub fn hear(&mut self, news: News, now: Duration) -> Vec<Wish> {
        let mut wishes = self.hand_over_before(&news, now);
        if is_answer(&news) {
            self.unanswered = None;
        }
        match news.clone() {
            News::Begin => {
                self.phase = Phase::Busy(now);
                self.is_folded_before = true;
            }
            News::Text(piece) => {
                self.end_thinking(now);
                let lines = self.markdown.push(&piece, self.width);
                self.answer(lines);
            }
            News::Thinking(piece) => {
                let (text, _) = self.thinking.get_or_insert_with(|| (String::new(), now));
                text.push_str(&piece);
            }
            News::BlockEnd => self.end_block(now),
            News::Call { id, name, input } => {
                self.end_block(now);
                self.calls.push(Running::new(id, name, input, &self.place, now));
            }
            News::Output { id, text } => {
                if let Some(call) = self.calls.iter_mut().find(|call| call.id == id) {
                    call.output = text;
                }
            }
            News::Result { id, is_error, text, detail } => {
                self.result(&id, is_error, &text, &detail, now);
            }
            News::Ask(question) => {
                self.end_block(now);
                let ring = format!("{} needs your answer", question.tool);
                self.dialogs.push_back(Dialog::new(*question).by_lines(self.is_lines));
                if self.dialogs.len() == 1 {
                    self.ask();
                }
                wishes.push(Wish::Ring(ring));
            }
            News::Withdraw(request) => {
                let first = self.dialogs.front().map(|dialog| dialog.question.request.clone());
                self.dialogs.retain(|dialog| dialog.question.request != request);
                if first.as_ref() == Some(&request) {
                    self.ask();
                }
            }
            News::Retry(why, wait) => {
                let text = format!("{why}; trying again in {} s", wait.as_secs().max(1));
                self.note(look::WARN, &text);
            }
            News::Notice(text) => self.note(look::WARN, &text),
            News::End(ending) => {
                self.end_turn(&ending, now);
                if now.saturating_sub(self.busy_since(now)) > Duration::from_secs(10) {
                    wishes.push(Wish::Ring("finished".to_owned()));
                }
                self.phase = Phase::Idle;
                let unanswered = self.unanswered.take();
                if ending == Ending::Interrupted {
                    wishes.extend(unanswered.and_then(|prompt| self.unsay(prompt)));
                }
                wishes.extend(self.hand_over(Some(&news), now));
            }
            News::Mode(mode) => self.status.mode = mode,
            News::Model(model) => self.status.model = model,
            News::Meter(meter) => {
                self.status.meter = meter;
                let is_warm = meter.cache == Cache::Warm;
                self.warm_until = is_warm.then_some(now + WARM);
            }
            // For others: who measures the context, and who goes back to a prompt.
            News::Shortened | News::Prompted(_) => {}
            News::Branch(branch) => self.status.branch = branch,
            News::Agents(agents) => self.agents = agents,
            News::Todos(todos) => self.todos = todos,
            News::Tasks(tasks) => self.tasks = tasks,
            News::Files(files) => self.files = files,
            News::StatusLine(lines) => self.status.lines = lines,
            News::Lines(lines) => self.print(lines),
            News::Printed(text) => self.printed = text,
            // With lines only there is no composer, and the next line is not added to anything.
            News::Write(text) if self.is_lines => {
                self.note(look::DIM, &format!("what was not sent:\n{text}"));
            }
            News::Write(text) => self.show(Prompt::typed(&text)),
            News::Image(image) => self.composer.paste_image(image),
        }
        wishes
    }

    fn hand_over_before(&mut self, news: &News, now: Duration) -> Vec<Wish> {
        if matches!(news, News::End(_)) { Vec::new() } else { self.hand_over(Some(news), now) }
    }

    /// A turn was stopped before anything came of its prompt: that is typed again, as long as
    /// nothing else is.
    fn unsay(&mut self, prompt: Prompt) -> Option<Wish> {
        if self.is_lines || !self.composer.is_empty() || !self.queue.is_empty() {
            return None;
        }
        self.show(prompt);
        Some(Wish::Unsay)
    }

    fn busy_since(&self, now: Duration) -> Duration {
        match self.phase {
            Phase::Idle => now,
            Phase::Busy(since) => since,
        }
    }

    /// Prints lines of an answer.
    pub(super) fn answer(&mut self, lines: Vec<Line<'static>>) {
        if lines.is_empty() {
            return;
        }
        if !std::mem::replace(&mut self.is_after_text, true) {
            self.gap();
        }
        self.out.extend(lines);
    }

    pub(super) fn end_block(&mut self, now: Duration) {
        self.end_thinking(now);
        let lines = self.markdown.end(self.width);
        self.answer(lines);
    }

    fn end_thinking(&mut self, now: Duration) {
        let Some((text, since)) = self.thinking.take() else { return };
        let seconds = now.saturating_sub(since).as_secs();
        let lines: Vec<Line<'static>> = text.lines().map(|text| line(look::DIM, text)).collect();
        if self.is_open {
            self.gap();
            self.out.extend(lines);
        } else {
            self.gap();
            let how = if self.is_lines { "/open" } else { "Ctrl-O" };
            self.out.push(line(look::DIM, &format!("✻ thought for {seconds} s ({how})")));
            self.fold_away(lines);
        }
        self.is_after_text = false;
    }

    fn result(&mut self, id: &str, is_error: bool, text: &str, detail: &Value, now: Duration) {
        self.end_block(now);
        let Some(at) = self.calls.iter().position(|call| call.id == id) else { return };
        let call = self.calls.remove(at);
        if call.name == "TodoWrite" && !is_error {
            self.todos = Todo::list(&call.input["todos"]);
        }
        let mut shown = call.finished(is_error, text, detail);
        let asked = self.asked.remove(id).unwrap_or_default();
        // What was asked about was printed whole.
        if !asked.is_empty() {
            shown.whole.clear();
        }
        if shown.is_in(&asked) {
            shown.fold_all();
        }
        if self.is_open {
            shown.open();
        } else if self.is_lines {
            shown.open_by_command();
        }
        let is_one = shown.lines.len() == 1;
        if !(is_one && self.is_after_call) {
            self.gap();
        }
        let folded = shown.take_folded();
        if !folded.is_empty() {
            let head = Line::from(Span::styled(call.words(), look::BOLD));
            self.fold_away([head].into_iter().chain(folded).collect());
        }
        self.out.append(&mut shown.lines);
        (self.is_after_text, self.is_after_call) = (false, is_one);
    }

    /// Keeps lines for Ctrl-O; those of an earlier turn until there are others.
    fn fold_away(&mut self, lines: Vec<Line<'static>>) {
        if std::mem::take(&mut self.is_folded_before) {
            self.older.extend(self.folded.drain(..));
            self.older.drain(..self.older.len().saturating_sub(OLDER));
        }
        self.folded.extend(lines);
    }

    /// Prints what the first question is about.
    pub(super) fn ask(&mut self) {
        let Some(dialog) = self.dialogs.front() else { return };
        let lines = dialog.lines(self.width);
        self.asked.insert(dialog.question.call.clone(), plain_lines(&lines));
        self.print(lines);
        self.free = self.out.len();
    }

    fn end_turn(&mut self, ending: &Ending, now: Duration) {
        self.end_block(now);
        self.calls.clear();
        self.printed.clear();
        self.dialogs.clear();
        self.asked.clear();
        self.agents.retain(|agent| !agent.is_done);
        if self.todos.iter().all(|todo| todo.state == TodoState::Done) {
            self.todos.clear();
        }
        match ending {
            Ending::Answered => {}
            Ending::Interrupted => {
                self.gap();
                self.note(look::WARN, "interrupted");
            }
            Ending::Failed(why) => {
                self.gap();
                for text in why.lines() {
                    self.out.push(Line::from(Span::styled(safe(text), look::BAD)));
                }
                self.is_after_text = false;
            }
        }
    }

    /// Prints what was folded away in all turns that are remembered, and folds nothing more.
    pub fn open_older(&mut self, now: Duration) {
        let older = Vec::from(std::mem::take(&mut self.older));
        if !older.is_empty() {
            self.gap();
            self.print(older);
        }
        self.is_open = false;
        self.open_all(now);
    }

    fn tell_folding(&mut self, text: &str, now: Duration) {
        if self.is_lines {
            self.note(look::DIM, &text.replace("Ctrl-O", "/open"));
        } else {
            self.hint(text, now);
        }
    }

    /// Ctrl-O: what was folded away is printed, and nothing more is folded; again, and it is.
    pub fn open_all(&mut self, now: Duration) {
        self.is_open = !self.is_open;
        if self.is_open {
            self.recall_earlier();
            let folded = std::mem::take(&mut self.folded);
            if !folded.is_empty() {
                self.gap();
                self.print(folded);
            }
            let older =
                if self.older.is_empty() { "" } else { "; /open all: of earlier turns, too" };
            let text = format!("everything is shown from now on; Ctrl-O folds again{older}");
            self.tell_folding(&text, now);
        } else {
            self.tell_folding("long output is folded again", now);
        }
        // Whoever has to decide may want to see it.
        self.free = self.out.len();
    }
}

/// Whether something has come of a prompt.
fn is_answer(news: &News) -> bool {
    matches!(
        news,
        News::Text(_) | News::Thinking(_) | News::Call { .. } | News::Ask(_) | News::Result { .. }
    )
}
