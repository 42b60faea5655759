//! `quipu search` and `quipu index`.

use std::fmt::Write as _;
use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use insta::assert_snapshot;
use serde_json::Value;

use crate::env::Env;

fn found(env: &Env, args: &[&str]) -> Vec<String> {
    let output = env.output(&[&["search", "--json"], args].concat());
    assert!(output.status.success(), "{}", env.show(&output));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let sessions = value["sessions"].as_array().unwrap().iter();
    sessions.map(|session| session["id"].as_str().unwrap()[..8].to_owned()).collect()
}

#[test]
fn sessions_with_these_words() {
    let env = Env::with_samples();
    let mut text = String::new();
    for args in [
        &["search", "boots"][..],
        &["search", "日本語"],
        &["search", "\"an hour late\" tool*"],
        &["search", "kind:prompt", "release", "--hits", "1"],
        &["search", "--files", "tidepool/sightings.py", "--limit", "2", "--hits", "1"],
        &["search", "/t[a-z]+pool/", "--limit", "1", "--hits", "1"],
        &["search", "xyzzy"],
    ] {
        writeln!(text, "$ quipu {}\n{}", args.join(" "), env.run(args)).unwrap();
    }
    assert_snapshot!(env.cleaned(&text));
}

#[test]
fn queries_that_are_none() {
    let env = Env::with_samples();
    let mut text = String::new();
    for args in [
        &["search", "--", ""][..],
        &["search", "/(/"],
        &["search", "kind:joke"],
        &["search", "cost>much"],
        &["search", "after:never x"],
        &["search", "x", "--here"],
        &["search", "x", "--catalog", "/dev/null"],
        &["search", "x", "--catalog", ".claude/projects/c.sqlite"],
    ] {
        writeln!(text, "$ quipu {}\n{}", args.join(" "), env.run(args)).unwrap();
    }
    assert_snapshot!(env.cleaned(&text));
}

/// A hit in a sub-agent names it, and the command below opens it there; so it is for those in the
/// session's file.
#[test]
fn hits_in_sub_agents() {
    let env = Env::bare();
    let folders = [("2.1.325/e_agent", "a4a50c91573cd0ad1"), ("1.0.128/e_agent", "line-")];
    for (at, (name, agent)) in folders.into_iter().enumerate() {
        let folder = testkit::fixtures().join("recordings").join(name).join("projects");
        for file in testkit::files_under(std::slice::from_ref(&folder)) {
            let inside = file.path.strip_prefix(&folder).unwrap();
            let inside = format!("home{at}/projects/{}", inside.display());
            env.put(&inside, fs::read(&file.path).unwrap());
        }
        let run = |args: &[&str]| {
            let home = env.path(&format!("home{at}"));
            env.command(args).env("CLAUDE_CONFIG_DIR", home).output().unwrap()
        };
        for query in ["kind:prompt LAB", "kind:prompt /LAB-SUB/"] {
            let found: Value =
                serde_json::from_slice(&run(&["search", query, "--json"]).stdout).unwrap();
            let sessions = found["sessions"].as_array().unwrap();
            assert!(!sessions.is_empty(), "{found}");
            for hit in sessions.iter().flat_map(|one| one["hits"].as_array().unwrap()) {
                assert!(hit["agent"].as_str().unwrap_or_default().starts_with(agent), "{hit}");
                assert!(hit["turn"].is_null());
            }
            let text = env.show(&run(&["search", query, "--limit", "1"]));
            let command = text.lines().find_map(|line| line.trim().strip_prefix("quipu show "));
            let command: Vec<&str> = command.unwrap().split(' ').collect();
            let text = env.show(&run(&[&["show", "--full"], command.as_slice()].concat()));
            assert!(text.contains("LAB-SUB") && text.contains("sub-agent"), "{text}");
        }
    }
}

/// Of a session that is being written, a search reads what is new and a little before it.
#[test]
fn a_session_that_grows_is_not_read_again() {
    let env = Env::bare();
    let line = |at: usize, text: &str| {
        let parent = at.checked_sub(1).map(|at| format!("u{at}"));
        let message = serde_json::json!({"role": "user", "content": text});
        let line = serde_json::json!({"type": "user", "uuid": format!("u{at}"), "message": message,
            "parentUuid": parent, "sessionId": "s",
            "timestamp": format!("2026-11-01T{:02}:{:02}:00.000Z", at / 60, at % 60)});
        format!("{line}\n")
    };
    let filler = "apple ".repeat(2_000);
    let mut text: String = (0..400).map(|at| line(at, &filler)).collect();
    // Both ends of what was read are compared.
    let [first, early] =
        [1, 100].map(|count| (0..count).map(|at| line(at, &filler).len()).sum::<usize>());
    let path = env.put(".claude/projects/-app/feed0001.jsonl", &text);
    let search = |word: &str| {
        let found = env.output(&["search", word, "--json", "--hits", "1"]).stdout;
        let found: Value = serde_json::from_slice(&found).unwrap();
        found["sessions"][0]["hits"][0]["turn"].as_u64()
    };
    assert!(search("apple").is_some());
    for at in 400..403 {
        text += &line(at, &format!("pear{at}"));
        // What was read before is not looked at again: only its lines are where they were.
        let old = text[first..early].chars().map(|c| if c == '\n' { c } else { 'x' });
        let old: String = old.collect();
        fs::write(&path, [&text[..first], &old, &text[early..]].concat()).unwrap();
        assert_eq!(search(&format!("pear{at}")), Some(at as u64 + 1));
    }
}

#[test]
fn answers_are_bounded() {
    let env = Env::with_samples();
    let output = env.output(&["search", "tidepool", "--json", "--limit", "2"]);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (value["sessions"].as_array().unwrap().len(), &value["truncated"]),
        (2, &Value::Bool(true))
    );
    assert!(value["total"].as_u64() > Some(2));
    // However many characters become two in JSON.
    for most in [3_000, 6_000, 20_000] {
        let size = most.to_string();
        let bounds = ["--limit", "100", "--hits", "64", "--max-bytes", size.as_str()];
        let output = env.output(&[&["search", "tidepool", "--json"], &bounds[..]].concat());
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(value["truncated"], true, "{most}");
        let around = 100;
        assert!(output.stdout.len() < most + around, "{most}: {}", output.stdout.len());
        let output = env.output(&[&["search", "tidepool"], &bounds[..]].concat());
        assert!(output.stdout.len() < most && !output.stdout.is_empty());
        let note = String::from_utf8(output.stderr).unwrap();
        assert!(note.contains("`--max-bytes` shows more"), "{note}");
    }
}

/// What was deleted is still found by its title, and its words are not.
#[test]
fn deleted_sessions() {
    let env = Env::with_samples();
    assert_eq!(found(&env, &["boots", "session:d51c8060"]), ["d51c8060"]);
    assert_eq!(found(&env, &["water", "session:d51c8060"]), ["d51c8060"]);
    for file in testkit::files_under(&[env.path(".claude/projects")]) {
        if file.path.to_string_lossy().contains("d51c8060") {
            fs::remove_file(&file.path).unwrap();
        }
    }
    assert_eq!(found(&env, &["boots"]), ["d51c8060"]);
    assert_snapshot!(env.run(&["search", "boots"]));
    let status = env.output(&["index", "--status", "--json"]).stdout;
    let status: Value = serde_json::from_slice(&status).unwrap();
    assert_eq!((status["files"].as_u64(), status["deleted"].as_u64()), (Some(11), Some(4)));
}

#[test]
fn a_damaged_catalog_is_made_anew_and_another_one_is_refused() {
    let env = Env::with_samples();
    assert_eq!(found(&env, &["boots"]), ["d51c8060"]);
    let catalog = env.path(".cache/quipu/catalog.sqlite");
    for end in ["-wal", "-shm"] {
        let _ = fs::remove_file(env.path(&format!(".cache/quipu/catalog.sqlite{end}")));
    }
    let mut bytes = fs::read(&catalog).unwrap();
    bytes[100..4_096].fill(7);
    fs::write(&catalog, &bytes).unwrap();
    let output = env.output(&["search", "boots"]);
    let text = env.show(&output);
    assert!(text.contains("is damaged: it is made anew") && text.contains("d51c8060"), "{text}");
    assert!(output.status.success());
    // Somebody's file is not touched.
    let notes =
        env.put("notes.txt", "what I must not forget, and it is long enough to be a header");
    assert_snapshot!(env.run(&["search", "boots", "--catalog", "notes.txt"]));
    assert!(fs::read_to_string(notes).unwrap().starts_with("what I must not forget"));
}

/// The version of a catalog is in the head of its file.
fn set_version(env: &Env, version: u32) -> Vec<u8> {
    let path = env.path(".cache/quipu/catalog.sqlite");
    let mut bytes = fs::read(&path).unwrap();
    bytes[60..64].copy_from_slice(&version.to_be_bytes());
    fs::write(path, &bytes).unwrap();
    bytes
}

#[test]
fn a_catalog_of_another_version_is_changed_only_when_that_is_wanted() {
    let env = Env::with_samples();
    env.output(&["index"]);
    for file in testkit::files_under(&[env.path(".claude/projects")]) {
        if file.path.to_string_lossy().contains("d51c8060") {
            fs::remove_file(&file.path).unwrap();
        }
    }
    env.output(&["index"]);
    let catalog = env.path(".cache/quipu/catalog.sqlite");
    let mut text = String::new();
    let cases: [(u32, &[&[&str]]); 2] = [
        (3, &[&["index", "--status"], &["usage", "--limit", "1", "--csv"]]),
        (99, &[&["search", "boots"], &["index", "--status"], &["usage", "--limit", "1", "--csv"]]),
    ];
    for (version, commands) in cases {
        let before = set_version(&env, version);
        for args in commands {
            let shown = env.run(args).replace(env.path("").to_str().unwrap(), "[HOME]/");
            writeln!(text, "### version {version}: {}\n{shown}", args.join(" ")).unwrap();
        }
        assert!(fs::read(&catalog).unwrap() == before, "version {version} was changed");
    }
    let output = env.output(&["index", "--rebuild"]);
    assert!(output.status.success(), "{}", env.show(&output));
    let note = String::from_utf8(output.stderr).unwrap();
    assert!(note.contains("what is known of 1 session without a file is kept"), "{note}");
    assert_eq!(found(&env, &["boots"]), ["d51c8060"]);
    for part in ["older version of quipu", "newer version of quipu", "without those that are gone"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// A folder that gets another name is no new session, and the old one is not deleted.
#[test]
fn moved_sessions_are_known_only_where_they_are() {
    let env = Env::with_samples();
    env.output(&["index"]);
    let files = testkit::files_under(&[env.path(".claude/projects")]);
    let file = files
        .iter()
        .find(|file| file.path.ends_with("d51c8060-43e2-4943-83ac-df8ce666b53d.jsonl"))
        .unwrap();
    let folder = file.path.parent().unwrap();
    fs::rename(folder, folder.with_file_name("-srv-elsewhere")).unwrap();
    let by_project = |more: &[&str]| {
        let args = [&["usage", "--json", "--by", "project"], more].concat();
        let found: Value = serde_json::from_slice(&env.output(&args).stdout).unwrap();
        found["rows"].clone()
    };
    let plain = by_project(&["--no-catalog"]);
    assert_eq!(by_project(&[]), plain);
    assert_eq!(found(&env, &["boots"]), ["d51c8060"]);
    assert_eq!(by_project(&[]), plain);
    let status = env.output(&["index", "--status", "--json"]).stdout;
    let status: Value = serde_json::from_slice(&status).unwrap();
    assert_eq!(status["deleted"], 0);
    let output = env.output(&["index", "--forget", "d51c8060"]);
    assert!(env.show(&output).contains("is still there"));
}

/// Ended at random moments, the next run gives the same catalog as a fresh one; two at once, too.
#[test]
fn interrupted_runs_lose_nothing() {
    let env = Env::in_memory();
    for (at, file) in testkit::own_files().iter().enumerate() {
        let name = file.path.file_stem().unwrap().to_string_lossy();
        env.put(
            &format!(".claude/projects/p{}/{at}-{name}.jsonl", at % 7),
            fs::read(&file.path).unwrap(),
        );
    }
    let mut rng = testkit::Rng::new(19);
    let mut ended = 0;
    for round in 0..50 {
        if round % 3 == 0 {
            let _ = fs::remove_dir_all(env.path(".cache"));
        }
        let mut child =
            env.command(&["index"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(rng.below(150) as u64));
        ended += usize::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        if round % 5 == 4 {
            // The next run goes on, and then all is there.
            let output = env.output(&["index", "--verify"]);
            assert!(output.status.success(), "{}", env.show(&output));
        }
    }
    assert!(ended > 10, "only {ended} of 50 were ended");
    let index = |name: &str| env.command(&["index", "--catalog", name]).output().unwrap();
    thread::scope(|scope| {
        let both = [(); 2].map(|()| scope.spawn(|| env.output(&["index"])));
        let reader = scope.spawn(|| env.output(&["search", "prompt"]));
        for run in both.into_iter().chain([reader]) {
            let output = run.join().unwrap();
            assert!(output.status.success(), "{}", env.show(&output));
        }
    });
    assert!(index("fresh/c.sqlite").status.success());
    let usage = |args: &[&str]| {
        env.output(&[&["search", "--json", "--limit", "1000"], args].concat()).stdout
    };
    for query in ["prompt", "answer", "bash", "result"] {
        let fresh = usage(&[query, "--catalog", "fresh/c.sqlite"]);
        assert!(fresh.len() > 1_000);
        assert_eq!(usage(&[query]), fresh);
    }
}

#[test]
fn a_catalog_is_verified_and_sessions_are_forgotten() {
    let env = Env::with_samples();
    let path = env.put(
        ".claude/projects/-app/feed0001.jsonl",
        r#"{"type":"user","uuid":"a","message":{"role":"user","content":"persimmon"}}"#,
    );
    let mut text = String::new();
    let mut run = |args: &[&str]| {
        let shown = env.run(args).replace(env.path("").to_str().unwrap(), "[HOME]/");
        writeln!(text, "{}\n{shown}", args.join(" ")).unwrap();
    };
    run(&["index", "--verify"]);
    run(&["index", "--forget", "feed"]);
    fs::remove_file(path).unwrap();
    run(&["search", "persimmon"]);
    run(&["index", "--forget", "feed"]);
    run(&["search", "persimmon"]);
    run(&["index", "--forget", "feed"]);
    run(&["index", "--verify"]);
    assert_snapshot!(text);
}
