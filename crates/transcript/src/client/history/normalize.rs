//! What a client repairs before it sends: thinking, blanks, calls without results and results
//! without calls.

use hashbrown::{HashMap, HashSet};

use super::block::{CallId, SentBlock};
use super::merge::join;
use super::rules::{Blanks, CallsLast, Pairing, Rules};
use super::{AnswerName, Message, Model, Note, Role};
use crate::conversation::table::Ids;
use crate::format::content::BlockKind;

const MISSING: &str = "[Tool result missing due to internal error]";
const INTERRUPTED: &str = "[Tool use interrupted]";
const REMOVED: &str = "[Orphaned tool result removed due to conversation resume]";
const NOTHING: &str = "(no content)";

/// Repairs messages. `model` is the one that continues.
pub(super) fn repair(
    mut messages: Vec<Message>,
    rules: Rules,
    model: &Model<'_>,
    notes: &mut Vec<Note>,
) -> Vec<Message> {
    let ids = model.ids;
    if rules.drops_foreign_thinking {
        drop_foreign_thinking(&mut messages, model, notes);
    }
    if rules.drops_thinking_only {
        drop_thinking_only(&mut messages, notes);
    }
    if rules.blanks != Blanks::Sent {
        drop_blank_blocks(&mut messages, rules.blanks);
    }
    if rules.blanks == Blanks::All {
        messages = joined(messages, rules);
    }
    if rules.fills_empty {
        let sends_empty = rules.blanks != Blanks::All && rules.pairing >= Pairing::Results;
        for message in messages.iter_mut().filter(|message| message.role == Role::Assistant) {
            if message.blocks.is_empty() {
                message.blocks.push(SentBlock::filler(NOTHING));
            }
        }
        messages.retain(|message| sends_empty || !message.blocks.is_empty());
    }
    if rules.calls_last != CallsLast::No {
        for message in messages.iter_mut().filter(|message| message.role == Role::Assistant) {
            put_calls_last(&mut message.blocks, rules.calls_last);
        }
    }
    match rules.pairing {
        Pairing::No => messages,
        Pairing::Loose | Pairing::Results | Pairing::Strict => paired(messages, rules, ids, notes),
    }
}

fn drop_foreign_thinking(messages: &mut [Message], model: &Model<'_>, notes: &mut Vec<Note>) {
    for message in messages.iter_mut().filter(|message| message.role == Role::Assistant) {
        if message.model.is_none_or(|id| model.ids.text(id) != model.name) {
            let before = message.blocks.len();
            // Without a signature, it is unknown which model the thinking is from.
            message.blocks.retain(|block| !block.is_thinking() || block.is_unsigned());
            if message.blocks.len() < before {
                notes.push(Note::ForeignThinking { id: message.id.name() });
            }
        }
    }
}

fn drop_thinking_only(messages: &mut Vec<Message>, notes: &mut Vec<Note>) {
    let mut of_id: HashMap<AnswerName, usize> = HashMap::new();
    for message in messages.iter().filter(|message| message.role == Role::Assistant) {
        *of_id.entry(message.id).or_default() += 1;
    }
    let doomed: Vec<bool> = messages
        .iter()
        .map(|message| {
            message.role == Role::Assistant
                && !message.blocks.is_empty()
                && message.blocks.iter().all(SentBlock::is_thinking)
                && of_id[&message.id] < 2
        })
        .collect();
    let mut doomed = doomed.into_iter();
    messages.retain(|message| {
        let goes = doomed.next().unwrap_or(false);
        if goes {
            notes.push(Note::ThinkingOnly { id: message.id.name() });
        }
        !goes
    });
}

/// Moves calls behind the other blocks of an answer.
fn put_calls_last(blocks: &mut Vec<SentBlock>, rule: CallsLast) {
    let (mut front, mut calls, mut behind) = (Vec::with_capacity(blocks.len()), vec![], vec![]);
    for block in blocks.drain(..) {
        if block.kind() == BlockKind::ToolUse {
            calls.push(block);
        } else if rule == CallsLast::ExceptThinking
            && !calls.is_empty()
            && block.is_thinking()
            && front.last().is_some_and(SentBlock::is_thinking)
        {
            behind.push(block);
        } else {
            front.push(block);
        }
    }
    *blocks = front;
    blocks.append(&mut calls);
    blocks.append(&mut behind);
}

fn drop_blank_blocks(messages: &mut [Message], blanks: Blanks) {
    for message in messages {
        match message.role {
            Role::User if message.is_string => {}
            Role::User => {
                let had = !message.blocks.is_empty();
                message.blocks.retain(|block| !block.is_blank());
                if had && message.blocks.is_empty() {
                    message.blocks.push(SentBlock::text(NOTHING));
                }
            }
            Role::Assistant if blanks == Blanks::All => {
                message.blocks.retain(|block| !block.is_empty());
            }
            Role::Assistant | Role::System => {}
        }
    }
}

/// Joins consecutive user messages again.
fn joined(messages: Vec<Message>, rules: Rules) -> Vec<Message> {
    let mut found: Vec<Message> = Vec::with_capacity(messages.len());
    for message in messages {
        match found.last_mut() {
            Some(last)
                if last.role == Role::User && message.role == Role::User && !last.is_alone =>
            {
                join(last, message.blocks, rules);
            }
            _ => found.push(message),
        }
    }
    found
}

fn calls(message: &Message, kind: BlockKind) -> Vec<CallId> {
    message.blocks.iter().filter(|block| block.kind() == kind).filter_map(SentBlock::call).collect()
}

fn paired(messages: Vec<Message>, rules: Rules, ids: &Ids, notes: &mut Vec<Note>) -> Vec<Message> {
    let strict = rules.pairing >= Pairing::Results;
    let mut found: Vec<Message> = Vec::with_capacity(messages.len());
    let mut used: HashSet<CallId> = HashSet::new();
    let suffixed = if rules.joins_suffixed { suffixed(&messages, ids) } else { HashSet::new() };
    // The calls of the previous answer, which the next message must answer.
    let mut open: Vec<CallId> = Vec::new();
    for mut message in messages {
        match message.role {
            Role::System => {}
            Role::Assistant => {
                close(&mut found, &mut open, ids, notes);
                if rules.pairing == Pairing::Results {
                    used.clear();
                }
                if strict {
                    let before = message.blocks.len();
                    message.blocks.retain(|block| {
                        let stays = block.kind() != BlockKind::ToolUse
                            || block.call().is_none_or(|id| used.insert(id));
                        if !stays {
                            notes.push(Note::RepeatedCall { block: block.origin() });
                        }
                        stays
                    });
                    if message.blocks.is_empty() && before > 0 {
                        message.blocks.push(SentBlock::filler(INTERRUPTED));
                    }
                }
                open = calls(&message, BlockKind::ToolUse);
            }
            Role::User => {
                let is_first = found.iter().all(|message| message.role == Role::System);
                let mut answered: HashSet<CallId> = HashSet::new();
                let asked: HashSet<CallId> = open.iter().copied().collect();
                let before = message.blocks.len();
                if strict || !is_first {
                    message.blocks.retain(|block| {
                        let Some(id) = block.call() else { return true };
                        let block = block.origin();
                        if suffixed.contains(&id) {
                            notes.push(Note::SuffixedResult { block });
                            return false;
                        }
                        if !asked.contains(&id) {
                            notes.push(Note::OrphanResult { block });
                            return false;
                        }
                        let is_new = answered.insert(id) || !strict;
                        if !is_new {
                            notes.push(Note::RepeatedResult { block });
                        }
                        is_new
                    });
                }
                let has: HashSet<CallId> =
                    calls(&message, BlockKind::ToolResult).into_iter().collect();
                let missing: Vec<SentBlock> = open
                    .drain(..)
                    .filter(|id| !has.contains(id))
                    .map(|id| SentBlock::made_result(id, ids, MISSING, true))
                    .collect();
                if !missing.is_empty() {
                    notes.push(Note::MadeResults { count: missing.len() });
                }
                message.blocks.splice(0..0, missing);
                if message.blocks.is_empty() && before > 0 {
                    if !strict || (is_first && rules.blanks != Blanks::All) {
                        continue;
                    }
                    message.blocks.push(SentBlock::text(if is_first { REMOVED } else { NOTHING }));
                }
            }
        }
        found.push(message);
    }
    close(&mut found, &mut open, ids, notes);
    found
}

/// The calls whose id is the id of another call plus `_` and a number.
fn suffixed(messages: &[Message], ids: &Ids) -> HashSet<CallId> {
    let answers = messages.iter().filter(|message| message.role == Role::Assistant);
    let calls: HashSet<CallId> =
        answers.flat_map(|message| calls(message, BlockKind::ToolUse)).collect();
    let is_suffixed = |CallId(id): &CallId| {
        let base = id.and_then(|id| without_suffix(ids.text(id)));
        let base = base.and_then(|base| ids.find(base));
        base.is_some_and(|base| calls.contains(&CallId(Some(base))))
    };
    calls.iter().copied().filter(is_suffixed).collect()
}

/// The id without `_` and a number at its end, which clients from 2.1.250 on treat as the same id.
/// `None` if it does not end that way.
pub(crate) fn without_suffix(id: &str) -> Option<&str> {
    let base = id.trim_end_matches(|c: char| c.is_ascii_digit());
    base.strip_suffix('_').filter(|_| base.len() < id.len())
}

/// Adds made-up results for calls that no message follows.
fn close(found: &mut Vec<Message>, open: &mut Vec<CallId>, ids: &Ids, notes: &mut Vec<Note>) {
    if open.is_empty() {
        return;
    }
    let made: Vec<SentBlock> =
        open.drain(..).map(|id| SentBlock::made_result(id, ids, MISSING, true)).collect();
    notes.push(Note::MadeResults { count: made.len() });
    found.push(Message::new(Role::User, made));
}
