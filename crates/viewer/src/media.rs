//! Images of a session, as addresses that contain them.
//!
//! Invariant: only the four formats that browsers decode without running anything are shown, and
//! only if the data begins as that format does; everything else is described in words.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use transcript::Conversation;
use transcript::conversation::table::RowId;
use transcript::conversation::view::size;
use transcript::format::content::{Block, BlockKind};
use transcript::format::json::Json;

/// An image or a document.
pub(crate) enum Image {
    /// An address with the data.
    Shown(String),
    /// What it is, in words.
    Described(String),
}

/// The most bytes of base64 that are put on a page for one image.
const LARGEST: usize = 8 << 20;

/// The images of the records on a line, also those in results.
pub(crate) fn images(conversation: &Conversation, line: u64) -> Vec<Image> {
    let table = &conversation.table;
    let first = table.rows().partition_point(|row| row.line < line);
    let mut found = Vec::new();
    for (at, row) in table.rows().iter().enumerate().skip(first) {
        if row.line != line {
            break;
        }
        let Ok(at) = u32::try_from(at) else { break };
        for block in table.blocks_of(RowId(at)) {
            let _ = conversation.look_at(block, |block| {
                for block in block.into_iter().flat_map(|block| {
                    let inner: Vec<Block<'_>> = block.inner().collect();
                    std::iter::once(block).chain(inner)
                }) {
                    if matches!(block.kind(), BlockKind::Image | BlockKind::Document) {
                        found.push(image(&block));
                    }
                }
            });
        }
    }
    found
}

fn image(block: &Block<'_>) -> Image {
    let source = block.get("source").and_then(Json::object);
    let text = |name: &str| source.as_ref().and_then(|source| source.text(name));
    let kind = text("media_type").unwrap_or_default();
    let data = text("data").unwrap_or_default();
    let described = || {
        let what = if block.kind() == BlockKind::Image { "image" } else { "document" };
        Image::Described(format!("[{what} {kind} {}]", size(data.len() as u64)))
    };
    if data.len() > LARGEST || block.kind() != BlockKind::Image {
        return described();
    }
    let Ok(bytes) = STANDARD.decode(data.as_bytes()) else { return described() };
    let format = match &bytes[..] {
        [0x89, b'P', b'N', b'G', ..] => "image/png",
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [b'G', b'I', b'F', b'8', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
        _ => return described(),
    };
    Image::Shown(format!("data:{format};base64,{}", STANDARD.encode(&bytes)))
}
