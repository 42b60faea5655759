//! Recognizes turns that several files contain, and decides which file reports them.
//!
//! A fork begins with a copy of the session that it was made from, and so do sessions that older
//! clients resumed. Copied records keep their ids. Whether they name the old or the new session,
//! and whether they keep their times, depends on the client's version. So a copy is recognized by
//! its ids, and reported by the file in which it was first recorded: the file that its records
//! name; or, of the files that begin with the same record, the one that the records themselves show
//! to be first; or, if they do not show it, the oldest. Invariant: only one file reports a turn, as
//! long as that file exists.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::fs::{self};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::conversation::id::SessionId;
use crate::conversation::place::{Agent, Beside, Session, agents_among, sessions_in};
use crate::conversation::table::{Id, RowId, Table};
use crate::format::file::Lines;

/// The sessions from which a session may have copied records.
#[derive(Debug, Default)]
pub struct Copied {
    from: Vec<Source>,
}

#[derive(Debug)]
struct Source {
    session: SessionId,
    table: Table,
    records: HashMap<Id, RowId>,
    /// Whether it begins with the same record and is older.
    is_older: bool,
}

impl Copied {
    /// Whether another session reports the record with this id. `named` is the session that the
    /// copy names.
    pub fn has(&self, record: &str, named: Option<&str>) -> bool {
        self.from.iter().any(|source| {
            let id = source.table.ids.find(record);
            let Some(row) = id.and_then(|id| source.records.get(&id)) else { return false };
            // A file whose record names another session does not report it: two files could wait
            // for each other.
            let there = source.table.text(source.table.row(*row).session);
            let is_own = there.is_none_or(|there| source.session == there);
            is_own && (source.is_older || named == Some(source.session.as_str()))
        })
    }
}

/// Finds the sources of copies, and the files of each session's sub-agents. Each project's folder
/// is searched once.
#[derive(Debug, Default)]
pub struct Origins {
    projects: HashMap<PathBuf, Vec<Head>>,
    beside: HashMap<PathBuf, Beside>,
}

#[derive(Debug)]
struct Head {
    session: Session,
    /// The id of its first record that has one.
    first: Option<String>,
    born: SystemTime,
}

impl Origins {
    /// The files of a session's sub-agents.
    pub fn agents(&mut self, session: &Session) -> Vec<Agent> {
        let folder = session.path.parent().unwrap_or(Path::new("")).to_owned();
        let beside = self.beside.entry(folder);
        agents_among(session, beside.or_insert_with_key(|folder| Beside::in_project(folder)))
    }

    /// The sessions from which a session has copied records.
    pub fn of(&mut self, session: &Session, session_table: &Table) -> Copied {
        let folder = session.path.parent().unwrap_or(Path::new("")).to_owned();
        let heads = self.projects.entry(folder).or_insert_with_key(|folder| {
            sessions_in(folder).into_iter().filter_map(Head::of).collect()
        });
        let Some(head) = heads.iter().find(|head| head.session.path == session.path) else {
            return Copied::default();
        };
        let named: HashSet<&str> =
            session_table.rows().iter().filter_map(|row| session_table.text(row.session)).collect();
        let others = heads.iter().filter(|other| other.session.id != session.id);
        let from = others.filter_map(|other| {
            let is_twin = head.first.is_some() && other.first == head.first;
            if !is_twin && !named.contains(other.session.id.as_str()) {
                return None;
            }
            let table = Table::read(Lines::new(files::open(&other.session.path).ok()?)).ok()?;
            let records = table.numbered().filter_map(|(id, row)| Some((row.uuid?, id))).collect();
            let mut source =
                Source { session: other.session.id.clone(), table, records, is_older: false };
            let by_age = || {
                let age = |head: &Head| (head.born, head.session.id.clone());
                age(other).cmp(&age(head))
            };
            source.is_older = is_twin && source.compare(session_table).then_with(by_age).is_lt();
            Some(source)
        });
        Copied { from: from.collect() }
    }
}

impl Source {
    /// Which of two files with the same records was first, judging by the records: the one in which
    /// they are older; else the one with more lines between them, which a copy leaves out.
    fn compare(&self, table: &Table) -> Ordering {
        let (mut times, mut last) = (Ordering::Equal, Ordering::Equal);
        for row in table.rows() {
            let id = table.text(row.uuid).and_then(|uuid| self.table.ids.find(uuid));
            let Some(there) = id.and_then(|id| self.records.get(&id)) else { continue };
            let there = self.table.row(*there);
            times = times.then(there.time.cmp(&row.time));
            last = row.line.cmp(&there.line);
        }
        times.then(last)
    }
}

impl Head {
    fn of(session: Session) -> Option<Head> {
        let found = fs::metadata(&session.path).ok()?;
        let born = found.created().unwrap_or(session.modified);
        let mut lines = Lines::new(files::open(&session.path).ok()?);
        let mut first = None;
        // Only a line or two precede the conversation.
        for _ in 0..8 {
            let Ok(Some(line)) = lines.next_line() else { break };
            let mut ids = line.records().filter_map(|record| {
                record.entry.and_then(|entry| Some(entry.uuid()?.into_owned()))
            });
            first = ids.next();
            if first.is_some() {
                break;
            }
        }
        Some(Head { session, first, born })
    }
}
