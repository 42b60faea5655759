//! A session changed, with a proof of what that does.
//!
//! [`Subject`] is a session as it was read and judged. A plan ([`clone`], [`fork`](fork()), [`strip`](strip()), [`mend`]) is a [`Change`]: which records go, what changes in others, which
//! are new. [`write`](write()) gives the lines, [`prove`] compares what came out with what went in: it reads the result, and believes nobody. Invariants: nothing here opens a file for
//! writing; records that a plan does not touch keep their bytes (with new ids: all but those); nothing that is kept names a record that is gone; a plan is small: it holds no texts.

mod edit;
mod fork;
mod ids;
mod image;
mod late;
mod proof;
mod repair;
mod settle;
mod splice;
mod strip;
mod write;

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::OnceLock;

use hashbrown::HashMap;

pub use fork::{At, ForkError, fork};
pub use ids::Renames;
pub use late::Keep;
pub use proof::{Proof, Side, prove};
pub use repair::{Mended, mend};
pub use strip::{Preset, Spared, Strip, spared, strip};
pub use write::Written;

use crate::check::{Case, Code, Finding, Judged, Verdict};
use crate::conversation::Conversation;
use crate::entry::Kind;
use crate::file::From;
use crate::history::{History, Refusal, Rules, outline};
use crate::input::Input;
use crate::json::quote;
use crate::table::{AnswerId, BlockId, RowId};
use crate::time::Time;
use edit::{BlockEdit, Edit};

/// A session that is to be changed, or was.
#[derive(Debug)]
pub struct Subject {
    case: Case,
    rules: Rules,
    found: Result<History, Refusal>,
    /// What it comes to, once that was asked.
    judged: OnceLock<Judged>,
}

impl Subject {
    /// Reads and judges a session by the rules of a version.
    pub fn open(path: &Path, rules: Rules) -> io::Result<Subject> {
        Subject::of_file(files::open(path)?, path, rules)
    }

    /// The same with a file that is open.
    pub fn of_file(file: File, path: &Path, rules: Rules) -> io::Result<Subject> {
        let case = Case::open(file, path)?;
        let found = outline(&case.conversation, rules, Some("..."))?;
        Ok(Subject { case, rules, found, judged: OnceLock::new() })
    }

    /// What it comes to.
    fn judged(&self) -> io::Result<&Judged> {
        if let Some(judged) = self.judged.get() {
            return Ok(judged);
        }
        let found = self.found.as_ref().map_err(|refusal| *refusal);
        let judged = self.case.judge(self.rules, found)?;
        Ok(self.judged.get_or_init(|| judged))
    }

    /// What another version makes of it.
    fn judged_as(&self, rules: Rules) -> io::Result<Judged> {
        let found = outline(&self.case.conversation, rules, Some("..."))?;
        self.case.judge(rules, found.as_ref().map_err(|refusal| *refusal))
    }

    /// Whether it resumes.
    pub fn verdict(&self) -> io::Result<Verdict> {
        Ok(self.judged()?.verdict)
    }

    /// What is wrong, the worst first.
    pub fn findings(&self) -> io::Result<&[Finding]> {
        Ok(&self.judged()?.findings)
    }

    /// The session itself.
    pub fn conversation(&self) -> &Conversation {
        &self.case.conversation
    }

    /// What stands in its file from a byte on, by now, even if the file is no longer where it was.
    pub fn rest(&self, from: u64) -> io::Result<Vec<u8>> {
        self.case.conversation.with_file(|file| {
            let mut more = Vec::new();
            From::new(file, from).read_to_end(&mut more)?;
            Ok(more)
        })
    }

    /// The records that are sent, and the compaction that they begin behind.
    fn sent(&self) -> (&[RowId], Option<RowId>) {
        match &self.found {
            Ok(found) => (&found.rows, found.boundary),
            Err(_) => (&[], None),
        }
    }
}

/// What becomes of the lines of a session.
#[derive(Debug)]
pub struct Change {
    goes: Vec<bool>,
    edits: HashMap<RowId, Edit>,
    /// New lines, each behind the line of a record.
    behind: HashMap<RowId, Vec<Vec<u8>>>,
    /// New lines at the end.
    end: Vec<Vec<u8>>,
    scraps: Scraps,
    /// What is done, in words.
    pub deeds: Vec<Deed>,
}

/// What becomes of bytes that are no records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scraps {
    Stay,
    Go,
}

/// One thing that a change does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deed {
    /// The finding that it mends.
    pub code: Option<Code>,
    /// The line that it is about.
    pub line: Option<u64>,
    /// One sentence.
    pub text: String,
}

/// Everything stays: with new ids, another session that says the same.
pub fn clone(subject: &Subject) -> Change {
    Change::new(&subject.case.conversation)
}

/// Writes a session as a change leaves it, with new ids if there are any.
pub fn write(
    subject: &Subject,
    change: &Change,
    ids: Option<&Renames>,
    out: &mut dyn Write,
) -> io::Result<Written> {
    write_file(&subject.case.conversation, change, ids, out)
}

/// Maps the ids in the bytes of a side file.
pub fn map_bytes(ids: &Renames, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    ids.map(bytes, &[], &mut out);
    out
}

/// Writes a sub-agent's file with the new ids of its session.
pub fn write_agent(
    conversation: &Conversation,
    ids: &Renames,
    out: &mut dyn Write,
) -> io::Result<Written> {
    write_file(conversation, &Change::new(conversation), Some(ids), out)
}

fn write_file(
    conversation: &Conversation,
    change: &Change,
    ids: Option<&Renames>,
    out: &mut dyn Write,
) -> io::Result<Written> {
    conversation.with_file(|file| write::write(&conversation.table, file, change, ids, out))
}

impl Change {
    fn new(conversation: &Conversation) -> Change {
        Change {
            goes: vec![false; conversation.table.rows().len()],
            edits: HashMap::new(),
            behind: HashMap::new(),
            end: Vec::new(),
            scraps: Scraps::Stay,
            deeds: Vec::new(),
        }
    }

    /// Gives the session a title: a record at the end, where clients look for it.
    pub fn title(&mut self, title: &str, session: &str) {
        let line = format!(
            r#"{{"type":"custom-title","customTitle":{},"sessionId":{}}}"#,
            quote(title),
            quote(session)
        );
        self.end.push(line.into_bytes());
    }

    /// Whether it changes nothing.
    pub fn is_nothing(&self) -> bool {
        self.edits.is_empty()
            && self.behind.is_empty()
            && self.end.is_empty()
            && self.scraps == Scraps::Stay
            && !self.goes.contains(&true)
    }

    /// Whether a session that says something would say nothing any more.
    pub fn leaves_nothing(&self, conversation: &Conversation) -> bool {
        let is_said = |kind: Kind| matches!(kind, Kind::User | Kind::Assistant);
        let mut messages =
            conversation.table.numbered().filter(|(_, row)| is_said(row.kind) && !row.is_side);
        self.goes.contains(&true) && messages.all(|(id, _)| self.goes(id))
    }

    /// Whether a block of the session stays.
    pub fn keeps(&self, conversation: &Conversation, block: BlockId) -> bool {
        let row = conversation.table.part(block).row;
        let place = conversation.table.place(block);
        let is_gone =
            |(at, edit): &(u32, BlockEdit)| *at as usize == place && *edit == BlockEdit::Gone;
        !self.goes(row) && self.edits.get(&row).is_none_or(|edit| !edit.blocks.iter().any(is_gone))
    }

    fn goes(&self, row: RowId) -> bool {
        self.goes[row.index()]
    }

    fn drop(&mut self, row: RowId) {
        self.goes[row.index()] = true;
    }

    fn edit(&mut self, row: RowId) -> &mut Edit {
        self.edits.entry(row).or_default()
    }

    fn did(&mut self, code: Option<Code>, line: Option<u64>, text: impl Into<String>) {
        self.deeds.push(Deed { code, line, text: text.into() });
    }

    /// The time that a record needs so that versions which go by the newest one go on from it; nothing if it has it.
    fn needed_time(
        &self,
        conversation: &Conversation,
        last: Option<RowId>,
        time: Option<Time>,
    ) -> Option<Time> {
        let is_candidate = |id: RowId| {
            let row = conversation.table.row(id);
            let is_tree = matches!(
                row.kind,
                Kind::User | Kind::Assistant | Kind::Attachment | Kind::System | Kind::Progress
            );
            is_tree && !row.is_marked_side && row.uuid.is_some() && !self.goes(id)
        };
        let others = conversation.table.numbered().map(|(id, _)| id);
        let others = others.filter(|id| Some(*id) != last && is_candidate(*id));
        let newest = others.filter_map(|id| conversation.table.row(id).time).max()?;
        (Some(newest) >= time).then_some(Time(newest.0 + 1))
    }
}

/// The answer that a record is of, or whose calls it answers.
fn answer_of(conversation: &Conversation, row: RowId) -> Option<AnswerId> {
    let table = &conversation.table;
    let known = table.row(row);
    if known.answer.is_some() {
        return known.answer;
    }
    if known.input != Some(Input::ToolResult) {
        return None;
    }
    let mut calls = table.parts_of(row).filter_map(|part| conversation.pairs.of(part));
    calls.find_map(|call| table.row(table.part(call).row).answer)
}
