//! What is searched of a record: its texts, each with who says it and how.
//!
//! Prompts, answers, thinking, the inputs and results of tools, titles, with the tags of users and
//! the summaries that older clients showed as titles; not the client's structured copies of
//! results, and not what it writes for itself. Invariant: secrets are hidden in them.

use std::borrow::Cow;

use transcript::format::content::{Block, BlockKind};
use transcript::format::entry::{Entry, Kind};
use transcript::format::input::{Input, attached_prompt};
use transcript::format::json::{Json, Object, Shape};
use transcript::format::secret::Mask;

/// What a text is; those that people look for most come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TextKind {
    Prompt,
    Answer,
    Thinking,
    Call,
    Result,
    Title,
    /// What the client or a hook tells the model.
    Note,
}

impl TextKind {
    pub(crate) const ALL: [TextKind; 7] = [
        TextKind::Prompt,
        TextKind::Answer,
        TextKind::Thinking,
        TextKind::Call,
        TextKind::Result,
        TextKind::Title,
        TextKind::Note,
    ];

    /// Its name in queries and output.
    pub(crate) fn name(self) -> &'static str {
        match self {
            TextKind::Prompt => "prompt",
            TextKind::Answer => "answer",
            TextKind::Thinking => "thinking",
            TextKind::Call => "call",
            TextKind::Result => "result",
            TextKind::Title => "title",
            TextKind::Note => "note",
        }
    }

    /// Who says it.
    pub(crate) fn role(self) -> &'static str {
        match self {
            TextKind::Prompt => "user",
            TextKind::Answer | TextKind::Thinking | TextKind::Call => "assistant",
            TextKind::Result => "tool",
            TextKind::Title | TextKind::Note => "client",
        }
    }
}

/// A text of a record, without secrets.
#[derive(Clone, Debug)]
pub(crate) struct Passage {
    pub(crate) kind: TextKind,
    pub(crate) text: String,
    /// The name of the tool, if it is a call; of a result, only the call says it.
    pub(crate) tool: Option<String>,
    /// The id of the call that it is, or is the result of.
    pub(crate) call: Option<String>,
    pub(crate) is_error: bool,
}

/// The texts of a record, in order.
pub(crate) fn texts(entry: &Entry<'_>, mask: &mut Mask<'_>) -> Vec<Passage> {
    let mut found = Vec::new();
    let mut add = |kind, text: &str| {
        let text = mask.text(text).into_owned();
        found.push(Passage { kind, text, tool: None, call: None, is_error: false });
    };
    match entry.kind() {
        Kind::User | Kind::Assistant => {
            let is_prompt = entry.input().is_some_and(Input::opens);
            for block in entry.message().into_iter().flat_map(|message| message.blocks()) {
                found.extend(passage(&block, entry.kind(), is_prompt, mask));
            }
        }
        Kind::Attachment => {
            let text = attached_prompt(entry);
            if !text.is_empty() {
                add(TextKind::Prompt, &text);
            }
        }
        kind @ (Kind::CustomTitle | Kind::AiTitle | Kind::Summary | Kind::Tag) => {
            let member = match kind {
                Kind::CustomTitle => "customTitle",
                Kind::AiTitle => "aiTitle",
                Kind::Summary => "summary",
                _ => "tag",
            };
            if let Some(title) = entry.text(member) {
                add(TextKind::Title, &title);
            }
        }
        _ => {}
    }
    found
}

/// The text of a block of a message.
fn passage(
    block: &Block<'_>,
    speaker: Kind,
    is_prompt: bool,
    mask: &mut Mask<'_>,
) -> Option<Passage> {
    let is_error = block.get("is_error").and_then(Json::bool) == Some(true);
    let id_in = |name: &str| block.get(name).and_then(Json::text).map(Cow::into_owned);
    let (kind, text, call) = match (block.kind(), speaker) {
        (BlockKind::Text, Kind::Assistant) => (TextKind::Answer, block.text()?, None),
        (BlockKind::Text, _) if is_prompt => (TextKind::Prompt, block.text()?, None),
        (BlockKind::Text, _) => (TextKind::Note, block.text()?, None),
        (BlockKind::Thinking, _) => {
            (TextKind::Thinking, block.get("thinking").and_then(Json::text)?, None)
        }
        (kind, _) if kind.is_call() => {
            // The names of members show what is a secret.
            let input = block.get("input")?;
            let input = String::from_utf8_lossy(input.raw());
            let input = mask.json(&input);
            let strings = Json::parse(input.as_bytes()).map(collect).unwrap_or_default();
            let (text, tool) = (strings.join("\n"), block.tool().map(Cow::into_owned));
            let (kind, call) = (TextKind::Call, id_in("id"));
            return Some(Passage { kind, text, tool, call, is_error: false });
        }
        (kind, _) if kind.is_result() => (TextKind::Result, result(block), id_in("tool_use_id")),
        _ => return None,
    };
    let is_error = is_error && kind == TextKind::Result;
    Some(Passage { kind, text: mask.text(&text).into_owned(), tool: None, call, is_error })
}

/// The text of a result.
fn result<'a>(block: &Block<'a>) -> Cow<'a, str> {
    match block.get("content") {
        Some(content) if content.shape() == Shape::String => content.text().unwrap_or_default(),
        _ => block.inner().filter_map(|inner| inner.text()).collect::<Vec<_>>().join("\n").into(),
    }
}

/// How deep inputs are looked into.
const DEEPEST: usize = 8;

/// All strings in a value.
fn collect(value: Json<'_>) -> Vec<Cow<'_, str>> {
    let mut strings = Vec::new();
    let mut open = vec![(value, 0)];
    while let Some((value, depth)) = open.pop() {
        match value.shape() {
            Shape::String => strings.extend(value.text()),
            Shape::Array if depth < DEEPEST => {
                let inside: Vec<_> = value.elements().map(|one| (one, depth + 1)).collect();
                open.extend(inside.into_iter().rev());
            }
            Shape::Object if depth < DEEPEST => {
                let members = value.object();
                let inside = members.iter().flat_map(Object::members);
                let inside: Vec<_> = inside.map(|(_, one)| (one, depth + 1)).collect();
                open.extend(inside.into_iter().rev());
            }
            _ => {}
        }
    }
    strings
}
