//! What the real client has just written: read whole, with nothing unknown, where we look for it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::api::Server;

use crate::lab::{Lab, clients};

fn answers(cwd: &Path) -> Vec<Vec<Value>> {
    let file = cwd.join("README.md");
    vec![
        vec![
            json!({"type": "text", "text": "I will read it."}),
            json!({"type": "tool_use", "id": "toolu_test1", "name": "Read", "input": {"file_path": file}}),
        ],
        vec![json!({"type": "text", "text": "A widget counter."})],
        vec![json!({"type": "text", "text": "Still one."})],
    ]
}

#[test]
fn what_every_client_writes_is_read() {
    for (version, start) in clients() {
        let lab = Lab::new();
        let server = Server::start(answers(&lab.cwd())).unwrap();
        lab.run(&start, &server, &["What does README.md say?"]);
        lab.run(&start, &server, &["--resume", &lab.session(), "And now?"]);

        // Found through the folder's name, which is ours and the client's.
        let listed = lab.listed();
        assert_eq!(listed.len(), 1, "{version}: {listed:?}");
        assert_eq!(listed[0]["prompt"], "What does README.md say?", "{version}");
        assert_eq!(listed[0]["cwd"], lab.cwd().to_str().unwrap(), "{version}");
        assert_eq!(listed[0]["version"], version.as_str());
        assert_eq!(listed[0]["flags"], json!([]), "{version}");

        // All of it known: this fails when a release brings something new, and says what.
        assert_eq!(lab.quipu(&["drift", "--all", "--json"]), "", "{version}");

        let text = lab.quipu(&["inventory", "last", "--json"]);
        let total = &serde_json::from_str::<Value>(&text).unwrap()["total"];
        assert_eq!(total["human_turns"], 2, "{version}: {text}");
        assert_eq!(total["tools"], json!({"Read": 1}), "{version}");
        assert_eq!((&total["damaged"], &total["recovered"]), (&json!(0), &json!(0)), "{version}");

        let path = listed[0]["path"].as_str().unwrap();
        let raw = Command::new(env!("CARGO_BIN_EXE_quipu")).args(["cat", "--raw", path]).output();
        assert_eq!(raw.unwrap().stdout, fs::read(path).unwrap(), "{version}");
        println!(
            "{version}: {} records read, {} requests",
            total["records"],
            server.requests().len()
        );
    }
}

/// Following a session while the client writes it.
#[test]
fn a_session_is_followed_while_it_is_written() {
    for (version, start) in clients() {
        let lab = Lab::new();
        let server = Server::start(answers(&lab.cwd())).unwrap();
        lab.run(&start, &server, &["What does README.md say?"]);
        let out = lab.folder.path().join("followed.jsonl");
        let mut follow = Command::new(env!("CARGO_BIN_EXE_quipu"))
            .args(["follow", "last", "--from-start", "--json"])
            .current_dir(lab.cwd())
            .env_clear()
            .env("HOME", lab.home())
            .stdout(fs::File::create(&out).unwrap())
            .spawn()
            .unwrap();
        lab.run(&start, &server, &["--resume", &lab.session(), "And now?"]);
        let expected = lab.quipu(&["cat", "last"]);
        let end = Instant::now() + Duration::from_secs(20);
        while fs::read_to_string(&out).unwrap() != expected && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(50));
        }
        follow.kill().unwrap();
        follow.wait().unwrap();
        assert_eq!(fs::read_to_string(&out).unwrap(), expected, "{version}");
    }
}
