//! Verdicts, for people and for programs, and their exit codes.

use std::fmt::Write;

use insta::assert_snapshot;

use crate::env::Env;

fn fixture(case: &str) -> Vec<u8> {
    std::fs::read(testkit::fixtures().join("edited").join(format!("{case}.jsonl"))).unwrap()
}

#[test]
fn every_verdict_has_its_exit_code() {
    let mut text = String::new();
    for (args, case) in [
        (&[][..], "meta_user"),
        (&["--as", "2.1.60"], "parallel_siblings"),
        (&["--as", "2.1.45"], "missing_parent"),
        (&[], "tool_result_with_text"),
        (&["--as", "2.0.76"], "parent_cycle"),
        (&["--json"], "orphan_tool_use_middle"),
        (&["--as", "newest"], "linear"),
    ] {
        let env = Env::bare();
        env.put("case.jsonl", fixture(case));
        let args: Vec<&str> = ["check", "case.jsonl"].iter().chain(args).copied().collect();
        writeln!(text, "### {case} {args:?}\n{}", env.run(&args)).unwrap();
    }
    assert_snapshot!(text);
}

#[test]
fn many_sessions_and_none() {
    let env = Env::bare();
    for case in ["meta_user", "other_cwd", "two_roots", "bom"] {
        env.put(&format!("sessions/{case}.jsonl"), fixture(case));
    }
    let key = "ghp_Zq8Rk2Tn5Wc7Lx0Vb3Hm6Jd9Gp1Fs4Yt0aB2";
    let with_key = String::from_utf8(fixture("meta_user")).unwrap().replacen("prompt 1", key, 1);
    env.put("sessions/secret.jsonl", with_key.into_bytes());
    env.put("empty/agent-a1.jsonl", fixture("meta_user"));
    let mut text = String::new();
    for args in
        [&["check", "sessions"][..], &["check", "empty"], &["check", "nowhere.jsonl"], &["check"]]
    {
        writeln!(text, "### {args:?}\n{}", env.run(args)).unwrap();
    }
    assert!(!text.contains(key));
    assert_snapshot!(text);
}
