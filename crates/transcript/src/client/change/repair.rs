//! Repairs what `check` finds.
//!
//! First the lines (`lines`): each record on its own line, and nothing else. Then the conversation
//! as it should be sent (`order`), as a list of steps: lost records are restored, results follow
//! their calls (`calls`), prompts from the queue are inserted (`queue`), and what the API refuses
//! is removed or made smaller (`content`). Finally, the parent of each step becomes the step before
//! it, which every version loads completely, and the last step becomes the end that every version
//! continues from (`links`). Invariants: nothing is bridged across a compaction; everything that
//! was said stays, except what no request may contain; a session that needs no repair is not
//! touched; a second repair does nothing.

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
use crate::client::check::{Code, Judged, Severity};
use crate::client::history::Rules;
use crate::conversation::Conversation;
use crate::conversation::table::RowId;
use crate::format::entry::{Entry, Kind};
use crate::format::json::{Json, quote};
use crate::format::time::Time;

/// How much is repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// Everything that can be repaired.
    All,
    /// Everything, but compactions stay.
    Compacted,
    /// Only lines: for a session where more would do harm.
    Lines,
}

/// Plans one round of repairs. What the API refuses depends on the rules that the subject was
/// judged by. Links between records are repaired for every version.
fn plan(subject: &Subject, level: Level) -> crate::Result<Change> {
    let mut repairing = Repairing {
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
    repairing.lines();
    if level != Level::Lines && (subject.found.is_ok() || repairing.has_messages()) {
        repairing.order()?;
        repairing.calls()?;
        repairing.content();
        repairing.links()?;
    }
    repairing.change.relink(subject)?;
    Ok(repairing.change)
}

/// A session that is repaired until nothing repairable is left.
#[derive(Debug)]
pub struct Repaired {
    /// The change to write. It applies to [`Repaired::source`] if there is one, otherwise to the
    /// session itself.
    pub change: Change,
    /// The intermediate result that the change applies to, if there was more than one round.
    pub source: Option<Subject>,
    /// What happened to each record.
    fates: Vec<Fate>,
    records: u64,
}

/// What happened to one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Kept,
    Altered,
    Added,
}

/// How many rounds there are at most: a repair can reveal another problem. More were never needed.
const GOES: usize = 8;

/// Plans the repair of a session: repairs it, checks the result, and repairs that again, until
/// nothing repairable is left. `scratch` creates temporary files that no other process sees. A
/// repair that would do harm is not made.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("0a1b2c3d.jsonl");
/// # let line = r#"{"type":"user","uuid":"a","message":{"role":"user","content":"hello"}}"#;
/// # std::fs::write(&path, format!("{line}\n"))?;
/// use transcript::client::change::{self, Subject};
/// use transcript::client::history::Rules;
///
/// let subject = Subject::open(&path, Rules::newest())?;
/// let repaired = change::repair(&subject, Rules::newest(), &mut tempfile::tempfile)?;
/// for deed in &repaired.change.deeds {
///     println!("line {:?}: {}", deed.line, deed.text);
/// }
/// let mut result = Vec::new();
/// let source = repaired.source.as_ref().unwrap_or(&subject);
/// change::write(source, &repaired.change, None, &mut result)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn repair(
    before: &Subject,
    rules: Rules,
    scratch: &mut dyn FnMut() -> io::Result<File>,
) -> crate::Result<Repaired> {
    let records = before.case.conversation.table.rows().len();
    let mut repaired = Repaired {
        change: Change::new(&before.case.conversation),
        source: None,
        fates: vec![Fate::Kept; records],
        records: records as u64,
    };
    for go in 0..GOES {
        let now = repaired.source.as_ref().unwrap_or(before);
        let Some((mut change, after)) = better(now, rules, scratch)? else { break };
        repaired.fates = fates(&repaired.fates, &change);
        if go == 0 {
            // Usually, the first round is the last.
            repaired.change = change;
            repaired.source = Some(after);
            continue;
        }
        let mut deeds = std::mem::take(&mut repaired.change.deeds);
        deeds.append(&mut change.deeds);
        repaired.change = Change::new(&after.case.conversation);
        repaired.change.deeds = deeds;
        repaired.source = Some(after);
    }
    // A single round applies to the session itself.
    if !repaired.change.is_nothing() {
        repaired.source = None;
    }
    Ok(repaired)
}

/// The most extensive round of repairs that does no harm, and its result.
fn better(
    now: &Subject,
    rules: Rules,
    scratch: &mut dyn FnMut() -> io::Result<File>,
) -> crate::Result<Option<(Change, Subject)>> {
    for level in [Level::All, Level::Compacted, Level::Lines] {
        let change = plan(now, level)?;
        if change.is_nothing() {
            continue;
        }
        let mut file = scratch()?;
        super::write(now, &change, None, &mut file)?;
        let after = Subject::of_file(file, &now.case.conversation.path, rules)?;
        let (old, new) = (now.judged()?, after.judged()?);
        // Dropped messages, which no request may contain.
        let rows = now.case.conversation.table.numbered();
        let gone = rows.filter(|(id, row)| {
            change.goes(*id) && matches!(row.kind, Kind::User | Kind::Assistant)
        });
        let is_undone = now.sent().1.is_some_and(|boundary| change.goes(boundary));
        let is_worse = new.verdict > old.verdict
            || new.reach.sent + gone.count() < old.reach.sent
            || new.reach.lost > old.reach.lost
            // Removing the compaction brought no messages back.
            || (is_undone && new.reach.sent <= old.reach.sent)
            || !helps(now, &after, rules)?;
        if !is_worse {
            return Ok(Some((change, after)));
        }
    }
    Ok(None)
}

/// Whether some version resumes the session better, and none of the newer versions resumes it
/// worse. Older versions do not know how newer sessions are linked.
fn helps(now: &Subject, after: &Subject, rules: Rules) -> crate::Result<bool> {
    let faults = |judged: &Judged| {
        let bad = judged.findings.iter().filter(|finding| finding.severity >= Severity::Warning);
        bad.map(|finding| finding.more + 1).sum::<u64>()
    };
    let mut helps = false;
    for (age, other) in Rules::landmarks().into_iter().rev().enumerate() {
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

/// How many of the newest versions must not resume it worse: 2.1.45 and later.
const NEWER: usize = 3;

/// What happened to each record after one more change.
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

impl Repaired {
    /// What happened to the session's own records, if the change was written from an intermediate
    /// result.
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
    /// The id of its record.
    uuid: String,
    what: StepKind,
    time: Option<Time>,
}

#[derive(Clone, Debug)]
enum StepKind {
    /// A record of the file.
    Row(RowId),
    /// A new record: the record whose line it follows, and its content as JSON members.
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

struct Repairing<'a> {
    subject: &'a Subject,
    level: Level,
    judged: &'a Judged,
    conversation: &'a Conversation,
    change: Change,
    steps: Vec<Step>,
    /// New ids for records that had none, or that shared theirs with another record.
    uuids: HashMap<RowId, String>,
    /// The compaction that the steps follow.
    boundary: Option<RowId>,
    /// The client would continue from a record other than the last step.
    is_led_astray: bool,
    /// The root that now continues from the end of another root's conversation.
    joined: Option<RowId>,
}

impl Repairing<'_> {
    /// Whether the API would refuse the client's request for that reason.
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

    /// An id for a record that had none.
    fn made_id(&self, of: &str) -> String {
        let name = self.conversation.path.file_stem().unwrap_or_default().to_string_lossy();
        super::ids::made(&format!("{name}/{of}"))
    }

    /// A new record with these members, and with the common members of a similar record.
    fn record(
        &self,
        like: RowId,
        uuid: &str,
        parent: Option<&str>,
        time: Option<Time>,
        members: &str,
    ) -> crate::Result<Vec<u8>> {
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

/// The members that all records of a session have in common.
pub(super) fn envelope(entry: &Entry<'_>) -> String {
    let names = ["userType", "cwd", "sessionId", "version", "gitBranch"];
    let members = names.iter().filter_map(|name| {
        let value = String::from_utf8_lossy(entry.get(name).map(Json::raw)?).into_owned();
        Some(format!(r#","{name}":{value}"#))
    });
    members.collect()
}
