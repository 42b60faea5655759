//! Sessions that have records in common: forks, resumes that copied, continuations.
//!
//! Clients copy records into new files: for `--fork-session`, for resumes up to 2.0.x, when leaving
//! plan mode. The copies keep their ids, which connects the files. Which one is older is reported
//! only if there is evidence for it.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::conversation::Conversation;
use crate::conversation::id::is_uuid;
use crate::conversation::place::Session;
use crate::conversation::table::{Id, RowId, Table};
use crate::error::AtPath;
use crate::format::file::Lines;
use crate::names::named;

/// A session that is related to another, the subject.
#[derive(Debug)]
pub struct Relative {
    /// The related session.
    pub session: Session,
    /// Which of the two came first.
    pub relation: Relation,
    /// The evidence for it.
    pub sign: Sign,
    /// How many records are in both.
    pub shared: u64,
    /// How many records with an id are only in the related session.
    pub beyond: u64,
    /// The last of the shared records, in the file of the subject.
    pub last: Option<RowId>,
}

named! {
    /// Which of two sessions came first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Relation {
        /// The subject was made from the related session.
        From = "from",
        /// The related session was made from the subject.
        Into = "into",
        /// They have a common beginning.
        Beside = "beside",
    }
}

named! {
    /// The evidence for how two sessions are related.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Sign {
        /// Records say that they were copied (`forkedFrom`).
        ForkedFrom = "forked-from",
        /// The first record names the other session.
        FirstRecord = "first-record",
        /// Shared records still name the session that they come from.
        SessionIds = "session-ids",
        /// Shared records are older in one of them.
        Times = "times",
        /// All records of one are also in the other.
        Contained = "contained",
        /// Records are shared, but nothing shows which session came first.
        Shared = "shared",
    }
}

impl Relative {
    /// The relation in words, between the subject and the related session.
    pub fn words(&self) -> &'static str {
        match (self.relation, self.sign) {
            (Relation::From, Sign::FirstRecord) => "continues",
            (Relation::Into, Sign::FirstRecord) => "is continued by",
            (Relation::From, _) => "comes from",
            (Relation::Into, _) => "led to",
            (Relation::Beside, _) => "shares records with",
        }
    }
}

/// What was found in the other file.
#[derive(Default)]
struct Seen {
    shared: u64,
    beyond: u64,
    last: Option<RowId>,
    /// How many shared records name the other session in our file, and how many name us in the
    /// other file.
    names: [u64; 2],
    /// How many shared records are older in our file, and how many in the other.
    older: [u64; 2],
    forked_from_us: bool,
    begins_with_us: bool,
}

/// The ids of the sessions that the records of a file name, as their own or as the source they were
/// copied from, with the number of records; the most frequent first.
pub fn named_sessions(table: &Table) -> Vec<(String, u64)> {
    let mut counts: HashMap<Id, u64> = HashMap::new();
    let session_ids = table.rows().iter().filter_map(|row| row.session);
    for id in session_ids.chain(table.forked_from.iter().map(|(_, id)| *id)) {
        *counts.entry(id).or_default() += 1;
    }
    let mut named: Vec<_> =
        counts.into_iter().map(|(id, count)| (table.ids.text(id).to_owned(), count)).collect();
    named.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    named
}

/// The id of the session in a file, as its records have it: that of the file's name, unless that is
/// no id and no record has it. Files that a user named are called anything.
pub fn session_id(path: &Path, table: &Table) -> String {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let named = named_sessions(table);
    let is_its = is_uuid(&name) || named.iter().any(|(id, _)| *id == name);
    let most = named.into_iter().next().map(|(id, _)| id).filter(|_| !is_its);
    most.unwrap_or(name)
}

/// The sessions among `others` that are related to `session`.
pub fn relatives(
    session: &Session,
    conversation: &Conversation,
    others: &[Session],
) -> Vec<Relative> {
    let mut rows: HashMap<Id, RowId> = HashMap::new();
    for (id, row) in conversation.table.numbered() {
        if let Some(uuid) = row.uuid {
            rows.entry(uuid).or_insert(id);
        }
    }
    let total = rows.len() as u64;
    let mut found: Vec<Relative> = Vec::new();
    for other in others.iter().filter(|other| other.path != session.path) {
        // A file that cannot be read is reported elsewhere; here it is no evidence.
        if let Ok(seen) = look(session, conversation, &rows, other)
            && let Some((relation, sign)) = judge(conversation, other, &seen, total)
        {
            let (shared, beyond, last) = (seen.shared, seen.beyond, seen.last);
            found.push(Relative { session: other.clone(), relation, sign, shared, beyond, last });
        }
    }
    found
}

fn look(
    session: &Session,
    conversation: &Conversation,
    rows: &HashMap<Id, RowId>,
    other: &Session,
) -> crate::Result<Seen> {
    let mut seen = Seen::default();
    let mut lines = Lines::new(files::open(&other.path).at(&other.path)?);
    let mut is_first = true;
    let mut counted = HashSet::new();
    while let Some(line) = lines.next_line()? {
        for entry in line.records().filter_map(|record| record.entry) {
            let named = entry.session();
            if std::mem::take(&mut is_first) {
                seen.begins_with_us = named.as_deref() == Some(&session.id);
            }
            seen.forked_from_us |= entry.forked_from().as_deref() == Some(&session.id);
            let Some(uuid) = entry.uuid() else { continue };
            let Some(row) = conversation.table.ids.find(&uuid).and_then(|id| rows.get(&id)) else {
                seen.beyond += 1;
                continue;
            };
            if !counted.insert(*row) {
                continue;
            }
            seen.shared += 1;
            seen.last = seen.last.max(Some(*row));
            let here = conversation.table.row(*row);
            let named_here = conversation.table.text(here.session);
            seen.names[0] += u64::from(named_here == Some(&other.id));
            seen.names[1] += u64::from(named.as_deref() == Some(&session.id));
            if let (Some(ours), Some(theirs)) = (here.time, entry.time()) {
                seen.older[0] += u64::from(ours < theirs);
                seen.older[1] += u64::from(theirs < ours);
            }
        }
    }
    Ok(seen)
}

fn judge(
    conversation: &Conversation,
    other: &Session,
    seen: &Seen,
    total: u64,
) -> Option<(Relation, Sign)> {
    let table = &conversation.table;
    let is_other = |id: Id| other.id == table.ids.text(id);
    if table.forked_from.iter().any(|(_, from)| is_other(*from)) {
        return Some((Relation::From, Sign::ForkedFrom));
    }
    if seen.forked_from_us {
        return Some((Relation::Into, Sign::ForkedFrom));
    }
    // A sub-agent's file names the session that it belongs to.
    if !table.is_agent && table.rows().first().and_then(|row| row.session).is_some_and(is_other) {
        return Some((Relation::From, Sign::FirstRecord));
    }
    if seen.begins_with_us {
        return Some((Relation::Into, Sign::FirstRecord));
    }
    if seen.shared == 0 {
        return None;
    }
    let by = |counts: [u64; 2], sign| match counts[0].cmp(&counts[1]) {
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Greater => Some((Relation::From, sign)),
        std::cmp::Ordering::Less => Some((Relation::Into, sign)),
    };
    by(seen.names, Sign::SessionIds)
        .or_else(|| by([seen.older[1], seen.older[0]], Sign::Times))
        .or_else(|| match (seen.beyond, total - seen.shared.min(total)) {
            (0, 1..) => Some((Relation::From, Sign::Contained)),
            (1.., 0) => Some((Relation::Into, Sign::Contained)),
            _ => Some((Relation::Beside, Sign::Shared)),
        })
}

#[cfg(test)]
#[path = "lineage_tests.rs"]
mod tests;
