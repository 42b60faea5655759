//! The size of texts and images, before calibration.
//!
//! A unit is about a token of the tokenizer that models up to 4.6 have: a word of up to four
//! letters, three digits, a run of punctuation. How many tokens a unit really is, a session's
//! recorded usage shows (`fit`). Invariant: linear in the length of the text; nothing is kept.

use crate::client::check::pixels;
use crate::format::content::{Block, BlockKind};
use crate::format::json::{Json, Shape};

/// The classes of characters that tokens do not mix.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Letter,
    Digit,
    Blank,
    Break,
    Mark,
    /// The first byte of a character that is not ASCII.
    Wide,
    /// A byte that continues such a character.
    More,
}

/// What a byte counts in tenths of a unit, by its class and its place in a run of that class, from
/// 1; the last place stands for all after it. Found by comparing texts with the usage recorded for
/// them.
const TENTHS: [[u64; 6]; 7] = [
    // A word, and each letter of it after the fourth.
    [0, 9, 0, 0, 0, 2],
    // Each three digits.
    [0, 13, 0, 0, 0, 0],
    // A run of two or more blanks.
    [0, 0, 7, 0, 0, 0],
    // A run of line breaks.
    [0, 6, 0, 0, 0, 0],
    // A run of punctuation, and each character of it after the first.
    [0, 11, 3, 3, 3, 3],
    [0, 10, 10, 10, 10, 10],
    [0, 0, 0, 0, 0, 0],
];

/// The class of each byte.
static CLASSES: [Class; 256] = classes();

const fn classes() -> [Class; 256] {
    let mut classes = [Class::Mark; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte {
            0x41..=0x5a | 0x61..=0x7a => Class::Letter,
            0x30..=0x39 => Class::Digit,
            0x09 | 0x20 => Class::Blank,
            0x0a | 0x0d => Class::Break,
            0x80..=0xbf => Class::More,
            0xc0.. => Class::Wide,
            _ => Class::Mark,
        };
        byte += 1;
    }
    classes
}

/// How many units a text has. Each byte is looked at once: this reads all texts of a session.
#[allow(clippy::cast_precision_loss, reason = "no text is that long")]
pub(super) fn units(text: &str) -> f64 {
    let mut tenths = 0;
    let (mut last, mut place) = (Class::More, 0);
    for byte in text.bytes() {
        let class = CLASSES[usize::from(byte)];
        place = match place {
            _ if class != last => 1,
            3 if class == Class::Digit => 1,
            5 => 5,
            place => place + 1,
        };
        last = class;
        tenths += TENTHS[class as usize][place];
    }
    tenths as f64 / 10.0
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
    let text = String::from_utf8_lossy(json.raw());
    if text.contains('\\') {
        units(&text.replace("\\n", "\n").replace("\\\"", "\"").replace("\\\\", "\\"))
    } else {
        units(&text)
    }
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
