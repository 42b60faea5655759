//! The size of texts and images, before calibration.
//!
//! A unit is about a token of the tokenizer that models up to 4.6 have: a word of up to four
//! letters, three digits, a run of punctuation. How many tokens a unit really is, a session's
//! recorded usage shows (`fit`). Invariant: linear in the length of the text; nothing is kept.

use crate::client::check::pixels;
use crate::format::content::{Block, BlockKind};
use crate::format::json::{Json, Shape};

/// What each class of characters counts. Found by comparing texts with the usage recorded for them.
const WORD: f64 = 0.9;
/// Each letter of a word after the fourth.
const LETTER: f64 = 0.2;
/// Each three digits that follow each other.
const DIGITS: f64 = 1.3;
/// A run of two or more blanks.
const BLANKS: f64 = 0.7;
/// A run of line breaks.
const BREAKS: f64 = 0.6;
/// A character that is not ASCII.
const WIDE: f64 = 1.0;
/// A run of punctuation, and each character of it after the first.
const MARKS: f64 = 1.1;
const MARK: f64 = 0.3;

/// The classes of characters that tokens do not mix.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Letter,
    Digit,
    Blank,
    Break,
    Mark,
    Wide,
}

fn class(byte: u8) -> Class {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' => Class::Letter,
        b'0'..=b'9' => Class::Digit,
        b' ' | b'\t' => Class::Blank,
        b'\n' | b'\r' => Class::Break,
        0x80.. => Class::Wide,
        _ => Class::Mark,
    }
}

/// How many units a text has.
pub(super) fn units(text: &str) -> f64 {
    let bytes = text.as_bytes();
    let mut sum = 0.0;
    let mut at = 0;
    while let Some(first) = bytes.get(at) {
        let kind = class(*first);
        let rest = &bytes[at..];
        let len = rest.iter().position(|byte| class(*byte) != kind).unwrap_or(rest.len());
        let more = number(len - 1);
        sum += match kind {
            Class::Letter => WORD + LETTER * number(len.saturating_sub(4)),
            Class::Digit => DIGITS * number(len.div_ceil(3)),
            Class::Blank if len == 1 => 0.0,
            Class::Blank => BLANKS,
            Class::Break => BREAKS,
            Class::Mark => MARKS + MARK * more,
            // Bytes that continue a character do not count.
            Class::Wide => {
                WIDE * number(rest[..len].iter().filter(|byte| **byte & 0xc0 != 0x80).count())
            }
        };
        at += len;
    }
    sum
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
