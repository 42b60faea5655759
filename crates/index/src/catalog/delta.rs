//! What a piece of a file adds to the catalog.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use sha2::{Digest, Sha256};
use transcript::conversation::tool;
use transcript::conversation::usage::{
    CountedFile, FileMessages, MessageCounter, MessageUsage, messages_in,
};
use transcript::format::entry::Entry;
use transcript::format::file::Lines;
use transcript::format::json::Json;
use transcript::format::secret::{Mask, Redactor};

use super::calls::OpenCalls;
use super::list::{FoundFile, KnownFile, Stamp};
use super::schema::SPAN;
use crate::texts::{Passage, texts};
use crate::words::{Segmented, lower};

/// What one record adds to the text index.
#[derive(Clone, Debug)]
pub(crate) struct TextRow {
    /// Which record of its file it is, from 0.
    pub(crate) record: u64,
    pub(crate) text: Segmented,
    pub(crate) meta: String,
}

/// What a piece of a file adds.
#[derive(Debug, Default)]
pub(crate) struct Delta {
    /// The first byte of the piece. 0: what is known of the file is replaced.
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// How many lines the file has up to there.
    pub(crate) lines: u64,
    pub(crate) tail: Vec<u8>,
    pub(crate) records: u64,
    /// The calls that have no result up to there.
    pub(crate) open_calls: OpenCalls,
    pub(crate) prompts: u64,
    pub(crate) messages: Vec<MessageUsage>,
    pub(crate) texts: Vec<TextRow>,
    /// Files that calls name, by path and tool, with how many calls.
    pub(crate) touched: BTreeMap<(String, String), u64>,
    pub(crate) cwd: Option<String>,
    /// The session that records say they were copied from.
    pub(crate) forked_from: Option<String>,
}

/// How many bytes of words a piece may have.
pub(super) const PIECE: usize = 4 << 20;
/// How many bytes of the file a piece may have.
const LONGEST_PIECE: u64 = 32 << 20;
/// How many bytes at the start of a file, and before the place where reading ended, are compared.
const COMPARED: u64 = 8 << 10;

/// Reads what was appended to a file since it was last read, or all of it if it is another file
/// now, and passes it on in pieces.
pub(crate) fn read(
    found: &FoundFile,
    known: Option<&KnownFile>,
    redactor: &Redactor,
    mut pass: impl FnMut(Delta) -> bool,
) -> transcript::Result<()> {
    let mut file = files::open(&found.path)?;
    let begin = match known {
        Some(known) if !known.is_deleted && is_same(&mut file, known)? => Begin::after(known),
        _ => Begin::default(),
    };
    // Opened again: a copy of the handle would share its position.
    let mut source = files::open(&found.path)?;
    source.seek(SeekFrom::Start(begin.offset))?;
    let mut lines = Lines::from(source, begin.offset, begin.lines);
    let mut piece = Piece::new(begin, redactor);
    let mut is_ended = true;
    while let Some(line) = lines.next_line()? {
        for record in line.records() {
            if let Some(entry) = &record.entry {
                piece.add(entry, record.line.unwrap_or(0));
            }
        }
        piece.delta.to = line.offset + line.len + u64::from(line.ended);
        is_ended = line.ended;
        piece.delta.lines = line.number.unwrap_or(piece.delta.lines);
        if piece.size > PIECE || piece.delta.to - piece.delta.from > LONGEST_PIECE {
            let next = Piece::new(piece.end(), redactor);
            let done = std::mem::replace(&mut piece, next).finish(&mut file)?;
            if !pass(done) {
                return Ok(());
            }
        }
    }
    let mut last = piece.finish(&mut file)?;
    if !is_ended {
        // More of this line may follow. Then the file is read again as a whole.
        last.tail.clear();
    }
    pass(last);
    Ok(())
}

/// The messages of a session's file that are not in the catalog.
pub(crate) struct NewMessages {
    pub(crate) messages: FileMessages,
    /// They are all messages of the file: it is new, or another one now.
    pub(crate) is_whole: bool,
    /// How many bytes were read.
    pub(crate) bytes: u64,
}

/// Reads what was appended to a file, at most so many bytes; `None` if there is more, or the file
/// cannot be read.
pub(crate) fn new_messages(
    project: &Path,
    path: &Path,
    known: Option<&KnownFile>,
    most: u64,
) -> Option<NewMessages> {
    let mut file = files::open(path).ok()?;
    let found = file.metadata().ok()?;
    let stamp = Stamp::of(&found);
    let same = known.filter(|known| !known.is_deleted).filter(|known| {
        let is_unchanged = known.stamp == stamp;
        is_unchanged || is_same(&mut file, known).is_ok_and(|is_same| is_same)
    });
    let from = same.map_or(0, |known| known.read_to);
    let bytes = stamp.size.saturating_sub(from);
    if bytes > most {
        return None;
    }
    file.seek(SeekFrom::Start(from)).ok()?;
    let lines = same.map_or(0, |known| known.lines);
    let messages = messages_in(Lines::from(file, from, lines)).ok()?;
    let source = match same {
        Some(known) => known.counted(),
        None => CountedFile::new(project, path, &messages, found.modified().ok()?),
    };
    let messages = FileMessages::known(source, messages.list);
    Some(NewMessages { messages, is_whole: same.is_none(), bytes })
}

/// Whether a file is the one that was read, and has grown. One that was changed and has not grown
/// was written anew.
fn is_same(file: &mut File, known: &KnownFile) -> io::Result<bool> {
    let now = Stamp::of(&file.metadata()?);
    let grew = now.inode == known.stamp.inode && now.size > known.read_to && known.read_to > 0;
    Ok(grew && ends(file, known.read_to)? == known.tail)
}

/// A hash of both ends of what is before an offset: a file that is written anew mostly differs at
/// its start, and one that only grew in neither.
fn ends(file: &mut File, end: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for start in [0, end.saturating_sub(COMPARED)] {
        file.seek(SeekFrom::Start(start))?;
        Read::take(&mut *file, COMPARED.min(end - start)).read_to_end(&mut bytes)?;
    }
    Ok(Sha256::digest(&bytes)[..16].to_vec())
}

/// What is known of a file where a piece begins.
#[derive(Default)]
struct Begin {
    offset: u64,
    lines: u64,
    records: u64,
    open_calls: OpenCalls,
}

impl Begin {
    /// Behind what was read of a file.
    fn after(known: &KnownFile) -> Begin {
        let KnownFile { read_to, lines, records, .. } = *known;
        Begin { offset: read_to, lines, records, open_calls: known.open_calls.clone() }
    }
}

struct Piece<'a> {
    delta: Delta,
    /// How many records the file has so far.
    records: u64,
    counter: MessageCounter,
    mask: Mask<'a>,
    size: usize,
}

impl<'a> Piece<'a> {
    fn new(begin: Begin, redactor: &'a Redactor) -> Piece<'a> {
        let Begin { offset: from, lines, records, open_calls } = begin;
        let delta = Delta { from, to: from, lines, open_calls, ..Delta::default() };
        let (counter, mask) = (MessageCounter::default(), Mask::new(redactor));
        Piece { delta, records, counter, mask, size: 0 }
    }

    /// Where the next piece begins.
    fn end(&self) -> Begin {
        let Delta { to: offset, lines, ref open_calls, .. } = self.delta;
        Begin { offset, lines, records: self.records, open_calls: open_calls.clone() }
    }

    fn add(&mut self, entry: &Entry<'_>, line: u64) {
        let record = self.records;
        self.records += 1;
        self.delta.records += 1;
        self.delta.prompts += u64::from(entry.is_human_turn());
        self.counter.add(entry, line);
        if self.delta.forked_from.is_none() {
            self.delta.forked_from = entry.forked_from().map(Cow::into_owned);
        }
        for block in entry.message().into_iter().flat_map(|message| message.blocks()) {
            // Growing copies of an answer have the same calls.
            let is_open = || {
                let id = block.get("id").and_then(Json::text);
                id.is_some_and(|id| self.delta.open_calls.has(&id))
            };
            if block.kind().is_call()
                && let (Some(path), Some(tool)) = (tool::file(&block), block.tool())
                && !is_open()
            {
                let path = self.mask.text(&path).into_owned();
                *self.delta.touched.entry((path, tool.into_owned())).or_default() += 1;
            }
        }
        let mut passages = texts(entry, &mut self.mask);
        self.delta.open_calls.follow(&mut passages);
        let mut row = TextRow { record, text: Segmented::default(), meta: String::new() };
        for passage in &passages {
            row.text.add(&passage.text);
        }
        if row.text.len() == 0 || record >= SPAN.cast_unsigned() {
            return;
        }
        row.meta = meta(entry, &passages);
        self.size += row.text.len() + row.meta.len();
        self.delta.texts.push(row);
    }

    fn finish(mut self, file: &mut File) -> io::Result<Delta> {
        let messages = self.counter.finish();
        self.delta.messages = messages.list;
        self.delta.cwd = messages.cwd;
        self.delta.tail = ends(file, self.delta.to)?;
        Ok(self.delta)
    }
}

/// What filters ask for, as words.
pub(crate) fn meta(entry: &Entry<'_>, passages: &[Passage]) -> String {
    let mut meta = String::new();
    for passage in passages {
        push(&mut meta, "k", passage.kind.name());
        push(&mut meta, "r", passage.kind.role());
        if let Some(tool) = &passage.tool {
            push(&mut meta, "t", tool);
        }
        if passage.is_error {
            push(&mut meta, "e", "error");
        }
    }
    if let Some(model) = entry.message().and_then(|message| message.text("model")) {
        push(&mut meta, "m", &model);
    }
    meta
}

/// One value of a filter as a word of the index.
pub(crate) fn filter_word(letter: &str, value: &str) -> String {
    let plain: String =
        lower(value).chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
    format!("{letter}_{plain}")
}

fn push(meta: &mut String, letter: &str, value: &str) {
    let word = filter_word(letter, value);
    if !meta.split(' ').any(|known| known == word) {
        meta.push_str(&word);
        meta.push(' ');
    }
}
