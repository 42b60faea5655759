//! Decisions of the official SDK's host, and sessions with decisions both ways.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use testkit::api::Server;

use crate::chat::{recorded_go_on, resumes};
use crate::lab::{Lab, clients};

const TOLD: &str = "\
asked ExitPlanMode # Plan

1. Write notes.txt
 False
asked Write one
 True
asked Bash touch denied True
asked Bash touch asked True
result success Done.
result success More done.
refused True
";

/// What the real client recorded of plans and permissions: the folder of recordings, the version,
/// the scenario.
const RECORDED: [(&str, &str, &str); 9] = [
    ("recordings", "2.1.45", "i_plan"),
    ("recordings", "2.1.325", "i_plan"),
    ("recordings-2", "2.1.45", "r_perms45"),
    ("recordings-2", "2.1.45", "r_plan45"),
    ("recordings-2", "2.1.325", "r_perms"),
    ("recordings-2", "2.1.325", "r_plan"),
    ("recordings-2", "2.1.325", "r_plan2"),
    ("recordings-2", "2.1.325", "q_auto"),
    ("recordings-2", "2.1.325", "y_sandbox"),
];

fn call(id: &str, name: &str, input: &Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": input})
}

#[test]
fn the_sdk_decides_and_the_clients_resume() {
    let lab = Lab::new();
    let path = |name: &str| fs::canonicalize(lab.cwd()).unwrap().join(name);
    let text = |words: &str| vec![json!({"type": "text", "text": words})];
    let bash = |id: &str, command: &str| vec![call(id, "Bash", &json!({"command": command}))];
    let write = |id: &str, name: &str| {
        vec![call(id, "Write", &json!({"file_path": path(name), "content": "one\n"}))]
    };
    let plan = json!({"plan": "# Plan\n\n1. Write notes.txt\n"});
    let answers = vec![
        vec![call("c1", "ExitPlanMode", &plan)],
        write("c2", "notes.txt"),
        bash("c3", "touch denied"),
        bash("c4", "touch asked"),
        bash("c5", "touch again"),
        text("Done."),
        write("c6", "more.txt"),
        text("More done."),
    ];
    let server = Server::start(answers).unwrap();
    let program = lab.home().join("claude");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_quipu"), &program).unwrap();
    let python = testkit::root().join("target/real/sdk/bin/python");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/permit.py");
    let output = Command::new(python)
        .arg(script)
        .arg(&program)
        .arg(lab.cwd())
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", lab.home())
        .env("ANTHROPIC_API_KEY", "sk-ant-test-not-a-key")
        .env("ANTHROPIC_BASE_URL", server.url())
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(stdout, TOLD, "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read_to_string(path("notes.txt")).unwrap(), "changed\n");
    assert_eq!(fs::read_to_string(path("more.txt")).unwrap(), "one\n");
    assert!(!path("denied").exists() && path("asked").exists() && path("again").exists());
    let settings = fs::read_to_string(path(".claude/settings.local.json")).unwrap();
    let settings: Value = serde_json::from_str(&settings).unwrap();
    assert_eq!(settings, json!({"permissions": {"allow": ["Bash(touch:*)"]}}));
    // What it recorded, real clients resume.
    let files = testkit::files_under(&[lab.home().join(".claude/projects")]);
    let sessions: Vec<Vec<u8>> = files.into_iter().map(|file| file.bytes.clone()).collect();
    assert_eq!(sessions.len(), 1);
    let wrong: Vec<String> = clients()
        .iter()
        .filter_map(|(version, start)| {
            Some(format!("{version}: {}", resumes(version, start, &sessions)?))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn recorded_decisions_go_on_in_our_agent() {
    // `r_plan` has references to tools that the client loads on demand. Our agent has no such
    // tools, and says what clients say of references to tools that they do not have.
    recorded_go_on(&RECORDED, |_, name| (name == "r_plan").then_some("tool_reference"));
}
