//! What is not asked for is not done: nothing is written too early, nothing is allowed by others,
//! no key goes astray.

use super::*;

fn standard_input(lab: &mut Lab, args: &[&str], pieces: &[(u64, &str)]) -> Output {
    let mut command = lab.command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    for (wait, piece) in pieces {
        std::thread::sleep(Duration::from_millis(*wait));
        // Whoever does not wait any more has closed it.
        let _ = input.write_all(piece.as_bytes());
    }
    drop(input);
    child.wait_with_output().unwrap()
}

#[test]
fn all_of_the_standard_input_is_said() {
    let mut lab = Lab::says(&[&[text("Freshness.")]]);
    let output = standard_input(&mut lab, &["Sum up."], &[(0, "one\n"), (3_500, "two\n")]);
    assert_eq!(output.status.code(), Some(0));
    let requests = lab.server.requests();
    assert!(requests[0]["messages"].to_string().contains(r"Sum up.\none\ntwo"), "{requests:?}");
    // One that says nothing is not waited for, and that is told.
    let mut lab = Lab::says(&[&[text("Freshness.")]]);
    let output = standard_input(&mut lab, &["Sum up."], &[(3_500, "too late\n")]);
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stderr).contains("continuing without it"));
}

#[test]
fn nothing_is_written_before_something_is_said() {
    let mut lab = Lab::says(&[&[call("c1", "Bash", &json!({"command": "true"}))]]);
    lab.new_session(&["--max-turns", "1", "--dangerously-skip-permissions", "Begin."]);
    // As a crash leaves it: a call without its result.
    let text = fs::read_to_string(lab.file(SESSION)).unwrap();
    let cut: String = text
        .lines()
        .take_while(|line| !line.contains("tool_result"))
        .fold(String::new(), |all, line| all + line + "\n");
    fs::File::create(lab.file(SESSION)).unwrap().write_all(cut.as_bytes()).unwrap();
    for args in [&["--resume", SESSION][..], &["--resume", SESSION, "--fork-session"]] {
        let output = lab.run(args);
        assert_eq!(output.status.code(), Some(2), "{}", lab.env.show(&output));
        assert_eq!(fs::read_to_string(lab.file(SESSION)).unwrap(), cut);
        assert_eq!(
            fs::read_dir(lab.file(SESSION).parent().unwrap())
                .unwrap()
                .flatten()
                .filter(|file| file.path().is_file())
                .count(),
            1
        );
    }
}

#[test]
fn an_old_session_is_left_as_it_is() {
    let samples = testkit::root().join("crates/testkit/fixtures/samples/projects/-home-dev-demo");
    let damaged = fs::read_dir(samples).unwrap().flatten().map(|entry| entry.path());
    let mut damaged =
        damaged.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("badc0ffe"));
    let damaged = fs::read(damaged.next().unwrap()).unwrap();
    for flag in ["--fork-session", "--no-session-persistence"] {
        let mut lab = Lab::says(&[&[text("Going on.")]]);
        let path = lab.env.put("demo/old.jsonl", &damaged);
        let output = lab.run(&["--resume", path.to_str().unwrap(), flag, "And now?"]);
        let shown = lab.env.show(&output);
        assert!(shown.contains("Going on.") && shown.contains("repaired first"), "{shown}");
        assert_eq!(fs::read(&path).unwrap(), damaged, "{flag}");
        assert_eq!(lab.env.path(".claude/projects").exists(), flag == "--fork-session");
    }
}

#[test]
fn a_project_can_forbid_and_not_allow() {
    let mut out = String::new();
    for (name, file, settings) in [
        (
            "a checked-in mode",
            "demo/.claude/settings.json",
            json!({"permissions": {"defaultMode": "bypassPermissions"}}),
        ),
        (
            "a checked-in tool",
            "demo/.claude/settings.json",
            json!({"permissions": {"allow": ["Bash", "Bash(ls:*)"]}}),
        ),
        (
            "one's own mode",
            "demo/.claude/settings.local.json",
            json!({"permissions": {"defaultMode": "bypassPermissions"}}),
        ),
        (
            "a mode that is not there",
            ".claude/settings.json",
            json!({"permissions": {"defaultMode": "plan"}}),
        ),
        (
            "a rule that is not understood",
            ".claude/settings.json",
            json!({"permissions": {"allow": ["Bash"], "deny": ["Bash(rm:*)"]}}),
        ),
        (
            "to be asked about",
            ".claude/settings.json",
            json!({"permissions": {"allow": ["Bash"], "ask": ["Bash"]}}),
        ),
    ] {
        let mut lab = Lab::says(&[
            &[call("c1", "Bash", &json!({"command": "touch made"}))],
            &[text("Done.")],
        ]);
        lab.env.put(file, settings.to_string());
        let output = lab.new_session(&["Go."]);
        assert_eq!(output.status.code(), Some(0));
        let made = lab.cwd().join("made").exists();
        let offered = lab.server.requests()[0]["tools"].to_string().contains(r#""name":"Bash""#);
        let stderr = lab.clean(&String::from_utf8_lossy(&output.stderr));
        writeln!(out, "### {name}\nBash is offered: {offered}, and ran: {made}\n{stderr}").unwrap();
    }
    assert_snapshot!("settings", out);
}

#[test]
fn a_key_goes_to_one_address() {
    let other = Server::start(vec![vec![text("Thief.")]]).unwrap();
    let headers = format!("location: {}/v1/messages\r\n", other.url());
    let mut lab = Lab::new(vec![failing(307, &headers, "")]);
    let output = lab.new_session(&["Hello"]);
    let shown = lab.env.show(&output);
    assert!(output.status.code() == Some(1) && shown.contains("has moved to"), "{shown}");
    assert!(other.requests().is_empty());
}

/// How an answer begins.
const START: &str = concat!(
    r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","#,
    r#""model":"claude-sonnet-5-5","content":[],"stop_reason":null,"stop_sequence":null,"#,
    r#""usage":{"input_tokens":1,"output_tokens":1}}}"#
);

#[test]
fn a_call_that_was_cut_off_is_answered_and_not_asked_for_again() {
    let events = [
        START,
        concat!(
            r#"{"type":"content_block_start","index":0,"#,
            r#""content_block":{"type":"tool_use","id":"c1","name":"Write","input":{}}}"#
        ),
        concat!(
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","#,
            r#""partial_json":"{\"file_path\":\"/x\",\"content\":\"aaa"}}"#
        ),
        r#"{"type":"content_block_stop","index":0}"#,
        concat!(
            r#"{"type":"message_delta","#,
            r#""delta":{"stop_reason":"max_tokens","stop_sequence":null},"#,
            r#""usage":{"output_tokens":9}}"#
        ),
        r#"{"type":"message_stop"}"#,
    ];
    let body = events.map(|event| format!("data: {event}\n\n")).concat();
    let mut lab = Lab::new(vec![
        failing(200, "content-type: text/event-stream\r\n", &body),
        Reply::Blocks(vec![text("In pieces, then.")]),
    ]);
    let output = lab.new_session(&["--dangerously-skip-permissions", "Write."]);
    assert_eq!(output.status.code(), Some(0), "{}", lab.env.show(&output));
    let requests = lab.server.requests();
    assert_eq!(requests.len(), 2);
    assert!(requests[1]["messages"].to_string().contains("limit of its length"));
    assert_eq!(lab.check(SESSION), "full []");
}

#[test]
fn what_answers_may_be_nothing_of_the_kind() {
    let html = failing(200, "content-type: text/html\r\n", "<html>Log in</html>");
    let mut lab = Lab::new(vec![html]);
    let output = lab.new_session(&["Hello"]);
    let shown = lab.env.show(&output);
    assert!(shown.contains("`text/html`, no events: check ANTHROPIC_BASE_URL"), "{shown}");
    assert_eq!(lab.server.requests().len(), 1);
}

#[test]
fn an_answer_that_cannot_be_written_ends_the_program() {
    let long = "x".repeat(20_000);
    let mut lab = Lab::says(&[&[text(&long)]]);
    let quipu = lab.command(&["--session-id", SESSION, "--output-format", "json", "Hello"]);
    // Files of eight kilobytes at most: the prompt fits, the answer does not.
    let mut limited = Command::new("bash");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$@\"", "bash"]);
    limited.arg(quipu.get_program()).args(quipu.get_args()).current_dir(lab.cwd());
    limited.env_clear().envs(quipu.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = limited.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", lab.env.show(&output));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(result["errors"][0].as_str().unwrap().starts_with("The session could not be written"));
    // What was there goes on.
    lab.server = Server::start(vec![vec![text("Going on.")]]).unwrap();
    let again = lab.run(&["--resume", SESSION, "And now?"]);
    assert!(lab.env.show(&again).contains("Going on."));
}

#[test]
fn a_session_has_the_name_it_was_given() {
    let mut lab = Lab::says(&[&[text("One.")], &[text("Two.")]]);
    lab.new_session(&["--name", "counting knots", "Begin."]);
    let output = lab.run(&["--resume", "counting knots", "Go on."]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Two.\n", "{}", lab.env.show(&output));
    assert_eq!(lab.check(SESSION), "full []");
    let list = lab.env.output(&["ls"]);
    assert!(String::from_utf8_lossy(&list.stdout).contains("counting knots"));
}

#[test]
fn what_is_not_kept_is_nowhere() {
    let command = "head -c 40000 /dev/zero | tr '\\0' x";
    let mut lab =
        Lab::says(&[&[call("c1", "Bash", &json!({"command": command}))], &[text("Long.")]]);
    let folder = lab.env.path("tmp");
    fs::create_dir_all(&folder).unwrap();
    let args = ["--no-session-persistence", "--dangerously-skip-permissions", "Go."];
    let output = lab.command(&args).env("TMPDIR", &folder).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Long.\n", "{}", lab.env.show(&output));
    assert!(!lab.env.path(".claude").exists());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn what_was_read_before_may_be_changed_after() {
    let mut lab = Lab::says(&[]);
    let readme = lab.path("README.md");
    let edit =
        |old: &str, new: &str| json!({"file_path": readme, "old_string": old, "new_string": new});
    lab.server = Server::start(vec![
        vec![call("c1", "Read", &json!({"file_path": readme}))],
        vec![text("Read.")],
        vec![call("c2", "Edit", &edit("small", "tiny"))],
        vec![text("Edited.")],
        vec![call("c3", "Edit", &edit("tiny", "large"))],
        vec![text("Not edited.")],
    ])
    .unwrap();
    lab.new_session(&["Read."]);
    lab.run(&["--permission-mode", "acceptEdits", "--resume", SESSION, "Edit."]);
    assert!(fs::read_to_string(&readme).unwrap().contains("tiny"));
    // Somebody else changes it, with an older time than the session's.
    fs::write(&readme, "# Demo\n\nA tiny widget counter, by hand.\n").unwrap();
    let old = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    fs::File::options().append(true).open(&readme).unwrap().set_modified(old).unwrap();
    lab.run(&["--permission-mode", "acceptEdits", "--resume", SESSION, "Edit again."]);
    assert!(!fs::read_to_string(&readme).unwrap().contains("large"));
}

#[test]
fn a_session_is_what_other_clients_take_for_one() {
    let mut lab = Lab::says(&[&[text("One.")], &[text("Two.")], &[text("Three.")]]);
    for id in ["11111111111141118111111111111111", "{11111111-1111-4111-8111-111111111111}"] {
        assert_eq!(lab.run(&["--session-id", id, "Begin."]).status.code(), Some(2), "{id}");
    }
    lab.new_session(&["Begin."]);
    // Newer files of which none is a session.
    for (name, content) in [
        (FORK, ""),
        (
            "33333333-3333-4333-8333-333333333333",
            "{\"type\":\"summary\",\"summary\":\"x\",\"leafUuid\":\"y\"}\n",
        ),
    ] {
        fs::File::create(lab.file(name)).unwrap().write_all(content.as_bytes()).unwrap();
    }
    assert_eq!(String::from_utf8_lossy(&lab.run(&["--continue", "Go on."]).stdout), "Two.\n");
    let both = lab.run(&["--continue", "--session-id", FORK, "Go on."]);
    assert!(lab.env.show(&both).contains("already has an id"));
    // A file of any name is the session that it says it is.
    let other = lab.cwd().join("ext.jsonl");
    fs::copy(lab.file(SESSION), &other).unwrap();
    let args = ["--resume", other.to_str().unwrap(), "--output-format", "json", "Go on."];
    let result: Value = serde_json::from_slice(&lab.run(&args).stdout).unwrap();
    assert_eq!(result["session_id"], SESSION);
}

#[test]
fn nobody_goes_on_with_a_sample() {
    let mut lab = Lab::says(&[]);
    let output = lab.run(&["--resume", "badc0ffe", "Go on."]);
    assert_eq!(output.status.code(), Some(3), "{}", lab.env.show(&output));
    let output =
        lab.command(&["Hello"]).env_remove("HOME").env_remove("CLAUDE_CONFIG_DIR").output();
    assert!(lab.env.show(&output.unwrap()).contains("cannot determine the folder for sessions"));
    assert!(lab.server.requests().is_empty());
}

#[test]
fn an_answer_that_is_none_is_no_success() {
    for (reason, message) in
        [("refusal", "refuses"), ("model_context_window_exceeded", "does not fit")]
    {
        let end = format!(
            r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}"}},"usage":{{"output_tokens":9}}}}"#
        );
        let body =
            [START, &end, r#"{"type":"message_stop"}"#].map(|event| format!("data: {event}\n\n"));
        let mut lab =
            Lab::new(vec![failing(200, "content-type: text/event-stream\r\n", &body.concat())]);
        let output = lab.new_session(&["Hello"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(lab.env.show(&output).contains(message), "{}", lab.env.show(&output));
    }
}

#[test]
fn settings_of_ones_own_set_variables_and_folders() {
    let mut lab = Lab::says(&[]);
    let beside = lab.env.put("beside/a.txt", "beside\n");
    let folder = beside.parent().unwrap().to_owned();
    lab.server = Server::start(vec![
        vec![
            call("c1", "Bash", &json!({"command": "echo $FOO ${ANTHROPIC_API_KEY:-no key}"})),
            call("c2", "Read", &json!({"file_path": beside})),
        ],
        vec![text("Done.")],
    ])
    .unwrap();
    let settings = json!({
        "env": {"FOO": "bar", "ANTHROPIC_MODEL": "opus", "ANTHROPIC_BASE_URL": lab.server.url()},
        "permissions": {"additionalDirectories": [folder], "allow": ["Bash"]},
    });
    let args = ["--session-id", SESSION, "--settings", &settings.to_string(), "Go."];
    let output = lab.command(&args).env("ANTHROPIC_BASE_URL", "http://127.0.0.1:9").output();
    assert_eq!(output.unwrap().status.code(), Some(0));
    let requests = lab.server.requests();
    assert_eq!(requests[0]["model"], "claude-opus-5-5");
    let sent_text = requests[1]["messages"].to_string();
    assert!(sent_text.contains("bar no key") && sent_text.contains("1→beside"), "{sent_text}");
}
