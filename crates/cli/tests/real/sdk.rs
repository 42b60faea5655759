//! The official SDK hosts our agent, as it hosts the original.

use std::path::Path;
use std::process::Command;

use serde_json::json;
use testkit::api::Server;

use crate::lab::Lab;

const TOLD: &str = "\
SystemMessage
AssistantMessage Read
UserMessage
AssistantMessage It is a demo.
ResultMessage success False 2 It is a demo.
SystemMessage
AssistantMessage First.
ResultMessage success False 1 First.
SystemMessage
AssistantMessage Second.
ResultMessage success False 1 Second.
refused checkpoints False
";

#[test]
fn the_sdk_hosts_a_session() {
    let lab = Lab::new();
    let readme = lab.cwd().join("README.md");
    let text = |words: &str| vec![json!({"type": "text", "text": words})];
    let read = json!({"type": "tool_use", "id": "c1", "name": "Read", "input": {"file_path": readme, "limit": 3}});
    let answers = vec![vec![read], text("It is a demo."), text("First."), text("Second.")];
    let server = Server::start(answers).unwrap();
    // The SDK finds the original by its name; ours is called by it.
    let program = lab.home().join("claude");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_quipu"), &program).unwrap();
    let python = testkit::root().join("target/real/sdk/bin/python");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/host.py");
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
    let models: Vec<_> =
        server.requests().iter().map(|request| request["model"].to_string()).collect();
    // Nothing was asked by those that were refused.
    assert_eq!(models[2..], [r#""claude-sonnet-5-5""#, r#""claude-haiku-5-5""#]);
}
