//! Changes as a user makes them: what is said, what is written, what is not, and what can be taken
//! back.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use insta::assert_snapshot;
use testkit::session::Script;

use crate::env::{Env, set_age};

const NEW: &str = "0e000000-1111-4222-8333-444444444444";
/// A session with a sub-agent in its folder, one with sub-agents beside it, a damaged one.
const NESTED: &str = "c5b9db19-a9fa-42b7-9f6b-0b8b73532119";
const FLAT: &str = "ade43c95-f68a-4a69-9e1e-f0407a2ad094";
const DAMAGED: &str = "badc0ffe-0000-4000-8000-00000000d00d";

/// What is said, with the id of the new session given.
fn run(env: &Env, args: &[&str]) -> String {
    env.show(&env.command(args).env("QUIPU_ID", NEW).output().unwrap())
}

/// All files with what they hold.
fn files(env: &Env) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![env.path("")];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                open.push(entry.path());
            } else {
                found.insert(entry.path(), fs::read(entry.path()).unwrap());
            }
        }
    }
    found
}

fn session(env: &Env, id: &str) -> PathBuf {
    env.path(&format!(".claude/projects/-home-dev-demo/{id}.jsonl"))
}

#[test]
fn every_change_says_what_it_does() {
    let mut text = String::new();
    for args in [
        &["clone", NESTED][..],
        &["fork", NESTED, "--at", "1"],
        &["strip", NESTED, "--preset", "extreme", "--dry-run"],
        &["strip", NESTED, "--calls", "--tool", "Task"],
        &["repair", DAMAGED],
        &["repair", DAMAGED, "--in-place"],
        &["repair", DAMAGED, "-o", "repaired.jsonl", "--json"],
        &["strip", FLAT, "--copies", "--noise", "-o", "small.jsonl"],
    ] {
        let env = Env::with_sessions();
        writeln!(text, "### quipu {}\n{}", args.join(" "), run(&env, args)).unwrap();
        writeln!(text, "### quipu undo --list\n{}", run(&env, &["undo", "--list"])).unwrap();
    }
    assert_snapshot!(text);
}

#[test]
fn a_change_that_was_taken_back_leaves_no_trace() {
    for args in [
        &["clone", FLAT][..],
        &["fork", NESTED],
        &["strip", NESTED, "--preset", "extreme"],
        &["repair", DAMAGED],
        &["repair", DAMAGED, "--in-place"],
        &["strip", NESTED, "--thinking", "--noise", "--in-place"],
    ] {
        let env = Env::with_sessions();
        let before = files(&env);
        let modified = fs::metadata(session(&env, DAMAGED)).unwrap().modified().unwrap();
        let output = run(&env, args);
        assert!(output.starts_with("exit 0"), "{args:?}: {output}");
        assert_ne!(files(&env), before, "{args:?}");
        let output = run(&env, &["undo"]);
        assert!(output.starts_with("exit 0"), "{args:?}: {output}");
        assert_eq!(files(&env), before, "{args:?}");
        assert_eq!(fs::metadata(session(&env, DAMAGED)).unwrap().modified().unwrap(), modified);
    }
}

#[test]
fn without_being_asked_nothing_else_is_written() {
    for (args, made) in [
        (&["strip", NESTED, "--preset", "heavy", "--dry-run"][..], None),
        (&["repair", DAMAGED, "--dry-run", "--in-place"], None),
        (&["clone", NESTED, "-o", "copy.jsonl"], Some("copy.jsonl")),
        (&["repair", DAMAGED, "-o", "-"], None),
        (&["clone", NESTED, "--keep-ids", "-o", "-"], None),
    ] {
        let env = Env::with_sessions();
        let before = files(&env);
        let output = env.output(args);
        assert!(output.status.success(), "{args:?}");
        let mut after = files(&env);
        if let Some(made) = made {
            assert!(after.remove(&env.path(made)).is_some());
        }
        assert_eq!(after, before, "{args:?}");
    }
}

#[test]
fn a_clone_that_keeps_its_ids_is_the_same_file() {
    let env = Env::with_sessions();
    for id in [NESTED, FLAT, DAMAGED] {
        let text = run(&env, &["clone", id, "--keep-ids", "-o", "same.jsonl", "--force"]);
        assert!(text.starts_with("exit 0"), "{text}");
        assert_eq!(fs::read(env.path("same.jsonl")).unwrap(), fs::read(session(&env, id)).unwrap());
        let output = env.output(&["clone", id, "--keep-ids", "-o", "-"]);
        assert_eq!(output.stdout, fs::read(session(&env, id)).unwrap());
    }
}

/// Everything that belongs to the session goes along, under its new name, and nothing of it names
/// the old one.
#[test]
fn what_belongs_to_a_session_goes_along() {
    for old in [NESTED, FLAT] {
        let env = Env::with_sessions();
        env.put(&format!(".claude/todos/{old}-agent-{old}.json"), "[]");
        env.put(&format!(".claude/file-history/{old}/0123456789abcdef@v1"), "old text");
        let folder = format!(".claude/projects/-home-dev-demo/{old}");
        env.put(&format!("{folder}/tool-results/toolu_1.txt"), "a long result");
        let before = files(&env);
        let output = run(&env, &["clone", old]);
        assert!(output.starts_with("exit 0"), "{output}");
        let journal = env.path(".local/state");
        let made: BTreeMap<PathBuf, Vec<u8>> = files(&env)
            .into_iter()
            .filter(|(path, _)| !before.contains_key(path) && !path.starts_with(&journal))
            .collect();
        let mut ids = vec![old.to_owned()];
        for record in fs::read_to_string(session(&env, old)).unwrap().lines() {
            let record: serde_json::Value = serde_json::from_str(record).unwrap();
            ids.extend(record["uuid"].as_str().map(str::to_owned));
        }
        for (path, bytes) in &made {
            let text = String::from_utf8_lossy(bytes);
            for id in &ids {
                assert!(!text.contains(id.as_str()), "{} names {id}", path.display());
            }
        }
        let names: Vec<String> = made
            .keys()
            .map(|path| path.strip_prefix(env.path(".claude")).unwrap().display().to_string())
            .collect();
        assert_snapshot!(format!("along_{}", &old[..4]), names.join("\n"));
        // The copy has its agents, as the original has.
        let agents = |id: &str| {
            let text = env.run(&["tree", id]);
            text.lines().filter(|line| line.contains("agent")).count()
        };
        assert_eq!(agents(old), agents(NEW));
    }
}

#[test]
fn a_session_that_is_in_use_is_not_touched() {
    let env = Env::with_sessions();
    let path = session(&env, DAMAGED);
    let before = fs::read(&path).unwrap();
    let mut text = String::new();
    let mut refused = |env: &Env, what: &str| {
        let output = run(env, &["repair", DAMAGED, "--in-place"]);
        let output: String = output
            .lines()
            .map(|line| {
                let word = line.split_whitespace().map(|word| {
                    if word.parse::<u32>().is_ok() && word.len() > 2 { "[PID]" } else { word }
                });
                word.collect::<Vec<_>>().join(" ") + "\n"
            })
            .collect();
        writeln!(text, "### {what}\n{output}").unwrap();
        assert_eq!(fs::read(&path).unwrap(), before);
    };
    set_age(&path, 3);
    refused(&env, "written to three seconds ago");
    set_age(&path, 3_600);
    // Somebody has it open.
    let mut tail = std::process::Command::new("sleep")
        .arg("60")
        .stdin(Stdio::from(fs::File::open(&path).unwrap()))
        .spawn()
        .unwrap();
    refused(&env, "open in another process");
    tail.kill().unwrap();
    tail.wait().unwrap();
    // The client says that it runs.
    let pid = std::process::id();
    env.put(".claude/sessions/1.json", format!(r#"{{"pid":{pid},"sessionId":"{DAMAGED}"}}"#));
    refused(&env, "named by a running client");
    assert_snapshot!(text);
    // A client that ended without saying so is no reason.
    env.put(".claude/sessions/1.json", format!(r#"{{"pid":4194999,"sessionId":"{DAMAGED}"}}"#));
    let output = run(&env, &["repair", DAMAGED, "--in-place"]);
    assert!(output.starts_with("exit 0"), "{output}");
    assert_ne!(fs::read(&path).unwrap(), before);
    // And whoever insists gets it.
    run(&env, &["undo"]);
    set_age(&path, 3);
    let output = run(&env, &["repair", DAMAGED, "--in-place", "--force"]);
    assert!(output.starts_with("exit 0"), "{output}");
}

#[test]
fn what_cannot_be_done_is_said() {
    let env = Env::with_sessions();
    env.put("there.jsonl", "mine");
    env.put(
        "calls.jsonl",
        Script::new().call("a", "-", "m", "t", "Read").result("r", "a", "t", "x").text(),
    );
    env.put("empty.jsonl", "");
    fs::create_dir_all(env.path("folder")).unwrap();
    let mut text = String::new();
    for args in [
        &["clone", NESTED, "-o", "there.jsonl"][..],
        &["clone", NESTED, "-o", "no/such/folder.jsonl"],
        &["clone", NESTED, "--keep-ids"],
        &["clone", "folder"],
        &["clone", "nowhere.jsonl"],
        &["strip", NESTED],
        &["strip", NESTED, "--results", "--over", "lots"],
        &["strip", "calls.jsonl", "--calls"],
        &["strip", NESTED, "--thinking", "--in-place", "-o", "x.jsonl"],
        &["fork", NESTED, "--at", "9"],
        &["fork", NESTED, "--at", "zzzzzzzz"],
        &["fork", NESTED, "--branch", ""],
        &["fork", "empty.jsonl"],
        &["repair", "empty.jsonl"],
        &["repair", NESTED],
        &["repair", NESTED, "--for", "newest"],
        &["undo"],
        &["undo", "nothing"],
    ] {
        writeln!(text, "### quipu {}\n{}", args.join(" "), run(&env, args)).unwrap();
    }
    assert_eq!(fs::read(env.path("there.jsonl")).unwrap(), b"mine");
    assert_snapshot!(text);
}

#[test]
fn a_full_disk_is_said_and_leaves_everything_as_it_was() {
    let env = Env::with_sessions();
    let before = files(&env);
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output =
        env.command(&["clone", NESTED, "--keep-ids", "-o", "-"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(files(&env), before);
}

/// A record that is too long to hold: what is to go is found in it, and the rest streams by.
#[test]
fn images_go_from_records_of_any_length() {
    let env = Env::bare();
    let data = "QUJD".repeat(6_000_000);
    let image = format!(
        r#"{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{data}"}}}}"#
    );
    let members = format!(
        r#""message":{{"role":"user","content":[{{"type":"text","text":"look"}},{image}]}},"kept":"{}""#,
        "z".repeat(9_000_000)
    );
    let script = Script::new().record("user", "p", "-", &members).says("a", "p", "m", "seen");
    env.put("long.jsonl", script.text());
    let output = run(&env, &["strip", "long.jsonl", "--images", "-o", "short.jsonl"]);
    assert!(output.starts_with("exit 0"), "{output}");
    let expected = script
        .text()
        .replace(&image, r#"{"type":"text","text":"[image of type image/png removed]"}"#);
    let found = fs::read_to_string(env.path("short.jsonl")).unwrap();
    assert!(found == expected, "{} bytes", found.len());
}

fn age(path: &Path) {
    set_age(path, 3_600);
}

/// The program killed at any moment of a change in place: the file is what it was, or what it
/// should become.
#[test]
fn a_kill_leaves_the_old_file_or_the_new_one() {
    let env = Env::bare();
    let mut script = Script::new();
    let mut last = "-".to_owned();
    for turn in 0..4_000 {
        let (prompt, call, result) = (format!("p{turn}"), format!("c{turn}"), format!("r{turn}"));
        script = script.prompt(&prompt, &last, "go").call(
            &call,
            &prompt,
            &format!("m{turn}"),
            &format!("t{turn}"),
            "Read",
        );
        script = script.result(&result, &call, &format!("t{turn}"), &"x".repeat(500));
        last = result;
    }
    let path = env.put("s.jsonl", script.text());
    let old = fs::read(&path).unwrap();
    age(&path);
    assert!(run(&env, &["strip", "s.jsonl", "--results", "-o", "new.jsonl"]).starts_with("exit 0"));
    let new = fs::read(env.path("new.jsonl")).unwrap();
    let mut seen = [0, 0];
    for round in 0..30_u64 {
        let mut child = env
            .command(&["strip", "s.jsonl", "--results", "--in-place"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(round * 5));
        let _ = child.kill();
        child.wait().unwrap();
        let is = fs::read(&path).unwrap();
        assert!(is == old || is == new, "round {round}: neither the old file nor the new one");
        seen[usize::from(is == new)] += 1;
        if is == new {
            let output = run(&env, &["undo", "--force"]);
            assert!(output.starts_with("exit 0"), "round {round}: {output}");
            assert_eq!(fs::read(&path).unwrap(), old, "round {round}");
            age(&path);
        }
    }
    assert!(seen[0] > 0, "never killed in time");
}

/// A new session of a record that is too long to hold: its ids are new too, and what was signed in
/// it is not touched.
#[test]
fn ids_are_new_in_records_of_any_length() {
    let env = Env::bare();
    let ids = |last: u32| format!("00000000-0000-4000-8000-00000000000{last}");
    let long = "x".repeat(17 << 20);
    let thinking = format!(r#"{{"type":"thinking","thinking":"{}","signature":"c2ln"}}"#, ids(1));
    let answer = format!(r#"{thinking},{{"type":"text","text":"{long}"}}"#);
    let script = Script::new()
        .prompt(&ids(1), "-", "one")
        .call(&ids(2), &ids(1), "m1", "t1", "Read")
        .result(&ids(3), &ids(2), "t1", "x")
        .block(&ids(4), &ids(3), "m2", &answer)
        .prompt(&ids(5), &ids(4), "two");
    env.put("long.jsonl", script.text());
    let output = run(&env, &["strip", "long.jsonl", "--results"]);
    assert!(output.contains("nothing to strip"), "{output}");
    let output = run(&env, &["clone", "long.jsonl"]);
    assert!(output.starts_with("exit 0"), "{output}");
    let made = fs::read_to_string(env.path(&format!("{NEW}.jsonl"))).unwrap();
    let old: Vec<_> = made.match_indices("00000000-0000-4000-8000").collect();
    assert_eq!(old.len(), 1, "but for what was signed no old id is left");
    let output = run(&env, &["strip", "long.jsonl", "--calls", "-o", "-"]);
    assert!(output.contains(&format!(r#""parentUuid":"{}""#, ids(1))), "hung on the prompt");
}

#[test]
fn in_place_is_what_a_link_leads_to_and_never_what_o_names() {
    let env = Env::with_sessions();
    let path = session(&env, DAMAGED);
    let before = fs::read(&path).unwrap();
    let link = env.path("link.jsonl");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let output = run(&env, &["repair", "link.jsonl", "-o", path.to_str().unwrap(), "--force"]);
    assert!(output.starts_with("exit 2") && output.contains("own file"), "{output}");
    assert_eq!(fs::read(&path).unwrap(), before);
    let output = run(&env, &["repair", "link.jsonl", "--in-place"]);
    assert!(output.starts_with("exit 0"), "{output}");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_ne!(fs::read(&path).unwrap(), before);
    run(&env, &["undo"]);
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn what_a_forced_undo_takes_away_comes_back_with_the_next() {
    let env = Env::with_sessions();
    let path = session(&env, NESTED);
    run(&env, &["strip", NESTED, "--thinking", "--noise", "--in-place"]);
    let mut changed = fs::read(&path).unwrap();
    changed.extend_from_slice(b"{\"type\":\"ai-title\",\"aiTitle\":\"later\"}\n");
    env.put(&format!(".claude/projects/-home-dev-demo/{NESTED}.jsonl"), &changed);
    assert!(run(&env, &["undo"]).starts_with("exit 5"));
    assert!(run(&env, &["undo", "--force"]).starts_with("exit 0"));
    assert_ne!(fs::read(&path).unwrap(), changed);
    assert!(run(&env, &["undo"]).starts_with("exit 0"));
    assert_eq!(fs::read(&path).unwrap(), changed);
}

/// Turns that are to be kept are kept whole.
#[test]
fn kept_turns_lose_nothing() {
    let env = Env::bare();
    let copied = |script: Script, turn: u32| {
        let members = format!(
            r#""message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t{turn}","content":"x"}}]}},"toolUseResult":{{"a":1}}"#
        );
        let last = if turn == 0 { "-".to_owned() } else { format!("a{}", turn - 1) };
        script
            .prompt(&format!("p{turn}"), &last, "go")
            .call(
                &format!("c{turn}"),
                &format!("p{turn}"),
                &format!("m{turn}"),
                &format!("t{turn}"),
                "Read",
            )
            .record("user", &format!("r{turn}"), &format!("c{turn}"), &members)
            .says(&format!("a{turn}"), &format!("r{turn}"), &format!("n{turn}"), "done")
    };
    let script = (0..4).fold(Script::new(), copied);
    env.put("s.jsonl", script.text());
    let output =
        env.output(&["strip", "s.jsonl", "--copies", "--calls", "--older-than", "2", "-o", "-"]);
    let kept = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        (kept.matches("toolUseResult").count(), kept.matches("tool_use_id").count()),
        (2, 2)
    );
    // The two turns that stay do so byte for byte; of the others, what was said.
    let (was, is): (Vec<&str>, Vec<&str>) =
        (script.text().lines().collect(), kept.lines().collect());
    assert_eq!(is.len(), 4 + 8);
    assert_eq!(is[4..], was[8..]);
}

/// Whoever opened the file before it was replaced and writes a moment later loses nothing.
#[test]
fn a_line_that_comes_in_the_moment_of_the_change_is_kept() {
    let mut late = 0;
    for round in 0..20_u64 {
        let env = Env::with_sessions();
        let path = session(&env, NESTED);
        let mut child = env
            .command(&["strip", NESTED, "--noise", "--in-place", "--force"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(round * 400));
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        std::thread::sleep(Duration::from_millis(2));
        std::io::Write::write_all(&mut file, b"{\"type\":\"ai-title\",\"aiTitle\":\"late\"}\n")
            .unwrap();
        drop(file);
        let is_done = child.wait().unwrap().success();
        let kept = fs::read_to_string(&path).unwrap().contains("\"late\"");
        assert!(kept, "round {round}, changed: {is_done}");
        late += u32::from(is_done);
    }
    assert!(late > 0, "never changed");
}

/// A session of one prompt and many calls, as agents work.
fn one_turn(calls: usize) -> String {
    let mut script = Script::new().prompt("p", "-", "do it all");
    let mut above = "p".to_owned();
    for at in 0..calls {
        let [call, result, answer] = ["c", "r", "m"].map(|name| format!("{name}{at}"));
        script = script.call(&call, &above, &answer, &format!("toolu_{at}"), "Read").result(
            &result,
            &call,
            &format!("toolu_{at}"),
            &"x".repeat(6_000),
        );
        above = result;
    }
    script.says("end", &above, "m-end", "done").text().to_owned()
}

/// Each preset takes out more than the one before it; one that keeps everything says why, and what
/// would help.
#[test]
fn presets_are_a_ladder_on_one_turn() {
    let env = Env::bare();
    env.put("long.jsonl", one_turn(49));
    let bytes = |preset: &str| {
        let args = ["strip", "long.jsonl", "--preset", preset, "--dry-run", "--json"];
        let output = env.output(&args);
        let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(output.stderr, b"", "{preset}: not everything stays");
        found["after"]["bytes"].as_u64().unwrap()
    };
    let sizes = ["medium", "heavy", "extreme"].map(bytes);
    assert!(sizes.is_sorted_by(|one, other| one > other), "{sizes:?}");
    env.put("short.jsonl", one_turn(6));
    assert_snapshot!(env.run(&["strip", "short.jsonl", "--preset", "heavy", "--dry-run"]), @r"
    exit 0
    --- stderr
    nothing to strip
    all 6 results are in the last 2 turns and 8 answers, which `heavy` keeps; `--results --older-than 0` would save ~9,498 tokens
    ");
    // By the same count as the proof.
    let help = env.run(&["strip", "short.jsonl", "--results", "--older-than", "0", "--dry-run"]);
    let flat = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("~9,498 tokens less"), "{help}");
    let all = env.run(&["strip", "short.jsonl", "--results", "--older-than", "1", "--dry-run"]);
    assert!(all.contains("in the last 1 turn, which `--older-than 1` keeps"), "{all}");
}
