use std::sync::{Arc, Mutex};

use serde_json::json;

use super::super::write::test_site::TestSite;
use super::*;
use crate::api::{ApiError, Model, Why};
use crate::model::Usage;

/// A model that sends these events, whatever the request is.
struct Fixed {
    events: Vec<Value>,
    failure: Option<ApiError>,
    asked: Mutex<Vec<Value>>,
}

impl Model for Fixed {
    fn ask(
        &self,
        body: String,
        hear: &mut dyn FnMut(Heard<'_>) -> ControlFlow<()>,
    ) -> Result<(), ApiError> {
        self.asked.lock().unwrap().push(serde_json::from_str(&body).unwrap());
        let mut events = self.events.iter();
        let stopped = events.any(|event| hear(Heard::Event(&event.to_string())).is_break());
        self.failure.clone().filter(|_| !stopped).map_or(Ok(()), Err)
    }
}

fn bench(events: Vec<Value>, failure: Option<ApiError>) -> (TestSite, Arc<Fixed>) {
    let model = Arc::new(Fixed { events, failure, asked: Mutex::default() });
    let mut bench = TestSite::new();
    bench.site.model = (model.clone(), "claude-x".to_owned());
    (bench, model)
}

/// An answer that contains a search.
fn events() -> Vec<Value> {
    let usage = json!({"input_tokens": 10, "output_tokens": 1});
    let found = json!([
        {"type": "web_search_result", "title": "Rust", "url": "https://rust-lang.org", "encrypted_content": "x"},
    ]);
    let block = |block: Value| {
        [
            json!({"type": "content_block_start", "index": 0, "content_block": block}),
            json!({"type": "content_block_stop", "index": 0}),
        ]
    };
    let mut events =
        vec![json!({"type": "message_start", "message": {"model": "claude-y", "usage": usage}})];
    events.extend(block(
        json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}),
    ));
    events.extend(block(
        json!({"type": "web_search_tool_result", "tool_use_id": "s1", "content": found}),
    ));
    events.extend(block(json!({"type": "text", "text": "It is a language."})));
    let usage = json!({"output_tokens": 30, "server_tool_use": {"web_search_requests": 1}});
    events.push(
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}),
    );
    events.push(json!({"type": "message_stop"}));
    events
}

fn spent(bench: &TestSite) -> Vec<(String, Usage)> {
    std::mem::take(&mut *bench.site.spent.lock().unwrap()).into_iter().collect()
}

#[test]
fn what_was_found_and_what_it_took() {
    let (bench, model) = bench(events(), None);
    let (output, detail) = bench.run(run, &json!({"query": "rust", "allowed_domains": ["a.org"]}));
    assert_eq!(
        output,
        "Web search results for query: \"rust\"\n\nLinks: [{\"title\":\"Rust\",\"url\":\"https://rust-lang.org\"}]\n\nIt is a language."
    );
    let start = r#"{"query":"rust","results":[{"tool_use_id":"s1","content":[{"title":"Rust","url":"https://rust-lang.org"}]},"It is a language."],"durationSeconds":"#;
    assert!(detail.starts_with(start), "{detail}");
    let usage = Usage { input: 10, output: 30, searches: 1, ..Usage::default() };
    assert_eq!(spent(&bench), [("claude-y".to_owned(), usage)]);
    bench.run(run, &json!({"query": "rust", "blocked_domains": ["b.org"]}));
    bench.run(run, &json!({"query": "rust"}));
    let mut twice = usage;
    twice += usage;
    assert_eq!(spent(&bench), [("claude-y".to_owned(), twice)]);
    let asked = model.asked.lock().unwrap();
    assert_eq!(asked[0]["model"], "claude-x");
    assert_eq!(asked[0]["messages"][0]["content"], "Search the web for: rust");
    let tool = json!({"type": "web_search_20250305", "name": "web_search", "max_uses": 8});
    let with = |name: &str, domain: &str| {
        let mut tool = tool.clone();
        tool[name] = json!([domain]);
        json!([tool])
    };
    assert_eq!(asked[0]["tools"], with("allowed_domains", "a.org"));
    assert_eq!(asked[1]["tools"], with("blocked_domains", "b.org"));
    assert_eq!(asked[2]["tools"], json!([tool]));
}

#[test]
fn half_an_answer_is_none_but_counts() {
    let mut cut = events();
    cut.truncate(cut.len() - 2);
    let (bench, _) = self::bench(cut, None);
    assert_eq!(
        bench.refusal(run, &json!({"query": "rust"})),
        (false, "API Error: the answer was cut off (its end is missing).".to_owned())
    );
    let usage = Usage { input: 10, output: 1, ..Usage::default() };
    assert_eq!(spent(&bench), [("claude-y".to_owned(), usage)]);
    let (bench, _) = self::bench(Vec::new(), None);
    let (_, message) = bench.refusal(run, &json!({"query": "rust"}));
    assert_eq!(message, "API Error: the answer was cut off (no answer came).");
    assert_eq!(spent(&bench), []);
}

#[test]
fn errors_are_told() {
    let mut failing = events();
    failing.insert(
        3,
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}),
    );
    let (bench, _) = self::bench(failing, None);
    let expected = "API Error: Busy. Try again in a while.".to_owned();
    assert_eq!(bench.refusal(run, &json!({"query": "rust"})), (false, expected));
    let (bench, _) = self::bench(Vec::new(), Some(ApiError::new(Why::Status(529), "Busy")));
    let expected = "API Error: 529 Busy. Try again in a while.".to_owned();
    assert_eq!(bench.refusal(run, &json!({"query": "rust"})), (false, expected));
    let mut none = events();
    none[3]["content_block"]["content"] =
        json!({"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"});
    let (bench, _) = self::bench(none, None);
    let (output, _) = bench.run(run, &json!({"query": "rust"}));
    assert!(output.contains("\nWeb search error: max_uses_exceeded\n"), "{output}");
}

#[test]
fn nobody_is_asked_who_is_not_wanted() {
    let (mut bench, model) = bench(events(), None);
    assert_eq!(bench.cancelled(run, &json!({"query": "rust"})), "The search was cancelled.");
    model.asked.lock().unwrap().clear();
    bench.site.is_offline = true;
    let (_, message) = bench.refusal(run, &json!({"query": "rust"}));
    assert_eq!(message, "This session is offline: nothing comes from the web.");
    assert!(model.asked.lock().unwrap().is_empty());
}
