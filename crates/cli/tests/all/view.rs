//! What is shown is decided once: the terminal, Markdown and JSON have the same turns and texts.

use std::path::Path;

use serde_json::Value;

use crate::env::Env;

/// The letters and digits of a text. Lines may break anywhere, also within Japanese words.
fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}

/// What the model was sent and what it answered, of the live turns.
fn texts(turns: &str) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for line in turns.lines() {
        let turn: Value = serde_json::from_str(line).unwrap();
        if turn["type"] != "turn" || turn["live"] != true || !turn["agent"].is_null() {
            continue;
        }
        let mut texts = Vec::new();
        for step in turn["steps"].as_array().unwrap() {
            let blocks = step["blocks"].as_array().into_iter().flatten();
            let blocks = blocks.filter(|block| block["type"] == "text");
            texts.extend(blocks.filter_map(|block| block["text"].as_str()));
            // What a command printed, with its colours, is for the terminal only.
            if step["type"] == "message" && step["input"] != "output" {
                texts.extend(step["text"].as_str());
            }
        }
        all.push(texts.iter().flat_map(|text| text.lines().map(str::to_owned)).collect());
    }
    all
}

#[test]
fn one_conversation_in_three_forms() {
    let env = Env::bare();
    let mut compared = 0;
    for file in testkit::sample_of_own_files() {
        let path: &Path = &file.path;
        // Sub-agents are shown with their sessions.
        if path.file_name().unwrap().to_string_lossy().starts_with("agent-") {
            continue;
        }
        let path = path.to_str().unwrap();
        let run = |args: &[&str]| {
            let output = env.command(args).env("COLUMNS", "10000").output().unwrap();
            assert!(output.status.success(), "{args:?}");
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let turns = texts(&run(&["turns", path, "--json"]));
        let screen = run(&["show", path, "--full", "--thinking"]);
        let markdown = run(&["export", "md", path, "--full", "--thinking", "--no-redact"]);
        let headings = markdown.lines().filter(|line| line.starts_with("## Turn ")).count();
        assert_eq!(headings, turns.len(), "{path}");
        for (form, text) in [("show", screen), ("export md", markdown)] {
            let text = letters(&text);
            for line in turns.iter().flatten() {
                let line: String = letters(line).chars().take(40).collect();
                if line.is_empty() {
                    continue;
                }
                assert!(text.contains(&line), "{form} {path}: {line:?}");
                compared += 1;
            }
        }
    }
    assert!(compared > 1_000, "{compared}");
}

/// Headings of answers are below those of turns; a file is not overwritten.
#[test]
fn a_document_for_others() {
    let env = Env::with_sessions();
    let line = |uuid: &str, parent: &str, role: &str, content: &str| {
        format!(
            r#"{{"type":"{role}","uuid":"{uuid}","parentUuid":{parent},"sessionId":"s","timestamp":"2026-11-01T00:00:00.000Z","message":{{"id":"m{uuid}","role":"{role}","content":{content}}}}}"#
        )
    };
    let answer =
        r##"[{"type":"text","text":"# Plan\n\n```sh\n# not a heading\n```\n###### deep"}]"##;
    let session = [
        line("a", "null", "user", "\"one\""),
        line("b", "\"a\"", "assistant", answer),
        line("c", "\"b\"", "user", "\"two\""),
        line("d", "\"c\"", "assistant", r#"[{"type":"text","text":"second"}]"#),
    ];
    let path = env.put("talk.jsonl", session.join("\n") + "\n");
    let path = path.to_str().unwrap();
    let out = env.path("talk.md");
    let out = out.to_str().unwrap();
    let run = env.run(&["export", "md", path, "--turn", "1", "-o", out]);
    assert_eq!(run, "exit 0\n");
    let text = std::fs::read_to_string(out).unwrap();
    assert!(text.contains("\n### Plan\n\n```sh\n# not a heading\n```\n###### deep\n"), "{text}");
    assert!(!text.contains("Turn 2"), "{text}");
    assert!(env.run(&["export", "md", path, "--last", "1"]).contains("## Turn 2"));
    let again = env.run(&["export", "md", path, "-o", out]);
    let refused = "exit 2\n--- stderr\nerror: `[HOME]/talk.md` already exists\n\
                   hint: use another name, or `--force` to overwrite it\n";
    assert_eq!(again, refused);
    assert_eq!(std::fs::read_to_string(out).unwrap(), text);
    assert_eq!(env.run(&["export", "md", path, "--last", "1", "-o", out, "--force"]), "exit 0\n");
    assert!(std::fs::read_to_string(out).unwrap().contains("## Turn 2"));
    // The session itself is never the place for a document about it.
    let itself = env.run(&["export", "md", path, "-o", path, "--force"]);
    assert!(itself.contains("that is the session's own file"), "{itself}");
    let stdout = env.run(&["export", "md", path, "--last", "1", "-o", "-"]);
    assert!(stdout.contains("## Turn 2") && !env.path("-").exists(), "{stdout}");
    let shown = env.run(&["show", path, "--last", "1"]);
    assert!(shown.contains("second") && !shown.contains("Plan"), "{shown}");
}
