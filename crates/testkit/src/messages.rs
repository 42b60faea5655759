//! Normalizes messages of the API, so that they can be compared.

use serde_json::{Map, Value};

/// A text without the reminders in it.
fn without_reminders(text: &str) -> String {
    let mut rest = text.trim().to_owned();
    // A reminder may contain another one, as a file that was read.
    if rest.starts_with("<system-reminder>") && rest.ends_with("</system-reminder>") {
        return String::new();
    }
    while let Some(start) = rest.find("<system-reminder>") {
        let end = rest[start..].find("</system-reminder>").map_or(rest.len(), |at| start + at + 18);
        rest = format!("{}{}", rest[..start].trim_end(), rest[end..].trim_start());
    }
    rest.trim().to_owned()
}

fn plain(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(without_reminders(text)),
        Value::Array(list) => list.iter().map(plain).collect(),
        Value::Object(map) => {
            let kept = map.iter().filter(|(name, _)| *name != "cache_control");
            kept.map(|(name, value)| (name.clone(), plain(value))).collect::<Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

/// Messages without what does not matter when two requests are compared: reminders, messages of
/// role `system`, `cache_control`, empty texts and `is_error: false`. String content becomes a text
/// block, and a result of one text block becomes a string.
pub fn normal(messages: &[Value]) -> Vec<Value> {
    let mut found = Vec::new();
    for message in messages.iter().filter(|message| message["role"] != "system") {
        let blocks = match &message["content"] {
            Value::String(text) => vec![serde_json::json!({"type": "text", "text": text})],
            content => content.as_array().cloned().unwrap_or_default(),
        };
        let mut kept = Vec::new();
        for block in blocks.iter().map(plain) {
            let mut block = block;
            if block["type"] == "tool_result"
                && let Some([only]) = block["content"].as_array().map(Vec::as_slice)
                && only["type"] == "text"
            {
                block["content"] = only["text"].clone();
            }
            if block["type"] == "text" && block["text"] == "" {
                continue;
            }
            if block["is_error"] == false
                && let Some(members) = block.as_object_mut()
            {
                members.remove("is_error");
            }
            kept.push(block);
        }
        if !kept.is_empty() {
            found.push(serde_json::json!({"role": message["role"], "content": kept}));
        }
    }
    found
}
