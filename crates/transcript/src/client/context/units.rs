//! The size of texts and images, before calibration.
//!
//! A unit is about a token of the tokenizer that models up to 4.6 have: a word of up to four
//! letters, three digits, a run of punctuation. How many tokens a unit really is, a session's
//! recorded usage shows (`fit`). Invariant: linear in the length of the text; nothing is kept.

use std::borrow::Cow;

use memchr::memchr;
use wide::u8x16;

use crate::client::check::pixels;
use crate::format::content::{Block, BlockKind};
use crate::format::json::{Json, Shape};

/// How many units a text has. Each byte is looked at once: this reads all texts of a session.
#[allow(clippy::cast_precision_loss, reason = "no text is that long")]
pub(super) fn units(text: &str) -> f64 {
    let mut counter = Counter::default();
    let (blocks, rest) = text.as_bytes().as_chunks::<MANY>();
    for block in blocks {
        counter.add(block);
    }
    if !rest.is_empty() {
        // Filled up with bytes that count nothing.
        let mut block = [0x80; MANY];
        block[..rest.len()].copy_from_slice(rest);
        counter.add(&block);
    }
    counter.tenths as f64 / 10.0
}

/// How many bytes are counted together: one bit for each fits into a `u64`.
const MANY: usize = 64;

/// Counts tenths of units, block by block.
#[derive(Default)]
struct Counter {
    tenths: u64,
    /// Of the block before, which bytes are of each class, as one bit each.
    letters: u64,
    blanks: u64,
    breaks: u64,
    marks: u64,
    /// How many digits the run has that reaches to the end of the block before, modulo three.
    digits: u64,
}

impl Counter {
    /// What a byte counts depends on its place in a run of bytes of its class; tokens do not mix
    /// classes. The numbers were found by comparing texts with the usage recorded for them.
    fn add(&mut self, block: &[u8; MANY]) {
        let [mut letters, mut digits, mut blanks, mut breaks, mut wide, mut more] = [0_u64; 6];
        for (number, bytes) in block.as_chunks::<16>().0.iter().enumerate() {
            let bytes = u8x16::new(*bytes);
            let is = |byte: u8| bytes.simd_eq(u8x16::splat(byte));
            let within = |bytes: u8x16, first: u8, last: u8| {
                bytes.simd_eq(bytes.max(u8x16::splat(first)).min(u8x16::splat(last)))
            };
            let put = |all: &mut u64, found: u8x16| {
                *all |= u64::from(found.to_bitmask()) << (number * 16);
            };
            put(&mut letters, within(bytes | u8x16::splat(0x20), b'a', b'z'));
            put(&mut digits, within(bytes, b'0', b'9'));
            put(&mut blanks, is(b' ') | is(b'\t'));
            put(&mut breaks, is(b'\n') | is(b'\r'));
            // The first byte of a character that is not ASCII, and those that continue it.
            put(&mut wide, within(bytes, 0xc0, 0xff));
            put(&mut more, within(bytes, 0x80, 0xbf));
        }
        let marks = !(letters | digits | blanks | breaks | wide | more);
        let count = |bits: u64| u64::from(bits.count_ones());
        // The bytes that have so many others of their class before them.
        let behind = |bits: u64, before: u64, places: u32| bits << places | before >> (64 - places);
        let second = |bits: u64, before: u64| bits & behind(bits, before, 1);
        // A word, and each letter of it after the fourth.
        let of_words = second(letters, self.letters);
        let long = (2..=4).fold(of_words, |long, at| long & behind(letters, self.letters, at));
        self.tenths += 9 * count(letters & !of_words) + 2 * count(long);
        // A run of two or more blanks.
        let of_runs = second(blanks, self.blanks);
        self.tenths += 7 * count(of_runs & !behind(blanks, self.blanks, 2));
        // A run of line breaks.
        self.tenths += 6 * count(breaks & !second(breaks, self.breaks));
        // A run of punctuation, and each character of it after the first.
        let of_runs = second(marks, self.marks);
        self.tenths += 11 * count(marks & !of_runs) + 3 * count(of_runs);
        self.tenths += 10 * count(wide);
        self.digits(digits);
        (self.letters, self.blanks, self.breaks, self.marks) = (letters, blanks, breaks, marks);
    }

    /// Each three digits.
    fn digits(&mut self, mut digits: u64) {
        let mut before = self.digits;
        self.digits = 0;
        let mut at = 0;
        while digits != 0 {
            let skip = digits.trailing_zeros();
            if skip > 0 {
                before = 0;
            }
            digits >>= skip;
            let length = digits.trailing_ones();
            let all = before + u64::from(length);
            self.tenths += 13 * (all.div_ceil(3) - before.div_ceil(3));
            at += skip + length;
            if at == u64::BITS {
                self.digits = all % 3;
                return;
            }
            digits >>= length;
            before = 0;
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "no text is that long")]
pub(super) fn number(count: usize) -> f64 {
    count as f64
}

/// The units of a block's text, and the tokens of its images and documents, which do not depend on
/// the tokenizer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct BlockSize {
    pub(super) units: f64,
    pub(super) media: f64,
}

/// How many bytes of a signature are a token of the thinking that it stands for, roughly.
const SIGNED: f64 = 4.0;

/// The size of a block.
pub(super) fn of_block(block: &Block<'_>) -> BlockSize {
    let text = |name: &str| block.field(name).map_or(0.0, |text| units(&text));
    match block.kind() {
        BlockKind::Text => {
            BlockSize { units: block.text().map_or(0.0, |text| units(&text)), media: 0.0 }
        }
        // Of thinking, the API reads the signature, which is as long as the thinking was.
        BlockKind::Thinking | BlockKind::RedactedThinking => {
            BlockSize { units: number(block.json().raw().len()) / SIGNED, media: 0.0 }
        }
        BlockKind::ToolUse | BlockKind::ServerToolUse => {
            let input = block.get("input").map_or(0.0, inside);
            BlockSize { units: text("name") + input, media: 0.0 }
        }
        BlockKind::ToolResult => {
            let mut size = BlockSize::default();
            for inner in block.inner() {
                let inner = match inner.kind() {
                    // A block inside a result inside a result is no content of the API.
                    BlockKind::ToolResult => BlockSize { units: inside(inner.json()), media: 0.0 },
                    _ => of_block(&inner),
                };
                size.units += inner.units;
                size.media += inner.media;
            }
            size
        }
        BlockKind::Image => BlockSize { units: 0.0, media: image(pixels(block)) },
        BlockKind::Document => BlockSize { units: 0.0, media: document(block) },
        BlockKind::ToolReference | BlockKind::ServerToolResult | BlockKind::Other => {
            BlockSize { units: inside(block.json()), media: 0.0 }
        }
    }
}

/// The units of a JSON value, as it is in the file.
fn inside(json: Json<'_>) -> f64 {
    if json.shape() == Shape::String {
        return json.text().map_or(0.0, |text| units(&text));
    }
    // Escapes of line breaks and quotes would count twice otherwise.
    units(&plain(&String::from_utf8_lossy(json.raw())))
}

/// A text with its line breaks, quotes and backslashes instead of their escapes.
fn plain(text: &str) -> Cow<'_, str> {
    let Some(mut slash) = memchr(b'\\', text.as_bytes()) else { return Cow::Borrowed(text) };
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        out.push_str(&rest[..slash]);
        let slashes = rest.as_bytes()[slash..].iter().take_while(|byte| **byte == b'\\').count();
        rest = &rest[slash + slashes..];
        // The last one may belong to the letter behind it.
        let (escaped, of_letter) = match rest.as_bytes().first() {
            Some(b'n') => (Some('\n'), 1),
            Some(b'"') => (Some('"'), 1),
            _ => (None, 0),
        };
        out.extend(std::iter::repeat_n('\\', (slashes - of_letter).div_ceil(2)));
        out.extend(escaped);
        rest = &rest[of_letter..];
        match memchr(b'\\', rest.as_bytes()) {
            Some(found) => slash = found,
            None => break,
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The API makes larger images smaller, so that none costs more than this.
const LARGEST_IMAGE: f64 = 1_600.0;
/// The longest side that an image keeps.
const LONGEST_SIDE: f64 = 1_568.0;
/// How many pixels are a token.
const PIXELS: f64 = 750.0;

/// What an image costs; the most that one can cost if its size is not known.
pub(super) fn image(size: Option<(usize, usize)>) -> f64 {
    let Some((width, height)) = size else { return LARGEST_IMAGE };
    let (width, height) = (number(width), number(height));
    let scale = (LONGEST_SIDE / width.max(height).max(1.0)).min(1.0);
    (width * scale * height * scale / PIXELS).ceil().min(LARGEST_IMAGE)
}

/// About how many bytes of base64 are a page of a PDF, and what a page costs.
const PAGE: f64 = 60_000.0;
const PAGE_TOKENS: f64 = 2_000.0;

/// What a document costs: its text, or an estimate by its size.
fn document(block: &Block<'_>) -> f64 {
    let source = block.get("source").and_then(Json::object);
    let Some(data) = source.as_ref().and_then(|source| source.get("data")) else {
        return PAGE_TOKENS;
    };
    let is_text =
        source.is_some_and(|source| source.get("type").is_some_and(|kind| kind.is("text")));
    if is_text {
        return data.text().map_or(0.0, |text| units(&text));
    }
    PAGE_TOKENS * (number(data.raw().len()) / PAGE).ceil().max(1.0)
}

#[cfg(test)]
#[path = "units_tests.rs"]
mod tests;
