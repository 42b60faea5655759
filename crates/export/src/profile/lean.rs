//! One set of attributes that all receivers understand.
//!
//! Langfuse stores attributes that it does not know a second time, as metadata. So there are few,
//! and some receiver reads each of them.

use serde_json::json;

use super::{Attributes, Content, Telling, Told, error, kind};
use crate::content::Text;
use crate::span::{Generation, Level, Span, What};

pub(super) fn tell(telling: &Telling, span: &Span) -> Told {
    let mut attributes = Attributes::new(telling);
    setting(&mut attributes, span);
    attributes.put("langfuse.observation.type", kind(&span.what));
    let (kind, operation) = match &span.what {
        What::Turn { .. } | What::Agent { .. } => ("AGENT", Some("invoke_agent")),
        What::Generation(_) => ("LLM", Some("chat")),
        What::Tool { .. } => ("TOOL", Some("execute_tool")),
        What::Compaction { .. } => ("CHAIN", None),
    };
    attributes.put("openinference.span.kind", kind);
    if let Some(operation) = operation {
        attributes.put("gen_ai.operation.name", operation);
    }
    identity(&mut attributes, span);
    content(
        &mut attributes,
        ["input.value", "input.mime_type", "input_bytes"],
        span.input.as_ref(),
    );
    content(
        &mut attributes,
        ["output.value", "output.mime_type", "output_bytes"],
        span.output.as_ref(),
    );
    if let Level::Error(kind, _) = &span.level {
        attributes.text("error.type", kind);
    }
    attributes.level(&span.level);
    let events = if telling.has_texts() { span.events.as_slice() } else { &[] };
    Told {
        name: telling.name(span),
        times: [span.start, span.end],
        is_client: matches!(span.what, What::Generation(_)),
        error: error(telling, span),
        attributes: attributes.list,
        events: events.iter().map(|(time, text)| (*time, telling.text(text))).collect(),
    }
}

/// Adds what is the same for all spans of a turn. Langfuse stores spans but no traces, so each span
/// has to contain it.
fn setting(attributes: &mut Attributes<'_>, span: &Span) {
    let (telling, turn) = (attributes.telling, &span.turn);
    attributes.put("session.id", &turn.session);
    attributes.put("gen_ai.conversation.id", &turn.session);
    if let Some(user) = &telling.user {
        attributes.put("user.id", user);
    }
    attributes.put("gen_ai.provider.name", "anthropic");
    attributes.put("langfuse.trace.name", format!("Turn {}", turn.number));
    attributes.texts("langfuse.trace.tags", &telling.tags);
    if let Some(environment) = &telling.environment {
        attributes.put("langfuse.environment", environment);
    }
    attributes.put("langfuse.trace.metadata.source", "claude-code");
    attributes.put("langfuse.trace.metadata.turn_number", turn.number.to_string());
    attributes.known([("langfuse.trace.metadata.version", &turn.version)]);
    // Some dialects have no times; the times of the span are meaningless then.
    if span.end.0 <= 0 {
        attributes.put("langfuse.trace.metadata.time", "unknown");
    }
    if telling.has_names() {
        attributes.known([
            ("langfuse.trace.metadata.cwd", &turn.cwd),
            ("langfuse.trace.metadata.git_branch", &turn.branch),
            ("langfuse.trace.metadata.slug", &turn.slug),
        ]);
    }
}

fn identity(attributes: &mut Attributes<'_>, span: &Span) {
    match &span.what {
        What::Turn { outcome, opened } => {
            attributes.put("gen_ai.agent.name", "claude-code");
            attributes.put("langfuse.observation.metadata.outcome", *outcome);
            if let Some(opened) = opened {
                attributes.put("langfuse.observation.metadata.opened_by", *opened);
            }
        }
        What::Generation(generation) => generated(attributes, generation),
        What::Tool { call, .. } => {
            let name = attributes.telling.name(span);
            attributes.put("gen_ai.tool.name", name);
            attributes.put("gen_ai.tool.type", "function");
            attributes.known([("gen_ai.tool.call.id", call)]);
        }
        What::Agent { agent, purpose, description, is_background, is_guess } => {
            let name = attributes.telling.name(span);
            attributes.put("gen_ai.agent.name", name);
            attributes.text("gen_ai.agent.id", agent);
            attributes.put("langfuse.observation.metadata.purpose", *purpose);
            if *is_background {
                attributes.put("langfuse.observation.metadata.background", "true");
            }
            if *is_guess {
                attributes.put("langfuse.observation.metadata.parent", "guessed");
            }
            if attributes.telling.has_names() {
                attributes.known([("langfuse.observation.metadata.description", description)]);
            }
        }
        What::Compaction { is_auto, tokens } => {
            let trigger = if *is_auto { "auto" } else { "manual" };
            attributes.put("langfuse.observation.metadata.trigger", trigger);
            let names = ["tokens_before", "tokens_after"];
            for (name, count) in names.iter().zip(tokens) {
                if let Some(count) = count {
                    attributes
                        .text(format!("langfuse.observation.metadata.{name}"), &count.to_string());
                }
            }
        }
    }
}

fn generated(attributes: &mut Attributes<'_>, made: &Generation) {
    attributes.known([
        ("gen_ai.request.model", &made.model),
        ("gen_ai.response.model", &made.model),
        ("langfuse.observation.model.name", &made.model),
        ("gen_ai.response.id", &made.message),
        ("request_id", &made.request),
        ("message.uuid", &made.uuid),
    ]);
    if let Some(stop) = &made.stop {
        attributes.texts("gen_ai.response.finish_reasons", std::slice::from_ref(stop));
    }
    if let Some(first) = made.first {
        attributes.put("langfuse.observation.completion_start_time", format!("\"{first}\""));
    }
    attributes.put("langfuse.observation.metadata.tool_count", made.calls.to_string());
    let mut parameters = serde_json::Map::new();
    for (name, value) in [("speed", &made.speed), ("service_tier", &made.tier)] {
        parameters.extend(value.as_ref().map(|value| (name.to_owned(), json!(value))));
    }
    if !parameters.is_empty() {
        let parameters = serde_json::Value::Object(parameters).to_string();
        attributes.text("langfuse.observation.model.parameters", &parameters);
    }
    spent(attributes, made);
}

fn spent(attributes: &mut Attributes<'_>, made: &Generation) {
    let Some(spent) = made.spent else { return };
    let written = spent.cache_write();
    attributes.number("gen_ai.usage.input_tokens", spent.read());
    attributes.number("gen_ai.usage.output_tokens", spent.output);
    attributes.number("gen_ai.usage.cache_read.input_tokens", spent.cache_read);
    attributes.number("gen_ai.usage.cache_creation.input_tokens", written);
    if let Some(thinking) = made.thinking {
        attributes.number("gen_ai.usage.reasoning.output_tokens", thinking);
    }
    let mut details = json!({"input": spent.input, "output": spent.output});
    let cached = [
        ("cache_read_input_tokens", spent.cache_read),
        ("input_cache_creation_5m", spent.cache_5m),
        ("input_cache_creation_1h", spent.cache_1h),
    ];
    for (name, count) in cached.iter().filter(|(_, count)| *count > 0) {
        details[*name] = json!(count);
    }
    attributes.put("langfuse.observation.usage_details", details.to_string());
    if !made.is_final {
        attributes.put("langfuse.observation.metadata.usage", "lower bound");
    }
    let Some(cost) = made.cost() else { return };
    let mut details = json!({"input": cost.input, "output": cost.output});
    let cached = [
        ("cache_read_input_tokens", cost.cache_read),
        ("input_cache_creation_5m", cost.cache_5m),
        ("input_cache_creation_1h", cost.cache_1h),
        ("web_search_requests", cost.searches),
    ];
    for (name, dollars) in cached.iter().filter(|(_, dollars)| *dollars > 0.0) {
        details[*name] = json!(dollars);
    }
    details["total"] = json!(cost.total());
    attributes.put("langfuse.observation.cost_details", details.to_string());
    attributes.float("llm.cost.total", cost.total());
    attributes.float("gen_ai.usage.cost", cost.total());
    // MLflow has its own form for costs, and without it prices the cache wrongly.
    let total = cost.total();
    let parts =
        json!({"input_cost": total - cost.output, "output_cost": cost.output, "total_cost": total});
    attributes.put("mlflow.llm.cost", parts.to_string());
}

fn content(attributes: &mut Attributes<'_>, names: [&'static str; 3], text: Option<&Text>) {
    let Some(text) = text else { return };
    match attributes.telling.content {
        Content::Full => {
            let text = attributes.telling.content(text);
            attributes.put(names[1], text.mime());
            attributes.put(names[0], text.text);
        }
        Content::Meta => {
            let name = format!("langfuse.observation.metadata.{}", names[2]);
            attributes.text(name, &text.text.len().to_string());
        }
        Content::None => {}
    }
}
