//! Writes what was read into the tables, and reads it back.

use rusqlite::{Connection, params};
use transcript::conversation::preview::Preview;
use transcript::format::secret::{Mask, Redactor};

use super::delta::Delta;
use super::list::{FoundFile, KnownFile, Stamp};
use super::messages;
use super::schema::SPAN;
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
    for table in ["messages", "touched"] {
        db.prepare_cached(&format!("DELETE FROM {table} WHERE file = ?"))?.execute([number])?;
    }
    clear_computed(db, number)?;
    db.prepare_cached(
        "UPDATE file SET records = 0, prompts = 0, read_to = 0, forked_from = NULL, open_calls = x'' \
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
    for table in ["turn", "call", "message_turn", "turns_read"] {
        db.prepare_cached(&format!("DELETE FROM {table} WHERE file = ?"))?.execute([number])?;
    }
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
    messages::add(db, number, &delta.messages)?;
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
         forked_from = coalesce(forked_from, ?8), open_calls = ?9 WHERE number = ?1",
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
        delta.open_calls.to_bytes(),
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
    if !file.is_agent {
        add_title(db, file.number)?;
    }
    clear_computed(db, file.number)?;
    db.prepare_cached("UPDATE file SET is_deleted = 1, open_calls = x'' WHERE number = ?")?
        .execute([file.number])?;
    Ok(())
}

/// Makes the title and the first prompt of a session whose file is gone findable.
pub(super) fn add_title(db: &Connection, number: i64) -> rusqlite::Result<()> {
    let [title, prompt]: [Option<String>; 2] = db
        .prepare_cached("SELECT title, prompt FROM file WHERE number = ?")?
        .query_row([number], |row| Ok([row.get(0)?, row.get(1)?]))?;
    let mut text = Segmented::default();
    for one in [title, prompt].into_iter().flatten() {
        text.add(&one);
    }
    if text.len() > 0 {
        let first = number * SPAN;
        db.prepare_cached("INSERT INTO text (rowid, words, parts, meta) VALUES (?, ?, ?, ?)")?
            .execute(params![first, text.words, text.parts, "k_title r_client "])?;
    }
    Ok(())
}
