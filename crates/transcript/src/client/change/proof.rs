//! The effect of a change, computed from its result.

use std::hash::Hash;
use std::io;
use std::thread;

use super::{Change, Deed, Subject, Written};
use crate::client::check::{Finding, Reach, Verdict};
use crate::client::context::{Context, Difference, NextRequest, Reason, count_sent};
use crate::client::history::{History, Message, Role, SentBlock};
use crate::conversation::table::{Table, digest};
use crate::format::content::BlockKind;

/// A session before and after a change.
#[derive(Clone, Debug)]
pub struct Proof {
    /// The session before the change.
    pub before: Snapshot,
    /// The session after the change.
    pub after: Snapshot,
    /// How many records were kept, dropped, altered and added.
    pub written: Written,
    /// How many messages at the start of the request are unchanged: that far, the prompt cache
    /// still helps.
    pub same: usize,
    /// About how many tokens follow them, which are charged as new tokens once.
    pub new_tokens: u64,
    /// Everything that was done.
    pub deeds: Vec<Deed>,
}

/// One side of a proof.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Snapshot {
    /// Whether it resumes.
    pub verdict: Verdict,
    /// The size of the file in bytes.
    pub bytes: u64,
    /// How many messages the request would contain.
    pub messages: usize,
    /// About how many tokens these messages are.
    pub tokens: u64,
    /// Tool calls that are sent with their results.
    pub pairs: usize,
    /// Tool calls that are sent without a result, and results without a call.
    pub unpaired: usize,
    /// What the next request is; `None` if the session does not resume.
    #[serde(skip)]
    pub next: Option<NextRequest>,
    /// How many messages are sent, summed up, left and lost.
    #[serde(flatten)]
    pub reach: Reach,
    /// Everything that is wrong, worst first.
    #[serde(skip)]
    pub findings: Vec<Finding>,
}

impl Proof {
    /// Whether the session resumes worse than before.
    pub fn is_worse(&self) -> bool {
        self.after.verdict > self.before.verdict
    }
}

/// Compares a session with the result of a change.
pub fn prove(
    before: &Subject,
    change: &Change,
    written: Written,
    after: &Subject,
) -> crate::Result<Proof> {
    // Both at the same time.
    let look = |subject: &Subject| subject.judged().map(|_| sketch(subject));
    let (old, new) = thread::scope(|scope| {
        let old = scope.spawn(|| look(before));
        let new = look(after);
        (
            old.join().unwrap_or_else(|_| Err(io::Error::other("a worker thread panicked").into())),
            new,
        )
    });
    let (old, new) = (old?, new?);
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    // Both end with the next prompt.
    let same = same.min(old.len().saturating_sub(1)).min(new.len().saturating_sub(1));
    // Also if the end of the conversation is gone.
    let is_same = same + 1 >= new.len();
    let counted = before.context()?.ok();
    let recounted = counted.map(|counted| recount(after, counted)).transpose()?.flatten();
    let next = counted.map(|context| context.next(before.conversation(), None)).transpose()?;
    let next_after = match (&recounted, &next) {
        (Some(context), Some(next)) => {
            let prefix = if is_same { context.tokens } else { context.of_messages(same) };
            Some(next.after(context.tokens, prefix, difference(after, same)))
        }
        _ => None,
    };
    let new_tokens = recounted.as_ref().map(|after| after.tokens - after.of_messages(same));
    Ok(Proof {
        before: side(before, old.len(), counted, next)?,
        after: side(after, new.len(), recounted.as_ref(), next_after)?,
        written,
        same,
        new_tokens: new_tokens.unwrap_or(0),
        deeds: change.deeds.clone(),
    })
}

/// The tokens of the result: what is the same counts the same.
fn recount(after: &Subject, counted: &Context) -> crate::Result<Option<Context>> {
    let Ok(found) = &after.found else { return Ok(None) };
    let scale = counted.scale();
    count_sent(after.conversation(), found, after.rules, Some(&scale)).map(Some)
}

/// Where the request differs: at its first message that is not the same.
fn difference(after: &Subject, same: usize) -> Difference {
    let table = &after.conversation().table;
    let found = after.found.as_ref().ok();
    let message = found.and_then(|found| found.messages.get(same));
    let block = message.and_then(|message| message.blocks.iter().find_map(SentBlock::origin));
    let line = block.map(|block| table.row(table.block(block).row).line);
    Difference { message: same + 1, line, kind: None, reason: Reason::Edit }
}

/// For each message, a hash of its content.
fn sketch(subject: &Subject) -> Vec<u64> {
    let Ok(found) = &subject.found else { return Vec::new() };
    let table = &subject.case.conversation.table;
    found.messages.iter().map(|message| sketch_of(table, message)).collect()
}

fn sketch_of(table: &Table, message: &Message) -> u64 {
    let mut hashes = vec![message.role as u64];
    for block in &message.blocks {
        let origin = block.origin();
        hashes.push(origin.map_or_else(|| hash(block.raw()), |origin| table.hash(origin)));
    }
    hash(&hashes)
}

fn hash<T: Hash + ?Sized>(value: &T) -> u64 {
    digest(value)
}

fn side(
    subject: &Subject,
    messages: usize,
    counted: Option<&Context>,
    next: Option<NextRequest>,
) -> crate::Result<Snapshot> {
    let judged = subject.judged()?;
    let (pairs, unpaired) = subject.found.as_ref().map_or((0, 0), pairs);
    Ok(Snapshot {
        verdict: judged.verdict,
        reach: judged.reach,
        bytes: subject.case.conversation.table.end,
        // The last one is the next prompt.
        messages: messages.saturating_sub(1),
        tokens: counted.map_or(0, Context::of_all_messages),
        next,
        pairs,
        unpaired,
        findings: judged.findings.clone(),
    })
}

/// How many calls are sent with their results directly after them, and how many calls and results
/// are unpaired.
fn pairs(found: &History) -> (usize, usize) {
    let (mut pairs, mut halves) = (0, 0);
    let mut open = Vec::new();
    for message in found.messages.iter().filter(|message| message.role != Role::System) {
        let of = |kind: BlockKind| {
            let blocks = message.blocks.iter().filter(move |block| block.kind() == kind);
            blocks.filter_map(SentBlock::call)
        };
        if message.role == Role::Assistant {
            open.extend(of(BlockKind::ToolUse));
            continue;
        }
        for result in of(BlockKind::ToolResult) {
            match open.iter().position(|call| *call == result) {
                Some(at) => {
                    open.swap_remove(at);
                    pairs += 1;
                }
                None => halves += 1,
            }
        }
        halves += open.len();
        open.clear();
    }
    (pairs, halves + open.len())
}
