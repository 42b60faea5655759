//! One question and the text of its answer, without tools and without a session.

use std::ops::ControlFlow;

use serde_json::Value;

use super::request::{Message, Request, text_block};
use super::stream::{Limits, Step, Stream};
use super::{ApiError, Heard, Model, Why};

/// Asks a model, and returns the text of its answer, of at most so many tokens.
pub fn ask(
    api: &dyn Model,
    model: &str,
    system: &str,
    prompt: &str,
    max_tokens: u64,
) -> Result<String, ApiError> {
    let messages = [Message { role: "user", blocks: vec![text_block(prompt)] }];
    let system = [system.to_owned()];
    let request = Request {
        model,
        max_tokens,
        thinking: None,
        system: &system,
        tools: &[],
        reminder: None,
        messages: &messages,
        is_cached: false,
    };
    let mut stream = Stream::new(Limits::of(max_tokens));
    let mut text = String::new();
    let mut failed = None;
    let mut is_ended = false;
    api.ask(request.body(), &mut |heard| {
        let Heard::Event(event) = heard else { return ControlFlow::Continue(()) };
        match stream.event(event) {
            Some(Step::Block(block)) => text.push_str(&text_of(&block)),
            Some(Step::Ended(_)) => is_ended = true,
            Some(Step::Failed(error)) => {
                failed = Some(error);
                return ControlFlow::Break(());
            }
            Some(Step::Started(_)) | None => {}
        }
        ControlFlow::Continue(())
    })?;
    match failed {
        Some(error) => Err(error),
        None if !is_ended => Err(ApiError::new(Why::Cut, "its end is missing")),
        None if text.trim().is_empty() => Err(ApiError::new(Why::Nonsense, "it has no text")),
        None => Ok(text.trim().to_owned()),
    }
}

fn text_of(block: &str) -> String {
    let block: Value = serde_json::from_str(block).unwrap_or_default();
    block["text"].as_str().unwrap_or_default().to_owned()
}
