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

/// Where the parts of a line are. A line is read once, however many secrets it has.
#[derive(Debug)]
pub(super) enum Spots {
    /// All of it is one.
    All(Spot),
    /// The members of the record and the blocks of its message that are known by a name, in order.
    Parts { members: Vec<(Range<usize>, Spot)>, blocks: Vec<(Range<usize>, Spot)> },
}

impl Spots {
    pub(super) fn of(line: &[u8]) -> Spots {
        let Some(entry) = Entry::parse(line) else { return Spots::All(Spot::Damage) };
        let all = match entry.kind() {
            Kind::Summary | Kind::CustomTitle | Kind::AiTitle | Kind::AgentName => Spot::Title,
            Kind::QueueOperation | Kind::LastPrompt => Spot::Queue,
            Kind::Attachment => Spot::Attachment,
            Kind::FileHistorySnapshot | Kind::FileHistoryDelta => Spot::Snapshot,
            Kind::ApiRequest | Kind::ApiRequestShape | Kind::ApiRequestBlob => Spot::Request,
            _ => return Spots::in_record(&entry, line.len() - line.trim_ascii_start().len()),
        };
        Spots::All(all)
    }

    /// The parts of a record that begins `base` bytes into its line.
    fn in_record(entry: &Entry<'_>, base: usize) -> Spots {
        let bytes = entry.raw();
        let in_line = |range: Range<usize>| base + range.start..base + range.end;
        let members = entry.places().into_iter().filter_map(|[name, value]| {
            let spot = match &bytes[name] {
                b"toolUseResult" => Spot::StructuredResult,
                b"message" | b"content" => Spot::Message,
                _ => return None,
            };
            Some((in_line(value), spot))
        });
        let blocks = entry.message().into_iter().flat_map(|message| message.blocks());
        let blocks = blocks.filter_map(|block| {
            let spot = match block.kind() {
                BlockKind::Thinking | BlockKind::RedactedThinking => Spot::Thinking,
                kind if kind.is_call() => Spot::ToolInput,
                kind if kind.is_result() => Spot::ToolResult,
                BlockKind::Image | BlockKind::Document => Spot::Attachment,
                _ => return None,
            };
            let raw = block.json().raw();
            let start = raw.as_ptr() as usize - bytes.as_ptr() as usize;
            Some((in_line(start..start + raw.len()), spot))
        });
        Spots::Parts { members: members.collect(), blocks: blocks.collect() }
    }

    /// Where an offset is.
    pub(super) fn at(&self, at: usize) -> Spot {
        let among = |parts: &[(Range<usize>, Spot)]| {
            let before = parts.partition_point(|(range, _)| range.start <= at).checked_sub(1)?;
            let (range, spot) = &parts[before];
            (at < range.end).then_some(*spot)
        };
        match self {
            Spots::All(spot) => *spot,
            Spots::Parts { members, blocks } => match among(members) {
                Some(Spot::Message) => among(blocks).unwrap_or(Spot::Message),
                spot => spot.unwrap_or(Spot::Record),
            },
        }
    }
}
