//! In which order hooks run, beside the order in which those of 2.1.325 ran (`order.txt`, from
//! recordings; without `InstructionsLoaded`, whose place differs between them, and without the
//! `SubagentStop` of a summary, which no sub-agent writes here).

use super::*;

fn recorded() -> Vec<(String, Vec<String>)> {
    let lines = include_str!("order.txt").lines().filter(|line| !line.starts_with('#'));
    let parts = lines.map(|line| line.split_once(": ").unwrap());
    let split = |events: &str| events.split(' ').map(str::to_owned).collect();
    parts.map(|(prompt, events)| (prompt.to_owned(), split(events))).collect()
}

/// What a hook was about: the event, its tool or source, and whether a sub-agent runs it.
fn name(input: &Value) -> String {
    let text = |name: &str| input[name].as_str().map(str::to_owned);
    let mut name = text("hook_event_name").unwrap();
    for about in [text("tool_name"), text("source")].into_iter().flatten() {
        name = format!("{name}:{about}");
    }
    if input["agent_id"].is_string() { format!("{name}@") } else { name }
}

#[test]
fn hooks_run_in_the_order_of_the_original() {
    let lab = Lab::new(&json!({}));
    let log = lab.path("log").display().to_string();
    // Those that only look take a while, so that nothing overtakes them by chance.
    let delay = |event: &str| match event {
        "MessageDisplay" | "PostCompact" => "sleep 0.2; ",
        _ => "",
    };
    let answer = |event: &str| {
        let deny = r#"{"decision":"block","reason":"no"}"#;
        let decide =
            |word: &str| format!(r#"{{"hookSpecificOutput":{{"permissionDecision":"{word}"}}}}"#);
        match event {
            "PreToolUse" => format!(
                "case $in in *LAB-ask*) echo '{}';; *LAB-defer*) echo '{}';; *LAB-deny*) echo '{deny}';; esac",
                decide("ask"),
                decide("defer")
            ),
            "Stop" => format!(
                "case $in in *'\"stop_hook_active\":true'*) ;; *LAB-once-more*) echo '{deny}';; esac"
            ),
            "UserPromptExpansion" => format!("case $in in *LAB-refused*) echo '{deny}';; esac"),
            _ => ":".to_owned(),
        }
    };
    let events = agent::hook::EVENTS.iter().filter(|(event, _)| *event != "InstructionsLoaded");
    let events = events.map(|(event, _)| {
        let command =
            format!("in=$(cat); {}echo \"$in\" >> {log}; {}", delay(event), answer(event));
        (event.to_string(), json!([{"hooks": [{"type": "command", "command": command}]}]))
    });
    let hooks: serde_json::Map<String, Value> = events.collect();
    fs::write(lab.path("home/settings.json"), json!({"hooks": hooks}).to_string()).unwrap();
    put(&lab.path("home/commands/hi.md"), "Say hi to $ARGUMENTS.");
    let task = json!({"description": "d", "prompt": "LAB x", "subagent_type": "general-purpose"});
    let bash = |command: &str| calls("Bash", &json!({"command": command}));
    let script = json!({
        "replies": [
            says("Plain."),
            says("LAB-once-more"), says("Now."),
            bash("echo one"), says("Ran."),
            bash("echo LAB-deny"), says("Denied."),
            bash("exit 1"), says("Failed."),
            bash("echo LAB-ask"), says("Asked."),
            bash("echo LAB-defer"),
            bash("echo two"), says("Went on."),
            calls("Read", &json!({"file_path": "/etc/hostname"})), says("May not."),
            calls("Task", &task), says("Helped."),
            says("Hi."),
            says("The last."),
        ],
        "rules": [
            {"match": {"last_user_contains": "LAB x"}, "replies": [bash("echo inner")]},
            {"match": {"last_user_contains": "inner"}, "replies": [says("Report.")]},
            {"match": {"last_user_contains": "is about to be replaced by a summary"},
                "replies": [says("<summary>x</summary>")]},
        ],
    });
    let wanted = recorded();
    let prompts: Vec<&str> = wanted.iter().map(|(prompt, _)| prompt.as_str()).collect();
    let done = lab.run(&script, Origin::New, &prompts);
    let text = fs::read_to_string(lab.path("log")).unwrap();
    let found: Vec<String> =
        text.lines().map(|line| name(&serde_json::from_str(line).unwrap())).collect();
    let mut rest = found.as_slice();
    for (prompt, events) in &wanted {
        let here = &rest[..events.len().min(rest.len())];
        assert_eq!(here, events, "{prompt}: {:?}", done.outcomes());
        rest = &rest[events.len()..];
    }
    assert_eq!(rest, [] as [String; 0]);
    // What the model calls `Task` and `Agent` is one tool for hooks, and events are told so.
    let started = done.events.iter().filter_map(|(_, event)| match event {
        Event::HookStarted { name, .. } => Some(name.as_str()),
        _ => None,
    });
    let started: Vec<&str> = started.collect();
    assert!(started.contains(&"PreToolUse:Agent") && !started.contains(&"PreToolUse:Task"));
}
