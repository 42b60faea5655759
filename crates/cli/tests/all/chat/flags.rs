//! Flags that hosts use, as the program that is built takes them.

use super::host::Host;
use super::*;

fn events(out: &std::process::Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

const STREAM: [&str; 3] = ["--output-format", "stream-json", "--verbose"];

fn with<'a>(args: &[&'a str]) -> Vec<&'a str> {
    STREAM.into_iter().chain(args.iter().copied()).collect()
}

#[test]
fn tools_and_agents_narrow_what_is_offered() {
    let mut lab = Lab::says(&[&[text("One.")], &[text("Two.")], &[text("Three.")]]);
    let out = lab.run(&with(&["Hello.", "--tools", "Read,Grep"]));
    assert_eq!(events(&out)[0]["tools"], json!(["Grep", "Read"]), "{out:?}");
    let out = lab.run(&with(&["Hello.", "--tools", ""]));
    assert_eq!(events(&out)[0]["tools"], json!([]), "{out:?}");
    let agents = r#"{"poet":{"description":"Rhymes","prompt":"Answer in rhymes.","tools":["Read"],"model":"haiku"}}"#;
    let out = lab.run(&with(&["Hello.", "--agents", agents, "--agent", "poet"]));
    let first = &events(&out)[0];
    assert_eq!(first["tools"], json!(["Read"]));
    assert!(first["model"].as_str().unwrap().contains("haiku"), "{first}");
    let out = lab.run(&["Hello.", "--agent", "nobody"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("there is no agent `nobody`"));
}

#[test]
fn a_budget_ends_the_turn_before_the_next_request() {
    let input = json!({"command": "echo one"});
    let mut lab = Lab::says(&[&[call("toolu_1", "Bash", &input)], &[text("Never.")]]);
    let args = ["Go.", "--max-budget-usd", "0.0000001", "--allowedTools", "Bash"];
    let out = lab.run(&with(&args));
    let events = events(&out);
    let result = events.last().unwrap();
    assert_eq!(result["subtype"], "error_max_budget_usd", "{result}");
    assert_eq!(out.status.code(), Some(1));
    assert!(!events.iter().any(|event| event.to_string().contains("Never.")));
}

#[test]
fn settings_files_count_only_if_they_are_wanted() {
    let mut lab = Lab::says(&[&[text("One.")], &[text("Two.")]]);
    lab.env.put(".claude/settings.json", r#"{"permissions":{"defaultMode":"acceptEdits"}}"#);
    lab.env.put(".claude/commands/hi.md", "Say hi.");
    let out = lab.run(&with(&["Hello."]));
    let first = &events(&out)[0];
    assert_eq!(first["permissionMode"], "acceptEdits");
    assert!(first["slash_commands"].to_string().contains("\"hi\""), "{first}");
    let out = lab.run(&with(&["Hello.", "--setting-sources", "project,local"]));
    let first = &events(&out)[0];
    assert_eq!(first["permissionMode"], "default");
    assert!(!first["slash_commands"].to_string().contains("\"hi\""), "{first}");
    let out = lab.run(&["Hello.", "--setting-sources", "everything"]);
    assert_eq!(out.status.code(), Some(2));
}

#[test]
fn servers_of_mcp_are_refused_with_the_reason() {
    let mut lab = Lab::says(&[]);
    let out = lab.run(&["Hello.", "--mcp-config", "servers.json"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("MCP servers are not supported"));
}

#[test]
fn a_system_prompt_comes_from_a_file() {
    let mut lab = Lab::says(&[&[text("One.")]]);
    lab.env.put("demo/system.txt", "You speak Latin.");
    let out = lab.run(&["Hello.", "--system-prompt-file", "system.txt"]);
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    let request = &lab.server.requests()[0];
    assert!(request["system"].to_string().contains("You speak Latin."), "{request}");
    let out = lab.run(&["Hello.", "--system-prompt-file", "missing.txt"]);
    assert_eq!(out.status.code(), Some(4), "{out:?}");
}

#[test]
fn the_result_has_the_form_that_was_asked_for() {
    let form =
        r#"{"type":"object","properties":{"n":{"type":"integer","minimum":3}},"required":["n"]}"#;
    let answers: Vec<Vec<Value>> = vec![
        vec![text("I would rather talk.")],
        vec![call("c1", "StructuredOutput", &json!({"n": 1}))],
        vec![call("c2", "StructuredOutput", &json!({"n": 4}))],
        vec![text("Done.")],
    ];
    let answers: Vec<&[Value]> = answers.iter().map(Vec::as_slice).collect();
    let mut lab = Lab::says(&answers);
    let out = lab.new_session(&with(&["Count.", "--json-schema", form]));
    let result = events(&out).pop().unwrap();
    assert_eq!(result["structured_output"], json!({"n": 4}), "{out:?}");
    assert_eq!((&result["subtype"], &result["result"]), (&json!("success"), &json!(r#"{"n":4}"#)));
    let requests = lab.server.requests();
    // The turn ends with the value: nobody asks for more words.
    assert_eq!(requests.len(), 3);
    let tools = requests[0]["tools"].as_array().unwrap();
    let tool = tools.iter().find(|tool| tool["name"] == "StructuredOutput").unwrap();
    assert_eq!(tool["input_schema"], serde_json::from_str::<Value>(form).unwrap());
    assert!(requests[1]["messages"].to_string().contains("by calling the tool StructuredOutput"));
    assert!(requests[2]["messages"].to_string().contains("`n` is beyond `minimum`"));
    assert_eq!(lab.check(SESSION), "full []");

    // Text output is the JSON alone; a model that never returns it fails after some reminders.
    let mut lab = Lab::says(&[&[call("c1", "StructuredOutput", &json!({"n": 5}))], &[text("Ok.")]]);
    let out = lab.run(&["Count.", "--json-schema", form, "--max-turns", "1"]);
    assert_eq!(String::from_utf8_lossy(&out.stdout), "{\"n\":5}\n", "{out:?}");
    assert_eq!((out.status.code(), lab.server.requests().len()), (Some(0), 1));
    let mut lab = Lab::says(&[]);
    let out = lab.run(&with(&["Count.", "--json-schema", form]));
    let result = events(&out).pop().unwrap();
    assert_eq!(result["subtype"], "error_max_structured_output_retries", "{result}");
    assert_eq!((out.status.code(), lab.server.requests().len()), (Some(1), 6));
    for wrong in ["{", "[]", r#"{"type":"string"}"#] {
        let out = lab.run(&["Count.", "--json-schema", wrong]);
        assert_eq!(out.status.code(), Some(2), "{out:?}");
    }
}

#[test]
fn a_host_asks_for_a_form_too() {
    let mut lab =
        Lab::says(&[&[call("c1", "StructuredOutput", &json!({"ok": true}))], &[text("Ok.")]]);
    let mut host = Host::start(&mut lab, &[]);
    let form = json!({"type": "object", "properties": {"ok": {"type": "boolean"}}});
    let answer = host.ask(&json!({"subtype": "initialize", "hooks": null, "jsonSchema": form}));
    assert_eq!(answer["response"]["subtype"], "success", "{answer}");
    host.say("Go.", "u");
    assert_eq!(host.result()["structured_output"], json!({"ok": true}));
    assert_eq!(host.end(), Some(0));
}

#[test]
fn another_model_goes_on_if_one_is_overloaded() {
    let busy = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let mut replies = vec![failing(529, "retry-after: 0\r\n", busy); 3];
    replies.push(Reply::Blocks(vec![text("From the other one.")]));
    let mut lab = Lab::new(replies);
    let mut command = lab.command(&with(&["Hello.", "--fallback-model", "haiku"]));
    let out = command.env("CLAUDE_CODE_MAX_RETRIES", "5").output().unwrap();
    let events = events(&out);
    assert_eq!(events.last().unwrap()["result"], "From the other one.");
    let fell = events.iter().find(|event| event["subtype"] == "model_fallback").unwrap();
    assert_eq!(fell["to_model"], "claude-haiku-5-5");
    let models: Vec<String> =
        lab.server.requests().iter().map(|request| request["model"].to_string()).collect();
    assert_eq!(models[0], models[2]);
    assert_eq!((models.len(), models[3].as_str()), (4, "\"claude-haiku-5-5\""));
}

#[test]
fn effort_and_betas_reach_the_api() {
    let mut lab = Lab::says(&[&[text("One.")], &[text("Two.")]]);
    let out = lab.run(&["--effort", "high", "--betas", "one-2026,two-2026", "--", "Hello."]);
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    lab.run(&["Hello."]);
    let (requests, headers) = (lab.server.requests(), lab.server.headers());
    assert_eq!(requests[0]["output_config"], json!({"effort": "high"}));
    assert!(
        headers[0].contains("anthropic-beta: one-2026,two-2026,effort-2025-11-24"),
        "{headers:?}"
    );
    assert!(requests[1]["output_config"].is_null() && !headers[1].contains("anthropic-beta"));
    assert_eq!(lab.run(&["--effort", "huge", "Hello."]).status.code(), Some(2));
}

#[test]
fn a_session_goes_on_from_any_record() {
    let mut lab =
        Lab::says(&[&[text("One.")], &[text("Two.")], &[text("Three.")], &[text("Four.")]]);
    lab.new_session(&["First."]);
    lab.run(&["--resume", SESSION, "Second."]);
    let lines = lab.lines(SESSION);
    let answer = lines.iter().find(|line| line["message"]["content"][0]["text"] == "One.").unwrap();
    let id = answer["uuid"].as_str().unwrap().to_owned();
    let out = lab.run(&["--resume", SESSION, "--resume-session-at", &id, "Other."]);
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    let sent = bare(&lab.server.requests()[2]);
    let texts: Vec<&Value> = sent.iter().map(|message| &message["content"]).collect();
    assert!(texts[2].to_string().contains("Other.") && texts.len() == 3, "{texts:?}");
    // A plain resume follows the new branch, and nothing left the file.
    lab.run(&["--resume", SESSION, "Then."]);
    let sent = lab.server.requests()[3]["messages"].to_string();
    assert!(sent.contains("Other.") && sent.contains("Three.") && !sent.contains("Second."));
    assert_eq!(lab.lines(SESSION)[..lines.len()], lines);
    let before = fs::read(lab.file(SESSION)).unwrap();
    let out = lab.run(&["--resume", SESSION, "--resume-session-at", FORK, "Never."]);
    assert!(String::from_utf8_lossy(&out.stderr).contains("has no record"), "{out:?}");
    assert_ne!(out.status.code(), Some(0));
    assert_eq!(fs::read(lab.file(SESSION)).unwrap(), before);
    assert_eq!(lab.run(&["--resume-session-at", &id, "Never."]).status.code(), Some(2));
}

#[test]
fn without_a_terminal_a_session_must_be_named() {
    let mut lab = Lab::says(&[]);
    let out = lab.run(&["Hello.", "--resume"]);
    assert_eq!(out.status.code(), Some(2), "{out:?}");
    assert!(String::from_utf8_lossy(&out.stderr).contains("no terminal to pick a session in"));
}

#[test]
fn what_happens_can_be_watched() {
    let input = json!({"command": "echo one"});
    let mut lab = Lab::says(&[&[call("c1", "Bash", &input)], &[text("Done.")]]);
    lab.env.put(
        ".claude/settings.json",
        r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"true"}]}]}}"#,
    );
    let out = lab.run(&["Go.", "--debug", "--allowedTools", "Bash"]);
    let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
    for part in [
        "api: a turn begins",
        "tools: Bash c1",
        "tools: c1 is done",
        "hooks: Stop begins",
        "api: the turn ended",
    ] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    assert_eq!(String::from_utf8_lossy(&out.stdout), "Done.\n");
    let file = lab.env.path("debug.txt").display().to_string();
    let out = lab.run(&["Go.", "--debug=hooks", "--debug-file", &file]);
    assert!(!String::from_utf8_lossy(&out.stderr).contains("[debug]"), "{out:?}");
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains("hooks: Stop ends") && !text.contains("api:"), "{text}");
    assert_eq!(lab.run(&["Go.", "--debug=everything"]).status.code(), Some(2));
    let out = lab.run(&["Go.", "--debug=!hooks,!mcp"]);
    let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(stderr.contains("] ") && stderr.contains(" api: "), "{stderr}");
    assert!(!stderr.contains(" hooks: "), "{stderr}");
}

#[test]
fn runs_of_hooks_are_events_if_they_are_wanted() {
    let mut lab = Lab::says(&[&[text("One.")], &[text("Two.")]]);
    lab.env.put(
        ".claude/settings.json",
        r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"echo ran"}]}]}}"#,
    );
    let kinds = |out: &Output| -> Vec<Value> {
        let events = events(out);
        let hooks = events.iter().filter(|event| event["hook_event"] == "Stop");
        hooks.map(|event| json!([event["subtype"], event["stdout"], event["exit_code"]])).collect()
    };
    let out = lab.run(&with(&["Hello.", "--include-hook-events"]));
    let wanted = [json!(["hook_started", null, null]), json!(["hook_response", "ran\n", 0])];
    assert_eq!(kinds(&out), wanted, "{out:?}");
    assert_eq!(kinds(&lab.run(&with(&["Hello."]))), Vec::<Value>::new());
}

/// All flags of `claude --help` 2.1.325.
const FLAGS: [&str; 67] = [
    "--add-dir",
    "--agent",
    "--agents",
    "--allow-dangerously-skip-permissions",
    "--allowedTools",
    "--append-system-prompt",
    "--autocompact",
    "--ax-screen-reader",
    "--background",
    "--bare",
    "--betas",
    "--bg",
    "--brief",
    "--chrome",
    "--cloud",
    "--continue",
    "--dangerously-skip-permissions",
    "--debug",
    "--debug-file",
    "--desktop",
    "--disable-slash-commands",
    "--disallowedTools",
    "--effort",
    "--environment",
    "--exclude-dynamic-system-prompt-sections",
    "--fallback-model",
    "--file",
    "--fork-session",
    "--forward-subagent-text",
    "--from-pr",
    "--help",
    "--ide",
    "--include-hook-events",
    "--include-partial-messages",
    "--input-format",
    "--json-schema",
    "--max-budget-usd",
    "--mcp-config",
    "--model",
    "--name",
    "--no-chrome",
    "--no-session-persistence",
    "--output-format",
    "--permission-mode",
    "--permission-prompts",
    "--plugin-dir",
    "--plugin-url",
    "--print",
    "--prompt-suggestions",
    "--remote-control",
    "--remote-control-session-name-prefix",
    "--replay-user-messages",
    "--restricted",
    "--resume",
    "--safe-mode",
    "--session-id",
    "--setting-sources",
    "--settings",
    "--strict-mcp-config",
    "--system-prompt",
    "--system-prompt-snapshot",
    "--teleport",
    "--tmux",
    "--tools",
    "--verbose",
    "--version",
    "--worktree",
];

/// Flags that hosts use and the help of the original does not list.
const MORE: [&str; 8] = [
    "--append-system-prompt-file",
    "--max-thinking-tokens",
    "--max-turns",
    "--permission-prompt-tool",
    "--resume-session-at",
    "--system-prompt-file",
    "--allowed-tools",
    "--disallowed-tools",
];

#[test]
fn every_flag_of_the_original_has_its_row() {
    let page = fs::read_to_string(testkit::root().join("docs/agent.md")).unwrap();
    let table = page.split("\n## Flags\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let mut all: Vec<(String, String)> = Vec::new();
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let mut cells = row.trim_matches('|').split(" | ").map(str::trim);
        let names = cells.next().unwrap().split('`').filter(|name| name.starts_with('-'));
        let (here, why) = (cells.next().unwrap(), cells.next().unwrap_or_default());
        assert!(["have", "other", "not"].contains(&here), "{row}");
        assert!(here == "have" || !why.is_empty(), "no reason: {row}");
        all.extend(names.map(|name| (name.to_owned(), here.to_owned())));
    }
    for flag in FLAGS.iter().chain(&MORE) {
        let rows = all.iter().filter(|(name, _)| name == flag).count();
        assert_eq!(rows, 1, "{flag} is in {rows} rows of docs/agent.md");
    }
    // What is said to be there is taken.
    let mut lab = Lab::says(&[]);
    for (flag, _) in all.iter().filter(|(_, here)| here == "have") {
        let out = lab.run(&[flag, "--no-such-flag"]);
        let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(!stderr.contains(&format!("unexpected argument '{flag}'")), "{stderr}");
    }
}

#[test]
fn a_turn_begins_with_the_first_model_again() {
    let busy = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let mut replies = vec![failing(529, "retry-after: 0\r\n", busy); 6];
    replies.push(Reply::Blocks(vec![text("From the third one.")]));
    replies.push(Reply::Blocks(vec![text("From the first one.")]));
    let mut lab = Lab::new(replies);
    let args = ["--model", "sonnet", "--fallback-model", "haiku,opus"];
    let mut host = Host::patient(&mut lab, &args, "9");
    host.say("One?", "u");
    assert_eq!(host.result()["result"], "From the third one.");
    host.say("Two?", "v");
    assert_eq!(host.result()["result"], "From the first one.");
    assert_eq!(host.end(), Some(0));
    let requests = lab.server.requests();
    let model = |number: usize| requests[number]["model"].as_str().unwrap().to_owned();
    assert_eq!(requests.len(), 8);
    assert!(model(0).contains("sonnet") && model(3).contains("haiku"));
    assert!(model(6).contains("opus") && model(7).contains("sonnet"), "{}", model(7));
}

#[test]
fn where_the_session_works_can_stand_before_the_first_prompt() {
    let mut lab = Lab::says(&[&[text("One.")], &[text("Two.")], &[text("Three.")]]);
    let flag = "--exclude-dynamic-system-prompt-sections";
    lab.new_session(&["Hello.", flag]);
    lab.run(&["--resume", SESSION, "Again.", flag]);
    lab.run(&["Hello."]);
    let requests = lab.server.requests();
    let system = |number: usize| requests[number]["system"].to_string();
    let first = |number: usize| requests[number]["messages"][0].to_string();
    assert!(!system(0).contains("Working directory") && first(0).contains("Working directory"));
    assert!(system(2).contains("Working directory") && !first(2).contains("Working directory"));
    // A resume with it begins with the same bytes.
    assert_eq!(system(0), system(1));
    let (before, after) = (bare(&requests[0]), bare(&requests[1]));
    assert_eq!(before[..], after[..before.len()]);
}

#[test]
fn a_resumed_session_can_have_the_system_prompt_of_now() {
    let mut lab = Lab::says(&[&[text("One.")], &[text("Two.")], &[text("Three.")]]);
    lab.new_session(&["Hello."]);
    lab.env.put("demo/CLAUDE.md", "Speak Latin.\n");
    lab.run(&["--resume", SESSION, "Again."]);
    lab.run(&["--resume", SESSION, "Again.", "--system-prompt-snapshot", "off"]);
    let requests = lab.server.requests();
    let first = |number: usize| requests[number]["messages"][0].to_string();
    assert!(!first(1).contains("Speak Latin.") && first(2).contains("Speak Latin."));
}

#[test]
fn nobody_is_asked_if_nobody_is_to_be() {
    let input = json!({"command": "touch made"});
    let mut lab = Lab::says(&[&[call("c1", "Bash", &input)], &[text("Refused.")]]);
    let args = ["--permission-prompt-tool", "stdio", "--permission-prompts", "none"];
    let mut host = Host::start(&mut lab, &args);
    host.say("Go.", "u");
    let result = host.result();
    assert_eq!(result["permission_denials"][0]["tool_use_id"], "c1", "{result}");
    assert_eq!(host.end(), Some(0));
}

#[test]
fn a_smaller_window_is_summarised_earlier() {
    let order = "is about to be replaced by a summary";
    let rules =
        vec![(order.to_owned(), vec![Reply::Blocks(vec![text("<summary>So far.</summary>")])])];
    let main = vec![
        Reply::Blocks(vec![text("Hello.")]),
        Reply::Full(vec![call("c1", "Bash", &json!({"command": "echo one"}))], 120_000),
        Reply::Blocks(vec![text("Done.")]),
    ];
    let mut lab = Lab::says(&[]);
    lab.server = Server::play_by(rules, main).unwrap();
    lab.new_session(&["Hello.", "--autocompact", "150k"]);
    let args = ["--resume", SESSION, "Go.", "--autocompact", "150k", "--allowedTools", "Bash"];
    let out = lab.run(&args);
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    let requests = lab.server.requests();
    assert!(requests.iter().any(|body| body["messages"].to_string().contains(order)));
    for wrong in ["50k", "2m", "many"] {
        assert_eq!(lab.run(&["Go.", "--autocompact", wrong]).status.code(), Some(2));
    }
}

#[test]
fn agents_come_from_a_file_too() {
    let mut lab = Lab::says(&[&[text("One.")]]);
    let agents = r#"{"poet":{"description":"Rhymes","prompt":"Answer in rhymes."}}"#;
    lab.env.put("demo/agents.json", agents);
    let out = lab.run(&with(&["Hello.", "--agents", "agents.json"]));
    assert!(events(&out)[0]["agents"].to_string().contains("poet"), "{out:?}");
    assert_eq!(lab.run(&["Hello.", "--agents", "missing.json"]).status.code(), Some(4));
}
