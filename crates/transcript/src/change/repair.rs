//! What `check` finds, mended.
//!
//! Lines first (`lines`): every record on a line of its own, and nothing else. Then the conversation as it should be sent (`order`), a list of steps: what is lost is brought back, results stand behind
//! their calls (`calls`), prompts of the queue are among them (`queue`), what the API refuses goes or is made smaller (`content`). At last each step is hung on the one before it, which every version loads whole, and the end is made the
//! one that every version goes on from (`links`). Invariants: nothing is bridged across a compaction; what was said stays, but for what no request may have; a session that needs nothing is not touched; doing it again does nothing.

mod calls;
mod content;
mod lines;
mod links;
mod order;
mod queue;

use std::fs::File;
use std::io;

use hashbrown::HashMap;

use super::{Change, Subject, Written};
use crate::check::{Code, Judged, Severity};
use crate::conversation::Conversation;
use crate::entry::{Entry, Kind};
use crate::history::{OBSERVED, Rules};
use crate::json::{Json, quote};
use crate::table::RowId;
use crate::time::Time;

/// How much is mended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// Everything that can be.
    All,
    /// Everything but compactions, which stay.
    Compacted,
    /// Only lines: for a session in which more would do harm.
    Lines,
}

/// Plans the mending of a session. What is refused is told by the rules that the subject was judged by; how records hang together is made right for every version.
fn repair(subject: &Subject, level: Level) -> io::Result<Change> {
    let mut mending = Mending {
        subject,
        level,
        judged: subject.judged()?,
        conversation: &subject.case.conversation,
        change: Change::new(&subject.case.conversation),
        steps: Vec::new(),
        uuids: HashMap::new(),
        boundary: None,
        is_led_astray: false,
        joined: None,
    };
    mending.lines();
    if level != Level::Lines && (subject.found.is_ok() || mending.has_messages()) {
        mending.order()?;
        mending.calls()?;
        mending.content();
        mending.links()?;
    }
    mending.change.settle(subject)?;
    Ok(mending.change)
}

/// A session that is mended until nothing is left that can be.
#[derive(Debug)]
pub struct Mended {
    /// What is to be written; if that took more than one go, not of the session but of [`Mended::source`].
    pub change: Change,
    /// What is to be written from, if it is not the session itself.
    pub source: Option<Subject>,
    /// What became of the session's records.
    fates: Vec<Fate>,
    records: u64,
}

/// What became of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Kept,
    Altered,
    Added,
}

/// Some mends show what else is wrong. More goes than this were never needed.
const GOES: usize = 8;

/// Plans the mending of a session, goes through what comes out, and mends on, until nothing is left. `scratch` gives files that nobody else sees. What does harm is not done.
pub fn mend(
    before: &Subject,
    rules: Rules,
    scratch: &mut dyn FnMut() -> io::Result<File>,
) -> io::Result<Mended> {
    let records = before.case.conversation.table.rows().len();
    let mut mended = Mended {
        change: Change::new(&before.case.conversation),
        source: None,
        fates: vec![Fate::Kept; records],
        records: records as u64,
    };
    for go in 0..GOES {
        let now = mended.source.as_ref().unwrap_or(before);
        let Some((mut change, after)) = better(now, rules, scratch)? else { break };
        mended.fates = fates(&mended.fates, &change);
        if go == 0 {
            // The first is often the last.
            mended.change = change;
            mended.source = Some(after);
            continue;
        }
        let mut deeds = std::mem::take(&mut mended.change.deeds);
        deeds.append(&mut change.deeds);
        mended.change = Change::new(&after.case.conversation);
        mended.change.deeds = deeds;
        mended.source = Some(after);
    }
    // One go can be done on the session itself.
    if !mended.change.is_nothing() {
        mended.source = None;
    }
    Ok(mended)
}

/// The most that can be mended at once without harm, and what comes of it.
fn better(
    now: &Subject,
    rules: Rules,
    scratch: &mut dyn FnMut() -> io::Result<File>,
) -> io::Result<Option<(Change, Subject)>> {
    for level in [Level::All, Level::Compacted, Level::Lines] {
        let change = repair(now, level)?;
        if change.is_nothing() {
            continue;
        }
        let mut file = scratch()?;
        super::write(now, &change, None, &mut file)?;
        let after = Subject::of_file(file, &now.case.conversation.path, rules)?;
        let (old, new) = (now.judged()?, after.judged()?);
        // Records of which nothing may be sent.
        let rows = now.case.conversation.table.numbered();
        let gone = rows.filter(|(id, row)| {
            change.goes(*id) && matches!(row.kind, Kind::User | Kind::Assistant)
        });
        let is_undone = now.sent().1.is_some_and(|boundary| change.goes(boundary));
        let is_worse = new.verdict > old.verdict
            || new.reach.sent + gone.count() < old.reach.sent
            || new.reach.lost > old.reach.lost
            // Nothing came back that the compaction stood in front of.
            || (is_undone && new.reach.sent <= old.reach.sent)
            || !helps(now, &after, rules)?;
        if !is_worse {
            return Ok(Some((change, after)));
        }
    }
    Ok(None)
}

/// Whether some version resumes it better, and none of the newer ones less well. Older ones do not know how newer sessions hang together.
fn helps(now: &Subject, after: &Subject, rules: Rules) -> io::Result<bool> {
    let faults = |judged: &Judged| {
        let bad = judged.findings.iter().filter(|finding| finding.severity >= Severity::Warning);
        bad.map(|finding| finding.more + 1).sum::<u64>()
    };
    let mut helps = false;
    for (age, other) in OBSERVED.into_iter().rev().enumerate() {
        let (old, new) = if other == rules {
            (now.judged()?.clone(), after.judged()?.clone())
        } else {
            (now.judged_as(other)?, after.judged_as(other)?)
        };
        if age < NEWER && new.verdict > old.verdict {
            return Ok(false);
        }
        helps |= new.verdict < old.verdict
            || new.reach.lost < old.reach.lost
            || new.reach.sent > old.reach.sent
            || faults(&new) < faults(&old);
    }
    Ok(helps)
}

/// 2.1.45 and later.
const NEWER: usize = 3;

/// What became of the records of a session after one more change.
fn fates(before: &[Fate], change: &Change) -> Vec<Fate> {
    let mut after = Vec::with_capacity(before.len());
    for (row, fate) in (0..).map(RowId).zip(before) {
        if !change.goes(row) {
            let is_edited = change.edits.contains_key(&row) && *fate == Fate::Kept;
            after.push(if is_edited { Fate::Altered } else { *fate });
        }
        let added = change.behind.get(&row).map_or(0, Vec::len);
        after.extend(std::iter::repeat_n(Fate::Added, added));
    }
    after.extend(std::iter::repeat_n(Fate::Added, change.end.len()));
    after
}

impl Mended {
    /// What became of the records of the session itself, where what is written is not it.
    pub fn total(&self, written: Written) -> Written {
        if self.source.is_none() {
            return written;
        }
        let count = |wanted: Fate| self.fates.iter().filter(|fate| **fate == wanted).count() as u64;
        let (kept, altered) = (count(Fate::Kept), count(Fate::Altered));
        Written {
            kept,
            altered,
            dropped: self.records - kept - altered,
            added: count(Fate::Added) + written.added,
            ..written
        }
    }
}

/// One step of the conversation as it should be sent.
#[derive(Clone, Debug)]
struct Step {
    /// Its id.
    uuid: String,
    what: StepKind,
    time: Option<Time>,
}

#[derive(Clone, Debug)]
enum StepKind {
    /// A record of the file.
    Row(RowId),
    /// A new record, whose line stands behind that of another: what it says, as members.
    Made { behind: RowId, members: String },
}

impl Step {
    fn row(&self) -> Option<RowId> {
        match self.what {
            StepKind::Row(row) => Some(row),
            StepKind::Made { .. } => None,
        }
    }
}

struct Mending<'a> {
    subject: &'a Subject,
    level: Level,
    judged: &'a Judged,
    conversation: &'a Conversation,
    change: Change,
    steps: Vec<Step>,
    /// Ids of records that had none, or one that another has too.
    uuids: HashMap<RowId, String>,
    /// The compaction that the steps begin behind.
    boundary: Option<RowId>,
    /// The client would go on from somewhere else than the last step.
    is_led_astray: bool,
    /// The beginning that was hung on the end of another.
    joined: Option<RowId>,
}

impl Mending<'_> {
    /// Whether the client's request has such a fault that the API refuses it.
    fn is_rejected(&self, code: Code) -> bool {
        let mut found = self.judged.findings.iter();
        found.any(|finding| finding.code == code && finding.severity >= Severity::Rejected)
    }

    fn is_found(&self, code: Code) -> bool {
        self.judged.findings.iter().any(|finding| finding.code == code)
    }

    fn did(&mut self, code: Code, row: Option<RowId>, text: impl Into<String>) {
        let line = row.map(|row| self.conversation.table.row(row).line);
        self.change.did(Some(code), line, text);
    }

    fn uuid(&self, row: RowId) -> Option<String> {
        let stored_uuid = || {
            self.conversation.table.text(self.conversation.table.row(row).uuid).map(str::to_owned)
        };
        self.uuids.get(&row).cloned().or_else(stored_uuid)
    }

    fn step(&self, row: RowId) -> Option<Step> {
        let time = self.conversation.table.row(row).time;
        Some(Step { uuid: self.uuid(row)?, what: StepKind::Row(row), time })
    }

    /// An id for something that had none.
    fn made_id(&self, of: &str) -> String {
        let name = self.conversation.path.file_stem().unwrap_or_default().to_string_lossy();
        super::ids::made(&format!("{name}/{of}"))
    }

    /// A record like another one, with these members.
    fn record(
        &self,
        like: RowId,
        uuid: &str,
        parent: Option<&str>,
        time: Option<Time>,
        members: &str,
    ) -> io::Result<Vec<u8>> {
        let envelope = self.conversation.look(like, envelope)?;
        let parent = parent.map_or("null".to_owned(), quote);
        let time = time
            .map_or(String::new(), |time| format!(r#","timestamp":{}"#, quote(&time.to_string())));
        let record = format!(
            r#"{{"parentUuid":{parent},"isSidechain":false{envelope},"type":"user",{members},"uuid":{}{time}}}"#,
            quote(uuid)
        );
        Ok(record.into_bytes())
    }
}

/// What records of one session have in common.
fn envelope(entry: &Entry<'_>) -> String {
    let names = ["userType", "cwd", "sessionId", "version", "gitBranch"];
    let members = names.iter().filter_map(|name| {
        let value = String::from_utf8_lossy(entry.get(name).map(Json::raw)?).into_owned();
        Some(format!(r#","{name}":{value}"#))
    });
    members.collect()
}
