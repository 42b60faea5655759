//! Prints a conversation: prompts, answers and calls of the branch that Claude Code would resume.
//!
//! `cargo run -p transcript --example print_conversation -- SESSION.jsonl`

use std::error::Error;
use std::io::Write;
use std::path::Path;

use transcript::Session;
use transcript::conversation::agents::{Owner, WithAgents};
use transcript::conversation::view::{self, Item, Piece, Show};

/// Writes the live branch, turn by turn.
pub(crate) fn run(path: &Path, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let session = WithAgents::open(&Session::at(path)?)?;
    for (number, turn) in (1..).zip(&session.main.turns().live) {
        writeln!(out, "--- turn {number}")?;
        for item in view::items(&session, Owner::Main, turn) {
            let item = item?;
            // Leaves out what is not the conversation itself, as `quipu show` does.
            if !item.is_shown(Show::default()) {
                continue;
            }
            match item {
                Item::Message(message) => writeln!(out, "> {}", message.text)?,
                Item::Block(block) => {
                    if let Some(text) = block.piece.as_ref().and_then(Piece::text) {
                        writeln!(out, "{text}")?;
                    }
                }
                Item::Call(call) => {
                    writeln!(out, "* {} {} {}", call.tool, call.about, call.facts().join(", "))?;
                }
                Item::Answer(_) | Item::Orphan(_) | Item::Event(_) => {}
            }
        }
    }
    Ok(())
}

#[allow(dead_code, reason = "the tests include this file as a module")]
fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: print_conversation SESSION.jsonl")?;
    run(Path::new(&path), &mut std::io::stdout())
}
