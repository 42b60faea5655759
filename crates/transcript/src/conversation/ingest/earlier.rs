//! Sessions that continue each other: leaving plan mode changes the session, and no hook runs.

use std::fs;
use std::time::Duration;

use crate::conversation::place::{Session, safe_name};
use crate::format::file::Lines;

/// How many earlier sessions are followed.
const LONGEST: usize = 16;

/// Whether an older session is over: nothing was written to it later than 10 seconds after the
/// newer one, which continues it, was created.
pub fn is_left(older: &Session, newer: &Session) -> bool {
    let born = fs::metadata(&newer.path).and_then(|found| found.created());
    born.is_ok_and(|born| older.modified < born + Duration::from_secs(10))
}

/// The earlier sessions that a session continues and that ended without a report, oldest first.
pub fn sessions_before(session: &Session) -> Vec<Session> {
    let mut found: Vec<Session> = Vec::new();
    let mut at = session.clone();
    while found.len() < LONGEST {
        let Some(name) = first_session(&at).filter(|name| at.id != name.as_str()) else { break };
        let path = at.path.with_file_name(format!("{name}.jsonl"));
        let Ok(older) = Session::at(&path) else { break };
        if older.id == session.id || found.iter().any(|known| known.id == older.id) {
            break;
        }
        found.push(older.clone());
        at = older;
    }
    found.reverse();
    found
}

/// The session that the first record of a file names.
fn first_session(session: &Session) -> Option<String> {
    let mut lines = Lines::new(files::open(&session.path).ok()?);
    let line = lines.next_line().ok()??;
    let entry = line.records().find_map(|record| record.entry)?;
    let name = entry.session()?.into_owned();
    // The name is used as a file name.
    (safe_name(&name) == name).then_some(name)
}
