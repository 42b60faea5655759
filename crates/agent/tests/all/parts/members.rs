//! What hooks get on their standard input, beside what 2.1.325 gives them (`members.txt`, from
//! recordings: for each event, the members that were seen together).

use std::collections::BTreeSet;

use super::*;

type Members = BTreeSet<String>;

/// What the original says and we do not, by event: prices and states of its cache, the title.
const LEFT_OUT: [(&str, &[&str]); 2] = [
    ("UserPromptSubmit", &["session_title"]),
    (
        "SessionStart",
        &[
            "context_tokens",
            "estimated_cache_write_usd",
            "prompt_cache_likely_expired",
            "seconds_since_last_response",
            "session_title",
        ],
    ),
];

fn recorded() -> Vec<(String, Members)> {
    let lines = include_str!("members.txt").lines();
    let parts = lines.map(|line| line.split_once(": ").unwrap());
    let set = |event: &str, members: &str| -> Members {
        let left = LEFT_OUT.iter().filter(|(of, _)| *of == event);
        let left: Vec<&str> = left.flat_map(|(_, members)| *members).copied().collect();
        let members = members.split(' ').filter(|member| !left.contains(member));
        members.map(str::to_owned).collect()
    };
    parts.map(|(event, members)| (event.to_owned(), set(event, members))).collect()
}

#[test]
fn hooks_get_the_members_that_the_original_gives_them() {
    let lab = Lab::new(&json!({}));
    let log = lab.path("log");
    let events = agent::hook::EVENTS.iter().map(|(event, _)| {
        let command = format!("cat >> {}", log.display());
        (event.to_string(), json!([{"hooks": [{"type": "command", "command": command}]}]))
    });
    let hooks: serde_json::Map<String, Value> = events.collect();
    fs::write(lab.path("home/settings.json"), json!({"hooks": hooks}).to_string()).unwrap();
    put(&lab.path("home/commands/hi.md"), "Say hi.");
    put(&lab.path("project/CLAUDE.md"), "Be brief. @more.md\n");
    put(&lab.path("project/more.md"), "Be kind.\n");
    put(&lab.path("outside.txt"), "elsewhere\n");
    let task = json!({"description": "d", "prompt": "LAB x", "subagent_type": "general-purpose"});
    let bash = |command: &str| calls("Bash", &json!({"command": command}));
    let script = json!({
        "replies": [
            bash("echo one"), bash("exit 1"), bash("mkdir sub; cd sub"),
            calls("Read", &json!({"file_path": lab.path("outside.txt")})),
            calls("Task", &task), says("Done."), says("Hi."),
        ],
        "rules": [
            {"match": {"last_user_contains": "LAB x"}, "replies": [bash("echo inner")]},
            {"match": {"last_user_contains": "inner"}, "replies": [says("Report.")]},
            {"match": {"last_user_contains": "is about to be replaced by a summary"},
                "replies": [says("<summary>x</summary>")]},
        ],
    });
    let done = lab.run(&script, Origin::New, &["Go.", "/hi", "/compact"]);
    assert_eq!(done.outcomes().len(), 3, "{:?}", done.outcomes());
    let session = transcript::Session::at(&done.file).unwrap();
    lab.run(&json!({"replies": [says("Again.")]}), Origin::Session(session), &["Again."]);
    let recorded = recorded();
    let mut seen = BTreeSet::new();
    for line in fs::read_to_string(&log).unwrap().lines() {
        let input: Value = serde_json::from_str(line).unwrap();
        let event = input["hook_event_name"].as_str().unwrap().to_owned();
        let members: Members = input.as_object().unwrap().keys().cloned().collect();
        let of_event: Vec<&Members> =
            recorded.iter().filter(|(of, _)| *of == event).map(|(_, set)| set).collect();
        assert!(of_event.contains(&&members), "{event}: {members:?} is none of {of_event:#?}");
        seen.insert(event);
    }
    let all: BTreeSet<String> = recorded.into_iter().map(|(event, _)| event).collect();
    assert_eq!(seen, all);
}
