//! Prompts that wait while the session works: seen, taken back, handed over.

use std::time::Duration;

use super::{News, Screen, Wish};
use crate::composer::Prompt;
use crate::text::{Line, Span, fit, look, safe};

/// How long a prompt waits at least, so that it can be taken back.
const AT_LEAST: Duration = Duration::from_millis(1_500);

/// A prompt that waits.
#[derive(Clone, Debug)]
pub(super) struct Queued {
    prompt: Prompt,
    since: Duration,
}

impl Queued {
    pub(super) fn prompt(&self) -> &Prompt {
        &self.prompt
    }
}

impl Screen {
    /// Adds a prompt that waits; one that was taken back has its place again.
    pub(super) fn enqueue(&mut self, prompt: Prompt, now: Duration) {
        let end = self.queue.len();
        let at = self.taken.take().unwrap_or(end).min(end);
        self.queue.insert(at, Queued { prompt, since: now });
    }

    /// Takes the last prompt back into the composer. Returns whether there was one.
    pub(super) fn take_back(&mut self) -> bool {
        let Some(last) = self.queue.pop_back() else { return false };
        self.taken = Some(self.queue.len());
        self.composer.take_back(last.prompt);
        true
    }

    /// Puts the prompt that was taken back in its place again, as it is now, and takes the one
    /// before or after it. Returns whether there was one.
    pub(super) fn take_next(&mut self, is_up: bool, now: Duration) -> bool {
        let Some(at) = self.taken.filter(|_| self.is_busy()) else { return false };
        if is_up && at == 0 {
            return true;
        }
        let prompt = self.composer.prompt();
        let is_left = !prompt.text.trim().is_empty();
        if is_left {
            self.queue.insert(at.min(self.queue.len()), Queued { prompt, since: now });
        }
        self.composer.clear();
        let next = if is_up { at.checked_sub(1) } else { Some(at + usize::from(is_left)) };
        self.taken = next.filter(|next| *next < self.queue.len());
        if let Some(next) = self.taken.and_then(|next| self.queue.remove(next)) {
            self.composer.take_back(next.prompt);
        }
        true
    }

    /// Hands over what waits: all of it when the turn is over or the user says so, in between what
    /// has waited for a while.
    pub(super) fn hand_over(&mut self, news: Option<&News>, now: Duration) -> Vec<Wish> {
        let is_all = matches!(news, None | Some(News::End(_)));
        // The session takes prompts along with results while calls run.
        let is_taken =
            matches!(news, Some(News::Call { .. } | News::Output { .. })) && !self.calls.is_empty();
        if !is_all && !is_taken {
            return Vec::new();
        }
        let mut wishes = Vec::new();
        while let Some(first) = self.queue.front() {
            if !is_all && now.saturating_sub(first.since) < AT_LEAST {
                break;
            }
            let Some(first) = self.queue.pop_front() else { break };
            self.taken = self.taken.map(|at| at.saturating_sub(1));
            self.echo(&first.prompt);
            wishes.push(Wish::Say(first.prompt.clone()));
            if matches!(news, Some(News::End(_))) {
                // Each has a turn of its own.
                self.unanswered = Some(first.prompt);
                break;
            }
        }
        wishes
    }

    /// The prompts that wait.
    pub fn waiting(&self) -> Vec<String> {
        self.queue.iter().map(|queued| queued.prompt.display.clone()).collect()
    }

    /// Puts a text in the place of a prompt that waits, or takes it back.
    pub fn change_waiting(&mut self, at: usize, text: Option<&str>) {
        let Some(text) = text else {
            self.queue.remove(at);
            return;
        };
        if let Some(queued) = self.queue.get_mut(at) {
            queued.prompt = Prompt::typed(text);
        }
    }

    /// The rows of what waits.
    pub(super) fn queue_rows(&self, width: usize) -> Vec<Line<'static>> {
        let mut rows = Vec::new();
        for queued in &self.queue {
            let text = queued.prompt.display.replace('\n', " ⏎ ");
            rows.push(Line::from(Span::styled(
                fit(&format!("  ⧗ {}", safe(&text)), width),
                look::DIM,
            )));
        }
        if !rows.is_empty() {
            rows.push(Line::from(Span::styled(
                "  waiting · ↑ ↓ edits one after the other · Enter sends now",
                look::DIM,
            )));
        }
        rows
    }
}
