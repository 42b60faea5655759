//! Writes Thrift's compact protocol, in which Parquet describes itself.
//!
//! Fields are written in the order of their numbers; whoever calls knows the types.

/// The types of fields and of the items of lists.
const YES: u8 = 1;
const INT: u8 = 5;
const LONG: u8 = 6;
const BYTES: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// What the items of a list are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Items {
    Ints,
    Texts,
    Structs,
}

/// A structure that is being written, and those in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Thrift {
    pub(crate) bytes: Vec<u8>,
    /// The number of the last field of the structure.
    last: u8,
}

impl Thrift {
    /// Numbers of any length, seven bits in a byte.
    fn unsigned(&mut self, number: u64) {
        varint(&mut self.bytes, number);
    }

    /// The sign is the last bit.
    fn signed(&mut self, number: i64) {
        self.unsigned((number.cast_unsigned() << 1) ^ (number >> 63).cast_unsigned());
    }

    /// Begins a field. Numbers of fields are small, so the distance to the last one always fits.
    fn field(&mut self, number: u8, kind: u8) {
        debug_assert!(number > self.last && number - self.last < 16, "field {number}");
        self.bytes.push((number - self.last) << 4 | kind);
        self.last = number;
    }

    pub(crate) fn yes(&mut self, number: u8) {
        self.field(number, YES);
    }

    pub(crate) fn int(&mut self, number: u8, value: i32) {
        self.field(number, INT);
        self.signed(value.into());
    }

    pub(crate) fn long(&mut self, number: u8, value: u64) {
        self.field(number, LONG);
        self.signed(i64::try_from(value).unwrap_or(i64::MAX));
    }

    pub(crate) fn text(&mut self, number: u8, value: &[u8]) {
        self.field(number, BYTES);
        self.text_item(value);
    }

    pub(crate) fn structure(&mut self, number: u8, fill: impl FnOnce(&mut Thrift)) {
        self.field(number, STRUCT);
        self.item(fill);
    }

    /// Begins a list; its items follow.
    pub(crate) fn list(&mut self, number: u8, items: Items, count: usize) {
        self.field(number, LIST);
        let kind = match items {
            Items::Ints => INT,
            Items::Texts => BYTES,
            Items::Structs => STRUCT,
        };
        if let Ok(count @ 0..15) = u8::try_from(count) {
            self.bytes.push(count << 4 | kind);
        } else {
            self.bytes.push(0xf0 | kind);
            self.unsigned(count as u64);
        }
    }

    /// A structure that is an item of a list.
    pub(crate) fn item(&mut self, fill: impl FnOnce(&mut Thrift)) {
        let before = std::mem::take(&mut self.last);
        fill(self);
        self.end();
        self.last = before;
    }

    pub(crate) fn int_item(&mut self, value: i32) {
        self.signed(value.into());
    }

    pub(crate) fn text_item(&mut self, value: &[u8]) {
        self.unsigned(value.len() as u64);
        self.bytes.extend_from_slice(value);
    }

    /// Ends the outermost structure.
    pub(crate) fn end(&mut self) {
        self.bytes.push(0);
    }
}

/// Appends a number of any length, seven bits in a byte.
pub(crate) fn varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(low_byte(number) | 0x80);
        number >>= 7;
    }
    bytes.push(low_byte(number));
}

/// The last byte of a number.
pub(crate) fn low_byte(number: u64) -> u8 {
    number.to_le_bytes()[0]
}
