//! Reads and changes blocks of messages, which are already JSON.

use transcript::format::json::{Json, Object, quote};

use crate::api::stream::with;
use crate::tool::{Answer, Content};

/// The blocks of an answer that the API accepts. It refuses blank texts, and answers that consist
/// only of thinking. All clients leave these out when they continue a session.
pub(crate) fn sent(blocks: Vec<String>) -> Vec<String> {
    let is_blank = |block: &String| text_of(block).is_some_and(|text| text.trim().is_empty());
    let kept: Vec<String> = blocks.into_iter().filter(|block| !is_blank(block)).collect();
    if kept.iter().all(|block| is_thinking(block)) { Vec::new() } else { kept }
}

/// Whether the block is thinking, including redacted thinking.
pub(crate) fn is_thinking(block: &str) -> bool {
    let kind = Json::parse(block.as_bytes()).and_then(|block| block.get("type"));
    kind.is_some_and(|kind| kind.is("thinking") || kind.is("redacted_thinking"))
}

/// Whether a thinking block has no signature. The API refuses such blocks.
pub(crate) fn is_unsigned(thinking: &str) -> bool {
    let block = Json::parse(thinking.as_bytes()).and_then(Json::object);
    block.is_some_and(|block| block.text("signature").is_none_or(|text| text.is_empty()))
}

/// Whether the block is the result of a call.
pub(crate) fn is_result(block: &str) -> bool {
    let kind = Json::parse(block.as_bytes()).and_then(|block| block.get("type"));
    kind.is_some_and(|kind| kind.is("tool_result"))
}

/// The text of a text block.
pub(crate) fn text_of(block: &str) -> Option<String> {
    let block = Json::parse(block.as_bytes())?.object()?;
    let is_text = block.get("type").is_some_and(|kind| kind.is("text"));
    block.text("text").filter(|_| is_text).map(String::from)
}

/// The input of a tool call, as JSON.
pub(crate) fn input_of(block: &str) -> Option<String> {
    let block = Json::parse(block.as_bytes())?.object()?;
    let is_call = block.get("type").is_some_and(|kind| kind.is("tool_use"));
    let input = block.get("input").filter(|_| is_call)?;
    Some(String::from_utf8_lossy(input.raw()).into_owned())
}

pub(crate) fn is_text(block: Option<&String>) -> bool {
    block.is_some_and(|block| text_of(block).is_some())
}

/// The message with its usage updated: members that occur again are replaced.
pub(crate) fn with_usage(message: &str, usage: &str) -> String {
    let json = Json::parse(message.as_bytes()).and_then(Json::object);
    let before = json.as_ref().and_then(|json| json.get("usage"));
    let mut whole =
        before.map_or("{}".into(), |before| String::from_utf8_lossy(before.raw())).into_owned();
    let more = Json::parse(usage.as_bytes()).and_then(Json::object);
    for (name, value) in more.iter().flat_map(Object::members) {
        let value = String::from_utf8_lossy(value.raw());
        whole = with(&whole, &name, &value).unwrap_or(whole);
    }
    with(message, "usage", &whole).unwrap_or_else(|| message.to_owned())
}

/// The result of a call as the API wants it. If it is an error, clients write the members in
/// another order.
pub(crate) fn result_block(call: &str, answer: &Answer) -> String {
    let content = match &answer.content {
        Content::Text(text) => quote(text),
        Content::Blocks(blocks) => {
            let blocks: Vec<&str> = blocks.iter().map(|block| block.get()).collect();
            format!("[{}]", blocks.join(","))
        }
    };
    let id = quote(call);
    match answer.is_error {
        Some(true) => {
            format!(
                r#"{{"type":"tool_result","content":{content},"is_error":true,"tool_use_id":{id}}}"#
            )
        }
        flag => {
            let error = flag.map_or(String::new(), |flag| format!(r#","is_error":{flag}"#));
            format!(r#"{{"tool_use_id":{id},"type":"tool_result","content":{content}{error}}}"#)
        }
    }
}
