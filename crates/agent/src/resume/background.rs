//! What ran in the background when a session was left. Nothing of it is started again.
//!
//! Works on what is sent, so that it costs nothing to read: the results of calls say what was
//! started, and notifications say what has ended. Invariant: what a notification was sent for is
//! not listed again.

use transcript::client::history::{Message, Role};
use transcript::format::content::BlockKind;
use transcript::format::json::Json;

/// How the result of a command in the background begins, in all versions.
const COMMAND: &str = "Command running in background with ID: ";
/// The same for a sub-agent.
const AGENT: &str = "Async agent launched successfully.";
/// The tools that stop it, in all versions.
const STOPS: [&str; 3] = ["TaskStop", "KillShell", "KillBash"];
/// Where its id is.
const AGENT_ID: &str = "agentId: ";

/// The ids and names of what was started in the background, and whose end was not reported.
pub(super) fn left_open(messages: &[Message]) -> Vec<(String, String)> {
    let mut names: Vec<(String, String)> = Vec::new();
    let mut open: Vec<(String, String)> = Vec::new();
    for message in messages {
        for block in &message.blocks {
            let text = String::from_utf8_lossy(block.raw());
            match block.kind() {
                BlockKind::ToolUse => names.extend(named(&text)),
                BlockKind::ToolResult if message.role == Role::User => {
                    if let Some((call, id)) = started(&text) {
                        let name = names.iter().rev().find(|(known, _)| *known == call);
                        let name = name.map_or_else(String::new, |(_, name)| name.clone());
                        open.push((id, name));
                    }
                }
                _ => {}
            }
            if text.contains("<task-id>") {
                open.retain(|(id, _)| !text.contains(&format!("<task-id>{id}</task-id>")));
            }
            let is_stop = || STOPS.iter().any(|name| text.contains(&format!(r#""name":"{name}""#)));
            if block.kind() == BlockKind::ToolUse && is_stop() {
                open.retain(|(id, _)| !text.contains(&format!(r#""{id}""#)));
            }
            // Somebody waited for its end.
            if text.contains("<task_id>") && !text.contains("<status>running</status>") {
                open.retain(|(id, _)| !text.contains(&format!("<task_id>{id}</task_id>")));
            }
        }
    }
    open
}

/// The id of a call, and what it does in a few words.
fn named(block: &str) -> Option<(String, String)> {
    let call = Json::parse(block.as_bytes())?.object()?;
    let input = call.get("input")?.object()?;
    let name = input.text("description").or_else(|| input.text("command"))?;
    Some((call.text("id")?.into(), name.into()))
}

/// The id of the call that started something, and the id of what it started.
fn started(block: &str) -> Option<(String, String)> {
    let after = block.split_once(COMMAND).map(|(_, rest)| rest).or_else(|| {
        let (_, rest) = block.split_once(AGENT)?;
        rest.split_once(AGENT_ID).map(|(_, rest)| rest)
    })?;
    let id: String = after.chars().take_while(char::is_ascii_alphanumeric).collect();
    let call = Json::parse(block.as_bytes())?.object()?.text("tool_use_id")?.into();
    (!id.is_empty()).then_some((call, id))
}

/// What the model is told about it.
pub(crate) fn notification(ended: &[(String, String)]) -> Option<String> {
    let notes: Vec<String> = ended
        .iter()
        .map(|(id, name)| {
            format!(
                "<task-notification>\n<task-id>{id}</task-id>\n<status>stopped</status>\n<summary>\"{name}\" ended with the session that started it, and was not started again.</summary>\n</task-notification>"
            )
        })
        .collect();
    (!notes.is_empty()).then(|| notes.join("\n"))
}
