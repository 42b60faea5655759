//! One question and the text of its answer, without tools and without a session.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde_json::Value;

use super::request::{Message, Request, text_block};
use super::stream::{Limits, Step, Stream};
use super::{ApiError, Heard, Model, Why};
use crate::model::Usage;
use crate::tally::Tally;
use crate::turn::Input;

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
        effort: None,
        system: &system,
        tools: &[],
        reminder: None,
        messages: &messages,
        is_cached: false,
    };
    collect(api, request.body(), max_tokens, &mut BTreeMap::new())
}

/// Makes a request, and returns the text of its answer, of at most so many tokens. What it took is
/// added to `spent`, by model.
pub(crate) fn collect(
    api: &dyn Model,
    body: String,
    max_tokens: u64,
    spent: &mut BTreeMap<String, Usage>,
) -> Result<String, ApiError> {
    let mut stream = Stream::new(Limits::of(max_tokens));
    let mut text = String::new();
    let mut failed = None;
    let mut is_ended = false;
    let mut count = Tally::default();
    let asked = api.ask(body, &mut |heard| {
        let Heard::Event(event) = heard else { return ControlFlow::Continue(()) };
        match stream.event(event) {
            Some(Step::Block(block)) => text.push_str(&text_of(&block)),
            Some(Step::Ended(ending)) => {
                is_ended = true;
                count.note(&Input::Ended(ending), 0);
            }
            Some(Step::Failed(error)) => {
                failed = Some(error);
                return ControlFlow::Break(());
            }
            Some(Step::Started(message)) => count.note(&Input::Started(message), 0),
            None => {}
        }
        ControlFlow::Continue(())
    });
    for (model, usage) in count.models {
        *spent.entry(model).or_default() += usage;
    }
    asked?;
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
