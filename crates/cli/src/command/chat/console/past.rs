//! The end of a conversation that is resumed, from the messages that are sent again.
//!
//! Invariant: what the client says in the user's place (reminders, notices, summaries) is left out.

use std::collections::HashSet;

use ::console::screen::Spoken;
use agent::api::request::Message;
use serde_json::Value;

/// How many prompts are shown.
const PROMPTS: usize = 3;
/// How much of what came before is shown at most.
const MOST: usize = 60;

/// What was said earlier, and the last prompts with what was said since.
pub(super) fn end(messages: &[Message]) -> (Vec<Spoken>, Vec<Spoken>) {
    let mut all = Vec::new();
    let mut failed: HashSet<String> = HashSet::new();
    for message in messages.iter().rev() {
        let blocks =
            message.blocks.iter().rev().filter_map(|block| serde_json::from_str(block).ok());
        for block in blocks {
            all.extend(spoken(message.role, &block, &mut failed));
        }
    }
    all.reverse();
    let is_prompt = |one: &Spoken| matches!(one, Spoken::Prompt(_));
    let places = all.iter().enumerate().filter(|(_, one)| is_prompt(one)).map(|(at, _)| at);
    let places: Vec<usize> = places.collect();
    let first = places.len().saturating_sub(PROMPTS);
    let start = places.get(first).copied().unwrap_or(0).max(all.len().saturating_sub(MOST));
    let last = all.split_off(start);
    (all, last)
}

/// What the first prompt says.
pub(super) fn topic<'a>(mut all: impl Iterator<Item = &'a Spoken>) -> Option<&'a str> {
    all.find_map(|one| match one {
        Spoken::Prompt(text) => Some(text.as_str()),
        _ => None,
    })
}

/// What a block says to people.
fn spoken(role: &str, block: &Value, failed: &mut HashSet<String>) -> Option<Spoken> {
    let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
    match (role, block["type"].as_str()?) {
        (_, "tool_result") => {
            if block["is_error"] == true {
                failed.insert(text("tool_use_id"));
            }
            None
        }
        ("assistant", "tool_use") => {
            let is_error = failed.contains(&text("id"));
            Some(Spoken::Call { name: text("name"), input: block["input"].clone(), is_error })
        }
        (role, "text") => {
            let text = text("text");
            let is_said = !text.trim().is_empty();
            match role {
                "assistant" if is_said => Some(Spoken::Answer(text)),
                // What begins like this is the client's.
                "user" if text.starts_with('<') || agent::is_summary(&text) => None,
                "user" if is_said => Some(Spoken::Prompt(text)),
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(role: &'static str, blocks: &[Value]) -> Message {
        Message { role, blocks: blocks.iter().map(Value::to_string).collect() }
    }

    #[test]
    fn the_last_prompts_and_what_followed() {
        let says = |text: &str| json!({"type": "text", "text": text});
        let mut messages = Vec::new();
        for number in 1..=5 {
            let reminder = says("<system-reminder>\nx\n</system-reminder>");
            messages.push(message("user", &[reminder, says(&format!("prompt {number}"))]));
            let call = json!({"type": "tool_use", "id": number.to_string(), "name": "Bash", "input": {"command": "ls"}});
            messages.push(message("assistant", &[says("I look."), call]));
            let result = json!({"type": "tool_result", "tool_use_id": number.to_string(), "is_error": number == 5,
                "content": "no"});
            messages.push(message("user", &[result]));
            messages.push(message("assistant", &[says(&format!("answer {number}"))]));
        }
        let (earlier, shown) = end(&messages);
        assert_eq!((earlier.len(), shown.len()), (8, 12));
        assert_eq!(earlier[0], Spoken::Prompt("prompt 1".to_owned()));
        assert_eq!(topic(earlier.iter()), Some("prompt 1"));
        assert_eq!(shown[0], Spoken::Prompt("prompt 3".to_owned()));
        assert_eq!(shown[11], Spoken::Answer("answer 5".to_owned()));
        let input = json!({"command": "ls"});
        let call =
            |is_error| Spoken::Call { name: "Bash".to_owned(), input: input.clone(), is_error };
        assert_eq!((&shown[2], &shown[10]), (&call(false), &call(true)));
        // A summary of what came before is no prompt.
        let lead = "This session is being continued from a previous conversation that ran out.";
        messages.insert(0, message("user", &[says(lead)]));
        assert_eq!(end(&messages), (earlier, shown));
        assert_eq!(end(&[]), (Vec::new(), Vec::new()));
    }
}
