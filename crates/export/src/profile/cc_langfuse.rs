//! The attributes and times of the cc-langfuse hook.
//!
//! It has turns, answers and calls, and nothing else. One deliberate difference: the last answer of
//! a turn ends with the turn, not when it is sent.

use serde_json::{Value as Data, json};

use super::{Attributes, Telling, Told, error, kind};
use crate::content::Text;
use crate::span::{Span, What};

pub(super) fn tell(telling: &Telling, span: &Span) -> Option<Told> {
    let mut attributes = Attributes::new(telling);
    attributes.put("session.id", &span.turn.session);
    attributes.put("langfuse.observation.type", kind(&span.what));
    let mut times = [span.start, span.end];
    match &span.what {
        What::Turn { .. } => {
            attributes.put("langfuse.trace.name", &span.name);
            attributes.put("langfuse.trace.metadata.source", "claude-code");
            attributes.put("langfuse.trace.metadata.turn_number", span.turn.number.to_string());
            attributes.put("langfuse.trace.metadata.session_id", &span.turn.session);
            let (asked, answered) = (words(span.input.as_ref()), words(span.output.as_ref()));
            for name in ["langfuse.trace.input", "langfuse.observation.input"] {
                put_message(&mut attributes, name, "user", asked);
            }
            for name in ["langfuse.trace.output", "langfuse.observation.output"] {
                put_message(&mut attributes, name, "assistant", answered);
            }
        }
        What::Generation(made) => {
            times = [made.first.unwrap_or(span.start), made.next];
            attributes.known([("langfuse.observation.model.name", &made.model)]);
            if let Some(input) = span.input.as_ref().filter(|_| made.is_first) {
                put_message(&mut attributes, "langfuse.observation.input", "user", &input.text);
            }
            put_message(&mut attributes, "langfuse.observation.output", "assistant", &made.text);
            attributes.put("langfuse.observation.metadata.tool_count", made.calls.to_string());
            if let Some(spent) = made.spent {
                let (input, output) = (spent.input, spent.output);
                let details = json!({
                    "input": input, "output": output, "total": input + output,
                    "cache_read_input_tokens": spent.cache_read,
                });
                attributes.put("langfuse.observation.usage_details", details.to_string());
            }
        }
        What::Tool { call, answer } => {
            times[0] = *answer;
            let name = telling.name(span);
            attributes.put("langfuse.observation.metadata.tool_name", name);
            attributes.known([("langfuse.observation.metadata.tool_id", call)]);
            if telling.has_texts() {
                let none = || Text::json("null");
                let input = span.input.clone().unwrap_or_else(none);
                let output = span.output.clone().unwrap_or_else(none);
                attributes.put("langfuse.observation.input", telling.content(&input).text);
                attributes.put("langfuse.observation.output", telling.content(&output).text);
            }
        }
        What::Agent { .. } | What::Compaction { .. } => return None,
    }
    attributes.level(&span.level);
    let attributes = attributes.list;
    let error = error(telling, span);
    let name = telling.name(span);
    Some(Told { name, times, is_client: false, error, attributes, events: Vec::new() })
}

fn words(text: Option<&Text>) -> &str {
    text.map_or("", |text| &text.text)
}

fn put_message(attributes: &mut Attributes<'_>, name: &'static str, role: &str, content: &str) {
    if attributes.telling.has_texts() {
        let content: Data = attributes.telling.text(content).into();
        attributes.put(name, json!({"role": role, "content": content}).to_string());
    }
}
