//! Assembles the events of a stream: the message as it begins, each block when it is complete, and
//! how the answer ends.
//!
//! Invariant: an answer has an end: a server that sends more than was requested is cut off
//! ([`Limits`]).

use transcript::format::json::{Json, Object, quote};

use super::{ApiError, Why};

/// What a stream has reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The answer begins: the message without content, as JSON.
    Started(String),
    /// A block is complete, as JSON.
    Block(String),
    /// The answer is complete.
    Ended(Ending),
    /// The answer failed.
    Failed(ApiError),
}

/// How an answer ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// Why: `end_turn`, `tool_use`, …
    pub stop_reason: Option<String>,
    /// The final usage, as JSON.
    pub usage: Option<String>,
}

/// How large an answer may be, in bytes and blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The content of all blocks.
    content: usize,
    /// The content of one block.
    block: usize,
    /// All events, as they come.
    wire: usize,
    blocks: usize,
}

impl Limits {
    /// The limits for an answer of at most so many tokens. The longest token has about forty bytes;
    /// an event has some two hundred in addition to its content. Search results of the API are not
    /// counted in tokens.
    pub fn of(max_tokens: u64) -> Limits {
        let tokens = usize::try_from(max_tokens.min(1_000_000)).unwrap_or_default();
        let bytes = tokens * 40;
        Limits {
            content: bytes + (8 << 20),
            block: bytes + (4 << 20),
            wire: tokens * 256 + (16 << 20),
            blocks: 1_000,
        }
    }
}

/// The limits for the longest answers of any model.
impl Default for Limits {
    fn default() -> Self {
        Limits::of(128_000)
    }
}

/// Assembles a stream.
#[derive(Debug, Default)]
pub struct Stream {
    limits: Limits,
    open: Option<Open>,
    ending: Ending,
    is_started: bool,
    is_ended: bool,
    /// The content received so far.
    content: usize,
    wire: usize,
    blocks: usize,
}

/// A block that is not complete.
#[derive(Clone, Debug)]
struct Open {
    /// The block as it began.
    block: String,
    /// Its size so far.
    size: usize,
    /// What was added to its members.
    text: String,
    thinking: String,
    signature: String,
    input: String,
    citations: Vec<String>,
}

impl Stream {
    /// A stream with these limits.
    pub fn new(limits: Limits) -> Stream {
        Stream { limits, ..Stream::default() }
    }

    /// Processes an event.
    pub fn event(&mut self, event: &str) -> Option<Step> {
        self.wire += event.len();
        let step = self.take(event);
        let size = self.open.as_ref().map_or(0, |open| open.size);
        let limits = self.limits;
        let counts = [
            (self.blocks, limits.blocks, "blocks"),
            (size, limits.block, "bytes in a block"),
            (self.content + size, limits.content, "bytes"),
            (self.wire, limits.wire, "bytes of events"),
        ];
        match counts.into_iter().find(|(count, most, _)| count > most) {
            None => step,
            Some((_, most, what)) => {
                let message = format!("it has more than {most} {what}");
                Some(Step::Failed(ApiError::new(Why::Endless, message)))
            }
        }
    }

    /// The text of an incomplete block, as a block; None if it is not text, or blank.
    pub fn partial(&self) -> Option<String> {
        let open = self.open.as_ref().filter(|open| !open.text.trim().is_empty())?;
        match open.clone().whole() {
            Some(Step::Block(block)) => Some(block),
            _ => None,
        }
    }

    fn take(&mut self, event: &str) -> Option<Step> {
        let Some(json) = Json::parse(event.as_bytes()).and_then(Json::object) else {
            return Some(Step::Failed(ApiError::new(Why::Nonsense, "an event is no JSON")));
        };
        match json.text("type").as_deref() {
            Some("message_start") => {
                self.is_started = true;
                json.get("message").map(|message| Step::Started(text_of(message)))
            }
            Some("content_block_start") => {
                self.blocks += 1;
                self.open = json.get("content_block").map(|block| Open::new(text_of(block)));
                None
            }
            Some("content_block_delta") => {
                let delta = json.get("delta").and_then(Json::object)?;
                self.open.as_mut()?.add(&delta);
                None
            }
            Some("content_block_stop") => {
                let open = self.open.take()?;
                self.content += open.size;
                open.whole()
            }
            Some("message_delta") => {
                let delta = json.get("delta");
                let stop = delta.and_then(|delta| delta.get("stop_reason")).and_then(Json::text);
                self.ending.stop_reason = stop.map(std::borrow::Cow::into_owned);
                self.ending.usage = json.get("usage").map(text_of);
                None
            }
            Some("message_stop") => {
                self.is_ended = true;
                Some(Step::Ended(std::mem::take(&mut self.ending)))
            }
            Some("error") => Some(Step::Failed(ApiError::of_event(event))),
            _ => None,
        }
    }

    /// What is missing when the stream has ended.
    pub fn end(&self) -> Option<ApiError> {
        let message = match (self.is_started, self.is_ended) {
            (_, true) => return None,
            (false, _) => "no answer came",
            (true, _) => "its end is missing",
        };
        Some(ApiError::new(Why::Cut, message))
    }
}

fn text_of(json: Json<'_>) -> String {
    String::from_utf8_lossy(json.raw()).into_owned()
}

impl Open {
    fn new(block: String) -> Open {
        Open {
            size: block.len(),
            block,
            text: String::new(),
            thinking: String::new(),
            signature: String::new(),
            input: String::new(),
            citations: Vec::new(),
        }
    }

    fn add(&mut self, delta: &Object<'_>) {
        let size = &mut self.size;
        let mut add = |to: &mut String, name: &str| {
            if let Some(more) = delta.text(name) {
                *size += more.len();
                to.push_str(&more);
            }
        };
        match delta.text("type").as_deref() {
            Some("text_delta") => add(&mut self.text, "text"),
            Some("thinking_delta") => add(&mut self.thinking, "thinking"),
            Some("signature_delta") => add(&mut self.signature, "signature"),
            Some("input_json_delta") => add(&mut self.input, "partial_json"),
            Some("citations_delta") => {
                let citation = delta.get("citation").map(text_of);
                *size += citation.as_ref().map_or(0, String::len);
                self.citations.extend(citation);
            }
            // An unknown delta loses nothing: the block stays as it began.
            _ => {}
        }
    }

    fn whole(self) -> Option<Step> {
        let mut block = self.block;
        for (name, added) in
            [("text", self.text), ("thinking", self.thinking), ("signature", self.signature)]
        {
            if !added.is_empty() {
                let began = object(&block)?.text(name).unwrap_or_default().into_owned();
                block = with(&block, name, &quote(&(began + &added)))?;
            }
        }
        if !self.citations.is_empty() {
            block = with(&block, "citations", &format!("[{}]", self.citations.join(",")))?;
        }
        if !self.input.trim().is_empty() {
            // Input that was cut off by the limit of an answer is not JSON. The call then has an
            // empty input, and gets a result that says so.
            let input = compact(&self.input).filter(|input| input.starts_with('{'));
            block = with(&block, "input", input.as_deref().unwrap_or("{}"))?;
        }
        Some(Step::Block(block))
    }
}

fn object(json: &str) -> Option<Object<'_>> {
    Json::parse(json.as_bytes()).and_then(Json::object)
}

/// The object with another value for a member, at the same position.
pub(crate) fn with(json: &str, name: &str, value: &str) -> Option<String> {
    String::from_utf8(object(json)?.with(name, value.as_bytes())).ok()
}

/// JSON without spaces; None if it is not JSON.
pub(crate) fn compact(json: &str) -> Option<String> {
    Json::parse(json.as_bytes())?;
    let (mut out, mut in_text, mut is_escaped) = (String::with_capacity(json.len()), false, false);
    for c in json.chars() {
        if in_text || !c.is_ascii_whitespace() {
            out.push(c);
        }
        in_text = if c == '"' && !is_escaped { !in_text } else { in_text };
        is_escaped = in_text && c == '\\' && !is_escaped;
    }
    Some(out)
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
