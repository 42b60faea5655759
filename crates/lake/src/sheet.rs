//! Writes the rows of one table of one session as Parquet.
//!
//! Invariants: equal rows make equal bytes; memory is bounded: rows are written in groups of a few
//! megabytes, into memory as long as the result is small, and else into a file without a name.

use std::io::{Read, Seek, SeekFrom, Write as _};
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::ColumnPath;
use sha2::{Digest, Sha256};
use tempfile::SpooledTempFile;

use crate::LakeError;
use crate::schema::{COMMON, Column, Holds, Null, TABLES, parquet_of};

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

/// Columns with fewer bytes than this are not compressed: making a compressor takes longer than
/// that saves. Most sessions are short, and most columns of a session have few values.
const COMPRESSED: usize = 1 << 10;

/// How the columns are written, decided from the first rows. The columns that all tables have are
/// the same in each row: as a dictionary of one word they need no compression.
fn properties(values: &[Values]) -> WriterProperties {
    let mut made = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_created_by("quipu lake".to_owned())
        .set_compression(Compression::UNCOMPRESSED)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_dictionary_page_size_limit(256 << 10)
        .set_data_page_size_limit(256 << 10);
    for (at, values) in values.iter().enumerate() {
        let path = ColumnPath::from(values.column.name);
        if at >= COMMON.len() && values.size() >= COMPRESSED {
            let zstd = Compression::ZSTD(ZstdLevel::default());
            made = made.set_column_compression(path.clone(), zstd);
        }
        if values.column.holds == Holds::Text {
            // The least and the greatest of a few ids and paths help no query.
            made = made.set_column_statistics_enabled(path, EnabledStatistics::None);
        } else {
            made = made.set_column_dictionary_enabled(path, false);
        }
    }
    made.build()
}

/// The values of one column that are not written yet.
#[derive(Debug)]
struct Values {
    column: &'static Column,
    /// 1 for each value, 0 for each null; only of columns that may be null.
    levels: Vec<i16>,
    numbers: Vec<i64>,
    days: Vec<i32>,
    flags: Vec<bool>,
    texts: Vec<u8>,
    ends: Vec<usize>,
}

impl Values {
    fn new(column: &'static Column) -> Values {
        let (levels, numbers, days) = (Vec::new(), Vec::new(), Vec::new());
        let (flags, texts, ends) = (Vec::new(), Vec::new(), Vec::new());
        Values { column, levels, numbers, days, flags, texts, ends }
    }

    /// Adds a value. One of another type counts as missing: the tables are data, so that is not
    /// checked when they are compiled, but by tests.
    fn add(&mut self, cell: &Cell<'_>) {
        let is_there = match (cell, self.column.holds) {
            (Cell::Text(text), Holds::Text) => {
                self.texts.extend_from_slice(text.as_bytes());
                self.ends.push(self.texts.len());
                true
            }
            (Cell::Number(number), Holds::Number | Holds::Dollars | Holds::Moment) => {
                self.numbers.push(*number);
                true
            }
            (Cell::Days(days), Holds::Day) => {
                self.days.push(*days);
                true
            }
            (Cell::Flag(flag), Holds::Flag) => {
                self.flags.push(*flag);
                true
            }
            (cell, _) => {
                debug_assert!(matches!(cell, Cell::Null), "{}: {cell:?}", self.column.name);
                false
            }
        };
        match self.column.null {
            Null::Maybe => self.levels.push(i16::from(is_there)),
            Null::Never if !is_there => {
                debug_assert!(false, "{} is null", self.column.name);
                self.fill();
            }
            Null::Never => {}
        }
    }

    /// A value for a column that must have one.
    fn fill(&mut self) {
        match self.column.holds {
            Holds::Text => self.ends.push(self.texts.len()),
            Holds::Number | Holds::Dollars | Holds::Moment => self.numbers.push(0),
            Holds::Day => self.days.push(0),
            Holds::Flag => self.flags.push(false),
        }
    }

    /// How many bytes its values have. Flags are bits.
    fn size(&self) -> usize {
        self.texts.len() + 8 * self.numbers.len() + 4 * self.days.len() + self.flags.len() / 8
    }

    fn write(&mut self, writer: &mut SerializedColumnWriter<'_>) -> Result<(), LakeError> {
        let levels = (self.column.null == Null::Maybe).then_some(self.levels.as_slice());
        match self.column.holds {
            Holds::Text => {
                let texts = Bytes::from(std::mem::take(&mut self.texts));
                let mut from = 0;
                let values: Vec<ByteArray> = std::mem::take(&mut self.ends)
                    .into_iter()
                    .map(|end| {
                        let text = texts.slice(from..end);
                        from = end;
                        ByteArray::from(text)
                    })
                    .collect();
                writer.typed::<ByteArrayType>().write_batch(&values, levels, None)?;
            }
            Holds::Number | Holds::Dollars | Holds::Moment => {
                writer.typed::<Int64Type>().write_batch(&self.numbers, levels, None)?;
            }
            Holds::Day => {
                writer.typed::<Int32Type>().write_batch(&self.days, levels, None)?;
            }
            Holds::Flag => {
                writer.typed::<BoolType>().write_batch(&self.flags, levels, None)?;
            }
        }
        *self = Values::new(self.column);
        Ok(())
    }
}

/// A table of a session while it is being made.
pub(crate) struct Sheet {
    table: usize,
    /// Made when the first rows are known.
    writer: Option<SerializedFileWriter<SpooledTempFile>>,
    values: Vec<Values>,
    rows: usize,
    bytes: usize,
    all_rows: u64,
}

impl Sheet {
    /// An empty table, by its place in [`TABLES`].
    pub(crate) fn new(table: usize) -> Sheet {
        let values = TABLES[table].all().map(Values::new).collect();
        Sheet { table, writer: None, values, rows: 0, bytes: 0, all_rows: 0 }
    }

    /// Adds a row: the common columns, then those of the table.
    pub(crate) fn add(&mut self, common: &[Cell<'_>], row: &[Cell<'_>]) -> Result<(), LakeError> {
        debug_assert_eq!(common.len() + row.len(), self.values.len());
        for (values, cell) in self.values.iter_mut().zip(common.iter().chain(row)) {
            values.add(cell);
            self.bytes += if let Cell::Text(text) = cell { text.len() + 8 } else { 8 };
        }
        self.rows += 1;
        self.all_rows += 1;
        if self.rows >= GROUP_ROWS || self.bytes >= GROUP_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), LakeError> {
        let writer = if let Some(writer) = &mut self.writer {
            writer
        } else {
            let file = SpooledTempFile::new(IN_MEMORY);
            let properties = Arc::new(properties(&self.values));
            let made = SerializedFileWriter::new(file, parquet_of(self.table)?, properties)?;
            self.writer.insert(made)
        };
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = writer.next_row_group()?;
        for values in &mut self.values {
            if let Some(mut writer) = group.next_column()? {
                values.write(&mut writer)?;
                writer.close()?;
            }
        }
        group.close()?;
        (self.rows, self.bytes) = (0, 0);
        Ok(())
    }

    /// The whole file.
    pub(crate) fn finish(mut self) -> Result<Object, LakeError> {
        self.flush()?;
        let made = self.writer.take().ok_or_else(|| LakeError::Parquet("no writer".to_owned()))?;
        let mut file = made.into_inner()?;
        let size = file.seek(SeekFrom::End(0)).map_err(LakeError::scratch)?;
        let mut object = Object { file, size, rows: self.all_rows, hash: String::new() };
        object.hash = object.digest().map_err(LakeError::scratch)?;
        Ok(object)
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

    fn digest(&mut self) -> std::io::Result<String> {
        let mut hasher = Sha256::new();
        std::io::copy(&mut self.bytes()?, &mut hasher)?;
        Ok(hex(&hasher.finalize()[..12]))
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

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
