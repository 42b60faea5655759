//! What occurs in the blocks that are sent.
//!
//! Invariant: a text counts as quoted only as a whole, between characters that are not part of a
//! word; a short one only if it stands alone on its line or between quotation marks.

use memchr::memmem;

use crate::format::content::{Block, BlockKind};
use crate::format::json::{Json, Shape};

/// Texts shorter than this occur by chance.
const SHORT: usize = 16;
/// How deep inputs of calls are looked at.
const DEEPEST: usize = 32;

/// Everything that is sent, as one text.
#[derive(Debug)]
pub(super) struct Quotes {
    text: String,
}

impl Quotes {
    pub(super) fn new(blocks: &[&[u8]]) -> Quotes {
        let mut text = String::new();
        for block in blocks {
            let block = Json::trusted(block);
            match whole_text(block) {
                Some(whole) => line(&mut text, &whole),
                None => strings(block, &mut text, DEEPEST),
            }
        }
        Quotes { text }
    }

    /// Whether the text of a block is quoted whole. A block that is not a text is not.
    pub(super) fn has_whole(&self, block: Json<'_>) -> bool {
        whole_text(block).is_some_and(|text| self.has_text(&text))
    }

    /// Whether a text is quoted whole.
    pub(super) fn has_text(&self, text: &str) -> bool {
        let text = text.trim();
        let is_free: fn(Option<char>) -> bool = if text.len() < SHORT { is_mark } else { is_gap };
        text.is_empty() || self.has_between(text, is_free)
    }

    /// Whether a name, a number or a command occurs, however short it is.
    pub(super) fn has_word(&self, word: &str) -> bool {
        self.has_between(word, is_gap)
    }

    fn has_between(&self, needle: &str, is_free: fn(Option<char>) -> bool) -> bool {
        let mut found = memmem::find_iter(self.text.as_bytes(), needle.as_bytes());
        found.any(|at| {
            let before = self.text[..at].chars().next_back();
            let after = self.text[at + needle.len()..].chars().next();
            is_free(before) && is_free(after)
        })
    }
}

/// Whether a character is not part of a word or a number.
fn is_gap(character: Option<char>) -> bool {
    character.is_none_or(|character| !character.is_alphanumeric() && character != '_')
}

/// Whether a character ends a quotation.
fn is_mark(character: Option<char>) -> bool {
    character.is_none_or(|character| "\n\"'`“”„«»<>".contains(character))
}

/// The text of a block that is nothing but text: of a person, of the model, or a result.
pub(super) fn whole_text(block: Json<'_>) -> Option<String> {
    let found = Block::of(block)?;
    match found.kind() {
        BlockKind::Text => Some(found.text()?.into_owned()),
        BlockKind::Thinking => Some(block.get("thinking")?.text()?.into_owned()),
        BlockKind::ToolResult => {
            let content = block.get("content");
            let Some(content) = content.filter(|content| content.shape() != Shape::Null) else {
                return Some(String::new());
            };
            if let Some(text) = content.text() {
                return Some(text.into_owned());
            }
            let mut whole = String::new();
            for inner in content.elements() {
                line(&mut whole, &inner.get("text")?.text()?);
            }
            Some(whole)
        }
        _ => None,
    }
}

fn line(text: &mut String, more: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(more);
}

/// Adds every text inside a value.
fn strings(json: Json<'_>, text: &mut String, deepest: usize) {
    match json.shape() {
        Shape::String => line(text, &json.text().unwrap_or_default()),
        Shape::Array if deepest > 0 => {
            json.elements().for_each(|inner| strings(inner, text, deepest - 1));
        }
        Shape::Object if deepest > 0 => {
            let object = json.object();
            let members = object.iter().flat_map(crate::format::json::Object::members);
            // Images are no text.
            for (_, inner) in members.filter(|(name, _)| name != "data" && name != "signature") {
                strings(inner, text, deepest - 1);
            }
        }
        Shape::Number => line(text, &String::from_utf8_lossy(json.raw())),
        _ => {}
    }
}
