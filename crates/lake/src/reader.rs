//! Reads back what an object says: whose it is, and which calls it has.
//!
//! Only columns of texts and flags that are never null, as one page for each row group: so
//! `parquet` writes them, and so do most writers of short files. Whoever needs more has an engine.
//! Invariants: whatever the bytes are, reading ends, and the memory that it takes is bounded by
//! their number and by that of a page; what is not understood is missing, and nothing is made up
//! for it.

use std::borrow::Cow;

use crate::parquet::{DICTIONARY, MAGIC, PLAIN, UNCOMPRESSED, ZSTD};

/// No page is longer, and the texts of no column are: rows are written in groups of a few
/// megabytes.
const LONGEST_PAGE: usize = 64 << 20;
/// No row group has more rows.
const MOST_ROWS: usize = 1 << 20;
/// No end of a file is longer.
pub(crate) const LONGEST_FOOTER: u64 = 4 << 20;
/// Thrift nests no deeper in Parquet.
const DEEPEST: usize = 16;

/// An object that was read.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    chunks: Vec<Chunk<'a>>,
}

/// The values of a column in a row group.
struct Chunk<'a> {
    column: &'a [u8],
    codec: i64,
    rows: usize,
    /// Where its pages begin.
    data_at: usize,
    dictionary_at: Option<usize>,
}

/// A page, without compression.
struct Page<'a> {
    body: Cow<'a, [u8]>,
    values: usize,
    encoding: i64,
}

impl<'a> Reader<'a> {
    /// Reads the end of an object; `None` if that is not the end of a Parquet file.
    pub(crate) fn open(bytes: &'a [u8]) -> Option<Reader<'a>> {
        let inner = bytes.strip_prefix(MAGIC)?.strip_suffix(MAGIC)?;
        let (rest, len) = inner.split_last_chunk::<4>()?;
        let len = u32::from_le_bytes(*len);
        let begin = rest.len().checked_sub(len as usize);
        let begin = begin.filter(|_| u64::from(len) <= LONGEST_FOOTER)?;
        let footer = Thrift { bytes: rest, at: begin }.structure(DEEPEST)?;
        let required = |element: &Value<'a>| {
            (element.number(3) == Some(0)).then(|| element.bytes(4)).flatten()
        };
        let never_null: Vec<&[u8]> = footer.list(2).iter().filter_map(required).collect();
        let mut chunks = Vec::new();
        for chunk in footer.list(4).iter().flat_map(|group| group.list(1)) {
            let meta = chunk.member(3)?;
            let place = |field| usize::try_from(meta.number(field)?).ok();
            let [Value::Bytes(column)] = meta.list(3) else { return None };
            if never_null.contains(column) {
                chunks.push(Chunk {
                    column,
                    codec: meta.number(4)?,
                    rows: place(5)?,
                    data_at: place(9)?,
                    dictionary_at: place(11).filter(|at| *at > 0),
                });
            }
        }
        Some(Reader { bytes, chunks })
    }

    /// The texts of a column.
    pub(crate) fn texts(&self, column: &str) -> Option<Vec<String>> {
        let (mut all, mut size) = (Vec::new(), 0);
        for chunk in self.chunks.iter().filter(|chunk| chunk.column == column.as_bytes()) {
            let page = self.page(chunk, chunk.data_at)?;
            if page.encoding == i64::from(PLAIN) {
                all.extend(texts(&page)?);
            } else if page.encoding == i64::from(DICTIONARY) {
                let words = texts(&self.page(chunk, chunk.dictionary_at?)?)?;
                for number in numbers(&page)? {
                    let word = words.get(number)?;
                    size += word.len();
                    if size > LONGEST_PAGE {
                        return None;
                    }
                    all.push(word.clone());
                }
            } else {
                return None;
            }
            if page.values != chunk.rows {
                return None;
            }
        }
        Some(all)
    }

    /// The flags of a column.
    pub(crate) fn flags(&self, column: &str) -> Option<Vec<bool>> {
        let mut all = Vec::new();
        for chunk in self.chunks.iter().filter(|chunk| chunk.column == column.as_bytes()) {
            let page = self.page(chunk, chunk.data_at)?;
            let is_plain = page.encoding == i64::from(PLAIN) && page.values == chunk.rows;
            let bits = page.body.get(..page.values.div_ceil(8)).filter(|_| is_plain)?;
            all.extend((0..page.values).map(|at| bits[at / 8] >> (at % 8) & 1 == 1));
        }
        Some(all)
    }

    fn page(&self, chunk: &Chunk<'_>, at: usize) -> Option<Page<'a>> {
        let mut thrift = Thrift { bytes: self.bytes, at };
        let header = thrift.structure(DEEPEST)?;
        let size = |field| usize::try_from(header.number(field)?).ok();
        let stored = self.bytes.get(thrift.at..)?.get(..size(3)?)?;
        // Of data, or of a dictionary.
        let kind = header.member(5).or_else(|| header.member(7))?;
        let body = match chunk.codec {
            codec if codec == i64::from(UNCOMPRESSED) => Cow::Borrowed(stored),
            codec if codec == i64::from(ZSTD) => {
                let whole = size(2).filter(|size| *size <= LONGEST_PAGE)?;
                Cow::Owned(zstd::bulk::decompress(stored, whole).ok()?)
            }
            _ => return None,
        };
        let values = usize::try_from(kind.number(1)?).ok().filter(|values| *values <= MOST_ROWS)?;
        Some(Page { body, values, encoding: kind.number(2)? })
    }
}

/// The texts of a page: the length of each, and its bytes.
fn texts(page: &Page<'_>) -> Option<Vec<String>> {
    let mut rest = &*page.body;
    let mut all = Vec::new();
    for _ in 0..page.values {
        let (len, more) = rest.split_first_chunk::<4>()?;
        let (text, more) = more.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        all.push(String::from_utf8_lossy(text).into_owned());
        rest = more;
    }
    Some(all)
}

/// The numbers of texts in a dictionary: how many bits each has, and runs and groups of them.
fn numbers(page: &Page<'_>) -> Option<Vec<usize>> {
    let (width, rest) = page.body.split_first()?;
    let width = usize::from(*width);
    let mut runs = Thrift { bytes: rest, at: 0 };
    let mut all = Vec::new();
    while all.len() < page.values {
        let head = usize::try_from(runs.unsigned()?).ok()?;
        let left = page.values - all.len();
        if head & 1 == 0 {
            let bytes = runs.take(width.div_ceil(8))?;
            let number = bytes.iter().rev().fold(0, |all, byte| all << 8 | usize::from(*byte));
            if head >> 1 == 0 {
                return None;
            }
            all.extend(std::iter::repeat_n(number, (head >> 1).min(left)));
        } else {
            let bytes = runs.take((head >> 1).checked_mul(width)?)?;
            let bit = |at: usize| usize::from(bytes[at / 8] >> (at % 8) & 1);
            let number = |at: usize| (0..width).fold(0, |all, of| all | bit(at * width + of) << of);
            if bytes.is_empty() {
                return None;
            }
            all.extend((0..((head >> 1) * 8).min(left)).map(number));
        }
    }
    Some(all)
}

/// A value of Thrift's compact protocol.
enum Value<'a> {
    Number(i64),
    Bytes(&'a [u8]),
    List(Vec<Value<'a>>),
    /// The numbers of its fields, and their values.
    Structure(Vec<(i64, Value<'a>)>),
}

impl<'a> Value<'a> {
    fn member(&self, field: i64) -> Option<&Value<'a>> {
        let Value::Structure(fields) = self else { return None };
        fields.iter().find(|(number, _)| *number == field).map(|(_, value)| value)
    }

    fn number(&self, field: i64) -> Option<i64> {
        let Value::Number(number) = self.member(field)? else { return None };
        Some(*number)
    }

    fn bytes(&self, field: i64) -> Option<&'a [u8]> {
        let Value::Bytes(bytes) = self.member(field)? else { return None };
        Some(bytes)
    }

    /// The items of a list; none if it is not there.
    fn list(&self, field: i64) -> &[Value<'a>] {
        let Some(Value::List(items)) = self.member(field) else { return &[] };
        items
    }
}

/// Reads Thrift's compact protocol.
struct Thrift<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Thrift<'a> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let found = self.bytes.get(self.at..)?.get(..count)?;
        self.at += count;
        Some(found)
    }

    /// A number of any length, seven bits in a byte.
    fn unsigned(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// The sign is the last bit.
    fn signed(&mut self) -> Option<i64> {
        let number = self.unsigned()?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    fn value(&mut self, kind: u8, depth: usize) -> Option<Value<'a>> {
        Some(match kind {
            // True and false, of which a field consists of nothing else.
            1 | 2 => Value::Number(i64::from(kind == 1)),
            3 => Value::Number(self.byte()?.into()),
            4..=6 => Value::Number(self.signed()?),
            7 => Value::Bytes(self.take(8)?),
            8 => {
                let count = usize::try_from(self.unsigned()?).ok()?;
                Value::Bytes(self.take(count)?)
            }
            9 | 10 => {
                let head = self.byte()?;
                let count = match head >> 4 {
                    15 => self.unsigned()?,
                    short => short.into(),
                };
                let mut items = Vec::new();
                for _ in 0..count {
                    items.push(match head & 15 {
                        1 | 2 => Value::Number(self.byte()?.into()),
                        kind => self.value(kind, depth.checked_sub(1)?)?,
                    });
                }
                Value::List(items)
            }
            12 => self.structure(depth.checked_sub(1)?)?,
            _ => return None,
        })
    }

    fn structure(&mut self, depth: usize) -> Option<Value<'a>> {
        let mut fields = Vec::new();
        let mut last = 0_i64;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Some(Value::Structure(fields));
            }
            last = match head >> 4 {
                0 => self.signed()?,
                more => last.checked_add(more.into())?,
            };
            fields.push((last, self.value(head & 15, depth)?));
        }
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
