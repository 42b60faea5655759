//! Programs that host a session, and the name of the original: what cannot be done is refused,
//! clearly.

use std::io::Write as _;
use std::path::PathBuf;

use super::*;

/// What a host says, line by line, and what came of it.
fn hosted(lab: &mut Lab, args: &[&str], lines: &[Value]) -> (Vec<Value>, Output) {
    let format = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"];
    let all: Vec<&str> = format.into_iter().chain(args.iter().copied()).collect();
    let mut command = lab.command(&all);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    for line in lines {
        // Whoever was refused does not listen any more.
        let _ = writeln!(input, "{line}");
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), output)
}

fn request(request: &Value) -> Value {
    json!({"type": "control_request", "request_id": "r1", "request": request})
}

fn say(words: &str) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": words}})
}

#[test]
fn e04_options_of_a_host_that_cannot_be_honoured_are_refused() {
    let mut lab = Lab::says(&[&[text("Hi.")]]);
    let initialize = request(&json!({"subtype": "initialize", "sdkMcpServers": ["calc"]}));
    let (events, output) = hosted(&mut lab, &[], &[initialize, say("Hi")]);
    assert_eq!(code(&output), Some(2), "{}", lab.env.show(&output));
    assert_eq!(events[0]["response"]["subtype"], "error");
    assert!(events[0]["response"]["error"].as_str().unwrap().ends_with("sdkMcpServers"));
    assert!(stderr(&output).contains("sdkMcpServers") && events.len() == 1);
    assert!(lab.server.requests().is_empty(), "a host that goes on has no tools");
    // What the SDK sends beside it.
    let mut lab = Lab::says(&[&[text("Hi.")]]);
    let settings = r#"{"sandbox": {"enabled": true}}"#;
    let (_, output) = hosted(&mut lab, &["--settings", settings], &[say("Hi")]);
    assert_eq!(code(&output), Some(0), "{}", lab.env.show(&output));
    // Images are taken in any case.
    let mut images = Lab::says(&[&[text("Hi.")]]);
    let mut command = images.command(&["Hi"]);
    let output = command.env("CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING", "true").output().unwrap();
    assert_eq!(code(&output), Some(0), "{}", images.env.show(&output));
    // And what it sends when nothing is asked for; its version is one.
    let initialize = request(&json!({"subtype": "initialize", "hooks": null}));
    let (events, output) = hosted(&mut lab, &[], &[initialize, say("Hi")]);
    assert_eq!(code(&output), Some(0), "{}", lab.env.show(&output));
    let init = events.iter().find(|event| event["subtype"] == "init").unwrap();
    let version = init["claude_code_version"].as_str().unwrap();
    let parts: Vec<_> = version.split('.').map(str::parse::<u32>).collect();
    assert!(parts.len() == 3 && parts.iter().all(Result::is_ok), "{version}");
}

#[test]
fn e17_a_host_bypasses_permissions_only_if_the_session_was_started_so() {
    let bypass = json!({"subtype": "set_permission_mode", "mode": "bypassPermissions"});
    let off = r#"{"permissions": {"disableBypassPermissionsMode": "disable"}}"#;
    for (args, expected) in [
        (&[][..], Some("bypass_not_launched")),
        (&["--permission-mode", "acceptEdits"], Some("bypass_not_launched")),
        (&["--settings", off], Some("bypass_disabled")),
        (&["--allow-dangerously-skip-permissions"], None),
        (&["--dangerously-skip-permissions"], None),
    ] {
        let mut lab = Lab::says(&[
            // `touch` alone is one of the commands that `acceptEdits` allows.
            &[call("c1", "Bash", &json!({"command": "sh -c 'touch made'"}))],
            &[text("Done.")],
        ]);
        let (events, output) = hosted(&mut lab, args, &[request(&bypass), say("Go.")]);
        assert_eq!(code(&output), Some(0), "{}", lab.env.show(&output));
        let response = &events[0]["response"];
        assert_eq!(response["error_code"].as_str(), expected, "{args:?}: {response}");
        assert_eq!(lab.cwd().join("made").exists(), expected.is_none(), "{args:?}");
    }
}

/// Our program under the name of the original.
fn claude(lab: &Lab) -> PathBuf {
    let path = lab.env.path("claude");
    if !path.exists() {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_quipu"), &path).unwrap();
    }
    path
}

#[test]
fn commands_of_the_original_are_not_sent_as_prompts() {
    let mut lab = Lab::says(&[&[text("Hi.")], &[text("Hi.")], &[text("Hi.")]]);
    let claude = claude(&lab);
    let mut run = |args: &[&str]| {
        let quipu = lab.command(&[]);
        let mut command = Command::new(&claude);
        command.args(args).current_dir(lab.cwd()).stdin(Stdio::null()).env_clear();
        command.envs(quipu.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.output().unwrap()
    };
    for args in [
        &["update"][..],
        &["doctor"],
        &["mcp", "list"],
        &["config", "set", "-g", "theme", "dark"],
        &["-p", "update"],
        &["--verbose", "install", "stable"],
        &["-p", "--model", "opus", "setup-token"],
        &["plugin"],
        &["login"],
        &["migrate-installer"],
    ] {
        let output = run(args);
        let message = stderr(&output);
        assert_eq!(code(&output), Some(2), "{args:?}: {message}");
        assert!(message.contains("this is quipu"), "{args:?}: {message}");
    }
    for args in [&["-p", "update the readme"][..], &["-p", "--", "update"], &["-p", "hello"]] {
        let output = run(args);
        assert_eq!(code(&output), Some(0), "{args:?}: {}", stderr(&output));
    }
    assert_eq!(lab.server.requests().len(), 3);
    // By our own name, one word is a prompt.
    lab.server = Server::start(vec![vec![text("Hi.")]]).unwrap();
    assert_eq!(code(&lab.run(&["update"])), Some(0));
}

#[test]
fn d04_a_script_goes_on_with_its_session() {
    let mut lab = Lab::says(&[]);
    let script = json!({"replies": [
        {"content": [{"type": "tool_use", "name": "Read", "input": {"file_path": "${CWD}/README.md"}}]},
        {"content": [{"type": "text", "text": "Read."}]},
    ]});
    let path = lab.env.put("s.json", script.to_string());
    let offline = format!("--offline={}", path.display());
    assert_eq!(code(&lab.new_session(&[&offline, "A"])), Some(0));
    for _ in 0..3 {
        assert_eq!(code(&lab.run(&["-c", &offline, "B"])), Some(0));
    }
    assert_eq!(lab.check(SESSION), "full []");
}

#[test]
fn d14_what_is_no_script_is_told_in_words() {
    let mut lab = Lab::says(&[]);
    for (script, expected) in [
        ("[]", "this is a list"),
        ("[1,2,3]", "this is a list"),
        (r#"{"replies": [{"content": 7}]}"#, "its `replies[0]` is wrong"),
        ("hello", "this is no JSON"),
    ] {
        let path = lab.env.put("s.json", script);
        let output = lab.run(&[&format!("--offline={}", path.display()), "Hi"]);
        let message = stderr(&output);
        assert_eq!(code(&output), Some(2), "{message}");
        assert!(message.contains("a script is an object with `replies`"), "{message}");
        assert!(message.contains(expected) && !message.contains("struct"), "{message}");
    }
}
