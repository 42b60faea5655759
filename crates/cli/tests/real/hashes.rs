//! The newest client writes down a hash of every message that it sends. What we rebuild from its
//! transcript must have these hashes.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use testkit::api::Server;

use crate::lab::{Lab, clients, write};

/// The hash of a message: of its compact JSON with sorted keys. What we rebuild has no
/// `cache_control`.
fn hash(message: &Value) -> String {
    let mut sorted = message.clone();
    sorted.sort_all_objects();
    let digest = Sha256::digest(sorted.to_string().as_bytes());
    let mut text = String::new();
    for byte in digest {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The hashes that a message may have been written down with: a lone text is sent as a string, too,
/// and the client's own message carries a setting of the request.
fn hashes(message: &Value, setting: &Value) -> Vec<String> {
    let mut forms = vec![hash(message)];
    if message["role"] == "system" {
        let mut with = message.clone();
        with["output_config"] = setting.clone();
        forms.push(hash(&with));
    }
    if let Some([only]) = message["content"].as_array().map(Vec::as_slice)
        && only["type"] == "text"
    {
        forms.push(hash(&json!({"role": message["role"], "content": only["text"]})));
    }
    forms
}

/// The hashes of the messages of each request, in the order of the file, and where its line begins.
fn requests(transcript: &str) -> Vec<(usize, Vec<String>)> {
    let mut known: HashMap<String, Vec<String>> = HashMap::new();
    let mut found = Vec::new();
    let mut offset = 0;
    for line in transcript.split_inclusive('\n') {
        let entry: Value = serde_json::from_str(line).unwrap();
        if entry["type"] == "api-request" {
            let base = entry["base"].as_str().and_then(|base| known.get(base));
            let keep = usize::try_from(entry["keep"].as_u64().unwrap_or(0)).unwrap();
            let mut hashes: Vec<String> = base.into_iter().flatten().take(keep).cloned().collect();
            let tail = entry["tail"].as_array().into_iter().flatten();
            hashes.extend(tail.map(|hash| hash.as_str().unwrap().to_owned()));
            known.insert(entry["id"].as_str().unwrap().to_owned(), hashes.clone());
            if entry["querySource"].as_str().is_some_and(|source| !source.contains("agent")) {
                found.push((offset, hashes));
            }
        }
        offset += line.len();
    }
    found
}

#[test]
fn rebuilt_messages_have_the_hashes_that_the_client_wrote() {
    let mut tried = 0;
    for (version, start) in clients() {
        let lab = Lab::new();
        let file = lab.cwd().join("README.md");
        let read = |id: &str| json!({"type": "tool_use", "id": id, "name": "Read", "input": {"file_path": file}});
        let text = |text: &str| json!({"type": "text", "text": text});
        let server = Server::start(vec![
            vec![text("I will read it."), read("toolu_h1"), read("toolu_h2")],
            vec![text("A widget counter.")],
            vec![read("toolu_h3")],
            vec![text("Still one.")],
            vec![text("Goodbye.")],
        ]);
        let server = server.unwrap();
        lab.run(&start, &server, &["What does README.md say?"]);
        lab.run(&start, &server, &["--resume", &lab.session(), "Read it again."]);
        lab.run(&start, &server, &["--resume", &lab.session(), "That is all."]);
        let path = lab.listed()[0]["path"].as_str().unwrap().to_owned();
        let transcript = fs::read_to_string(&path).unwrap();
        let lines = transcript.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let settings = lines.map(|entry| entry["params"]["output_config"].clone());
        let setting = settings.into_iter().find(|setting| !setting.is_null()).unwrap_or_default();
        let (mut messages, mut wrong) = (0, Vec::new());
        for (number, (offset, expected)) in requests(&transcript).into_iter().enumerate() {
            // The file as it was when the request was made.
            let cut = lab.folder.path().join("cut.jsonl");
            write(&cut, &transcript[..offset]);
            let output = Command::new(env!("CARGO_BIN_EXE_quipu"))
                .args(["history", cut.to_str().unwrap(), "--as", &version, "--json"])
                .output()
                .unwrap();
            let ours: Value = serde_json::from_slice(&output.stdout).unwrap();
            let ours = ours["messages"].as_array().unwrap();
            if ours.len() != expected.len() {
                wrong.push(format!(
                    "request {number}: {} messages, not {}",
                    ours.len(),
                    expected.len()
                ));
            }
            for (at, expected) in expected.iter().enumerate() {
                messages += 1;
                if !ours.get(at).is_some_and(|message| hashes(message, &setting).contains(expected))
                {
                    let shown = ours.get(at).map(Value::to_string).unwrap_or_default();
                    let shown: String = shown.chars().take(400).collect();
                    wrong.push(format!("request {number} message {at}: {shown}"));
                }
            }
        }
        println!("{version}: {} of {messages} messages have their hashes", messages - wrong.len());
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        tried += messages;
    }
    assert!(tried > 10, "no client wrote hashes");
}
