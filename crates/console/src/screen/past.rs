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
    /// Prints the end of a conversation; so many prompts came before that.
    pub fn recall(&mut self, earlier: usize, spoken: &[Spoken]) {
        if earlier > 0 {
            let s = if earlier == 1 { "" } else { "s" };
            self.gap();
            self.note(look::DIM, &format!("… {earlier} earlier prompt{s} of this session"));
        }
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
