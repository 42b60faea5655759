//! Blocks of messages that are about to be sent.
//!
//! A block consists of the file's own bytes. If something in it must change, only that member
//! changes. So unknown fields are sent as they are.

use std::borrow::Cow;

use crate::conversation::table::{BlockId, BlockRow, Filling, Id, Ids};
use crate::format::content::{self, BlockKind};
use crate::format::json::{Json, Shape, quote};

/// A block of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentBlock {
    raw: Cow<'static, [u8]>,
    kind: BlockKind,
    /// Whether it is blank, and other properties of its content that decide how clients treat it.
    filling: Filling,
    /// The id of the call that it is, or that it answers.
    call: Option<Id>,
    /// Its block in the file; `None` if it is made up.
    origin: Option<BlockId>,
}

/// The id of a call. All calls without an id are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CallId(pub(crate) Option<Id>);

/// Placeholders for the bytes of a block in an outline.
const TEXT: &[u8] = br#"{"type":"text","text":"..."}"#;
const BLANK: &[u8] = br#"{"type":"text","text":" "}"#;
const EMPTY: &[u8] = br#"{"type":"text","text":""}"#;
const OTHER: &[u8] = br#"{"type":"..."}"#;

/// Whether a text is empty, blank or neither.
fn filling(text: &str) -> Filling {
    match text.trim_start() {
        "" if text.is_empty() => Filling::None,
        "" => Filling::Blank,
        _ => Filling::Some,
    }
}

impl SentBlock {
    /// A block as it is in the file; a string becomes a text block.
    pub(super) fn read(block: content::Block<'_>) -> SentBlock {
        if block.is_string() {
            // Its own bytes: a text in memory cannot hold half of a surrogate pair.
            let raw = [br#"{"type":"text","text":"#, block.json().raw(), b"}"].concat();
            let filling = filling(&block.text().unwrap_or_default());
            return SentBlock { filling, ..SentBlock::new(raw, BlockKind::Text) };
        }
        SentBlock::new(block.json().raw().to_vec(), block.kind())
    }

    fn new(raw: impl Into<Cow<'static, [u8]>>, kind: BlockKind) -> SentBlock {
        SentBlock { raw: raw.into(), kind, filling: Filling::Some, call: None, origin: None }
    }

    /// A block without its bytes: enough to know how clients treat it.
    pub(super) fn outline(part: &BlockRow) -> SentBlock {
        let raw = match (part.kind, part.filling) {
            (BlockKind::Text, Filling::Some) => TEXT,
            (BlockKind::Text, Filling::Blank) => BLANK,
            (BlockKind::Text, Filling::None) => EMPTY,
            _ => OTHER,
        };
        SentBlock::new(raw, part.kind)
    }

    /// The same block, with what the table knows about it.
    pub(super) fn of(self, origin: BlockId, part: &BlockRow) -> SentBlock {
        SentBlock { call: part.id, origin: Some(origin), filling: part.filling, ..self }
    }

    /// A block of text.
    pub(super) fn text(text: &str) -> SentBlock {
        let raw = format!(r#"{{"type":"text","text":{}}}"#, quote(text));
        SentBlock { filling: filling(text), ..SentBlock::new(raw.into_bytes(), BlockKind::Text) }
    }

    /// A block with an image.
    pub(super) fn image(raw: Vec<u8>) -> SentBlock {
        SentBlock::new(raw, BlockKind::Image)
    }

    /// A text block that the client inserts into an answer.
    pub(super) fn filler(text: &str) -> SentBlock {
        let raw = format!(r#"{{"type":"text","text":{},"citations":[]}}"#, quote(text));
        SentBlock::new(raw.into_bytes(), BlockKind::Text)
    }

    /// A result that the client makes up. The order of members is the client's.
    pub(super) fn made_result(
        CallId(call): CallId,
        ids: &Ids,
        text: &str,
        id_first: bool,
    ) -> SentBlock {
        let (id, text) = (quote(call.map_or("", |id| ids.text(id))), quote(text));
        let raw = if id_first {
            format!(
                r#"{{"type":"tool_result","tool_use_id":{id},"content":{text},"is_error":true}}"#
            )
        } else {
            format!(
                r#"{{"type":"tool_result","content":{text},"is_error":true,"tool_use_id":{id}}}"#
            )
        };
        SentBlock { call, ..SentBlock::new(raw.into_bytes(), BlockKind::ToolResult) }
    }

    /// The block as JSON.
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// The block as JSON, by value.
    pub fn into_raw(self) -> Vec<u8> {
        self.raw.into_owned()
    }

    /// What kind of block it is.
    pub fn kind(&self) -> BlockKind {
        self.kind
    }

    pub(super) fn json(&self) -> Json<'_> {
        Json::trusted(&self.raw)
    }

    pub(crate) fn is_thinking(&self) -> bool {
        matches!(self.kind, BlockKind::Thinking | BlockKind::RedactedThinking)
    }

    /// The text of a text block.
    pub(super) fn words(&self) -> Option<String> {
        if self.kind != BlockKind::Text {
            return None;
        }
        Some(self.json().get("text").and_then(Json::text).unwrap_or_default().into_owned())
    }

    /// Whether it is a text block with only white space, or empty.
    pub(crate) fn is_blank(&self) -> bool {
        self.kind == BlockKind::Text && self.filling != Filling::Some
    }

    /// Whether it is an empty text block.
    pub(super) fn is_empty(&self) -> bool {
        self.kind == BlockKind::Text && self.filling == Filling::None
    }

    /// Whether it is thinking without a signature.
    pub(super) fn is_unsigned(&self) -> bool {
        self.filling == Filling::Unsigned
    }

    /// The properties of its content that decide how clients treat it.
    pub(super) fn filling(&self) -> Filling {
        self.filling
    }

    /// The id of the call that it is, or that it answers, if it is a call of one of the client's
    /// tools.
    pub(crate) fn call(&self) -> Option<CallId> {
        matches!(self.kind, BlockKind::ToolUse | BlockKind::ToolResult).then_some(CallId(self.call))
    }

    /// A string in the input of a call, by its name.
    pub fn input(&self, name: &str) -> Option<String> {
        self.json().get("input")?.get(name)?.text().map(Cow::into_owned)
    }

    /// Its block in the file; `None` if it is made up.
    pub fn origin(&self) -> Option<BlockId> {
        self.origin
    }

    /// Whether it is a placeholder without its own bytes, so that its text does not matter.
    fn is_outline(&self) -> bool {
        matches!(self.raw, Cow::Borrowed(_))
    }

    /// The block with another text.
    pub(super) fn with_text(&self, text: &str) -> SentBlock {
        if self.is_outline() {
            return self.clone();
        }
        SentBlock { filling: filling(text), ..self.with("text", quote(text).as_bytes()) }
    }

    /// The block with other bytes.
    pub(super) fn with_raw(&self, raw: Vec<u8>) -> SentBlock {
        let SentBlock { kind, filling, call, origin, .. } = *self;
        SentBlock { raw: raw.into(), kind, filling, call, origin }
    }

    /// The block with one member changed.
    pub(super) fn with(&self, name: &str, value: &[u8]) -> SentBlock {
        let raw = self
            .json()
            .object()
            .map_or_else(|| self.raw.to_vec(), |object| object.with(name, value));
        self.with_raw(raw)
    }

    /// Whether reminders can be put into this result.
    pub(super) fn takes_reminders(&self, lists_too: bool) -> bool {
        match self.json().get("content").map(Json::shape) {
            None | Some(Shape::Null | Shape::String) => true,
            Some(Shape::Array) => lists_too,
            Some(_) => false,
        }
    }

    /// A result with reminders: after its text, or as additional blocks.
    pub(super) fn with_reminders(&self, reminders: &[String]) -> SentBlock {
        if self.is_outline() {
            return self.clone();
        }
        let content = self.json().get("content");
        if let Some(list) = content.filter(|content| content.shape() == Shape::Array) {
            let mut parts: Vec<Vec<u8>> = list.elements().map(|part| part.raw().to_vec()).collect();
            parts.extend(reminders.iter().map(|text| SentBlock::text(text).raw.into_owned()));
            return self.with("content", &[b"[", parts.join(&b","[..]).as_slice(), b"]"].concat());
        }
        let text = content.and_then(Json::text).unwrap_or_default();
        let texts = [text.trim()].into_iter().filter(|text| !text.is_empty());
        let texts: Vec<&str> = texts.chain(reminders.iter().map(String::as_str)).collect();
        self.with("content", quote(&texts.join("\n\n")).as_bytes())
    }

    /// Replaces unpaired surrogates, as the newest client does.
    pub(super) fn without_surrogates(mut self) -> SentBlock {
        if let Some(mended) = crate::format::json::replace_surrogates(&self.raw) {
            self.raw = mended.into();
        }
        self
    }
}
