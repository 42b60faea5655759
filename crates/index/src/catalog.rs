//! The catalog: a database file with what is known of all sessions, so that they can be searched
//! and counted without reading them again.
//!
//! Invariants: deleting it loses nothing that the transcripts still have; it is never under a
//! Claude home; it has no second copy of texts, only their words, and no secret that
//! `transcript::format::secret` finds; what was read is committed together with how far it was
//! read, so it can be interrupted at any point.

mod calls;
mod computed;
mod delta;
mod forget;
mod grown;
mod known;
mod ledger;
mod list;
mod messages;
mod places;
mod refresh;
mod replace;
mod room;
mod rules;
mod schema;
mod store;
mod varint;
mod verify;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use thiserror::Error;
use transcript::conversation::place::Home;

pub(crate) use calls::OpenCalls;
pub(crate) use delta::{filter_word, meta};
pub(crate) use grown::grown;
pub use known::KnownSession;
pub(crate) use list::KnownFile;
pub use list::agent_of;
pub(crate) use places::{KnownPlaces, Part, Places, RecordPlace};
pub use refresh::{Refreshed, Work};
pub use replace::Replaced;
pub(crate) use schema::SPAN;

/// An open catalog.
#[derive(Debug)]
pub struct Catalog {
    pub(crate) connection: Connection,
    path: PathBuf,
}

/// Why a catalog cannot be used.
#[derive(Debug, Error)]
pub enum CatalogError {
    /// An older version of the program made it, and nobody may change it now.
    #[error("`{}` was made by an older version of quipu", .0.display())]
    Older(PathBuf),
    /// Another version of the program made it, and this one does not know its form.
    #[error("`{}` was made by a newer version of quipu", .0.display())]
    Newer(PathBuf),
    /// It is not a catalog: another program's file has that name.
    #[error("`{}` is not a catalog of quipu", .0.display())]
    Foreign(PathBuf),
    /// Its folder or file cannot be made or read.
    #[error("cannot use the catalog `{}`: {source}", path.display())]
    Io {
        /// Its path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Another process works on it and does not end.
    #[error("another process is working on the catalog: {0}")]
    Busy(String),
    /// The database reports an error.
    #[error("the catalog `{}`: {source}", path.display())]
    Sql {
        /// Its path.
        path: PathBuf,
        /// The error.
        source: rusqlite::Error,
    },
}

impl CatalogError {
    /// Whether it is a damaged catalog, so that only making it anew helps. A file that does not
    /// begin like a catalog belongs to somebody else.
    pub fn is_damage(&self) -> bool {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        let CatalogError::Sql { path, source } = self else { return false };
        let code = source.sqlite_error_code();
        code.is_some_and(|code| matches!(code, DatabaseCorrupt | NotADatabase))
            && schema::is_ours(path)
    }
}

/// How long a writer waits for another one.
const PATIENCE: Duration = Duration::from_secs(30);
/// How many statements are kept prepared: all that a refresh has.
const STATEMENTS: usize = 64;

impl Catalog {
    /// Opens the catalog in that file, and makes it if there is none.
    pub fn open(path: &Path) -> Result<Catalog, CatalogError> {
        let io = |source| CatalogError::Io { path: path.to_owned(), source };
        let path = std::path::absolute(path).map_err(io)?;
        let folder = path.parent().unwrap_or(Path::new("/"));
        files::make_private_folder(folder).map_err(io)?;
        if !path.try_exists().map_err(io)? {
            // Made here, so that nobody else can read it.
            drop(files::append_private(&path).map_err(io)?);
        } else if schema::is_ours(&path) {
            // A copy may have got other permissions. Of another user's file, they stay.
            let _ = make_private(&path);
        }
        Catalog::open_file(path)
    }

    /// Opens the catalog in that file, if there is one. It is not changed: one of an older version
    /// is an error.
    pub fn open_if_there(path: &Path) -> Result<Option<Catalog>, CatalogError> {
        let io = |source| CatalogError::Io { path: path.to_owned(), source };
        let path = std::path::absolute(path).map_err(io)?;
        if !path.try_exists().map_err(io)? {
            return Ok(None);
        }
        if schema::is_older(&path) {
            return Err(CatalogError::Older(path));
        }
        Catalog::open_file(path).map(Some)
    }

    fn open_file(path: PathBuf) -> Result<Catalog, CatalogError> {
        let io = |source| CatalogError::Io { path: path.clone(), source };
        // A pipe, a device or a folder of that name is no catalog. It is not opened here: closing
        // it would release the locks of another connection in this process.
        files::metadata(&path).map_err(io)?;
        let sql = |source| CatalogError::Sql { path: path.clone(), source };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&path, flags).map_err(sql)?;
        connection.busy_timeout(PATIENCE).map_err(sql)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        let catalog = Catalog { connection, path };
        catalog.prepare()?;
        Ok(catalog)
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn sql(&self, source: rusqlite::Error) -> CatalogError {
        CatalogError::Sql { path: self.path.clone(), source }
    }
}

/// Takes all permissions on a file from others than its owner.
fn make_private(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mut access = files::metadata(path)?.permissions();
        if access.mode() & 0o077 != 0 {
            access.set_mode(0o600);
            std::fs::set_permissions(path, access)?;
        }
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// A file whose name is that of the catalog and more.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Waits until no other process writes.
fn lock(path: &Path) -> Result<files::Held, CatalogError> {
    let (name, who) = (beside(path, ".lock"), format!("process {}", std::process::id()));
    match files::lock(&name, &who, PATIENCE * 4) {
        Ok(files::Lock::Held(held)) => Ok(held),
        Ok(files::Lock::Busy(who)) => Err(CatalogError::Busy(who)),
        Err(source) => Err(CatalogError::Io { path: name, source }),
    }
}

/// The folder of a home as the catalog names it.
pub fn root_of(home: &Home) -> PathBuf {
    let root = std::path::absolute(&home.root).unwrap_or_else(|_| home.root.clone());
    // Without a slash at the end.
    root.components().collect()
}

/// What is in a catalog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// How many files there are.
    pub files: u64,
    /// How many more were deleted.
    pub deleted: u64,
    /// How many messages of the API they have.
    pub messages: u64,
    /// How many bytes the files have.
    pub source: u64,
    /// How many bytes the catalog has.
    pub bytes: u64,
}

impl Catalog {
    /// What is in it.
    pub fn status(&self) -> Result<Status, CatalogError> {
        let number = |query: &str| -> Result<u64, CatalogError> {
            let found = self.connection.query_row(query, [], |row| row.get::<_, i64>(0));
            found.map(i64::cast_unsigned).map_err(|error| self.sql(error))
        };
        let pages = number("PRAGMA page_count")?;
        Ok(Status {
            files: number("SELECT count(*) FROM file WHERE NOT is_deleted")?,
            deleted: number("SELECT count(*) FROM file WHERE is_deleted")?,
            messages: number("SELECT coalesce(sum(count), 0) FROM messages")?,
            source: number("SELECT coalesce(sum(size), 0) FROM file WHERE NOT is_deleted")?,
            bytes: pages * number("PRAGMA page_size")?,
        })
    }

    /// Makes the next refresh read all files again, and overwrite what was there. What is known of
    /// deleted sessions stays.
    pub fn forget_contents(&mut self) -> Result<(), CatalogError> {
        let forget =
            format!("BEGIN IMMEDIATE; {FORGET_CONTENTS}; {}; COMMIT", rules::LEAVES_REMAINS);
        self.connection.execute_batch(&forget).map_err(|error| self.sql(error))
    }
}

const FORGET_CONTENTS: &str = "UPDATE file SET modified = -1, tail = x'' WHERE NOT is_deleted";

#[cfg(test)]
#[path = "catalog_tests.rs"]
mod tests;
