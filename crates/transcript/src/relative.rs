//! Sessions that have records in common: forks, resumes that copied, continuations.
//!
//! Clients copy records into new files: `--fork-session`, resumes up to 2.0.x, leaving plan mode. The copies keep their ids, so the files know
//! each other. Which is the older one is said only where something tells.

use std::collections::{HashMap, HashSet};
use std::io;

use crate::conversation::Conversation;
use crate::file::Lines;
use crate::place::Session;
use crate::table::{Id, RowId, Table};

/// A session that is related to another.
#[derive(Debug)]
pub struct Relative {
    /// The other session.
    pub session: Session,
    /// How it is related.
    pub relation: Relation,
    /// What tells so.
    pub sign: Sign,
    /// How many records are in both.
    pub shared: u64,
    /// How many records with ids only the other one has.
    pub beyond: u64,
    /// The last of the shared records, in the file that was asked about.
    pub last: Option<RowId>,
}

/// Which came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The one that was asked about comes from it.
    From,
    /// It comes from the one that was asked about.
    Into,
    /// They have a common beginning.
    Beside,
}

impl Relation {
    /// The name in output.
    pub fn name(self) -> &'static str {
        match self {
            Relation::From => "from",
            Relation::Into => "into",
            Relation::Beside => "beside",
        }
    }
}

/// What tells how two sessions are related.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// Records say that they were copied (`forkedFrom`).
    ForkedFrom,
    /// The first record names the other session.
    FirstRecord,
    /// Shared records still name the session that they come from.
    SessionIds,
    /// Shared records are older in one of them.
    Times,
    /// One has nothing that the other has not.
    Contained,
    /// Records are shared; nothing tells which came first.
    Shared,
}

impl Sign {
    /// The name in output.
    pub fn name(self) -> &'static str {
        match self {
            Sign::ForkedFrom => "forked-from",
            Sign::FirstRecord => "first-record",
            Sign::SessionIds => "session-ids",
            Sign::Times => "times",
            Sign::Contained => "contained",
            Sign::Shared => "shared",
        }
    }
}

/// What was seen in another file.
#[derive(Default)]
struct Seen {
    shared: u64,
    beyond: u64,
    last: Option<RowId>,
    /// Shared records that name us here and the other there, and the other way round.
    names: [u64; 2],
    /// Shared records that are older here, and there.
    older: [u64; 2],
    forked_from_us: bool,
    begins_with_us: bool,
}

/// The sessions that records of a file name, as their own or as what they were copied from, with the number of records; most first.
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

/// The sessions among `others` that are related to one.
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
        // A file that cannot be read is said to be so elsewhere; here it tells nothing.
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
) -> io::Result<Seen> {
    let mut seen = Seen::default();
    let mut lines = Lines::new(files::open(&other.path)?);
    let mut is_first = true;
    let mut counted = HashSet::new();
    while let Some(line) = lines.next_line()? {
        for entry in line.records().filter_map(|record| record.entry) {
            let named = entry.session();
            if std::mem::take(&mut is_first) {
                seen.begins_with_us = named.as_deref() == Some(&session.id);
            }
            let from = entry.get("forkedFrom").and_then(|from| from.get("sessionId")?.text());
            seen.forked_from_us |= from.as_deref() == Some(&session.id);
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
    let is_other = |id: Id| table.ids.text(id) == other.id;
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
#[path = "relative_tests.rs"]
mod tests;
