use serde_json::json;

use super::*;

fn message(role: &'static str, blocks: &[Value]) -> Message {
    Message { role, blocks: blocks.iter().map(Value::to_string).collect() }
}

fn said(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[test]
fn prompts_stay_word_for_word_also_through_two_summaries() {
    let first = [
        message("user", &[said("Count the files.")]),
        message("assistant", &[said("There are 7.")]),
        message(
            "user",
            &[said("<system-reminder>x</system-reminder>"), said("And now\n the lines.")],
        ),
    ];
    let text =
        text("Counted.", &first, &[json!({"content": "count lines", "status": "pending"})], None);
    assert!(text.contains("- count lines (pending)"), "{text}");
    let again =
        [message("user", &[said(&text), said("Go on.")]), message("assistant", &[said("Done.")])];
    let expected = ["Count the files.", "And now\n the lines.", "Go on."];
    assert_eq!(prompts(&again), expected);
    let long = [message("user", &[said("old"), said(&"x".repeat(PROMPTS - 3)), said("new")])];
    assert_eq!(prompts(&long).len(), 2);
}

#[test]
fn the_receipt_has_what_is_neither_sent_nor_quoted() {
    let before = [
        message("user", &[said("Read it.")]),
        message(
            "assistant",
            &[
                said("I will."),
                json!({"type": "tool_use", "id": "1", "name": "Read", "input": {"file_path": "/a"}}),
            ],
        ),
        message("user", &[json!({"type": "tool_result", "tool_use_id": "1", "content": "b"})]),
        message("assistant", &[said("It says b.")]),
    ];
    let after = [message("user", &[said(&text("They read: It says b.", &before, &[], None))])];
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
