//! `quipu context` and `quipu price`, on the screen and as JSON.

use std::fmt::Write as _;

use insta::assert_snapshot;
use serde_json::Value;

use crate::env::Env;

/// A session of two turns with calls, thinking and an image, and recorded usage that fits it.
fn session() -> String {
    let mut lines = Vec::new();
    let mut parent = "null".to_owned();
    let mut add = |kind: &str, uuid: &str, minute: u64, rest: &str| {
        lines.push(format!(
            r#"{{"parentUuid":{parent},"isSidechain":false,"type":"{kind}","uuid":"{uuid}","sessionId":"0c0c0c0c-0000-4000-8000-000000000001","version":"2.1.45","cwd":"/home/dev/demo","timestamp":"2026-11-01T10:{minute:02}:00.000Z",{rest}}}"#
        ));
        parent = format!("\"{uuid}\"");
    };
    let words = |count: usize| vec!["some words"; count].join(" ");
    let user = |text: &str| format!(r#""message":{{"role":"user","content":"{text}"}}"#);
    let result = |id: &str, content: &str| {
        format!(
            r#""message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{id}","content":{content}}}]}}"#
        )
    };
    let answer = |id: &str, read: u64, output: u64, blocks: &str| {
        format!(
            r#""message":{{"id":"{id}","role":"assistant","model":"claude-opus-4-5-20251101","stop_reason":"tool_use","content":[{blocks}],"usage":{{"input_tokens":5,"cache_creation_input_tokens":{},"cache_read_input_tokens":0,"cache_creation":{{"ephemeral_5m_input_tokens":{},"ephemeral_1h_input_tokens":0}},"output_tokens":{output}}}}}"#,
            read - 5,
            read - 5
        )
    };
    let read_call = r#"{"type":"tool_use","id":"t1","name":"Read","input":{"file_path":"/home/dev/demo/it's here.rs"}}"#;
    let shell = r#"{"type":"tool_use","id":"t2","name":"Bash","input":{"command":"make"}}"#;
    let text = |text: &str| format!(r#"{{"type":"text","text":"{text}"}}"#);
    let thinking =
        format!(r#"{{"type":"thinking","thinking":"hm","signature":"{}"}}"#, "c2ln".repeat(100));
    add("user", "u1", 0, &user("Read the file."));
    add("assistant", "a1", 1, &answer("m1", 15_020, 180, &format!("{thinking},{read_call}")));
    add("user", "r1", 2, &result("t1", &format!("\"{}\"", words(1_500))));
    add("assistant", "a2", 3, &answer("m2", 18_300, 420, &text(&words(200))));
    add("user", "u2", 4, &user(&words(50)));
    add("assistant", "a3", 5, &answer("m3", 18_850, 100, shell));
    let image = r#"[{"type":"text","text":"done"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="}}]"#;
    add("user", "r2", 6, &result("t2", image));
    add("assistant", "a4", 7, &answer("m4", 18_990, 60, &text("It is made.")));
    lines.join("\n") + "\n"
}

fn env() -> Env {
    let env = Env::bare();
    env.put("s.jsonl", session());
    env
}

fn json(env: &Env, args: &[&str]) -> Value {
    let output = env.output(&[args, &["--json"]].concat());
    assert!(output.status.success(), "{}", env.show(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn for_people_and_for_programs() {
    let env = env();
    let mut text = String::new();
    for args in [
        &["context", "s.jsonl"][..],
        &["context", "s.jsonl", "--by", "turn", "--limit", "1"],
        &["context", "s.jsonl", "--by", "file", "--json"],
        &["context", "s.jsonl", "--by", "day"],
        &["price", "s.jsonl"],
        &["price", "s.jsonl", "--as", "2.1.325"],
        &["price", "s.jsonl", "--json"],
    ] {
        writeln!(text, "### {args:?}\n{}", env.run(args)).unwrap();
    }
    assert_snapshot!(text);
}

#[test]
fn what_is_cached_depends_on_the_time() {
    let env = env();
    let mut text = String::new();
    // A minute after the last call, and six.
    for now in ["1793527680", "1793527980"] {
        let output = env.command(&["price", "s.jsonl"]).env("QUIPU_NOW", now).output().unwrap();
        writeln!(text, "### {now}\n{}", env.show(&output)).unwrap();
    }
    assert_snapshot!(text);
}

/// A command line as a shell reads it.
fn words(line: &str) -> Vec<String> {
    let script = format!("printf '%s\\0' {line}");
    let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim_end_matches('\0').split('\0').map(str::to_owned).collect()
}

/// Each command that is printed does what is written beside it: a context afterwards has so many
/// tokens less, by the count of the proof.
#[test]
fn commands_save_what_they_announce() {
    let env = env();
    let all = json(&env, &["context", "s.jsonl"]);
    let mut count = 0;
    for table in all["tables"].as_array().unwrap() {
        for row in table["rows"].as_array().unwrap() {
            let Some(command) = row["command"].as_str() else { continue };
            let run = format!("{command} -o out.jsonl --force --json");
            let words = words(&run);
            let args: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
            let output = env.output(&args);
            assert!(output.status.success(), "{command}: {}", env.show(&output));
            let proof: Value = serde_json::from_slice(&output.stdout).unwrap();
            let tokens = |side: &str| proof[side]["tokens"].as_u64().unwrap();
            let saved = tokens("before") - tokens("after");
            let announced = row["saves"].as_u64().unwrap();
            assert!(
                announced.abs_diff(saved) <= announced / 50 + 10,
                "{command}: {announced} and {saved}"
            );
            count += 1;
        }
    }
    assert_eq!(count, 7);
}

#[test]
fn the_numbers_of_all_commands_agree() {
    let env = env();
    let context = json(&env, &["context", "s.jsonl", "--limit", "1000"]);
    let price = json(&env, &["price", "s.jsonl"]);
    let check = json(&env, &["check", "s.jsonl"]);
    assert_eq!(context["recorded"], check["context"]["tokens"]);
    assert_eq!(context["tokens"], price["tokens"]);
    let sum = |by: &str| -> u64 {
        let tables = context["tables"].as_array().unwrap();
        let table = tables.iter().find(|table| table["by"] == by).unwrap();
        table["rows"].as_array().unwrap().iter().map(|row| row["tokens"].as_u64().unwrap()).sum()
    };
    assert_eq!(sum("kind"), context["tokens"].as_u64().unwrap());
    let proof = json(&env, &["clone", "s.jsonl", "--dry-run"]);
    assert_eq!(proof["before"]["tokens"].as_u64().unwrap(), sum("turn"));
    assert_eq!(proof["price"]["before"]["tokens"], context["tokens"]);
}

/// With a warm cache, a strip loses what follows the first message that it changes; for an
/// installed client of another version, nothing was cached at all.
#[cfg(unix)]
#[test]
fn a_strip_with_a_warm_cache_has_its_price() {
    let env = env();
    let mut text = String::new();
    let strip = ["strip", "s.jsonl", "--results", "--dry-run"];
    let package = r#"{"name":"@anthropic-ai/claude-code","version":"2.1.325"}"#;
    env.put("client/package.json", package);
    let program = env.put("client/claude", "");
    let runs = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, runs).unwrap();
    for path in ["/nowhere".to_owned(), env.path("client").display().to_string()] {
        let output = env.command(&strip).env("QUIPU_NOW", "1793527680").env("PATH", &path).output();
        writeln!(text, "### PATH={}\n{}", env.cleaned(&path), env.show(&output.unwrap())).unwrap();
    }
    assert_snapshot!(text);
}
