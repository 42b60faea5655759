//! Describes in one line what the client noted beside the conversation.
//!
//! Most such notes do not matter to a reader of the conversation (listings, reminders, counts).
//! This module decides which ones do, once, for every view of a session.

use crate::format::entry::{Entry, Kind};
use crate::format::json::{Json, Object};

/// Something that the client noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The note in one line.
    pub text: String,
    /// Whether it matters to a person who reads the conversation.
    pub matters: bool,
}

/// The note in a record.
pub fn event(entry: &Entry<'_>) -> Event {
    let subtype = entry.subtype().unwrap_or_default();
    let plain = Event { text: subtype.replace('_', " "), matters: false };
    let telling = match entry.kind() {
        Kind::System => system(entry, &subtype),
        Kind::Attachment => entry
            .get("attachment")
            .and_then(Json::object)
            .and_then(|object| attachment(&object, &subtype)),
        _ => {
            let name = entry.type_name().unwrap_or_default();
            return Event { text: format!("a record of type `{name}`"), matters: false };
        }
    };
    telling.map_or(plain, |text| Event { text, matters: true })
}

fn system(entry: &Entry<'_>, subtype: &str) -> Option<String> {
    let content = || entry.text("content").map(|text| text.trim().to_owned());
    let number = |name: &str| entry.get(name).and_then(Json::integer);
    match subtype {
        "compact_boundary" => Some("the conversation was compacted".to_owned()),
        "microcompact_boundary" => Some("old tool results were cleared".to_owned()),
        "api_error" => {
            let error = entry.get("error").and_then(Json::object);
            let status = error.as_ref().and_then(|error| error.get("status")?.integer());
            let status = status.map(|status| format!(" {status}")).unwrap_or_default();
            let message = error.as_ref().and_then(|error| {
                let cause = || error.get("cause")?.get("code")?.text();
                error.text("formatted").or_else(|| error.text("message")).or_else(cause)
            });
            let message = message.map(|text| format!(": {text}")).unwrap_or_default();
            let attempt = number("retryAttempt").zip(number("maxRetries"));
            let attempt =
                attempt.map(|(at, of)| format!(" (try {at} of {of})")).unwrap_or_default();
            Some(format!("API error{status}{message}{attempt}"))
        }
        "stop_hook_summary" => {
            let errors = entry.get("hookErrors").into_iter().flat_map(Json::elements);
            let errors: Vec<_> = errors.filter_map(Json::text).collect();
            let stopped = entry.flag("preventedContinuation");
            (stopped || !errors.is_empty()).then(|| format!("stop hook: {}", errors.join("; ")))
        }
        "away_summary" => content().map(|text| format!("while you were away: {text}")),
        "informational" | "bridge_status" | "" => content().filter(|text| !text.is_empty()),
        _ => None,
    }
}

fn attachment(object: &Object<'_>, subtype: &str) -> Option<String> {
    let name = || object.text("displayPath").or_else(|| object.text("filename"));
    match subtype {
        "file" | "compact_file_reference" => Some(format!("attached {}", name()?)),
        "edited_text_file" => Some(format!("{} was edited outside Claude Code", name()?)),
        "opened_file_in_ide" => Some(format!("{} is open in the editor", name()?)),
        "selected_lines_in_ide" => Some(format!("lines of {} are selected in the editor", name()?)),
        "nested_memory" => Some(format!("memory {}", object.text("path").or_else(name)?)),
        "plan_mode" => Some("plan mode".to_owned()),
        "plan_mode_exit" => Some("end of plan mode".to_owned()),
        "max_turns_reached" => Some("the turn limit was reached".to_owned()),
        "hook_additional_context" | "hook_system_message" | "hook_blocking_error" => {
            let content = object.get("content")?;
            let texts: Vec<_> = crate::format::content::blocks(content)
                .filter_map(|block| block.text().or_else(|| block.json().text()))
                .collect();
            Some(format!(
                "hook {}: {}",
                object.text("hookName").unwrap_or_default(),
                texts.join(" ")
            ))
        }
        "hook_success" | "async_hook_response" => {
            let failed =
                object.get("exitCode").and_then(Json::integer).is_some_and(|code| code != 0);
            // The client ignores what other hooks print, unless they fail.
            let hook = object.text("hookEvent").unwrap_or_default();
            let heard = failed || matches!(&*hook, "SessionStart" | "UserPromptSubmit");
            let output = object.text("content").filter(|output| heard && !output.is_empty());
            let output = output.or_else(|| object.text("stderr").filter(|_| failed))?;
            Some(format!("hook {}: {}", object.text("hookName").unwrap_or_default(), output.trim()))
        }
        _ => None,
    }
}

#[cfg(test)]
#[path = "event_tests.rs"]
mod tests;
