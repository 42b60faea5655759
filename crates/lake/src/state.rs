//! What was pushed to a target, and when it has to be pushed again.
//!
//! A file with one line for each session that was pushed, appended after its objects are in place.
//! Invariants: a line that is damaged or cut off counts as not there; without the file, everything
//! is pushed again, to the same objects. Only it knows what was erased; which calls belong to a
//! session that the client has deleted is in the lake, too (`recover`).

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use files::Durability;
use serde::{Deserialize, Serialize};

use crate::push::plain_name;

/// What was pushed of a session.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Record {
    /// The session.
    pub session: String,
    /// What it was made from; empty if the session was erased and stays away.
    pub print: String,
    /// Its name in the names of objects, if that is not the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The folder of its day.
    #[serde(default)]
    pub day: String,
    /// The project's identity, which may be impossible to find out later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Its own transcript was there, and not only files of its sub-agents.
    #[serde(default)]
    pub has_transcript: bool,
    /// The calls that are its own and no copies: a number stands for the id of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<u64>,
    /// Stands for what was left out: the content tier and the rules for secrets.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hides: String,
    /// What stood for each of its files, if it had sub-agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<u64>,
    /// The hash and the size of each table's object.
    #[serde(default)]
    pub objects: BTreeMap<String, (String, u64)>,
}

impl Record {
    /// Its name in the names of objects.
    pub(crate) fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| plain_name(&self.session))
    }

    /// Whether the session was erased and is not to be pushed unless it is named.
    pub fn is_erased(&self) -> bool {
        self.print.is_empty()
    }
}

/// What was pushed to one target.
#[derive(Debug)]
pub struct State {
    path: PathBuf,
    known: HashMap<String, Record>,
    /// Nothing is known of earlier pushes: there may have been some.
    pub is_new: bool,
    log: Option<File>,
}

/// No state is longer: a million sessions.
const LONGEST: u64 = 1 << 30;

impl State {
    /// Reads a state. Lines that are replaced by later ones are dropped from the file.
    pub fn open(path: &Path) -> io::Result<State> {
        let text = match files::read(path, LONGEST) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let (mut known, mut lines) = (HashMap::new(), 0_usize);
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            lines += 1;
            if let Ok(record) = serde_json::from_slice::<Record>(line) {
                known.insert(record.session.clone(), record);
            }
        }
        let state = State {
            path: path.to_owned(),
            is_new: known.values().all(Record::is_erased),
            known,
            log: None,
        };
        let is_ragged = text.last().is_some_and(|byte| *byte != b'\n');
        if is_ragged || lines > 2 * state.known.len() + 100 {
            state.rewrite()?;
        }
        Ok(state)
    }

    fn rewrite(&self) -> io::Result<()> {
        let mut records: Vec<&Record> = self.known.values().collect();
        records.sort_by(|one, other| one.session.cmp(&other.session));
        let mut text = Vec::new();
        for record in records {
            serde_json::to_writer(&mut text, record)?;
            text.push(b'\n');
        }
        files::put(&self.path, &text, Durability::Process)
    }

    /// What was pushed of a session.
    pub fn of(&self, session: &str) -> Option<&Record> {
        self.known.get(session)
    }

    /// Everything that was pushed.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.known.values()
    }

    /// Remembers what was pushed.
    pub fn add(&mut self, record: Record) -> io::Result<()> {
        let mut line = serde_json::to_vec(&record)?;
        line.push(b'\n');
        let log = match &mut self.log {
            Some(log) => log,
            None => self.log.insert(files::append_private(&self.path)?),
        };
        log.write_all(&line)?;
        self.known.insert(record.session.clone(), record);
        Ok(())
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
