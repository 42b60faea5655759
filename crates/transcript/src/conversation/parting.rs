//! Where two conversations part: their turns side by side.
//!
//! Turns are compared by what was said, called and returned, without the ids of sessions and
//! records, which differ in a copy. Invariants: every turn of both is listed once, in its order; a
//! conversation compared with itself is the same from beginning to end.

use similar::{Algorithm, DiffOp, capture_diff_slices};

use crate::conversation::Conversation;
use crate::conversation::table::digest;
use crate::conversation::turn::{Step, Turn};
use crate::format::content::Message;
use crate::format::entry::Kind;

/// What a turn says, as hashes. They differ from run to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnKey {
    /// What was asked.
    pub prompt: u64,
    /// All of it.
    pub all: u64,
}

/// One turn of either conversation, or of both; counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aligned {
    /// The same turn in both.
    Same(usize, usize),
    /// The same was asked, and something else came of it.
    Changed(usize, usize),
    /// Only in the first.
    First(usize),
    /// Only in the second.
    Second(usize),
}

/// The keys of turns.
pub fn keys(conversation: &Conversation, turns: &[Turn]) -> crate::Result<Vec<TurnKey>> {
    turns.iter().map(|turn| key(conversation, turn)).collect()
}

fn key(conversation: &Conversation, turn: &Turn) -> crate::Result<TurnKey> {
    let table = &conversation.table;
    let (mut asked, mut all): (Vec<u64>, Vec<u64>) = (Vec::new(), Vec::new());
    let of_block = |block| {
        conversation
            .look_at(block, |block| block.map_or(0, |block| digest(&unnamed(block.json().raw()))))
    };
    for step in &turn.steps {
        match step {
            Step::Said(row) => {
                let spoken = conversation.look(*row, |entry| {
                    let content = entry.message().and_then(Message::content);
                    // What was typed while the model worked is attached, or only in the queue.
                    let queued = || entry.get("attachment").or_else(|| entry.get("content"));
                    let prompt = content.or_else(queued);
                    prompt.map_or(0, |prompt| digest(&unnamed(prompt.raw())))
                })?;
                if table.row(*row).kind != Kind::Attachment && table.row(*row).opens() {
                    asked.push(spoken);
                }
                all.push(spoken);
            }
            Step::Answer { blocks, .. } => {
                for block in blocks {
                    all.push(of_block(*block)?);
                    if let Some(result) = conversation.pairs.of(*block) {
                        all.push(of_block(result)?);
                    }
                }
            }
            Step::Orphan(block) => all.push(of_block(*block)?),
            Step::Event(_) => {}
        }
    }
    Ok(TurnKey { prompt: digest(&asked), all: digest(&all) })
}

/// Bytes without ids of the usual form.
fn unnamed(bytes: &[u8]) -> Vec<u8> {
    let is_id = |at: usize| {
        let is_fit = |(place, byte): (usize, &u8)| match place {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        };
        bytes.get(at..at + 36).is_some_and(|id| id[8] == b'-' && id.iter().enumerate().all(is_fit))
    };
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let is_named = is_id(at);
        out.push(if is_named { b'#' } else { *byte });
        at += if is_named { 36 } else { 1 };
    }
    out
}

/// The turns of two conversations, side by side.
pub fn align(first: &[TurnKey], second: &[TurnKey]) -> Vec<Aligned> {
    let all = |keys: &[TurnKey]| keys.iter().map(|key| key.all).collect::<Vec<_>>();
    let asked = |keys: &[TurnKey]| keys.iter().map(|key| key.prompt).collect::<Vec<_>>();
    let mut found = Vec::new();
    for op in capture_diff_slices(Algorithm::Myers, &all(first), &all(second)) {
        let (old, new) = (op.old_range(), op.new_range());
        if let DiffOp::Equal { .. } = op {
            found.extend(old.zip(new).map(|(one, other)| Aligned::Same(one, other)));
            continue;
        }
        let (old_asked, new_asked) = (asked(&first[old.clone()]), asked(&second[new.clone()]));
        for inner in capture_diff_slices(Algorithm::Myers, &old_asked, &new_asked) {
            let ones = inner.old_range().map(|at| old.start + at);
            let others = inner.new_range().map(|at| new.start + at);
            if let DiffOp::Equal { .. } = inner {
                found.extend(ones.zip(others).map(|(one, other)| Aligned::Changed(one, other)));
            } else {
                found.extend(ones.map(Aligned::First));
                found.extend(others.map(Aligned::Second));
            }
        }
    }
    found
}

#[cfg(test)]
#[path = "parting_tests.rs"]
mod tests;
