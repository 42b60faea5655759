//! `WebSearch`: the API's own search, in a separate request.
//!
//! Invariants: an incomplete answer counts as none; tokens are counted, even those of an answer
//! that failed.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::time::Instant;

use serde::Serialize;
use serde_json::{Value, json};

use super::{Answer, Call, Site, Trouble, text};
use crate::api::Heard;
use crate::api::stream::{Limits, Step, Stream};
use crate::model;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WebSearchDetail<'a> {
    query: &'a str,
    results: Vec<Value>,
    duration_seconds: f64,
}

pub(super) fn run(call: &Call, site: &Site) -> Result<Answer, Trouble> {
    if site.is_offline {
        return Err(super::offline());
    }
    let start = Instant::now();
    let query = text(call, "query");
    let blocks = ask(call, site, query)?;
    let mut output = format!("Web search results for query: \"{query}\"\n");
    let mut results = Vec::new();
    for block in blocks.iter().filter_map(|block| serde_json::from_str::<Value>(block).ok()) {
        match block["type"].as_str() {
            Some("text") => {
                let words = block["text"].as_str().unwrap_or_default();
                let _ = write!(output, "\n{words}");
                results.push(json!(words));
            }
            Some("web_search_tool_result") => {
                if let Some(code) = block["content"]["error_code"].as_str() {
                    let words = format!("Web search error: {code}");
                    let _ = write!(output, "\n{words}\n");
                    results.push(json!(words));
                    continue;
                }
                let found = block["content"].as_array().map(Vec::as_slice).unwrap_or_default();
                let pages: Vec<Value> = found
                    .iter()
                    .map(|page| json!({"title": page["title"], "url": page["url"]}))
                    .collect();
                let _ = write!(output, "\nLinks: {}\n", Value::from(pages.clone()));
                results.push(json!({"tool_use_id": block["tool_use_id"], "content": pages}));
            }
            _ => {}
        }
    }
    let detail =
        WebSearchDetail { query, results, duration_seconds: start.elapsed().as_secs_f64() };
    Ok(Answer::text(output, &detail))
}

/// Asks the model to search. Returns the blocks of its answer.
fn ask(call: &Call, site: &Site, query: &str) -> Result<Vec<String>, Trouble> {
    let mut tool = json!({"type": "web_search_20250305", "name": "web_search", "max_uses": 8});
    for name in ["allowed_domains", "blocked_domains"] {
        if let Some(domains) = call.input.get(name) {
            tool[name] = domains.clone();
        }
    }
    let (model, name) = &site.model;
    let body = json!({
        "model": name, "max_tokens": 8_000, "stream": true, "tools": [tool],
        "messages": [{"role": "user", "content": format!("Search the web for: {query}")}],
    });
    let mut stream = Stream::new(Limits::of(8_000));
    let (mut blocks, mut failure) = (Vec::new(), None);
    let (mut speaker, mut usage) = (name.clone(), Value::Null);
    let asked = model.ask(body.to_string(), &mut |heard| {
        if let Heard::Event(event) = heard {
            match stream.event(event) {
                Some(Step::Started(message)) => {
                    let mut message: Value = serde_json::from_str(&message).unwrap_or_default();
                    message["model"].as_str().unwrap_or(name).clone_into(&mut speaker);
                    usage = message["usage"].take();
                }
                Some(Step::Block(block)) => blocks.push(block),
                Some(Step::Ended(ending)) => {
                    let more = ending.usage.and_then(|more| serde_json::from_str(&more).ok());
                    if let (Value::Object(usage), Some(Value::Object(more))) = (&mut usage, more) {
                        usage.extend(more);
                    }
                }
                Some(Step::Failed(error)) => {
                    failure = Some(error);
                    return ControlFlow::Break(());
                }
                None => {}
            }
        }
        if call.cancel.is_set() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    if !usage.is_null() {
        site.spend(&speaker, model::usage(&usage));
    }
    if call.cancel.is_set() {
        return Err(super::glob::cancelled());
    }
    match asked.err().or(failure).or_else(|| stream.end()) {
        Some(error) => Err(Trouble::failed(error.to_string())),
        None => Ok(blocks),
    }
}

#[cfg(test)]
#[path = "web_search_tests.rs"]
mod tests;
