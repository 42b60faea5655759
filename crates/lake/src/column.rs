//! The values of a column, as Parquet has them: in pages, with or without a dictionary.
//!
//! Invariants: equal values make equal bytes; a column that may be null has a level for each row,
//! and values only where there are some.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::ops::Range;

use zstd::bulk::Compressor;

use crate::schema::{Column, Holds, Null};
use crate::thrift::{low_byte, varint};

/// Columns with fewer bytes than this are not compressed: it would save next to nothing.
const COMPRESSED: usize = 1 << 10;

/// From this many rows on, texts may have a dictionary.
const DICTIONARY_ROWS: usize = 8;

/// Texts of which hardly two are equal need no dictionary.
const DIFFERENT: [&str; 9] = [
    "call_id",
    "first_prompt",
    "message_id",
    "parent_uuid",
    "raw",
    "result",
    "text",
    "title",
    "uuid",
];

/// What zstd is asked for: the quickest.
const LEVEL: i32 = 1;

thread_local! {
    /// Making a compressor takes longer than most columns.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
}

/// The values of a column of a row group, as Parquet has them.
#[derive(Debug)]
pub(crate) struct Values {
    pub(crate) column: &'static Column,
    /// Whether there is a value, for each row; only of columns that may be null.
    present: Vec<bool>,
    /// The values, one after the other; flags are bits.
    plain: Vec<u8>,
    count: usize,
    /// The least and the greatest value, except of texts.
    range: Option<(i64, i64)>,
}

impl Values {
    pub(crate) fn new(column: &'static Column) -> Values {
        Values { column, present: Vec::new(), plain: Vec::new(), count: 0, range: None }
    }

    /// Adds a row without a value; one that must have one gets the least.
    pub(crate) fn add_null(&mut self) {
        if self.column.null == Null::Maybe {
            return self.present.push(false);
        }
        match self.column.holds {
            Holds::Text => self.add_text(""),
            Holds::Flag => self.add_flag(false),
            Holds::Number | Holds::Dollars | Holds::Moment | Holds::Day => self.add_number(0),
        }
    }

    pub(crate) fn add_text(&mut self, text: &str) {
        // Longer ones are refused when the page is written.
        let len = u32::try_from(text.len()).unwrap_or(u32::MAX);
        self.plain.extend_from_slice(&len.to_le_bytes());
        self.plain.extend_from_slice(text.as_bytes());
        self.added();
    }

    /// Adds a number, dollars, a moment or a day.
    pub(crate) fn add_number(&mut self, number: i64) {
        if self.column.holds == Holds::Day {
            let days = i32::try_from(number).unwrap_or_default();
            self.plain.extend_from_slice(&days.to_le_bytes());
        } else {
            self.plain.extend_from_slice(&number.to_le_bytes());
        }
        self.saw(number);
        self.added();
    }

    pub(crate) fn add_flag(&mut self, flag: bool) {
        let bit = self.count % 8;
        if bit == 0 {
            self.plain.push(0);
        }
        if let Some(last) = self.plain.last_mut() {
            *last |= u8::from(flag) << bit;
        }
        self.saw(flag.into());
        self.added();
    }

    fn saw(&mut self, number: i64) {
        let (least, greatest) = self.range.unwrap_or((number, number));
        self.range = Some((least.min(number), greatest.max(number)));
    }

    fn added(&mut self) {
        self.count += 1;
        if self.column.null == Null::Maybe {
            self.present.push(true);
        }
    }

    fn rows(&self) -> usize {
        if self.column.null == Null::Maybe { self.present.len() } else { self.count }
    }

    /// The page of these values, and that of its dictionary.
    pub(crate) fn pages(&self) -> Pages {
        let mut page = Vec::with_capacity(self.plain.len() + 64);
        if self.column.null == Null::Maybe {
            levels(&mut page, self.present.len(), |at| u32::from(self.present[at]));
        }
        let may = self.column.holds == Holds::Text
            && self.count >= DICTIONARY_ROWS
            && !DIFFERENT.contains(&self.column.name);
        let dictionary = if may { Dictionary::of(&self.plain, self.count) } else { None };
        if let Some(Dictionary { words, indices }) = &dictionary {
            with_indices(&mut page, words.number, indices.len(), |at| indices[at]);
        } else {
            page.extend_from_slice(&self.plain);
        }
        let rows = self.rows();
        Pages {
            data: page,
            dictionary: dictionary.map(|dictionary| dictionary.words),
            rows,
            nulls: rows - self.count,
            range: self.range,
        }
    }

    /// The pages of a column that has this one value, or none, in each of that many rows.
    pub(crate) fn repeated(&self, rows: usize) -> Pages {
        let has = self.count > 0;
        let mut page = Vec::new();
        if self.column.null == Null::Maybe {
            levels(&mut page, rows, |_| u32::from(has));
        }
        let mut dictionary = None;
        if has && rows < DICTIONARY_ROWS {
            page.extend(self.plain.repeat(rows));
        } else if has {
            with_indices(&mut page, 1, rows, |_| 0);
            dictionary = Some(Words { bytes: self.plain.clone(), number: 1 });
        }
        let nulls = if has { 0 } else { rows };
        Pages { data: page, dictionary, rows, nulls, range: self.range }
    }
}

/// Texts by number.
struct Dictionary {
    /// The different ones, in the order in which they appear first.
    words: Words,
    /// For each value, the number of its text.
    indices: Vec<u32>,
}

impl Dictionary {
    /// The dictionary of these texts; `None` if more than half of them are different.
    fn of(plain: &[u8], count: usize) -> Option<Dictionary> {
        let mut known: HashMap<&[u8], u32> = HashMap::new();
        let (mut words, mut indices) = (Vec::new(), Vec::with_capacity(count));
        let mut before: (&[u8], u32) = (&[], 0);
        let mut rest = plain;
        while let Some(len) = rest.first_chunk::<4>() {
            let (word, next) = rest.split_at_checked(4 + u32::from_le_bytes(*len) as usize)?;
            rest = next;
            // Neighbours are mostly equal.
            if word != before.0 {
                let new = u32::try_from(known.len()).ok()?;
                let number = *known.entry(word).or_insert(new);
                if number == new {
                    words.extend_from_slice(word);
                }
                before = (word, number);
            }
            indices.push(before.1);
            if known.len() * 2 > count {
                return None;
            }
        }
        Some(Dictionary { words: Words { bytes: words, number: known.len() }, indices })
    }
}

/// Whether rows have values: the length, and runs of zeros and ones.
fn levels(page: &mut Vec<u8>, rows: usize, level: impl Fn(usize) -> u32) {
    let at = page.len();
    page.extend_from_slice(&[0; 4]);
    runs(page, 1, rows, level);
    let len = u32::try_from(page.len() - at - 4).unwrap_or(u32::MAX);
    page[at..at + 4].copy_from_slice(&len.to_le_bytes());
}

/// The numbers of texts in a dictionary.
fn with_indices(page: &mut Vec<u8>, words: usize, count: usize, index: impl Fn(usize) -> u32) {
    let greatest = words.saturating_sub(1) as u64;
    let width = (64 - greatest.leading_zeros()).max(1);
    page.push(low_byte(width.into()));
    runs(page, width, count, index);
}

/// Numbers of so many bits each: equal ones as a run, others in groups of eight.
fn runs(page: &mut Vec<u8>, width: u32, count: usize, value: impl Fn(usize) -> u32) {
    let (mut at, mut from) = (0, 0);
    while at < count {
        let first = value(at);
        let run = (at..count).take_while(|other| value(*other) == first).count();
        let beyond = (at - from) % 8;
        if run < 8 {
            at += run;
        } else if beyond > 0 {
            // The last group becomes full, so that a run can follow it.
            at += 8 - beyond;
        } else {
            groups(page, width, from..at, &value);
            varint(page, (run as u64) << 1);
            page.extend_from_slice(&first.to_le_bytes()[..width.div_ceil(8) as usize]);
            at += run;
            from = at;
        }
    }
    groups(page, width, from..count, &value);
}

/// Groups of eight numbers, the last one filled with zeros.
fn groups(page: &mut Vec<u8>, width: u32, range: Range<usize>, value: &impl Fn(usize) -> u32) {
    if range.is_empty() {
        return;
    }
    let number = range.len().div_ceil(8);
    varint(page, (number as u64) << 1 | 1);
    let (mut held, mut bits) = (0_u64, 0);
    for at in range.start..range.start + number * 8 {
        let value = if at < range.end { value(at) } else { 0 };
        held |= u64::from(value) << bits;
        bits += width;
        while bits >= 8 {
            page.push(low_byte(held));
            held >>= 8;
            bits -= 8;
        }
    }
}

/// The pages of a column of a row group.
#[derive(Debug)]
pub(crate) struct Pages {
    /// Which rows have values, and the values or their numbers in the dictionary.
    pub(crate) data: Vec<u8>,
    pub(crate) dictionary: Option<Words>,
    pub(crate) rows: usize,
    pub(crate) nulls: usize,
    /// The least and the greatest value, except of texts.
    pub(crate) range: Option<(i64, i64)>,
}

/// The page of a dictionary.
#[derive(Debug)]
pub(crate) struct Words {
    pub(crate) bytes: Vec<u8>,
    pub(crate) number: usize,
}

/// Compressed pages.
pub(crate) struct Packed {
    pub(crate) data: Vec<u8>,
    pub(crate) words: Option<Vec<u8>>,
}

impl Pages {
    /// Its pages compressed, if that makes them shorter.
    pub(crate) fn packed(&self) -> io::Result<Option<Packed>> {
        let words = self.dictionary.as_ref().map(|words| &words.bytes);
        let len = self.data.len() + words.map_or(0, Vec::len);
        if len < COMPRESSED {
            return Ok(None);
        }
        COMPRESSOR.with_borrow_mut(|held| {
            let compressor = match held {
                Some(compressor) => compressor,
                None => held.insert(Compressor::new(LEVEL)?),
            };
            let data = compressor.compress(&self.data)?;
            let words = words.map(|words| compressor.compress(words)).transpose()?;
            let packed = data.len() + words.as_ref().map_or(0, Vec::len);
            Ok((packed < len).then_some(Packed { data, words }))
        })
    }
}
