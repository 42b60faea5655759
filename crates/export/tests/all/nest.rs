//! Sub-agents that start sub-agents, and one in the background that continues after its turn.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use transcript::conversation::ingest::Closing;

use super::{ended, plan, spans};

const SESSION: &str = "11111111-2222-4333-8444-555555555555";

fn put(path: &Path, lines: &[Value]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = fs::File::create(path).unwrap();
    for line in lines {
        writeln!(file, "{line}").unwrap();
    }
}

/// A record with its id, parent, time in seconds, type and message.
fn record(uuid: &str, parent: Option<&str>, second: u32, kind: &str, message: &Value) -> Value {
    json!({
        "uuid": uuid, "parentUuid": parent, "sessionId": SESSION, "type": kind, "message": message,
        "timestamp": format!("2026-01-03T15:00:{second:02}.000Z"),
    })
}

fn prompt(uuid: &str, parent: Option<&str>, second: u32, text: &str) -> Value {
    record(uuid, parent, second, "user", &json!({"role": "user", "content": text}))
}

fn answer(uuid: &str, parent: &str, second: u32, block: &Value) -> Value {
    let stop = if block["type"] == "tool_use" { "tool_use" } else { "end_turn" };
    let message = json!({"id": format!("msg_{uuid}"), "role": "assistant", "model": "m", "content": [block], "stop_reason": stop});
    record(uuid, Some(parent), second, "assistant", &message)
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn call(id: &str, prompt: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "Task", "input": {"prompt": prompt, "subagent_type": prompt}})
}

fn result(uuid: &str, parent: &str, second: u32, id: &str, tool_use_result: &Value) -> Value {
    let block = json!({"type": "tool_result", "tool_use_id": id, "content": "done"});
    let mut record =
        record(uuid, Some(parent), second, "user", &json!({"role": "user", "content": [block]}));
    record["toolUseResult"] = tool_use_result.clone();
    record
}

/// The files of a session: an agent that starts another, and one in the background. `is_done`:
/// whether the latter is done.
fn session(folder: &Path, is_done: bool) -> std::path::PathBuf {
    let main = folder.join(format!("{SESSION}.jsonl"));
    let agents = folder.join(SESSION).join("subagents");
    put(
        &main,
        &[
            prompt("p", None, 0, "go"),
            answer("a1", "p", 1, &call("toolu_outer", "outer")),
            result("r1", "a1", 6, "toolu_outer", &json!({"agentId": "outer"})),
            answer("a2", "r1", 7, &call("toolu_back", "back")),
            result(
                "r2",
                "a2",
                8,
                "toolu_back",
                &json!({"agentId": "back", "isAsync": true, "status": "async_launched"}),
            ),
            answer("a3", "r2", 9, &text("All set.")),
        ],
    );
    put(
        &agents.join("agent-outer.jsonl"),
        &[
            prompt("o1", None, 2, "outer"),
            answer("o2", "o1", 3, &call("toolu_inner", "inner")),
            result("o3", "o2", 5, "toolu_inner", &json!({"agentId": "inner"})),
            answer("o4", "o3", 6, &text("outer is done")),
        ],
    );
    put(
        &agents.join("agent-inner.jsonl"),
        &[prompt("i1", None, 3, "inner"), answer("i2", "i1", 4, &text("inner is done"))],
    );
    let mut back =
        vec![prompt("b1", None, 8, "back"), answer("b2", "b1", 20, &call("toolu_open", "x"))];
    if is_done {
        back.extend([
            result("b3", "b2", 30, "toolu_open", &Value::Null),
            answer("b4", "b3", 31, &text("back is done")),
        ]);
    }
    put(&agents.join("agent-back.jsonl"), &back);
    main
}

/// The span tree, as names with their parents' names and the seconds from start to end.
fn tree(path: &Path, closing: &Closing) -> Vec<String> {
    let plan = plan(path, closing);
    let found: Vec<_> = spans(&plan).into_values().flatten().collect();
    let name = |id| found.iter().find(|span| Some(span.id) == id).map_or("–", |span| &span.name);
    let seconds = |time: transcript::format::time::Time| time.0 / 1_000 % 60;
    let mut rows: Vec<String> = found
        .iter()
        .map(|span| {
            let (start, end) = (seconds(span.start), seconds(span.end));
            format!("{start:02}-{end:02} {} < {}", span.name, name(span.parent))
        })
        .collect();
    rows.sort();
    rows
}

#[test]
fn agents_hang_below_their_calls() {
    let folder = tempfile::tempdir().unwrap();
    let path = session(folder.path(), true);
    let wanted = [
        "00-01 m < Turn 1",
        "00-09 Turn 1 < –",
        "01-06 Task < m",
        "02-03 m < outer",
        "02-06 outer < Task",
        "03-04 inner < Task",
        "03-04 m < inner",
        "03-05 Task < m",
        "05-06 m < outer",
        "06-07 m < Turn 1",
        "07-08 Task < m",
        "08-09 m < Turn 1",
        "08-20 m < back",
        "08-31 back < Task",
        "20-30 Task < m",
        "30-31 m < back",
    ];
    assert_eq!(tree(&path, &Closing::default()), wanted);
}

/// If a turn is over and its agent in the background is not, the agent is sent when it is done.
#[test]
fn an_agent_in_the_background_comes_later() {
    let folder = tempfile::tempdir().unwrap();
    let open = |rows: &[String]| rows.iter().any(|row| row.contains("back <"));
    let path = session(folder.path(), false);
    let rows = tree(&path, &Closing::default());
    assert!(rows.iter().any(|row| row.contains("Turn 1 <")) && !open(&rows), "{rows:?}");
    assert!(open(&tree(&path, &ended())));
    session(folder.path(), true);
    assert!(open(&tree(&path, &Closing::default())));
}
