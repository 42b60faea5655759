//! The agent without a screen: what the model sees, what is written, what is printed, and what is
//! left when something fails.

mod agents;
mod back;
mod begin;
mod compact;
#[cfg(target_os = "linux")]
mod denied;
#[cfg(target_os = "linux")]
mod escape;
#[cfg(target_os = "linux")]
mod everyday;
mod flags;
mod hooks;
mod host;
mod resume;
mod safe;
#[cfg(target_os = "linux")]
mod web;

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use insta::assert_snapshot;
use serde_json::{Value, json};
use testkit::api::{Reply, Server};

use crate::env::Env;

pub(crate) const SESSION: &str = "11111111-1111-4111-8111-111111111111";
const FORK: &str = "22222222-2222-4222-8222-222222222222";

pub(crate) fn text(words: &str) -> Value {
    json!({"type": "text", "text": words})
}

pub(crate) fn call(id: &str, name: &str, input: &Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": input})
}

fn failing(status: u16, headers: &str, body: &str) -> Reply {
    Reply::Status(status, headers.to_owned(), body.to_owned())
}

/// A user with a project, and the API beside them.
pub(crate) struct Lab {
    pub(crate) env: Env,
    pub(crate) server: Server,
    now: u64,
}

impl Lab {
    fn new(replies: Vec<Reply>) -> Lab {
        let env = Env::bare();
        env.put("demo/README.md", "# Demo\n\nA small widget counter.\n");
        env.put("demo/src/widget.py", "def count(items):\n    return len(items)\n");
        Lab { env, server: Server::play(replies).unwrap(), now: crate::env::NOW }
    }

    pub(crate) fn says(answers: &[&[Value]]) -> Lab {
        Lab::new(answers.iter().map(|blocks| Reply::Blocks(blocks.to_vec())).collect())
    }

    pub(crate) fn cwd(&self) -> PathBuf {
        self.env.path("demo")
    }

    pub(crate) fn path(&self, name: &str) -> String {
        fs::canonicalize(self.cwd()).unwrap().join(name).display().to_string()
    }

    pub(crate) fn command(&mut self, args: &[&str]) -> Command {
        // Each run is an hour later than the one before.
        self.now += 3_600;
        let mut command = self.env.command(&["chat", "-p"]);
        command
            .args(args)
            .current_dir(self.cwd())
            .stdin(Stdio::null())
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("QUIPU_NOW", self.now.to_string())
            .env("QUIPU_ID", SESSION)
            .env("ANTHROPIC_API_KEY", "sk-ant-test-not-a-key")
            .env("ANTHROPIC_BASE_URL", self.server.url())
            .env("CLAUDE_CODE_MAX_RETRIES", "2")
            // Tests may be run by root, and nothing can be broken here.
            .env("IS_SANDBOX", "1");
        command
    }

    pub(crate) fn run(&mut self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    pub(crate) fn new_session(&mut self, args: &[&str]) -> Output {
        let all: Vec<&str> =
            ["--session-id", SESSION].into_iter().chain(args.iter().copied()).collect();
        self.run(&all)
    }

    pub(crate) fn file(&self, id: &str) -> PathBuf {
        let projects = self.env.path(".claude/projects");
        let project = fs::read_dir(projects).unwrap().flatten().next().unwrap().path();
        project.join(format!("{id}.jsonl"))
    }

    fn lines(&self, id: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.file(id)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Without what is other each time.
    pub(crate) fn clean(&self, text: &str) -> String {
        let here = fs::canonicalize(self.env.path("")).unwrap().display().to_string();
        let slug = here.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let text = text.replace(&here, "[HOME]").replace(&slug, "[SLUG]");
        text.replace(env!("CARGO_PKG_VERSION"), "[VERSION]")
    }

    /// What `check` says of a session.
    pub(crate) fn check(&self, id: &str) -> String {
        let path = self.file(id).display().to_string();
        let out = self.env.output(&["check", &path, "--json"]);
        let value: Value = serde_json::from_slice(&out.stdout).unwrap();
        let findings = value["findings"].as_array().cloned().unwrap_or_default();
        format!("{} {}", value["verdict"].as_str().unwrap_or_default(), Value::from(findings))
    }
}

/// The messages of a request, a block a line.
fn shape(lab: &Lab, body: &Value) -> String {
    let mut out = String::new();
    for message in body["messages"].as_array().unwrap() {
        writeln!(out, "{}:", message["role"].as_str().unwrap()).unwrap();
        for block in message["content"].as_array().unwrap() {
            writeln!(out, "  {block}").unwrap();
        }
    }
    lab.clean(&out)
}

/// Messages without marks for the cache.
fn bare(body: &Value) -> Vec<Value> {
    let mut messages = body["messages"].as_array().unwrap().clone();
    for message in &mut messages {
        for block in message["content"].as_array_mut().unwrap() {
            block.as_object_mut().unwrap().shift_remove("cache_control");
        }
    }
    messages
}

#[test]
fn what_the_model_sees() {
    let mut out = String::new();
    let mut lab = Lab::says(&[]);
    let (readme, missing) = (lab.path("README.md"), lab.path("missing.md"));
    lab.server = Server::start(vec![
        vec![
            text("Both at once."),
            call("c1", "Read", &json!({"file_path": readme})),
            call("c2", "Bash", &json!({"command": "ls"})),
            call("c3", "Read", &json!({"file_path": missing})),
            call("c4", "Nothing", &json!({})),
        ],
        vec![text("Done.")],
        vec![text("Again.")],
        vec![text("In the fork.")],
    ])
    .unwrap();
    lab.env.put("demo/CLAUDE.md", "Be brief.\n");
    lab.new_session(&["--dangerously-skip-permissions", "Look around."]);
    lab.run(&["--resume", &SESSION[..8], "And again?"]);
    lab.run(&["--continue", "--fork-session", "--session-id", FORK, "And in a fork?"]);
    let requests = lab.server.requests();
    assert_eq!(requests.len(), 4);
    for (name, body) in ["plain", "tools in parallel", "resume", "fork"].iter().zip(&requests) {
        writeln!(out, "### {name}\n{}", shape(&lab, body)).unwrap();
    }
    let first = &requests[0];
    let names: Vec<_> =
        first["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    writeln!(out, "### the rest\n{} {} {names:?}", first["model"], first["max_tokens"]).unwrap();
    writeln!(out, "{}", lab.clean(first["system"][0]["text"].as_str().unwrap())).unwrap();
    assert_snapshot!("requests", out);
    // Each request begins with the one before it, so that the API can keep it: after a resume too.
    for pair in requests.windows(2) {
        assert_eq!(pair[0]["system"], pair[1]["system"]);
        assert_eq!(pair[0]["tools"], pair[1]["tools"]);
        let (before, after) = (bare(&pair[0]), bare(&pair[1]));
        assert_eq!(before[..], after[..before.len()]);
    }
    assert_eq!(lab.check(SESSION), "full []");
    assert_eq!(lab.check(FORK), "full []");
}

#[test]
fn what_is_written() {
    let mut lab = Lab::says(&[]);
    let (readme, new) = (lab.path("README.md"), lab.path("new.txt"));
    lab.server = Server::start(vec![
        vec![text("One."), call("c1", "Read", &json!({"file_path": readme}))],
        vec![
            call(
                "c2",
                "Edit",
                &json!({"file_path": readme, "old_string": "small", "new_string": "tiny"}),
            ),
            call("c3", "Write", &json!({"file_path": new, "content": "new\n"})),
        ],
        vec![call(
            "c4",
            "TodoWrite",
            &json!({"todos": [{"content": "a", "status": "pending", "activeForm": "b"}]}),
        )],
        vec![text("Done.")],
    ])
    .unwrap();
    lab.new_session(&["--dangerously-skip-permissions", "Change it."]);
    // Copies have the hash of a path that is another each time.
    let copies = lab.env.path(&format!(".claude/file-history/{SESSION}"));
    let copies: Vec<_> = fs::read_dir(copies).unwrap().flatten().collect();
    assert_eq!(copies.len(), 1);
    assert_eq!(
        fs::read_to_string(copies[0].path()).unwrap(),
        "# Demo\n\nA small widget counter.\n"
    );
    let text = fs::read_to_string(lab.file(SESSION)).unwrap();
    let name = copies[0].file_name().into_string().unwrap();
    let new = "[HASH]@v1";
    // Of a file that was not there nothing is kept.
    assert_snapshot!("transcript", lab.clean(&text.replace(&name, new)));
    assert_eq!(lab.check(SESSION), "full []");
    assert_eq!(fs::read_to_string(readme).unwrap(), "# Demo\n\nA tiny widget counter.\n");
}

#[test]
fn what_is_printed() {
    let mut out = String::new();
    for args in [
        &["Hello"][..],
        &["--output-format", "json", "Hello"],
        &["--output-format", "stream-json", "--verbose", "Hello"],
        &["--output-format", "json", "--max-turns", "1", "Hello"],
        &["--output-format", "stream-json", "Hello"],
        &["--output-format", "json", "--disallowedTools", "Read", "Hello"],
        &["--resume", "nobody", "Hello"],
        &["--session-id", "no-uuid", "Hello"],
        &["--continue", "Hello"],
        &["--permission-mode", "odd", "Hello"],
        &["--allowedTools", "Bash(git:*)", "--", "Hello"],
        &["--settings", "{", "Hello"],
        &["--add-dir", "nowhere", "--", "Hello"],
        &[],
    ] {
        let mut lab = Lab::says(&[]);
        let readme = lab.path("README.md");
        lab.server = Server::start(vec![
            vec![text("I read it."), call("c1", "Read", &json!({"file_path": readme}))],
            vec![call("c2", "Bash", &json!({"command": "touch x"}))],
            vec![text("It is a counter.")],
        ])
        .unwrap();
        let output = lab.run(args);
        let shown = lab.clean(&lab.env.show(&output));
        writeln!(out, "### quipu chat -p {}\n{shown}", args.join(" ")).unwrap();
    }
    assert_snapshot!("printed", out);
}

#[test]
fn events_have_the_members_that_the_original_prints() {
    let recorded =
        fs::read_to_string(testkit::root().join("crates/cli/tests/fixtures/stream.jsonl")).unwrap();
    let mut lab = Lab::says(&[]);
    let readme = lab.path("README.md");
    lab.server = Server::start(vec![
        vec![text("I will read the README."), call("c1", "Read", &json!({"file_path": readme}))],
        vec![text("The project is a small widget counter.")],
    ])
    .unwrap();
    let format =
        ["--output-format", "stream-json", "--verbose", "--include-partial-messages", "What?"];
    let output = lab.run(&format);
    let printed = String::from_utf8(output.stdout).unwrap();
    // Kind of event → its members, in their order.
    let members = |text: &str| -> Vec<(String, Vec<String>)> {
        let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut kinds: Vec<(String, Vec<String>)> = Vec::new();
        for event in events {
            let kind = match event["type"].as_str().unwrap() {
                "stream_event" => {
                    format!("stream_event/{}", event["event"]["type"].as_str().unwrap())
                }
                "system" => format!("system/{}", event["subtype"].as_str().unwrap()),
                kind => kind.to_owned(),
            };
            // The original has no such member, and no such promise.
            let names = event.as_object().unwrap().keys();
            let names = names.filter(|name| *name != "sandbox").cloned().collect();
            if !kinds.iter().any(|(known, _)| *known == kind) {
                kinds.push((kind, names));
            }
        }
        kinds
    };
    assert_eq!(members(&printed), members(&recorded));
    let last: Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
    assert_eq!(last["num_turns"], 2);
    assert_eq!(last["result"], "The project is a small widget counter.");
}

#[test]
fn failures_are_told_and_leave_a_session_that_goes_on() {
    let busy = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_busy"}"#;
    let bad = r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 > 8"}}"#;
    let key =
        r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#;
    let now = "retry-after: 0\r\n";
    let half = vec![text("One."), call("c1", "Bash", &json!({"command": "ls"})), text("Two.")];
    let fine = Reply::Blocks(vec![text("Fine.")]);
    let cases: Vec<(&str, Vec<Reply>)> = vec![
        (
            "busy, then fine",
            vec![failing(529, now, busy), failing(500, now, "<html>"), fine.clone()],
        ),
        ("busy for ever", vec![failing(529, now, busy); 3]),
        ("wait for an hour", vec![failing(429, "retry-after: 3600\r\n", busy)]),
        ("too long", vec![failing(400, "", bad)]),
        ("wrong key", vec![failing(401, "", key)]),
        ("cut before the first block", vec![Reply::Cut(half.clone(), 1), fine.clone()]),
        ("cut behind a call", vec![Reply::Cut(half.clone(), 8), fine.clone()]),
        ("silent", vec![Reply::Silent(half, 6, Duration::from_secs(3)), fine]),
    ];
    let mut out = String::new();
    for (name, replies) in cases {
        let mut lab = Lab::new(replies);
        let all = ["--session-id", SESSION, "--dangerously-skip-permissions", "Hello"];
        let output = lab.command(&all).env("API_TIMEOUT_MS", "1000").output().unwrap();
        writeln!(out, "### {name}\n{}", lab.env.show(&output)).unwrap();
        let kinds: Vec<String> = lab.lines(SESSION).iter().map(in_words).collect();
        writeln!(out, "{}", kinds.join("\n")).unwrap();
        lab.server = Server::start(vec![vec![text("Going on.")]]).unwrap();
        let again = lab.run(&["--resume", SESSION, "And now?"]);
        assert_eq!(String::from_utf8_lossy(&again.stdout), "Going on.\n", "{name}");
        let requests = lab.server.requests();
        writeln!(out, "sent when it goes on:\n{}", shape(&lab, &requests[0])).unwrap();
    }
    assert_snapshot!("failures", out);
}

/// A record in a few words.
fn in_words(line: &Value) -> String {
    let message = &line["message"];
    let content = match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let one = |block: &Value| {
                block["text"].as_str().or(block["name"].as_str()).unwrap_or("…").to_owned()
            };
            blocks.iter().map(one).collect::<Vec<_>>().join(" | ")
        }
        _ => String::new(),
    };
    let kind = line["type"].as_str().unwrap_or_default();
    format!("{kind} {content}").trim_end().to_owned()
}

#[test]
fn signals_end_it_cleanly() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let mut lab = Lab::says(&[]);
        let mark = lab.path("mark");
        let command = format!("sleep 2; touch {mark}");
        lab.server = Server::start(vec![vec![
            text("I wait."),
            call("c1", "Bash", &json!({"command": command})),
        ]])
        .unwrap();
        let all = [
            "--session-id",
            SESSION,
            "--dangerously-skip-permissions",
            "--output-format",
            "json",
            "Wait.",
        ];
        let child = lab.command(&all).stdout(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(700));
        let id = child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code));
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(result["subtype"], "error_during_execution");
        assert_eq!(lab.check(SESSION), "full []");
        let kinds: Vec<String> = lab.lines(SESSION).iter().map(in_words).collect();
        assert!(
            kinds.contains(&"user [Request interrupted by user for tool use]".to_owned()),
            "{kinds:?}"
        );
        std::thread::sleep(Duration::from_millis(1_800));
        assert!(!PathBuf::from(mark).exists());
    }
}

#[test]
fn the_demonstration_works_without_a_key() {
    let env = Env::bare();
    let folder = env.path("tmp");
    fs::create_dir_all(&folder).unwrap();
    let mut command = env.command(&["chat", "--offline"]);
    let output = command.env("TMPDIR", &folder).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("Fixed: "));
    let demo =
        fs::read_dir(&folder).unwrap().flatten().find(|entry| entry.path().join("knots").is_dir());
    let script = fs::read_to_string(demo.unwrap().path().join("knots/knots.sh")).unwrap();
    assert!(script.contains("count + 1"));
    assert!(!env.path(".claude").exists());
}

#[test]
fn no_key_no_address_no_room() {
    let mut lab = Lab::says(&[]);
    let mut out = String::new();
    let show = |lab: &Lab, output: &Output| lab.clean(&lab.env.show(output));
    let output = lab.command(&["Hello"]).env_remove("ANTHROPIC_API_KEY").output().unwrap();
    writeln!(out, "{}", show(&lab, &output)).unwrap();
    assert!(!lab.env.path(".claude").exists(), "a session was begun without a key");
    let nobody = "http://127.0.0.1:9";
    let output = lab
        .command(&["Hello"])
        .env("ANTHROPIC_BASE_URL", nobody)
        .env("CLAUDE_CODE_MAX_RETRIES", "0")
        .output()
        .unwrap();
    writeln!(out, "{}", show(&lab, &output)).unwrap();
    let output = lab.command(&["Hello"]).env("ANTHROPIC_BASE_URL", "nonsense").output().unwrap();
    writeln!(out, "{}", show(&lab, &output)).unwrap();
    // A home that is a file.
    let home = lab.env.put("file", "");
    let output = lab.command(&["Hello"]).env("CLAUDE_CONFIG_DIR", home).output().unwrap();
    writeln!(out, "{}", show(&lab, &output)).unwrap();
    assert_snapshot!("no_start", out);
    assert!(lab.server.requests().is_empty());
}

/// Killed without a warning, at some twenty moments of a turn with several tools.
#[test]
fn killed_at_any_moment_it_goes_on() {
    for moment in 0..20_u64 {
        let mut lab = Lab::says(&[]);
        let (readme, made) = (lab.path("README.md"), lab.path("made"));
        lab.server = Server::start(vec![
            vec![
                text("One."),
                call("c1", "Read", &json!({"file_path": readme})),
                call("c2", "Bash", &json!({"command": "sleep 0.1; echo slept"})),
            ],
            vec![call("c3", "Write", &json!({"file_path": made, "content": "made\n"}))],
            vec![
                call("c4", "Bash", &json!({"command": "sleep 0.1"})),
                call("c5", "Glob", &json!({"pattern": "*"})),
            ],
            vec![text("Done.")],
        ])
        .unwrap();
        let all = ["--session-id", SESSION, "--dangerously-skip-permissions", "Go."];
        let mut child = lab.command(&all).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(5 + moment * 15));
        child.kill().unwrap();
        child.wait().unwrap();
        if !lab.env.path(".claude/projects").exists() || !lab.file(SESSION).exists() {
            continue;
        }
        // What was said to be written is written.
        let is_recorded = lab
            .lines(SESSION)
            .iter()
            .any(|line| line["toolUseResult"]["filePath"] == made.as_str());
        assert!(!is_recorded || fs::read_to_string(&made).unwrap() == "made\n");
        lab.server = Server::start(vec![vec![text("Going on.")]]).unwrap();
        let again = lab.run(&["--resume", SESSION, "And now?"]);
        let shown = lab.env.show(&again);
        if !shown.contains("Going on.") {
            // Before the first prompt was written there is nothing to go on with.
            assert!(
                lab.lines(SESSION).iter().all(|line| line["type"] != "user"),
                "{moment}: {shown}"
            );
            continue;
        }
        assert!(lab.check(SESSION).starts_with("full"), "{moment}: {}", lab.check(SESSION));
    }
}

/// The names of an object's members, in their order, those of objects in it too.
fn names(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let one = |(name, value): (&String, &Value)| format!("{name}{}", names(value));
            format!("{{{}}}", members.iter().map(one).collect::<Vec<_>>().join(" "))
        }
        Value::Array(list) => {
            list.first().map_or("[]".to_owned(), |one| format!("[{}]", names(one)))
        }
        _ => String::new(),
    }
}

/// The calls that the real client was asked for come again: what our agent writes of them is laid
/// beside what it wrote.
#[test]
fn records_are_those_of_the_original() {
    let recorded = testkit::fixtures().join("recordings/2.1.45/c_tools/projects/-home-dev-demo");
    let file = fs::read_dir(recorded).unwrap().flatten().next().unwrap().path();
    let recorded = fs::read_to_string(file).unwrap();
    let mut lab = Lab::says(&[]);
    // The second file is newer than the first, as it was there, and what is changed is newer yet.
    std::thread::sleep(Duration::from_millis(20));
    lab.env.put("demo/src/util.py", "def twice(n):\n    return n * 2\n");
    std::thread::sleep(Duration::from_millis(20));
    let here = fs::canonicalize(lab.cwd()).unwrap().display().to_string();
    let replayed = recorded.replace("/home/dev/demo", &here);
    let lines: Vec<Value> =
        replayed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut replies: Vec<(String, Vec<Value>)> = Vec::new();
    for line in lines.iter().filter(|line| line["type"] == "assistant") {
        let id = line["message"]["id"].as_str().unwrap().to_owned();
        let blocks = line["message"]["content"].as_array().unwrap().clone();
        match replies.last_mut().filter(|(last, _)| *last == id) {
            Some((_, all)) => all.extend(blocks),
            None => replies.push((id, blocks)),
        }
    }
    lab.server = Server::start(replies.into_iter().map(|(_, blocks)| blocks).collect()).unwrap();
    lab.new_session(&["--dangerously-skip-permissions", "Do a round of file work."]);
    let ours = lab.lines(SESSION);
    let tree = |lines: &[Value]| -> Vec<Value> {
        let records =
            lines.iter().filter(|line| line["type"] == "user" || line["type"] == "assistant");
        let mut records: Vec<Value> = records.cloned().collect();
        for line in &mut records {
            // The API's own, and the clock's.
            line["message"].as_object_mut().unwrap().shift_remove("usage");
            if line["toolUseResult"]["durationMs"].is_number() {
                line["toolUseResult"]["durationMs"] = json!(0);
            }
        }
        records
    };
    let (theirs, ours) = (tree(&lines), tree(&ours));
    assert_eq!(theirs.len(), ours.len());
    let mut out = String::new();
    let mut call = String::new();
    for (their, our) in theirs.iter().zip(&ours) {
        let block = &their["message"]["content"][0];
        if block["type"] == "tool_use" {
            call = format!("{} {}", block["name"].as_str().unwrap(), block["input"]);
        }
        let (left, right) = (names(their), names(our));
        if left != right {
            writeln!(out, "### {}\nmembers\n  {left}\n  {right}", lab.clean(&call)).unwrap();
        }
        let (left, right) = (&their["message"]["content"], &our["message"]["content"]);
        if left != right {
            writeln!(out, "### {}\nsays\n  {left}\n  {right}", lab.clean(&call)).unwrap();
        }
        let (left, right) = (&their["toolUseResult"], &our["toolUseResult"]);
        if left != right {
            writeln!(out, "### {}\ndetail\n  {left}\n  {right}", lab.clean(&call)).unwrap();
        }
    }
    assert_snapshot!("beside_the_original", lab.clean(&out));
}

#[test]
fn what_has_changed_is_told_behind_what_was_said() {
    let mut lab = Lab::says(&[&[text("One.")], &[text("Two.")], &[text("Three.")]]);
    lab.new_session(&["First."]);
    lab.env.put("demo/CLAUDE.md", "Be brief.\n");
    lab.run(&["--resume", SESSION, "Second."]);
    lab.run(&["--resume", SESSION, "Third."]);
    let requests = lab.server.requests();
    let block_counts = |body: &Value| -> Vec<usize> {
        let messages = body["messages"].as_array().unwrap();
        messages.iter().map(|message| message["content"].as_array().unwrap().len()).collect()
    };
    // The news is told once, and stays where it was told.
    assert_eq!(block_counts(&requests[1]), [2, 1, 2]);
    assert_eq!(block_counts(&requests[2]), [2, 1, 2, 1, 1]);
    assert!(
        requests[1]["messages"][2]["content"][0]["text"].as_str().unwrap().contains("Be brief.")
    );
    let (before, after) = (bare(&requests[1]), bare(&requests[2]));
    assert_eq!(before[..], after[..before.len()]);
    assert_eq!(requests[0]["system"], requests[2]["system"]);
    assert_eq!(lab.check(SESSION), "full []");
}

#[test]
fn what_is_broken_is_mended_first_if_that_helps() {
    let mut out = String::new();
    let damaged = testkit::root().join("crates/testkit/fixtures/samples/projects/-home-dev-demo");
    let damaged = fs::read_dir(damaged).unwrap().flatten().map(|entry| entry.path());
    let mut damaged =
        damaged.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("badc0ffe"));
    let damaged = fs::read(damaged.next().unwrap()).unwrap();
    for (name, bytes) in [("damaged", damaged), ("empty", Vec::new()), ("nul", vec![0; 3_000])] {
        let mut lab = Lab::says(&[&[text("Going on.")]]);
        let path = lab.env.put(&format!("demo/{name}.jsonl"), &bytes);
        let output = lab.run(&["--resume", path.to_str().unwrap(), "And now?"]);
        writeln!(out, "### {name}\n{}", lab.env.show(&output)).unwrap();
        let is_mended = name == "damaged";
        assert_eq!(lab.server.requests().len(), usize::from(is_mended));
        // What cannot be helped is not touched.
        assert!(is_mended || fs::read(&path).unwrap() == bytes);
    }
    assert_snapshot!("mended", out);
}
