//! A program that hosts a session: lines in, events out, the control protocol.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, ChildStdout};

use super::*;

const FORMAT: [&str; 8] = [
    "--session-id",
    SESSION,
    "--input-format",
    "stream-json",
    "--output-format",
    "stream-json",
    "--verbose",
    "--replay-user-messages",
];

/// A session, and who hosts it.
pub(super) struct Host {
    child: Child,
    input: Option<ChildStdin>,
    events: BufReader<ChildStdout>,
}

impl Host {
    pub(super) fn start(lab: &mut Lab, args: &[&str]) -> Host {
        Host::patient(lab, args, "2")
    }

    /// The same, with so many retries.
    pub(super) fn patient(lab: &mut Lab, args: &[&str], retries: &str) -> Host {
        let all: Vec<&str> = FORMAT.iter().chain(args).copied().collect();
        let mut command = lab.command(&all);
        command.env("CLAUDE_CODE_MAX_RETRIES", retries);
        Host::of(command)
    }

    /// A host of a command that was made ready.
    fn of(mut command: Command) -> Host {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let events = BufReader::new(child.stdout.take().unwrap());
        Host { input: child.stdin.take(), child, events }
    }

    /// A session that is continued.
    pub(super) fn resume(lab: &mut Lab, args: &[&str]) -> Host {
        let all: Vec<&str> = FORMAT[2..].iter().chain(args).copied().collect();
        Host::of(lab.command(&all))
    }

    pub(super) fn line(&mut self, line: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    pub(super) fn say(&mut self, text: &str, uuid: &str) {
        let message = json!({"role": "user", "content": text});
        self.line(&json!({"type": "user", "message": message, "uuid": uuid}));
    }

    pub(super) fn ask(&mut self, request: &Value) -> Value {
        let id = format!("req_{}", request["subtype"].as_str().unwrap());
        self.line(&json!({"type": "control_request", "request_id": id, "request": request}));
        self.until(|event| event["response"]["request_id"] == *id).pop().unwrap()
    }

    /// The events up to one.
    pub(super) fn until(&mut self, is_last: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let mut line = String::new();
            assert!(self.events.read_line(&mut line).unwrap() > 0, "ends too early: {events:?}");
            events.push(serde_json::from_str(&line).unwrap());
            if is_last(&events[events.len() - 1]) {
                return events;
            }
        }
    }

    pub(super) fn result(&mut self) -> Value {
        self.until(|event| event["type"] == "result").pop().unwrap()
    }

    /// Ends it as a crash would.
    pub(super) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(super) fn end(mut self) -> Option<i32> {
        self.input = None;
        self.child.wait().unwrap().code()
    }
}

#[test]
fn every_request_is_answered() {
    let mut lab = Lab::says(&[&[text("One.")], &[text("Two.")]]);
    let mut host = Host::start(&mut lab, &[]);
    let mut out = String::new();
    for request in [
        json!({"subtype": "initialize", "hooks": null}),
        json!({"subtype": "mcp_status"}),
        json!({"subtype": "interrupt"}),
        json!({"subtype": "set_permission_mode", "mode": "plan"}),
        json!({"subtype": "set_permission_mode", "mode": "odd"}),
        json!({"subtype": "set_permission_mode", "mode": "acceptEdits"}),
        json!({"subtype": "set_max_thinking_tokens", "max_thinking_tokens": 2_000}),
        json!({"subtype": "odd"}),
    ] {
        let mut answer = host.ask(&request);
        if let Some(pid) = answer.pointer_mut("/response/response/pid") {
            assert!(pid.is_u64());
            *pid = json!("[PID]");
        }
        writeln!(out, "{request}\n  {answer}").unwrap();
    }
    let uuid = "aaaaaaaa-0000-4000-8000-00000000000a";
    host.say("First.", uuid);
    let events = host.until(|event| event["type"] == "result");
    assert_eq!(events[0]["permissionMode"], "acceptEdits");
    assert_eq!((&events[1]["uuid"], &events[1]["isReplay"]), (&json!(uuid), &json!(true)));
    host.ask(&json!({"subtype": "set_model", "model": "haiku"}));
    // An id that a record has already is given to no other.
    host.say("Second.", uuid);
    let events = host.until(|event| event["type"] == "result");
    assert_eq!(events[0]["model"], "claude-haiku-5-5");
    assert_ne!(events[1]["uuid"], uuid);
    assert_eq!(host.end(), Some(0));
    assert_snapshot!("control", out);
    let requests = lab.server.requests();
    assert_eq!(requests[0]["thinking"]["budget_tokens"], 2_000);
    assert_eq!(requests[1]["model"], "claude-haiku-5-5");
    let ids: Vec<Value> = lab.lines(SESSION).iter().map(|line| line["uuid"].clone()).collect();
    assert_eq!(ids.iter().filter(|id| **id == uuid).count(), 1);
    assert_eq!(lab.check(SESSION), "full []");
}

#[test]
fn whoever_interrupts_is_answered_and_may_go_on() {
    let mut lab = Lab::new(vec![
        Reply::Blocks(vec![
            text("I wait."),
            call("c1", "Bash", &json!({"command": "sleep 9"})),
            call("c2", "Bash", &json!({"command": "echo never"})),
        ]),
        Reply::Blocks(vec![text("As you like.")]),
    ]);
    let mut host = Host::start(&mut lab, &["--dangerously-skip-permissions"]);
    host.say("Wait.", "x");
    host.until(|event| event["message"]["content"][0]["id"] == "c2");
    host.line(
        &json!({"type": "control_request", "request_id": "r", "request": {"subtype": "interrupt"}}),
    );
    let events = host.until(|event| event["type"] == "result");
    assert!(events.iter().any(|event| event["response"]["subtype"] == "success"), "{events:?}");
    assert_eq!(events[events.len() - 1]["subtype"], "error_during_execution");
    host.say("Do not wait.", "y");
    assert_eq!(host.result()["result"], "As you like.");
    assert_eq!(host.end(), Some(0));
    let requests = lab.server.requests();
    assert_snapshot!("interrupt", shape(&lab, &requests[1]));
    assert_eq!(lab.check(SESSION), "full []");
}

#[test]
fn messages_come_on_lines() {
    let mut lab = Lab::says(&[]);
    // It runs until what is said meanwhile has arrived.
    let wait =
        "touch ~/runs; until grep -qr 'H[u]rry' ~/.claude/projects; do sleep 0.1; done; echo slept";
    lab.server = Server::start(vec![
        vec![call("c1", "Bash", &json!({"command": wait}))],
        vec![text("Slept, and heard you.")],
        vec![text("Second.")],
    ])
    .unwrap();
    let all: Vec<&str> =
        FORMAT.into_iter().chain(["--dangerously-skip-permissions", "--sandbox", "off"]).collect();
    let mut child = lab.command(&all).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let line = |text: &str| {
        format!("{}\n", json!({"type": "user", "message": {"role": "user", "content": text}}))
    };
    input.write_all(line("Sleep.").as_bytes()).unwrap();
    // Each is said when the event before it is there, however long that takes.
    let mut events: Vec<Value> = Vec::new();
    let mut input = Some(input);
    for text in BufReader::new(child.stdout.take().unwrap()).lines() {
        let event: Value = serde_json::from_str(&text.unwrap()).unwrap();
        let more = match event["type"].as_str().unwrap() {
            "assistant" if events.len() == 2 => {
                while !lab.env.path("runs").exists() {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Some(format!("\n{}", line("Hurry.")))
            }
            "result" if input.is_some() => Some(line("Next.")),
            _ => None,
        };
        if let (Some(more), Some(to)) = (&more, &mut input) {
            to.write_all(more.as_bytes()).unwrap();
        }
        if event["type"] == "result" {
            input = None;
        }
        events.push(event);
    }
    assert!(child.wait().unwrap().success());
    let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let expected = [
        "system",
        "user",
        "assistant",
        // What is said meanwhile comes again before the result that it goes along with.
        "user",
        "user",
        "assistant",
        "result",
        "system",
        "user",
        "assistant",
        "result",
    ];
    assert_eq!(kinds, expected);
    let requests = lab.server.requests();
    assert_snapshot!("queued", shape(&lab, &requests[1]));
    assert_eq!(lab.check(SESSION), "full []");
    let mut lab = Lab::says(&[]);
    let mut wrong =
        lab.command(&FORMAT).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wrong.stdin.take().unwrap().write_all(b"nonsense\n").unwrap();
    let output = wrong.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is not JSON"));
}

#[test]
fn what_waits_is_on_record() {
    let mut lab =
        Lab::says(&[&[call("c1", "Bash", &json!({"command": "sleep 1"}))], &[text("I hurry.")]]);
    let mut host = Host::start(&mut lab, &["--dangerously-skip-permissions"]);
    host.say("Wait.", "x");
    host.until(|event| event["message"]["content"][0]["id"] == "c1");
    host.say("Hurry.", "y");
    host.result();
    assert_eq!(host.end(), Some(0));
    let queue: Vec<String> = lab
        .lines(SESSION)
        .iter()
        .filter(|line| line["type"] == "queue-operation")
        .map(|line| format!("{} {}", line["operation"], line["content"]))
        .collect();
    assert_eq!(queue, [r#""dequeue" null"#, r#""enqueue" "Hurry.""#, r#""dequeue" null"#]);
    assert_eq!(lab.check(SESSION), "full []");
}

#[test]
fn what_cannot_be_said_is_told() {
    for (line, message) in [
        (json!({"type": "user", "message": {"role": "user", "content": " "}}), "is empty"),
        (json!({"type": "user", "message": {"role": "user", "content": []}}), "is empty"),
        (json!({"type": "user", "message": {"role": "user"}}), "no content"),
        (json!({"type": "user", "message": {"role": "system", "content": "x"}}), "role `user`"),
        (json!({"type": "odd"}), "not `user`"),
        (json!("\u{1}"), "not `user`"),
    ] {
        let mut lab = Lab::says(&[]);
        let mut child = lab.command(&FORMAT);
        let mut child = child.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        writeln!(child.stdin.take().unwrap(), "{line}").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{line}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(message), "{line}");
        assert!(!lab.env.path(".claude/projects").exists(), "{line}");
    }
    // Marks for the cache are ours to set, and blank blocks are nobody's.
    let mut lab = Lab::says(&[&[text("Freshness.")]]);
    let mut host = Host::start(&mut lab, &[]);
    let blocks = json!([
        {"type": "text", "text": " "},
        {"type": "text", "text": "Look.", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "Twice."},
    ]);
    host.line(&json!({"type": "user", "message": {"role": "user", "content": blocks}}));
    host.result();
    assert_eq!(host.end(), Some(0));
    let request = &lab.server.requests()[0];
    assert_eq!(request.to_string().matches("cache_control").count(), 2);
    assert!(!request.to_string().contains(r#""text":" ""#));
}

#[test]
fn a_command_in_the_background_is_waited_for() {
    let mut lab = Lab::says(&[]);
    let mark = lab.path("mark");
    let command = format!("sleep 1; touch {mark}; echo built");
    let background = json!({"command": command, "description": "Build", "run_in_background": true});
    let answers = || {
        vec![
            vec![call("c1", "Bash", &background)],
            vec![text("Started.")],
            vec![text("It is built.")],
        ]
    };
    lab.server = Server::start(answers()).unwrap();
    let output = lab.new_session(&["--dangerously-skip-permissions", "Build."]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "It is built.\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("waiting for a command"));
    assert!(fs::metadata(&mark).is_ok());
    let sent_text = lab.server.requests()[2]["messages"].to_string();
    assert!(
        sent_text.contains("Background command \\\"Build\\\" completed (exit code 0)"),
        "{sent_text}"
    );
    assert_eq!(lab.check(SESSION), "full []");
    // A signal does not wait for it.
    let mut lab = Lab::says(&[]);
    let background = json!({"command": "sleep 60", "run_in_background": true});
    lab.server =
        Server::start(vec![vec![call("c1", "Bash", &background)], vec![text("Started.")]]).unwrap();
    let args = ["--dangerously-skip-permissions", "--output-format", "json", "Wait."];
    let child = lab.command(&args).stdout(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1_500));
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["result"], "Started.");
}

#[test]
fn a_host_is_asked_and_decides() {
    let bash = |id: &str, command: &str| call(id, "Bash", &json!({"command": command}));
    let mut lab = Lab::says(&[
        &[bash("c1", "touch one"), bash("c2", "touch two"), bash("c3", "touch three")],
        &[bash("c4", "touch one again")],
        &[text("Done.")],
        &[bash("c5", "touch four")],
    ]);
    let flags = ["--permission-prompt-tool", "stdio", "--disallowedTools", "Bash(rm:*)"];
    let mut host = Host::start(&mut lab, &flags);
    host.say("Go.", "aaaaaaaa-0000-4000-8000-00000000000a");
    let is_question = |event: &Value| event["type"] == "control_request";
    let mut questions: Vec<Value> = Vec::new();
    for _ in 0..3 {
        questions.push(host.until(is_question).pop().unwrap());
    }
    let first = &questions[0]["request"];
    assert_eq!((&first["subtype"], &first["tool_name"]), (&json!("can_use_tool"), &json!("Bash")));
    assert_eq!(
        (&first["input"], &first["tool_use_id"]),
        (&json!({"command": "touch one"}), &json!("c1"))
    );
    let rule = json!({"toolName": "Bash", "ruleContent": "touch one:*"});
    assert_eq!(first["permission_suggestions"][0]["rules"], json!([rule]));
    let answer = |host: &mut Host, question: &Value, response: Value| {
        let id = &question["request_id"];
        let response = json!({"subtype": "success", "request_id": id, "response": response});
        host.line(&json!({"type": "control_response", "response": response}));
    };
    // The later answers come first. What is changed is judged again: a rule denies it.
    let changed = json!({"behavior": "allow", "updatedInput": {"command": "rm -f README.md"}});
    answer(&mut host, &questions[2], changed);
    answer(&mut host, &questions[1], json!({"behavior": "deny", "message": "no thanks"}));
    let updates = json!([{"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "session"}]);
    let allowed = json!({"behavior": "allow", "updatedInput": {"command": "touch other"}, "updatedPermissions": updates});
    answer(&mut host, &questions[0], allowed);
    // The fourth call is not asked about: the rule covers it.
    let events = host.until(|event| event["type"] == "result");
    assert!(!events.iter().any(is_question), "{events:?}");
    let result = events.last().unwrap();
    assert_eq!(result["permission_denials"].as_array().unwrap().len(), 2);
    let made = |name: &str| lab.cwd().join(name).exists();
    assert_eq!(
        [made("one"), made("two"), made("three"), made("other")],
        [true, false, false, true]
    );
    assert!(made("README.md") && made("again"));
    let results = events.iter().filter(|event| event["type"] == "user").map(Value::to_string);
    let results: String = results.collect();
    assert!(results.contains("no thanks") && results.contains("denies it"), "{results}");
    // A refusal that ends the turn.
    host.say("Again.", "aaaaaaaa-0000-4000-8000-00000000000b");
    let question = host.until(is_question).pop().unwrap();
    let stop = json!({"behavior": "deny", "message": "stop", "interrupt": true});
    answer(&mut host, &question, stop);
    assert_eq!(host.result()["subtype"], "error_during_execution");
    assert!(!made("four"));
    host.end();
}

/// What the next request says of calls that were denied, changed, or asked about.
#[test]
fn the_model_is_sent_what_was_decided() {
    let bash = |id: &str, command: &str| call(id, "Bash", &json!({"command": command}));
    let calls = [
        bash("c1", "echo asked > one && cat one"),
        bash("c2", "echo original"),
        bash("c3", "touch denied"),
        bash("c4", "touch turned"),
        bash("c5", "rm README.md"),
        bash("c6", "ls README.md"),
    ];
    let mut lab = Lab::says(&[&calls, &[text("Done.")]]);
    let flags = ["--permission-prompt-tool", "stdio", "--disallowedTools", "Bash(rm:*)"];
    let flags = [&flags[..], &["--settings", r#"{"permissions": {"ask": ["Bash(echo:*)"]}}"#]];
    let mut host = Host::start(&mut lab, &flags.concat());
    host.say("Go.", "aaaaaaaa-0000-4000-8000-00000000000a");
    let answers = [
        ("c1", json!({"behavior": "allow"})),
        ("c2", json!({"behavior": "allow", "updatedInput": {"command": "echo changed"}})),
        ("c3", json!({"behavior": "deny", "message": "Not now."})),
        // What is changed is judged again.
        ("c4", json!({"behavior": "allow", "updatedInput": {"command": "rm -f README.md"}})),
    ];
    for _ in 0..answers.len() {
        let question = host.until(|event| event["type"] == "control_request").pop().unwrap();
        let (id, call) = (&question["request_id"], &question["request"]["tool_use_id"]);
        let response = &answers.iter().find(|(known, _)| call == known).unwrap().1;
        let response = json!({"subtype": "success", "request_id": id, "response": response});
        host.line(&json!({"type": "control_response", "response": response}));
    }
    host.result();
    assert_eq!(host.end(), Some(0));
    assert_snapshot!("decided", shape(&lab, &lab.server.requests()[1]));
    assert_eq!(lab.check(SESSION), "full []");
    // Nobody can be asked.
    let mut lab = Lab::says(&[&calls, &[text("Done.")]]);
    lab.new_session(&["Go.", "--disallowedTools", "Bash(rm:*)"]);
    assert_snapshot!("refused", shape(&lab, &lab.server.requests()[1]));
    assert_eq!(lab.check(SESSION), "full []");
}

/// What a host changes is what runs: in the sandbox, outside of it, and for hooks.
#[test]
fn what_a_host_changes_runs_and_not_what_was_asked() {
    let failing = |text: &str| format!("echo {text} >> ran; echo Permission denied; exit 1");
    let original = json!({"command": failing("original")});
    let mut lab = Lab::says(&[&[call("c1", "Bash", &original)], &[text("Done.")]]);
    if !lab.run(&["Go.", "--sandbox", "require", "--no-session-persistence"]).status.success() {
        return;
    }
    lab.server =
        Server::start(vec![vec![call("c1", "Bash", &original)], vec![text("Done.")]]).unwrap();
    let hook = json!([{"hooks": [{"type": "command", "command": "cat >> hooked"}]}]);
    let settings = json!({"hooks": {"PostToolUse": hook, "PostToolUseFailure": hook}}).to_string();
    let flags = ["--permission-prompt-tool", "stdio", "--disallowedTools", "Bash(rm:*)"];
    let mut host = Host::start(&mut lab, &[&flags[..], &["--settings", &settings]].concat());
    host.say("Go.", "aaaaaaaa-0000-4000-8000-00000000000a");
    for command in [failing("inside"), "echo outside >> ran".to_owned()] {
        let question = host.until(|event| event["type"] == "control_request").pop().unwrap();
        let response = json!({"behavior": "allow", "updatedInput": {"command": command}});
        let id = &question["request_id"];
        let response = json!({"subtype": "success", "request_id": id, "response": response});
        host.line(&json!({"type": "control_response", "response": response}));
    }
    host.result();
    assert_eq!(host.end(), Some(0));
    let read = |name: &str| fs::read_to_string(lab.cwd().join(name)).unwrap();
    assert_eq!(read("ran"), "inside\noutside\n");
    assert!(read("hooked").contains("echo outside") && !read("hooked").contains("original"));
}

/// What commands change in a folder that a host has added can be undone, too.
#[test]
fn a_folder_that_a_host_adds_is_in_the_images() {
    let mut lab = Lab::says(&[]);
    let beside = lab.env.put("beside/a.txt", "old\n");
    let folder = std::fs::canonicalize(beside.parent().unwrap()).unwrap();
    let bash = |id: &str, command: &str| call(id, "Bash", &json!({"command": command}));
    let change = format!("echo new > {0}/a.txt; touch {0}/b.txt", folder.display());
    let calls = vec![bash("c1", "touch one"), bash("c2", &change)];
    lab.server = Server::start(vec![calls, vec![text("Done.")]]).unwrap();
    let mut host = Host::start(&mut lab, &["--permission-prompt-tool", "stdio"]);
    let uuid = "aaaaaaaa-0000-4000-8000-00000000000a";
    host.say("Go.", uuid);
    for _ in 0..2 {
        let question = host.until(|event| event["type"] == "control_request").pop().unwrap();
        let updates =
            json!([{"type": "addDirectories", "directories": [folder], "destination": "session"}]);
        let response = json!({"behavior": "allow", "updatedPermissions": updates});
        let id = &question["request_id"];
        let response = json!({"subtype": "success", "request_id": id, "response": response});
        host.line(&json!({"type": "control_response", "response": response}));
    }
    host.result();
    assert_eq!(fs::read_to_string(&beside).unwrap(), "new\n");
    let answer = host.ask(&json!({"subtype": "rewind_files", "user_message_id": uuid}));
    assert_eq!(answer["response"]["response"]["canRewind"], true, "{answer}");
    assert_eq!(host.end(), Some(0));
    assert_eq!(fs::read_to_string(&beside).unwrap(), "old\n");
    assert!(!folder.join("b.txt").exists() && !lab.cwd().join("one").exists());
}

#[test]
fn a_plan_is_approved_and_then_files_change() {
    let write =
        |id: &str, path: &str| call(id, "Write", &json!({"file_path": path, "content": "x"}));
    let mut lab = Lab::says(&[&[text("-")]]);
    let path = lab.path("new");
    lab.server = Server::start(vec![
        vec![write("c1", &path), call("c2", "Bash", &json!({"command": "echo x > made; ls"}))],
        vec![call("c3", "ExitPlanMode", &json!({"plan": "Write it."}))],
        vec![write("c4", &path)],
        vec![text("Done.")],
    ])
    .unwrap();
    let flags = [
        "--permission-prompt-tool",
        "stdio",
        "--permission-mode",
        "plan",
        "--allowedTools",
        "Bash",
    ];
    let mut host = Host::start(&mut lab, &flags);
    host.say("Go.", "aaaaaaaa-0000-4000-8000-00000000000a");
    for _ in 0..2 {
        let question = host.until(|event| event["type"] == "control_request").pop().unwrap();
        assert!(!lab.cwd().join("made").exists() && !lab.cwd().join("new").exists());
        let id = &question["request_id"];
        let response =
            json!({"subtype": "success", "request_id": id, "response": {"behavior": "allow"}});
        host.line(&json!({"type": "control_response", "response": response}));
    }
    let result = host.result();
    assert_eq!((&result["result"], &result["is_error"]), (&json!("Done."), &json!(false)));
    assert_eq!(result["permission_denials"].as_array().unwrap().len(), 1);
    assert!(lab.cwd().join("new").exists() && !lab.cwd().join("made").exists());
    assert_eq!(host.end(), Some(0));
}

#[test]
fn a_decision_is_explained_without_a_key() {
    let lab = Lab::says(&[]);
    let explain = |args: &[&str]| -> Value {
        let mut command = lab.env.command(&["chat"]);
        let output = command.args(args).current_dir(lab.cwd()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let found = explain(&["--explain", "rm x", "--json"]);
    let expected = json!({
        "v": 1, "decision": "ask", "mode": "default", "rule": null, "source": null,
        "why": "no rule allows it",
        "parts": [{"text": "rm x", "decision": "ask", "rule": null, "source": null, "why": "no rule allows it"}],
    });
    assert_eq!(found, expected);
    let found = explain(&[
        "--explain",
        "rm x && ls",
        "--allowedTools",
        "Bash(rm:*),Read",
        "Edit",
        "--json",
    ]);
    assert_eq!((&found["decision"], &found["rule"]), (&json!("allow"), &json!("Bash(rm:*)")));
    let found = explain(&[
        "--explain",
        "/etc/passwd",
        "--tool",
        "Read",
        "--permission-mode",
        "dontAsk",
        "--json",
    ]);
    assert_eq!((&found["decision"], &found["mode"]), (&json!("deny"), &json!("dontAsk")));
    let settings = r#"{"permissions": {"deny": ["Bash(git push:*)"]}}"#;
    let found = explain(&["--explain", "env git push", "--settings", settings, "--json"]);
    assert_eq!((&found["decision"], &found["source"]), (&json!("deny"), &json!("--settings")));
    let found = explain(&["--settings-check", "--settings", settings, "--json"]);
    let row =
        json!({"key": "permissions.deny", "value": "Bash(git push:*)", "source": "--settings"});
    assert_eq!(found["settings"], json!([row]));
    let closed = r#"{"sandbox": {"allowUnsandboxedCommands": false}}"#;
    let found = explain(&["--settings-check", "--settings", closed, "--json"]);
    let row = json!({
        "key": "sandbox.allowUnsandboxedCommands", "value": false, "source": "all settings",
    });
    assert_eq!(found["settings"], json!([row]));
    let hook = r#"{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "x y"}]}]}}"#;
    let found = explain(&["--settings-check", "--settings", hook, "--json"]);
    let row = json!({"key": "hooks.PreToolUse(Bash)", "value": "x y", "source": "--settings"});
    assert_eq!(found["settings"], json!([row]));
}
