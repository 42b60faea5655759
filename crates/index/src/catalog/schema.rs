//! The tables, and how they are made.

use std::io;
use std::path::Path;

use rusqlite::Connection;

use super::{Catalog, CatalogError, messages, store};

/// "quip": says whose file it is.
pub(super) const APPLICATION: i32 = 0x7175_6970;
/// Changes with the tables. A catalog of an older version gets what it lacks ([`UPGRADES`]).
const VERSION: i32 = 10;

/// How many records of a file are in the text index. The number of a row is that of its file times
/// this, plus which record of the file it is: small differences take little space.
pub(crate) const SPAN: i64 = 1 << 20;

pub(super) const TABLES: &str = "
CREATE TABLE file (
    number INTEGER PRIMARY KEY,
    home TEXT NOT NULL,
    project TEXT NOT NULL,
    path TEXT NOT NULL UNIQUE,
    session TEXT NOT NULL,
    is_agent INTEGER NOT NULL,
    size INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    read_to INTEGER NOT NULL,
    lines INTEGER NOT NULL,
    tail BLOB NOT NULL,
    is_deleted INTEGER NOT NULL DEFAULT 0,
    cwd TEXT,
    title TEXT,
    prompt TEXT,
    branch TEXT,
    version TEXT,
    started INTEGER,
    ended INTEGER,
    records INTEGER NOT NULL DEFAULT 0,
    prompts INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE message (
    file INTEGER NOT NULL,
    id TEXT NOT NULL,
    model TEXT,
    input INTEGER NOT NULL,
    output INTEGER NOT NULL,
    cache_5m INTEGER NOT NULL,
    cache_1h INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    searches INTEGER NOT NULL,
    fetches INTEGER NOT NULL,
    is_final INTEGER NOT NULL,
    tier TEXT,
    speed TEXT,
    tool TEXT,
    records INTEGER NOT NULL,
    time INTEGER,
    line INTEGER NOT NULL,
    session TEXT,
    is_sidechain INTEGER NOT NULL,
    PRIMARY KEY (file, id)
) WITHOUT ROWID;
CREATE TABLE touched (
    file INTEGER NOT NULL,
    path TEXT NOT NULL,
    tool TEXT NOT NULL,
    calls INTEGER NOT NULL,
    PRIMARY KEY (file, path, tool)
) WITHOUT ROWID;
CREATE VIRTUAL TABLE text USING fts5(
    words, parts, meta,
    content='', contentless_delete=1,
    tokenize=\"unicode61 remove_diacritics 0 categories 'L* M* N* Co Pc'\"
);
";

/// What each version added to the one before, the second version first. The second reads files
/// again, and so do the fourth, the seventh, the eighth and the tenth: only rows of deleted
/// sessions cannot be made anew, and these stay ([`keep_deleted`]). Texts are words in lower case
/// with spaces between them, so the simplest tokenizer is enough.
const UPGRADES: [&str; 9] = [
    "
ALTER TABLE file ADD COLUMN forked_from TEXT;
ALTER TABLE message ADD COLUMN turn INTEGER;
CREATE TABLE turn (
    file INTEGER NOT NULL,
    number INTEGER NOT NULL,
    place TEXT NOT NULL,
    branch INTEGER,
    turn INTEGER NOT NULL,
    line INTEGER NOT NULL,
    started INTEGER,
    ended INTEGER,
    outcome TEXT NOT NULL,
    PRIMARY KEY (file, number)
) WITHOUT ROWID;
CREATE TABLE call (
    file INTEGER NOT NULL,
    number INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    tool TEXT,
    line INTEGER NOT NULL,
    time INTEGER,
    milliseconds INTEGER,
    is_error INTEGER,
    input_bytes INTEGER NOT NULL,
    result_bytes INTEGER,
    PRIMARY KEY (file, number)
) WITHOUT ROWID;
CREATE TABLE turns_read (
    file INTEGER PRIMARY KEY,
    size INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    inode INTEGER NOT NULL
);
CREATE TABLE verdict (
    file INTEGER PRIMARY KEY,
    stamp BLOB NOT NULL,
    rules TEXT NOT NULL,
    client TEXT NOT NULL,
    verdict TEXT NOT NULL,
    lost INTEGER NOT NULL,
    codes TEXT NOT NULL
);
CREATE TABLE limit_seen (
    resets INTEGER PRIMARY KEY,
    seen INTEGER NOT NULL,
    used REAL NOT NULL
);
INSERT INTO text (text, rank) VALUES ('hashsize', 67108864);
UPDATE file SET modified = -1, tail = x'' WHERE NOT is_deleted;
",
    "
CREATE TABLE place (
    file INTEGER PRIMARY KEY,
    size INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    records BLOB NOT NULL
);
",
    "
CREATE TABLE messages (
    file INTEGER PRIMARY KEY,
    count INTEGER NOT NULL,
    list BLOB NOT NULL
);
CREATE TABLE message_turn (
    file INTEGER NOT NULL,
    id TEXT NOT NULL,
    turn INTEGER NOT NULL,
    PRIMARY KEY (file, id)
) WITHOUT ROWID;
CREATE INDEX searched ON file (
    home, number, project, session, is_agent, path, cwd, branch, started, ended, is_deleted
);
DELETE FROM turns_read;
DROP TABLE text;
CREATE VIRTUAL TABLE text USING fts5(
    words, parts, meta,
    content='', contentless_delete=1,
    tokenize=\"ascii tokenchars '_'\"
);
INSERT INTO text (text, rank) VALUES ('hashsize', 67108864);
UPDATE file SET modified = -1, tail = x'' WHERE NOT is_deleted;
",
    "
ALTER TABLE limit_seen RENAME TO limit_of_all;
CREATE TABLE limit_seen (
    home TEXT NOT NULL,
    resets INTEGER NOT NULL,
    seen INTEGER NOT NULL,
    used REAL NOT NULL,
    PRIMARY KEY (home, resets)
) WITHOUT ROWID;
INSERT INTO limit_seen
    SELECT home, resets, seen, used FROM limit_of_all, (SELECT DISTINCT home FROM file);
DROP TABLE limit_of_all;
",
    "
CREATE INDEX recent ON file (home, modified);
CREATE INDEX of_session ON file (home, session);
",
    "
CREATE TABLE setting (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;
UPDATE file SET modified = -1, tail = x'' WHERE NOT is_deleted;
",
    "
ALTER TABLE file ADD COLUMN open_calls BLOB NOT NULL DEFAULT x'';
UPDATE file SET modified = -1, tail = x'' WHERE NOT is_deleted;
",
    "
DELETE FROM place;
DROP INDEX recent;
CREATE INDEX recent ON file (home, modified, ended);
",
    "
UPDATE file SET modified = -1, tail = x'' WHERE NOT is_deleted;
",
];

/// The version from which all messages of a file are one value.
const LISTS: i32 = 4;

/// The version from which these values have a hash.
const HASHES: i32 = 9;

/// Brings what is known of deleted sessions into the form of version 4.
fn keep_deleted(db: &Connection) -> rusqlite::Result<()> {
    messages::move_rows(db)?;
    let mut statement = db.prepare("SELECT number FROM file WHERE is_deleted AND NOT is_agent")?;
    let numbers: Vec<i64> =
        statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    numbers.into_iter().try_for_each(|number| store::add_title(db, number))?;
    drop(statement);
    db.execute_batch("DROP TABLE message")
}

impl Catalog {
    /// Makes the tables in a new file, and refuses one of another program or a newer version.
    pub(super) fn prepare(&self) -> Result<(), CatalogError> {
        let db = &self.connection;
        let number = |name: &str| -> rusqlite::Result<i32> {
            db.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0))
        };
        let both = || Ok([number("application_id")?, number("user_version")?]);
        let mut found: [i32; 2] = both().map_err(|e| self.sql(e))?;
        if found == [0, 0] {
            // Another process may be making it at this moment.
            found = self.create().and_then(|()| both()).map_err(|e| self.sql(e))?;
        }
        if found[0] == APPLICATION && (1..VERSION).contains(&found[1]) {
            found = self.upgrade().and_then(|()| both()).map_err(|e| self.sql(e))?;
        }
        match found {
            [APPLICATION, VERSION] => {}
            [APPLICATION, newer] if newer > VERSION => {
                return Err(CatalogError::Newer(self.path.clone()));
            }
            _ => return Err(CatalogError::Foreign(self.path.clone())),
        }
        let settings = "PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY;";
        db.execute_batch(settings).map_err(|e| self.sql(e))
    }

    fn create(&self) -> rusqlite::Result<()> {
        let db = &self.connection;
        db.execute_batch("PRAGMA journal_mode = WAL;")?;
        db.execute_batch("BEGIN IMMEDIATE;")?;
        // Another process may have been first.
        if is_empty(db)? {
            db.execute_batch(TABLES)?;
            db.execute_batch(&format!("PRAGMA application_id = {APPLICATION};"))?;
            add_since(db, 1)?;
        }
        db.execute_batch("COMMIT;")
    }

    fn upgrade(&self) -> rusqlite::Result<()> {
        let db = &self.connection;
        db.execute_batch("BEGIN IMMEDIATE;")?;
        let version = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        add_since(db, version)?;
        db.execute_batch("COMMIT;")
    }
}

/// Adds what versions after this one added.
fn add_since(db: &Connection, version: i32) -> rusqlite::Result<()> {
    for (added, tables) in (2..).zip(UPGRADES) {
        if added > version {
            db.execute_batch(tables)?;
        }
        if added == LISTS && added > version {
            keep_deleted(db)?;
        }
        if added == HASHES && (LISTS..HASHES).contains(&version) {
            messages::add_hashes(db)?;
        }
    }
    db.execute_batch(&format!("PRAGMA user_version = {VERSION};"))
}

/// Whether a file begins like a catalog.
pub(super) fn is_ours(path: &Path) -> bool {
    version_of(path).is_some()
}

/// Whether a file begins like a catalog of an older version.
pub(super) fn is_older(path: &Path) -> bool {
    version_of(path).is_some_and(|version| (1..VERSION).contains(&version))
}

/// The version of a catalog, by the first bytes of its file.
fn version_of(path: &Path) -> Option<i32> {
    let head = head(path).ok()?;
    let is_ours =
        head.starts_with(b"SQLite format 3\0") && head[68..72] == APPLICATION.to_be_bytes();
    let version = [head[60], head[61], head[62], head[63]];
    is_ours.then(|| i32::from_be_bytes(version))
}

/// How many bytes the head of a database has.
const HEAD: usize = 100;

/// The first bytes of a file.
///
/// If a process closes any handle of a file, it loses all its locks on that file, also those of a
/// database that it has open; another process would take the log away from under it. So a file that
/// was looked at stays open, once, as long as the process runs.
#[cfg(unix)]
fn head(path: &Path) -> io::Result<[u8; HEAD]> {
    use std::fs::File;
    use std::os::unix::fs::{FileExt, MetadataExt};
    use std::sync::{Mutex, PoisonError};
    static OPEN: Mutex<Vec<([u64; 2], File)>> = Mutex::new(Vec::new());
    let found = files::metadata(path)?;
    let of = [found.dev(), found.ino()];
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = open.iter().position(|(known, _)| *known == of);
    let at = if let Some(at) = known {
        at
    } else {
        open.push((of, files::open(path)?));
        open.len() - 1
    };
    let mut head = [0; HEAD];
    open[at].1.read_exact_at(&mut head, 0)?;
    Ok(head)
}

/// The first bytes of a file.
#[cfg(not(unix))]
fn head(path: &Path) -> io::Result<[u8; HEAD]> {
    let mut head = [0; HEAD];
    io::Read::read_exact(&mut files::open(path)?, &mut head)?;
    Ok(head)
}

fn is_empty(db: &Connection) -> rusqlite::Result<bool> {
    db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| Ok(row.get::<_, i64>(0)? == 0))
}
