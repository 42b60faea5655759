use serde_json::{Value, json};

use super::*;

fn messages(all: &[(&'static str, Value)]) -> Vec<(&'static str, Vec<String>)> {
    let blocks = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().map(Value::to_string).collect()
    };
    all.iter().map(|(role, value)| (*role, blocks(value))).collect()
}

fn spoken(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn receipt(before: &[(&'static str, Value)], after: &str) -> Receipt {
    let before = messages(before);
    let pieces = pieces_of(before.iter().map(|(role, blocks)| (*role, blocks.as_slice())));
    let after = spoken(after).to_string();
    Receipt::new(&pieces, &[after.as_bytes()])
}

fn session() -> Vec<(&'static str, Value)> {
    let call = |id: &str, name: &str, input: Value| json!({"type": "tool_use", "id": id, "name": name, "input": input});
    let result =
        |id: &str, text: &str| json!({"type": "tool_result", "tool_use_id": id, "content": text});
    vec![
        (
            "user",
            json!([
                spoken("<system-reminder>x</system-reminder>"),
                spoken("Read both files, please.")
            ]),
        ),
        (
            "assistant",
            json!([
                spoken("I read them. One has 4711 lines."),
                call("1", "Read", json!({"file_path": "/home/dev/demo/src/main.rs"})),
                call("2", "Bash", json!({"command": "cargo test -p demo\necho done"})),
            ]),
        ),
        ("user", json!([result("1", "fn main() {} // the whole file"), result("2", "7 passed")])),
        ("user", json!([spoken("ok")])),
        (
            "assistant",
            json!([call(
                "3",
                "TodoWrite",
                json!({"todos": [
                    {"content": "write the parser", "status": "pending"},
                    {"content": "read the files", "status": "completed"},
                ]})
            )]),
        ),
    ]
}

#[test]
fn what_is_neither_sent_nor_quoted_is_in_the_receipt() {
    let receipt =
        receipt(&session(), "Summary: it was ok. fn main() {} // the whole file\n7 passed");
    let lost: Vec<_> = receipt
        .lost
        .iter()
        .map(|block| (block.turn, block.kind.name(), block.about.as_str()))
        .collect();
    let expected = [
        (0, "note", "<system-reminder>x</system-reminder>"),
        (1, "prompt", "Read both files, please."),
        (1, "answer", "I read them. One has 4711 lines."),
        (1, "call", "Read /home/dev/demo/src/main.rs"),
        (1, "call", "Bash cargo test -p demo echo done"),
        // A short text by chance is no quotation.
        (2, "prompt", "ok"),
        (2, "call", "TodoWrite 1 of 2 done"),
    ];
    // The short result is on a line of its own.
    assert_eq!(lost, expected);
    assert_eq!(receipt.by_turn().len(), 3);
}

#[test]
fn what_people_miss_is_named() {
    let text = |missed: &[MissedText]| -> Vec<(usize, String)> {
        missed.iter().map(|one| (one.turn, one.text.clone())).collect()
    };
    let missed = receipt(&session(), "nothing of it").missed;
    assert_eq!(
        text(&missed.prompts),
        [(1, "Read both files, please.".to_owned()), (2, "ok".to_owned())]
    );
    assert_eq!(text(&missed.paths), [(1, "/home/dev/demo/src/main.rs".to_owned())]);
    assert_eq!(text(&missed.commands), [(1, "cargo test -p demo echo done".to_owned())]);
    assert_eq!(text(&missed.numbers), [(1, "4711".to_owned())]);
    assert_eq!(text(&missed.todos), [(2, "write the parser".to_owned())]);
    let kept = "Read both files, please.\n\nok\n src/main.rs has 4711 lines; `cargo test -p demo`; to do: write the parser";
    assert!(receipt(&session(), kept).missed.is_empty());
    // The name alone says which file it is, as long as there is only one.
    assert_eq!(receipt(&session(), "see main.rs").missed.paths, []);
    let mut two = session();
    two.push(("assistant", json!([{"type": "tool_use", "id": "9", "name": "Read", "input": {"file_path": "/x/main.rs"}}])));
    assert_eq!(receipt(&two, "see main.rs").missed.paths.len(), 2);
    // Part of a number is another number.
    assert_eq!(receipt(&session(), "14711").missed.numbers.len(), 1);
}

#[test]
fn a_text_is_cut_between_characters() {
    assert_eq!(shortened("äöü äöü", 100), "äöü äöü");
    assert_eq!(shortened("  one\n two  ", 100), "one two");
    for most in 0..20 {
        assert!(shortened("äöüß äöüß äöüß", most).len() <= most + "…".len() + 1);
    }
}
