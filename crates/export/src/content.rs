//! What blocks say, as text that can be sent: without signatures, and without the bytes of pictures.
//!
//! A picture or a document becomes its type, its size and its hash: enough to know it again. Signatures mean nothing to anybody but the API. Invariant: nothing
//! else is left out; what is JSON stays JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use transcript::content::{Block, BlockKind};
use transcript::json::{Json, Shape, quote};

use crate::id::hex;

/// Something to be sent as the input or the output of a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// What it says.
    pub text: String,
    /// Whether that is JSON.
    pub is_json: bool,
}

impl Text {
    /// Words.
    pub fn plain(text: impl Into<String>) -> Text {
        Text { text: text.into(), is_json: false }
    }

    /// JSON.
    pub fn json(text: impl Into<String>) -> Text {
        Text { text: text.into(), is_json: true }
    }

    /// What kind of text it is.
    pub fn mime(&self) -> &'static str {
        if self.is_json { "application/json" } else { "text/plain" }
    }
}

/// A message of these blocks.
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

/// What a tool answered: its text, or JSON if there is more than text.
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

/// A picture or a document, without its bytes.
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

    /// In words.
    pub(crate) fn words(&self) -> String {
        let Media { kind, form, bytes, sha256 } = self;
        format!("[{kind} {form}, {bytes} bytes, sha256 {sha256}]")
    }
}

/// The picture or document that a block holds; nothing if it only says where one is.
pub(crate) fn media(block: &Block<'_>) -> Option<Media> {
    if !matches!(block.kind(), BlockKind::Image | BlockKind::Document) {
        return None;
    }
    let source = block.get("source")?.object()?;
    if source.text("type")? != "base64" {
        return None;
    }
    let data = source.text("data")?;
    // What cannot be decoded is known by what stands there.
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
