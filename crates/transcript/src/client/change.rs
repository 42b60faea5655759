//! Changes to a session, with a proof of their effect.
//!
//! [`Subject`] is a session that was read and judged. A plan ([`clone`], [`fork`](fork()),
//! [`strip`](strip()), [`repair`](repair()), [`compress`](compress()),
//! [`uncompress`](uncompress()), [`rework`](rework()), [`split`](split()), [`merge`](merge())) is a
//! [`Change`]: which records to remove, what to
//! change in others, which to add. [`write`](write()) produces the lines. [`prove`] reads the
//! result again, trusting nothing, and compares it with the original. Invariants: nothing here
//! opens a file for writing; records that a plan does not touch keep their bytes (with new ids: all
//! bytes except the ids); no kept record refers to a removed one; a plan is small, because it
//! contains no texts.

mod compress;
mod edit;
mod fork;
mod ids;
mod image;
mod late;
mod merge;
mod pairs;
mod paths;
mod proof;
mod redact;
mod relink;
mod repair;
mod rework;
mod saving;
mod selected;
mod spans;
mod splice;
mod split;
mod strip;
mod uncompress;
mod write;

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use hashbrown::HashMap;

pub use compress::{Compress, CompressError, Draft, KeepTurns, ListCalls, compress};
pub use fork::{At, ForkError, branch_turns, fork};
pub use ids::Renames;
pub use image::smaller_image;
pub use late::Keep;
pub use merge::{Graft, GraftSource, MergeError, merge, turn_count};
pub use paths::{MappedPaths, PathMap};
pub use proof::{Proof, Snapshot, prove};
pub use redact::redact;
pub use repair::{Repaired, repair};
pub use rework::{Rework, ReworkError, TurnAction, prompt_text, rework};
pub use saving::saving;
pub use split::{SplitError, SplitNote, split};
pub use strip::{Preset, Spared, Strip, spared, strip};
pub use uncompress::{Uncompress, UncompressError, Which, uncompress};
pub use write::Written;

use crate::client::check::{Case, Code, Finding, Judged, Verdict};
use crate::client::context::{Context, count_sent};
use crate::client::history::{History, Refusal, Rules, outline};
use crate::conversation::Conversation;
use crate::conversation::lineage::session_id;
use crate::conversation::table::{AnswerId, BlockId, RowId};
use crate::error::AtPath;
use crate::format::entry::Kind;
use crate::format::file::From;
use crate::format::input::Input;
use crate::format::json::quote;
use crate::format::secret::Cover;
use crate::format::time::Time;
use edit::{BlockEdit, Edit};
use redact::Covering;

/// A session before or after a change.
#[derive(Debug)]
pub struct Subject {
    case: Case,
    rules: Rules,
    found: Result<History, Refusal>,
    /// The verdict and findings, computed on first use.
    judged: OnceLock<Judged>,
    /// The tokens of what is sent, computed on first use.
    context: OnceLock<Context>,
}

impl Subject {
    /// Reads a session and judges it by the rules of a version.
    pub fn open(path: &Path, rules: Rules) -> crate::Result<Subject> {
        Subject::of_file(files::open(path).at(path)?, path, rules)
    }

    /// Like [`Subject::open`], with a file that is already open.
    pub fn of_file(file: File, path: &Path, rules: Rules) -> crate::Result<Subject> {
        let case = Case::open(file, path)?;
        let found = outline(&case.conversation, rules, Some("..."))?;
        Ok(Subject { case, rules, found, judged: OnceLock::new(), context: OnceLock::new() })
    }

    /// The verdict and findings.
    fn judged(&self) -> crate::Result<&Judged> {
        if let Some(judged) = self.judged.get() {
            return Ok(judged);
        }
        let found = self.found.as_ref().map_err(|refusal| *refusal);
        let judged = self.case.judge(self.rules, found)?;
        Ok(self.judged.get_or_init(|| judged))
    }

    /// The verdict and findings by the rules of another version.
    fn judged_as(&self, rules: Rules) -> crate::Result<Judged> {
        let found = outline(&self.case.conversation, rules, Some("..."))?;
        self.case.judge(rules, found.as_ref().map_err(|refusal| *refusal))
    }

    /// Whether it resumes.
    pub fn verdict(&self) -> crate::Result<Verdict> {
        Ok(self.judged()?.verdict)
    }

    /// Everything that is wrong, worst first.
    pub fn findings(&self) -> crate::Result<&[Finding]> {
        Ok(&self.judged()?.findings)
    }

    /// Like [`Subject::open`], and the branch that this version resumes is the live one.
    pub fn open_as(path: &Path, rules: Rules) -> crate::Result<Subject> {
        let mut subject = Subject::open(path, rules)?;
        subject.case.conversation.resume_as(rules);
        Ok(subject)
    }

    /// The tokens of what is sent; a refusal if nothing is.
    pub fn context(&self) -> crate::Result<Result<&Context, Refusal>> {
        let found = match &self.found {
            Ok(found) => found,
            Err(refusal) => return Ok(Err(*refusal)),
        };
        if let Some(context) = self.context.get() {
            return Ok(Ok(context));
        }
        let context = count_sent(&self.case.conversation, found, self.rules, None)?;
        Ok(Ok(self.context.get_or_init(|| context)))
    }

    /// The session itself.
    pub fn conversation(&self) -> &Conversation {
        &self.case.conversation
    }

    /// The current bytes of its file from an offset on, even if the file has been moved.
    pub fn rest(&self, from: u64) -> crate::Result<Vec<u8>> {
        self.case.conversation.with_file(|file| {
            let mut more = Vec::new();
            From::new(file, from).read_to_end(&mut more)?;
            Ok(more)
        })
    }

    /// The id that its records have.
    pub fn session_id(&self) -> String {
        let conversation = self.conversation();
        session_id(&conversation.path, &conversation.table)
    }

    /// Whether its clients keep a title also as the name of the agent: it has such a name, or its
    /// last client gives one.
    pub fn has_agent_name(&self) -> crate::Result<bool> {
        let conversation = self.conversation();
        let table = &conversation.table;
        if table.numbered().any(|(_, row)| row.kind == Kind::AgentName) {
            return Ok(true);
        }
        for (row, _) in table.numbered().rev().filter(|(_, row)| row.session.is_some()) {
            let version = conversation.look(row, |entry| {
                let version = entry.text("version")?;
                version.split('.').map(|part| part.parse().ok()).collect::<Option<Vec<u32>>>()
            })?;
            if let Some(version) = version {
                return Ok(version >= AGENT_NAMES.to_vec());
            }
        }
        Ok(false)
    }

    /// The records that are sent, and the compaction that they follow.
    fn sent(&self) -> (&[RowId], Option<RowId>) {
        match &self.found {
            Ok(found) => (&found.rows, found.boundary),
            Err(_) => (&[], None),
        }
    }
}

/// The first version that writes the names of agents.
const AGENT_NAMES: [u32; 3] = [2, 1, 92];

/// A plan: what happens to each line of a session.
#[derive(Debug)]
pub struct Change {
    goes: Vec<bool>,
    /// Those of them that the session has to which the others are added: references to them stay.
    elsewhere: Vec<RowId>,
    edits: HashMap<RowId, Edit>,
    /// New lines, by the record whose line they follow.
    behind: HashMap<RowId, Vec<Vec<u8>>>,
    /// New lines at the start of the file.
    start: Vec<Vec<u8>>,
    /// New lines at the end of the file.
    end: Vec<Vec<u8>>,
    /// Records of another file, after everything else.
    graft: Option<Box<Graft>>,
    scraps: Scraps,
    /// Whether the session becomes what it was before changes of ours.
    restores: Restores,
    /// What is hidden in all of it.
    covering: Option<Box<Covering>>,
    /// Everything that the plan does, as text.
    pub deeds: Vec<Deed>,
}

/// Whether a change only takes back changes of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Restores {
    Yes,
    No,
}

/// What happens to bytes that are not records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scraps {
    Stay,
    Go,
}

/// One thing that a change does.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Deed {
    /// The code of the finding that it fixes.
    pub code: Option<Code>,
    /// The number of the line that it is about.
    pub line: Option<u64>,
    /// What is done. Without a code it begins with a participle, `removed: …`, so that it can
    /// follow "would be".
    pub text: String,
}

/// Keeps everything. With new ids, the result is another session with the same content.
pub fn clone(subject: &Subject) -> Change {
    Change::new(&subject.case.conversation)
}

/// Writes a session with a change applied, and with new ids if `ids` is given.
pub fn write(
    subject: &Subject,
    change: &Change,
    ids: Option<&Renames>,
    out: &mut dyn Write,
) -> crate::Result<Written> {
    let mut written = write_file(&subject.case.conversation, change, ids, out)?;
    if let Some(graft) = &change.graft {
        let more = graft.write(ids, out)?;
        written.added += more.kept + more.altered + more.added;
        written.bytes += more.bytes;
    }
    Ok(written)
}

/// Replaces the ids in the bytes of a side file.
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
) -> crate::Result<Written> {
    write_file(conversation, &Change::new(conversation), Some(ids), out)
}

fn write_file(
    conversation: &Conversation,
    change: &Change,
    ids: Option<&Renames>,
    out: &mut dyn Write,
) -> crate::Result<Written> {
    conversation.with_file(|file| write::write(&conversation.table, file, change, ids, out))
}

impl Change {
    fn new(conversation: &Conversation) -> Change {
        Change {
            goes: vec![false; conversation.table.rows().len()],
            elsewhere: Vec::new(),
            edits: HashMap::new(),
            behind: HashMap::new(),
            start: Vec::new(),
            end: Vec::new(),
            graft: None,
            scraps: Scraps::Stay,
            restores: Restores::No,
            covering: None,
            deeds: Vec::new(),
        }
    }

    /// Gives the session a title: adds a record at the end, where clients look for it.
    pub fn title(&mut self, title: &str, session: &str) {
        let line = format!(
            r#"{{"type":"custom-title","customTitle":{},"sessionId":{}}}"#,
            quote(title),
            quote(session)
        );
        self.end.push(line.into_bytes());
    }

    /// Gives the session's agent a name, which newer clients keep beside the title.
    pub fn agent_name(&mut self, name: &str, session: &str) {
        let (name, session) = (quote(name), quote(session));
        let line = format!(r#"{{"type":"agent-name","agentName":{name},"sessionId":{session}}}"#);
        self.end.push(line.into_bytes());
    }

    /// Sets the tag of the session, as the client stores it: a record at the end. The last one
    /// counts, and an empty one removes the tag.
    pub fn tag(&mut self, tag: &str, session: &str) {
        let (tag, session) = (quote(tag), quote(session));
        let line = format!(r#"{{"type":"tag","tag":{tag},"sessionId":{session}}}"#);
        self.end.push(line.into_bytes());
    }

    /// The records of another file that it adds.
    pub fn graft(&self) -> Option<&Graft> {
        self.graft.as_deref()
    }

    /// What it hides, if it hides secrets.
    pub fn cover(&self) -> Option<&Arc<Cover>> {
        self.covering.as_ref().map(|covering| &covering.cover)
    }

    /// Whether it changes nothing.
    pub fn is_nothing(&self) -> bool {
        self.edits.is_empty()
            && self.covering.is_none()
            && self.behind.is_empty()
            && self.start.is_empty()
            && self.end.is_empty()
            && self.graft.is_none()
            && self.scraps == Scraps::Stay
            && !self.goes.contains(&true)
    }

    /// Whether the session becomes what it was before changes of ours. What was wrong with it then
    /// is wrong again.
    pub fn restores(&self) -> bool {
        self.restores == Restores::Yes
    }

    /// Whether the session contains messages, and the change would remove all of them.
    pub fn leaves_nothing(&self, conversation: &Conversation) -> bool {
        let is_said = |kind: Kind| matches!(kind, Kind::User | Kind::Assistant);
        let mut messages =
            conversation.table.numbered().filter(|(_, row)| is_said(row.kind) && !row.is_sidechain);
        self.goes.contains(&true) && messages.all(|(id, _)| self.goes(id))
    }

    /// Whether a block of the session is kept.
    pub fn keeps(&self, conversation: &Conversation, block: BlockId) -> bool {
        let row = conversation.table.block(block).row;
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

    /// The time that a record needs so that versions that continue from the newest record continue
    /// from it; `None` if its time is new enough.
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
            is_tree && !row.says_sidechain && row.uuid.is_some() && !self.goes(id)
        };
        let others = conversation.table.numbered().map(|(id, _)| id);
        let others = others.filter(|id| Some(*id) != last && is_candidate(*id));
        let newest = others.filter_map(|id| conversation.table.row(id).time).max()?;
        (Some(newest) >= time).then_some(Time(newest.0 + 1))
    }
}

/// The answer that a record belongs to, or whose calls it answers.
fn answer_of(conversation: &Conversation, row: RowId) -> Option<AnswerId> {
    let table = &conversation.table;
    let known = table.row(row);
    if known.answer.is_some() {
        return known.answer;
    }
    if known.input != Some(Input::ToolResult) {
        return None;
    }
    let mut calls = table.blocks_of(row).filter_map(|part| conversation.pairs.of(part));
    calls.find_map(|call| table.row(table.block(call).row).answer)
}
