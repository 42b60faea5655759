//! Where in a session a secret stands, in words.

use std::ops::Range;

use crate::format::content::BlockKind;
use crate::format::entry::{Entry, Kind};
use crate::names::named;

named! {
    /// A place in a session, or a file that belongs to it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Spot {
        /// What a person or the model wrote.
        Message = "message",
        /// Signed thinking.
        Thinking = "thinking",
        /// The input of a tool call.
        ToolInput = "tool-input",
        /// The result of a call, as the model sees it.
        ToolResult = "tool-result",
        /// The structured copy of a result.
        StructuredResult = "structured-result",
        /// Something that the client added to a prompt; an image or a document.
        Attachment = "attachment",
        /// Which files were backed up.
        Snapshot = "snapshot",
        /// A title or a summary.
        Title = "title",
        /// A queued prompt.
        Queue = "queue",
        /// A copy of a request.
        Request = "request",
        /// Another member of a record, or an unknown record.
        Record = "record",
        /// Bytes that are not a record.
        Damage = "damage",
        /// A file beside the session.
        File = "file",
        /// The name of such a file.
        Name = "name",
    }
}

/// Where in a line an offset is.
pub(super) fn spot_of(line: &[u8], at: usize) -> Spot {
    let Some(entry) = Entry::parse(line) else { return Spot::Damage };
    match entry.kind() {
        Kind::Summary | Kind::CustomTitle | Kind::AiTitle | Kind::AgentName => return Spot::Title,
        Kind::QueueOperation | Kind::LastPrompt => return Spot::Queue,
        Kind::Attachment => return Spot::Attachment,
        Kind::FileHistorySnapshot | Kind::FileHistoryDelta => return Spot::Snapshot,
        Kind::ApiRequest | Kind::ApiRequestShape | Kind::ApiRequestBlob => return Spot::Request,
        _ => {}
    }
    let base = line.len() - line.trim_ascii_start().len();
    let is_here = |range: &Range<usize>| (base + range.start..base + range.end).contains(&at);
    let bytes = entry.raw();
    let places = entry.places();
    let member = places.iter().find(|[_, value]| is_here(value));
    let name = member.map(|[name, _]| &bytes[name.clone()]);
    match name {
        Some(b"toolUseResult") => Spot::StructuredResult,
        Some(b"message" | b"content") => {
            let blocks = entry.message().into_iter().flat_map(|message| message.blocks());
            let offset = |inner: &[u8]| inner.as_ptr() as usize - bytes.as_ptr() as usize;
            let mut blocks = blocks.map(|block| {
                let raw = block.json().raw();
                (offset(raw)..offset(raw) + raw.len(), block.kind())
            });
            match blocks.find(|(range, _)| is_here(range)).map(|(_, kind)| kind) {
                Some(BlockKind::Thinking | BlockKind::RedactedThinking) => Spot::Thinking,
                Some(kind) if kind.is_call() => Spot::ToolInput,
                Some(kind) if kind.is_result() => Spot::ToolResult,
                Some(BlockKind::Image | BlockKind::Document) => Spot::Attachment,
                _ => Spot::Message,
            }
        }
        _ => Spot::Record,
    }
}
