//! One block as a value: text, thinking, an image, or anything else as it is in the file.

use serde::Serialize;
use serde_json::value::RawValue;

use super::is_false;
use super::number::size;
use crate::format::json::Json;

/// A block of a message or of a result.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Piece {
    /// Text.
    Text {
        /// The text.
        text: String,
        /// The record is too long for memory, so the middle of the text is missing.
        #[serde(skip_serializing_if = "is_false")]
        cut: bool,
    },
    /// Thinking; empty if the client keeps only the signature.
    Thinking {
        /// The text.
        text: String,
        /// The record is too long for memory, so the middle of the text is missing.
        #[serde(skip_serializing_if = "is_false")]
        cut: bool,
    },
    /// Thinking that only the API can read.
    RedactedThinking,
    /// An image or a document.
    Media {
        /// The type of the block.
        kind: String,
        /// Its media type.
        media_type: String,
        /// Its size in bytes of base64 or text.
        size: usize,
    },
    /// Anything else.
    Other {
        /// The type of the block.
        kind: String,
        /// The block itself; of a call, its input.
        json: Raw,
        /// Whether it is a call. The kind is then the name of the tool.
        #[serde(skip)]
        is_call: bool,
    },
}

impl Piece {
    pub(super) fn other(kind: String, json: Json<'_>) -> Piece {
        Piece::Other { kind, json: Raw::new(json.raw().to_vec()), is_call: false }
    }

    /// Its text, if it is a text.
    pub fn text(&self) -> Option<&str> {
        match self {
            Piece::Text { text, .. } => Some(text),
            _ => None,
        }
    }

    /// Whether the middle of its text is missing.
    pub fn is_cut(&self) -> bool {
        matches!(self, Piece::Text { cut: true, .. } | Piece::Thinking { cut: true, .. })
    }

    /// A piece that is neither text nor thinking, in a few words, in brackets.
    pub fn in_words(&self) -> Option<String> {
        match self {
            Piece::Text { .. } | Piece::Thinking { .. } => None,
            Piece::RedactedThinking => Some("[thinking that only the API can read]".to_owned()),
            Piece::Media { kind, media_type, size: bytes } => {
                Some(format!("[{kind} {media_type} {}]", size(*bytes as u64)))
            }
            Piece::Other { kind, json, .. } => {
                Some(format!("[{kind} {}]", size(json.len() as u64)))
            }
        }
    }
}

/// The texts of pieces, joined; pieces that are not text in a few words. Without the client's own
/// wrapping of errors.
pub(super) fn texts(pieces: &[Piece]) -> String {
    let texts = pieces.iter().filter_map(|piece| match piece {
        Piece::Text { text, .. } | Piece::Thinking { text, .. } => Some(text.clone()),
        piece => piece.in_words(),
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    let inner = text.trim().strip_prefix("<tool_use_error>");
    inner.and_then(|inner| inner.strip_suffix("</tool_use_error>")).unwrap_or(&text).to_owned()
}

/// JSON as it is in the file; where it becomes part of other JSON, a text if another parser would
/// not accept it.
#[derive(Clone, Debug)]
pub struct Raw(String);

impl Raw {
    /// Creates it from the bytes of a value.
    pub fn new(bytes: Vec<u8>) -> Raw {
        let text = String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        Raw(text)
    }

    /// The JSON as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.as_str().len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.as_str().is_empty()
    }
}

impl Serialize for Raw {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_ours = Json::parse(self.0.as_bytes()).is_some();
        match serde_json::from_str::<&RawValue>(&self.0) {
            Ok(json) if is_ours => json.serialize(serializer),
            _ => serializer.serialize_str(&self.0),
        }
    }
}

/// The character, or a visible replacement for one that a terminal would obey, that people do not
/// see, or that changes the order in which others are shown.
pub fn visible(c: char) -> char {
    match c {
        '\0'..='\u{1f}' => char::from_u32(0x2400 + c as u32).unwrap_or('␀'),
        '\u{7f}' => '␡',
        // C1 controls, line separators, direction marks.
        '\u{80}'..='\u{9f}'
        | '\u{61c}'
        | '\u{200e}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}'
        // Annotation marks and tags, which people do not see and programs may read.
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}' => '\u{fffd}',
        _ => c,
    }
}
