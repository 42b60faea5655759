//! Writes Parquet: the part of the format that the tables need.
//!
//! Most sessions are short, so most objects have a few rows in some thirty columns. What takes time
//! then is what is done once for each column, and a general writer prepares much there that a few
//! rows do not need. Here a column of a row group is one page (`column`), after a page with its
//! dictionary if it has one; what is described in the same way in each object is prepared once.
//!
//! Invariants: equal values make equal bytes; what is written is version 1 of the format, which
//! every engine reads. Tests read it back with the format's own library.

use std::sync::LazyLock;

use crate::LakeError;
use crate::column::Pages;
use crate::schema::{Column, Holds, Null, PRECISION, SCALE, TABLES, VERSION};
use crate::thrift::{Items, Thrift};

/// Begins and ends a file.
pub(crate) const MAGIC: &[u8] = b"PAR1";

/// How values are encoded.
pub(crate) const PLAIN: i32 = 0;
const RUNS: i32 = 3;
pub(crate) const DICTIONARY: i32 = 8;

/// The types of pages.
const DATA_PAGE: i32 = 0;
const DICTIONARY_PAGE: i32 = 2;

/// How pages are compressed.
pub(crate) const UNCOMPRESSED: i32 = 0;
pub(crate) const ZSTD: i32 = 6;

fn wrong(why: &str) -> LakeError {
    LakeError::Parquet(why.to_owned())
}

fn small(number: usize) -> Result<i32, LakeError> {
    i32::try_from(number).map_err(|_| wrong("a session has a text of more than 2 GB"))
}

/// What a file says about itself at its end, as far as it is known.
#[derive(Debug, Default)]
pub(crate) struct Footer {
    /// Row groups, as items of a list.
    groups: Thrift,
    number: usize,
    rows: u64,
}

impl Footer {
    /// Appends a row group to `out`, which is at this offset of the file. Its columns are those of
    /// the table, in order.
    pub(crate) fn group(
        &mut self,
        out: &mut Vec<u8>,
        offset: u64,
        rows: usize,
        columns: impl Iterator<Item = (&'static Column, Pages)>,
    ) -> Result<(), LakeError> {
        let (mut failed, mut whole) = (None, 0);
        let begin = out.len();
        let columns: Vec<_> = columns.collect();
        self.groups.item(|group| {
            group.list(1, Items::Structs, columns.len());
            for (column, pages) in &columns {
                match chunk(group, out, offset - begin as u64, column, pages) {
                    Ok(len) => whole += len,
                    Err(error) => failed = Some(error),
                }
            }
            group.long(2, whole);
            group.long(3, rows as u64);
            group.long(5, offset);
            group.long(6, (out.len() - begin) as u64);
        });
        self.number += 1;
        self.rows += rows as u64;
        failed.map_or(Ok(()), Err)
    }

    /// Appends the end of a file with that table.
    pub(crate) fn finish(self, table: usize, out: &mut Vec<u8>) -> Result<(), LakeError> {
        let (head, columns) = HEADS.get(table).ok_or_else(|| wrong("there is no such table"))?;
        let mut footer = head.clone();
        footer.long(3, self.rows);
        footer.list(4, Items::Structs, self.number);
        footer.bytes.extend_from_slice(&self.groups.bytes);
        footer.text(6, WRITER.as_bytes());
        footer.list(7, Items::Structs, *columns);
        for _ in 0..*columns {
            // The least and the greatest value are meant in the order of the column's type.
            footer.item(|order| order.structure(1, |_| {}));
        }
        footer.end();
        let len = u32::try_from(footer.bytes.len()).map_err(|_| wrong("too many row groups"))?;
        out.extend_from_slice(&footer.bytes);
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(MAGIC);
        Ok(())
    }
}

/// Appends the pages of a column to `out`, whose first byte is at `start` of the file, and what is
/// said about them to `group`. Returns how long they are without compression.
fn chunk(
    group: &mut Thrift,
    out: &mut Vec<u8>,
    start: u64,
    column: &'static Column,
    pages: &Pages,
) -> Result<u64, LakeError> {
    let begin = out.len();
    let packed = pages.packed().map_err(|error| wrong(&error.to_string()))?;
    let codec = if packed.is_some() { ZSTD } else { UNCOMPRESSED };
    // How long the pages are, compressed and not.
    let (mut stored, mut whole) = (0, 0);
    if let Some(words) = &pages.dictionary {
        let body = packed.as_ref().and_then(|packed| packed.words.as_ref()).unwrap_or(&words.bytes);
        let number = small(words.number)?;
        page(out, DICTIONARY_PAGE, words.bytes.len(), body, |header| {
            header.structure(7, |header| {
                header.int(1, number);
                header.int(2, PLAIN);
            });
        })?;
        (stored, whole) = (body.len(), words.bytes.len());
    }
    let data_at = out.len();
    let body = packed.as_ref().map_or(&pages.data, |packed| &packed.data);
    let encoding = if pages.dictionary.is_some() { DICTIONARY } else { PLAIN };
    let rows = small(pages.rows)?;
    page(out, DATA_PAGE, pages.data.len(), body, |header| {
        header.structure(5, |header| {
            header.int(1, rows);
            header.int(2, encoding);
            header.int(3, RUNS);
            header.int(4, RUNS);
        });
    })?;
    stored += body.len();
    whole += pages.data.len();
    let len = out.len() - begin;
    // With their headers, which are never compressed.
    let whole = (len - stored + whole) as u64;
    let place = |at: usize| start + at as u64;
    group.item(|chunk| {
        chunk.long(2, place(begin));
        chunk.structure(3, |meta| {
            meta.int(1, physical(column));
            let encodings: &[i32] =
                if encoding == PLAIN { &[PLAIN, RUNS] } else { &[PLAIN, RUNS, DICTIONARY] };
            meta.list(2, Items::Ints, encodings.len());
            for encoding in encodings {
                meta.int_item(*encoding);
            }
            meta.list(3, Items::Texts, 1);
            meta.text_item(column.name.as_bytes());
            meta.int(4, codec);
            meta.long(5, pages.rows as u64);
            meta.long(6, whole);
            meta.long(7, len as u64);
            meta.long(9, place(data_at));
            if pages.dictionary.is_some() {
                meta.long(11, place(begin));
            }
            meta.structure(12, |statistics| {
                statistics.long(3, pages.nulls as u64);
                if let Some((least, greatest)) = pages.range {
                    let width = match column.holds {
                        Holds::Flag => 1,
                        Holds::Day => 4,
                        _ => 8,
                    };
                    statistics.text(5, &greatest.to_le_bytes()[..width]);
                    statistics.text(6, &least.to_le_bytes()[..width]);
                }
            });
        });
    });
    Ok(whole)
}

/// Appends a page.
fn page(
    out: &mut Vec<u8>,
    kind: i32,
    whole: usize,
    body: &[u8],
    more: impl FnOnce(&mut Thrift),
) -> Result<(), LakeError> {
    let mut header = Thrift::default();
    header.int(1, kind);
    header.int(2, small(whole)?);
    header.int(3, small(body.len())?);
    more(&mut header);
    header.end();
    out.extend_from_slice(&header.bytes);
    out.extend_from_slice(body);
    Ok(())
}

/// Who wrote a file, in the form that the format asks for. A new version of the program that writes
/// the same tables makes the same bytes.
static WRITER: LazyLock<String> =
    LazyLock::new(|| format!("quipu-lake version {VERSION}.0.0 (build 0)"));

/// How the footer of each table begins, and how many columns it has.
static HEADS: LazyLock<Vec<(Thrift, usize)>> = LazyLock::new(|| {
    let head = |table: &crate::TableSchema| {
        let columns: Vec<&Column> = table.all().collect();
        let mut head = Thrift::default();
        head.int(1, 1);
        head.list(2, Items::Structs, columns.len() + 1);
        head.item(|root| {
            root.text(4, table.name.as_bytes());
            root.int(5, i32::try_from(columns.len()).unwrap_or_default());
        });
        for column in &columns {
            head.item(|element| described(element, column));
        }
        (head, columns.len())
    };
    TABLES.iter().map(head).collect()
});

/// The number of the type in which a column is stored.
fn physical(column: &Column) -> i32 {
    match column.holds {
        Holds::Flag => 0,
        Holds::Day => 1,
        Holds::Number | Holds::Dollars | Holds::Moment => 2,
        Holds::Text => 6,
    }
}

/// What a column is called and holds, in the old way and in the new one.
fn described(element: &mut Thrift, column: &Column) {
    element.int(1, physical(column));
    element.int(3, i32::from(column.null == Null::Maybe));
    element.text(4, column.name.as_bytes());
    match column.holds {
        Holds::Number | Holds::Flag => {}
        Holds::Text => {
            element.int(6, 0);
            element.structure(10, |kind| kind.structure(1, |_| {}));
        }
        Holds::Dollars => {
            element.int(6, 5);
            element.int(7, SCALE);
            element.int(8, PRECISION);
            element.structure(10, |kind| {
                kind.structure(5, |decimal| {
                    decimal.int(1, SCALE);
                    decimal.int(2, PRECISION);
                });
            });
        }
        Holds::Day => {
            element.int(6, 6);
            element.structure(10, |kind| kind.structure(6, |_| {}));
        }
        Holds::Moment => {
            element.int(6, 9);
            element.structure(10, |kind| {
                kind.structure(8, |timestamp| {
                    timestamp.yes(1);
                    timestamp.structure(2, |unit| unit.structure(1, |_| {}));
                });
            });
        }
    }
}
