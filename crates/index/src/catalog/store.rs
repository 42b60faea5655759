//! Writes what was read into the tables, and reads it back.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use rusqlite::{Connection, OpenFlags, Row, params};
use transcript::conversation::preview::Preview;
use transcript::conversation::usage::{MessageUsage, Usage};
use transcript::format::secret::{Mask, Redactor};
use transcript::format::time::Time;

use super::delta::Delta;
use super::list::{FoundFile, KnownFile, Stamp};
use super::schema::SPAN;
use super::{Catalog, PATIENCE};
use crate::words::Segmented;

/// A number as the database has it: with a sign.
pub(super) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The number of a file: that which it has, or a new one. `read_to` stays 0 until something of it
/// is written.
pub(super) fn number_of(
    db: &Connection,
    found: &FoundFile,
    session: &str,
    is_agent: bool,
) -> rusqlite::Result<i64> {
    let path = found.path.to_string_lossy();
    let known = db
        .prepare_cached("SELECT number FROM file WHERE path = ?")?
        .query_row([&path], |row| row.get(0));
    match known {
        Err(rusqlite::Error::QueryReturnedNoRows) => {}
        known => return known,
    }
    db.prepare_cached(
        "INSERT INTO file (home, project, path, session, is_agent, size, modified, inode, read_to, \
         lines, tail) VALUES (?, ?, ?, ?, ?, 0, 0, ?, 0, 0, x'')",
    )?
    .execute(params![
        found.home.to_string_lossy(),
        found.project.to_string_lossy(),
        path,
        session,
        is_agent,
        found.stamp.inode.cast_signed(),
    ])?;
    Ok(db.last_insert_rowid())
}

/// Corrects the session of a sub-agent's file, which may be known only from its answers.
pub(super) fn set_session(db: &Connection, number: i64, session: &str) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE file SET session = ?2 WHERE number = ?1 AND session <> ?2")?
        .execute(params![number, session])?;
    Ok(())
}

/// Removes all that is known of a file's contents.
pub(super) fn clear(db: &Connection, number: i64) -> rusqlite::Result<()> {
    let first = number * SPAN;
    db.prepare_cached("DELETE FROM text WHERE rowid BETWEEN ? AND ?")?
        .execute([first, first + SPAN - 1])?;
    for table in ["message", "touched"] {
        db.prepare_cached(&format!("DELETE FROM {table} WHERE file = ?"))?.execute([number])?;
    }
    clear_computed(db, number)?;
    db.prepare_cached(
        "UPDATE file SET records = 0, prompts = 0, read_to = 0, forked_from = NULL \
         WHERE number = ?",
    )?
    .execute([number])?;
    Ok(())
}

/// Removes the row of a file.
pub(super) fn remove(db: &Connection, number: i64) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM file WHERE number = ?")?.execute([number])?;
    Ok(())
}

/// Removes what was computed of a file because somebody asked for it.
pub(super) fn clear_computed(db: &Connection, number: i64) -> rusqlite::Result<()> {
    clear_turns(db, number)?;
    db.prepare_cached("DELETE FROM place WHERE file = ?")?.execute([number])?;
    db.prepare_cached("DELETE FROM verdict WHERE file = ?")?.execute([number])?;
    Ok(())
}

/// Removes the turns and calls of a file.
pub(super) fn clear_turns(db: &Connection, number: i64) -> rusqlite::Result<()> {
    for table in ["turn", "call", "turns_read"] {
        db.prepare_cached(&format!("DELETE FROM {table} WHERE file = ?"))?.execute([number])?;
    }
    db.prepare_cached("UPDATE message SET turn = NULL WHERE file = ? AND turn IS NOT NULL")?
        .execute([number])?;
    Ok(())
}

/// Writes what a piece of a file adds.
///
/// Of a file that is not known yet, everything is simply inserted. A statement that can change
/// several rows, or replace one, lets the text index write what it has collected so far: with one
/// of them for each file, the index would be built from thousands of small parts.
pub(super) fn add(db: &Connection, number: i64, delta: &Delta) -> rusqlite::Result<()> {
    if delta.from == 0 && is_known(db, number)? {
        clear(db, number)?;
    }
    let write = if delta.from == 0 { Write::Insert } else { Write::Merge };
    let mut texts = db.prepare_cached(match write {
        Write::Insert => "INSERT INTO text (rowid, words, parts, meta) VALUES (?, ?, ?, ?)",
        Write::Merge => {
            "INSERT OR REPLACE INTO text (rowid, words, parts, meta) VALUES (?, ?, ?, ?)"
        }
    })?;
    for row in &delta.texts {
        let rowid = number * SPAN + integer(row.record);
        texts.execute(params![rowid, row.text.words, row.text.parts, row.meta])?;
    }
    for message in &delta.messages {
        add_message(db, number, message, write)?;
    }
    let mut touched = db.prepare_cached(match write {
        Write::Insert => "INSERT INTO touched (file, path, tool, calls) VALUES (?, ?, ?, ?)",
        Write::Merge => {
            "INSERT INTO touched (file, path, tool, calls) VALUES (?, ?, ?, ?) \
             ON CONFLICT DO UPDATE SET calls = calls + excluded.calls"
        }
    })?;
    for ((path, tool), calls) in &delta.touched {
        touched.execute(params![number, path, tool, integer(*calls)])?;
    }
    db.prepare_cached(
        "UPDATE file SET read_to = ?2, lines = ?3, tail = ?4, records = records + ?5, \
         prompts = prompts + ?6, cwd = coalesce(cwd, ?7), \
         forked_from = coalesce(forked_from, ?8) WHERE number = ?1",
    )?
    .execute(params![
        number,
        integer(delta.to),
        integer(delta.lines),
        delta.tail,
        integer(delta.records),
        integer(delta.prompts),
        delta.cwd,
        delta.forked_from,
    ])?;
    Ok(())
}

/// Whether rows may already be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Write {
    Insert,
    Merge,
}

/// Whether something of a file was read.
fn is_known(db: &Connection, number: i64) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT read_to > 0 FROM file WHERE number = ?")?
        .query_row([number], |row| row.get(0))
}

/// By the rules of a session's table: one row for each message, with the figures of the record with
/// the most output, the last one on a tie.
fn add_message(
    db: &Connection,
    file: i64,
    message: &MessageUsage,
    write: Write,
) -> rusqlite::Result<()> {
    let usage = message.usage;
    let mut statement = db.prepare_cached(match write {
        Write::Insert => INSERT_MESSAGE,
        Write::Merge => MERGE_MESSAGE,
    })?;
    statement.execute(params![
        file,
        message.id,
        message.model,
        integer(usage.input),
        integer(usage.output),
        integer(usage.cache_5m),
        integer(usage.cache_1h),
        integer(usage.cache_read),
        integer(usage.searches),
        integer(usage.fetches),
        !usage.at_least,
        message.tier,
        message.speed,
        message.tool,
        message.records,
        message.time.map(|time| time.0),
        integer(message.line),
        message.session,
        message.is_sidechain,
    ])?;
    Ok(())
}

/// The statement that adds a message.
macro_rules! insert_message {
    ($conflict:literal) => {
        concat!(
            "INSERT INTO message (file, id, model, input, output, cache_5m, cache_1h, cache_read, \
             searches, fetches, is_final, tier, speed, tool, records, time, line, session, \
             is_sidechain) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, \
             ?15, ?16, ?17, ?18, ?19)",
            $conflict
        )
    };
}

const INSERT_MESSAGE: &str = insert_message!("");
const MERGE_MESSAGE: &str = insert_message!(
    " ON CONFLICT DO UPDATE SET model = coalesce(model, excluded.model), \
     input = iif(excluded.output >= output, excluded.input, input), \
     cache_5m = iif(excluded.output >= output, excluded.cache_5m, cache_5m), \
     cache_1h = iif(excluded.output >= output, excluded.cache_1h, cache_1h), \
     cache_read = iif(excluded.output >= output, excluded.cache_read, cache_read), \
     searches = iif(excluded.output >= output, excluded.searches, searches), \
     fetches = iif(excluded.output >= output, excluded.fetches, fetches), \
     tier = iif(excluded.output >= output, excluded.tier, tier), \
     speed = iif(excluded.output >= output, excluded.speed, speed), \
     output = max(output, excluded.output), is_final = max(is_final, excluded.is_final), \
     tool = coalesce(tool, excluded.tool), records = records + excluded.records, \
     time = coalesce(time, excluded.time)"
);

/// Writes that a file was read as a whole, and what it is about.
pub(super) fn finish(
    db: &Connection,
    number: i64,
    stamp: Stamp,
    seen: &Preview,
    redactor: &Redactor,
) -> rusqlite::Result<()> {
    let mut mask = Mask::new(redactor);
    let mut hidden = |text: &Option<String>| {
        // Hidden before it is cut: half of a secret looks like none.
        text.as_ref().map(|text| mask.text(text).chars().take(1_000).collect::<String>())
    };
    let (title, prompt) = (hidden(&seen.title), hidden(&seen.prompt));
    let (branch, cwd) = (hidden(&seen.branch), hidden(&seen.cwd));
    db.prepare_cached(
        "UPDATE file SET size = ?2, modified = ?3, inode = ?4, is_deleted = 0, title = ?5, \
         prompt = ?6, branch = ?7, version = ?8, started = ?9, ended = ?10, \
         cwd = coalesce(?11, cwd) WHERE number = ?1",
    )?
    .execute(params![
        number,
        integer(stamp.size),
        stamp.modified,
        stamp.inode.cast_signed(),
        title,
        prompt,
        branch,
        seen.version,
        seen.started.map(|time| time.0),
        seen.ended.map(|time| time.0),
        cwd,
    ])?;
    Ok(())
}

/// Keeps what a person may still look for in a session whose file is gone: its title and first
/// prompt, its dates and its usage.
pub(super) fn forget_text(db: &Connection, file: &KnownFile) -> rusqlite::Result<()> {
    let first = file.number * SPAN;
    db.prepare_cached("DELETE FROM text WHERE rowid BETWEEN ? AND ?")?
        .execute([first, first + SPAN - 1])?;
    let [title, prompt]: [Option<String>; 2] = db
        .prepare_cached("SELECT title, prompt FROM file WHERE number = ?")?
        .query_row([file.number], |row| Ok([row.get(0)?, row.get(1)?]))?;
    let mut text = Segmented::default();
    for one in [title, prompt].into_iter().flatten() {
        text.add(&one);
    }
    if text.len() > 0 && !file.is_agent {
        db.prepare_cached("INSERT INTO text (rowid, words, parts, meta) VALUES (?, ?, ?, ?)")?
            .execute(params![first, text.words, text.parts, "k_title r_client "])?;
    }
    clear_computed(db, file.number)?;
    db.prepare_cached("UPDATE file SET is_deleted = 1 WHERE number = ?")?.execute([file.number])?;
    Ok(())
}

impl Catalog {
    /// Passes on all messages: the number of their file, that of their turn if it was computed, and
    /// the message.
    pub(crate) fn each_message(
        &self,
        mut pass: impl FnMut(i64, Option<i64>, MessageUsage),
    ) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare_cached(MESSAGES)?;
        let mut rows = statement.query([])?;
        let mut shared = SharedTexts::default();
        while let Some(row) = rows.next()? {
            pass(row.get(18)?, row.get(19)?, message_of(row, &mut shared)?);
        }
        Ok(())
    }

    /// All messages with the numbers of their files, read in two parts at once: those of files up
    /// to this number, and those of the others.
    pub(super) fn messages_by_halves(
        &self,
        middle: i64,
    ) -> rusqlite::Result<[Vec<(i64, MessageUsage)>; 2]> {
        let read = |db: &Connection, range: &str| {
            let mut list = Vec::new();
            let mut statement = db.prepare(&format!("{MESSAGES} WHERE file {range} ?"))?;
            let mut rows = statement.query([middle])?;
            let mut shared = SharedTexts::default();
            while let Some(row) = rows.next()? {
                list.push((row.get(18)?, message_of(row, &mut shared)?));
            }
            Ok::<_, rusqlite::Error>(list)
        };
        let path = self.path.as_path();
        thread::scope(|scope| {
            let others = scope.spawn(|| {
                let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
                let db = Connection::open_with_flags(path, flags)?;
                db.busy_timeout(PATIENCE)?;
                read(&db, ">")
            });
            let first = read(&self.connection, "<=");
            let others = others.join().unwrap_or_else(|panic| resume_unwind(panic));
            Ok([first?, others?])
        })
    }

    /// Passes on the messages of a file.
    pub(super) fn messages_of(
        &self,
        file: i64,
        mut pass: impl FnMut(MessageUsage),
    ) -> rusqlite::Result<()> {
        let mut statement =
            self.connection.prepare_cached(&format!("{MESSAGES} WHERE file = ?"))?;
        let mut rows = statement.query([file])?;
        let mut shared = SharedTexts::default();
        while let Some(row) = rows.next()? {
            pass(message_of(row, &mut shared)?);
        }
        Ok(())
    }
}

const MESSAGES: &str = "SELECT id, model, input, output, cache_5m, cache_1h, cache_read, searches, fetches, is_final, \
     tier, speed, tool, records, time, line, session, is_sidechain, file, turn FROM message";

/// The last text of each column: neighbours mostly have the same.
#[derive(Default)]
struct SharedTexts {
    last: [Option<Arc<str>>; COLUMNS],
}

/// How many columns [`MESSAGES`] has.
const COLUMNS: usize = 20;

impl SharedTexts {
    fn get(&mut self, row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Arc<str>>> {
        let Some(text) = row.get_ref(at)?.as_str_or_null()? else { return Ok(None) };
        let last = &mut self.last[at];
        if last.as_deref() != Some(text) {
            *last = Some(text.into());
        }
        Ok(last.clone())
    }
}

fn message_of(row: &Row<'_>, shared: &mut SharedTexts) -> rusqlite::Result<MessageUsage> {
    let number = |at| Ok::<_, rusqlite::Error>(row.get::<_, i64>(at)?.cast_unsigned());
    let is_final: bool = row.get(9)?;
    Ok(MessageUsage {
        id: row.get(0)?,
        model: shared.get(row, 1)?,
        usage: Usage {
            input: number(2)?,
            output: number(3)?,
            cache_5m: number(4)?,
            cache_1h: number(5)?,
            cache_read: number(6)?,
            searches: number(7)?,
            fetches: number(8)?,
            at_least: !is_final,
        },
        tier: shared.get(row, 10)?,
        speed: shared.get(row, 11)?,
        tool: shared.get(row, 12)?,
        records: row.get(13)?,
        time: row.get::<_, Option<i64>>(14)?.map(Time),
        line: number(15)?,
        session: shared.get(row, 16)?,
        is_sidechain: row.get(17)?,
    })
}
