use serde_json::{Value, json};

use super::{Applied, SessionTexts, comparable, whole_characters};

fn session() -> SessionTexts {
    let lines = [
        json!({"type": "user", "message": {"role": "user", "content": "hello"}}),
        json!({"type": "attachment", "attachment": {"type": "edited_text_file", "snippet": "1\tone two"}}),
        json!({"type": "attachment", "attachment": {"type": "skill_listing", "content": "- dance: a skill"}}),
        json!({"type": "attachment", "attachment": {"type": "date_change", "newDate": "2026-07-15"}}),
    ];
    SessionTexts::read(lines.map(|line| line.to_string()).join("\n").as_bytes())
}

fn form(messages: &Value) -> (Vec<Value>, Vec<(&'static str, usize)>) {
    let mut applied = Applied::default();
    let found = comparable(messages.as_array().unwrap(), &session(), &mut applied);
    (found, applied.counts().collect())
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[test]
fn lists_of_the_start_are_left_out_at_both_ends_only() {
    let list =
        text("<system-reminder>\nThe following skills are available:\n- x\n</system-reminder>");
    let messages = json!([
        {"role": "user", "content": [list, text("hello")]},
        {"role": "assistant", "content": "hi"},
        {"role": "user", "content": [list]},
        {"role": "assistant", "content": "hi"},
        {"role": "user", "content": "again"},
        {"role": "system", "content": [text("# Environment\nhere")]},
    ]);
    let (found, applied) = form(&messages);
    let expected = json!([
        {"role": "user", "content": [text("hello")]},
        {"role": "assistant", "content": [text("hi")]},
        {"role": "user", "content": [{"type": "reminder", "place": "block", "lists": "skills"}]},
        {"role": "assistant", "content": [text("hi")]},
        {"role": "user", "content": [text("again")]},
    ]);
    assert_eq!(Value::from(found), expected);
    assert_eq!(applied, [("environment", 1), ("skills", 1)]);
}

/// What a session carries is content, wherever it stands and whatever stands around it.
#[test]
fn content_of_the_session_is_never_left_out() {
    let carrying = "<system-reminder>\nToday's date is here: 1\tone  two\n</system-reminder>";
    let messages = json!([
        {"role": "user", "content": [text(carrying), text("hello")]},
        {"role": "system", "content": "# Environment\n\n1 one two"},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t",
            "content": format!("result\n\n{carrying}")}]},
    ]);
    let (found, applied) = form(&messages);
    let carries = json!(["1 one two"]);
    let expected = json!([
        {"role": "user", "content": [
            {"type": "reminder", "place": "block", "carries": carries}, text("hello")]},
        {"role": "system", "content": [{"type": "note", "carries": carries}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [
            text("result"), {"type": "reminder", "place": "inside", "carries": carries}]}]},
    ]);
    assert_eq!(Value::from(found), expected);
    assert_eq!(applied, []);
}

/// A start on another day says so, and so does a session that went on over midnight.
#[test]
fn a_change_of_date_counts_if_the_session_has_it() {
    let change = |date: &str| format!("The date has changed. Today's date is now {date}.");
    let reminder = |text_: &str| text(&format!("<system-reminder>\n{text_}\n</system-reminder>"));
    let skills = "The following skills are available:\n- x";
    let messages = |change: &dyn Fn(&str) -> String| {
        json!([
            {"role": "user", "content": [reminder(&change("2026-07-15")), text("hello")]},
            {"role": "assistant", "content": "hi"},
            {"role": "system", "content": format!("{}\n\n{skills}", change("2026-07-15"))},
            {"role": "user", "content": "again"},
            {"role": "system", "content": change("2026-11-19")},
        ])
    };
    let (found, applied) = form(&messages(&change));
    let carries = json!(["2026-07-15"]);
    let expected = json!([
        {"role": "user", "content": [
            {"type": "reminder", "place": "block", "carries": carries}, text("hello")]},
        {"role": "assistant", "content": [text("hi")]},
        {"role": "system", "content": [
            {"type": "note", "lists": "skills"}, {"type": "note", "carries": carries}]},
        {"role": "user", "content": [text("again")]},
    ]);
    assert_eq!(Value::from(found), expected);
    assert_eq!(applied, [("date_change", 1)]);
    let ours = |date: &str| format!("date_change\n{date}");
    assert_eq!(Value::from(form(&messages(&ours)).0), expected);
}

#[test]
fn everything_else_counts() {
    let block = json!({"type": "text", "text": " a\n", "citations": []});
    let marked = json!({"type": "text", "text": " a\n", "citations": [], "cache_control": {}});
    let (found, _) = form(&json!([{"role": "assistant", "content": [marked]}]));
    assert_eq!(Value::from(found), json!([{"role": "assistant", "content": [block]}]));
    let (found, _) = form(&json!([{"role": "user", "content": "hello\n"}]));
    assert_ne!(Value::from(found), json!([{"role": "user", "content": [text("hello")]}]));
}

#[test]
fn reminders_in_a_row_are_taken_apart() {
    let two = "<system-reminder>\na\n</system-reminder>\n<system-reminder>\n1 one two\n</system-reminder>";
    let (found, _) = form(&json!([{"role": "user", "content": two}]));
    let reminder =
        |carries: Value| json!({"type": "reminder", "place": "block", "carries": carries});
    let expected = [reminder(json!([])), reminder(json!(["1 one two"]))];
    assert_eq!(Value::from(found), json!([{"role": "user", "content": expected}]));
}

#[test]
fn halves_of_characters_are_kept_apart() {
    let json = r#"{"a":"\ud83d\ude00 \ud83d x \\ud83d \udc00"}"#;
    let found: Value = serde_json::from_str(&whole_characters(json)).unwrap();
    assert_eq!(found["a"], "\u{1F600} \u{FD83D} x \\ud83d \u{FDC00}");
}
