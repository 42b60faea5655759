//! A session's file as a table: a row for each record, without its texts.
//!
//! Everything that works on a whole conversation works on this. A row contains the offset of its
//! record, its kind, and the ids in it; texts are read again from the file when they are needed
//! ([`Table::look`]). Invariants: memory grows with the number of records and blocks, not with
//! their size; rows are in file order, one for each record; damaged lines are counted; nothing here
//! knows the graph of parents and children.

mod answer;
mod filling;
mod grow;
mod ids;
mod join;
mod read;

use std::fs::File;
use std::io;

pub use answer::{Answer, AnswerId, ReportedUsage};
pub use grow::{GrowingTable, Growth};
pub use ids::{Id, Ids};
pub(crate) use read::{Watch, digest};

use crate::format::content::BlockKind;
use crate::format::entry::{Entry, Kind};
use crate::format::file::{From, Lines, read_at};
use crate::format::input::Input;
use crate::format::limit::HELD_LINE;
use crate::format::time::Time;

/// The number of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowId(pub u32);

impl RowId {
    /// The number as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The number of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u32);

impl BlockId {
    /// The number as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One record.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "facts that have nothing to do with each other")]
pub struct Row {
    /// The number of its line, from 1.
    pub line: u64,
    /// The byte offset of its start in the file.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
    /// When it was made.
    pub time: Option<Time>,
    /// Its own id.
    pub uuid: Option<Id>,
    /// The id of its parent, whether that is in the file or not.
    pub parent: Option<Id>,
    /// The id of the session that it says it belongs to.
    pub session: Option<Id>,
    /// The answer that it is a part of.
    pub answer: Option<AnswerId>,
    /// The number of its first block. Its blocks end where those of the next row begin.
    blocks: u32,
    /// The kind of the record.
    pub kind: Kind,
    /// Who speaks and how (prompt, command, tool result, …); `None` for records that say nothing.
    pub input: Option<Input>,
    /// The id of its message.
    pub message: Option<Id>,
    /// Whether it is alone on its line.
    pub placed: Placed,
    /// Its type is one that clients write, and not another dialect's name for it.
    pub is_native: bool,
    /// It has `isSidechain` set.
    pub says_sidechain: bool,
    /// It belongs to a sub-agent whose records are in the session's own file.
    pub is_sidechain: bool,
    /// An earlier record has the same id.
    pub is_repeat: bool,
    /// It is a result that ends its turn.
    pub ends_turn: bool,
    /// Its content is a string.
    pub is_string: bool,
}

impl Row {
    /// Whether a turn begins here. A prompt that arrives while the model works is an attachment,
    /// and belongs to the running turn; a repeated record begins nothing.
    pub fn opens(&self) -> bool {
        self.kind != Kind::Attachment && !self.is_repeat && self.input.is_some_and(Input::opens)
    }

    /// Whether it is too long for memory, so that [`Table::look`] shows it with its long texts cut.
    pub fn is_long(&self) -> bool {
        self.len > HELD_LINE as u64
    }
}

/// One block of content.
#[derive(Clone, Debug)]
pub struct BlockRow {
    /// The record that it is in.
    pub row: RowId,
    /// The kind of the block.
    pub kind: BlockKind,
    /// The id of a call; for a result, the id of its call.
    pub id: Option<Id>,
    /// The name of the tool, if the block is a call.
    pub name: Option<Id>,
    /// An earlier record has the same block: this one is not to be shown or counted again.
    pub is_repeat: bool,
    /// It is a result that is an error.
    pub is_error: bool,
    /// Whether its contents are in order, as far as that decides what a client does with it.
    pub filling: Filling,
    hash: u64,
    /// Its offset in its record, and its length; zero if it cannot be read alone.
    place: [u32; 2],
}

/// What is wrong with the contents of a block, as far as that decides what a client does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filling {
    /// Nothing is wrong.
    Some,
    /// A text of white space only.
    Blank,
    /// An empty text, or none.
    None,
    /// Thinking without a signature.
    Unsigned,
    /// A call of `Read` or `Write` with a path that is not a text.
    OddPath,
    /// A call of `Write` with contents that are not a text.
    OddContent,
    /// A call of `Edit` with a path that is not a text.
    OddEdit,
}

/// A compaction: a summary replaces what was said before.
#[derive(Clone, Debug)]
pub struct Boundary {
    /// Its record.
    pub row: RowId,
    /// The id of the last record before it.
    pub logical_parent: Option<Id>,
    /// Whether the client started it by itself.
    pub is_auto: bool,
    /// The number of tokens before and after it, if the record has them.
    pub tokens: [Option<u64>; 2],
    /// The records before it that are kept word for word, as a list of ids.
    pub messages: Option<KeptMessages>,
    /// The records before it that are kept word for word, as the path between two of them.
    pub segment: Option<KeptSegment>,
}

/// Records that a compaction keeps word for word, by their ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptMessages {
    /// The id of the record that they are placed after.
    pub anchor: Option<Id>,
    /// Their ids.
    pub uuids: Vec<Id>,
}

/// Records that a compaction keeps word for word, as the path of parents from the last to the
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptSegment {
    /// The id of the record that they are placed after.
    pub anchor: Option<Id>,
    /// The id of the first one.
    pub head: Id,
    /// The id of the last one.
    pub tail: Id,
}

/// Whether a record is alone on its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// Alone.
    Alone,
    /// Alone behind a byte order mark.
    Marked,
    /// First, with something after it.
    First,
    /// After something else.
    Later,
}

impl Placed {
    /// Whether no other record is on its line.
    pub fn is_alone(self) -> bool {
        matches!(self, Placed::Alone | Placed::Marked)
    }
}

/// A record that shows which sub-agent a call started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// The record.
    pub row: RowId,
    /// The id of the sub-agent.
    pub agent: Id,
    /// The id of the call, if the record has it.
    pub call: Option<Id>,
    /// What kind of record it is.
    pub by: StartedBy,
}

/// The kinds of records that show which sub-agent a call started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StartedBy {
    /// The result of the call.
    Result,
    /// The result of the call, which says that the sub-agent was started in the background.
    Launch,
    /// A progress record.
    Progress,
    /// The notification that the sub-agent has ended.
    Notification,
}

/// A session's file, without its texts.
#[derive(Clone, Debug, Default)]
pub struct Table {
    rows: Vec<Row>,
    parts: Vec<BlockRow>,
    answers: Vec<Answer>,
    /// The texts of all ids.
    pub ids: Ids,
    /// Compactions, in file order.
    pub boundaries: Vec<Boundary>,
    /// Which sub-agents were started by which calls, as far as records show it.
    pub started: Vec<Started>,
    /// The prompts of calls that start sub-agents, as hashes.
    pub(crate) prompts: Vec<(BlockId, u64)>,
    /// Prompts that were apparently sent to the model, but are only in the records of the queue.
    pub(crate) unsaid: Vec<RowId>,
    /// Prompts that are still in the queue when the file ends.
    pub(crate) waiting: Vec<RowId>,
    /// How long turns took, as the client measured them, in milliseconds.
    pub durations: Vec<(RowId, u64)>,
    /// The id of the leaf in the last `last-prompt` record that names one.
    pub named_leaf: Option<Id>,
    /// The ids of the sessions that records were copied from, according to `forkedFrom`.
    pub forked_from: Vec<(RowId, Id)>,
    /// The byte offset where reading began. If it is not 0, line numbers are counted from there.
    pub start: u64,
    /// It is the file of a sub-agent.
    pub is_agent: bool,
    /// How many pieces of lines are not records.
    pub damaged: u64,
    /// How many lines are JSON, but not an object.
    pub bare: u64,
    /// The number of the first line that is `null`, where some clients stop reading.
    pub null_line: Option<u64>,
    /// How many lines were read.
    pub lines: u64,
    /// The byte offset where reading ended.
    pub end: u64,
}

impl Table {
    /// The rows, in file order.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// All rows with their numbers.
    pub fn numbered(&self) -> impl DoubleEndedIterator<Item = (RowId, &Row)> + ExactSizeIterator {
        self.rows.iter().enumerate().map(|(index, row)| (row_id(index), row))
    }

    /// The row with that number.
    pub fn row(&self, id: RowId) -> &Row {
        &self.rows[id.index()]
    }

    /// The blocks of all rows, in file order.
    pub fn blocks(&self) -> &[BlockRow] {
        &self.parts
    }

    /// The block with that number.
    pub fn block(&self, id: BlockId) -> &BlockRow {
        &self.parts[id.index()]
    }

    /// The numbers of the blocks of a row.
    pub fn blocks_of(&self, row: RowId) -> impl Iterator<Item = BlockId> + Clone + use<> {
        let end =
            self.rows.get(row.index() + 1).map_or(self.parts.len(), |next| next.blocks as usize);
        let end = u32::try_from(end).unwrap_or(u32::MAX);
        (self.row(row).blocks..end).map(BlockId)
    }

    /// The index of a block in its row, from 0.
    pub fn place(&self, block: BlockId) -> usize {
        (block.0 - self.row(self.block(block).row).blocks) as usize
    }

    /// The answers, in the order of their first records.
    pub fn answers(&self) -> &[Answer] {
        &self.answers
    }

    /// The answer with that number.
    pub fn answer(&self, id: AnswerId) -> &Answer {
        &self.answers[id.0 as usize]
    }

    /// The compaction whose boundary is that row.
    pub fn boundary(&self, row: RowId) -> Option<&Boundary> {
        let at = self.boundaries.binary_search_by_key(&row, |boundary| boundary.row).ok()?;
        Some(&self.boundaries[at])
    }

    /// The text of an id, if there is one.
    pub fn text(&self, id: Option<Id>) -> Option<&str> {
        id.map(|id| self.ids.text(id))
    }

    /// The range of a block in its record, if it can be read alone.
    pub(crate) fn range(&self, block: BlockId) -> Option<std::ops::Range<usize>> {
        let [start, len] = self.block(block).place.map(|number| number as usize);
        (len > 0).then_some(start..start + len)
    }

    /// The length of a block in bytes; for one that cannot be read alone, the length of its record.
    pub fn size(&self, block: BlockId) -> u64 {
        let part = self.block(block);
        if part.place[1] == 0 { self.row(part.row).len } else { u64::from(part.place[1]) }
    }

    /// A hash of the block, equal for equal blocks.
    pub(crate) fn hash(&self, block: BlockId) -> u64 {
        self.block(block).hash
    }

    /// Whether the client wrote an answer itself because none arrived. Errors do not count.
    pub fn is_filler(&self, id: AnswerId) -> bool {
        let answer = self.answer(id);
        !answer.is_error && self.text(answer.model) == Some("<synthetic>")
    }

    /// Whether the first text of a row is this one.
    pub(crate) fn says(&self, row: RowId, text: &str) -> bool {
        self.text_hash(row) == Some(read::digest(text))
    }

    /// The hash of the first text of a row.
    pub(crate) fn text_hash(&self, row: RowId) -> Option<u64> {
        let mut parts = self.blocks_of(row).map(|block| self.block(block));
        parts.find(|part| part.kind == BlockKind::Text).map(|part| part.hash)
    }

    /// Marks blocks that an earlier record has too; see `graph::repeats`.
    pub(crate) fn mark_repeats(&mut self, repeats: &[BlockId]) {
        for block in repeats {
            self.parts[block.index()].is_repeat = true;
        }
        let parts = &self.parts;
        self.prompts.retain(|(block, _)| !parts[block.index()].is_repeat);
    }

    /// Clears the sidechain marks: in the file of a sub-agent nothing is a sidechain, whatever its
    /// records say.
    pub(crate) fn unmark_sides(&mut self) {
        self.is_agent = true;
        self.rows.iter_mut().for_each(|row| row.is_sidechain = false);
    }

    /// Parses the bytes of a record and passes it to `see`.
    pub(crate) fn see<T>(bytes: &[u8], see: impl FnOnce(&Entry<'_>) -> T) -> crate::Result<T> {
        Entry::parse(bytes).map_or_else(|| Err(changed()), |entry| Ok(see(&entry)))
    }

    /// Reads the record of a row again from its file and passes it to `see`. If the record is too
    /// long for memory, its long strings are cut.
    ///
    /// It is also an error if the file contains something else there by now.
    pub fn look<T>(
        &self,
        file: &File,
        row: RowId,
        see: impl FnOnce(&Entry<'_>) -> T,
    ) -> crate::Result<T> {
        let wanted = self.row(row);
        if !wanted.is_long() {
            return Table::see(&read_at(file, wanted.offset, wanted.len)?, see);
        }
        let limited = io::Read::take(From::new(file, wanted.offset), wanted.len);
        let mut lines = Lines::from(limited, wanted.offset, wanted.line - 1);
        while let Some(line) = lines.next_line()? {
            let entry = line.records().find_map(|record| record.entry);
            if let Some(entry) = entry {
                return Ok(see(&entry));
            }
        }
        Err(changed())
    }
}

pub(crate) fn changed() -> crate::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the file changed while it was being read").into()
}

/// Rows are counted in 32 bits: of a file with more records, only that many are read.
fn row_id(index: usize) -> RowId {
    RowId(u32::try_from(index).unwrap_or(u32::MAX))
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
