//! What hooks have said, in the form that events and the model get.
//!
//! Invariant: words of a hook reach the model only as the reminder of that hook.

use serde_json::Value;

use crate::context::tagged;
use crate::event::{AgentId, Event};
use crate::hook::run::Ran;
use crate::hook::{Verdict, cut};
use crate::host::Host;
use crate::tool::{Answer, Content};

/// A hook has ended.
pub(super) fn ended((event, name): (&str, &str), ran: &Ran) -> Event {
    let outcome = match (ran.code, &ran.trouble) {
        (Some(0), None) => "success",
        (None, Some(_)) => "cancelled",
        _ => "error",
    };
    Event::HookEnded {
        id: ran.id.clone(),
        event: event.into(),
        name: name.into(),
        stdout: ran.stdout.clone(),
        stderr: ran.stderr.clone(),
        code: ran.code,
        outcome,
    }
}

/// What hooks have to say to the user.
pub(super) fn tell(agent: &AgentId, name: &str, verdict: &Verdict, host: &mut dyn Host) {
    for text in verdict.failures.iter().chain(&verdict.messages) {
        host.event(agent, &Event::Notice(text.clone()));
    }
    for text in &verdict.messages {
        let event = Event::HookSaid { name: name.to_owned(), text: text.clone() };
        host.event(agent, &event);
    }
}

/// What wakes the model: a hook that nothing waited for has refused.
pub(super) fn woken(name: &str, ran: &Ran) -> String {
    let words = cut(&ran.stderr);
    let words = if words.is_empty() { cut(&ran.stdout) } else { words };
    format!(
        "<task-notification>\n<task-id>{}</task-id>\n<status>failed</status>\n<summary>A {name} hook that ran in the background wants attention</summary>\n<result>{words}</result>\n</task-notification>",
        ran.id
    )
}

/// What hooks that nothing waited for have to say to the model.
pub(super) fn quiet(name: &str, verdict: &Verdict) -> Vec<String> {
    let context = |text: &String| tagged(&format!("{name} hook additional context: {text}"));
    verdict.contexts.iter().map(context).collect()
}

/// What hooks have to say to the model.
pub(super) fn remarks(event: &str, name: &str, verdict: &Verdict) -> Vec<String> {
    let mut texts = quiet(name, verdict);
    if matches!(event, "SessionStart" | "UserPromptSubmit") {
        let printed = |text: &String| tagged(&format!("{name} hook success: {text}"));
        texts.extend(verdict.printed.iter().map(printed));
    }
    if matches!(event, "PostToolUse" | "PostToolUseFailure") {
        let blocked = |(command, why): &(Option<String>, String)| {
            let by =
                command.as_ref().map_or(String::new(), |by| format!(" from command: \"{by}\""));
            tagged(&format!("{name} hook blocking error{by}: {why}"))
        };
        texts.extend(verdict.blocks.iter().map(blocked));
    }
    texts
}

/// The result of a call, as a hook has changed it: if it has the form of what the tool returns.
pub(super) fn replaced(answer: Answer, output: Option<&Value>) -> Answer {
    let Some(output) = output else { return answer };
    let detail: Value = serde_json::from_str(answer.detail.get()).unwrap_or_default();
    let text = match (output, &detail) {
        (Value::String(text), _) => Some(text.clone()),
        (Value::Object(new), Value::Object(old)) if new.keys().all(|key| old.contains_key(key)) => {
            new.get("stdout").and_then(Value::as_str).map(|stdout| {
                let stderr = new.get("stderr").and_then(Value::as_str).unwrap_or_default();
                format!("{stdout}{stderr}")
            })
        }
        _ => None,
    };
    let Some(text) = text else { return answer };
    let detail = if output.is_object() {
        let mut whole = detail;
        if let (Value::Object(whole), Value::Object(new)) = (&mut whole, output) {
            whole.extend(new.clone());
        }
        crate::tool::raw(&whole)
    } else {
        answer.detail
    };
    Answer { content: Content::Text(text), detail, ..answer }
}
