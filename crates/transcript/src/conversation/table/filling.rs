//! Finds what is wrong with the contents of blocks, as far as that decides what a client does with
//! them.
//!
//! Determined once, while the table is read, so that a request can be rebuilt without the texts as
//! exactly as with them.

use super::Filling;
use crate::format::content::{Block, BlockKind};
use crate::format::json::{Json, Shape};

impl Filling {
    pub(super) fn of(block: &Block<'_>, name: Option<&str>) -> Filling {
        match (block.kind(), name) {
            (BlockKind::Text, _) => Filling::of_text(block),
            (BlockKind::Thinking, _) if !block.has_signature() => Filling::Unsigned,
            (BlockKind::ToolUse, Some(name @ ("Read" | "Write" | "Edit"))) => {
                Filling::of_call(block, name)
            }
            _ => Filling::Some,
        }
    }

    /// Clients up to 2.1.100 inspect the calls of these tools when they resume, and exit if a value
    /// has another type than they expect. They inspect `Read` only if the call asked for the whole
    /// file.
    fn of_call(block: &Block<'_>, name: &str) -> Filling {
        let Some(input) = block.get("input") else { return Filling::Some };
        // The path nearly always comes first and is a text. In that case a long input need not be
        // parsed.
        let is_plain = input.raw().starts_with(br#"{"file_path":""#)
            && (name != "Write"
                || memchr::memmem::find(input.raw(), br#"","content":""#).is_some());
        let Some(input) = input.object().filter(|_| !is_plain) else { return Filling::Some };
        // A value that is falsy to the client counts as missing.
        let is_given = |name: &str| {
            let value = input.get(name).map(Json::raw);
            !matches!(value, None | Some(b"null" | b"false" | b"0" | br#""""#))
        };
        let is_odd = |name: &str| {
            is_given(name) && input.get(name).is_some_and(|json| json.shape() != Shape::String)
        };
        let is_whole = ["offset", "limit"].iter().all(|part| input.get(part).is_none());
        match name {
            "Read" if is_whole && is_odd("file_path") => Filling::OddPath,
            "Write" if is_given("content") && is_odd("file_path") => Filling::OddPath,
            "Write" if is_given("file_path") && is_odd("content") => Filling::OddContent,
            "Edit" if is_odd("file_path") => Filling::OddEdit,
            _ => Filling::Some,
        }
    }

    fn of_text(block: &Block<'_>) -> Filling {
        let raw = if block.is_string() { Some(block.json()) } else { block.get("text") };
        // Most texts begin with a letter. In that case the rest need not be read.
        if let Some([b'"', first, ..]) = raw.map(Json::raw)
            && first.is_ascii_graphic()
            && !matches!(first, b'"' | b'\\')
        {
            return Filling::Some;
        }
        match block.text() {
            Some(text) if !text.trim_start().is_empty() => Filling::Some,
            Some(text) if !text.is_empty() => Filling::Blank,
            _ => Filling::None,
        }
    }
}
