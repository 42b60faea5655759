//! Folders and settings that the newest client withstands: ours beside it, on the same folder.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use serde_json::{Value, json};
use testkit::api::Server;

use crate::lab::{Lab, clients, write};

/// The version that the findings name.
const NEWEST: &str = "2.1.325";

/// The real client and ours: a name, and how each is started.
fn both() -> [(&'static str, Vec<PathBuf>); 2] {
    let newest = clients().into_iter().find(|(version, _)| version == NEWEST);
    let (_, start) = newest.unwrap_or_else(|| panic!("`./test real` installs {NEWEST}"));
    let ours = vec![PathBuf::from(env!("CARGO_BIN_EXE_quipu")), "chat".into()];
    [(NEWEST, start), ("quipu", ours)]
}

/// A model that writes a file, and that file.
fn writing(lab: &Lab) -> (Server, PathBuf) {
    let made = lab.cwd().join("made");
    let input = json!({"file_path": made, "content": "x"});
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "Write", "input": input});
    let text = json!({"type": "text", "text": "Done."});
    (Server::start(vec![vec![call], vec![text.clone()], vec![text]]).unwrap(), made)
}

fn shown(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{:?}\n{}\n{}", output.status, text(&output.stdout), text(&output.stderr))
}

fn settings(lab: &Lab, value: &Value) {
    write(&lab.home().join(".claude/settings.json"), value.to_string());
}

#[test]
fn e01_a_bare_repository_in_a_folder_starts_nothing() {
    for (name, start) in both() {
        let lab = Lab::new();
        let (folder, mark) = (lab.cwd().join("pkg"), lab.home().join("pwned"));
        for part in ["objects", "refs"] {
            fs::create_dir_all(folder.join(part)).unwrap();
        }
        write(&folder.join("HEAD"), "ref: refs/heads/main\n");
        let config = format!(
            "[core]\nbare = false\nworktree = \"{}\"\nfsmonitor = \"touch '{}';false\"\n",
            folder.display(),
            mark.display()
        );
        write(&folder.join("config"), config);
        let server = Server::start(vec![vec![json!({"type": "text", "text": "Hi."})]; 3]).unwrap();
        let output = lab.command(&start, &server).arg("Hi").current_dir(&folder).output().unwrap();
        assert!(output.status.success(), "{name}: {}", shown(&output));
        assert!(!mark.exists(), "{name}");
    }
}

#[test]
fn e04_a_hook_that_refuses_is_not_passed_over() {
    for (name, start) in both() {
        let lab = Lab::new();
        let (server, made) = writing(&lab);
        let hook = json!({"type": "command", "command": "echo no >&2; exit 2"});
        settings(&lab, &json!({"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [hook]}]}}));
        let mut command = lab.command(&start, &server);
        let output = command.args(["--permission-mode", "acceptEdits", "Write."]).output().unwrap();
        assert!(!made.exists(), "{name}: {}", shown(&output));
        assert_eq!(output.status.code(), Some(0), "{name}: {}", shown(&output));
    }
}

#[test]
fn e05_bypass_that_is_switched_off_or_asked_for_by_root_is_none() {
    for (name, start) in both() {
        let lab = Lab::new();
        let (server, made) = writing(&lab);
        settings(&lab, &json!({"permissions": {"disableBypassPermissionsMode": "disable"}}));
        let output = lab.try_run(&start, &server, &["Write."]);
        assert!(!made.exists(), "{name}: {}", shown(&output));
        settings(&lab, &json!({}));
        if !rustix::process::geteuid().is_root() {
            println!("left out: bypass by root; these tests are not run by root");
            continue;
        }
        let mut command = lab.command(&start, &server);
        command.args(["--dangerously-skip-permissions", "Write."]).env_remove("IS_SANDBOX");
        let output = command.output().unwrap();
        assert!(!output.status.success() && !made.exists(), "{name}: {}", shown(&output));
        // Where it is allowed it is written: the refusals above are not those of a model that is
        // silent.
        let (server, made) = writing(&lab);
        let output = lab.try_run(&start, &server, &["Write."]);
        assert!(made.exists(), "{name}: {}", shown(&output));
    }
}
