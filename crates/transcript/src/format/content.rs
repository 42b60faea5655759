//! Messages and their content blocks.
//!
//! Content is a string, a list of blocks, or missing; each is read as blocks. The kind of a block
//! depends on its `type` alone, because third-party gateways pad every block with the fields of all
//! others. Invariants: no block is dropped, and none is made up; an unknown type is
//! [`BlockKind::Other`].

use std::borrow::Cow;
use std::ops::Deref;

use crate::format::json::{Json, Object, Shape, unescape};
use crate::format::limit::NOTED;
use crate::format::scan::{Fault, Scanner};

/// The message of a conversation record.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    object: Object<'a>,
    /// The blocks of the content; `None` if there are too many to keep.
    blocks: Option<Vec<Block<'a>>>,
}

impl<'a> Deref for Message<'a> {
    type Target = Object<'a>;

    fn deref(&self) -> &Object<'a> {
        &self.object
    }
}

impl<'a> Message<'a> {
    /// Reads the message object that begins at `at`. Returns the message, and where it ends.
    pub(crate) fn scan(scanner: Scanner<'a>, at: usize) -> Result<(Self, usize), Fault> {
        let mut blocks = Vec::new();
        let mut count = 0;
        let (object, end) = Object::scan_with(scanner, at, |key, start| {
            if key != b"content" {
                return scanner.value(start);
            }
            blocks.clear();
            count = 0;
            Block::scan_all(scanner, start, |block| {
                count += 1;
                if count <= NOTED {
                    blocks.push(block);
                }
            })
        })?;
        let blocks = (count <= NOTED).then_some(blocks);
        Ok((Message { object, blocks }, end))
    }

    /// A message whose content is in the record itself.
    pub(crate) fn bare(record: Object<'a>) -> Self {
        Message { object: record, blocks: None }
    }

    /// The content as it is in the file: a string, a list, or something else.
    pub fn content(&self) -> Option<Json<'a>> {
        self.get("content")
    }

    /// The blocks of the content. A string is one text block.
    pub fn blocks(&self) -> Blocks<'_, 'a> {
        match &self.blocks {
            Some(noted) => Blocks::Noted(noted.iter()),
            None => Blocks::Crowd(Box::new(self.content().into_iter().flat_map(blocks))),
        }
    }

    /// Whether a tool result is among the blocks. This is what distinguishes results from prompts.
    pub fn has_tool_result(&self) -> bool {
        self.blocks().any(|block| block.kind == BlockKind::ToolResult)
    }

    /// The first text among the blocks.
    pub fn first_text(&self) -> Option<Cow<'a, str>> {
        self.blocks().find(|block| block.kind == BlockKind::Text)?.text()
    }
}

/// Iterates over the blocks of a message, in order.
#[allow(missing_debug_implementations, reason = "an iterator that is used up where it is made")]
pub enum Blocks<'m, 'a> {
    /// Blocks that were kept when the message was read.
    Noted(std::slice::Iter<'m, Block<'a>>),
    /// Too many blocks to keep: they are read one by one.
    Crowd(Box<dyn Iterator<Item = Block<'a>> + 'm>),
}

impl<'a> Iterator for Blocks<'_, 'a> {
    type Item = Block<'a>;

    fn next(&mut self) -> Option<Block<'a>> {
        match self {
            Blocks::Noted(blocks) => blocks.next().copied(),
            Blocks::Crowd(blocks) => blocks.next(),
        }
    }
}

/// The blocks of a content value: the elements of a list, or a string as one block.
pub fn blocks(content: Json<'_>) -> impl Iterator<Item = Block<'_>> {
    let alone = (content.shape() == Shape::String).then(|| Block::alone(content));
    let scanner = Scanner::new(content.raw());
    // Each element is scanned once, as a block.
    let mut next = (content.shape() == Shape::Array).then(|| scanner.space(1));
    let elements = std::iter::from_fn(move || {
        let (block, end) = Block::scan(scanner, next?).ok()?;
        let behind = scanner.space(end);
        next = (scanner.byte(behind) == Some(b',')).then(|| scanner.space(behind + 1));
        Some(block)
    });
    alone.into_iter().chain(elements)
}

/// One block of content.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    json: Json<'a>,
    kind: BlockKind,
    /// The name and value of each member, kept so that the block is not scanned again. No more than
    /// these are kept.
    members: [(&'a [u8], Json<'a>); MEMBERS],
    count: u8,
}

/// The `count` of a block with more members than are kept, or with a member whose name has escapes.
const CROWD: u8 = u8::MAX;
/// How many members of a block are kept. Clients write at most six.
const MEMBERS: usize = 6;

impl<'a> Block<'a> {
    /// Reads the content value that begins at `at`. Passes each block to `each`, and returns where
    /// the value ends.
    fn scan_all(
        scanner: Scanner<'a>,
        at: usize,
        mut each: impl FnMut(Block<'a>),
    ) -> Result<usize, Fault> {
        let mut one = |start: usize| {
            let (block, end) = Block::scan(scanner, start)?;
            each(block);
            Ok(end)
        };
        match scanner.byte(at) {
            Some(b'[') => scanner.array(at, one),
            Some(b'"') => one(at),
            _ => scanner.value(at),
        }
    }

    fn scan(scanner: Scanner<'a>, at: usize) -> Result<(Self, usize), Fault> {
        let none = Json::trusted(scanner.bytes(at..at));
        let mut members = [(&b""[..], none); MEMBERS];
        let mut count = 0_u8;
        let end = if scanner.byte(at) == Some(b'{') {
            scanner.object(at, |key, start| {
                let end = scanner.value(start)?;
                match members.get_mut(usize::from(count)) {
                    // A name with escapes is left to the full parser.
                    Some(free) if !key.escaped => {
                        *free = (
                            scanner.bytes(key.range.clone()),
                            Json::trusted(scanner.bytes(start..end)),
                        );
                        count += 1;
                    }
                    _ => count = CROWD,
                }
                Ok(end)
            })?
        } else {
            scanner.value(at)?
        };
        let json = Json::trusted(scanner.bytes(at..end));
        let mut block = Block { json, kind: BlockKind::Other, members, count };
        block.kind = match block.get("type").and_then(Json::text) {
            Some(name) => BlockKind::named(&name),
            None if json.shape() == Shape::String => BlockKind::Text,
            None => BlockKind::Other,
        };
        Ok((block, end))
    }

    /// A string that is all of the content.
    fn alone(json: Json<'a>) -> Block<'a> {
        let members = [(&b""[..], Json::trusted(b"")); MEMBERS];
        Block { json, kind: BlockKind::Text, members, count: 0 }
    }

    /// A value (an object or a string) as a block. The bytes must have been accepted before.
    pub(crate) fn of(json: Json<'a>) -> Option<Block<'a>> {
        Block::scan(Scanner::new(json.raw()), 0).ok().map(|(block, _)| block)
    }

    /// The block as it is in the file: an object, or a string that is all of the content.
    pub fn json(&self) -> Json<'a> {
        self.json
    }

    /// Whether the block is a string that is all of the content.
    pub fn is_string(&self) -> bool {
        self.json.shape() == Shape::String
    }

    /// The kind of the block.
    pub fn kind(&self) -> BlockKind {
        self.kind
    }

    /// The type as the block gives it; `text` for a string.
    pub fn type_name(&self) -> Option<Cow<'a, str>> {
        if self.is_string() { Some(Cow::Borrowed("text")) } else { self.field("type") }
    }

    /// The name of the tool, if the block is a call.
    pub fn tool(&self) -> Option<Cow<'a, str>> {
        self.field("name")
    }

    /// The text of a text block.
    pub fn text(&self) -> Option<Cow<'a, str>> {
        if self.is_string() { self.json.text() } else { self.field("text") }
    }

    /// The member of that name.
    pub fn get(&self, name: &str) -> Option<Json<'a>> {
        if self.count == CROWD {
            return self.json.get(name);
        }
        let members = &self.members[..usize::from(self.count)];
        members.iter().rfind(|(key, _)| *key == name.as_bytes()).map(|(_, value)| *value)
    }

    /// The name of a member that is not in this list.
    pub(crate) fn other_than(&self, names: &[&str]) -> Option<Cow<'a, str>> {
        if self.count == CROWD {
            let object = self.json.object()?;
            return object.members().map(|(name, _)| name).find(|name| !names.contains(&&**name));
        }
        let members = self.members[..usize::from(self.count)].iter();
        let other = members
            .map(|(name, _)| *name)
            .find(|name| !names.iter().any(|known| known.as_bytes() == *name));
        other.map(unescape)
    }

    /// The member of that name, if it is a text.
    pub fn field(&self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name)?.text()
    }

    /// Whether thinking is signed. Like clients, this accepts any signature except a missing or
    /// empty one.
    pub(crate) fn has_signature(&self) -> bool {
        !matches!(self.get("signature").map(Json::raw), None | Some(b"null" | b"\"\""))
    }

    /// The content of a result block, as blocks: text, images, tool references.
    pub fn inner(&self) -> impl Iterator<Item = Block<'a>> + use<'a> {
        self.get("content").into_iter().flat_map(blocks)
    }
}

/// The kind of a block.
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
    /// The result of such a call.
    ToolResult,
    /// An image.
    Image,
    /// A document: PDF or text.
    Document,
    /// A tool that became available, by name.
    ToolReference,
    /// A call of a tool that the API runs itself.
    ServerToolUse,
    /// The result of such a call.
    ServerToolResult,
    /// An unknown type, or none.
    Other,
}

impl BlockKind {
    /// Whether the block is a tool call.
    pub fn is_call(self) -> bool {
        matches!(self, BlockKind::ToolUse | BlockKind::ServerToolUse)
    }

    /// Whether the block is the result of a call.
    pub fn is_result(self) -> bool {
        matches!(self, BlockKind::ToolResult | BlockKind::ServerToolResult)
    }

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
