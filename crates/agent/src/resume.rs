//! A session that goes on: what was said, and where.
//!
//! The messages are those that the newest client would send; what it makes up to close an unfinished turn is written too, as it does. Invariant: what is sent after a resume begins with what was
//! sent before it, byte for byte.

use std::io;
use std::path::Path;

use transcript::history::{self, Note, Refusal, Role, Rules};

use crate::api::request::{Message, text_block};
use crate::record::Point;

/// A session as it is found.
#[derive(Clone, Debug)]
pub struct Resumed {
    /// What was said.
    pub messages: Vec<Message>,
    /// Where it goes on.
    pub point: Point,
    /// The model that spoke last.
    pub model: Option<String>,
    /// What closes the last turn: a block and who says it.
    pub made: Vec<(&'static str, String)>,
    /// Something in it is damaged, or missing: more of it may be sent once that is mended.
    pub is_damaged: bool,
}

/// Stands for the prompt that is to come.
const NEXT: &str = "\u{1}";

/// Reads a session. Only what is needed of it is read.
pub fn open(path: &Path) -> io::Result<Result<Resumed, Refusal>> {
    let rules = Rules::newest();
    let own = history::open(path, rules)?;
    let found = match history::history(&own, rules, Some(NEXT))? {
        Ok(found) => found,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let mut messages: Vec<Message> = Vec::new();
    let (mut made, mut is_before) = (Vec::new(), true);
    let next = text_block(NEXT);
    for message in found.messages {
        let role = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::System => "system",
        };
        let mut blocks = Vec::new();
        for block in message.blocks {
            let origin = block.origin();
            let text = String::from_utf8(block.into_raw())
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
            // The prompt itself is not said yet. What the client says behind it stays behind it.
            if text == next {
                is_before = false;
                continue;
            }
            match origin {
                Some(_) if is_before => made.clear(),
                None if is_before && role != "system" => made.push((role, text.clone())),
                _ => {}
            }
            blocks.push(text);
        }
        if !blocks.is_empty() {
            messages.push(Message { role, blocks });
        }
    }
    let leaf = found.leaf.map(|leaf| own.table.row(leaf));
    let times = own.table.rows().iter().filter_map(|row| row.time);
    let slug = match found.leaf {
        Some(leaf) => own.look(leaf, |entry| entry.text("slug").map(String::from))?,
        None => None,
    };
    let point = Point {
        last: leaf.and_then(|leaf| own.table.text(leaf.uuid)).map(str::to_owned),
        time: times.max().map_or(0, |time| time.0),
        slug,
    };
    let is_gap = |note: &Note| matches!(note, Note::Missing { .. });
    let is_damaged = own.table.damaged > 0 || found.notes.iter().any(is_gap);
    let model = Some(found.model).filter(|model| crate::model::known(model).is_some());
    Ok(Ok(Resumed { messages, point, model, made, is_damaged }))
}
