//! The content of blocks as text that can be sent, without signatures and without the bytes of
//! pictures.
//!
//! A picture or document is replaced by its type, size and hash, which is enough to recognize it.
//! Signatures mean nothing to anyone except the API. Invariant: nothing else is left out; what is
//! JSON stays JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use transcript::format::content::{Block, BlockKind};
use transcript::format::json::{Json, Shape, quote};

use crate::id::hex;

/// The input or output of a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The text itself, plain or JSON.
    pub text: String,
    /// Whether the text is JSON.
    pub is_json: bool,
}

impl Text {
    /// Plain text.
    pub fn plain(text: impl Into<String>) -> Text {
        Text { text: text.into(), is_json: false }
    }

    /// Text that is JSON.
    pub fn json(text: impl Into<String>) -> Text {
        Text { text: text.into(), is_json: true }
    }

    /// The MIME type of the text.
    pub fn mime(&self) -> &'static str {
        if self.is_json { "application/json" } else { "text/plain" }
    }
}

/// A message made of these blocks.
pub(crate) fn message(role: &str, blocks: &[String]) -> Text {
    Text::json(format!(r#"{{"role":"{role}","content":[{}]}}"#, blocks.join(",")))
}

/// A block as JSON.
pub(crate) fn block(content_block: &Block<'_>) -> String {
    let Some(object) = content_block.json().object() else {
        let text = content_block.text().unwrap_or_default();
        return format!(r#"{{"type":"text","text":{}}}"#, quote(&text));
    };
    if let Some(media) = media(content_block) {
        return media.json();
    }
    let kind = content_block.kind();
    let mut members = Vec::new();
    for (name, value) in object.members() {
        let is_sealed = match &*name {
            "signature" => true,
            "data" => kind == BlockKind::RedactedThinking,
            _ => false,
        };
        if is_sealed {
            continue;
        }
        let value = if name == "content" && value.shape() == Shape::Array {
            format!(
                "[{}]",
                content_block.inner().map(|inner| block(&inner)).collect::<Vec<_>>().join(",")
            )
        } else {
            raw(value)
        };
        members.push(format!("{}:{value}", quote(&name)));
    }
    format!("{{{}}}", members.join(","))
}

/// The result of a tool: its text, or JSON if it contains more than text.
pub(crate) fn result(content_block: &Block<'_>) -> Option<Text> {
    let content = content_block.get("content")?;
    if !matches!(content.shape(), Shape::Array | Shape::String) {
        return Some(Text::json(raw(content)));
    }
    let inner: Vec<Block<'_>> = content_block.inner().collect();
    if inner.iter().all(|inner| inner.kind() == BlockKind::Text) {
        let texts: Vec<_> = inner.iter().filter_map(Block::text).collect();
        return Some(Text::plain(texts.join("\n")));
    }
    let blocks: Vec<String> = inner.iter().map(block).collect();
    Some(Text::json(format!("[{}]", blocks.join(","))))
}

/// A picture or document, without its bytes.
#[derive(Debug)]
pub(crate) struct Media {
    kind: String,
    form: String,
    bytes: usize,
    sha256: String,
}

impl Media {
    fn json(&self) -> String {
        let Media { kind, form, bytes, sha256 } = self;
        let (kind, form) = (quote(kind), quote(form));
        format!(r#"{{"type":{kind},"media_type":{form},"bytes":{bytes},"sha256":"{sha256}"}}"#)
    }

    /// A description in words, for use in a text.
    pub(crate) fn words(&self) -> String {
        let Media { kind, form, bytes, sha256 } = self;
        format!("[{kind} {form}, {bytes} bytes, sha256 {sha256}]")
    }
}

/// The picture or document that a block contains; None if the block only says where one is.
pub(crate) fn media(block: &Block<'_>) -> Option<Media> {
    if !matches!(block.kind(), BlockKind::Image | BlockKind::Document) {
        return None;
    }
    let source = block.get("source")?.object()?;
    if source.text("type")? != "base64" {
        return None;
    }
    let data = source.text("data")?;
    // Data that cannot be decoded is identified by its encoded text.
    let bytes = STANDARD.decode(data.as_bytes()).unwrap_or_else(|_| data.as_bytes().to_vec());
    Some(Media {
        kind: block.type_name().unwrap_or_default().into_owned(),
        form: source.text("media_type").unwrap_or_default().into_owned(),
        bytes: bytes.len(),
        sha256: hex(&Sha256::digest(&bytes)),
    })
}

pub(crate) fn raw(value: Json<'_>) -> String {
    String::from_utf8_lossy(value.raw()).into_owned()
}
