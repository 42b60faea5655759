//! Makes a catalog anew in place of one that cannot be used, and takes over what only that one
//! knows: sessions whose files are gone, and the limits that clients reported.
//!
//! Invariant: an old catalog is removed only when all of that was read.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params_from_iter};

use super::messages::{MessageList, damaged};
use super::{Catalog, CatalogError, beside, lock, schema, store};

/// What became of a catalog that was replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replaced {
    /// How many sessions whose files are gone are still known.
    pub kept: u64,
    /// The old catalog, if not all of them could be read.
    pub old: Option<PathBuf>,
}

/// How the names of old catalogs end.
const DAMAGED: &str = ".damaged";
const NEWER: &str = ".newer";

impl Catalog {
    /// Puts a new catalog in place of one that is damaged, or of a newer version. One that is fit
    /// stays: another process may have made it already; and so does any other file.
    pub fn replace(path: &Path) -> Result<Replaced, CatalogError> {
        let _lock = lock(path)?;
        let end = match Catalog::open(path) {
            Ok(catalog) if catalog.is_fit() => return Ok(Replaced::default()),
            _ if !schema::is_ours(path) => return Ok(Replaced::default()),
            Err(CatalogError::Newer(_)) => NEWER,
            Err(error) if !error.is_damage() => return Err(error),
            _ => DAMAGED,
        };
        let old = beside(path, end);
        remove(&old)?;
        for part in PARTS {
            let (from, to) = (beside(path, part), beside(&old, part));
            ignore_missing(fs::rename(&from, to), &from)?;
        }
        let new = Catalog::open(path)?;
        let (kept, is_all) = new.take_over(&old).map_err(|error| new.sql(error))?;
        if is_all {
            remove(&old)?;
        }
        Ok(Replaced { kept, old: (!is_all).then_some(old) })
    }

    /// Whether all of it can be read.
    fn is_fit(&self) -> bool {
        self.structure().is_ok_and(|wrong| wrong.is_empty())
            && self
                .message_lists()
                .is_ok_and(|lists| lists.iter().all(|(_, list)| list.list().is_some()))
    }

    /// Copies what can be read of another catalog and nowhere else. Returns how many sessions that
    /// are, and whether it is all.
    fn take_over(&self, old: &Path) -> rusqlite::Result<(u64, bool)> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let Ok(source) = Connection::open_with_flags(old, flags) else { return Ok((0, false)) };
        let db = &self.connection;
        db.execute_batch("BEGIN IMMEDIATE")?;
        let (mut numbers, mut kept) = (Vec::new(), 0);
        let mut is_all = gone(&source, &mut numbers).is_ok();
        for number in numbers {
            match copy(&source, db, number) {
                Ok(sessions) => kept += sessions,
                Err(_) => is_all = false,
            }
        }
        is_all &= copy_rows((&source, db), "limit_seen", "home, resets, seen, used", "").is_ok();
        db.execute_batch("COMMIT")?;
        Ok((kept, is_all))
    }
}

/// The numbers of files that are gone, as far as they can be read.
fn gone(source: &Connection, numbers: &mut Vec<i64>) -> rusqlite::Result<()> {
    let mut statement = source.prepare("SELECT number FROM file WHERE is_deleted")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        numbers.push(row.get(0)?);
    }
    Ok(())
}

/// What is copied of a file that is gone: tables, the column with its number, and all columns.
const COPIED: [(&str, &str, &str); 3] = [
    (
        "file",
        "number",
        "number, home, project, path, session, is_agent, size, modified, inode, read_to, lines, \
         tail, is_deleted, cwd, title, prompt, branch, version, started, ended, records, prompts, \
         forked_from",
    ),
    ("messages", "file", "file, count, list"),
    ("touched", "file", "file, path, tool, calls"),
];

/// Copies what is known of a file. Returns 1 if it is that of a session, not of a sub-agent.
fn copy(source: &Connection, db: &Connection, number: i64) -> rusqlite::Result<u64> {
    let list: Option<MessageList> = source
        .prepare_cached("SELECT list FROM messages WHERE file = ?")?
        .query_row([number], |row| row.get(0).map(MessageList))
        .optional()?;
    if list.is_some_and(|list| list.list().is_none()) {
        return Err(damaged());
    }
    for (table, key, columns) in COPIED {
        copy_rows((source, db), table, columns, &format!("WHERE {key} = {number}"))?;
    }
    let is_agent: bool =
        db.query_row("SELECT is_agent FROM file WHERE number = ?", [number], |row| row.get(0))?;
    if is_agent {
        return Ok(0);
    }
    store::add_title(db, number)?;
    Ok(1)
}

/// Copies the rows of a table that fit a condition.
fn copy_rows(
    (source, db): (&Connection, &Connection),
    table: &str,
    columns: &str,
    condition: &str,
) -> rusqlite::Result<()> {
    let mut select = source.prepare(&format!("SELECT {columns} FROM {table} {condition}"))?;
    let holes = vec!["?"; select.column_count()].join(", ");
    let mut insert =
        db.prepare_cached(&format!("INSERT OR REPLACE INTO {table} ({columns}) VALUES ({holes})"))?;
    let count = select.column_count();
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let values: rusqlite::Result<Vec<Value>> = (0..count).map(|at| row.get(at)).collect();
        insert.execute(params_from_iter(values?))?;
    }
    Ok(())
}

/// The files of a database.
const PARTS: [&str; 3] = ["-wal", "-shm", ""];

/// Removes a catalog.
fn remove(path: &Path) -> Result<(), CatalogError> {
    PARTS.iter().map(|part| beside(path, part)).try_for_each(|name| {
        let removed = fs::remove_file(&name);
        ignore_missing(removed, &name)
    })
}

/// Removes old catalogs that were kept, with all that they have.
pub(super) fn remove_old(path: &Path) -> Result<(), CatalogError> {
    [DAMAGED, NEWER].iter().try_for_each(|end| remove(&beside(path, end)))
}

fn ignore_missing(done: io::Result<()>, path: &Path) -> Result<(), CatalogError> {
    match done {
        Err(source) if source.kind() != ErrorKind::NotFound => {
            Err(CatalogError::Io { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}
