//! Changes to one record: members that change, blocks that are removed or replaced.
//!
//! An edit is an instruction, not a result: texts and images are read when the record is written,
//! so a plan for a whole session stays small.

use memchr::{memchr2, memmem};

use crate::format::content::{Block, BlockKind};
use crate::format::entry::Entry;
use crate::format::json::{Json, Shape, quote, replace_surrogates};

use super::image;
use super::splice::{Splices, To, range_of};
use crate::client::check::fields;

/// Changes to one record.
#[derive(Clone, Debug, Default)]
pub(super) struct Edit {
    /// Changed members of the record.
    pub(super) members: Vec<(&'static str, To)>,
    /// Changed members of its message.
    pub(super) message: Vec<(&'static str, To)>,
    /// Changed blocks, by index; a block may have several changes.
    pub(super) blocks: Vec<(u32, BlockEdit)>,
    /// Tool results move before everything else in the message.
    pub(super) results_first: bool,
    /// Unpaired surrogates and invalid UTF-8 become U+FFFD.
    pub(super) mends_text: bool,
}

/// A change to one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BlockEdit {
    /// The block is removed.
    Gone,
    /// The content of a tool result is replaced with a note about its size.
    Emptied,
    /// Images and documents, also those in a tool result, are replaced with notes.
    WithoutImages,
    /// Images that the API does not accept are made smaller, or replaced with a note if that does
    /// not help. No side may be longer than this, in pixels.
    Smaller(u32),
    /// Members that the API does not know are removed.
    Known {
        /// The block belongs to an answer.
        is_answer: bool,
    },
    /// The name and the input of a tool call get a form that the API accepts.
    CallForm,
    /// The member gets this value (JSON).
    Member(&'static str, Vec<u8>),
}

/// The member that names the parent, and how clients begin a record.
const PARENT: &str = "parentUuid";
const PARENT_FIRST: &[u8] = br#"{"parentUuid":"#;

impl Edit {
    pub(super) fn set(&mut self, name: &'static str, to: To) {
        match self.members.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = to,
            None => self.members.push((name, to)),
        }
    }

    /// Sets a member to a string.
    pub(super) fn set_text(&mut self, name: &'static str, text: &str) {
        self.set(name, To::Value(quote(text).into_bytes()));
    }

    /// The changes as byte ranges of the record. In a condensed record, sizes are unknown.
    pub(super) fn splices(&self, entry: &Entry<'_>, is_condensed: bool) -> Splices {
        let mut splices = Splices::default();
        let bytes = entry.raw();
        splices.members(entry, 0, &self.members);
        let Some(message) = entry.message() else { return splices };
        let Some(range) = range_of(message.json().raw(), bytes) else { return splices };
        // If the message is the record itself, its members have been changed already.
        if range.start > 0 {
            splices.members(message, range.start, &self.message);
        }
        // If the content was replaced, its blocks are no longer there.
        if self.message.iter().any(|(name, _)| *name == "content") {
            return splices;
        }
        let content = message.content().filter(|content| content.shape() == Shape::Array);
        if let Some(list) = content.filter(|_| self.results_first)
            && let Some(range) = range_of(list.raw(), bytes)
        {
            let (results, rest): (Vec<_>, Vec<_>) = list.elements().partition(|element| {
                element.get("type").is_some_and(|name| name.is("tool_result"))
            });
            let all: Vec<&[u8]> = results.into_iter().chain(rest).map(Json::raw).collect();
            splices.put(range, [b"[", all.join(&b","[..]).as_slice(), b"]"].concat());
        } else if let Some(content) = content.and_then(|content| range_of(content.raw(), bytes))
            && !self.blocks.is_empty()
        {
            splices.elements(bytes, content, |place, raw| self.block(place, raw, is_condensed));
        }
        splices
    }

    fn block(&self, place: usize, raw: &[u8], is_condensed: bool) -> Option<To> {
        let edits = self.blocks.iter().filter(|(at, _)| *at as usize == place);
        let mut found: Option<Vec<u8>> = None;
        for (_, edit) in edits {
            let before = found.as_deref().unwrap_or(raw);
            found = Some(match edit {
                BlockEdit::Gone => return Some(To::Nothing),
                _ => changed(before, edit, is_condensed)?,
            });
        }
        found.filter(|found| found != raw).map(To::Value)
    }

    /// Like [`Edit::apply`], without parsing the record. Only possible where that is safe: only the
    /// parent changes, and it is the record's first member and occurs only once.
    pub(super) fn apply_to_parent(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let [(PARENT, To::Value(to))] = &self.members[..] else { return None };
        let has_more = !self.message.is_empty()
            || !self.blocks.is_empty()
            || self.results_first
            || self.mends_text;
        let behind = bytes.strip_prefix(PARENT_FIRST).filter(|_| !has_more)?;
        let value = match behind.strip_prefix(b"\"") {
            Some(text) => memchr2(b'"', b'\\', text).filter(|end| text[*end] == b'"')? + 2,
            None => behind.starts_with(b"null").then_some(4)?,
        };
        let rest = &behind[value..];
        let is_alone = memmem::find(rest, &PARENT_FIRST[1..]).is_none();
        is_alone.then(|| [PARENT_FIRST, to, rest].concat())
    }

    /// The record with all changes applied.
    pub(super) fn apply(&self, entry: &Entry<'_>) -> Vec<u8> {
        let bytes = self.splices(entry, false).apply(entry.raw());
        if self.mends_text {
            let valid = match String::from_utf8_lossy(&bytes) {
                std::borrow::Cow::Borrowed(_) => bytes,
                std::borrow::Cow::Owned(text) => text.into_bytes(),
            };
            return replace_surrogates(&valid).unwrap_or(valid);
        }
        bytes
    }
}

/// A block with one change applied; `None` if the change does not apply to it.
fn changed(raw: &[u8], edit: &BlockEdit, is_condensed: bool) -> Option<Vec<u8>> {
    let json = Json::parse(raw)?;
    let block = Block::of(json)?;
    match edit {
        BlockEdit::Gone => None,
        BlockEdit::Emptied => {
            let size = block.get("content").map_or(0, |content| content.raw().len());
            let text = format!("[result removed{}]", bytes(size, is_condensed));
            Some(json.object()?.with("content", quote(&text).as_bytes()))
        }
        BlockEdit::WithoutImages => {
            Some(with_images(&block, json, &|image| Some(note(image, is_condensed))))
        }
        BlockEdit::Smaller(longest) => {
            Some(with_images(&block, json, &|block| match image::smaller(block, *longest) {
                image::Shrunk::Fits => None,
                image::Shrunk::To(bytes) => Some(bytes),
                image::Shrunk::Not => Some(note(block, is_condensed)),
            }))
        }
        BlockEdit::Known { is_answer } => {
            let names = fields(&block, *is_answer);
            let object = json.object()?;
            let other =
                object.members().map(|(name, _)| name).filter(|name| !names.contains(&&**name));
            let other: Vec<_> = other.collect();
            let changes: Vec<(&str, To)> =
                other.iter().map(|name| (&**name, To::Nothing)).collect();
            let mut splices = Splices::default();
            splices.members(&object, 0, &changes);
            Some(splices.apply(raw))
        }
        BlockEdit::CallForm => {
            let name = block.field("name").unwrap_or_default();
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            let mut name: String =
                name.chars().take(200).map(|c| if is_word(c) { c } else { '_' }).collect();
            if name.is_empty() {
                name.push('_');
            }
            let with_name = json.object()?.with("name", quote(&name).as_bytes());
            let is_object = block.get("input").is_some_and(|input| input.shape() == Shape::Object);
            if is_object {
                return Some(with_name);
            }
            Some(Json::parse(&with_name)?.object()?.with("input", b"{}"))
        }
        BlockEdit::Member(name, value) => Some(json.object()?.with(name, value)),
    }
}

/// A block with its images changed, including those in a tool result.
fn with_images(
    block: &Block<'_>,
    json: Json<'_>,
    change: &dyn Fn(&Block<'_>) -> Option<Vec<u8>>,
) -> Vec<u8> {
    let is_image = |kind: BlockKind| matches!(kind, BlockKind::Image | BlockKind::Document);
    if is_image(block.kind()) {
        return change(block).unwrap_or_else(|| json.raw().to_vec());
    }
    let Some(content) = block.get("content").filter(|content| content.shape() == Shape::Array)
    else {
        return json.raw().to_vec();
    };
    let raw = json.raw();
    let mut splices = Splices::default();
    if let Some(range) = range_of(content.raw(), raw) {
        splices.elements(raw, range, |_, inner| {
            let inner = Block::of(Json::parse(inner)?)?;
            if is_image(inner.kind()) { change(&inner).map(To::Value) } else { None }
        });
    }
    splices.apply(raw)
}

/// A text block that replaces an image or a document.
fn note(block: &Block<'_>, is_condensed: bool) -> Vec<u8> {
    let source = block.get("source").and_then(Json::object);
    let text = |name: &str| source.as_ref().and_then(|source| source.get(name)?.text());
    let media = text("media_type").map_or_else(String::new, |media| format!(" of type {media}"));
    let size =
        source.as_ref().and_then(|source| source.get("data")).map_or(0, |data| data.raw().len());
    let what = if block.kind() == BlockKind::Document { "document" } else { "image" };
    let text = format!("[{what}{media} removed{}]", bytes(size, is_condensed));
    format!(r#"{{"type":"text","text":{}}}"#, quote(&text)).into_bytes()
}

/// A size in bytes as text; empty if it is unknown.
fn bytes(size: usize, is_condensed: bool) -> String {
    if is_condensed { String::new() } else { format!(": {size} bytes") }
}

#[cfg(test)]
#[path = "edit_tests.rs"]
mod tests;
