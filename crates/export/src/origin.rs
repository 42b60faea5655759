//! Where turns come from that stand in several files.
//!
//! A fork begins with a copy of the session that it was made of, and newer clients write the new session's id into the copied records: nothing in them tells. But they keep their ids, so the files
//! begin with the same record, and the older file is where it was said. Invariant: a turn is counted once, however many sessions go on from it, as long as the session that it was said in is still there.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use transcript::file::Lines;
use transcript::place::{Session, sessions_in};
use transcript::table::Table;

/// The sessions that a session has copies from.
#[derive(Debug, Default)]
pub struct Copied {
    /// The oldest first.
    from: Vec<(String, Table)>,
}

impl Copied {
    /// The session that a record was said in, by its id; nothing if it is no copy.
    pub fn from(&self, record: &str) -> Option<&str> {
        let has = |table: &Table| table.ids.find(record).is_some();
        self.from.iter().find(|(_, table)| has(table)).map(|(session, _)| session.as_str())
    }
}

/// Finds where copies come from. Each project's folder is looked through once.
#[derive(Debug, Default)]
pub struct Origins {
    projects: HashMap<PathBuf, Vec<Head>>,
}

#[derive(Debug)]
struct Head {
    session: Session,
    /// The id of its first record that has one.
    first: Option<String>,
    born: SystemTime,
}

impl Origins {
    /// What a session has copies from.
    pub fn of(&mut self, session: &Session) -> Copied {
        let folder = session.path.parent().unwrap_or(Path::new("")).to_owned();
        let heads = self.projects.entry(folder).or_insert_with_key(|folder| {
            sessions_in(folder).into_iter().filter_map(Head::of).collect()
        });
        let Some(own) = heads.iter().find(|head| head.session.path == session.path) else {
            return Copied::default();
        };
        let age = |head: &Head| (head.born, head.session.id.clone());
        let mut older: Vec<&Head> = heads
            .iter()
            .filter(|head| own.first.is_some() && head.first == own.first && age(head) < age(own))
            .collect();
        older.sort_by_key(|head| age(head));
        let read = older.into_iter().filter_map(|head| {
            let table = Table::read(Lines::new(File::open(&head.session.path).ok()?)).ok()?;
            Some((head.session.id.clone(), table))
        });
        Copied { from: read.collect() }
    }
}

impl Head {
    fn of(session: Session) -> Option<Head> {
        let found = fs::metadata(&session.path).ok()?;
        let born = found.created().unwrap_or(session.modified);
        let mut lines = Lines::new(File::open(&session.path).ok()?);
        let mut first = None;
        // What stands before the conversation is a line or two.
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
