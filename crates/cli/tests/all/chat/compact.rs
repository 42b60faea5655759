//! The shapes of requests before and after a conversation is summarised, rewound, and around
//! sub-agents; and the receipt.

use super::host::Host;
use super::*;

const ORDER: &str = "is about to be replaced by a summary";

/// The shape of a request, with times and ids of agents taken out.
fn calm(lab: &Lab, body: &Value) -> String {
    let text = shape(lab, body);
    let taken = regex::Regex::new(r"duration_ms: \d+")
        .unwrap()
        .replace_all(&text, "duration_ms: 0")
        .into_owned();
    regex::Regex::new(r"agentId: a[0-9a-f]+")
        .unwrap()
        .replace_all(&taken, "agentId: [ID]")
        .into_owned()
}

#[test]
fn requests_before_and_after_a_summary_a_rewind_and_a_sub_agent() {
    let mut lab = Lab::says(&[]);
    let readme = lab.path("README.md");
    let task =
        json!({"description": "Count", "prompt": "LAB count", "subagent_type": "general-purpose"});
    let todos = json!({"todos": [
        {"content": "Write the tests", "status": "pending", "activeForm": "Writing the tests"},
        {"content": "Read", "status": "completed", "activeForm": "Reading"},
    ]});
    let rules = vec![
        (
            "LAB count".to_owned(),
            vec![Reply::Blocks(vec![call("s1", "Bash", &json!({"command": "echo three"}))])],
        ),
        ("three".to_owned(), vec![Reply::Blocks(vec![text("There are three.")])]),
        (
            ORDER.to_owned(),
            vec![Reply::Blocks(vec![text(
                "<summary>README.md is about widgets; there are three.</summary>",
            )])],
        ),
    ];
    let main = vec![
        Reply::Blocks(vec![
            call("c1", "Read", &json!({"file_path": readme})),
            call("c2", "TodoWrite", &todos),
        ]),
        Reply::Blocks(vec![text("It is about widgets.")]),
        Reply::Blocks(vec![call("c3", "Task", &task)]),
        Reply::Blocks(vec![text("Three, the helper says.")]),
        Reply::Blocks(vec![text("After the summary.")]),
        Reply::Blocks(vec![text("A detour.")]),
        Reply::Blocks(vec![text("Back again.")]),
    ];
    lab.server = Server::play_by(rules, main).unwrap();
    let mut host = Host::start(&mut lab, &["--allowedTools", "Bash"]);
    let id = |number: u32| format!("aaaaaaaa-0000-4000-8000-00000000000{number}");
    host.say("What is it about?", &id(1));
    host.result();
    host.say("How many are there?", &id(2));
    host.result();
    host.say("/compact keep numbers", &id(3));
    let events = host.until(|event| event["type"] == "result");
    let boundary = events.iter().find(|event| event["subtype"] == "compact_boundary").unwrap();
    let receipt = &boundary["compact_metadata"]["receipt"];
    assert!(receipt["lost"].as_array().is_some_and(|lost| !lost.is_empty()), "{receipt}");
    host.say("And now?", &id(4));
    host.result();
    host.say("A detour, please.", &id(5));
    host.result();
    let back = json!({"subtype": "rewind", "user_message_id": id(5), "what": "conversation"});
    let answer = host.ask(&back);
    assert_eq!(answer["response"]["subtype"], "success", "{answer}");
    host.say("No detour.", &id(6));
    host.result();
    assert_eq!(host.end(), Some(0));
    let requests = lab.server.requests();
    let names = [
        "the first",
        "with the results of its tools",
        "the next prompt",
        "the sub-agent begins",
        "the sub-agent has a result",
        "the report of the sub-agent",
        "the order of a summary",
        "after the summary",
        "a detour",
        "after going back",
    ];
    assert_eq!(requests.len(), names.len());
    let mut out = String::new();
    for (name, body) in names.iter().zip(&requests) {
        writeln!(out, "### {name}\n{}", calm(&lab, body)).unwrap();
    }
    assert_snapshot!("shapes", out);
    let checked = lab.check(SESSION);
    assert!(checked.starts_with(r#"full [{"code":"rewound""#), "{checked}");
    assert_eq!(checked.matches(r#""code""#).count(), 1, "{checked}");
    // What is sent after a resume begins with what was sent before.
    lab.server = Server::start(vec![vec![text("Resumed.")]]).unwrap();
    lab.run(&["--resume", SESSION, "Still there?"]);
    let (before, after) = (bare(&requests[9]), bare(&lab.server.requests()[0]));
    assert_eq!(before[..], after[..before.len()]);
    assert_eq!(requests[9]["system"], lab.server.requests()[0]["system"]);
    assert_eq!(requests[9]["tools"], lab.server.requests()[0]["tools"]);
    // The same receipt, from the file.
    let path = lab.file(SESSION).display().to_string();
    let printed = lab.env.output(&["compaction", &path]);
    assert_eq!(printed.status.code(), Some(0), "{printed:?}");
    assert_snapshot!("receipt", lab.clean(&String::from_utf8_lossy(&printed.stdout)));
    let printed = lab.env.output(&["compaction", &path, "--json"]);
    let printed: Value = serde_json::from_slice(&printed.stdout).unwrap();
    assert_eq!(printed["lost"], receipt["lost"], "{printed}");
    assert_eq!(printed["missed"], receipt["missed"]);
}
