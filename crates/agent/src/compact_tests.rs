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
    let again = Again {
        todos: vec![json!({"content": "count lines", "status": "pending"})],
        files: vec![("/a".to_owned(), "1\tb".to_owned())],
        tasks: vec![("b1".to_owned(), "Wait".to_owned())],
    };
    let text = text((Extent::All, "Counted."), &first, &again, None);
    assert!(text.contains("- b1: Wait") && text.contains("bytes=\"3\">\n1\tb\n"), "{text}");
    assert!(text.contains("- count lines (pending)"), "{text}");
    let again = [
        message("user", &[spoken(&text), spoken("Go on.")]),
        message("assistant", &[spoken("Done.")]),
    ];
    let texts = |messages: &[Message]| -> Vec<String> {
        prompts(messages).into_iter().map(|prompt| prompt.text).collect()
    };
    let expected = ["Count the files.", "And now\n the lines.", "Go on."];
    assert_eq!(texts(&again), expected);
    // What looks like a tag is a prompt, unless it is one of the client's.
    let odd = "<prompt>\nWhy does <div> break?\n</prompt>";
    let typed = "<command-message>hi</command-message>\n<command-name>/hi</command-name>\n<command-args>Ann</command-args>";
    let odd =
        [message("user", &[spoken(odd), spoken(typed), spoken("[Request interrupted by user]")])];
    let kept = texts(&odd);
    assert_eq!(kept, ["<prompt>\nWhy does <div> break?\n</prompt>", "/hi Ann"]);
    let odd = [message(
        "user",
        &[spoken(&super::text((Extent::End, ""), &odd, &Again::default(), None))],
    )];
    assert_eq!(texts(&odd), kept);
    // A prompt that is too long leaves room for those before it.
    let long = [message("user", &[spoken("old"), spoken(&"x".repeat(PROMPTS + 3)), spoken("new")])];
    let kept = texts(&long);
    assert_eq!((kept.len(), kept[0].as_str(), kept[2].as_str()), (3, "old", "new"));
    assert!(kept[1].len() <= BEGINNING && kept[1].ends_with(" more bytes]"));
    assert!(kept.iter().map(String::len).sum::<usize>() <= PROMPTS);
}

#[test]
fn the_plan_and_the_skills_stay_also_through_two_summaries() {
    let call = |id: &str, name: &str, input: Value| json!({"type": "tool_use", "id": id, "name": name, "input": input});
    let result =
        |id: &str, text: &str| json!({"type": "tool_result", "tool_use_id": id, "content": text});
    let first = [
        message(
            "assistant",
            &[
                call("1", "ExitPlanMode", json!({"plan": "# Plan\n1. Count."})),
                call("2", "Skill", json!({"skill": "tidy"})),
                call("3", "Skill", json!({"skill": "gone"})),
            ],
        ),
        message(
            "user",
            &[
                result("1", "approved"),
                result("2", "Launching skill: tidy\n\nSweep."),
                json!({"type": "tool_result", "tool_use_id": "3", "content": "Unknown skill", "is_error": true}),
            ],
        ),
    ];
    let once = text((Extent::All, "Counted."), &first, &Again::default(), None);
    let again = [message("user", &[spoken(&once)])];
    let twice = text((Extent::End, "Counted again."), &again, &Again::default(), None);
    for text in [once, twice] {
        assert!(text.contains("\n# Plan\n1. Count.\n</plan>"), "{text}");
        assert!(text.contains("<skill name=\"tidy\"") && text.contains("Sweep."), "{text}");
        assert!(!text.contains("gone"), "{text}");
    }
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
        message("assistant", &[spoken("It says b, and nothing else.")]),
    ];
    let after = [message(
        "user",
        &[spoken(&text(
            (Extent::All, "They read: It says b, and nothing else."),
            &before,
            &Again::default(),
            None,
        ))],
    )];
    let receipt = receipt(None, &before, &after);
    let lost: Vec<_> =
        receipt.lost.iter().map(|block| (block.turn, block.kind.name(), &*block.about)).collect();
    // The prompt and the second answer are in the summary, word for word.
    let expected = [(1, "answer", "I will."), (1, "call", "Read /a"), (1, "result", "b")];
    assert_eq!(lost, expected);
    assert_eq!(super::receipt(None, &before, &before).lost, []);
    assert_eq!(files(&before), ["/a"]);
}

#[test]
fn the_summary_is_what_stands_between_the_marks() {
    assert_eq!(extract("<analysis>x</analysis>\n<summary>\ny\n</summary>\n"), "y");
    assert_eq!(extract(" plain "), "plain");
}

#[test]
fn the_threshold_leaves_room_for_the_summary() {
    let usual = CompactAt::default();
    let percent = |percent| CompactAt { percent: Some(percent), window: None };
    let window = |window| CompactAt { percent: None, window: Some(window) };
    assert_eq!(threshold(1_000_000, usual), 967_000);
    assert_eq!(threshold(200_000, percent(50)), 100_000);
    assert_eq!(threshold(200_000, percent(500)), 167_000);
    assert_eq!(threshold(1_000, usual), 500);
    assert_eq!(threshold(1_000_000, window(200_000)), 167_000);
    assert_eq!(threshold(200_000, window(1_000_000)), 167_000);
}
