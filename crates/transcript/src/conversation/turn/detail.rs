//! The texts of the steps of a turn, read from the file.
//!
//! Reads one row at a time, so that no more than one record is in memory. If a record is too long
//! for memory, its long texts are cut, and [`Piece::is_cut`] is set.

use crate::conversation::Conversation;
use crate::conversation::diff::{Touched, touched};
use crate::conversation::table::{BlockId, RowId};
use crate::conversation::tool;
use crate::format::content::{Block, BlockKind, blocks};
use crate::format::entry::{Entry, Kind};
use crate::format::json::{Json, Shape};

/// One block, to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The block in the table; `None` for a piece that is not a block.
    pub block: Option<BlockId>,
    /// Its contents.
    pub what: What,
    /// Its record is too long for memory, so the middle of its texts may be missing.
    pub is_cut: bool,
}

/// The contents of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Text.
    Text(String),
    /// Thinking; empty if the client keeps only the signature.
    Thinking(String),
    /// Thinking that only the API can read.
    Redacted,
    /// A tool call: its name and input.
    Call(String, Vec<u8>),
    /// An image or a document: its type, its media type, and its size in bytes of base64 or text.
    Media(String, String, usize),
    /// Anything else: its type, and its bytes as they are in the file.
    Other(String, Vec<u8>),
}

/// A call and its result.
#[derive(Clone, Debug)]
pub struct Call {
    /// The name of the tool.
    pub tool: String,
    /// Its input, as JSON, as it is in the file.
    pub input: Vec<u8>,
    /// Its input in a few words.
    pub about: String,
    /// Its result; `None` if there is none in the file.
    pub result: Option<Answered>,
    /// The file that it touched.
    pub touched: Option<Touched>,
    /// One of its records is too long for memory, so the middle of its texts may be missing.
    pub is_cut: bool,
}

/// The result of a call.
#[derive(Clone, Debug)]
pub struct Answered {
    /// Its block in the table.
    pub block: BlockId,
    /// Whether it is an error.
    pub is_error: bool,
    /// The result as the model got it.
    pub pieces: Vec<Piece>,
    /// The client's own result, as JSON, as it is in the file.
    pub structured: Option<Vec<u8>>,
    /// That in a few words.
    pub outcome: Option<String>,
    /// The time from the call to the result, in milliseconds.
    pub duration: Option<i64>,
}

impl Conversation {
    /// The contents of these blocks, in their order.
    pub fn pieces(&self, blocks: &[BlockId]) -> crate::Result<Vec<Piece>> {
        let mut found = Vec::with_capacity(blocks.len());
        for block in blocks {
            let is_cut = self.table.row(self.table.block(*block).row).is_long();
            let read = self.look_at(*block, |content_block| content_block.map(what))?;
            found.extend(read.map(|what| Piece { block: Some(*block), what, is_cut }));
        }
        Ok(found)
    }

    /// The contents of a record, except results: a message, a queued prompt, an event of the
    /// client.
    pub fn pieces_of(&self, row: RowId) -> crate::Result<Vec<Piece>> {
        let block_ids: Vec<BlockId> = self.table.blocks_of(row).collect();
        if !block_ids.is_empty() {
            let beside = block_ids.into_iter().filter(|block| {
                let part = self.table.block(*block);
                !part.is_repeat && !part.kind.is_result()
            });
            return self.pieces(&beside.collect::<Vec<_>>());
        }
        let is_cut = self.table.row(row).is_long();
        self.look(row, |entry| {
            let prompt = entry.get("attachment").and_then(|attachment| attachment.get("prompt"));
            let pieces = prompt.into_iter().flat_map(blocks).map(what).collect::<Vec<_>>();
            let pieces =
                if pieces.is_empty() { aside(entry).into_iter().collect() } else { pieces };
            pieces.into_iter().map(|what| Piece { block: None, what, is_cut }).collect()
        })
    }

    /// A call with its result.
    pub fn call(&self, block: BlockId) -> crate::Result<Call> {
        let part = self.table.block(block);
        let tool = self.table.text(part.name).unwrap_or_default().to_owned();
        let input =
            self.look_at(block, |content_block| Some(content_block?.get("input")?.raw().to_vec()))?;
        let input = input.unwrap_or_else(|| b"null".to_vec());
        let result =
            self.pairs.of(block).map(|result| self.answered(&tool, block, result)).transpose()?;
        let json = Json::trusted(&input);
        let structured = result.as_ref().and_then(|result| result.structured.as_deref());
        let output: String = result
            .iter()
            .flat_map(|result| &result.pieces)
            .filter_map(|piece| match &piece.what {
                What::Text(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        let failed = result.as_ref().is_none_or(|result| result.is_error);
        let touched = if failed {
            None
        } else {
            touched(&tool, json, structured.map(Json::trusted), &output)
        };
        let is_long = |block: BlockId| self.table.row(self.table.block(block).row).is_long();
        let is_cut = is_long(block) || self.pairs.of(block).is_some_and(is_long);
        Ok(Call { is_cut, about: tool::about(&tool, json), touched, result, tool, input })
    }

    /// A result: as the model got it, and the client's own as JSON.
    pub fn result(&self, block: BlockId) -> crate::Result<(Vec<Piece>, Option<Vec<u8>>)> {
        let part = self.table.block(block);
        let is_cut = self.table.row(part.row).is_long();
        let pieces = self.look_at(block, |content_block| {
            let inner =
                content_block.into_iter().flat_map(|outer| outer.inner().collect::<Vec<_>>());
            inner.map(|inner| Piece { block: None, what: what(inner), is_cut }).collect()
        })?;
        // One structured result for several results cannot be assigned to any of them.
        let mut results =
            self.table.blocks_of(part.row).filter(|one| self.table.block(*one).kind.is_result());
        let is_alone = results.next().is_some() && results.next().is_none();
        let structured = if is_alone {
            self.look(part.row, |entry| entry.get("toolUseResult").map(|json| json.raw().to_vec()))?
        } else {
            None
        };
        Ok((pieces, structured))
    }

    fn answered(&self, tool: &str, call: BlockId, result: BlockId) -> crate::Result<Answered> {
        let (pieces, structured) = self.result(result)?;
        let time = |block: BlockId| self.table.row(self.table.block(block).row).time;
        let between =
            time(result).zip(time(call)).map(|(end, start)| end.0.saturating_sub(start.0));
        let json = structured.as_deref().map(Json::trusted);
        let outcome = json.filter(|json| json.shape() == Shape::Object);
        Ok(Answered {
            block: result,
            is_error: self.table.block(result).is_error,
            outcome: outcome.and_then(|json| tool::outcome(tool, json)),
            duration: between.filter(|taken| *taken >= 0),
            pieces,
            structured,
        })
    }
}

fn what(block: Block<'_>) -> What {
    let owned = |name: &str| block.field(name).unwrap_or_default().into_owned();
    match block.kind() {
        BlockKind::Text => What::Text(block.text().unwrap_or_default().into_owned()),
        BlockKind::Thinking => What::Thinking(owned("thinking")),
        BlockKind::RedactedThinking => What::Redacted,
        BlockKind::ToolUse | BlockKind::ServerToolUse => {
            let input =
                block.get("input").map_or_else(|| b"null".to_vec(), |json| json.raw().to_vec());
            What::Call(owned("name"), input)
        }
        BlockKind::Image | BlockKind::Document => {
            let source = block.get("source").and_then(Json::object);
            let text = |name: &str| {
                source.as_ref().and_then(|source| source.text(name)).unwrap_or_default()
            };
            let size = source
                .as_ref()
                .and_then(|source| source.get("data"))
                .map_or(0, |data| data.raw().len());
            let name = block.type_name().unwrap_or_default().into_owned();
            What::Media(name, text("media_type").into_owned(), size.saturating_sub(2))
        }
        BlockKind::ToolResult
        | BlockKind::ServerToolResult
        | BlockKind::ToolReference
        | BlockKind::Other => {
            let name = block.type_name().unwrap_or_default().into_owned();
            What::Other(name, block.json().raw().to_vec())
        }
    }
}

/// The contents of a record without a message.
fn aside(entry: &Entry<'_>) -> Option<What> {
    let text = |value: Option<Json<'_>>| Some(What::Text(value?.text()?.into_owned()));
    let whole = |name: &str| {
        let value = entry.get(name)?;
        Some(What::Other(entry.subtype().unwrap_or_default().into_owned(), value.raw().to_vec()))
    };
    match entry.kind() {
        Kind::Attachment => {
            let inner = entry.get("attachment").and_then(Json::object)?;
            text(inner.get("content").or_else(|| inner.get("stdout")))
                .or_else(|| whole("attachment"))
        }
        Kind::System => text(entry.get("content"))
            .or_else(|| {
                let error = entry.get("error").and_then(|error| error.get("message"));
                text(error)
            })
            .or_else(|| Some(What::Other(entry.subtype()?.into_owned(), entry.raw().to_vec()))),
        Kind::QueueOperation => text(entry.get("content")),
        Kind::CompactRecap | Kind::CompactPrelude => {
            text(entry.get("content")).or_else(|| whole("message"))
        }
        _ => Some(What::Other(
            entry.type_name().unwrap_or_default().into_owned(),
            entry.raw().to_vec(),
        )),
    }
}
