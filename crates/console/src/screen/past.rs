//! What was said before a session is resumed, so that one sees where one is.
//!
//! Invariant: it is printed as it was then, but for what calls wrote: that is in the transcript.

use std::time::Duration;

use serde_json::Value;

use super::Screen;
use super::call::Running;
use crate::composer::Prompt;
use crate::markdown::Markdown;
use crate::text::{Line, Span, look};

/// Something that was said or done.
#[derive(Clone, Debug, PartialEq)]
pub enum Spoken {
    /// The user's prompt.
    Prompt(String),
    /// A text of the model.
    Answer(String),
    /// A call.
    Call {
        /// The name of the tool.
        name: String,
        /// Its input.
        input: Value,
        /// Whether it failed.
        is_error: bool,
    },
}

impl Screen {
    /// Prints the end of a conversation, and keeps what came before that.
    pub fn recall(&mut self, earlier: Vec<Spoken>, spoken: &[Spoken]) {
        let prompts = earlier.iter().filter(|one| matches!(one, Spoken::Prompt(_))).count();
        if prompts > 0 {
            let s = if prompts == 1 { "" } else { "s" };
            let how = if self.is_lines { "/open" } else { "Ctrl-O" };
            self.gap();
            let text = format!("… {prompts} earlier prompt{s} of this session ({how})");
            self.note(look::DIM, &text);
        }
        self.earlier = earlier;
        self.print_spoken(spoken);
    }

    /// Prints what came before.
    pub(super) fn recall_earlier(&mut self) {
        let earlier = std::mem::take(&mut self.earlier);
        if !earlier.is_empty() {
            self.gap();
            self.note(look::DIM, "from the beginning:");
            self.print_spoken(&earlier);
        }
    }

    fn print_spoken(&mut self, spoken: &[Spoken]) {
        for one in spoken {
            match one {
                Spoken::Prompt(text) => self.echo(&Prompt::typed(text)),
                Spoken::Answer(text) => {
                    let mut markdown = Markdown::default();
                    let mut lines = markdown.push(text, self.width);
                    lines.extend(markdown.end(self.width));
                    self.answer(lines);
                    self.is_after_text = false;
                }
                Spoken::Call { name, input, is_error } => {
                    let (mark, style) =
                        if *is_error { ("✗ ", look::BAD) } else { ("● ", look::GOOD) };
                    let (id, name, input) = (String::new(), name.clone(), input.clone());
                    let call = Running::new(id, name, input, &self.place, Duration::ZERO);
                    self.gap();
                    let words = Span::raw(call.words());
                    self.print(vec![Line::from(vec![Span::styled(mark, style), words])]);
                }
            }
        }
    }
}
