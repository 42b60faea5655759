//! A session's file as a table: a row for each record, without its texts.
//!
//! Everything that works on a whole conversation works on this. A row says where its record stands, what it is, and which
//! ids it names; texts are read again from the file when somebody wants to see them ([`Table::look`]). Invariants: memory
//! grows with the number of records and blocks, not with their size; rows are in file order, one for each record,
//! damaged lines are counted; nothing here knows how records hang together.

mod answer;
mod filling;
mod ids;
mod join;
mod read;

use std::fs::File;
use std::io;

pub use answer::{Answer, AnswerId, Usage};
pub use ids::{Id, Ids};
pub(crate) use read::{Watch, digest};

use crate::content::{Block, BlockKind};
use crate::entry::{Entry, Kind};
use crate::file::{From, Lines, read_at};
use crate::input::Input;
use crate::json::Json;
use crate::limit::HELD_LINE;
use crate::time::Time;

/// The number of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowId(pub u32);

impl RowId {
    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The number of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u32);

impl BlockId {
    /// As an index.
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
    /// Where it begins in the file.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
    /// When it was made.
    pub time: Option<Time>,
    /// Its own id.
    pub uuid: Option<Id>,
    /// The id of the record that it follows, whether that is in the file or not.
    pub parent: Option<Id>,
    /// The session that it says it belongs to.
    pub session: Option<Id>,
    /// The answer that it is a part of.
    pub answer: Option<AnswerId>,
    /// Its first block; the next row's is behind its last.
    blocks: u32,
    /// What kind of record it is.
    pub kind: Kind,
    /// What it says.
    pub input: Option<Input>,
    /// The id of its message.
    pub message: Option<Id>,
    /// Where it stands on its line.
    pub placed: Placed,
    /// Its type is one that clients write, and not another dialect's name for it.
    pub is_native: bool,
    /// It says that it is of a sidechain.
    pub is_marked_side: bool,
    /// It belongs to a sub-agent, in the file of a session.
    pub is_side: bool,
    /// An earlier record has its id.
    pub is_repeat: bool,
    /// It is a result that ends its turn.
    pub ends_turn: bool,
    /// Its content is a string.
    pub is_string: bool,
}

impl Row {
    /// Whether a turn begins here. What comes while the model works is an attachment, and joins the turn that runs; a repeat begins nothing.
    pub fn opens(&self) -> bool {
        self.kind != Kind::Attachment && !self.is_repeat && self.input.is_some_and(Input::opens)
    }

    /// Whether it is too long to be held, so that a look at it shows its long texts cut.
    pub fn is_long(&self) -> bool {
        self.len > HELD_LINE as u64
    }
}

/// One block of content.
#[derive(Clone, Debug)]
pub struct Part {
    /// The record that it is in.
    pub row: RowId,
    /// What kind of block it is.
    pub kind: BlockKind,
    /// The id of a call; for a result, that of the call it answers.
    pub id: Option<Id>,
    /// The tool that a call is of.
    pub name: Option<Id>,
    /// An earlier record says the same: it is not to be shown or counted again.
    pub is_repeat: bool,
    /// A result that is an error.
    pub is_error: bool,
    /// What it holds, as far as that decides what becomes of it.
    pub filling: Filling,
    hash: u64,
    /// Where it stands in its record, and its length; zero if it cannot be read alone.
    place: [u32; 2],
}

/// What a block holds, as far as that decides what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filling {
    /// What such a block should hold.
    Some,
    /// A text of white space.
    Blank,
    /// A text of nothing.
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

/// A compaction: what was said before is summed up.
#[derive(Clone, Debug)]
pub struct Boundary {
    /// Its record.
    pub row: RowId,
    /// The last record before it, by its id.
    pub logical_parent: Option<Id>,
    /// Whether the client did it by itself.
    pub is_auto: bool,
    /// Tokens before and after, where it says so.
    pub tokens: [Option<u64>; 2],
    /// Records before it that stay word for word, by their ids.
    pub messages: Option<KeptMessages>,
    /// The same, as the way between two records.
    pub segment: Option<KeptSegment>,
}

/// Records that a compaction keeps word for word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptMessages {
    /// The record that they go behind.
    pub anchor: Option<Id>,
    /// The records.
    pub uuids: Vec<Id>,
}

/// The records that a compaction keeps word for word, from one to another along their parents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptSegment {
    /// The record that they go behind.
    pub anchor: Option<Id>,
    /// The first.
    pub head: Id,
    /// The last.
    pub tail: Id,
}

/// Where a record stands on its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// Alone.
    Alone,
    /// First, with something behind it.
    First,
    /// Behind something else.
    Later,
}

/// A record that tells which sub-agent a call started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// The record.
    pub row: RowId,
    /// The sub-agent.
    pub agent: Id,
    /// The call.
    pub call: Option<Id>,
    /// What kind of record it is.
    pub by: StartedBy,
}

/// What tells which sub-agent a call started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StartedBy {
    /// The call's result.
    Result,
    /// The result says that it was started in the background.
    Launch,
    /// A progress record.
    Progress,
    /// The notification that it has ended.
    Notification,
}

/// A session's file, without its texts.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Row>,
    parts: Vec<Part>,
    answers: Vec<Answer>,
    /// The texts of all ids.
    pub ids: Ids,
    /// Compactions, in file order.
    pub boundaries: Vec<Boundary>,
    /// What tells about sub-agents.
    pub started: Vec<Started>,
    /// The prompts that calls start sub-agents with, as hashes.
    pub(crate) prompts: Vec<(BlockId, u64)>,
    /// Prompts that went to the model, by all appearances, and are only in the records of the queue.
    pub(crate) unsaid: Vec<RowId>,
    /// How long turns took, as the client measured them, in milliseconds.
    pub durations: Vec<(RowId, u64)>,
    /// The leaf that the last `last-prompt` record names which names one.
    pub named_leaf: Option<Id>,
    /// The sessions that records were copied from, as `forkedFrom` says.
    pub forked_from: Vec<(RowId, Id)>,
    /// The byte that reading began at. If it is not the first, numbers of lines begin there.
    pub start: u64,
    /// It is the file of a sub-agent.
    pub is_agent: bool,
    /// Pieces of lines that are no records.
    pub damaged: u64,
    /// JSON that is no object.
    pub bare: u64,
    /// The first line that is `null`, where some clients stop reading.
    pub null_line: Option<u64>,
    /// Lines of the file.
    pub lines: u64,
    /// The byte that reading ended at.
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

    /// A row.
    pub fn row(&self, id: RowId) -> &Row {
        &self.rows[id.index()]
    }

    /// The blocks of all rows, in file order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// A block.
    pub fn part(&self, id: BlockId) -> &Part {
        &self.parts[id.index()]
    }

    /// The blocks of a row.
    pub fn parts_of(&self, row: RowId) -> impl Iterator<Item = BlockId> + Clone + use<> {
        let end =
            self.rows.get(row.index() + 1).map_or(self.parts.len(), |next| next.blocks as usize);
        let end = u32::try_from(end).unwrap_or(u32::MAX);
        (self.row(row).blocks..end).map(BlockId)
    }

    /// Which block of its row it is, from 0.
    pub fn place(&self, block: BlockId) -> usize {
        (block.0 - self.row(self.part(block).row).blocks) as usize
    }

    /// The answers, by their first records.
    pub fn answers(&self) -> &[Answer] {
        &self.answers
    }

    /// An answer.
    pub fn answer(&self, id: AnswerId) -> &Answer {
        &self.answers[id.0 as usize]
    }

    /// The compaction that a row is the boundary of.
    pub fn boundary(&self, row: RowId) -> Option<&Boundary> {
        let at = self.boundaries.binary_search_by_key(&row, |boundary| boundary.row).ok()?;
        Some(&self.boundaries[at])
    }

    /// The text of an id, if there is one.
    pub fn text(&self, id: Option<Id>) -> Option<&str> {
        id.map(|id| self.ids.text(id))
    }

    /// Where a block stands in its record, if it can be read alone.
    pub(crate) fn range(&self, block: BlockId) -> Option<std::ops::Range<usize>> {
        let [start, len] = self.part(block).place.map(|number| number as usize);
        (len > 0).then_some(start..start + len)
    }

    /// How many bytes a block has; of one that cannot be read alone, those of its record.
    pub(crate) fn size(&self, block: BlockId) -> u64 {
        let part = self.part(block);
        if part.place[1] == 0 { self.row(part.row).len } else { u64::from(part.place[1]) }
    }

    /// What a block says, as a number: equal for equal blocks.
    pub(crate) fn hash(&self, block: BlockId) -> u64 {
        self.part(block).hash
    }

    /// Whether the client wrote an answer itself, where none came. Errors are none of these.
    pub fn is_filler(&self, id: AnswerId) -> bool {
        let answer = self.answer(id);
        !answer.is_error && self.text(answer.model) == Some("<synthetic>")
    }

    /// Whether the first text of a row is that.
    pub(crate) fn says(&self, row: RowId, text: &str) -> bool {
        self.text_hash(row) == Some(read::digest(text))
    }

    /// The text of the first text block of a row, as a hash.
    pub(crate) fn text_hash(&self, row: RowId) -> Option<u64> {
        let mut parts = self.parts_of(row).map(|block| self.part(block));
        parts.find(|part| part.kind == BlockKind::Text).map(|part| part.hash)
    }

    /// Marks blocks that are there already; see `graph::repeats`.
    pub(crate) fn mark_repeats(&mut self, repeats: &[BlockId]) {
        for block in repeats {
            self.parts[block.index()].is_repeat = true;
        }
        let parts = &self.parts;
        self.prompts.retain(|(block, _)| !parts[block.index()].is_repeat);
    }

    /// In the file of a sub-agent nothing is a sidechain, whatever it says.
    pub(crate) fn unmark_sides(&mut self) {
        self.is_agent = true;
        self.rows.iter_mut().for_each(|row| row.is_side = false);
    }

    /// Shows one block, read again from its file: no more than its own bytes, if it can be read alone.
    pub(crate) fn look_at<T>(
        &self,
        file: &File,
        block: BlockId,
        see: impl FnOnce(Option<Block<'_>>) -> T,
    ) -> io::Result<T> {
        let part = self.part(block);
        if part.place[1] == 0 {
            let place = self.place(block);
            return self.look(file, part.row, |entry| {
                see(entry.message().and_then(|message| message.blocks().nth(place)))
            });
        }
        let offset = self.row(part.row).offset + u64::from(part.place[0]);
        let bytes = read_at(file, offset, u64::from(part.place[1]))?;
        match Json::parse(&bytes) {
            Some(json) => Ok(see(Block::of(json))),
            None => Err(changed()),
        }
    }

    /// Shows a record in its bytes.
    pub(crate) fn see<T>(bytes: &[u8], see: impl FnOnce(&Entry<'_>) -> T) -> io::Result<T> {
        Entry::parse(bytes).map_or_else(|| Err(changed()), |entry| Ok(see(&entry)))
    }

    /// Shows the record of a row, read again from its file. Long strings of a record that is too long to hold are cut.
    ///
    /// An error also if the file holds something else there by now.
    pub fn look<T>(
        &self,
        file: &File,
        row: RowId,
        see: impl FnOnce(&Entry<'_>) -> T,
    ) -> io::Result<T> {
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

pub(crate) fn changed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the file has changed while it was read")
}

/// Rows are counted in 32 bits: a file with more is read as far as that goes.
fn row_id(index: usize) -> RowId {
    RowId(u32::try_from(index).unwrap_or(u32::MAX))
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
