//! Hooks and sub-agents of a host, and where a project's hooks run.

use super::host::Host;
use super::*;

/// Answers the hooks of a host until the turn is over. Returns what they got, and the events.
fn serve(host: &mut Host, answer: impl Fn(&Value) -> Value) -> (Vec<Value>, Vec<Value>) {
    let (mut asked, mut all) = (Vec::new(), Vec::new());
    loop {
        let mut events = host.until(|event| {
            event["type"] == "result" || event["request"]["subtype"] == "hook_callback"
        });
        let last = events[events.len() - 1].clone();
        all.append(&mut events);
        if last["type"] == "result" {
            return (asked, all);
        }
        let response = answer(&last["request"]);
        let id = &last["request_id"];
        host.line(&json!({"type": "control_response", "response": {
            "subtype": "success", "request_id": id, "response": response,
        }}));
        asked.push(last["request"].clone());
    }
}

#[test]
fn hooks_of_a_host_decide_before_anything_happens() {
    let mut lab = Lab::says(&[
        &[call("c1", "Bash", &json!({"command": "touch refused"}))],
        &[call("c2", "Bash", &json!({"command": "touch first"}))],
        &[text("Done.")],
        &[text("Really done.")],
    ]);
    let (refused, first, second) = (lab.path("refused"), lab.path("first"), lab.path("second"));
    let mut host = Host::start(&mut lab, &[]);
    let hooks = json!({
        "PreToolUse": [{"matcher": "Bash", "hookCallbackIds": ["hook_0"]}],
        "PostToolUse": [{"matcher": "Bash|Write", "hookCallbackIds": ["hook_1"], "timeout": 30}],
        "UserPromptSubmit": [{"hookCallbackIds": ["hook_2"]}],
        "Stop": [{"hookCallbackIds": ["hook_3"]}],
    });
    let answer = host.ask(&json!({"subtype": "initialize", "hooks": hooks}));
    assert_eq!(answer["response"]["subtype"], "success", "{answer}");
    host.say("Go.", "u");
    let exists = |path: &str| std::path::Path::new(path).exists();
    let (asked, events) = serve(&mut host, |request| {
        let input = &request["input"];
        match request["callback_id"].as_str().unwrap() {
            "hook_0" if request["tool_use_id"] == "c1" => {
                assert!(!exists(&refused));
                json!({"hookSpecificOutput": {"hookEventName": "PreToolUse",
                    "permissionDecision": "deny", "permissionDecisionReason": "not that"}})
            }
            "hook_0" => {
                assert!(!exists(&first) && !exists(&second));
                json!({"hookSpecificOutput": {"hookEventName": "PreToolUse",
                    "permissionDecision": "allow", "updatedInput": {"command": "touch second"}}})
            }
            "hook_1" => {
                assert_eq!(input["tool_input"], json!({"command": "touch second"}));
                json!({"hookSpecificOutput": {"hookEventName": "PostToolUse",
                    "additionalContext": "a word of the hook"}})
            }
            "hook_3" if input["stop_hook_active"] == false => {
                json!({"decision": "block", "reason": "once more"})
            }
            _ => json!({}),
        }
    });
    assert_eq!(host.end(), Some(0));
    let names: Vec<&Value> =
        asked.iter().map(|request| &request["input"]["hook_event_name"]).collect();
    let wanted = ["UserPromptSubmit", "PreToolUse", "PreToolUse", "PostToolUse", "Stop", "Stop"];
    assert_eq!(names, wanted);
    assert!(!exists(&refused) && !exists(&first) && exists(&second));
    let requests = lab.server.requests();
    let sent = |number: usize| requests[number]["messages"].to_string();
    assert!(sent(1).contains("not that") && sent(2).contains("a word of the hook"));
    assert!(sent(3).contains("Stop hook feedback:\\nonce more"), "{}", sent(3));
    assert_eq!(events[events.len() - 1]["result"], "Really done.");
    assert_eq!(events[events.len() - 1]["permission_denials"][0]["tool_use_id"], "c1");
    assert_eq!(lab.check(SESSION), "full []");
}

#[test]
fn a_hook_of_a_host_that_fails_or_is_late_loses_no_turn() {
    let mut lab = Lab::says(&[
        &[call("c1", "Bash", &json!({"command": "echo one"}))],
        &[call("c2", "Bash", &json!({"command": "echo two"}))],
        &[text("Done.")],
    ]);
    let mut host = Host::start(&mut lab, &["--allowedTools", "Bash"]);
    let hooks = json!({"PreToolUse": [{"hookCallbackIds": ["hook_0"], "timeout": 1}]});
    host.ask(&json!({"subtype": "initialize", "hooks": hooks}));
    host.say("Go.", "u");
    let is_asked = |event: &Value| event["request"]["subtype"] == "hook_callback";
    let first = host.until(is_asked).pop().unwrap();
    host.line(&json!({"type": "control_response", "response": {
        "subtype": "error", "request_id": first["request_id"], "error": "broken"}}));
    host.until(is_asked);
    // The second one never answers.
    assert_eq!(host.result()["result"], "Done.");
    assert_eq!(host.end(), Some(0));
    let sent = lab.server.requests()[2]["messages"].to_string();
    assert!(sent.contains("one") && sent.contains("two"), "{sent}");
}

#[test]
fn sub_agents_of_a_host_have_its_prompt_tools_and_model() {
    let task = json!({"description": "Look", "prompt": "LAB look", "subagent_type": "scout"});
    let mut lab = Lab::says(&[]);
    let readme = lab.path("README.md");
    let rules = vec![
        (
            "LAB look".to_owned(),
            vec![Reply::Blocks(vec![call("c2", "Read", &json!({"file_path": readme}))])],
        ),
        ("widget counter".to_owned(), vec![Reply::Blocks(vec![text("Seen.")])]),
    ];
    let main = vec![
        Reply::Blocks(vec![call("c1", "Task", &task)]),
        Reply::Blocks(vec![text("The scout has seen it.")]),
    ];
    lab.server = Server::play_by(rules, main).unwrap();
    let mut host = Host::start(&mut lab, &[]);
    let agents = json!({"scout": {
        "description": "Looks around", "prompt": "You are a scout.", "tools": ["Read"], "model": "haiku",
    }});
    let hooks = json!({"PreToolUse": [{"hookCallbackIds": ["hook_0"]}], "SubagentStop": [{"hookCallbackIds": ["hook_1"]}]});
    let answer = host.ask(&json!({"subtype": "initialize", "hooks": hooks, "agents": agents}));
    let names = answer["response"]["response"]["agents"].to_string();
    assert!(names.contains("scout"), "{answer}");
    host.say("Go.", "u");
    let (asked, events) = serve(&mut host, |_| json!({}));
    assert_eq!(host.end(), Some(0));
    let requests = lab.server.requests();
    assert!(requests[0]["tools"].to_string().contains("scout: Looks around"));
    let inner: Vec<&Value> = requests
        .iter()
        .filter(|request| request["system"].to_string().contains("You are a scout."))
        .collect();
    assert_eq!(inner.len(), 2);
    assert_eq!(inner[0]["model"], "claude-haiku-5-5");
    let tools: Vec<&Value> =
        inner[0]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(tools, ["Read"]);
    // At any depth, hooks come first; they say which agent it is.
    let of_inner: Vec<&Value> = asked
        .iter()
        .map(|one| &one["input"])
        .filter(|input| input["agent_type"] == "scout")
        .collect();
    let names: Vec<&Value> = of_inner.iter().map(|input| &input["hook_event_name"]).collect();
    assert_eq!(names, ["PreToolUse", "SubagentStop"], "{asked:?}");
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["subtype"].as_str()).collect();
    for kind in ["task_started", "task_progress", "task_notification"] {
        assert!(kinds.contains(&kind), "{kinds:?}");
    }
    assert!(events.iter().any(|event| event["parent_tool_use_id"] == "c1"));
    assert_eq!(events[events.len() - 1]["result"], "The scout has seen it.");
    assert_eq!(lab.check(SESSION), "full []");
}

/// What a project's hook calls the agent can edit, so it runs where the agent's commands run; a
/// user's hook does not.
#[cfg(target_os = "linux")]
#[test]
fn hooks_of_a_project_run_in_the_sandbox() {
    let mut lab =
        Lab::says(&[&[call("c1", "Bash", &json!({"command": "echo one"}))], &[text("Done.")]]);
    let outside = lab.env.path("outside");
    fs::create_dir_all(&outside).unwrap();
    let hook = |name: &str| {
        let command = format!("touch here-{name}; touch {}/{name}; exit 0", outside.display());
        json!({"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": command}]}]}})
    };
    lab.env.put(".claude/settings.json", hook("user").to_string());
    lab.env.put("demo/.claude/settings.json", hook("project").to_string());
    let out = lab.run(&["Go.", "--trust", "--allowedTools", "Bash"]);
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    let is_there = |path: PathBuf| path.exists();
    assert!(is_there(lab.cwd().join("here-user")) && is_there(lab.cwd().join("here-project")));
    assert!(is_there(outside.join("user")), "{out:?}");
    assert!(!is_there(outside.join("project")), "a project's hook left the sandbox");
}

/// A hook of the user's settings, for each event.
fn settings(hooks: &[(&str, &str, &str)]) -> String {
    let mut all = json!({});
    for (event, matcher, command) in hooks {
        let one = json!({"matcher": matcher, "hooks": [{"type": "command", "command": command}]});
        match all[*event].as_array_mut() {
            Some(list) => list.push(one),
            None => all[*event] = json!([one]),
        }
    }
    json!({"hooks": all}).to_string()
}

const EVENTS: [&str; 3] = ["--output-format", "stream-json", "--verbose"];

fn stream(out: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_call_that_a_hook_puts_off_ends_the_turn() {
    let first = [
        call("c1", "Bash", &json!({"command": "touch made"})),
        call("c2", "Read", &json!({"file_path": "README.md"})),
    ];
    let mut lab = Lab::says(&[&first, &[text("Later.")], &[text("Still there.")]]);
    let word = r#"echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"defer","permissionDecisionReason":"not yet"}}'"#;
    lab.env.put(".claude/settings.json", settings(&[("PreToolUse", "Bash", word)]));
    let mut args = EVENTS.to_vec();
    args.extend(["Go.", "--allowedTools", "Bash"]);
    let out = lab.new_session(&args);
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    let result = stream(&out).pop().unwrap();
    assert_eq!((&result["subtype"], &result["is_error"]), (&json!("success"), &json!(false)));
    assert_eq!(result["terminal_reason"], "tool_deferred");
    assert_eq!(result["stop_reason"], "tool_deferred");
    let put_off = json!({"id": "c1", "name": "Bash", "input": {"command": "touch made"}});
    assert_eq!(result["deferred_tool_use"], put_off);
    assert!(!lab.cwd().join("made").exists());
    assert_eq!(lab.server.requests().len(), 1);
    // The call is open in the file; a resume answers it, and the model goes on.
    let out = lab.run(&["--resume", SESSION, "And now?"]);
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    let sent = bare(&lab.server.requests()[1]);
    let results = sent[2]["content"].as_array().unwrap();
    let ids: Vec<&Value> = results.iter().map(|block| &block["tool_use_id"]).collect();
    assert!(ids.contains(&&json!("c1")) && ids.contains(&&json!("c2")), "{sent:?}");
    assert!(!lab.cwd().join("made").exists());
}

#[test]
fn after_a_call_that_was_put_off_the_same_session_goes_on() {
    let input = json!({"command": "touch made"});
    let mut lab = Lab::says(&[&[call("c1", "Bash", &input)], &[text("I see.")]]);
    let word = r#"echo '{"hookSpecificOutput":{"permissionDecision":"defer"}}'"#;
    lab.env.put(".claude/settings.json", settings(&[("PreToolUse", "Bash", word)]));
    let mut host = Host::start(&mut lab, &["--allowedTools", "Bash"]);
    host.say("Go.", "u");
    assert_eq!(host.result()["terminal_reason"], "tool_deferred");
    host.say("And now?", "v");
    assert_eq!(host.result()["result"], "I see.");
    assert_eq!(host.end(), Some(0));
    let sent = bare(&lab.server.requests()[1]);
    assert!(sent[2]["content"][0].to_string().contains("put this call off"), "{sent:?}");
    assert_eq!(lab.check(SESSION), "full []");
}

#[test]
fn hooks_say_what_comes_before_every_command() {
    let go = |command: &str| call("c1", "Bash", &json!({"command": command}));
    let print = "echo \"$GREETING $PLACE\"";
    let mut lab = Lab::says(&[
        &[go(print)],
        &[call("c2", "Bash", &json!({"command": "mkdir sub; cd sub"}))],
        &[call("c3", "Bash", &json!({"command": print}))],
        &[text("Done.")],
    ]);
    let hooks = [
        ("SessionStart", "", "echo \"export GREETING='it is'\" >> \"$CLAUDE_ENV_FILE\""),
        ("CwdChanged", "", "echo \"PLACE=$(basename \"$PWD\")\" >> \"$CLAUDE_ENV_FILE\""),
    ];
    lab.env.put(".claude/settings.json", settings(&hooks));
    let out = lab.run(&["Go.", "--allowedTools", "Bash"]);
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    let requests = lab.server.requests();
    let result = |number: usize| requests[number]["messages"].to_string();
    assert!(result(1).contains(r#""content":"it is ""#), "{}", result(1));
    assert!(result(3).contains(r#""content":"it is sub""#), "{}", result(3));
}

#[test]
fn what_hooks_can_happen_here_is_listed() {
    let mut lab = Lab::says(&[]);
    let hooks = [
        ("Stop", "", "true"),
        ("Notification", "", "true"),
        ("Setup", "", "true"),
        ("WorktreeCreate", "", "true"),
    ];
    lab.env.put(".claude/settings.json", settings(&hooks));
    let out = lab.run(&["--settings-check"]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(text.contains("hooks.Stop = true") && text.contains("hooks.Notification = true"));
    let line = text.lines().find(|line| line.contains("hooks for what cannot happen here"));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    for never in ["`Setup` (", "`WorktreeCreate` ("] {
        assert!(line.contains(never), "{line}");
    }
    // What could refuse and is not understood is never skipped.
    let looks_ahead = settings(&[("PreToolUse", "(?!Bash).*", "true")]);
    lab.env.put(".claude/settings.json", looks_ahead);
    let out = lab.run(&["Hello."]);
    let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("(?!Bash).*"), "{stderr}");
}

#[test]
fn events_that_only_inform_have_their_hooks() {
    let mut lab = Lab::says(&[&[text("Hello.")]]);
    lab.env.put("demo/CLAUDE.md", "Be brief. @more.md\n");
    lab.env.put("demo/more.md", "And kind.\n");
    let log = lab.env.path("log").display().to_string();
    let command = format!("sleep 0.2; cat >> {log}");
    let hooks = ["InstructionsLoaded", "MessageDisplay", "SessionEnd"];
    let hooks = hooks.map(|event| (event, "", command.as_str()));
    lab.env.put(".claude/settings.json", settings(&hooks));
    let mut args = EVENTS.to_vec();
    args.extend(["Hi.", "--include-hook-events"]);
    let out = lab.run(&args);
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    let lines = fs::read_to_string(&log).unwrap();
    let inputs: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |event: &str| -> Vec<&Value> {
        inputs.iter().filter(|input| input["hook_event_name"] == event).collect()
    };
    let mut loaded: Vec<(&Value, &Value)> = of("InstructionsLoaded")
        .iter()
        .map(|input| (&input["memory_type"], &input["load_reason"]))
        .collect();
    loaded.sort_by_key(|(_, reason)| reason.to_string());
    let project = json!("Project");
    let wanted = [(&project, &json!("include")), (&project, &json!("session_start"))];
    assert_eq!(loaded, wanted, "{lines}");
    assert_eq!(of("MessageDisplay")[0]["delta"], "Hello.");
    assert_eq!(of("SessionEnd").len(), 1);
    // What begins and what ends is the same run.
    let ids = |subtype: &str| -> Vec<String> {
        let events = stream(&out).into_iter().filter(|event| event["subtype"] == subtype);
        let mut ids: Vec<String> = events.map(|event| event["hook_id"].to_string()).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids("hook_started").len(), 4);
    assert_eq!(ids("hook_started"), ids("hook_response"));
}

#[test]
fn clearing_ends_and_begins_a_session_for_hooks() {
    let mut lab = Lab::says(&[&[text("One.")], &[text("Two.")]]);
    let log = lab.env.path("log").display().to_string();
    let note = |word: &str| format!("echo {word} >> {log}");
    let (ended, began, other) = (note("ended"), note("began"), note("other"));
    let context = r#"echo '{"hookSpecificOutput":{"additionalContext":"a fresh start"}}'"#;
    lab.env.put(
        ".claude/settings.json",
        settings(&[
            ("SessionEnd", "clear", &ended),
            ("SessionStart", "clear", &format!("{began}; {context}")),
            ("SessionStart", "resume", &other),
        ]),
    );
    let mut host = Host::start(&mut lab, &[]);
    host.say("One?", "u");
    host.result();
    host.say("/clear", "v");
    host.result();
    host.say("Two?", "w");
    host.result();
    assert_eq!(host.end(), Some(0));
    let sent = lab.server.requests()[1]["messages"].to_string();
    assert!(sent.contains("a fresh start") && !sent.contains("One?"), "{sent}");
    let mut words: Vec<String> =
        fs::read_to_string(&log).unwrap().lines().map(str::to_owned).collect();
    words.sort();
    assert_eq!(words, ["began", "ended"]);
}

#[test]
fn hosts_learn_what_hooks_say_and_what_fills_the_context() {
    let mut lab = Lab::says(&[&[text("Hello.")]]);
    lab.env.put("demo/CLAUDE.md", "Be brief.\n");
    let word = r#"echo '{"systemMessage":"mind the gap"}'"#;
    lab.env.put(".claude/settings.json", settings(&[("UserPromptSubmit", "", word)]));
    let agents = json!({"scout": {"description": "Looks around", "prompt": "x"}}).to_string();
    let mut host = Host::start(&mut lab, &["--agents", &agents]);
    host.say("Hi.", "u");
    let events = host.until(|event| event["type"] == "result");
    let message = events.iter().find(|event| event["subtype"] == "informational").unwrap();
    assert_eq!(message["content"], "UserPromptSubmit says: mind the gap");
    let answer = host.ask(&json!({"subtype": "get_context_usage"}));
    let usage = &answer["response"]["response"];
    let scout = json!({"agentType": "scout", "source": "flagSettings", "tokens": 4});
    assert_eq!(usage["agents"], json!([scout]));
    let file = &usage["memoryFiles"][0];
    assert!(file["path"].as_str().unwrap().ends_with("demo/CLAUDE.md"), "{usage}");
    assert_eq!((&file["type"], &file["tokens"]), (&json!("Project"), &json!(2)));
    assert!(usage["apiUsage"]["input_tokens"].is_u64(), "{usage}");
    assert_eq!(host.end(), Some(0));
}
