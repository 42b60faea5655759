//! What would be sent, piece by piece, with the size of each.
//!
//! Reads the records that are sent, one at a time, and keeps numbers only. Invariants: each block
//! that is sent is one piece; memory grows with the number of blocks, not with their size.

use std::borrow::Cow;

use hashbrown::{HashMap, HashSet};

use super::PartKind;
use super::fit::{self, Features};
use super::units::{self, BlockSize};
use crate::client::history::{History, Role, Rules, SentBlock, attached};
use crate::conversation::table::{AnswerId, BlockId, Id, RowId, digest};
use crate::conversation::tool;
use crate::conversation::{Conversation, Look};
use crate::format::content::{Block, BlockKind};
use crate::format::entry::{Entry, Kind};
use crate::format::input::Input;
use crate::format::json::Json;

/// A block, a text of an attachment, or something that the client makes up.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    /// Its record; `None` if it is made up.
    pub(super) row: Option<RowId>,
    /// Its block in the file.
    pub(super) block: Option<BlockId>,
    pub(super) kind: PartKind,
    /// The id of the call that it is, or that it answers.
    pub(super) call: Option<Id>,
    pub(super) answer: Option<AnswerId>,
    /// The message that it is in, from 0.
    pub(super) message: u32,
    pub(super) size: BlockSize,
    /// The number of the file that it is about.
    pub(super) file: Option<u32>,
    /// A hash of its content.
    pub(super) hash: u64,
}

impl Piece {
    pub(super) fn features(&self) -> Features {
        let mut features = [0.0; 7];
        let at = match self.kind {
            PartKind::Call => fit::CALL,
            PartKind::Result => fit::RESULT,
            PartKind::Thinking => fit::THINKING,
            PartKind::Reminder => fit::REMINDER,
            _ => fit::TEXT,
        };
        features[at] = self.size.units;
        // Thinking and reminders are longer or shorter than their texts anyway.
        if !matches!(self.kind, PartKind::Thinking | PartKind::Reminder) {
            features[fit::BLOCKS] = 1.0;
        }
        if self.kind == PartKind::Call {
            features[fit::CALLS] = 1.0;
        }
        features
    }
}

/// All pieces, and the files that they are about.
#[derive(Clone, Debug, Default)]
pub(super) struct Pieces {
    pub(super) list: Vec<Piece>,
    pub(super) files: Vec<String>,
}

/// What is read of one record.
#[derive(Default)]
struct Found {
    pieces: Vec<Piece>,
    /// The files that its calls are about.
    files: Vec<(Id, String)>,
    /// The file that an attachment is about.
    attached: Option<String>,
}

/// No path that long names a file.
const LONGEST_PATH: usize = 4_096;

/// The pieces that these records have, of what is sent. Records that are not sent as they are
/// (before a compaction) have all their blocks.
pub(super) fn read(
    conversation: &Conversation,
    before: &[RowId],
    sent: &History,
    rules: Rules,
) -> crate::Result<Pieces> {
    let mut messages: HashMap<BlockId, u32> = HashMap::new();
    for (number, message) in (0_u32..).zip(&sent.messages) {
        for origin in message.blocks.iter().filter_map(SentBlock::origin) {
            messages.insert(origin, number);
        }
    }
    let late: HashSet<RowId> = sent.rows.iter().copied().collect();
    let reading =
        PieceReader { conversation, messages: &messages, late: &late, rules, model: &sent.model };
    let rows: Vec<RowId> = before.iter().chain(&sent.rows).copied().collect();
    let mut pieces = Pieces::default();
    let mut numbers: HashMap<String, u32> = HashMap::new();
    let mut of_calls: HashMap<Id, u32> = HashMap::new();
    let mut number = |path: String| {
        *numbers.entry(path).or_insert_with_key(|path| {
            pieces.files.push(path.clone());
            u32::try_from(pieces.files.len() - 1).unwrap_or(u32::MAX)
        })
    };
    let mut message = 0;
    let mut list = Vec::new();
    let take = |_, found: Found| {
        for (call, path) in found.files {
            of_calls.insert(call, number(path));
        }
        let attached = found.attached.map(&mut number);
        for mut piece in found.pieces {
            match piece.block.and_then(|block| messages.get(&block)) {
                Some(known) => message = *known,
                None => piece.message = message,
            }
            piece.file = attached.or_else(|| of_calls.get(&piece.call?).copied());
            list.push(piece);
        }
    };
    conversation.look_each(&rows, |look, row| reading.row(look, row), take)?;
    list.extend(made_up(sent));
    pieces.list = list;
    Ok(pieces)
}

/// What the client makes up: results of calls without one, and fillers between prompts. The next
/// prompt itself is not counted: nobody knows it.
fn made_up(sent: &History) -> impl Iterator<Item = Piece> {
    (0_u32..).zip(&sent.messages).flat_map(|(number, message)| {
        let made = message.blocks.iter().filter(move |block| {
            block.origin().is_none()
                && (message.role == Role::Assistant || block.kind() == BlockKind::ToolResult)
        });
        made.filter_map(move |block| {
            let size = units::of_block(&Block::of(Json::trusted(block.raw()))?);
            let kind = PartKind::Reminder;
            let hash = digest(block.raw());
            let (row, block, call, answer, file) = (None, None, None, None, None);
            Some(Piece { row, block, kind, call, answer, message: number, size, file, hash })
        })
    })
}

struct PieceReader<'a> {
    conversation: &'a Conversation,
    messages: &'a HashMap<BlockId, u32>,
    /// The records that are sent.
    late: &'a HashSet<RowId>,
    rules: Rules,
    model: &'a str,
}

impl PieceReader<'_> {
    fn row(&self, look: &mut Look<'_>, row: RowId) -> crate::Result<Found> {
        let table = &self.conversation.table;
        let mut found = Found::default();
        match table.row(row).kind {
            Kind::User | Kind::Assistant => {
                for block in table.blocks_of(row) {
                    let message = match self.messages.get(&block) {
                        Some(message) => *message,
                        None if self.late.contains(&row) => continue,
                        None => 0,
                    };
                    self.block(look, block, message, &mut found)?;
                }
            }
            Kind::Attachment => {
                look.record(row, |entry| self.attachment(row, entry, &mut found))?;
            }
            Kind::System if table.row(row).input.is_some() => look.record(row, |entry| {
                let text = entry.text("content").unwrap_or_default();
                let size = BlockSize { units: units::units(&text), media: 0.0 };
                found.pieces.push(self.piece(row, digest(&*text), PartKind::Reminder, size));
            })?,
            _ => {}
        }
        Ok(found)
    }

    /// Something that is not a block of a record.
    fn piece(&self, row: RowId, hash: u64, kind: PartKind, size: BlockSize) -> Piece {
        let answer = self.conversation.table.row(row).answer;
        let (row, block, call, message, file) = (Some(row), None, None, 0, None);
        Piece { row, block, kind, call, answer, message, size, file, hash }
    }

    fn block(
        &self,
        look: &mut Look<'_>,
        block: BlockId,
        message: u32,
        found: &mut Found,
    ) -> crate::Result<()> {
        let table = &self.conversation.table;
        let part = table.block(block);
        let row = table.row(part.row);
        let mut path = None;
        let mut see = |block: &Block<'_>| {
            path = tool::file(block).filter(|path| path.len() <= LONGEST_PATH).map(Cow::into_owned);
            units::of_block(block)
        };
        let size = match look.block(block, |block| see(&block))? {
            Some(size) => size,
            // It is in a record that is condensed: long texts have lost their middle.
            None if row.is_long() => BlockSize { units: bytes(table.size(block)), media: 0.0 },
            None => {
                let place = table.place(block);
                look.record(part.row, |entry| {
                    let block = entry.message().and_then(|message| message.blocks().nth(place));
                    block.map(|block| see(&block)).unwrap_or_default()
                })?
            }
        };
        if let (Some(call), Some(path)) = (part.id, path) {
            found.files.push((call, path));
        }
        let kind = kind(part.kind, row.kind, row.input);
        let piece = self.piece(part.row, table.hash(block), kind, size);
        found.pieces.push(Piece { block: Some(block), call: part.id, message, ..piece });
        Ok(())
    }

    fn attachment(&self, row: RowId, entry: &Entry<'_>, found: &mut Found) {
        let attachment = entry.get("attachment");
        let path = attachment.and_then(|attachment| attachment.get("filename")?.text());
        found.attached = path.filter(|path| path.len() <= LONGEST_PATH).map(Cow::into_owned);
        let is_typed = self.conversation.table.row(row).input == Some(Input::Queued);
        for block in attached(entry, self.rules, self.model) {
            let kind = match block.kind() {
                BlockKind::Image => PartKind::Image,
                _ if is_typed => PartKind::Prompt,
                _ => PartKind::Reminder,
            };
            let size = Block::of(Json::trusted(block.raw())).map(|block| units::of_block(&block));
            let hash = digest(block.raw());
            found.pieces.push(self.piece(row, hash, kind, size.unwrap_or_default()));
        }
    }
}

/// What a block of a record is.
fn kind(block: BlockKind, record: Kind, input: Option<Input>) -> PartKind {
    match block {
        BlockKind::Thinking | BlockKind::RedactedThinking => PartKind::Thinking,
        BlockKind::ToolUse | BlockKind::ServerToolUse => PartKind::Call,
        BlockKind::ToolResult | BlockKind::ServerToolResult => PartKind::Result,
        BlockKind::Image => PartKind::Image,
        BlockKind::Document => PartKind::Document,
        BlockKind::Text | BlockKind::ToolReference | BlockKind::Other => match (record, input) {
            (Kind::Assistant, _) => PartKind::Answer,
            (_, Some(Input::Summary)) => PartKind::Summary,
            (_, Some(input)) if input.opens() || input == Input::Queued => PartKind::Prompt,
            (_, None) => PartKind::Prompt,
            _ => PartKind::Reminder,
        },
    }
}

/// About how many units that many bytes are.
#[allow(clippy::cast_precision_loss, reason = "no block is that long")]
fn bytes(count: u64) -> f64 {
    count as f64 / 4.0
}
