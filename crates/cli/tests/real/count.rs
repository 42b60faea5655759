//! The inventory of the corpus agrees with a count by `jq`, line by line.
//!
//! Lines that `jq` cannot read are those that `quipu` calls damaged or recovered; they are left out of both.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

/// One name a line for everything that is counted.
const FILTER: &str = r#"
def human:
  (.isMeta != true) and (.isCompactSummary != true) and (.isSidechain != true)
  and ((.origin.kind? // "human") == "human")
  and (((.message.content | type) == "string")
       or ((.message.content | type) == "array" and (.message.content | length) > 0
           and all(.message.content[]; .type != "tool_result")))
  and ((if (.message.content | type) == "string" then .message.content
        else (first(.message.content[]? | select(.type == "text") | .text) // "") end)
       | test("^(<local-command-(stdout|stderr|caveat)>|<bash-(stdout|stderr)>|<task-notification>|<system-reminder>|\\[Request interrupted by user)") | not);
fromjson? | objects |
  "records",
  "type " + .type,
  (select(.type == "system") | "subtype system/" + (.subtype // "(none)")),
  (select(.type == "attachment") | "subtype attachment/" + .attachment.type),
  (select(.type == "progress") | "subtype progress/" + .data.type),
  (.version | strings | "version " + .),
  (select(.type == "assistant") | "stop " + (.message.stop_reason // "null"), "model " + .message.model),
  (select(.type == "user" or .type == "assistant") | .message.content
    | (strings | "block (string)"),
      (arrays | .[] | "block " + .type, (select(.type == "tool_use") | "tool " + .name))),
  (select(.type == "user") | select(human) | "human")
"#;

fn by_jq(bytes: &[u8]) -> BTreeMap<String, u64> {
    let mut jq = Command::new("jq")
        .args(["-R", "-r", FILTER])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("`./test real` looks for jq first");
    let mut stdin = jq.stdin.take().unwrap();
    let input = bytes.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input).unwrap());
    let output = jq.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success());
    let mut counts = BTreeMap::new();
    for name in String::from_utf8(output.stdout).unwrap().lines() {
        *counts.entry(name.to_owned()).or_default() += 1;
    }
    counts
}

fn by_quipu(path: &str) -> BTreeMap<String, u64> {
    let output = Command::new(env!("CARGO_BIN_EXE_quipu"))
        .args(["inventory", "--json", path])
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let total = &report["total"];
    let mut counts = BTreeMap::new();
    let mut add = |name: String, value: &Value| {
        if value.as_u64().unwrap() > 0 {
            counts.insert(name, value.as_u64().unwrap());
        }
    };
    add("records".to_owned(), &total["records"]);
    add("human".to_owned(), &total["human_turns"]);
    for (field, name) in [
        ("types", "type"),
        ("subtypes", "subtype"),
        ("stop_reasons", "stop"),
        ("blocks", "block"),
        ("tools", "tool"),
        ("versions", "version"),
        ("models", "model"),
    ] {
        for (key, value) in total[field].as_object().unwrap() {
            add(format!("{name} {key}"), value);
        }
    }
    counts
}

#[test]
fn inventory_and_jq_agree_on_the_corpus() {
    let mut folders: Vec<_> = testkit::shared("corpus").into_iter().collect();
    folders.push(testkit::root().join("samples"));
    let scratch = tempfile::NamedTempFile::new().unwrap();
    let (mut files, mut records) = (0, 0);
    for file in testkit::files_under(&folders) {
        // What jq takes for a line: valid JSON, alone.
        let mut healthy = Vec::new();
        for line in file.bytes.split_inclusive(|byte| *byte == b'\n') {
            if serde_json::from_slice::<Value>(line).is_ok() {
                healthy.extend_from_slice(line);
            }
        }
        scratch.as_file().set_len(0).unwrap();
        let mut writer = scratch.reopen().unwrap();
        writer.write_all(&healthy).unwrap();
        let ours = by_quipu(scratch.path().to_str().unwrap());
        assert_eq!(ours, by_jq(&healthy), "{}", file.path.display());
        files += 1;
        records += ours.get("records").copied().unwrap_or_default();
    }
    println!("{files} files, {records} records agree");
    assert!(files > 5);
}
