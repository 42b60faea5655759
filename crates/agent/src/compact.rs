//! Summaries in place of a conversation: what the model is asked for, what is kept word for word,
//! and what is lost.
//!
//! Invariants: prompts stay as they were written, the newest first, as long as they fit; a summary
//! of a summary keeps the prompts of the first one; every block that was sent before and is neither
//! sent afterwards nor quoted whole in the summary is in the receipt.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;
use transcript::client::change::{Compress, Draft, ListCalls, Subject};
use transcript::client::history::Rules;

use crate::api::request::{Message, text_block};
use crate::block::text_of;

/// How many bytes of prompts are kept word for word.
const PROMPTS: usize = 24_000;
/// How many tokens a summary without a model may have.
const OFFLINE: u64 = 12_000;
/// What the summary and the answer to it need, in tokens.
const RESERVE: u64 = 33_000;

/// The number of tokens from which a conversation is summarised by itself. `percent` is the user's
/// wish.
pub(crate) fn threshold(window: u64, percent: Option<u64>) -> u64 {
    let usual = window.saturating_sub(RESERVE.min(window / 2));
    percent.map_or(usual, |percent| (window / 100 * percent.min(100)).min(usual))
}

/// What the model is asked for.
pub(crate) fn order(instructions: &str) -> String {
    let mut text = "Answer with text only, and call no tools. This conversation is about to be replaced by a summary, and you go on with nothing but that summary. Write it so that no work is lost and none is repeated:\n1. What the user wants, and what they decided or ruled out.\n2. What was done, with paths of files and what changed in them.\n3. What was found out: facts, numbers, names, errors and how they were solved.\n4. Commands that matter, as they were run.\n5. What is open: the next step, pending tasks, questions.\nFollow what the project's instructions say about summaries. The user's prompts are kept beside it word for word, so do not repeat them. Put the summary between <summary> and </summary>.".to_owned();
    if !instructions.trim().is_empty() {
        text.push_str("\nThe user adds about this summary: ");
        text.push_str(instructions.trim());
    }
    text
}

/// The conversation with the order at its end.
pub(crate) fn request(messages: &[Message], instructions: &str) -> Vec<Message> {
    let mut messages = messages.to_vec();
    let block = text_block(&order(instructions));
    match messages.last_mut().filter(|last| last.role == "user") {
        Some(last) => last.blocks.push(block),
        None => messages.push(Message { role: "user", blocks: vec![block] }),
    }
    messages
}

/// The part of an answer that is the summary.
pub(crate) fn extract(answer: &str) -> String {
    let rest = answer.split_once("<summary>").map_or(answer, |(_, rest)| rest);
    rest.rsplit_once("</summary>").map_or(rest, |(summary, _)| summary).trim().to_owned()
}

/// A summary that no model has written, from the records.
pub(crate) fn offline(transcript: &Path) -> Option<String> {
    let subject = Subject::open(transcript, Rules::newest()).ok()?;
    let what = Compress { to: Some(OFFLINE), keep_turns: 0, calls: ListCalls::Leave };
    let draft = Draft::new(&subject, &what).ok();
    draft.map(|draft| draft.material(OFFLINE)).filter(|text| !text.trim().is_empty())
}

/// The text that takes the place of a conversation.
pub(crate) fn text(
    summary: &str,
    messages: &[Message],
    todos: &[Value],
    transcript: Option<&Path>,
) -> String {
    let mut text = format!(
        "The conversation so far was replaced by this summary, because it is too long to be sent whole.\n\nSummary:\n{summary}"
    );
    let prompts = prompts(messages);
    if !prompts.is_empty() {
        text.push_str("\n\nThe user's prompts, word for word, the oldest first:");
        for prompt in prompts {
            let _ = write!(text, "\n{OPEN}\n{prompt}\n{CLOSE}");
        }
    }
    let open = todos.iter().filter(|todo| todo["status"] != "completed");
    let open: Vec<String> = open
        .filter_map(|todo| {
            let status = todo["status"].as_str().unwrap_or("pending");
            Some(format!("- {} ({status})", todo["content"].as_str()?))
        })
        .collect();
    if !open.is_empty() {
        text.push_str("\n\nOpen todos:\n");
        text.push_str(&open.join("\n"));
    }
    let files = files(messages);
    if !files.is_empty() {
        text.push_str("\n\nFiles that were read or changed lately: ");
        text.push_str(&files.join(", "));
    }
    if let Some(path) = transcript {
        let _ = write!(text, "\n\nThe whole conversation is in {}.", path.display());
    }
    text
}

const OPEN: &str = "<prompt>";
const CLOSE: &str = "</prompt>";

/// The prompts of a conversation that fit, the newest first; in their order.
fn prompts(messages: &[Message]) -> Vec<String> {
    let mut all = Vec::new();
    let blocks = messages.iter().filter(|message| message.role == "user");
    for text in blocks.flat_map(|message| &message.blocks).filter_map(|block| text_of(block)) {
        if text.contains(OPEN) && text.contains(CLOSE) {
            let old = text.split(OPEN).skip(1).filter_map(|rest| rest.split(CLOSE).next());
            all.extend(old.map(|prompt| prompt.trim().to_owned()));
        } else if !text.trim_start().starts_with('<') && !text.trim().is_empty() {
            all.push(text.trim().to_owned());
        }
    }
    let mut left = PROMPTS;
    let fits = |prompt: &&String| {
        let is_fit = prompt.len() <= left;
        left = left.saturating_sub(if is_fit { prompt.len() } else { left });
        is_fit
    };
    let mut kept: Vec<String> = all.iter().rev().take_while(fits).cloned().collect();
    kept.reverse();
    kept
}

/// The files of the last calls, the newest first.
fn files(messages: &[Message]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for block in messages.iter().rev().flat_map(|message| message.blocks.iter().rev()) {
        let call: Value = if block.contains("\"tool_use\"") {
            serde_json::from_str(block).unwrap_or_default()
        } else {
            continue;
        };
        let input = &call["input"];
        let path = input["file_path"].as_str().or(input["notebook_path"].as_str());
        if let Some(path) = path.filter(|path| !found.iter().any(|known| known == path)) {
            found.push(path.to_owned());
        }
        if found.len() == 20 {
            break;
        }
    }
    found
}

/// What is not sent any more: how many blocks, by kind.
pub(crate) fn lost(before: &[Message], after: &[Message]) -> Vec<(String, usize)> {
    let sent: Vec<&String> = after.iter().flat_map(|message| &message.blocks).collect();
    let texts: Vec<String> = sent.iter().filter_map(|block| text_of(block)).collect();
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for message in before {
        for block in message.blocks.iter().filter(|block| !sent.contains(block)) {
            let value: Value = serde_json::from_str(block).unwrap_or_default();
            let is_quoted = value["text"]
                .as_str()
                .is_some_and(|text| texts.iter().any(|sent| sent.contains(text.trim())));
            if !is_quoted {
                let kind = match value["type"].as_str() {
                    Some("text") if message.role == "user" => "user text",
                    kind => kind.unwrap_or("other"),
                };
                *kinds.entry(kind.to_owned()).or_default() += 1;
            }
        }
    }
    kinds.into_iter().collect()
}

#[cfg(test)]
#[path = "compact_tests.rs"]
mod tests;
