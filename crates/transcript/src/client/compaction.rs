//! The receipt of a compaction, whoever made it: what was sent before it and is not sent after it.
//!
//! [`Receipt::new`] compares the blocks of two histories; [`Compaction::find`] gets both of them
//! from the file of a session. Invariants: each block that was sent before is sent afterwards, or
//! is quoted whole in what is sent afterwards, or is in the receipt: in exactly one of these; what
//! is listed as missed occurs nowhere in what is sent afterwards.

mod missed;
mod quoted;

use std::path::Path;

use hashbrown::HashSet;
use serde::Serialize;

pub use missed::{Missed, MissedText};
use quoted::Quotes;

use crate::client::history::{History, Refusal, Rules, SentBlock, history};
use crate::conversation::Conversation;
use crate::conversation::table::RowId;
use crate::conversation::tool;
use crate::format::content::{Block, BlockKind};
use crate::format::input::Input;
use crate::format::json::Json;
use crate::names::named;

named! {
    /// What a block is, for people.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum PieceKind {
        /// What a person wrote.
        Prompt = "prompt",
        /// A text of the model.
        Answer = "answer",
        /// Its thinking.
        Thinking = "thinking",
        /// A call of a tool.
        Call = "call",
        /// The result of a call.
        Result = "result",
        /// An image or a document.
        Image = "image",
        /// The summary of an earlier compaction.
        Summary = "summary",
        /// A text of the client.
        Note = "note",
    }
}

/// A block that is sent.
#[derive(Clone, Debug)]
pub struct SentPiece {
    /// The turn that it belongs to, as `quipu turns` counts; 0 if it is before the first.
    pub turn: usize,
    /// Its line in the file.
    pub line: Option<u64>,
    /// What it is.
    pub kind: PieceKind,
    /// The block as JSON.
    pub raw: Vec<u8>,
}

/// A block that is not sent any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LostBlock {
    /// The turn that it belongs to.
    pub turn: usize,
    /// Its line in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// What it is.
    pub kind: PieceKind,
    /// How it begins, or what the call is about.
    pub about: String,
    /// Its size as JSON.
    pub bytes: usize,
    /// Its place among the blocks that were sent before.
    #[serde(skip)]
    pub place: usize,
}

/// What a compaction took away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Receipt {
    /// What people miss, and occurs nowhere in what is sent now.
    pub missed: Missed,
    /// Every block that is neither sent nor quoted whole any more, in the order in which they were
    /// sent.
    pub lost: Vec<LostBlock>,
}

/// How much of a block is shown.
const LONGEST_ABOUT: usize = 100;

impl Receipt {
    /// Compares what was sent before with what is sent after.
    pub fn new(before: &[SentPiece], after: &[&[u8]]) -> Receipt {
        let quotes = Quotes::new(after);
        let sent: HashSet<&[u8]> = after.iter().copied().collect();
        let is_lost = |piece: &&SentPiece| {
            let is_sent = sent.contains(piece.raw.as_slice());
            !is_sent && !quotes.has_whole(Json::trusted(&piece.raw))
        };
        let numbered = before.iter().enumerate().filter(|(_, piece)| is_lost(piece));
        let lost: Vec<LostBlock> = numbered
            .map(|(place, piece)| LostBlock {
                turn: piece.turn,
                line: piece.line,
                kind: piece.kind,
                about: about(&piece.raw),
                bytes: piece.raw.len(),
                place,
            })
            .collect();
        let missed = Missed::new(before, &lost, &quotes);
        Receipt { missed, lost }
    }

    /// How many blocks were lost, by kind.
    pub fn by_kind(&self) -> Vec<(PieceKind, usize)> {
        counted(self.lost.iter().map(|block| block.kind))
    }

    /// How many blocks of each turn were lost, by kind.
    pub fn by_turn(&self) -> Vec<(usize, Vec<(PieceKind, usize)>)> {
        let mut turns: Vec<usize> = self.lost.iter().map(|block| block.turn).collect();
        turns.sort_unstable();
        turns.dedup();
        let kinds = |turn: usize| {
            let of_turn = self.lost.iter().filter(move |block| block.turn == turn);
            counted(of_turn.map(|block| block.kind))
        };
        turns.into_iter().map(|turn| (turn, kinds(turn))).collect()
    }
}

fn counted(kinds: impl Iterator<Item = PieceKind>) -> Vec<(PieceKind, usize)> {
    let mut all: Vec<PieceKind> = kinds.collect();
    all.sort_unstable();
    let groups = all.chunk_by(|one, other| one == other);
    groups.map(|group| (group[0], group.len())).collect()
}

/// What a block says, in a few words.
fn about(raw: &[u8]) -> String {
    let Some(block) = Block::of(Json::trusted(raw)) else { return String::new() };
    let text = match block.kind() {
        BlockKind::ToolUse | BlockKind::ServerToolUse => {
            let name = block.tool().unwrap_or_default();
            let about = block.get("input").map(|input| tool::about(&name, input));
            format!("{name} {}", about.unwrap_or_default())
        }
        _ => quoted::whole_text(Json::trusted(raw)).unwrap_or_default(),
    };
    shortened(&text, LONGEST_ABOUT)
}

/// A text on one line, cut.
fn shortened(text: &str, most: usize) -> String {
    let mut short = String::new();
    for word in text.split_whitespace() {
        let gap = usize::from(!short.is_empty());
        if short.len() + gap + word.len() > most {
            let left = most.saturating_sub(short.len() + gap);
            let cut = word.char_indices().map(|(at, _)| at).take_while(|at| *at <= left).last();
            if gap == 1 {
                short.push(' ');
            }
            short.push_str(&word[..cut.unwrap_or(0)]);
            short.push('…');
            break;
        }
        if gap == 1 {
            short.push(' ');
        }
        short.push_str(word);
    }
    short
}

/// A compaction in a file, with its receipt.
#[derive(Clone, Debug)]
pub struct Compaction {
    /// Which one it is, counted from 1.
    pub number: usize,
    /// How many there are.
    pub count: usize,
    /// The line of its boundary.
    pub line: u64,
    /// Whether the client started it by itself.
    pub is_auto: bool,
    /// The tokens before and after it, if its record has them.
    pub tokens: [Option<u64>; 2],
    /// The turns before it.
    pub turns: usize,
    /// How many blocks were sent before it and are sent after it.
    pub blocks: [usize; 2],
    /// What it took away.
    pub receipt: Receipt,
}

/// Why there is no receipt.
#[derive(Debug, thiserror::Error)]
pub enum CompactionError {
    /// It was never compacted.
    #[error("this conversation has not been compacted")]
    Never,
    /// There is no such compaction.
    #[error("there is no compaction {wanted}: there are {count}")]
    NoSuch {
        /// The number that was asked for.
        wanted: usize,
        /// How many there are.
        count: usize,
    },
    /// The client would not resume what is before or after it.
    #[error("the client would not continue what the file has {0} the compaction")]
    Refused(&'static str, Refusal),
    /// Reading failed.
    #[error(transparent)]
    Read(#[from] crate::Error),
}

impl Compaction {
    /// The compaction with that number on the live branch of a file; without a number the last
    /// one. What is sent afterwards is what would be sent now, or, of an earlier one, what was sent
    /// until the next.
    pub fn find(
        path: &Path,
        rules: Rules,
        number: Option<usize>,
    ) -> Result<Compaction, CompactionError> {
        let mut whole = Conversation::open(path)?;
        whole.resume_as(rules);
        let live = whole.live();
        let found: Vec<RowId> =
            whole.rows(&live).filter(|row| whole.table.boundary(*row).is_some()).collect();
        let count = found.len();
        let number = match number {
            _ if count == 0 => return Err(CompactionError::Never),
            Some(wanted) if wanted == 0 || wanted > count => {
                return Err(CompactionError::NoSuch { wanted, count });
            }
            number => number.unwrap_or(count),
        };
        let row = found[number - 1];
        let start = |row: RowId| whole.table.row(row).offset;
        let mut before = Conversation::open_until(path, start(row))?;
        before.resume_as(rules);
        let before_history = sent(&before, rules, "before")?;
        let pieces = pieces(&before, before_history);
        let after_history = match found.get(number) {
            None => sent(&whole, rules, "after")?,
            Some(next) => {
                let mut after = Conversation::open_until(path, start(*next))?;
                after.resume_as(rules);
                sent(&after, rules, "after")?
            }
        };
        let after = after_history.messages.iter().flat_map(|message| &message.blocks);
        let after: Vec<&[u8]> = after.map(SentBlock::raw).collect();
        let boundary = whole.table.boundary(row);
        Ok(Compaction {
            number,
            count,
            line: whole.table.row(row).line,
            is_auto: boundary.is_some_and(|boundary| boundary.is_auto),
            tokens: boundary.map_or([None; 2], |boundary| boundary.tokens),
            turns: before.turns_in(&before.live()).len(),
            blocks: [pieces.len(), after.len()],
            receipt: Receipt::new(&pieces, &after),
        })
    }
}

fn sent(
    conversation: &Conversation,
    rules: Rules,
    when: &'static str,
) -> Result<History, CompactionError> {
    let found = history(conversation, rules, None)?;
    found.map_err(|refusal| CompactionError::Refused(when, refusal))
}

/// The blocks of a history, with their turns.
fn pieces(conversation: &Conversation, sent: History) -> Vec<SentPiece> {
    let table = &conversation.table;
    let turns = conversation.turns_in(&conversation.live());
    let mut starts: Vec<RowId> = turns.iter().map(|turn| turn.rows[0]).collect();
    starts.sort_unstable();
    let mut turn = 0;
    let mut pieces = Vec::new();
    for message in sent.messages {
        for block in message.blocks {
            let row = block.origin().map(|origin| table.block(origin).row);
            // What the client made up belongs to what it stands behind.
            turn = row.map_or(turn, |row| starts.partition_point(|start| *start <= row));
            let input = row.and_then(|row| table.row(row).input);
            let kind = kind(block.kind(), message.role.name(), input);
            let line = row.map(|row| table.row(row).line);
            pieces.push(SentPiece { turn, line, kind, raw: block.into_raw() });
        }
    }
    pieces
}

fn kind(kind: BlockKind, role: &str, input: Option<Input>) -> PieceKind {
    match kind {
        BlockKind::Thinking | BlockKind::RedactedThinking => PieceKind::Thinking,
        BlockKind::ToolUse | BlockKind::ServerToolUse => PieceKind::Call,
        BlockKind::ToolResult | BlockKind::ServerToolResult => PieceKind::Result,
        BlockKind::Image | BlockKind::Document => PieceKind::Image,
        _ if role == "assistant" => PieceKind::Answer,
        _ => match input {
            Some(Input::Summary) => PieceKind::Summary,
            Some(input) if input.is_typed() || input == Input::Queued => PieceKind::Prompt,
            _ => PieceKind::Note,
        },
    }
}

/// The blocks of messages that are in no file: `role` and blocks, in order. A text of the user that
/// does not begin with a tag is a prompt, and begins a turn.
pub fn pieces_of<'a>(messages: impl Iterator<Item = (&'a str, &'a [String])>) -> Vec<SentPiece> {
    let mut turn = 0;
    let mut pieces = Vec::new();
    for (role, blocks) in messages {
        for raw in blocks {
            let block = Block::of(Json::trusted(raw.as_bytes()));
            let text = block.as_ref().and_then(Block::text).unwrap_or_default();
            let is_tag = text.trim_start().starts_with('<');
            let input = (role == "user" && !is_tag).then_some(Input::Plain);
            let block_kind = block.as_ref().map_or(BlockKind::Other, Block::kind);
            let kind = kind(block_kind, role, input);
            turn += usize::from(kind == PieceKind::Prompt);
            pieces.push(SentPiece { turn, line: None, kind, raw: raw.clone().into_bytes() });
        }
    }
    pieces
}

#[cfg(test)]
#[path = "compaction_tests.rs"]
mod tests;
