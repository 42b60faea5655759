use super::*;

fn of(json: &str) -> (String, bool) {
    let event = event(&Entry::parse(json.as_bytes()).unwrap());
    (event.text, event.matters)
}

#[test]
fn what_a_reader_wants_to_know_is_told_from_the_rest() {
    let shown = |json: &str, text: &str| assert_eq!(of(json), (text.to_owned(), true));
    shown(
        r#"{"type":"system","subtype":"api_error","error":{"status":529,"message":"Overloaded"},"retryAttempt":2,"maxRetries":10}"#,
        "API error 529: Overloaded (try 2 of 10)",
    );
    shown(r#"{"type":"system","subtype":"informational","content":" hi "}"#, "hi");
    shown(r#"{"type":"system","content":"hook says"}"#, "hook says");
    shown(
        r#"{"type":"system","subtype":"stop_hook_summary","hookErrors":["bad"]}"#,
        "stop hook: bad",
    );
    shown(
        r#"{"type":"attachment","attachment":{"type":"file","filename":"/w/a","displayPath":"a"}}"#,
        "attached a",
    );
    shown(
        r#"{"type":"attachment","attachment":{"type":"hook_additional_context","hookName":"Stop","content":["one","two"]}}"#,
        "hook Stop: one two",
    );
    shown(
        r#"{"type":"attachment","attachment":{"type":"hook_success","hookName":"X","exitCode":2,"content":"","stderr":"no "}}"#,
        "hook X: no",
    );
    let hidden = |json: &str, text: &str| assert_eq!(of(json), (text.to_owned(), false));
    hidden(
        r#"{"type":"system","subtype":"stop_hook_summary","hookErrors":[]}"#,
        "stop hook summary",
    );
    hidden(r#"{"type":"attachment","attachment":{"type":"skill_listing"}}"#, "skill listing");
    hidden(
        r#"{"type":"attachment","attachment":{"type":"hook_success","exitCode":0,"content":""}}"#,
        "hook success",
    );
    hidden(
        r#"{"type":"attachment","attachment":{"type":"hook_success","hookEvent":"Stop","exitCode":0,"content":"logged"}}"#,
        "hook success",
    );
    hidden(r#"{"type":"mystery","uuid":"x"}"#, "a record of type `mystery`");
}
