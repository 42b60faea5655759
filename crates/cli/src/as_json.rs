//! Lays out a conversation as JSON: `turns --json`, `show --json`, `export json`.
//!
//! The objects are described in `docs/output.md`; [`transcript::conversation::view`] decides what
//! is in them. A turn is written step by step, so that the texts of one record are held at a time.

use std::io::Write;

use serde::Serialize;
use transcript::conversation::agents::WithAgents;
use transcript::conversation::turn::Turn;
use transcript::conversation::view::{self, Item, TurnPlace, TurnView};

use crate::failure::Failure;
use crate::out::{JSON_VERSION, open_object, write_json};

/// A value with the version of the output.
#[derive(Serialize)]
pub(crate) struct Versioned<T> {
    v: u32,
    #[serde(flatten)]
    value: T,
}

impl<T: Serialize> Versioned<T> {
    pub(crate) fn new(value: T) -> Versioned<T> {
        Versioned { v: JSON_VERSION, value }
    }
}

/// Writes one turn.
pub(crate) fn turn(
    session: &WithAgents,
    turn: &Turn,
    place: TurnPlace<'_>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    open_object(out, &Versioned::new(TurnView::new(session, turn, place)))?;
    out.write_all(b",\"steps\":[")?;
    // The blocks of an answer are written into it.
    let (mut between, mut within, mut end): (&[u8], &[u8], &[u8]) = (b"", b"", b"");
    for item in view::items(session, place.owner, turn) {
        let item = item?;
        if matches!(item, Item::Block(_) | Item::Call(_)) {
            out.write_all(std::mem::replace(&mut within, b","))?;
        } else {
            out.write_all(std::mem::take(&mut end))?;
            out.write_all(std::mem::replace(&mut between, b","))?;
        }
        match item {
            Item::Message(message) => write_json(&mut *out, &message)?,
            Item::Answer(answer) => {
                open_object(out, &answer)?;
                out.write_all(b",\"blocks\":[")?;
                (end, within) = (b"]}", b"");
            }
            Item::Block(block) => write_json(&mut *out, &block)?,
            Item::Call(call) => write_json(&mut *out, &call)?,
            Item::Orphan(orphan) => write_json(&mut *out, &orphan)?,
            Item::Event(event) => write_json(&mut *out, &event)?,
        }
    }
    out.write_all(end)?;
    Ok(out.write_all(b"]}")?)
}
