//! What a host brings when it begins: hooks, sub-agents, prompts, the form of results.
//!
//! Invariant: an option that restricts or promises something that is missing here is refused, and
//! never ignored.

use serde_json::{Map, Value, json};

use crate::model;

/// What a host brings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Beginning {
    /// Its hooks, by event.
    pub hooks: Map<String, Value>,
    /// Its sub-agents.
    pub agents: Value,
    /// The JSON Schema of what each turn has to return.
    pub schema: Option<Value>,
    /// The system prompt in place of the usual one.
    pub system: Option<String>,
    /// What is added to the system prompt.
    pub more: Option<String>,
    /// What is added to the system prompts of sub-agents.
    pub more_for_agents: Option<String>,
    /// The title of the session.
    pub title: Option<String>,
    /// The only skills that the model may load.
    pub skills: Option<Vec<String>>,
}

/// Members that are understood.
const KNOWN: [&str; 8] = [
    "hooks",
    "agents",
    "jsonSchema",
    "systemPrompt",
    "appendSystemPrompt",
    "appendSubagentSystemPrompt",
    "title",
    "skills",
];

/// Members that a host may send without relying on them, or that ask for what is always done.
const HARMLESS: [&str; 8] = [
    "subtype",
    "agentProgressSummaries",
    "forwardNestedSubagentToolCalls",
    "forwardSubagentText",
    "perTaskStopAffordance",
    "promptSuggestions",
    "supportedDialogKinds",
    "systemPromptSnapshot",
];

/// What hosts put between two parts of a system prompt that are cached apart.
const SEAM: &str = "__SYSTEM_PROMPT_DYNAMIC_BOUNDARY__";

impl Beginning {
    /// Reads a request. The error says what is missing here.
    pub(super) fn read(request: &Value) -> Result<Beginning, String> {
        let beginning = Beginning {
            hooks: request["hooks"].as_object().cloned().unwrap_or_default(),
            agents: request["agents"].clone(),
            schema: Some(request["jsonSchema"].clone()).filter(Value::is_object),
            system: prompt(&request["systemPrompt"]),
            more: prompt(&request["appendSystemPrompt"]),
            more_for_agents: prompt(&request["appendSubagentSystemPrompt"]),
            title: prompt(&request["title"]),
            skills: names(&request["skills"]),
        };
        // What has another form than expected was not understood.
        let is_read = |key: &str| match key {
            "hooks" | "agents" | "jsonSchema" => request[key].is_object(),
            "systemPrompt" => beginning.system.is_some(),
            "appendSystemPrompt" => beginning.more.is_some(),
            "appendSubagentSystemPrompt" => beginning.more_for_agents.is_some(),
            "title" => beginning.title.is_some(),
            _ => beginning.skills.is_some(),
        };
        let members = request.as_object().into_iter().flat_map(Map::iter);
        let missing: Vec<&str> = members
            .filter(|(key, value)| !HARMLESS.contains(&key.as_str()) && !asks_nothing(value))
            .map(|(key, _)| key.as_str())
            .filter(|key| !(KNOWN.contains(key) && is_read(key)))
            .collect();
        if missing.is_empty() {
            return Ok(beginning);
        }
        Err(format!(
            "quipu does not support these options yet, and does not go on without them: {}",
            missing.join(", ")
        ))
    }
}

/// A prompt: a text, or its parts.
fn prompt(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(_) => {
            let mut parts = names(value)?;
            parts.retain(|part| part != SEAM);
            Some(parts.join("\n\n"))
        }
        _ => None,
    }
}

fn names(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|name| name.as_str().map(str::to_owned)).collect()
}

/// Whether a value asks for nothing.
fn asks_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(members) => members.values().all(asks_nothing),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

/// The models that can be named, for hosts.
pub(super) fn models() -> Value {
    let models = model::offered().map(|(name, meant)| {
        json!({"value": name, "displayName": meant, "description": format!("{meant}, by the Messages API")})
    });
    models.collect()
}

/// The answer to a host that begins; the session adds what it has.
pub(super) fn answer() -> Value {
    json!({
        "commands": [], "output_style": "default", "available_output_styles": ["default"],
        "models": models(), "account": {}, "pid": std::process::id(),
        "hook_on_failure_supported": true, "hooks_applied": true,
    })
}
