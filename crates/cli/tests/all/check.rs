//! Verdicts, for people and for programs, and their exit codes.

use std::fmt::Write;

use insta::assert_snapshot;

use crate::env::{Env, set_age};

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
    // A list is newest first.
    for (age, case) in (1..).zip(["meta_user", "other_cwd", "two_roots", "bom", "secret"]) {
        set_age(&env.path(&format!("sessions/{case}.jsonl")), age * 3_600);
    }
    let mut text = String::new();
    for args in
        [&["check", "sessions"][..], &["check", "empty"], &["check", "nowhere.jsonl"], &["check"]]
    {
        writeln!(text, "### {args:?}\n{}", env.run(args)).unwrap();
    }
    assert!(!text.contains(key));
    assert_snapshot!(text);
}

fn observed(case: &str) -> Vec<u8> {
    std::fs::read(testkit::fixtures().join("observed").join(format!("{case}.jsonl"))).unwrap()
}

/// Sessions that genuine clients were seen to resume, to lose parts of, or to end on.
#[test]
fn a_verdict_is_what_genuine_clients_do() {
    for (case, version, code, finding) in [
        ("prompt_hangs_on_progress", "2.1.325", 10, "lost-result"),
        ("rid_linear_both", "2.1.325", 10, "repeated-call"),
        ("think_qwen_unsigned", "2.1.325", 11, "thinking-unsigned"),
        ("nt_lastanswer_sysleaf", "2.1.325", 12, "bad-time"),
        ("nt_sysleaf_itself", "2.1.325", 0, ""),
        ("local_only_lastprompt_names_end", "2.1.325", 0, ""),
        ("named_sidechain", "2.1.325", 12, "no-end"),
        ("om_plain", "2.1.325", 0, "open-call"),
        ("queue_first_never_dequeued", "2.1.325", 10, "queued-prompt"),
        ("in_Read_number", "2.1.45", 12, "call-input"),
    ] {
        let env = Env::bare();
        env.put("case.jsonl", observed(case));
        let output = env.output(&["check", "case.jsonl", "--as", version]);
        let text = env.show(&output);
        assert_eq!(output.status.code(), Some(code), "{case}: {text}");
        assert!(text.contains(finding), "{case}: {text}");
        let sent = env.output(&["history", "case.jsonl", "--as", version, "--then", "go on"]);
        assert_eq!(sent.status.success(), code != 12, "{case}: {}", env.show(&sent));
    }
}

/// What is mended resumes fully, and every result is sent with its call.
#[test]
fn a_repaired_session_sends_everything() {
    for (case, texts) in [
        ("prompt_hangs_on_progress", &["result 1", "answer 1", "prompt 2"][..]),
        ("rid_linear_both", &["result 1", "result 2", "t1_2x2"]),
        ("think_qwen_unsigned", &["answer 1"]),
    ] {
        let env = Env::bare();
        env.put("case.jsonl", observed(case));
        let output = env.run(&["repair", "case.jsonl", "-o", "mended.jsonl"]);
        assert!(output.starts_with("exit 0\n"), "{case}: {output}");
        let output = env.run(&["check", "mended.jsonl"]);
        assert!(output.starts_with("exit 0\n"), "{case}: {output}");
        let sent = env.run(&["history", "mended.jsonl", "--then", "go on", "--json"]);
        for text in texts {
            assert!(sent.contains(text), "{case}: {text} in {sent}");
        }
        assert!(
            !sent.contains("Tool result missing") && !sent.contains("made elsewhere"),
            "{sent}"
        );
    }
}

/// The samples are what they are called: all but the damaged one resume fully.
#[test]
fn samples_resume_fully() {
    let env = Env::bare();
    let samples = testkit::root().join("samples/home/projects/-home-dev-tidepool");
    let mut verdicts = Vec::new();
    for file in std::fs::read_dir(samples).unwrap().flatten() {
        let name = file.file_name().into_string().unwrap();
        if !file.path().is_file() || name.starts_with("agent-") {
            continue;
        }
        let output = env.output(&["check", file.path().to_str().unwrap(), "--json"]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        verdicts.push((name[..8].to_owned(), report["verdict"].as_str().unwrap().to_owned()));
    }
    verdicts.sort();
    assert!(verdicts.len() >= 8, "{verdicts:?}");
    let broken: Vec<_> = verdicts.iter().filter(|(_, verdict)| verdict != "full").collect();
    assert_eq!(broken, [&("e9ada63f".to_owned(), "loss".to_owned())]);
}

/// The installed client, found beside the program without running it, and versions that nobody
/// observed.
#[test]
fn the_installed_version_and_versions_that_nobody_observed() {
    let env = Env::bare();
    env.put("case.jsonl", fixture("parallel_siblings"));
    let client = env.put("share/claude/versions/2.1.45", "#!/bin/sh\ntouch was-run\n");
    let runs = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&client, runs).unwrap();
    std::fs::create_dir(env.path("bin")).unwrap();
    std::os::unix::fs::symlink(&client, env.path("bin/claude")).unwrap();
    let mut text = String::new();
    for (args, has_client) in [
        (&["check", "case.jsonl"][..], true),
        (&["check", "case.jsonl", "--as", "installed"], true),
        (&["check", "case.jsonl", "--as", "installed"], false),
        (&["check", "case.jsonl", "--as", "9.9.9"], false),
        (&["history", "case.jsonl", "--as", "installed", "--json"], true),
    ] {
        let mut command = env.command(args);
        command.env("PATH", if has_client { env.path("bin") } else { env.path("nowhere") });
        let shown = env.show(&command.output().unwrap());
        let shown: String = shown.chars().take(900).collect();
        writeln!(text, "### {args:?} {has_client}\n{shown}").unwrap();
    }
    assert!(!env.path("was-run").exists());
    assert_snapshot!(text);
}

/// The ranges of a report cover all published versions, one after the other.
#[test]
fn ranges_have_no_gaps() {
    let env = Env::bare();
    env.put("case.jsonl", fixture("parallel_siblings"));
    let output = env.output(&["check", "case.jsonl", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let ranges = report["ranges"].as_array().unwrap();
    assert_eq!(ranges[0]["from"], "1.0.128");
    assert_eq!(ranges.last().unwrap()["to"], "2.1.325");
    assert_eq!(report["observed"], true);
    for version in report["versions"].as_array().unwrap() {
        let output = env.output(&[
            "check",
            "case.jsonl",
            "--json",
            "--as",
            version["version"].as_str().unwrap(),
        ]);
        let one: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(one["verdict"], version["verdict"], "{version}");
        assert_eq!(one["ranges"], report["ranges"], "{version}");
    }
}
