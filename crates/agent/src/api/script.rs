//! A model that plays a script: no key, no socket. The format is that of the lab's scenarios.
//!
//! A rule that matches comes first; otherwise `replies` are given in their order; when the script
//! has run out, `default`. Invariant: the same script gives the same ids at the same place of the
//! same session, and different ids elsewhere: a session that contains an id twice cannot be
//! resumed.

use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{ApiError, Heard, Model, Why};

/// A script.
#[derive(Debug)]
pub struct Script {
    /// What its ids are made from.
    seed: String,
    default: Option<Reply>,
    state: Mutex<ScriptState>,
}

#[derive(Debug)]
struct ScriptState {
    replies: Vec<Reply>,
    rules: Vec<Rule>,
    counts: Map<String, Value>,
}

#[derive(Clone, Debug, Deserialize)]
struct Rule {
    #[serde(rename = "match")]
    wanted: Map<String, Value>,
    /// The replies as written in the script; `played` contains them as they are played.
    replies: Value,
    #[serde(skip)]
    played: Vec<Reply>,
    #[serde(rename = "loop", default)]
    loops: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Reply {
    #[serde(default)]
    content: Vec<Map<String, Value>>,
    stop_reason: Option<String>,
    usage: Option<Map<String, Value>>,
    model: Option<String>,
    #[serde(default)]
    delay: f64,
    #[serde(default)]
    block_delay: f64,
    #[serde(default)]
    hang: f64,
    error: Option<Failing>,
    repeat: Option<usize>,
}

#[derive(Clone, Debug, Deserialize)]
struct Failing {
    status: u16,
    #[serde(rename = "type")]
    kind: Option<String>,
    message: Option<String>,
    #[serde(default)]
    headers: Map<String, Value>,
}

/// Why a script cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum NoScript {
    /// It is not JSON.
    #[error("{FORM}; this is no JSON: {0}")]
    Json(serde_json::Error),
    /// It is not an object.
    #[error("{FORM}; this is {0}")]
    NotObject(&'static str),
    /// A part of it is wrong.
    #[error("{FORM}; its `{at}` is wrong: {why}")]
    Part {
        /// The path of the part.
        at: String,
        /// What is wrong with it.
        why: String,
    },
}

/// What a script is, for its author.
const FORM: &str = r#"a script is an object with `replies`, such as {"replies": [{"content": [{"type": "text", "text": "Hello."}]}]}"#;

impl Script {
    /// Reads a script; `${NAME}` in its texts is replaced with the value of that variable.
    pub fn read(text: &str, variables: &[(&str, &str)]) -> Result<Script, NoScript> {
        let mut value: Value = serde_json::from_str(text).map_err(NoScript::Json)?;
        substitute(&mut value, variables);
        let Value::Object(mut form) = value else { return Err(NoScript::NotObject(kind(&value))) };
        let mut take = |name: &str| form.shift_remove(name).filter(|value| !value.is_null());
        let seed = match take("name") {
            None => "scenario".to_owned(),
            Some(name) => part("name", name)?,
        };
        let replies = replies("replies", take("replies"))?;
        let mut rules = Vec::new();
        for (at, rule) in list("rules", take("rules"))?.into_iter().enumerate() {
            let at = format!("rules[{at}]");
            let mut rule: Rule = part(&at, rule)?;
            let wanted = std::mem::take(&mut rule.replies);
            rule.played = self::replies(&format!("{at}.replies"), Some(wanted))?;
            rules.push(rule);
        }
        let default = take("default").map(|default| part("default", default)).transpose()?;
        let state = ScriptState { replies, rules, counts: Map::new() };
        Ok(Script { seed, default, state: Mutex::new(state) })
    }

    /// The same script in a session that already has so many messages: its ids are different.
    #[must_use]
    pub fn within(self, session: &str, messages: usize) -> Script {
        Script { seed: format!("{}/{session}/{messages}", self.seed), ..self }
    }

    /// The next reply, and the name of the sequence that its ids belong to.
    fn choose(&self, body: &Value) -> (String, Reply) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for (at, rule) in state.rules.iter_mut().enumerate() {
            if !rule.played.is_empty() && matches(&rule.wanted, body) {
                let first = rule.played[0].clone();
                if !rule.loops {
                    rule.played.remove(0);
                }
                return (format!("rule{at}"), first);
            }
        }
        if !state.replies.is_empty() {
            return ("main".to_owned(), state.replies.remove(0));
        }
        let end = self.default.clone().unwrap_or_else(Reply::end);
        ("exhausted".to_owned(), end)
    }

    /// An id in the form of the API's, the same each time.
    fn id(&self, prefix: &str, lane: &str) -> String {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let count = state.counts.entry(format!("{prefix}/{lane}")).or_insert(json!(0));
        let number = count.as_u64().unwrap_or(0) + 1;
        *count = json!(number);
        let seed = format!("{}/{lane}/{prefix}/{number}", self.seed);
        let hash = STANDARD.encode(Sha256::digest(seed.as_bytes()));
        let letters: String = hash.chars().filter(char::is_ascii_alphanumeric).take(22).collect();
        format!("{prefix}_01{letters}")
    }
}

impl Reply {
    fn end() -> Reply {
        let text = json!({"type": "text", "text": "(end of script)"});
        let content = text.as_object().cloned().into_iter().collect();
        Reply { content, ..Reply::default() }
    }
}

/// A list of replies, each repeated as often as it says.
fn replies(at: &str, value: Option<Value>) -> Result<Vec<Reply>, NoScript> {
    let mut all = Vec::new();
    for (number, value) in list(at, value)?.into_iter().enumerate() {
        let reply: Reply = part(&format!("{at}[{number}]"), value)?;
        let times = reply.repeat.unwrap_or(1);
        all.extend(std::iter::repeat_n(reply, times));
    }
    Ok(all)
}

fn list(at: &str, value: Option<Value>) -> Result<Vec<Value>, NoScript> {
    match value {
        None => Ok(Vec::new()),
        Some(Value::Array(list)) => Ok(list),
        Some(other) => {
            let why = format!("it is {}, not a list", kind(&other));
            Err(NoScript::Part { at: at.to_owned(), why })
        }
    }
}

fn part<T: DeserializeOwned>(at: &str, value: Value) -> Result<T, NoScript> {
    // A list would be read as the members of an object, in order.
    let wrong = |why: String| NoScript::Part { at: at.to_owned(), why };
    if value.is_array() {
        return Err(wrong("it is a list".to_owned()));
    }
    serde_json::from_value(value).map_err(|error| wrong(error.to_string()))
}

/// The type of a value, in words.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn substitute(value: &mut Value, variables: &[(&str, &str)]) {
    match value {
        Value::String(text) => {
            for (name, with) in variables {
                *text = text.replace(&format!("${{{name}}}"), with);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|one| substitute(one, variables)),
        Value::Object(members) => {
            members.values_mut().for_each(|one| substitute(one, variables));
        }
        _ => {}
    }
}

fn matches(wanted: &Map<String, Value>, body: &Value) -> bool {
    let has = |text: &str, value: &Value| value.as_str().is_some_and(|part| text.contains(part));
    wanted.iter().all(|(key, value)| match key.as_str() {
        "path_contains" => has("/v1/messages", value),
        "model_contains" => has(body["model"].as_str().unwrap_or_default(), value),
        "system_contains" => has(&text_of(&body["system"]), value),
        "last_user_contains" => has(&last_text(body), value),
        "has_tools" => {
            value.as_bool() == Some(body["tools"].as_array().is_some_and(|t| !t.is_empty()))
        }
        "max_tokens_le" => body["max_tokens"].as_u64() <= value.as_u64(),
        "stream" => value.as_bool() == body["stream"].as_bool(),
        _ => false,
    })
}

/// The text of a message's content.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().map(|block| match &block["text"] {
                Value::String(text) => text.clone(),
                _ => text_of(&block["content"]),
            });
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// Everything that was said after the model's last message.
fn last_text(body: &Value) -> String {
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let late = messages.iter().rev().take_while(|message| message["role"] != "assistant");
    let texts: Vec<_> = late.map(|message| text_of(&message["content"])).collect();
    texts.into_iter().rev().collect::<Vec<_>>().join("\n")
}

fn pause(seconds: f64) {
    if let Ok(time) = Duration::try_from_secs_f64(seconds) {
        thread::sleep(time);
    }
}

impl Model for Script {
    fn ask(
        &self,
        body: String,
        hear: &mut dyn FnMut(Heard<'_>) -> ControlFlow<()>,
    ) -> Result<(), ApiError> {
        let body: Value = serde_json::from_str(&body).unwrap_or_default();
        let (lane, reply) = self.choose(&body);
        pause(reply.delay);
        let request = self.id("req", &lane);
        if let Some(failing) = &reply.error {
            return Err(failing.error(request));
        }
        if hear(Heard::Accepted(&request)).is_break() {
            return Ok(());
        }
        self.play(&lane, &reply, &body, &mut |event| hear(Heard::Event(&event.to_string())));
        Ok(())
    }
}

impl Failing {
    fn error(&self, request: String) -> ApiError {
        let header = |name: &str| {
            let found = self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        };
        let seconds = header("retry-after").and_then(|value| value.parse().ok());
        ApiError {
            kind: Some(self.kind.clone().unwrap_or_else(|| "api_error".to_owned())),
            request: Some(request),
            retry_after: seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            should_retry: header("x-should-retry").and_then(|value| value.parse().ok()),
            ..ApiError::new(
                Why::Status(self.status),
                self.message.clone().unwrap_or_else(|| "error".to_owned()),
            )
        }
    }
}

impl Script {
    /// Sends the events of an answer, in the order of the API.
    fn play(
        &self,
        lane: &str,
        reply: &Reply,
        body: &Value,
        say: &mut dyn FnMut(Value) -> ControlFlow<()>,
    ) {
        let mut content: Vec<Map<String, Value>> = reply.content.clone();
        for block in &mut content {
            if block.get("type") == Some(&json!("tool_use")) && !block.contains_key("id") {
                block.insert("id".to_owned(), json!(self.id("toolu", lane)));
            }
        }
        let calls = content.iter().any(|block| block.get("type") == Some(&json!("tool_use")));
        let stop = reply.stop_reason.clone();
        let stop = stop.unwrap_or_else(|| if calls { "tool_use" } else { "end_turn" }.to_owned());
        let mut usage = usage();
        usage.extend(reply.usage.clone().unwrap_or_default());
        let mut first = usage.clone();
        first.insert("output_tokens".to_owned(), json!(1));
        let model = reply.model.clone().map_or_else(|| body["model"].clone(), Value::String);
        let start = json!({"type": "message_start", "message": {
            "id": self.id("msg", lane), "type": "message", "role": "assistant", "model": model, "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": first,
        }});
        let mut events = vec![(start, reply.hang), (json!({"type": "ping"}), 0.0)];
        for (at, block) in content.into_iter().enumerate() {
            let (empty, deltas) = pieces_of(block);
            events.push((
                json!({"type": "content_block_start", "index": at, "content_block": empty}),
                0.0,
            ));
            let deltas = deltas.into_iter();
            events.extend(deltas.map(|delta| {
                (json!({"type": "content_block_delta", "index": at, "delta": delta}), 0.0)
            }));
            if let Some((_, wait)) = events.last_mut() {
                *wait = reply.block_delay;
            }
            events.push((json!({"type": "content_block_stop", "index": at}), 0.0));
        }
        let end = json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null}, "usage": usage});
        events.extend([(end, 0.0), (json!({"type": "message_stop"}), 0.0)]);
        for (event, wait) in events {
            if say(event).is_break() {
                return;
            }
            pause(wait);
        }
    }
}

/// The block as it begins, and the deltas that are added to it.
fn pieces_of(mut block: Map<String, Value>) -> (Value, Vec<Value>) {
    let text = |block: &Map<String, Value>, name: &str| {
        block.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    match text(&block, "type").as_str() {
        "text" => {
            let whole = text(&block, "text");
            block.insert("text".to_owned(), json!(""));
            let deltas =
                cut(&whole).into_iter().map(|part| json!({"type": "text_delta", "text": part}));
            (Value::Object(block), deltas.collect())
        }
        "thinking" => {
            let (whole, signature) = (text(&block, "thinking"), text(&block, "signature"));
            block.insert("thinking".to_owned(), json!(""));
            block.insert("signature".to_owned(), json!(""));
            let parts = cut(&whole).into_iter();
            let mut deltas: Vec<_> =
                parts.map(|part| json!({"type": "thinking_delta", "thinking": part})).collect();
            deltas.push(json!({"type": "signature_delta", "signature": signature}));
            (Value::Object(block), deltas)
        }
        "tool_use" => {
            let whole = block.insert("input".to_owned(), json!({})).unwrap_or_default().to_string();
            let parts = std::iter::once("").chain(cut(&whole));
            let deltas =
                parts.map(|part| json!({"type": "input_json_delta", "partial_json": part}));
            let deltas = deltas.collect();
            (Value::Object(block), deltas)
        }
        _ => (Value::Object(block), Vec::new()),
    }
}

/// A text in small pieces.
fn cut(text: &str) -> Vec<&str> {
    let mut rest = text;
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let end = rest.char_indices().nth(24).map_or(rest.len(), |(at, _)| at);
        let (part, more) = rest.split_at(end);
        parts.push(part);
        rest = more;
    }
    parts
}

fn usage() -> Map<String, Value> {
    let usual = json!({
        "input_tokens": 12, "cache_creation_input_tokens": 340, "cache_read_input_tokens": 5600,
        "cache_creation": {"ephemeral_5m_input_tokens": 340, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 42, "service_tier": "standard",
    });
    usual.as_object().cloned().unwrap_or_default()
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
