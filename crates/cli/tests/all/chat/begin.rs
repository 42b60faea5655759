//! What hosts bring, and what is sent as it is.

use super::host::Host;
use super::*;

#[test]
fn what_a_host_begins_with_is_sent() {
    let mut lab = Lab::says(&[&[text("One.")]]);
    lab.env.put(".claude/skills/tidy/SKILL.md", "---\ndescription: Tidies up\n---\nTidy.\n");
    lab.env.put(".claude/skills/loud/SKILL.md", "---\ndescription: Is loud\n---\nLoud.\n");
    let mut host = Host::start(&mut lab, &["--append-system-prompt", "More."]);
    let answer = host.ask(&json!({
        "subtype": "initialize", "systemPrompt": ["You are short.", ""], "title": "A title",
        "appendSystemPrompt": "And kind.", "skills": ["tidy"],
    }));
    let answer = &answer["response"]["response"];
    assert!(answer["commands"].to_string().contains("Tidies up"), "{answer}");
    host.say("Go.", "u");
    host.result();
    // Later, the beginning stays as it was.
    host.ask(&json!({"subtype": "initialize", "systemPrompt": ["You are long."]}));
    host.say("Again.", "v");
    host.result();
    assert_eq!(host.end(), Some(0));
    let requests = lab.server.requests();
    let system = requests[0]["system"].to_string();
    for part in ["You are short.", "More.", "And kind."] {
        assert!(system.contains(part), "{system}");
    }
    assert!(!system.contains("agent of Quipu"), "{system}");
    assert_eq!(requests[1]["system"].to_string(), system);
    let tools = requests[0]["tools"].to_string();
    assert!(tools.contains("tidy: Tidies up") && !tools.contains("Is loud"), "{tools}");
    let titles = lab.lines(SESSION).into_iter().filter(|line| line["type"] == "custom-title");
    assert_eq!(titles.map(|line| line["customTitle"].clone()).collect::<Vec<_>>(), ["A title"]);
}

/// A host may send what nobody typed: it says so, and then nothing in it is obeyed.
#[test]
fn what_a_host_composed_is_sent_as_it_is() {
    let mut lab = Lab::says(&[&[text("One.")], &[text("Two.")]]);
    lab.env.put(".claude/commands/hi.md", "Say hi.\n");
    let mut host = Host::start(&mut lab, &[]);
    let message = json!({"role": "user", "content": "/hi @README.md"});
    host.line(&json!({"type": "user", "message": message, "client_composed": true}));
    host.result();
    host.line(&json!({"type": "user", "message": message}));
    host.result();
    assert_eq!(host.end(), Some(0));
    let requests = lab.server.requests();
    let sent = |number: usize| requests[number]["messages"].to_string();
    assert!(sent(0).contains("/hi @README.md"), "{}", sent(0));
    assert!(!sent(0).contains("Say hi.") && !sent(0).contains("widget"), "{}", sent(0));
    assert!(sent(1).contains("Say hi."), "{}", sent(1));
}

/// A guard in the file of an agent sees the calls of that agent, and no others.
#[test]
fn hooks_of_an_agent_guard_its_own_calls() {
    let task = json!({"description": "Make", "prompt": "LAB make", "subagent_type": "maker"});
    let bash =
        |id: &str, name: &str| call(id, "Bash", &json!({"command": format!("touch {name}")}));
    let mut lab = Lab::says(&[]);
    let rules = vec![
        ("LAB make".to_owned(), vec![Reply::Blocks(vec![bash("c2", "inner")])]),
        ("LAB-REFUSED".to_owned(), vec![Reply::Blocks(vec![text("It may not.")])]),
    ];
    let main = vec![
        Reply::Blocks(vec![bash("c1", "outer"), call("c3", "Task", &task)]),
        Reply::Blocks(vec![text("Done.")]),
    ];
    lab.server = Server::play_by(rules, main).unwrap();
    lab.env.put(
        ".claude/agents/maker.md",
        "---\nname: maker\ndescription: Makes\nhooks:\n  PreToolUse:\n    - matcher: Bash\n      hooks:\n        - type: command\n          command: echo LAB-REFUSED >&2; exit 2\n  Stop:\n    - hooks:\n        - type: command\n          command: touch stopped\n---\nYou make.\n",
    );
    let out = lab.new_session(&["Go.", "--allowedTools", "Bash"]);
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    let is_there = |name: &str| lab.cwd().join(name).exists();
    assert!(is_there("outer") && !is_there("inner") && is_there("stopped"), "{out:?}");
    // Whoever runs no hooks runs none of these.
    fs::remove_file(lab.cwd().join("stopped")).unwrap();
    lab.server = Server::play(vec![
        Reply::Blocks(vec![call("c4", "Task", &task)]),
        Reply::Blocks(vec![bash("c5", "inner")]),
        Reply::Blocks(vec![text("Made.")]),
        Reply::Blocks(vec![text("Done.")]),
    ])
    .unwrap();
    let out = lab.run(&["Go.", "--allowedTools", "Bash", "--ignore-hooks", "--session-id", FORK]);
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    assert!(lab.cwd().join("inner").exists() && !lab.cwd().join("stopped").exists(), "{out:?}");
}

/// Somebody who stops an agent in the background tells its parent.
#[test]
fn an_agent_in_the_background_that_is_stopped_is_reported() {
    let task = json!({
        "description": "Wait", "prompt": "LAB wait", "subagent_type": "general-purpose",
        "run_in_background": true,
    });
    let mut lab = Lab::says(&[]);
    let wait = Reply::Silent(vec![text("Never.")], 1, Duration::from_secs(20));
    let rules = vec![("LAB wait".to_owned(), vec![wait])];
    let main = vec![
        Reply::Blocks(vec![call("c1", "Task", &task)]),
        Reply::Blocks(vec![text("It runs.")]),
        Reply::Blocks(vec![text("Noted.")]),
    ];
    lab.server = Server::play_by(rules, main).unwrap();
    let mut host = Host::start(&mut lab, &[]);
    host.say("Start it.", "u");
    let events = host.until(|event| event["type"] == "result");
    let started = events.iter().find(|event| event["subtype"] == "task_started").unwrap();
    assert_eq!(started["is_backgrounded"], true);
    host.line(&json!({"type": "control_request", "request_id": "s", "request": {
        "subtype": "stop_task", "task_id": started["task_id"]}}));
    let events = host.until(|event| event["type"] == "result");
    let ended = events.iter().find(|event| event["subtype"] == "task_notification").unwrap();
    assert_eq!(ended["status"], "stopped");
    assert_eq!(events[events.len() - 1]["result"], "Noted.");
    assert_eq!(host.end(), Some(0));
    let requests = lab.server.requests();
    let sent = requests[requests.len() - 1]["messages"].to_string();
    assert!(sent.contains("<status>killed</status>") && sent.contains("Wait"), "{sent}");
    assert_eq!(lab.check(SESSION), "full []");
}
