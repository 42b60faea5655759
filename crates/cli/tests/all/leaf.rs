//! The record that Claude Code resumes from is the same in every command that reports it.

use std::fs;

use serde_json::Value;

use crate::env::Env;

#[test]
fn turns_tree_check_and_history_agree() {
    let mut compared = 0;
    for file in fs::read_dir(testkit::fixtures().join("edited")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "jsonl") {
            continue;
        }
        let env = Env::bare();
        env.put("case.jsonl", fs::read(&path).unwrap());
        for version in ["1.0.128", "2.0.76", "2.1.45", "2.1.325"] {
            let ask = |command: &str| {
                let output = env.output(&[command, "case.jsonl", "--as", version, "--json"]);
                let first = output.stdout.split(|byte| *byte == b'\n').next().unwrap();
                // Nothing is sent of what is refused.
                let head: Value = serde_json::from_slice(first).ok()?;
                let members = ["leaf", "leaf_line"].map(|name| head.get(name).cloned());
                Some(members.map(|member| member.expect(command)))
            };
            let turns = ask("turns").unwrap();
            for command in ["tree", "check", "history"] {
                let Some(found) = ask(command) else {
                    assert_eq!(command, "history", "{}", path.display());
                    continue;
                };
                assert_eq!(found, turns, "{command} {} as {version}", path.display());
                compared += 1;
            }
        }
    }
    assert!(compared > 200, "{compared}");
}
