//! Conversations on the screen, as trees, turns, Markdown and JSON.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Output;

use insta::assert_snapshot;
use serde_json::Value;

use crate::env::Env;

/// The session of a recording that holds most.
fn recording(name: &str) -> PathBuf {
    let folder = testkit::fixtures().join("recordings").join(name);
    let mut files = testkit::files_under(&[folder]);
    files.retain(|file| !file.path.to_string_lossy().contains("agent-"));
    files.into_iter().max_by_key(|file| file.bytes.len()).unwrap().path
}

fn edited(name: &str) -> PathBuf {
    testkit::fixtures().join("edited").join(name)
}

/// Runs a command on a file from the folder that it is in, so that no name of this machine is in
/// what is wrapped.
fn run(env: &Env, columns: &str, args: &[&str], path: &Path) -> Output {
    let mut args = args.to_vec();
    args.push(path.file_name().unwrap().to_str().unwrap());
    env.command(&args).env("COLUMNS", columns).current_dir(path.parent().unwrap()).output().unwrap()
}

fn screen(columns: &str, args: &[&str], path: &Path) -> String {
    let env = Env::bare();
    let output = run(&env, columns, args, path);
    env.show(&output).replace(testkit::root().to_str().unwrap(), "[ROOT]")
}

/// Ten different sessions, narrow and wide.
#[test]
fn screens() {
    for (name, path) in [
        ("tools", recording("2.1.45/c_tools")),
        ("parallel", recording("2.1.29/d_parallel")),
        ("agent_in_file", recording("1.0.128/e_agent")),
        ("agent_background", recording("2.1.325/e_agent")),
        ("compaction", recording("2.1.325/g_compact")),
        ("busy", recording("2.1.45/i_busy")),
        ("rewind", recording("2.1.325/i_rewind")),
        ("hooks", recording("1.0.128/k_hooks")),
        ("commands", recording("2.1.45/m_memory")),
        ("api_error", recording("2.1.325/h_final400")),
    ] {
        for columns in ["80", "200"] {
            assert_snapshot!(format!("{name}_{columns}"), screen(columns, &["show"], &path));
        }
    }
}

#[test]
fn everything_of_a_session() {
    assert_snapshot!(
        "full",
        screen("100", &["show", "--full", "--thinking"], &recording("2.1.325/e_agent"))
    );
}

#[test]
fn one_turn_one_branch_or_all() {
    let path = recording("2.1.325/i_busy");
    assert_snapshot!("turn", screen("80", &["show", "--turn", "2..3"], &path));
    assert_snapshot!("branch", screen("80", &["show", "--branch", "7de4e952"], &path));
    assert_snapshot!("all", screen("80", &["show", "--all"], &path));
}

/// A sub-agent alone: one with a file of its own, and one in the session's file.
#[test]
fn one_sub_agent() {
    let path = recording("2.1.325/e_agent");
    let text = screen("80", &["show", "--agent", "a4a50c"], &path);
    assert!(text.contains("sub-agent a4a50c91573cd0ad1"), "{text}");
    assert!(text.contains("LAB-SUB-ONE Look at src/widget.py and report."), "{text}");
    assert!(!text.contains("what did the helper find"), "{text}");
    let env = Env::bare();
    let lines = run(&env, "80", &["show", "--json", "--agent", "a4a50c91573cd0ad1"], &path).stdout;
    let turn: Value = serde_json::from_slice(&lines).unwrap();
    assert_eq!((&turn["agent"], &turn["turn"]), (&"a4a50c91573cd0ad1".into(), &1.into()));
    let lines = run(&env, "80", &["show", "--markdown", "--agent", "a4a5"], &path).stdout;
    let lines = String::from_utf8(lines).unwrap();
    assert!(lines.contains("LAB-SUB-ONE") && !lines.contains("what did the helper find"));
    let text = screen("80", &["show", "--agent", "nobody"], &path);
    assert!(text.contains("the session has no sub-agent `nobody`"), "{text}");

    let path = recording("1.0.128/e_agent");
    let lines = run(&env, "80", &["turns", "--json"], &path).stdout;
    let mut sides = Vec::new();
    for line in String::from_utf8(lines).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if line["type"] == "agent" {
            sides.push(line["id"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(sides, ["line-4"]);
    let several = screen("80", &["show", "--agent", "a"], &recording("2.1.29/i_busy"));
    assert!(several.contains("the ids of several sub-agents begin with `a`"), "{several}");
    let text = screen("80", &["show", "--agent", "line"], &path);
    assert!(text.contains("sub-agent line-4 ") && text.contains("LAB-SUB-ONE"), "{text}");
}

#[test]
fn trees() {
    let mut text = String::new();
    for name in [
        "2.1.325/i_busy",
        "2.1.325/e_agent",
        "1.0.128/e_agent",
        "2.1.325/g_compact",
        "2.1.45/f_resume",
        "2.0.42/e_agent",
    ] {
        writeln!(text, "### {name}\n{}", screen("80", &["tree"], &recording(name))).unwrap();
    }
    for name in [
        "sidechain_in_main_file.jsonl",
        "two_roots.jsonl",
        "parent_cycle.jsonl",
        "summary_lines.jsonl",
    ] {
        // Alone in its folder: all of them share their first records.
        let env = Env::bare();
        let path = env.put(name, std::fs::read(edited(name)).unwrap());
        let output = run(&env, "80", &["tree"], &path);
        writeln!(text, "### {name}\n{}", env.show(&output)).unwrap();
    }
    assert_snapshot!(text);
    assert_snapshot!(
        "tree_json",
        screen("80", &["tree", "--json"], &recording("2.1.325/g_compact"))
    );
}

#[test]
fn tables_of_turns() {
    assert_snapshot!("turns", screen("120", &["turns"], &recording("2.1.325/i_busy")));
    assert_snapshot!(
        "turns_compare",
        screen("120", &["turns", "--compare"], &recording("2.1.45/c_tools"))
    );
    assert_snapshot!(
        "turns_compare_json",
        screen("120", &["turns", "--compare", "--json"], &recording("2.0.76/d_parallel"))
    );
}

/// The JSON is one shape everywhere, and holds all that was said and done.
#[test]
fn json() {
    let env = Env::bare();
    let path = recording("2.1.325/e_agent");
    let lines = run(&env, "80", &["turns", "--json"], &path).stdout;
    let lines: Vec<Value> = lines
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    let kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["session", "turn", "turn", "turn", "agent", "turn"]);
    assert!(lines.iter().all(|line| line["v"] == 1));

    let whole: Value =
        serde_json::from_slice(&run(&env, "80", &["export", "json"], &path).stdout).unwrap();
    assert_eq!(whole["session"], lines[0]);
    assert_eq!(whole["turns"].as_array().unwrap()[..], [&lines[1..4], &lines[5..]].concat());
    assert_eq!(whole["agents"][0], lines[4]);

    let shown = run(&env, "80", &["show", "--json", "--turn", "1"], &path).stdout;
    assert_eq!(serde_json::from_slice::<Value>(&shown).unwrap(), lines[1]);
    assert_snapshot!("turn_json", serde_json::to_string_pretty(&lines[1]).unwrap());
}

#[test]
fn markdown() {
    let env = Env::bare();
    let path = recording("2.1.45/c_tools");
    let exported = run(&env, "80", &["export", "md"], &path).stdout;
    assert_eq!(exported, run(&env, "80", &["show", "--markdown"], &path).stdout);
    assert!(String::from_utf8(exported).unwrap().contains("```diff\n"));
}

#[test]
fn what_is_hostile_is_shown_and_not_sent() {
    let env = Env::bare();
    let evil = "\\u001b]0;owned\\u0007\\u001b[2J\\u202e\u{9b}\u{202e}\u{7f}";
    let line = |kind: &str, message: &str| {
        format!(
            r#"{{"type":"{kind}","uuid":"{kind}","parentUuid":null,"cwd":"/{evil}","gitBranch":"{evil}","version":"{evil}","message":{message}}}"#
        )
    };
    let call = format!(
        r#"{{"id":"{evil}","role":"assistant","model":"{evil}","content":[{{"type":"text","text":"{evil}"}},{{"type":"thinking","thinking":"{evil}"}},{{"type":"{evil}"}},{{"type":"tool_use","id":"t","name":"{evil}","input":{{"x":"{evil}"}}}}]}}"#
    );
    let result = format!(
        r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t","is_error":true,"content":"{evil}"}}]}}"#
    );
    let system = format!(
        r#"{{"type":"system","uuid":"sys","parentUuid":"assistant","subtype":"informational","content":"{evil}"}}"#
    );
    let text = [
        line("user", &format!(r#"{{"role":"user","content":"{evil}"}}"#)),
        line("assistant", &call).replace("null", "\"user\""),
        result_line(&result),
        system,
    ]
    .join("\n");
    let path = env.put("evil.jsonl", text);
    for args in [
        &["show", "--full", "--thinking"][..],
        &["tree"],
        &["turns"],
        &["show", "--all"],
        &["show", "--markdown", "--full"],
        &["export", "md", "--thinking"],
        &["show", "--json"],
        &["turns", "--json"],
        &["export", "json"],
        &["tree", "--json"],
        &["history", "--as", "2.1.45"],
        &["history", "--as", "2.1.45", "--json"],
    ] {
        let output = run(&env, "80", args, &path);
        assert!(output.status.success());
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        let bad = text.chars().find(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}');
        assert_eq!(bad, None, "{args:?}: {text:?}");
    }
    let output = run(&env, "80", &["show", "--full", "--thinking"], &path);
    assert_snapshot!("hostile", env.show(&output));
}

fn result_line(message: &str) -> String {
    format!(r#"{{"type":"user","uuid":"r","parentUuid":"assistant","message":{message}}}"#)
}

#[test]
fn wrong_arguments_say_what_to_do() {
    let path = recording("2.1.325/i_busy");
    let mut text = String::new();
    for args in [
        &["show", "--turn", "99"][..],
        &["show", "--turn", "0"],
        &["show", "--branch", "nowhere"],
        &["show", "--branch", "5"],
        &["show", "--markdown", "--json"],
    ] {
        writeln!(text, "### {args:?}\n{}", screen("80", args, &path)).unwrap();
    }
    assert_snapshot!(text);
}
