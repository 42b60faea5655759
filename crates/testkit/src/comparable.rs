//! Brings requests into the form in which they are compared, strictly.
//!
//! Whole messages count: role, order, every block, every member, every space. Left out is only
//! - `cache_control`;
//! - what a client makes anew at each start ([`fresh`]);
//! - the product's own words in reminders and in messages of role `system`. Of these, the place
//!   counts (a block of its own, or inside a text behind an empty line), and the session's content
//!   in them.
//!
//! Invariant: whatever the session itself says is compared letter by letter.

pub mod fresh;
mod session;

use serde_json::{Map, Value, json};

pub use fresh::Applied;
pub use session::{SessionTexts, whole_characters};

const OPEN: &str = "<system-reminder>";
const CLOSE: &str = "</system-reminder>";

/// Where a reminder stands.
#[derive(Clone, Copy)]
enum Place {
    /// In a block of its own.
    Block,
    /// Inside a text, behind an empty line.
    Inside,
    /// In a text of its own, without tags.
    Text,
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Place::Block => "block",
            Place::Inside => "inside",
            Place::Text => "text",
        }
    }
}

/// Messages in the form in which they are compared. `applied` counts what was left out.
pub fn comparable(messages: &[Value], session: &SessionTexts, applied: &mut Applied) -> Vec<Value> {
    Form { session, applied }.of(messages)
}

struct Form<'a> {
    session: &'a SessionTexts,
    applied: &'a mut Applied,
}

impl Form<'_> {
    fn of(&mut self, messages: &[Value]) -> Vec<Value> {
        let role = |at: usize| messages[at]["role"].as_str().unwrap_or_default();
        let users: Vec<usize> = (0..messages.len()).filter(|at| role(*at) == "user").collect();
        // The first prompt and the new one: what is made anew stands in them, or behind them. A
        // client may send what it adds to a prompt as messages of their own before it.
        let is_run = |from: usize, to: usize| (from..=to).all(|at| role(at) == "user");
        let is_end = |at: usize| {
            users.first().is_some_and(|first| is_run(*first, at))
                || users.last().is_some_and(|last| is_run(at, *last))
        };
        let mut found = Vec::new();
        for (at, message) in messages.iter().enumerate() {
            let blocks = blocks(&bare(&message["content"]));
            let parts = if role(at) == "system" {
                let before = (0..at).rev().find(|before| role(*before) != "system");
                self.system(&blocks, before.is_none_or(is_end))
            } else {
                blocks.into_iter().flat_map(|block| self.block(block, is_end(at))).collect()
            };
            if !parts.is_empty() {
                found.push(json!({"role": role(at), "content": parts}));
            }
        }
        found
    }

    fn block(&mut self, mut block: Value, is_end: bool) -> Vec<Value> {
        if block["type"] == "text" {
            let text = block["text"].as_str().unwrap_or_default().to_owned();
            return self.text(&block, &text, is_end, Place::Block);
        }
        if block["type"] == "tool_result" {
            let parts = match block["content"].take() {
                Value::String(text) => {
                    Some(self.text(&text_block(&text), &text, is_end, Place::Block))
                }
                Value::Array(list) => {
                    Some(list.into_iter().flat_map(|part| self.block(part, is_end)).collect())
                }
                Value::Null => None,
                other => Some(vec![other]),
            };
            match parts {
                Some(parts) => block["content"] = parts.into(),
                None => drop(block.as_object_mut().and_then(|members| members.remove("content"))),
            }
        }
        vec![block]
    }

    /// A text as itself, without the reminders that the client put into it. `block` has it.
    fn text(&mut self, block: &Value, text: &str, is_end: bool, place: Place) -> Vec<Value> {
        let with = |text: &str| {
            let mut block = block.clone();
            block["text"] = text.into();
            block
        };
        if is_end && !self.session.says(text) {
            // Some versions write these without tags.
            let kind = if session::is_notice(text) {
                Some("notice")
            } else {
                text.starts_with(fresh::TOOLS).then_some("tools")
            };
            if let Some(kind) = kind {
                self.applied.count(kind);
                return Vec::new();
            }
        }
        if text.starts_with(session::NOTICE) && !self.session.says(text) {
            return self.reminder(text, is_end, Place::Text).into_iter().collect();
        }
        if !text.trim_end().ends_with(CLOSE) || self.session.says(text) {
            return vec![block.clone()];
        }
        if let Some(inner) = text.trim().strip_prefix(OPEN) {
            // Several reminders may stand in one block, directly behind one another.
            let inner = inner.strip_suffix(CLOSE).unwrap_or(inner);
            let pieces = split_between(inner);
            return pieces.iter().filter_map(|one| self.reminder(one, is_end, place)).collect();
        }
        let behind_line = format!("\n\n{OPEN}");
        let cuts: Vec<usize> = text.match_indices(&behind_line).map(|(at, _)| at).collect();
        let cut = cuts.iter().find(|at| self.session.says(&text[..**at])).or(cuts.first());
        let Some(cut) = cut else { return vec![block.clone()] };
        let mut parts = vec![with(&text[..*cut])];
        parts.extend(self.text(block, &text[*cut..], is_end, Place::Inside));
        parts
    }

    fn reminder(&mut self, inner: &str, is_end: bool, place: Place) -> Option<Value> {
        let kind = fresh::kind(inner);
        let carried = self.session.carried(inner, fresh::is_list(kind));
        match kind {
            Some(kind) if is_end && (carried.is_empty() || kind == fresh::BUDGET) => {
                self.applied.count(kind);
                None
            }
            Some(kind) if carried.is_empty() => {
                Some(json!({"type": "reminder", "place": place.name(), "lists": kind}))
            }
            _ => Some(json!({"type": "reminder", "place": place.name(), "carries": carried})),
        }
    }

    /// A message of role `system`: the client joins what it has to say into one text.
    fn system(&mut self, content: &[Value], is_end: bool) -> Vec<Value> {
        let texts: Vec<&str> = content.iter().filter_map(|block| block["text"].as_str()).collect();
        // Some models get the tags of reminders here, too.
        let text = texts.join("\n\n").replace(OPEN, "").replace(CLOSE, "");
        if !text.is_empty() && self.session.says(&text) {
            return vec![text_block(&text)];
        }
        let kind = fresh::kind(&text);
        let carried = self.session.carried(&text, fresh::is_list(kind));
        if is_end && carried.is_empty() && (kind.is_some() || text.is_empty()) {
            self.applied.count(kind.unwrap_or(fresh::EFFORT));
            return Vec::new();
        }
        let mut parts: Vec<Value> = Vec::new();
        // What is listed, each once: a list may have several paragraphs.
        let mut listed: Vec<&str> = Vec::new();
        for paragraph in paragraphs(&text) {
            let kind = fresh::kind(&paragraph);
            let is_list = kind != Some(fresh::DATE_CHANGE);
            if !self.session.carried(&paragraph, is_list).is_empty() {
                continue;
            }
            match kind {
                Some(kind) if fresh::INTRODUCE.contains(&kind) && !carried.is_empty() => {}
                Some(kind) if is_end => self.applied.count(kind),
                Some(kind) if !listed.contains(&kind) => {
                    listed.push(kind);
                    parts.push(json!({"type": "note", "lists": kind}));
                }
                _ => {}
            }
        }
        if !carried.is_empty() || (parts.is_empty() && kind.is_none()) {
            parts.push(json!({"type": "note", "carries": carried}));
        }
        parts
    }
}

/// The paragraphs of a text. A heading belongs to the paragraph that follows it.
fn paragraphs(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut heading = String::new();
    for part in text.split("\n\n").map(|part| part.trim_matches('\n')) {
        let whole = std::mem::take(&mut heading) + part;
        if part.starts_with('#') && !part.contains('\n') {
            heading = whole + "\n";
        } else {
            found.push(whole);
        }
    }
    found.extend((!heading.is_empty()).then_some(heading));
    found
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// The inner texts of reminders that follow one another.
fn split_between(inner: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    for (at, _) in inner.match_indices(CLOSE) {
        let rest = &inner[at + CLOSE.len()..];
        if at >= start && rest.trim_start().starts_with(OPEN) {
            pieces.push(&inner[start..at]);
            start = inner.len() - rest.trim_start().len() + OPEN.len();
        }
    }
    pieces.push(&inner[start..]);
    pieces
}

/// A message's content as a list: a text alone means the same as one block of text.
fn blocks(content: &Value) -> Vec<Value> {
    match content {
        Value::String(text) => vec![text_block(text)],
        other => other.as_array().cloned().unwrap_or_default(),
    }
}

/// A value without the marks of the cache.
fn bare(value: &Value) -> Value {
    match value {
        Value::Array(list) => list.iter().map(bare).collect(),
        Value::Object(map) => {
            let kept = map.iter().filter(|(name, _)| *name != "cache_control");
            kept.map(|(name, value)| (name.clone(), bare(value))).collect::<Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
#[path = "comparable_tests.rs"]
mod tests;
