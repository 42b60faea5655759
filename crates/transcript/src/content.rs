//! Messages and their content blocks.
//!
//! Content is a string, a list of blocks, or missing; each is read as blocks. The variant of a block is
//! chosen by its `type` alone: foreign gateways pad every block with the fields of all others.
//! Invariants: no block is dropped, none is made up; a type that is not known is [`BlockKind::Other`].

use std::borrow::Cow;
use std::ops::Deref;

use crate::json::{Json, Object, Shape};
use crate::scan::{Fault, Scanner};

/// The message of a conversation record.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    object: Object<'a>,
    blocks: Vec<Block<'a>>,
}

impl<'a> Deref for Message<'a> {
    type Target = Object<'a>;

    fn deref(&self) -> &Object<'a> {
        &self.object
    }
}

impl<'a> Message<'a> {
    /// Reads the message object that begins at `at`: the message, and where it ends.
    pub(crate) fn scan(scanner: Scanner<'a>, at: usize) -> Result<(Self, usize), Fault> {
        let mut blocks = Vec::new();
        let (object, end) = Object::scan_with(scanner, at, |key, start| match key {
            b"content" => {
                blocks.clear();
                Block::scan_all(scanner, start, &mut blocks)
            }
            _ => scanner.value(start),
        })?;
        Ok((Message { object, blocks }, end))
    }

    /// A message whose content stands in the record itself.
    pub(crate) fn bare(record: Object<'a>) -> Self {
        let blocks = record.get("content").map(blocks).unwrap_or_default();
        Message { object: record, blocks }
    }

    /// The content as it stands: a string, a list, or something else.
    pub fn content(&self) -> Option<Json<'a>> {
        self.get("content")
    }

    /// The blocks of the content. A string is one text block.
    pub fn blocks(&self) -> &[Block<'a>] {
        &self.blocks
    }

    /// Whether a tool's answer is among the blocks: the test that tells results from prompts.
    pub fn has_tool_result(&self) -> bool {
        self.blocks.iter().any(|block| block.kind == BlockKind::ToolResult)
    }

    /// The first text among the blocks.
    pub fn first_text(&self) -> Option<Cow<'a, str>> {
        self.blocks.iter().find(|block| block.kind == BlockKind::Text)?.text()
    }
}

/// The blocks of a content value: of a list its elements, of a string the string itself.
pub fn blocks(content: Json<'_>) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    // The bytes were accepted before; a fault could only cut the list short.
    let _ = Block::scan_all(Scanner::new(content.raw()), 0, &mut blocks);
    blocks
}

/// One block of content.
#[derive(Clone, Debug)]
pub struct Block<'a> {
    json: Json<'a>,
    /// Nothing for a string that is all of the content.
    object: Option<Object<'a>>,
    kind: BlockKind,
}

impl<'a> Block<'a> {
    /// Reads the content value that begins at `at`: its blocks, and where it ends.
    fn scan_all(
        scanner: Scanner<'a>,
        at: usize,
        blocks: &mut Vec<Block<'a>>,
    ) -> Result<usize, Fault> {
        match scanner.byte(at) {
            Some(b'[') => scanner.array(at, |start| {
                let (block, end) = Block::scan(scanner, start)?;
                blocks.push(block);
                Ok(end)
            }),
            Some(b'"') => {
                let (block, end) = Block::scan(scanner, at)?;
                blocks.push(block);
                Ok(end)
            }
            _ => scanner.value(at),
        }
    }

    fn scan(scanner: Scanner<'a>, at: usize) -> Result<(Self, usize), Fault> {
        if scanner.byte(at) == Some(b'{') {
            let (object, end) = Object::scan(scanner, at)?;
            let name = object.text("type");
            let kind = name.map_or(BlockKind::Other, |name| BlockKind::named(&name));
            return Ok((Block { json: object.json(), object: Some(object), kind }, end));
        }
        let end = scanner.value(at)?;
        let json = Json::trusted(scanner.bytes(at..end));
        let text = json.shape() == Shape::String;
        let kind = if text { BlockKind::Text } else { BlockKind::Other };
        Ok((Block { json, object: None, kind }, end))
    }

    /// The block as it stands: an object, or a string that is all of the content.
    pub fn json(&self) -> Json<'a> {
        self.json
    }

    /// Whether the block is a string that is all of the content.
    pub fn is_string(&self) -> bool {
        self.json.shape() == Shape::String
    }

    /// What kind of block it is.
    pub fn kind(&self) -> BlockKind {
        self.kind
    }

    /// The type as the block gives it; a string is `text`.
    pub fn type_name(&self) -> Option<Cow<'a, str>> {
        if self.is_string() { Some(Cow::Borrowed("text")) } else { self.field("type") }
    }

    /// The text of a text block.
    pub fn text(&self) -> Option<Cow<'a, str>> {
        if self.is_string() { self.json.text() } else { self.field("text") }
    }

    /// A member of the block.
    pub fn get(&self, name: &str) -> Option<Json<'a>> {
        self.object.as_ref()?.get(name)
    }

    /// The text of a member of the block.
    pub fn field(&self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name)?.text()
    }

    /// The content of a result block, as blocks: text, images, tool references.
    pub fn inner(&self) -> Vec<Block<'a>> {
        self.get("content").map(blocks).unwrap_or_default()
    }
}

/// What kind of block it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockKind {
    /// Text.
    Text,
    /// The model's thinking, with its signature.
    Thinking,
    /// Thinking that only the API can read.
    RedactedThinking,
    /// A call of one of the client's tools.
    ToolUse,
    /// The answer to such a call.
    ToolResult,
    /// An image.
    Image,
    /// A document: PDF or text.
    Document,
    /// A tool that became available, by name.
    ToolReference,
    /// A call of a tool that the API runs itself.
    ServerToolUse,
    /// The answer to such a call.
    ServerToolResult,
    /// A type that this version does not know, or none.
    Other,
}

impl BlockKind {
    /// The kind that a block's `type` names.
    pub fn named(name: &str) -> BlockKind {
        match name {
            "text" => BlockKind::Text,
            "thinking" => BlockKind::Thinking,
            "redacted_thinking" => BlockKind::RedactedThinking,
            "tool_use" => BlockKind::ToolUse,
            "tool_result" => BlockKind::ToolResult,
            "image" => BlockKind::Image,
            "document" => BlockKind::Document,
            "tool_reference" => BlockKind::ToolReference,
            "server_tool_use" | "mcp_tool_use" => BlockKind::ServerToolUse,
            "web_search_tool_result"
            | "web_fetch_tool_result"
            | "code_execution_tool_result"
            | "bash_code_execution_tool_result"
            | "text_editor_code_execution_tool_result"
            | "tool_search_tool_result"
            | "advisor_tool_result"
            | "mcp_tool_result" => BlockKind::ServerToolResult,
            _ => BlockKind::Other,
        }
    }
}

#[cfg(test)]
#[path = "content_tests.rs"]
mod tests;
