//! Writes the rows of one table of one session as Parquet.
//!
//! Invariants: equal rows make equal bytes; memory is bounded: rows are written in groups of a few
//! megabytes, into memory as long as the result is small, and else into a file without a name.

use std::io::{Read, Seek as _, Write as _};

use sha2::{Digest, Sha256};
use tempfile::SpooledTempFile;

use crate::LakeError;
use crate::column::Values;
use crate::parquet::{Footer, MAGIC};
use crate::schema::{COMMON, Holds, Null, TABLES};

/// A value of a row.
#[derive(Clone, Debug)]
pub(crate) enum Cell<'a> {
    Null,
    Text(&'a str),
    /// A number, dollars in millionths of a millionth, or milliseconds since 1970.
    Number(i64),
    /// Days since 1970.
    Days(i32),
    Flag(bool),
}

impl<'a, T: Into<Cell<'a>>> From<Option<T>> for Cell<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Cell::Null, Into::into)
    }
}

impl<'a> From<&'a str> for Cell<'a> {
    fn from(text: &'a str) -> Self {
        Cell::Text(text)
    }
}

impl<'a> From<&'a String> for Cell<'a> {
    fn from(text: &'a String) -> Self {
        Cell::Text(text)
    }
}

impl From<u64> for Cell<'_> {
    /// Numbers come from files: larger ones are cut, so that no sum overflows.
    fn from(number: u64) -> Self {
        Cell::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<usize> for Cell<'_> {
    fn from(number: usize) -> Self {
        Cell::from(number as u64)
    }
}

impl From<u32> for Cell<'_> {
    fn from(number: u32) -> Self {
        Cell::Number(i64::from(number))
    }
}

impl From<i64> for Cell<'_> {
    fn from(number: i64) -> Self {
        Cell::Number(number)
    }
}

impl From<bool> for Cell<'_> {
    fn from(flag: bool) -> Self {
        Cell::Flag(flag)
    }
}

/// Rows are written as soon as they take that many bytes.
const GROUP_BYTES: usize = 4 << 20;
/// Rows are written as soon as there are that many.
const GROUP_ROWS: usize = 50_000;
/// Up to this size, what was written is in memory.
const IN_MEMORY: usize = 256 << 10;

/// A table of a session while it is being made.
pub(crate) struct Sheet {
    table: usize,
    /// The columns that all tables have, and one value of each: it is the same in each row.
    common: Vec<Values>,
    /// The rows that are not written yet, by column.
    values: Vec<Values>,
    rows: usize,
    bytes: usize,
    all_rows: u64,
    footer: Footer,
    file: SpooledTempFile,
    size: u64,
    hasher: Sha256,
}

impl Sheet {
    /// An empty table, by its place in [`TABLES`], and the common columns of all of its rows.
    pub(crate) fn new(table: usize, common: &[Cell<'_>]) -> Sheet {
        debug_assert_eq!(common.len(), COMMON.len());
        let mut first: Vec<Values> = COMMON.iter().map(Values::new).collect();
        for (values, cell) in first.iter_mut().zip(common) {
            add(values, cell);
        }
        Sheet {
            table,
            common: first,
            values: TABLES[table].columns().map(Values::new).collect(),
            rows: 0,
            bytes: 0,
            all_rows: 0,
            footer: Footer::default(),
            file: SpooledTempFile::new(IN_MEMORY),
            size: 0,
            hasher: Sha256::new(),
        }
    }

    /// Adds a row: the columns of the table.
    pub(crate) fn add(&mut self, row: &[Cell<'_>]) -> Result<(), LakeError> {
        debug_assert_eq!(row.len(), self.values.len());
        for (values, cell) in self.values.iter_mut().zip(row) {
            add(values, cell);
            self.bytes += if let Cell::Text(text) = cell { text.len() + 8 } else { 8 };
        }
        self.rows += 1;
        self.all_rows += 1;
        if self.rows >= GROUP_ROWS || self.bytes >= GROUP_BYTES {
            let mut out = Vec::new();
            self.flush(&mut out)?;
            self.write(&out)?;
        }
        Ok(())
    }

    /// Appends the rows that are not written yet to `out`, which is written next.
    fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), LakeError> {
        if self.size == 0 {
            out.extend_from_slice(MAGIC);
        }
        if self.rows == 0 {
            return Ok(());
        }
        let common = self.common.iter().map(|values| (values.column, values.repeated(self.rows)));
        let others = self.values.iter_mut().map(|values| {
            let values = std::mem::replace(values, Values::new(values.column));
            (values.column, values.pages())
        });
        let offset = self.size + out.len() as u64;
        self.footer.group(out, offset, self.rows, common.chain(others))?;
        (self.rows, self.bytes) = (0, 0);
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), LakeError> {
        self.hasher.update(bytes);
        self.size += bytes.len() as u64;
        self.file.write_all(bytes).map_err(LakeError::scratch)
    }

    /// The whole file.
    pub(crate) fn finish(mut self) -> Result<Object, LakeError> {
        let mut out = Vec::new();
        self.flush(&mut out)?;
        let footer = std::mem::take(&mut self.footer);
        footer.finish(self.table, &mut out)?;
        self.write(&out)?;
        let hash = short_hash(self.hasher);
        Ok(Object { file: self.file, size: self.size, rows: self.all_rows, hash })
    }
}

/// Adds a value to a column. One of another type counts as missing: the tables are data, so that is
/// not checked when they are compiled, but by tests.
fn add(values: &mut Values, cell: &Cell<'_>) {
    match (cell, values.column.holds) {
        (Cell::Text(text), Holds::Text) => values.add_text(text),
        (Cell::Number(number), Holds::Number | Holds::Dollars | Holds::Moment) => {
            values.add_number(*number);
        }
        (Cell::Days(days), Holds::Day) => values.add_number((*days).into()),
        (Cell::Flag(flag), Holds::Flag) => values.add_flag(*flag),
        (cell, _) => {
            let name = values.column.name;
            debug_assert!(matches!(cell, Cell::Null), "{name}: {cell:?}");
            debug_assert!(values.column.null == Null::Maybe, "{name} is null");
            values.add_null();
        }
    }
}

/// A Parquet file that is not at its place yet.
#[derive(Debug)]
pub struct Object {
    file: SpooledTempFile,
    /// How many bytes it has.
    pub size: u64,
    /// How many rows it has.
    pub rows: u64,
    /// The start of the SHA-256 of its bytes, in hexadecimal.
    pub hash: String,
}

impl Object {
    /// Its bytes, from the first one on.
    pub fn bytes(&mut self) -> std::io::Result<impl Read + '_> {
        self.file.rewind()?;
        Ok(&mut self.file)
    }

    /// An object with a few bytes, to see whether it can be stored.
    pub(crate) fn probe() -> Result<Object, LakeError> {
        Object::of(b"quipu lake check\n").map_err(LakeError::scratch)
    }

    pub(crate) fn of(bytes: &[u8]) -> std::io::Result<Object> {
        let mut file = SpooledTempFile::new(IN_MEMORY);
        file.write_all(bytes)?;
        Ok(Object { file, size: bytes.len() as u64, rows: 0, hash: String::new() })
    }
}

/// The start of a hash, in hexadecimal.
pub(crate) fn short_hash(hasher: Sha256) -> String {
    hex(&hasher.finalize()[..12])
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
#[path = "sheet_tests.rs"]
mod tests;
