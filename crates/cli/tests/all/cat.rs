//! `quipu cat`.

use std::fs;

use insta::assert_snapshot;

use crate::env::Env;

/// The lines of the output without the records themselves.
fn heads(text: &str) -> String {
    let heads = text.lines().map(|line| {
        let (head, entry) = line.split_once(",\"entry\":").unwrap_or((line, ""));
        format!("{head} {}", if entry == "null}" { "null" } else { "…" })
    });
    heads.collect::<Vec<_>>().join("\n")
}

#[test]
fn damaged_records_and_what_is_saved() {
    let env = Env::with_sessions();
    let output = env.output(&["cat", "badc0ffe"]);
    assert_eq!(output.status.code(), Some(0));
    assert_snapshot!(heads(&String::from_utf8(output.stdout).unwrap()));
}

#[test]
fn every_line_is_json_with_the_record_as_it_stands() {
    let env = Env::with_sessions();
    let odd = env.put(
        "odd.jsonl",
        b"{\"n\":1.0,\"m\":1e400,\"o\":12345678901234567890123,\"a\":1,\"a\":2,\"type\":\"x\",\"s\":\"\\ud800\"}\r\n\n{\"type\":\"user\",\"x\":\"\xff\"}\n[1]\nnull",
    );
    let text = String::from_utf8(env.output(&["cat", odd.to_str().unwrap()]).stdout).unwrap();
    assert_snapshot!(text);
    for line in text.lines().skip(1) {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}

#[test]
fn filters() {
    let env = Env::with_sessions();
    let count = |args: &[&str]| {
        let mut all = vec!["cat", "badc0ffe"];
        all.extend(args);
        String::from_utf8(env.output(&all).stdout).unwrap().lines().count()
    };
    assert_eq!(count(&[]), 16);
    assert_eq!(count(&["--kind", "recovered"]), 4);
    assert_eq!(count(&["--kind", "damaged"]), 3);
    assert_eq!(count(&["--kind", "user", "--kind", "damaged"]), 9);
    assert_eq!(count(&["--lines", "4"]), 2);
    assert_eq!(count(&["--lines", "4..5"]), 4);
    assert_eq!(count(&["--lines", "..3"]), 3);
    assert_eq!(count(&["--lines", "99.."]), 0);
    let none = env.run(&["cat", "badc0ffe", "--kind", "User"]);
    assert_eq!(none, "exit 0\n--- stderr\nno record has the kind User\n");
    let hooks = env.put(
        "hooks.jsonl",
        "{\"type\":\"progress\",\"data\":{\"type\":\"hook_progress\"}}\n{\"type\":\"progress\",\"data\":{\"type\":\"x\"}}\n",
    );
    let output = env.output(&["cat", hooks.to_str().unwrap(), "--kind", "progress/hook_progress"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 1);
}

#[test]
fn raw_is_the_file_whatever_it_holds() {
    let env = Env::with_sessions();
    let long = format!("{{\"type\":\"user\",\"x\":\"{}\"}}\n{{}}", "y".repeat(17 << 20));
    let cases: [&[u8]; 8] = [
        b"",
        b"\n\n",
        b"\0\0\0\0",
        b"no newline",
        b"{\"a\":1}{\"b\":2}\r\n\xff\xfe",
        b"\xef\xbb\xbf{\"type\":\"user\"}\n{\"type\":",
        &long.as_bytes()[..9_000_000],
        long.as_bytes(),
    ];
    for bytes in cases {
        let path = env.put("case.jsonl", bytes);
        let output = env.output(&["cat", "--raw", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0));
        assert!(
            output.stdout == bytes,
            "{:?}",
            String::from_utf8_lossy(&bytes[..bytes.len().min(80)])
        );
    }
    for file in testkit::sample_of_own_files() {
        let output = env.output(&["cat", "--raw", file.path.to_str().unwrap()]);
        assert!(output.stdout == file.bytes, "{}", file.path.display());
    }
}

#[test]
fn raw_tells_of_damage_on_stderr() {
    let env = Env::with_sessions();
    let output = env.output(&["cat", "--raw", "badc0ffe"]);
    assert_snapshot!(String::from_utf8(output.stderr).unwrap());
    let path =
        env.path(".claude/projects/-home-dev-demo/badc0ffe-0000-4000-8000-00000000d00d.jsonl");
    assert_eq!(output.stdout, fs::read(path).unwrap());
}
