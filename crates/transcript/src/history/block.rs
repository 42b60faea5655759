//! Blocks of messages that are about to be sent.
//!
//! A block is the file's own bytes until something has to be changed in it; then only that member changes. So fields that nobody knows
//! are sent as they are.

use crate::content::{self, BlockKind};
use crate::json::{Json, Shape, quote};

/// One block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    raw: Vec<u8>,
    kind: BlockKind,
}

impl Block {
    /// A block as it stands in the file; a string becomes a text block.
    pub(super) fn read(block: content::Block<'_>) -> Block {
        if block.is_string() {
            return Block::text(&block.text().unwrap_or_default());
        }
        Block { raw: block.json().raw().to_vec(), kind: block.kind() }
    }

    /// A block of text.
    pub(super) fn text(text: &str) -> Block {
        let raw = format!(r#"{{"type":"text","text":{}}}"#, quote(text));
        Block { raw: raw.into_bytes(), kind: BlockKind::Text }
    }

    /// A text that the client puts into an answer.
    pub(super) fn filler(text: &str) -> Block {
        let raw = format!(r#"{{"type":"text","text":{},"citations":[]}}"#, quote(text));
        Block { raw: raw.into_bytes(), kind: BlockKind::Text }
    }

    /// A result that the client makes up. The order of members is the client's.
    pub(super) fn made_result(id: &str, text: &str, id_first: bool) -> Block {
        let (id, text) = (quote(id), quote(text));
        let raw = if id_first {
            format!(
                r#"{{"type":"tool_result","tool_use_id":{id},"content":{text},"is_error":true}}"#
            )
        } else {
            format!(
                r#"{{"type":"tool_result","content":{text},"is_error":true,"tool_use_id":{id}}}"#
            )
        };
        Block { raw: raw.into_bytes(), kind: BlockKind::ToolResult }
    }

    /// The block as JSON.
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// What kind of block it is.
    pub fn kind(&self) -> BlockKind {
        self.kind
    }

    fn json(&self) -> Json<'_> {
        Json::trusted(&self.raw)
    }

    pub(super) fn is_thinking(&self) -> bool {
        matches!(self.kind, BlockKind::Thinking | BlockKind::RedactedThinking)
    }

    /// The text of a text block.
    pub(super) fn words(&self) -> Option<String> {
        if self.kind != BlockKind::Text {
            return None;
        }
        Some(self.json().get("text").and_then(Json::text).unwrap_or_default().into_owned())
    }

    /// Whether it is a text block of nothing but white space.
    pub(super) fn is_blank(&self) -> bool {
        self.words().is_some_and(|text| text.trim().is_empty())
    }

    /// The id of a call of one of the client's tools, or the call that a result answers.
    pub(super) fn call(&self) -> Option<String> {
        let name = match self.kind {
            BlockKind::ToolUse => "id",
            BlockKind::ToolResult => "tool_use_id",
            _ => return None,
        };
        Some(self.json().get(name).and_then(Json::text).unwrap_or_default().into_owned())
    }

    /// The same with another text.
    pub(super) fn with_text(&self, text: &str) -> Block {
        self.with("text", quote(text).as_bytes())
    }

    fn with(&self, name: &str, value: &[u8]) -> Block {
        let raw =
            self.json().object().map_or_else(|| self.raw.clone(), |own| own.with(name, value));
        Block { raw, kind: self.kind }
    }

    /// A result with a reminder in it: behind its text, or as one more block. Nothing if it has no place for one.
    pub(super) fn with_reminder(&self, reminder: &str, lists_too: bool) -> Option<Block> {
        let content = self.json().get("content");
        match content.map(Json::shape) {
            None | Some(Shape::Null) => Some(self.with("content", quote(reminder).as_bytes())),
            Some(Shape::String) => {
                let text = content.and_then(Json::text).unwrap_or_default();
                let text = text.trim();
                let joined = if text.is_empty() {
                    reminder.to_owned()
                } else {
                    format!("{text}\n\n{reminder}")
                };
                Some(self.with("content", quote(&joined).as_bytes()))
            }
            Some(Shape::Array) if lists_too => {
                let mut parts: Vec<Vec<u8>> = content
                    .into_iter()
                    .flat_map(Json::elements)
                    .map(|part| part.raw().to_vec())
                    .collect();
                parts.push(Block::text(reminder).raw);
                Some(self.with("content", &[b"[", parts.join(&b","[..]).as_slice(), b"]"].concat()))
            }
            Some(_) => None,
        }
    }

    /// Lone halves of surrogate pairs replaced, as the newest client does.
    pub(super) fn mended(mut self) -> Block {
        if let Some(mended) = crate::json::mend_surrogates(&self.raw) {
            self.raw = mended;
        }
        self
    }
}
