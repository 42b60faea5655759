use serde_json::json;

use super::*;

fn message(role: &'static str, blocks: &[Value]) -> Message {
    Message { role, blocks: blocks.iter().map(Value::to_string).collect() }
}

fn spoken(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[test]
fn prompts_stay_word_for_word_also_through_two_summaries() {
    let first = [
        message("user", &[spoken("Count the files.")]),
        message("assistant", &[spoken("There are 7.")]),
        message(
            "user",
            &[spoken("<system-reminder>x</system-reminder>"), spoken("And now\n the lines.")],
        ),
    ];
    let text =
        text("Counted.", &first, &[json!({"content": "count lines", "status": "pending"})], None);
    assert!(text.contains("- count lines (pending)"), "{text}");
    let again = [
        message("user", &[spoken(&text), spoken("Go on.")]),
        message("assistant", &[spoken("Done.")]),
    ];
    let expected = ["Count the files.", "And now\n the lines.", "Go on."];
    assert_eq!(prompts(&again), expected);
    let long = [message("user", &[spoken("old"), spoken(&"x".repeat(PROMPTS - 3)), spoken("new")])];
    assert_eq!(prompts(&long).len(), 2);
}

#[test]
fn the_receipt_has_what_is_neither_sent_nor_quoted() {
    let before = [
        message("user", &[spoken("Read it.")]),
        message(
            "assistant",
            &[
                spoken("I will."),
                json!({"type": "tool_use", "id": "1", "name": "Read", "input": {"file_path": "/a"}}),
            ],
        ),
        message("user", &[json!({"type": "tool_result", "tool_use_id": "1", "content": "b"})]),
        message("assistant", &[spoken("It says b.")]),
    ];
    let after = [message("user", &[spoken(&text("They read: It says b.", &before, &[], None))])];
    let expected = [("text", 1), ("tool_result", 1), ("tool_use", 1)];
    assert_eq!(lost(&before, &after), expected.map(|(kind, count)| (kind.to_owned(), count)));
    assert_eq!(lost(&before, &before), []);
    assert_eq!(files(&before), ["/a"]);
}

#[test]
fn the_summary_is_what_stands_between_the_marks() {
    assert_eq!(extract("<analysis>x</analysis>\n<summary>\ny\n</summary>\n"), "y");
    assert_eq!(extract(" plain "), "plain");
}

#[test]
fn the_threshold_leaves_room_for_the_summary() {
    assert_eq!(threshold(1_000_000, None), 967_000);
    assert_eq!(threshold(200_000, Some(50)), 100_000);
    assert_eq!(threshold(200_000, Some(500)), 167_000);
    assert_eq!(threshold(1_000, None), 500);
}
