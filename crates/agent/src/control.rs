//! Requests from the program that hosts a session, apart from prompts: the control protocol of
//! Claude Code.
//!
//! Every request is answered, an unknown one with an error. Rules, hooks and servers are not
//! supported yet: a host that relies on them is refused when it says so, and the session ends. A
//! host that continued would rely on hooks that are never called.

use serde_json::{Map, Value, json};

use crate::model;
use crate::permit::{Bypass, Mode};

/// What a request asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Wish {
    /// Nothing except the answer.
    Nothing,
    /// Stop the turn.
    Stop,
    /// Switch to another permission mode.
    Mode(Mode),
    /// Switch to another model.
    Model(String),
    /// Use this many tokens for thinking; None for no thinking.
    Thinking(Option<u64>),
    /// Something that is not supported: the session is to end.
    Impossible,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason, for people.
    pub why: String,
    /// The code for programs, as in Claude Code.
    pub code: Option<&'static str>,
}

impl Refusal {
    fn new(why: impl Into<String>) -> Refusal {
        Refusal { why: why.into(), code: None }
    }
}

/// Members that a host may send with `initialize` without relying on them.
const HARMLESS: [&str; 5] = [
    "subtype",
    "agentProgressSummaries",
    "forwardSubagentText",
    "promptSuggestions",
    "supportedDialogKinds",
];

/// What a request asks for, and its answer.
pub fn asked(request: &Value, bypass: Bypass) -> (Wish, Result<Option<Value>, Refusal>) {
    let subtype = request["subtype"].as_str().unwrap_or_default();
    match subtype {
        "initialize" => match unsupported(request) {
            keys if keys.is_empty() => (Wish::Nothing, Ok(Some(initialized()))),
            keys => {
                let keys = keys.join(", ");
                let why = format!(
                    "quipu does not support these options yet, and does not go on without them: {keys}"
                );
                (Wish::Impossible, Err(Refusal { why, code: Some("unsupported_request") }))
            }
        },
        "interrupt" => (Wish::Stop, Ok(None)),
        "mcp_status" => (Wish::Nothing, Ok(Some(json!({"mcpServers": []})))),
        "set_permission_mode" => {
            let name = request["mode"].as_str().unwrap_or_default();
            let refusal = bypass.refusal().filter(|_| name == Mode::Bypass.name());
            match Mode::named(name) {
                Some(_) if refusal.is_some() => (Wish::Nothing, refusal.map_or(Ok(None), Err)),
                Some(mode) => (Wish::Mode(mode), Ok(Some(json!({"mode": name})))),
                None => {
                    let why = format!("`{name}` is no permission mode here");
                    (Wish::Nothing, Err(Refusal { why, code: Some("invalid_mode") }))
                }
            }
        }
        "set_model" => (Wish::Model(model::named(request["model"].as_str())), Ok(None)),
        "set_max_thinking_tokens" => {
            (Wish::Thinking(request["max_thinking_tokens"].as_u64()), Ok(None))
        }
        _ => {
            let why = format!("Unsupported control request subtype: {subtype}");
            (Wish::Nothing, Err(Refusal::new(why)))
        }
    }
}

impl Bypass {
    /// Why a host may not have everything permitted, in the words of Claude Code.
    fn refusal(self) -> Option<Refusal> {
        let (why, code) = match self {
            Bypass::Offered => return None,
            Bypass::NotOffered => (
                "the session was not launched with --dangerously-skip-permissions",
                "bypass_not_launched",
            ),
            Bypass::Forbidden => ("it is disabled by settings or configuration", "bypass_disabled"),
        };
        let why = format!("Cannot set permission mode to bypassPermissions because {why}");
        Some(Refusal { why, code: Some(code) })
    }
}

/// The options of `initialize` that restrict or promise something that is not supported.
fn unsupported(request: &Value) -> Vec<&str> {
    let members = request.as_object().into_iter().flat_map(Map::iter);
    let members =
        members.filter(|(key, value)| !HARMLESS.contains(&key.as_str()) && !is_empty(value));
    members.map(|(key, _)| key.as_str()).collect()
}

/// Whether a value asks for nothing.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(members) => members.values().all(is_empty),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

fn initialized() -> Value {
    let models = model::offered().map(|(name, meant)| {
        json!({"value": name, "displayName": meant, "description": format!("{meant}, by the Messages API")})
    });
    json!({
        "commands": [], "output_style": "default", "available_output_styles": ["default"],
        "models": models.collect::<Vec<_>>(), "account": {}, "pid": std::process::id(),
    })
}

/// The answer to the request with this id, as an event.
pub fn answer(id: &Value, answer: Result<Option<Value>, Refusal>) -> Value {
    let response = match answer {
        Ok(None) => json!({"subtype": "success", "request_id": id}),
        Ok(Some(value)) => json!({"subtype": "success", "request_id": id, "response": value}),
        Err(Refusal { why, code: None }) => {
            json!({"subtype": "error", "request_id": id, "error": why})
        }
        Err(Refusal { why, code }) => {
            json!({"subtype": "error", "request_id": id, "error": why, "error_code": code})
        }
    };
    json!({"type": "control_response", "response": response})
}

#[cfg(test)]
#[path = "control_tests.rs"]
mod tests;
