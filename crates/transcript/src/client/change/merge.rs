//! Turns of another session, or of an abandoned branch, at the end of the live conversation.
//!
//! The records of another session are copied, with new ids; those of a branch of the same session
//! move, and keep their ids. They are written from their own file, after the session's records.
//! Invariants: a call is carried together with its result; no call, answer or record has an id that
//! another one of the result has; compactions of another session are left behind, unless a split
//! made that session, because they would hide what is before them. What a split put into both
//! sessions is not added again: the compaction that keeps it refers to what is there. Records of
//! the queue come along with their turns: a prompt may stand only there.

use std::io::Write;

use hashbrown::{HashMap, HashSet};
use thiserror::Error;

use super::edit::BlockEdit;
use super::fork::{ForkError, beside_path, results_elsewhere};
use super::ids::{Renames, apart, flipped, made};
use super::rework::{is_step, named};
use super::spans::Spans;
use super::split::is_split;
use super::{Change, Subject, Written, write_file};
use crate::conversation::Conversation;
use crate::conversation::lineage::session_id;
use crate::conversation::place::Session;
use crate::conversation::table::{BlockId, Filling, RowId, Table};
use crate::format::content::BlockKind;
use crate::format::entry::Kind;
use crate::format::input::Input;
use crate::format::json::quote;
use crate::format::time::Time;

/// Where turns are taken from.
#[derive(Debug)]
pub struct GraftSource {
    /// The session; it may be the one that is changed.
    pub session: Session,
    /// The same, as it was read.
    pub subject: Subject,
    /// An abandoned branch of it, by the id of one of its records, or the start of it; `None` for
    /// the live conversation.
    pub branch: Option<String>,
}

/// Why turns cannot be added.
#[derive(Debug, Error)]
pub enum MergeError {
    /// There is no conversation to add to.
    #[error("there is no conversation in the session to add to")]
    Nothing,
    /// The turns are already there.
    #[error("these turns are in the live conversation already")]
    Itself,
    /// The branch is the live one.
    #[error("the record `{0}` is in the live conversation, not on an abandoned branch")]
    Live(String),
    /// Nothing to add.
    #[error("there is nothing to add: no message in these turns")]
    Empty,
    /// There is no such branch.
    #[error(transparent)]
    Branch(#[from] ForkError),
    /// Reading failed.
    #[error(transparent)]
    Read(#[from] crate::Error),
}

/// Records of another file that are added to a session.
#[derive(Debug)]
pub struct Graft {
    /// Where they come from.
    pub source: GraftSource,
    /// Whether they are records of the session itself, which move.
    pub is_moved: bool,
    change: Change,
    /// The id of the record that they follow, and of the session that they are added to.
    leaf: String,
    session: String,
    /// Sub-agents that need a new id, because the session has one with the same.
    agents: Vec<String>,
    /// Records that both sessions have: the id here, and the id in the session.
    shared: Vec<[String; 2]>,
}

/// The turns that can be added.
fn spans(source: &GraftSource) -> Result<Spans, MergeError> {
    let conversation = source.subject.conversation();
    match &source.branch {
        None => Ok(Spans::live(conversation)),
        Some(name) => {
            Spans::branch(conversation, name)?.ok_or_else(|| MergeError::Live(name.clone()))
        }
    }
}

/// How many turns can be added.
pub fn turn_count(source: &GraftSource) -> Result<usize, MergeError> {
    spans(source).map(|spans| spans.len())
}

/// Plans to add turns, counted from 1, to the end of a session's live conversation.
pub fn merge(
    subject: &Subject,
    session: &Session,
    source: GraftSource,
    turns: &[usize],
) -> Result<Change, MergeError> {
    let main = &subject.case.conversation;
    let is_moved = main.path == source.subject.case.conversation.path;
    if is_moved && source.branch.is_none() {
        return Err(MergeError::Itself);
    }
    let end = main.end().and_then(|end| main.table.text(main.table.row(end).uuid));
    let leaf = end.ok_or(MergeError::Nothing)?.to_owned();
    let mut change = Change::new(main);
    let mut grafting = Grafting::new(&source, &mut change.deeds)?;
    grafting.choose(main, turns)?;
    if is_moved {
        // The same file, read twice: the rows have the same numbers.
        for (id, _) in main.table.numbered().filter(|(id, _)| grafting.stays[id.index()]) {
            change.drop(id);
        }
    } else {
        grafting.fresh_ids(main);
    }
    grafting.thinking();
    let first = grafting.steps().next().ok_or(MergeError::Empty)?;
    let is_left = |id: RowId| !(is_moved && grafting.stays[id.index()]);
    let newest = newest(main, is_left);
    let shared = std::mem::take(&mut grafting.shared);
    let mut graft_change = grafting.finish(first, newest, &leaf)?;
    change.deeds.append(&mut graft_change.deeds);
    if is_moved {
        change.relink(subject)?;
    }
    let graft = Graft {
        source,
        is_moved,
        change: graft_change,
        leaf,
        session: session_id(&session.path, &main.table),
        agents: Vec::new(),
        shared,
    };
    change.graft = Some(Box::new(graft));
    Ok(change)
}

/// The newest time of a record that may be taken for the end.
fn newest(conversation: &Conversation, is_left: impl Fn(RowId) -> bool) -> Option<Time> {
    let rows = conversation.table.numbered();
    let rows = rows.filter(|(id, row)| is_step(row.kind) && !row.says_sidechain && is_left(*id));
    rows.filter_map(|(_, row)| row.time).max()
}

/// The id that the first record gets as its parent until the real one is known.
fn placeholder(leaf: &str) -> String {
    made(&format!("merge/{leaf}"))
}

impl Change {
    /// Gives a sub-agent of the added records a new id, because its id is taken.
    pub fn rename_agent(&mut self, id: &str) {
        if let Some(graft) = &mut self.graft {
            graft.agents.push(id.to_owned());
        }
    }
}

impl Graft {
    /// The new ids of the records. `main` are those of the session that they are added to.
    pub fn ids(&self, main: Option<&Renames>) -> Renames {
        let mut ids = match main {
            _ if !self.is_moved => {
                let to = main.map_or(self.session.as_str(), Renames::session);
                // The end of the conversation is another one each time.
                let salt = format!("{to}/{}/{}", self.source.session.id, self.leaf);
                let mut ids = Renames::salted(&self.source.session.id, to, &salt);
                ids.learn(&self.source.subject.case.conversation.table);
                ids
            }
            Some(main) => main.clone(),
            None => Renames::none(&self.session),
        };
        let leaf = main.map_or_else(|| self.leaf.clone(), |main| main.record(&self.leaf));
        ids.put(&placeholder(&self.leaf), leaf);
        for [here, there] in &self.shared {
            ids.put(here, main.map_or_else(|| there.clone(), |main| main.record(there)));
        }
        for agent in &self.agents {
            ids.learn_agent(agent);
        }
        ids
    }

    /// Whether a block of the other file is carried over.
    pub fn keeps(&self, block: BlockId) -> bool {
        self.change.keeps(self.source.subject.conversation(), block)
    }

    pub(super) fn write(
        &self,
        main: Option<&Renames>,
        out: &mut dyn Write,
    ) -> crate::Result<Written> {
        let ids = self.ids(main);
        write_file(&self.source.subject.case.conversation, &self.change, Some(&ids), out)
    }
}

struct Grafting<'a> {
    subject: &'a Subject,
    conversation: &'a Conversation,
    spans: Spans,
    change: Change,
    stays: Vec<bool>,
    /// The boundary of a split, with its summary; `None` if no split made this session.
    split: Option<Vec<RowId>>,
    shared: Vec<[String; 2]>,
}

impl<'a> Grafting<'a> {
    fn new(source: &'a GraftSource, deeds: &mut Vec<super::Deed>) -> Result<Self, MergeError> {
        let subject = &source.subject;
        let conversation = &subject.case.conversation;
        let spans = spans(source)?;
        let change = Change::new(conversation);
        let stays = vec![false; conversation.table.rows().len()];
        let (split, shared) = (None, Vec::new());
        let mut grafting = Grafting { subject, conversation, spans, change, stays, split, shared };
        grafting.split = grafting.marked()?;
        if grafting.split.is_some() {
            let text = "removed: the compaction that a split put before these turns";
            deeds.push(super::Deed { code: None, line: None, text: text.to_owned() });
        }
        Ok(grafting)
    }

    /// The boundary that a split put at the beginning, with its summary.
    fn marked(&self) -> crate::Result<Option<Vec<RowId>>> {
        let table = &self.conversation.table;
        let is_boundary = |row: &&RowId| table.boundary(**row).is_some();
        let Some(place) = self.spans.order.iter().position(|row| is_boundary(&row)) else {
            return Ok(None);
        };
        let row = self.spans.order[place];
        if !self.conversation.look(row, is_split)? {
            return Ok(None);
        }
        let after = self.spans.order[place + 1..].iter().copied();
        let summary = after.clone().take_while(|row| !table.row(*row).opens());
        let summary = summary.filter(|row| table.row(*row).input == Some(Input::Summary));
        Ok(Some([row].into_iter().chain(summary.take(1)).collect()))
    }

    /// Marks the records of turns, counted from 1.
    fn choose(&mut self, main: &Conversation, turns: &[usize]) -> Result<(), MergeError> {
        let table = &self.conversation.table;
        let mut left = 0;
        for turn in turns.iter().map(|number| number - 1) {
            let fixed = match &self.split {
                Some(marked) => marked.clone(),
                None => self.spans.fixed(table, turn),
            };
            left += fixed.iter().filter(|row| table.boundary(**row).is_some()).count();
            for row in self.spans.rows(turn) {
                let known = table.row(*row);
                self.stays[row.index()] = is_step(known.kind)
                    && known.uuid.is_some()
                    && self.conversation.graph.link(*row).is_step()
                    && !fixed.contains(row);
            }
        }
        self.queue(main, turns);
        let beside = beside_path(self.subject, &self.spans.order, self.spans.order.len());
        let is_chosen = |row: &RowId| {
            let turn = self.spans.owner(*row);
            turn.is_some_and(|turn| turns.contains(&(turn + 1)))
        };
        for row in beside.into_iter().filter(is_chosen) {
            self.stays[row.index()] = true;
        }
        for row in results_elsewhere(self.conversation, &self.stays) {
            self.stays[row.index()] = true;
        }
        for row in self.in_both(main) {
            self.stays[row.index()] = false;
            self.change.elsewhere.push(row);
        }
        if !table.numbered().any(|(id, row)| self.stays[id.index()] && is_step(row.kind)) {
            return Err(MergeError::Empty);
        }
        for (id, _) in table.numbered().filter(|(id, _)| !self.stays[id.index()]) {
            self.change.drop(id);
        }
        self.change.keep_pairs(self.conversation);
        for (id, _) in table.numbered() {
            self.stays[id.index()] = !self.change.goes(id);
        }
        let count = table.numbered().filter(|(id, row)| {
            self.stays[id.index()] && matches!(row.kind, Kind::User | Kind::Assistant)
        });
        let text =
            format!("added: {}, {} messages", named(turns).unwrap_or_default(), count.count());
        self.change.did(None, None, text);
        if left > 0 && self.split.is_none() {
            let text = "left out: the compactions of the other session: its turns are sent in full";
            self.change.did(None, None, text);
        }
        Ok(())
    }

    /// Marks the records of the queue in turns, counted from 1. They say what happens to the
    /// prompts that wait, so they cannot follow prompts of the session that still do, unless a
    /// split left these there.
    fn queue(&mut self, main: &Conversation, turns: &[usize]) {
        let table = &self.conversation.table;
        let mut found: Vec<RowId> = Vec::new();
        for turn in turns.iter().map(|number| number - 1) {
            let ahead = if turn == 0 { self.spans.start(0) } else { 0 };
            let rows = self.spans.order[..ahead].iter().chain(self.spans.rows(turn));
            let is_queue = |row: &RowId| table.row(*row).kind == Kind::QueueOperation;
            found.extend(rows.copied().filter(is_queue));
        }
        if main.table.waiting.is_empty() || self.split.is_some() {
            for row in found {
                self.stays[row.index()] = true;
            }
        } else if !found.is_empty() {
            let many = if found.len() == 1 { "" } else { "s" };
            let text = format!(
                "left out: {} record{many} of the queue, because prompts wait in the session's own",
                found.len()
            );
            self.change.did(None, None, text);
        }
    }

    /// What a compaction keeps from before the point of a split, and the other session has: there,
    /// the ids differ from those here by the same bits.
    fn in_both(&mut self, main: &Conversation) -> Vec<RowId> {
        let table = &self.conversation.table;
        let boundaries = table.boundaries.iter().filter(|_| self.split.is_some());
        let boundaries = boundaries.filter(|boundary| self.stays[boundary.row.index()]);
        let kept = boundaries.flat_map(|boundary| self.conversation.graph.kept(boundary));
        let kept: HashSet<RowId> = kept.filter(|row| self.stays[row.index()]).collect();
        let uuid = |row: RowId| table.text(table.row(row).uuid);
        let hashes = |table: &Table, row: RowId| -> Vec<u64> {
            table.blocks_of(row).map(|block| table.hash(block)).collect()
        };
        let with_content = kept.iter().copied().filter(|row| !hashes(table, *row).is_empty());
        let Some(first) = with_content.min() else { return Vec::new() };
        let has = |row: RowId, bits: u128| {
            let there = flipped(uuid(row)?, bits).and_then(|id| main.table.ids.find(&id))?;
            let found = main.table.row(main.graph.row_of(there)?);
            let known = table.row(row);
            (found.kind == known.kind && found.time == known.time).then_some(there)
        };
        let same = main.table.numbered().filter(|(id, row)| {
            row.time == table.row(first).time && hashes(&main.table, *id) == hashes(table, first)
        });
        let bits = same.filter_map(|(_, row)| apart(main.table.text(row.uuid)?, uuid(first)?));
        let shared = |bits: u128| kept.iter().filter(move |row| has(**row, bits).is_some());
        let Some(bits) = bits.max_by_key(|bits| shared(*bits).count()) else { return Vec::new() };
        let found: Vec<RowId> = shared(bits).copied().collect();
        for row in &found {
            if let (Some(here), Some(there)) = (uuid(*row), has(*row, bits)) {
                self.shared.push([here.to_owned(), main.table.ids.text(there).to_owned()]);
            }
        }
        found
    }

    /// The messages that are carried over, and what is attached to them, in order.
    fn steps(&self) -> impl DoubleEndedIterator<Item = RowId> {
        let table = &self.conversation.table;
        let is_carried = |row: &RowId| self.stays[row.index()] && is_step(table.row(*row).kind);
        self.spans.order.iter().copied().filter(is_carried)
    }

    /// Gives calls and answers other ids where the session already has these.
    fn fresh_ids(&mut self, main: &Conversation) {
        let table = &self.conversation.table;
        let calls = main.table.blocks().iter().filter(|part| part.kind.is_call());
        let mut calls: HashSet<&str> = calls.filter_map(|part| main.table.text(part.id)).collect();
        let answers = main.table.rows().iter().filter(|row| row.kind == Kind::Assistant);
        let answers: HashSet<&str> =
            answers.filter_map(|row| main.table.text(row.message)).collect();
        let mut fresh: HashMap<String, String> = HashMap::new();
        for part in table.blocks().iter().filter(|part| self.stays[part.row.index()]) {
            let Some(id) = table.text(part.id).filter(|id| calls.contains(id)) else { continue };
            if part.kind.is_call() {
                let free = unused(id, &calls);
                fresh.entry(id.to_owned()).or_insert(free);
            }
        }
        calls.clear();
        for (block, part) in (0..).map(BlockId).zip(table.blocks()) {
            let new = table.text(part.id).and_then(|id| fresh.get(id));
            let Some(new) = new.filter(|_| self.stays[part.row.index()]) else { continue };
            let member = if part.kind.is_call() { "id" } else { "tool_use_id" };
            let place = u32::try_from(table.place(block)).unwrap_or(u32::MAX);
            let edit = BlockEdit::Member(member, quote(new).into_bytes());
            self.change.edit(part.row).blocks.push((place, edit));
        }
        let mut renamed: HashSet<&str> = HashSet::new();
        for (id, row) in table.numbered().filter(|(id, _)| self.stays[id.index()]) {
            let known = table.text(row.message).filter(|_| row.kind == Kind::Assistant);
            if let Some(message) = known.filter(|message| answers.contains(message)) {
                let new = quote(&unused(message, &answers)).into_bytes();
                self.change.edit(id).message.push(("id", super::splice::To::Value(new)));
                renamed.insert(message);
            }
        }
        for (count, what) in [(fresh.len(), "call"), (renamed.len(), "answer")] {
            if count > 0 {
                let many = if count == 1 { "" } else { "s" };
                let text = format!("given a new id: {count} {what}{many} that the session has too");
                self.change.did(None, None, text);
            }
        }
    }

    /// Removes thinking that the API does not accept.
    fn thinking(&mut self) {
        let table = &self.conversation.table;
        let mut gone = 0;
        for (block, part) in (0..).map(BlockId).zip(table.blocks()) {
            let is_thinking =
                matches!(part.kind, BlockKind::Thinking | BlockKind::RedactedThinking);
            if !is_thinking || !self.stays[part.row.index()] {
                continue;
            }
            let answer = table.row(part.row).answer.map(|answer| table.answer(answer));
            let model = answer.and_then(|answer| table.text(answer.model)).unwrap_or_default();
            let is_foreign = !model.is_empty() && !model.starts_with("claude-");
            if part.filling != Filling::Unsigned && !is_foreign {
                continue;
            }
            gone += 1;
            let place = u32::try_from(table.place(block)).unwrap_or(u32::MAX);
            self.change.edit(part.row).blocks.push((place, BlockEdit::Gone));
            let mut rest = table.blocks_of(part.row);
            if !rest.any(|block| self.change.keeps(self.conversation, block)) {
                self.change.drop(part.row);
                self.stays[part.row.index()] = false;
            }
        }
        if gone > 0 {
            let many = if gone == 1 { "" } else { "s" };
            let text = format!("removed: {gone} thinking block{many} that the API would refuse");
            self.change.did(None, None, text);
        }
    }

    /// Hangs the records on the end of the session, and makes the last of them the end.
    fn finish(mut self, first: RowId, newest: Option<Time>, leaf: &str) -> crate::Result<Change> {
        let table = &self.conversation.table;
        let place = placeholder(leaf);
        self.change.hang(self.conversation, first, &place);
        self.change.relink(self.subject)?;
        self.change.hang(self.conversation, first, &place);
        let kept: Vec<RowId> = self.steps().collect();
        self.change.end_with(self.conversation, &kept);
        let last = kept.iter().rev().find(|row| table.row(**row).kind != Kind::Progress);
        if let Some(last) = last {
            // Nothing after a compaction descends from the end that the session may have named.
            if self.split.is_some() {
                self.change.name_end(self.conversation, *last);
            }
            let time = table.row(*last).time;
            let needed = self.change.needed_time(self.conversation, Some(*last), time).max(time);
            if newest >= needed
                && let Some(newest) = newest
            {
                self.change.edit(*last).set_text("timestamp", &Time(newest.0 + 1).to_string());
                let text = "given the newest time: the last added record";
                self.change.did(None, None, text);
            }
        }
        Ok(self.change)
    }
}

/// An id like that one that is not taken. Clients take `_2` for a mark of their own.
fn unused(id: &str, taken: &HashSet<&str>) -> String {
    let made = (2_u32..).map(|number| format!("{id}x{number}"));
    let mut free = made.filter(|made| !taken.contains(made.as_str()));
    free.next().unwrap_or_default()
}
