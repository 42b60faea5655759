//! Answers questions in SQL about all sessions.
//!
//! A query never sees the catalog. It runs in a private database of its own that has only the
//! documented views ([`VIEWS`]), filled with what the homes in force have, and only those that the
//! query reads. Invariants: a query can read these views and nothing else, whatever it says; rows,
//! bytes, memory and time are bounded, and an answer says if something is left out.

mod fill;
mod views;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use jiff::tz::TimeZone;
use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::Value;
use rusqlite::{Batch, Connection, ErrorCode};
use thiserror::Error;
use transcript::conversation::price::Prices;
use transcript::format::secret::Redactor;

pub use views::{VIEWS, View};

use crate::catalog::{Catalog, CatalogError};

/// How a query is answered.
#[derive(Debug)]
pub struct SqlWish<'a> {
    /// The homes whose sessions are seen.
    pub homes: &'a [PathBuf],
    /// How many rows are wanted.
    pub rows: usize,
    /// How many bytes of values are wanted.
    pub bytes: u64,
    /// How long the query may take, without what has to be read for it.
    pub patience: Duration,
    /// How many sessions are read at once, if turns or verdicts have to be computed.
    pub threads: usize,
    /// What costs are.
    pub prices: &'a Prices,
    /// Where days begin.
    pub zone: &'a TimeZone,
    /// The user's rules for secrets, for verdicts.
    pub redactor: &'a Arc<Redactor>,
}

/// What a query returns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SqlAnswer {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows, in order.
    pub rows: Vec<Vec<SqlValue>>,
    /// There are more rows than wanted.
    pub is_cut: bool,
    /// Files that are left out: they changed while they were read, or cannot be read.
    pub left_out: usize,
}

/// A value of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum SqlValue {
    /// None.
    Null,
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Real(f64),
    /// A text; bytes are written in hexadecimal.
    Text(String),
}

impl From<Value> for SqlValue {
    fn from(value: Value) -> SqlValue {
        match value {
            Value::Null => SqlValue::Null,
            Value::Integer(number) => SqlValue::Integer(number),
            Value::Real(number) => SqlValue::Real(number),
            Value::Text(text) => SqlValue::Text(text),
            Value::Blob(bytes) => {
                let mut text = String::new();
                for byte in bytes {
                    let _ = write!(text, "{byte:02x}");
                }
                SqlValue::Text(text)
            }
        }
    }
}

impl SqlValue {
    /// How many bytes it takes in JSON, with a comma.
    fn len(&self) -> usize {
        let of = |c: char| match c {
            '"' | '\\' | '\n' | '\r' | '\t' => 2,
            c if c.is_control() => 6,
            c => c.len_utf8(),
        };
        let value = match self {
            SqlValue::Null => 4,
            SqlValue::Integer(number) => number.to_string().len(),
            SqlValue::Real(number) => number.to_string().len(),
            SqlValue::Text(text) => text.chars().map(of).sum::<usize>() + 2,
        };
        value + 1
    }
}

/// Why a query has no answer.
#[derive(Debug, Error)]
pub enum SqlError {
    /// It does more than reading the views.
    #[error("a query can only read the views: {0}")]
    Refused(String),
    /// It is wrong.
    #[error("{0}")]
    Wrong(String),
    /// It takes too long.
    #[error("the query takes longer than {} s", .0.as_secs())]
    Slow(Duration),
    /// It needs too much memory.
    #[error("the query needs too much memory")]
    Large,
    /// The catalog cannot be used.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

/// How much memory all databases of the process may take together.
const MEMORY: u64 = 256 << 20;
/// How many bytes one value of a query may have: some functions take the square of that.
const LONGEST: i32 = 200_000;
/// How many bytes a pattern of `LIKE` or `GLOB` may have: each is tried everywhere in a text.
const LONGEST_PATTERN: i32 = 1_000;
/// After how many steps of a query the clock is looked at. One step may be a slow function.
const STEPS: i32 = 100;
/// How much longer a query is waited for than it may take. The database cannot stop within a
/// function.
const GRACE: Duration = Duration::from_millis(300);

/// What a query reads, and why it is refused.
#[derive(Debug, Default)]
struct Watched {
    /// Views with their columns.
    read: Vec<(&'static str, String)>,
    refused: Option<String>,
}

impl Watched {
    fn judge(&mut self, context: &AuthContext<'_>) -> Authorization {
        let refused = match context.action {
            AuthAction::Select | AuthAction::Recursive => return Authorization::Allow,
            AuthAction::Function { function_name } => {
                if !function_name.eq_ignore_ascii_case("load_extension") {
                    return Authorization::Allow;
                }
                "`load_extension` is not allowed".to_owned()
            }
            AuthAction::Read { table_name, column_name } => {
                // A count of rows names the table as the query does.
                let view = VIEWS.iter().find(|view| view.name.eq_ignore_ascii_case(table_name));
                if let Some(view) = view {
                    self.read.push((view.name, column_name.to_owned()));
                    return Authorization::Allow;
                }
                // Functions that make rows of JSON, and the rows of queries in queries: of those
                // without a column that is read, the database reports the name.
                let is_inner = column_name.is_empty() && !is_of_database(table_name);
                if is_inner || matches!(table_name, "json_each" | "json_tree" | "") {
                    return Authorization::Allow;
                }
                format!("`{table_name}` is not a view")
            }
            AuthAction::Attach { .. } => "`ATTACH` is not allowed".to_owned(),
            AuthAction::Pragma { pragma_name, .. } => {
                format!("`PRAGMA {pragma_name}` is not allowed")
            }
            _ => "it changes something".to_owned(),
        };
        self.refused.get_or_insert(refused);
        Authorization::Deny
    }

    /// Adds what the database does not report: columns that only a join by name reads.
    fn add_joined(&mut self, query: &str) {
        let query = query.to_ascii_lowercase();
        if ["using", "natural"].iter().any(|word| query.contains(word)) {
            let named = VIEWS.iter().filter(|view| query.contains(view.name));
            let columns = named.flat_map(|view| view.columns.iter().map(|one| (view.name, one.0)));
            self.read.extend(columns.map(|(view, column)| (view, column.to_owned())));
        }
    }

    fn reads(&self, view: &str) -> bool {
        self.read.iter().any(|(name, _)| *name == view)
    }

    fn reads_column(&self, view: &str, columns: &[&str]) -> bool {
        self.read.iter().any(|(name, column)| *name == view && columns.contains(&column.as_str()))
    }
}

/// Whether a table is one that every database has.
fn is_of_database(table: &str) -> bool {
    let name = table.to_ascii_lowercase();
    let others = ["dbstat", "bytecode", "tables_used", "sqlite_stmt", "sqlite_dbpage"];
    name.starts_with("sqlite_") || name.starts_with("pragma_") || others.contains(&name.as_str())
}

impl Catalog {
    /// Answers a query. `progress` gets the bytes of sessions that are read for it, and of all.
    pub fn query(
        &mut self,
        text: &str,
        wish: &SqlWish<'_>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<SqlAnswer, SqlError> {
        let mut database = private().map_err(|error| self.sql(error))?;
        let watched = Arc::new(Mutex::new(Watched::default()));
        let outcome = guard(&mut database, &watched).and_then(|()| prepare(&database, text));
        let columns = outcome.map_err(|error| explain(&error, &watched, wish))?;
        let mut read = {
            let mut watched = watched.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *watched)
        };
        if let Some(why) = read.refused {
            return Err(SqlError::Refused(why));
        }
        read.add_joined(text);
        unguard(&mut database).map_err(|error| self.sql(error))?;
        let left_out = fill::fill(self, &database, &read, wish, progress)?;
        let (rows, is_cut) = run_in_time(database, &watched, text, wish)?;
        Ok(SqlAnswer { columns, rows, is_cut, left_out })
    }
}

/// A database that nobody else sees, with empty views. It is a file without a name, so that it is
/// not bounded by memory.
fn private() -> rusqlite::Result<Connection> {
    let database = Connection::open("")?;
    database.execute_batch(&format!(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA temp_store = MEMORY; \
         PRAGMA cache_size = -65536; PRAGMA hard_heap_limit = {MEMORY};"
    ))?;
    for view in &VIEWS {
        let columns: Vec<&str> = view.columns.iter().map(|column| column.0).collect();
        database.execute_batch(&format!("CREATE TABLE {} ({})", view.name, columns.join(", ")))?;
    }
    for (limit, most) in [
        (Limit::SQLITE_LIMIT_SQL_LENGTH, 1 << 20),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 200),
        (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, LONGEST_PATTERN),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        database.set_limit(limit, most)?;
    }
    Ok(database)
}

fn guard(database: &mut Connection, watched: &Arc<Mutex<Watched>>) -> rusqlite::Result<()> {
    let watched = Arc::clone(watched);
    database.set_limit(Limit::SQLITE_LIMIT_LENGTH, LONGEST)?;
    database.authorizer(Some(move |context: AuthContext<'_>| {
        watched.lock().unwrap_or_else(PoisonError::into_inner).judge(&context)
    }))
}

fn unguard(database: &mut Connection) -> rusqlite::Result<()> {
    database.set_limit(Limit::SQLITE_LIMIT_LENGTH, i32::MAX)?;
    database.authorizer(None::<fn(AuthContext<'_>) -> Authorization>)
}

/// The names of a query's columns. It must be one statement that returns rows.
fn prepare(database: &Connection, text: &str) -> rusqlite::Result<Vec<String>> {
    let wrong = |text: &str| rusqlite::Error::InvalidParameterName(text.to_owned());
    let mut batch = Batch::new(database, text);
    let Some(statement) = batch.next()? else { return Err(wrong("there is no query")) };
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    if statement.parameter_count() > 0 {
        return Err(wrong("a query has no parameters"));
    }
    if !statement.readonly() || columns.is_empty() {
        return Err(wrong("a query begins with `SELECT` or `WITH`"));
    }
    if batch.next()?.is_some() {
        return Err(wrong("there are several queries"));
    }
    Ok(columns)
}

type Rows = (Vec<Vec<SqlValue>>, bool);

/// The rows of an answer: how many are wanted, and how many bytes of them.
#[derive(Clone, Copy)]
struct Most {
    rows: usize,
    bytes: u64,
}

/// Runs a query on a thread of its own, which nobody waits for when the time is over.
fn run_in_time(
    mut database: Connection,
    watched: &Arc<Mutex<Watched>>,
    text: &str,
    wish: &SqlWish<'_>,
) -> Result<Rows, SqlError> {
    let (send, answer) = channel();
    let most = Most { rows: wish.rows, bytes: wish.bytes };
    let deadline = Instant::now() + wish.patience;
    let (owned, query) = (Arc::clone(watched), text.to_owned());
    thread::spawn(move || {
        let guarded = guard(&mut database, &owned);
        let rows = guarded.and_then(|()| run(&mut database, &query, most, deadline));
        // Perhaps nobody waits any more.
        let _ = send.send(rows);
    });
    let rows = answer.recv_timeout(wish.patience + GRACE);
    rows.map_err(|_| SqlError::Slow(wish.patience))?.map_err(|error| explain(&error, watched, wish))
}

fn run(
    database: &mut Connection,
    text: &str,
    most: Most,
    deadline: Instant,
) -> rusqlite::Result<Rows> {
    database.progress_handler(STEPS, Some(move || Instant::now() > deadline))?;
    let mut statement = database.prepare(text)?;
    let count = statement.column_count();
    let (mut rows, mut found) = (statement.query([])?, Vec::new());
    let mut left = most.bytes;
    while let Some(row) = rows.next()? {
        let values: rusqlite::Result<Vec<SqlValue>> =
            (0..count).map(|at| row.get::<_, Value>(at).map(SqlValue::from)).collect();
        let values = values?;
        // With brackets and a comma.
        let size = values.iter().map(SqlValue::len).sum::<usize>() + 3;
        let rest = left.checked_sub(size as u64);
        let Some(rest) = rest.filter(|_| found.len() < most.rows) else { return Ok((found, true)) };
        left = rest;
        found.push(values);
    }
    Ok((found, false))
}

/// What an error of the database means for the user.
fn explain(error: &rusqlite::Error, watched: &Arc<Mutex<Watched>>, wish: &SqlWish<'_>) -> SqlError {
    let mut watched = watched.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(why) = watched.refused.take() {
        return SqlError::Refused(why);
    }
    match (error.sqlite_error_code(), error) {
        (Some(ErrorCode::OperationInterrupted), _) => SqlError::Slow(wish.patience),
        (Some(ErrorCode::OutOfMemory), _) => SqlError::Large,
        (
            _,
            rusqlite::Error::InvalidParameterName(text)
            | rusqlite::Error::SqlInputError { msg: text, .. }
            | rusqlite::Error::SqliteFailure(_, Some(text)),
        ) => SqlError::Wrong(text.clone()),
        (_, error) => SqlError::Wrong(error.to_string()),
    }
}

#[cfg(test)]
#[path = "sql_tests.rs"]
mod tests;
