//! The texts of a conversation, read from the file.
//!
//! Reads one row at a time, so that no more than one record is in memory. If a record is too long
//! for memory, its long texts are cut, and [`Piece::is_cut`] says so.

use super::{Piece, Raw};
use crate::conversation::Conversation;
use crate::conversation::table::{BlockId, RowId};
use crate::format::content::{Block, BlockKind, blocks};
use crate::format::entry::{Entry, Kind};
use crate::format::json::Json;

impl Conversation {
    /// The contents of a block; `None` if it is no longer in its record.
    pub fn piece(&self, block: BlockId) -> crate::Result<Option<Piece>> {
        let cut = self.is_cut(block);
        self.look_at(block, |block| block.map(|block| piece(block, cut)))
    }

    /// The contents of a record, except results: a message, a queued prompt, an event of the
    /// client. Those that are blocks of the record have their block.
    pub fn pieces_of(&self, row: RowId) -> crate::Result<Vec<(Option<BlockId>, Piece)>> {
        let block_ids: Vec<BlockId> = self.table.blocks_of(row).collect();
        if !block_ids.is_empty() {
            let beside = block_ids.into_iter().filter(|block| {
                let part = self.table.block(*block);
                !part.is_repeat && !part.kind.is_result()
            });
            let mut pieces = Vec::new();
            for block in beside {
                pieces.extend(self.piece(block)?.map(|piece| (Some(block), piece)));
            }
            return Ok(pieces);
        }
        let cut = self.table.row(row).is_long();
        self.look(row, |entry| {
            let prompt = entry.get("attachment").and_then(|attachment| attachment.get("prompt"));
            let prompt = prompt.into_iter().flat_map(blocks);
            let mut pieces: Vec<Piece> = prompt.map(|block| piece(block, cut)).collect();
            if pieces.is_empty() {
                pieces.extend(aside(entry, cut));
            }
            pieces.into_iter().map(|piece| (None, piece)).collect()
        })
    }

    /// The input of a call, as JSON, as it is in the file.
    pub fn input_of(&self, call: BlockId) -> crate::Result<Vec<u8>> {
        let input = self.look_at(call, |block| Some(block?.get("input")?.raw().to_vec()))?;
        Ok(input.unwrap_or_else(|| b"null".to_vec()))
    }

    /// A result: as the model got it, and the client's own as JSON.
    pub fn result(&self, block: BlockId) -> crate::Result<(Vec<Piece>, Option<Vec<u8>>)> {
        let part = self.table.block(block);
        let cut = self.is_cut(block);
        let pieces = |content_block: Option<Block<'_>>| {
            let inner =
                content_block.into_iter().flat_map(|outer| outer.inner().collect::<Vec<_>>());
            inner.map(|inner| piece(inner, cut)).collect()
        };
        // One structured result for several results cannot be assigned to any of them.
        let mut results =
            self.table.blocks_of(part.row).filter(|one| self.table.block(*one).kind.is_result());
        let is_alone = results.next().is_some() && results.next().is_none();
        if !is_alone {
            return Ok((self.look_at(block, pieces)?, None));
        }
        let place = self.table.place(block);
        self.look(part.row, |entry| {
            let structured = entry.get("toolUseResult").map(|json| json.raw().to_vec());
            (pieces(entry.message().and_then(|message| message.blocks().nth(place))), structured)
        })
    }

    /// Whether the record of a block is too long for memory.
    fn is_cut(&self, block: BlockId) -> bool {
        self.table.row(self.table.block(block).row).is_long()
    }
}

fn piece(block: Block<'_>, cut: bool) -> Piece {
    let owned = |name: &str| block.field(name).unwrap_or_default().into_owned();
    let kind = || block.type_name().unwrap_or_default().into_owned();
    match block.kind() {
        BlockKind::Text => Piece::Text { text: block.text().unwrap_or_default().into_owned(), cut },
        BlockKind::Thinking => Piece::Thinking { text: owned("thinking"), cut },
        BlockKind::RedactedThinking => Piece::RedactedThinking,
        BlockKind::ToolUse | BlockKind::ServerToolUse => {
            let input =
                block.get("input").map_or_else(|| b"null".to_vec(), |json| json.raw().to_vec());
            Piece::Other { kind: owned("name"), json: Raw::new(input), is_call: true }
        }
        BlockKind::Image | BlockKind::Document => {
            let source = block.get("source").and_then(Json::object);
            let source = source.as_ref();
            let media_type = source.and_then(|source| source.text("media_type"));
            let size =
                source.and_then(|source| source.get("data")).map_or(0, |data| data.raw().len());
            Piece::Media {
                kind: kind(),
                media_type: media_type.unwrap_or_default().into_owned(),
                // Without its quotes.
                size: size.saturating_sub(2),
            }
        }
        BlockKind::ToolResult
        | BlockKind::ServerToolResult
        | BlockKind::ToolReference
        | BlockKind::Other => Piece::other(kind(), block.json()),
    }
}

/// The contents of a record without a message.
fn aside(entry: &Entry<'_>, cut: bool) -> Option<Piece> {
    let text =
        |value: Option<Json<'_>>| Some(Piece::Text { text: value?.text()?.into_owned(), cut });
    let subtype = || entry.subtype().map(std::borrow::Cow::into_owned);
    let whole = |name: &str| Some(Piece::other(subtype().unwrap_or_default(), entry.get(name)?));
    let all =
        |kind: String| Piece::Other { kind, json: Raw::new(entry.raw().to_vec()), is_call: false };
    match entry.kind() {
        Kind::Attachment => {
            let inner = entry.get("attachment").and_then(Json::object)?;
            text(inner.get("content").or_else(|| inner.get("stdout")))
                .or_else(|| whole("attachment"))
        }
        Kind::System => text(entry.get("content"))
            .or_else(|| text(entry.get("error").and_then(|error| error.get("message"))))
            .or_else(|| subtype().map(all)),
        Kind::QueueOperation => text(entry.get("content")),
        Kind::CompactRecap | Kind::CompactPrelude => {
            text(entry.get("content")).or_else(|| whole("message"))
        }
        _ => Some(all(entry.type_name().unwrap_or_default().into_owned())),
    }
}
