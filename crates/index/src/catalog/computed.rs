//! What is computed of sessions only when somebody asks for it: turns with their calls, and
//! verdicts.
//!
//! Invariant: every row carries what it was computed from (the state of the files; for verdicts
//! also the version of the rules), and is computed again if that is different now.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, params};
use sha2::{Digest, Sha256};
use transcript::client::check::{Report, check_with};
use transcript::client::history::Rules;
use transcript::conversation::place::agents;
use transcript::conversation::turn::{Step, Turn};
use transcript::conversation::{Conversation, Turns};
use transcript::format::secret::Redactor;
use transcript::format::threads;
use transcript::format::time::Time;
use transcript::{Session, conversation};

use super::list::{KnownFile, Stamp};
use super::store::{clear_turns, integer};
use super::{Catalog, CatalogError, lock};

/// A turn, as the catalog has it.
struct TurnRow {
    place: &'static str,
    branch: Option<u32>,
    turn: u32,
    line: u64,
    times: Option<[Time; 2]>,
    outcome: &'static str,
}

struct CallRow {
    /// The number of its turn in the file.
    turn: usize,
    tool: Option<String>,
    line: u64,
    time: Option<Time>,
    milliseconds: Option<i64>,
    is_error: Option<bool>,
    input_bytes: u64,
    result_bytes: Option<u64>,
}

/// What is computed of one file.
#[derive(Default)]
struct Computed {
    turns: Vec<TurnRow>,
    calls: Vec<CallRow>,
    /// Messages of the API, with the numbers of their turns.
    messages: Vec<(String, usize)>,
}

impl Computed {
    fn of(path: &Path) -> transcript::Result<Computed> {
        let conversation = Conversation::open(path)?;
        let Turns { live, dead, side, .. } = conversation.turns();
        let mut computed = Computed::default();
        computed.add(&conversation, &live, "live", None);
        for (place, chains) in [("abandoned", dead), ("sub-agent", side)] {
            for (chain, turns) in chains {
                computed.add(&conversation, &turns, place, Some(chain.0));
            }
        }
        Ok(computed)
    }

    fn add(
        &mut self,
        conversation: &Conversation,
        turns: &[Turn],
        place: &'static str,
        branch: Option<u32>,
    ) {
        let table = &conversation.table;
        for (turn, found) in (1..).zip(turns) {
            let number = self.turns.len();
            let line = table.row(found.rows[0]).line;
            let (times, outcome) = (found.times, found.outcome.name());
            self.turns.push(TurnRow { place, branch, turn, line, times, outcome });
            for step in &found.steps {
                if let Step::Answer { id, counts: true, .. } = step
                    && let Some(id) = table.text(table.answer(*id).id)
                {
                    self.messages.push((id.to_owned(), number));
                }
            }
            let calls = found.calls(table).filter(|call| !table.block(*call).is_repeat);
            self.calls.extend(calls.map(|call| call_row(conversation, call, number)));
        }
    }
}

fn call_row(
    conversation: &Conversation,
    call: conversation::table::BlockId,
    turn: usize,
) -> CallRow {
    let table = &conversation.table;
    let block = table.block(call);
    let row = table.row(block.row);
    let result = conversation.pairs.of(call);
    let ended = result.and_then(|result| table.row(table.block(result).row).time);
    CallRow {
        turn,
        tool: table.text(block.name).map(str::to_owned),
        line: row.line,
        time: row.time,
        milliseconds: row.time.zip(ended).map(|(start, end)| end.0.saturating_sub(start.0)),
        is_error: result.map(|result| table.block(result).is_error),
        input_bytes: table.size(call),
        result_bytes: result.map(|result| table.size(result)),
    }
}

/// How many files are written in one go.
const TOGETHER: usize = 200;

impl Catalog {
    /// Computes the turns and calls of sessions that have changed since that was last done.
    /// Sessions that cannot be read have none.
    /// `progress` gets the bytes of the files that are done, and of all.
    pub fn compute_turns(
        &mut self,
        homes: &[PathBuf],
        count: usize,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<(), CatalogError> {
        let sql = |error| self.sql(error);
        if self.without_turns(homes).map_err(sql)?.is_empty() {
            return Ok(());
        }
        let _lock = lock(self.path())?;
        let files = self.without_turns(homes).map_err(sql)?;
        let compute = |at: usize| {
            let file: &KnownFile = &files[at];
            // What is computed must be that of the rows.
            let is_same = fs::metadata(&file.path).is_ok_and(|now| Stamp::of(&now) == file.stamp);
            is_same.then(|| Computed::of(&file.path).unwrap_or_default())
        };
        let db = &self.connection;
        let (mut done, total) = (0, files.iter().map(|file| file.stamp.size).sum());
        let written = threads::in_order(files.len(), count, compute, |at, computed| {
            if at % TOGETHER == 0 {
                db.execute_batch(if at == 0 { "BEGIN" } else { "COMMIT; BEGIN" })?;
            }
            done += files[at].stamp.size;
            progress(done, total);
            computed.map_or(Ok(()), |computed| write_turns(db, &files[at], &computed))
        });
        self.commit(written).map_err(sql)
    }

    fn commit(&self, written: rusqlite::Result<()>) -> rusqlite::Result<()> {
        let db = &self.connection;
        if written.is_err() {
            // The first error says what is wrong.
            let _ = db.execute_batch("ROLLBACK");
        } else if !db.is_autocommit() {
            db.execute_batch("COMMIT")?;
        }
        written
    }

    /// The files whose turns are not known as they are now.
    pub(crate) fn without_turns(&self, homes: &[PathBuf]) -> rusqlite::Result<Vec<KnownFile>> {
        let mut known: HashMap<i64, Stamp> = HashMap::new();
        let mut statement =
            self.connection.prepare_cached("SELECT file, size, modified, inode FROM turns_read")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let [size, inode] =
                [row.get::<_, i64>(1)?, row.get::<_, i64>(3)?].map(i64::cast_unsigned);
            known.insert(row.get(0)?, Stamp { size, modified: row.get(2)?, inode });
        }
        let mut files = self.files(homes)?;
        files.retain(|file| !file.is_deleted && known.get(&file.number) != Some(&file.stamp));
        Ok(files)
    }

    /// Computes the verdicts of sessions that have changed, or that other rules judged. `progress`
    /// gets the bytes of the sessions that are done, and of all.
    pub fn compute_verdicts(
        &mut self,
        homes: &[PathBuf],
        redactor: &Arc<Redactor>,
        count: usize,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<(), CatalogError> {
        let sql = |error| self.sql(error);
        if self.without_verdict(homes).map_err(sql)?.is_empty() {
            return Ok(());
        }
        let _lock = lock(self.path())?;
        let files = self.without_verdict(homes).map_err(sql)?;
        let judge = |at: usize| {
            let session = Session::at(&files[at].0.path).ok()?;
            check_with(&session, agents(&session), Rules::newest(), None, redactor).ok()
        };
        let db = &self.connection;
        let (mut done, total) = (0, files.iter().map(|(file, _)| file.stamp.size).sum());
        let written = threads::in_order(files.len(), count, judge, |at, report| {
            if at % TOGETHER == 0 {
                db.execute_batch(if at == 0 { "BEGIN" } else { "COMMIT; BEGIN" })?;
            }
            let (file, stamp) = &files[at];
            done += file.stamp.size;
            progress(done, total);
            report.map_or(Ok(()), |report| write_verdict(db, file, stamp, &report))
        });
        self.commit(written).map_err(sql)
    }

    /// The sessions without a verdict on what they are now, with what stands for that.
    pub(crate) fn without_verdict(
        &self,
        homes: &[PathBuf],
    ) -> rusqlite::Result<Vec<(KnownFile, Vec<u8>)>> {
        let mut known: HashMap<i64, (Vec<u8>, String)> = HashMap::new();
        let mut statement =
            self.connection.prepare_cached("SELECT file, stamp, rules FROM verdict")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            known.insert(row.get(0)?, (row.get(1)?, row.get(2)?));
        }
        let files = self.files(homes)?;
        // A verdict is about a session with its sub-agents.
        let mut stamps: HashMap<(&Path, &str), Sha256> = HashMap::new();
        for file in files.iter().filter(|file| !file.is_deleted) {
            let Stamp { size, modified, inode } = file.stamp;
            let state = format!("{}\0{size} {modified} {inode}\0", file.path.display());
            stamps.entry((&file.project, &file.session)).or_default().update(state);
        }
        let mut found = Vec::new();
        for file in files.iter().filter(|file| !file.is_deleted && !file.is_agent) {
            let Some(stamp) = stamps.remove(&(file.project.as_path(), file.session.as_str()))
            else {
                continue;
            };
            let stamp = stamp.finalize()[..16].to_vec();
            let is_known = known
                .get(&file.number)
                .is_some_and(|(of, rules)| *of == stamp && *rules == rules_version());
            if !is_known {
                found.push((file.clone(), stamp));
            }
        }
        Ok(found)
    }
}

/// The version of the rules that verdicts are made by.
fn rules_version() -> String {
    format!("{} {}", env!("CARGO_PKG_VERSION"), Rules::newest().name())
}

fn write_turns(db: &Connection, file: &KnownFile, computed: &Computed) -> rusqlite::Result<()> {
    clear_turns(db, file.number)?;
    let mut insert = db.prepare_cached("INSERT INTO turn VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")?;
    for (number, row) in (0_i64..).zip(&computed.turns) {
        let times = row.times.map(|[start, end]| (start.0, end.0));
        insert.execute(params![
            file.number,
            number,
            row.place,
            row.branch,
            row.turn,
            integer(row.line),
            times.map(|times| times.0),
            times.map(|times| times.1),
            row.outcome,
        ])?;
    }
    let mut insert = db.prepare_cached("INSERT INTO call VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")?;
    for (number, row) in (0_i64..).zip(&computed.calls) {
        insert.execute(params![
            file.number,
            number,
            integer(row.turn as u64),
            row.tool,
            integer(row.line),
            row.time.map(|time| time.0),
            row.milliseconds,
            row.is_error,
            integer(row.input_bytes),
            row.result_bytes.map(integer),
        ])?;
    }
    let mut insert = db.prepare_cached("INSERT OR REPLACE INTO message_turn VALUES (?, ?, ?)")?;
    for (id, turn) in &computed.messages {
        insert.execute(params![file.number, id, integer(*turn as u64)])?;
    }
    let stamp = file.stamp;
    db.prepare_cached("INSERT INTO turns_read VALUES (?, ?, ?, ?)")?.execute(params![
        file.number,
        integer(stamp.size),
        stamp.modified,
        stamp.inode.cast_signed(),
    ])?;
    Ok(())
}

fn write_verdict(
    db: &Connection,
    file: &KnownFile,
    stamp: &[u8],
    report: &Report,
) -> rusqlite::Result<()> {
    let mut codes: Vec<&str> = Vec::new();
    for code in report.findings.iter().map(|found| found.code.name()) {
        if !codes.contains(&code) {
            codes.push(code);
        }
    }
    db.prepare_cached("INSERT OR REPLACE INTO verdict VALUES (?, ?, ?, ?, ?, ?, ?)")?.execute(
        params![
            file.number,
            stamp,
            rules_version(),
            report.version,
            report.verdict.name(),
            integer(report.reach.lost as u64),
            codes.join(" "),
        ],
    )?;
    Ok(())
}
