//! `quipu hook stop`, as the client runs it: told on stdin, gone at once, the work done behind.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use serde_json::json;
use testkit::otlp::{Fault, Keep, Limits, Receiver};

use super::{everything, held};
use crate::env::{Env, NOW, set_age};

pub(super) const PROJECT: &str = ".claude/projects/-home-dev-demo";
pub(super) const SESSION: &str = "2bb8f19c-b0e3-4eba-bcdf-0a96f8cbc7c9";

/// Runs the hook.
pub(super) fn hook(env: &Env, args: &[&str], input: &str) -> Output {
    hook_at(env, NOW, args, input)
}

fn hook_at(env: &Env, now: u64, args: &[&str], input: &str) -> Output {
    let mut command = env.command(&[&["hook", "stop"], args].concat());
    let mut child = command
        .env("QUIPU_NOW", now.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Who does not read what it is told has its reasons.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

pub(super) fn hook_input(env: &Env, session: &str, event: &str) -> String {
    let path = env.path(PROJECT).join(format!("{session}.jsonl"));
    json!({"session_id": session, "transcript_path": path, "hook_event_name": event, "cwd": "/"})
        .to_string()
}

/// Writes a session, just now.
fn grow(env: &Env, session: &str, text: impl AsRef<[u8]>) {
    let path = env.put(&format!("{PROJECT}/{session}.jsonl"), text);
    set_age(&path, 0);
}

/// Waits until something is so.
pub(super) fn until(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < Duration::from_secs(30), "waited for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Nothing is left to do. A job moves from `jobs` to `taken`: in this order none is missed.
fn is_done(env: &Env) -> bool {
    let shelves = fs::read_dir(env.path(".local/state/quipu/ship")).into_iter().flatten().flatten();
    let mut jobs = shelves.flat_map(|receiver_dir| {
        let jobs = receiver_dir.path().join("jobs");
        let folders = [jobs.clone(), jobs.join("taken")];
        folders.into_iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten())
    });
    jobs.all(|job| job.file_name() == "taken" || job.file_name() == "aside")
}

/// A session ends.
pub(super) fn ended(env: &Env, url: &str, path: &Path) {
    let session = path.file_stem().unwrap().to_str().unwrap();
    let input = json!({"session_id": session, "transcript_path": path, "hook_event_name": "SessionEnd", "cwd": "/"});
    hook(env, &["--to", url], &input.to_string());
}

/// Waits until nothing is left to do.
pub(super) fn until_done(env: &Env) {
    until("the work", || is_done(env));
}

pub(super) fn log(env: &Env) -> String {
    fs::read_to_string(env.path(".local/state/quipu/ship/log")).unwrap_or_default()
}

/// One session, as it grows turn by turn.
fn growing(env: &Env) -> Vec<Vec<u8>> {
    let path = env.path(PROJECT).join(format!("{SESSION}.jsonl"));
    let bytes = fs::read(path).unwrap();
    let mut ends: Vec<usize> = bytes
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .map(|(at, _)| at + 1)
        .collect();
    ends.push(bytes.len());
    ends.dedup();
    ends.into_iter().map(|end| bytes[..end].to_vec()).collect()
}

#[test]
fn a_session_that_grows_arrives_once() {
    let env = Env::with_sessions();
    let stages = growing(&env);
    for entry in fs::read_dir(env.path(".claude/projects")).unwrap().flatten() {
        for file in fs::read_dir(entry.path()).unwrap().flatten() {
            if !file.file_name().to_string_lossy().starts_with(SESSION) {
                let _ = fs::remove_file(file.path());
            }
        }
    }
    let wanted = everything(&env);
    let receiver = Receiver::start().unwrap();
    let url = receiver.url();
    for stage in stages.iter().skip(1).step_by(3).chain(stages.last()) {
        grow(&env, SESSION, stage);
        let output = hook(&env, &["--to", &url], &hook_input(&env, SESSION, "SubagentStop"));
        assert_eq!(env.show(&output), "exit 0\n");
        until("the work", || is_done(&env));
    }
    hook(&env, &["--to", &url], &hook_input(&env, SESSION, "SessionEnd"));
    until("the work", || is_done(&env));
    assert_eq!(held(&receiver), wanted, "{}", log(&env));
    assert_eq!(receiver.count().spans, receiver.count().distinct, "sent twice");
}

#[test]
fn several_at_once() {
    let env = Env::with_sessions();
    let receiver = Receiver::start().unwrap();
    let url = receiver.url();
    let folder = env.path(PROJECT);
    let names: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .flatten()
        .filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(".jsonl")?.to_owned()))
        .filter(|name| name.len() == 36)
        .collect();
    for name in &names {
        hook(&env, &["--to", &url], &hook_input(&env, name, "SessionEnd"));
    }
    until("the work", || is_done(&env));
    let count = receiver.count();
    assert_eq!(count.spans, count.distinct, "sent twice");
    let sessions: std::collections::BTreeSet<_> =
        receiver.spans().iter().map(|span| span.attributes["session.id"].to_string()).collect();
    assert!(sessions.len() > 4, "{}", log(&env));
}

/// The receiver is away while turns end: they wait on disk, and go first when it is back, even if
/// the session is gone by then.
#[test]
fn the_receiver_comes_back() {
    let env = Env::with_sessions();
    let receiver = Receiver::start().unwrap();
    let (port, url) = (receiver.port(), receiver.url());
    receiver.stop();
    hook(&env, &["--to", &url], &hook_input(&env, SESSION, "SessionEnd"));
    until("the work", || is_done(&env));
    fs::remove_file(env.path(PROJECT).join(format!("{SESSION}.jsonl"))).unwrap();
    let receiver = Receiver::at(port, Keep::Spans, Limits::default(), Vec::new()).unwrap();
    let other = "375118cd-78a9-4864-8e28-5134e91c89ff";
    hook(&env, &["--to", &url], &hook_input(&env, other, "SessionEnd"));
    until("the work", || is_done(&env));
    let sessions: Vec<_> =
        receiver.spans().iter().map(|span| span.attributes["session.id"].clone()).collect();
    assert_eq!(sessions.first().unwrap(), SESSION, "{}", log(&env));
    assert_eq!(sessions.last().unwrap(), other);
}

/// Whatever is wrong, the client goes on: an exit code of 2 would stop its turn.
#[test]
fn nothing_disturbs_the_client() {
    let env = Env::with_sessions();
    let good = hook_input(&env, SESSION, "Stop");
    let mut text = String::new();
    let cases: [(&str, &[&str], &str); 6] = [
        ("no receiver", &[], &good),
        ("no JSON", &["--to", "http://127.0.0.1:1"], "{"),
        ("nothing", &["--to", "http://127.0.0.1:1"], ""),
        ("no session", &["--to", "http://127.0.0.1:1"], "{\"session_id\": 1}"),
        ("no address", &["--to", "elsewhere"], &good),
        ("no such option", &["--nonsense"], &good),
    ];
    for (name, args, input) in cases {
        for strict in [&[] as &[&str], &["--strict"]] {
            let output = hook(&env, &[args, strict].concat(), input);
            write!(text, "### {name} {}\n{}", strict.concat(), env.show(&output)).unwrap();
        }
    }
    env.put(".config/quipu/config.toml", "nonsense");
    write!(text, "### bad configuration\n{}", env.show(&hook(&env, &[], &good))).unwrap();
    assert_snapshot!(text);
    assert_snapshot!(log(&env));
}

/// Leaving plan mode changes the session, and no hook runs for the old one.
#[test]
fn the_session_before_comes_first() {
    let env = Env::bare();
    let project = Path::new(PROJECT);
    let record = |session: &str, uuid: &str, parent: &str, rest: &str| {
        format!(
            r#"{{"parentUuid":{parent},"uuid":"{uuid}","sessionId":"{session}","timestamp":"2026-01-03T15:44:58.000Z",{rest}}}"#
        )
    };
    let prompt = r#""type":"user","message":{"role":"user","content":"hello"}"#;
    let answer = |id: &str| {
        format!(
            r#""type":"assistant","message":{{"id":"{id}","role":"assistant","model":"claude-sonnet-4-5-20250929","content":[{{"type":"text","text":"hi"}}],"stop_reason":"end_turn"}}"#
        )
    };
    let old = [record("old", "a", "null", prompt), record("old", "b", "\"a\"", &answer("m1"))];
    let new = [
        record("old", "b2", "null", r#""type":"system","subtype":"informational","content":"x""#),
        record("new", "c", "\"b2\"", prompt),
        record("new", "d", "\"c\"", &answer("m2")),
    ];
    env.put(project.join("old.jsonl").to_str().unwrap(), old.join("\n") + "\n");
    env.put(project.join("new.jsonl").to_str().unwrap(), new.join("\n") + "\n");
    let receiver = Receiver::start().unwrap();
    hook(&env, &["--to", &receiver.url()], &hook_input(&env, "new", "Stop"));
    until("the work", || is_done(&env));
    let sessions: Vec<_> =
        receiver.spans().iter().map(|span| span.attributes["session.id"].clone()).collect();
    assert_eq!(sessions, ["old", "old", "new", "new"], "{}", log(&env));
}

/// What the cc-langfuse hook has sent to Langfuse is not sent once more, under other ids.
#[test]
fn what_another_program_has_sent() {
    let env = Env::with_sessions();
    let receiver = Receiver::start().unwrap();
    let lines = growing(&env).len();
    let state =
        json!({SESSION: {"last_line": lines, "turn_count": 9, "updated": "2026-01-01T00:00:00Z"}});
    env.put(".claude/state/cc-langfuse_state.json", state.to_string());
    let ship = |extra: &[&str]| {
        let mut command = env.command(&[&["ship", SESSION], extra].concat());
        command
            .env("LANGFUSE_BASE_URL", receiver.url().replace("/v1/traces", ""))
            .env("LANGFUSE_PUBLIC_KEY", "pk")
            .env("LANGFUSE_SECRET_KEY", "sk");
        super::portless(&env.show(&command.output().unwrap()), receiver.port())
    };
    let mut text = ship(&[]);
    assert_eq!(receiver.count().spans, 0);
    text += &ship(&[]);
    text += &ship(&["--again"]);
    assert!(receiver.count().spans > 0);
    // Another receiver never had it.
    let url = receiver.url();
    text += &super::portless(&env.run(&["ship", SESSION, "--to", &url]), receiver.port());
    assert_snapshot!(text);
}

pub(super) fn prompt_line(uuid: &str, parent: &str, words: &str) -> String {
    let parent = if parent.is_empty() { "null".to_owned() } else { format!("\"{parent}\"") };
    format!(
        r#"{{"parentUuid":{parent},"uuid":"{uuid}","sessionId":"{GROWING}","timestamp":"2026-11-19T00:00:00.000Z","type":"user","message":{{"role":"user","content":"{words}"}}}}"#
    ) + "\n"
}

/// A part of an answer of a client that never says why answers end.
pub(super) fn answered(uuid: &str, parent: &str, message: &str, block: &str) -> String {
    format!(
        r#"{{"parentUuid":"{parent}","uuid":"{uuid}","sessionId":"{GROWING}","timestamp":"2026-11-19T00:00:01.000Z","type":"assistant","message":{{"id":"{message}","role":"assistant","model":"claude-sonnet-4-6","content":[{block}],"stop_reason":null}}}}"#
    ) + "\n"
}

pub(super) const GROWING: &str = "99999999-0000-4000-8000-000000000000";
const WORDS: &str = r#"{"type":"text","text":"Well."}"#;

/// A turn ends, and the next one is under way before anybody looks: that it ended is said of the
/// first only.
#[test]
fn the_next_turn_is_not_taken_for_this_one() {
    let env = Env::bare();
    let receiver = Receiver::start().unwrap();
    let url = receiver.url();
    let mut text = prompt_line("a", "", "one") + &answered("b", "a", "m1", WORDS);
    grow(&env, GROWING, &text);
    hook(&env, &["--to", &url], &hook_input(&env, GROWING, "Stop"));
    let later = |text: String| text.replace("2026-11-19T00:00:0", "2026-11-20T00:00:3");
    text += &later(prompt_line("c", "b", "two") + &answered("d", "c", "m2", WORDS));
    grow(&env, GROWING, &text);
    until("the work", || is_done(&env));
    let turns = |receiver: &Receiver| {
        let spans = receiver.spans();
        let roots = spans.iter().filter(|span| span.parent.is_none());
        roots.map(|span| span.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(turns(&receiver), ["Turn 1"], "{}", log(&env));
    let call = r#"{"type":"tool_use","id":"t1","name":"Bash","input":{}}"#;
    text += &later(answered("e", "d", "m2", call));
    grow(&env, GROWING, &text);
    let input = hook_input(&env, GROWING, "SessionEnd");
    hook_at(&env, NOW + 60, &["--to", &url], &input);
    until("the work", || is_done(&env));
    assert_eq!(turns(&receiver), ["Turn 1", "Turn 2"], "{}", log(&env));
    assert_eq!(receiver.count().spans, receiver.count().distinct, "{}", log(&env));
    assert_eq!(receiver.count().spans, 5);
}

/// A turn ends while the one before it is on its way, and the receiver takes its time.
#[test]
fn a_turn_that_ends_meanwhile() {
    let env = Env::bare();
    let slow = (0..4).map(|_| Fault::Slow(Duration::from_millis(700)));
    let receiver = Receiver::with(Limits::default(), slow.collect()).unwrap();
    let url = receiver.url();
    let mut text = String::new();
    let mut last = String::new();
    for turn in 0..4 {
        let (prompt, answer) = (format!("p{turn}"), format!("a{turn}"));
        let words = r#"{"type":"text","text":"Well."}"#;
        text += &prompt_line(&prompt, &last, "more");
        text += &answered(&answer, &prompt, &format!("m{turn}"), words)
            .replace("null}", "\"end_turn\"}");
        last = answer;
        grow(&env, GROWING, &text);
        hook(&env, &["--to", &url], &hook_input(&env, GROWING, "Stop"));
        std::thread::sleep(Duration::from_millis(450));
    }
    until("the work", || is_done(&env));
    let count = receiver.count();
    assert_eq!((count.spans, count.distinct), (8, 8), "{}", log(&env));
}

/// Lines that the client writes after the cc-langfuse hook belong to turns that it has sent.
#[test]
fn lines_that_came_after_another_hook() {
    let env = Env::bare();
    let id = "11111111-2222-4333-8444-555555555555";
    let capture = fs::read(testkit::fixtures().join("langfuse-capture.json")).unwrap();
    let capture: serde_json::Value = serde_json::from_slice(&capture).unwrap();
    let records = capture["transcript"].as_array().unwrap();
    let lines: Vec<String> = records.iter().map(ToString::to_string).collect();
    let lines = lines.join("\n") + "\n";
    env.put(&format!("{PROJECT}/{id}.jsonl"), lines);
    // The ninth line is the last of the first turn; the client wrote the tenth, how long it took,
    // later.
    env.put(
        ".claude/state/cc-langfuse_state.json",
        json!({id: {"last_line": 9, "turn_count": 1}}).to_string(),
    );
    let receiver = Receiver::start().unwrap();
    let mut command = env.command(&["ship", id]);
    command
        .env("CC_LANGFUSE_BASE_URL", receiver.url().replace("/v1/traces", ""))
        .env("CC_LANGFUSE_PUBLIC_KEY", "pk")
        .env("CC_LANGFUSE_SECRET_KEY", "sk");
    env.show(&command.output().unwrap());
    let names: Vec<String> = receiver.spans().into_iter().map(|span| span.name).collect();
    assert_eq!(names, ["Turn 2", "claude-sonnet-4-5-20250929"]);
}
