//! The attributes and times of seed 002, section 7.
//!
//! It knows turns, answers and calls, and nothing else. One thing is not done its way: an answer that is the last of its turn ends with the turn, not when it is sent.

use serde_json::{Value as Data, json};

use super::{Attributes, Telling, Told, error, kind};
use crate::content::Text;
use crate::span::{Span, What};

pub(super) fn tell(telling: &Telling, span: &Span) -> Option<Told> {
    let mut own = Attributes::new(telling);
    own.put("session.id", &span.turn.session);
    own.put("langfuse.observation.type", kind(&span.what));
    let mut times = [span.start, span.end];
    match &span.what {
        What::Turn { .. } => {
            own.put("langfuse.trace.name", &span.name);
            own.put("langfuse.trace.metadata.source", "claude-code");
            own.put("langfuse.trace.metadata.turn_number", span.turn.number.to_string());
            own.put("langfuse.trace.metadata.session_id", &span.turn.session);
            let (asked, answered) = (words(span.input.as_ref()), words(span.output.as_ref()));
            for name in ["langfuse.trace.input", "langfuse.observation.input"] {
                said(&mut own, name, "user", asked);
            }
            for name in ["langfuse.trace.output", "langfuse.observation.output"] {
                said(&mut own, name, "assistant", answered);
            }
        }
        What::Generation(made) => {
            times = [made.first.unwrap_or(span.start), made.next];
            if let Some(model) = &made.model {
                own.text("langfuse.observation.model.name", model);
            }
            if let Some(input) = span.input.as_ref().filter(|_| made.is_first) {
                said(&mut own, "langfuse.observation.input", "user", &input.text);
            }
            said(&mut own, "langfuse.observation.output", "assistant", &made.text);
            own.put("langfuse.observation.metadata.tool_count", made.calls.to_string());
            if let Some(spent) = made.spent {
                let (input, output) = (spent.input, spent.output);
                let details = json!({
                    "input": input, "output": output, "total": input + output,
                    "cache_read_input_tokens": spent.cache_read,
                });
                own.put("langfuse.observation.usage_details", details.to_string());
            }
        }
        What::Tool { call, answer } => {
            times[0] = *answer;
            let name = telling.name(span);
            own.put("langfuse.observation.metadata.tool_name", name);
            if let Some(call) = call {
                own.text("langfuse.observation.metadata.tool_id", call);
            }
            if telling.has_texts() {
                let none = || Text::json("null");
                let input = span.input.clone().unwrap_or_else(none);
                let output = span.output.clone().unwrap_or_else(none);
                own.put("langfuse.observation.input", telling.content(&input).text);
                own.put("langfuse.observation.output", telling.content(&output).text);
            }
        }
        What::Agent { .. } | What::Compaction { .. } => return None,
    }
    own.level(&span.level);
    let attributes = own.list;
    let error = error(telling, span);
    let name = telling.name(span);
    Some(Told { name, times, is_client: false, error, attributes, events: Vec::new() })
}

fn words(text: Option<&Text>) -> &str {
    text.map_or("", |text| &text.text)
}

fn said(own: &mut Attributes<'_>, name: &'static str, role: &str, content: &str) {
    if own.telling.has_texts() {
        let content: Data = own.telling.text(content).into();
        own.put(name, json!({"role": role, "content": content}).to_string());
    }
}
