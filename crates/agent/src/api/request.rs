//! Builds a request: one JSON object, assembled from parts that are already JSON.
//!
//! Invariants: the same conversation gives the same bytes, in this run and after a resume; cache
//! marks are on the last block of the system prompt and of the last two messages, never on
//! thinking.

use std::fmt::Write as _;

use transcript::format::json::quote;

use super::stream::with;
use crate::block::is_thinking;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// `user`, `assistant` or `system`.
    pub role: &'static str,
    /// Its blocks, each as JSON.
    pub blocks: Vec<String>,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The name of the model.
    pub model: &'a str,
    /// The most tokens that the answer may have.
    pub max_tokens: u64,
    /// How many of these may be thinking; None for no thinking.
    pub thinking: Option<u64>,
    /// How much the model is to think and write; None for what the API does by itself.
    pub effort: Option<&'a str>,
    /// The system prompt, block by block.
    pub system: &'a [String],
    /// The tools, each as JSON.
    pub tools: &'a [String],
    /// The client's text before the first prompt.
    pub reminder: Option<&'a str>,
    /// The messages of the conversation.
    pub messages: &'a [Message],
    /// Whether the API is asked to cache the beginning.
    pub is_cached: bool,
}

const MARK: &str = r#"{"type":"ephemeral"}"#;

/// A text block.
pub fn text_block(text: &str) -> String {
    format!(r#"{{"type":"text","text":{}}}"#, quote(text))
}

impl Request<'_> {
    /// The request as JSON.
    pub fn body(&self) -> String {
        let mut out = format!(
            r#"{{"model":{},"max_tokens":{},"stream":true"#,
            quote(self.model),
            self.max_tokens
        );
        if let Some(budget) = self.thinking {
            let _ = write!(out, r#","thinking":{{"type":"enabled","budget_tokens":{budget}}}"#);
        }
        if let Some(effort) = self.effort {
            let _ = write!(out, r#","output_config":{{"effort":{}}}"#, quote(effort));
        }
        let last = self.system.len().checked_sub(1);
        let system = self.system.iter().enumerate().map(|(at, text)| {
            let block = text_block(text);
            if Some(at) == last { self.marked(&block) } else { block }
        });
        if last.is_some() {
            let _ = write!(out, r#","system":[{}]"#, system.collect::<Vec<_>>().join(","));
        }
        if !self.tools.is_empty() {
            let _ = write!(out, r#","tools":[{}]"#, self.tools.join(","));
        }
        let len =
            self.messages.iter().flat_map(|message| &message.blocks).map(|block| block.len() + 1);
        out.reserve(len.sum::<usize>() + 64 * self.messages.len());
        out.push_str(r#","messages":["#);
        // A history that lost its beginning still starts with a user message, which contains the
        // same reminder as always.
        let is_headless = self.messages.first().is_some_and(|first| first.role != "user");
        if let Some(reminder) = self.reminder.filter(|_| is_headless) {
            let _ = write!(out, r#"{{"role":"user","content":[{}]}},"#, text_block(reminder));
        }
        for (at, message) in self.messages.iter().enumerate() {
            out.push_str(if at == 0 { "" } else { "," });
            let _ = write!(out, r#"{{"role":"{}","content":["#, message.role);
            if let Some(reminder) = self.reminder.filter(|_| at == 0 && message.role == "user") {
                out.push_str(&text_block(reminder));
                out.push(',');
            }
            self.blocks(&message.blocks, at + 2 >= self.messages.len(), &mut out);
            out.push_str("]}");
        }
        out.push_str("]}");
        out
    }

    fn blocks(&self, blocks: &[String], is_late: bool, out: &mut String) {
        let marked = blocks.iter().rposition(|block| is_late && !is_thinking(block));
        for (at, block) in blocks.iter().enumerate() {
            out.push_str(if at == 0 { "" } else { "," });
            if Some(at) == marked {
                out.push_str(&self.marked(block));
            } else {
                out.push_str(block);
            }
        }
    }

    fn marked(&self, block: &str) -> String {
        let marked = if self.is_cached { with(block, "cache_control", MARK) } else { None };
        marked.unwrap_or_else(|| block.to_owned())
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
