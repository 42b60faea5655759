//! Summaries in place of a conversation: what the model is asked for, what is kept word for word,
//! and what is lost.
//!
//! Invariants: prompts stay as they were written, the newest first, as long as they fit; a summary
//! of a summary keeps the prompts, the plan and the skills of the first one. What is lost is for
//! `compaction` to say.

mod quote;

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;
use transcript::client::change::{Compress, Draft, KeepTurns, ListCalls, Subject};
use transcript::client::compaction::{self, Compaction, Receipt};
use transcript::client::history::Rules;
use transcript::format::input::{Input, SUMMARY_LEAD, tagged, typed};

use crate::api::request::{Message, text_block};
use crate::block::text_of;
use crate::slash::SKILL;
use quote::{Quote, cut};

/// How many bytes of prompts are kept word for word.
const PROMPTS: usize = 24_000;
/// How many bytes of a prompt that does not fit are kept, from its beginning.
const BEGINNING: usize = 4_000;
/// How many bytes of a prompt say which one it is.
const START: usize = 400;
/// How many bytes of the plan are kept.
const PLAN: usize = 12_000;
/// How many bytes of skills are kept.
const SKILLS: usize = 16_000;
/// How many files are there again.
pub(crate) const FILES: usize = 5;
/// How many bytes a file may have to be there again.
pub(crate) const FILE: u64 = 8_000;
/// The share of a window that what stays as it is may have, as a divisor.
const TAIL: u64 = 4;
/// The window of a model that is not known.
const USUAL_WINDOW: u64 = 200_000;
/// How many tokens a summary without a model may have.
const OFFLINE: u64 = 12_000;
/// What the summary and the answer to it need, in tokens.
const RESERVE: u64 = 33_000;

/// When a conversation is summarised by itself, as the user wants it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactAt {
    /// How full the window may be, in percent; None for the usual.
    pub percent: Option<u64>,
    /// How many tokens count as the window, if that is less than the model's.
    pub window: Option<u64>,
}

/// The number of tokens from which a conversation is summarised by itself.
pub(crate) fn threshold(window: u64, at: CompactAt) -> u64 {
    let window = at.window.map_or(window, |wanted| wanted.min(window));
    let usual = window.saturating_sub(RESERVE.min(window / 2));
    at.percent.map_or(usual, |percent| (window / 100 * percent.min(100)).min(usual))
}

/// How many bytes of the last messages stay as they are, beside a summary: with more, the next
/// summary would follow at once.
pub(crate) fn tail_bytes(window: Option<u64>, at: CompactAt) -> usize {
    let tokens = threshold(window.unwrap_or(USUAL_WINDOW), at) / TAIL;
    usize::try_from(tokens.saturating_mul(4)).unwrap_or(usize::MAX)
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

/// What the model is asked for, if only what follows a prompt is summarised.
pub(crate) fn order_since(prompt: &str) -> String {
    let start = cut(prompt.trim(), START);
    let more = format!(
        "\nSummarise only what happened from the user's prompt on that begins with the words between the next two lines, that prompt included. What came before it is kept as it is: do not repeat it.\n---\n{start}\n---"
    );
    order("") + &more
}

/// The conversation with the order at its end.
pub(crate) fn request(messages: &[Message], order: &str) -> Vec<Message> {
    let mut messages = messages.to_vec();
    let block = text_block(order);
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
    let what = Compress { to: Some(OFFLINE), keep: KeepTurns::Last(0), calls: ListCalls::Leave };
    let draft = Draft::new(&subject, &what).ok();
    draft.map(|draft| draft.material(OFFLINE)).filter(|text| !text.trim().is_empty())
}

/// What is there again after a summary, beside what the conversation says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Again {
    /// The todo list.
    pub(crate) todos: Vec<Value>,
    /// Files that were used lately, with their contents.
    pub(crate) files: Vec<(String, String)>,
    /// What runs in the background: ids and names.
    pub(crate) tasks: Vec<(String, String)>,
}

/// How a text begins that takes the place of a conversation.
const LEAD: &str = "The conversation so far was replaced by this summary, because it is too long to be sent whole.";

/// How one begins that takes the place of its end.
const LEAD_SINCE: &str = "What followed was replaced by this summary, as the user wanted it. What is said above stays as it is.";

/// Whether a text is a summary of ours.
fn is_ours(text: &str) -> bool {
    text.starts_with(LEAD) || text.starts_with(LEAD_SINCE)
}

/// Whether a text takes the place of a conversation: one of ours, or one of Claude Code's.
pub fn is_summary(text: &str) -> bool {
    is_ours(text) || text.trim_start().starts_with(SUMMARY_LEAD)
}

/// What is summarised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of the conversation.
    All,
    /// Its end, from a prompt on.
    End,
}

/// The text that takes the place of a conversation, or of its end: of these messages.
pub(crate) fn text(
    (extent, summary): (Extent, &str),
    messages: &[Message],
    again: &Again,
    transcript: Option<&Path>,
) -> String {
    let lead = match extent {
        Extent::All => LEAD,
        Extent::End => LEAD_SINCE,
    };
    let mut text = format!("{lead}\n\nSummary:\n{summary}");
    let mut quoted = |title: &str, quotes: Vec<Quote>| {
        if !quotes.is_empty() {
            let _ = write!(text, "\n\n{title}:");
            for quote in &quotes {
                quote.write(&mut text);
            }
        }
    };
    quoted("The user's prompts, word for word, the oldest first", prompts(messages));
    quoted("The last plan", plan(messages).into_iter().collect());
    quoted("Skills that were loaded", skills(messages));
    let open = again.todos.iter().filter(|todo| todo["status"] != "completed");
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
    if !again.tasks.is_empty() {
        text.push_str("\n\nStill running in the background:");
        for (id, name) in &again.tasks {
            let _ = write!(text, "\n- {id}: {name}");
        }
    }
    let files = files(messages);
    if !files.is_empty() {
        text.push_str("\n\nFiles that were read or changed lately: ");
        text.push_str(&files.join(", "));
    }
    if !again.files.is_empty() {
        text.push_str("\n\nWhat is in them now:");
        for (name, contents) in &again.files {
            Quote::named("file", name, contents).write(&mut text);
        }
    }
    if let Some(path) = transcript {
        let _ = write!(text, "\n\nThe whole conversation is in {}.", path.display());
    }
    text
}

/// What is quoted in the summaries that stand in a conversation.
fn quotes_in<'a>(messages: &'a [Message], kind: &'static str) -> impl Iterator<Item = Quote> + 'a {
    let summaries = texts(messages).filter(|text| is_ours(text));
    summaries.flat_map(move |text| Quote::all(&text, kind))
}

/// The texts of the user's side.
fn texts(messages: &[Message]) -> impl Iterator<Item = String> + '_ {
    let users = messages.iter().filter(|message| message.role == "user");
    users.flat_map(|message| &message.blocks).filter_map(|block| text_of(block))
}

/// The prompts of a conversation, the newest first as long as they fit; in their order.
fn prompts(messages: &[Message]) -> Vec<Quote> {
    let mut all = Vec::new();
    for text in texts(messages) {
        match tagged(&text) {
            _ if is_summary(&text) => {
                all.extend(Quote::all(&text, "prompt").into_iter().map(|quote| quote.text));
            }
            // As it was typed.
            Some(Input::Command | Input::Shell) => {
                all.extend(typed(std::iter::once(text.as_str().into())));
            }
            Some(_) => {}
            None => all.push(text.trim().to_owned()),
        }
    }
    all.retain(|prompt| !prompt.is_empty());
    let mut left = PROMPTS;
    let mut kept = Vec::new();
    for prompt in all.iter().rev() {
        // One that is too long does not take the place of all that came before.
        let most = if prompt.len() <= left { left } else { left.min(BEGINNING) };
        let text = cut(prompt, most);
        if text.is_empty() {
            break;
        }
        left = left.saturating_sub(text.len());
        kept.push(Quote::new("prompt", &text));
    }
    kept.reverse();
    kept
}

/// The calls of a tool in a conversation.
fn calls<'a>(messages: &'a [Message], tool: &'a str) -> impl Iterator<Item = Value> + 'a {
    let blocks = messages.iter().flat_map(|message| &message.blocks);
    let blocks =
        blocks.filter(move |block| block.contains(r#""tool_use""#) && block.contains(tool));
    let calls = blocks.filter_map(|block| serde_json::from_str::<Value>(block).ok());
    calls.filter(move |call| call["type"] == "tool_use" && call["name"] == tool)
}

/// The last plan.
fn plan(messages: &[Message]) -> Option<Quote> {
    let last = calls(messages, "ExitPlanMode").last();
    let plan = last.and_then(|call| call["input"]["plan"].as_str().map(str::to_owned));
    let plan = plan.or_else(|| quotes_in(messages, "plan").last().map(|quote| quote.text))?;
    Some(Quote::new("plan", &cut(&plan, PLAN)))
}

/// What skills say that were loaded, each once, the newest first as long as they fit.
fn skills(messages: &[Message]) -> Vec<Quote> {
    let mut found: Vec<Quote> = quotes_in(messages, "skill").collect();
    let results = || messages.iter().flat_map(|message| &message.blocks);
    for call in calls(messages, SKILL) {
        let id = call["id"].as_str().unwrap_or_default();
        let result = results()
            .filter(|block| block.contains("tool_result") && block.contains(id))
            .filter_map(|block| serde_json::from_str::<Value>(block).ok())
            .find(|block| block["tool_use_id"] == id && block["is_error"] != true);
        let text = result.and_then(|block| block["content"].as_str().map(str::to_owned));
        if let (Some(name), Some(text)) = (call["input"]["skill"].as_str(), text) {
            found.push(Quote::named("skill", name, &text));
        }
    }
    let mut left = SKILLS;
    let mut kept: Vec<Quote> = Vec::new();
    for skill in found.into_iter().rev() {
        if skill.text.len() <= left && !kept.iter().any(|other| other.name == skill.name) {
            left -= skill.text.len();
            kept.push(skill);
        }
    }
    kept.reverse();
    kept
}

/// The files of the last calls, the newest first.
pub(crate) fn files(messages: &[Message]) -> Vec<String> {
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

/// What a summary took away. Of a session that is kept, the file knows the turns.
pub(crate) fn receipt(file: Option<&Path>, before: &[Message], after: &[Message]) -> Receipt {
    let found = file.and_then(|file| Compaction::find(file, Rules::newest(), None).ok());
    if let Some(found) = found {
        return found.receipt;
    }
    let pieces = compaction::pieces_of(
        before.iter().map(|message| (message.role, message.blocks.as_slice())),
    );
    let after: Vec<&[u8]> =
        after.iter().flat_map(|message| &message.blocks).map(String::as_bytes).collect();
    Receipt::new(&pieces, &after)
}

#[cfg(test)]
#[path = "compact_tests.rs"]
mod tests;
