//! Rewinds both ways: what our agent records and copies the real client goes on with and puts back,
//! and the other way round.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use testkit::api::Server;
use transcript::conversation::place::slug;

use crate::chat::{ours, recorded_go_on, resumes};
use crate::lab::{Lab, clients};

/// What the real client recorded of rewinds: the folder of recordings, the version, the scenario.
const RECORDED: [(&str, &str, &str); 6] = [
    ("recordings", "2.0.76", "i_rewind"),
    ("recordings", "2.1.29", "i_rewind"),
    ("recordings", "2.1.45", "i_rewind"),
    ("recordings", "2.1.325", "i_rewind"),
    ("recordings-2", "2.1.45", "s_rewind_accept"),
    ("recordings-2", "2.1.325", "s_rewind_accept"),
];

const STREAM: [&str; 5] =
    ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"];
const SESSION: &str = "11111111-1111-4111-8111-111111111111";

fn id(number: u32) -> String {
    format!("aaaaaaaa-0000-4000-8000-00000000000{number}")
}

fn call(id: &str, name: &str, input: &Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": input})
}

fn text(words: &str) -> Value {
    json!({"type": "text", "text": words})
}

/// The answers of the scenario, with a command that changes a file of its own.
fn answers(lab: &Lab) -> Vec<Vec<Value>> {
    let path = fs::canonicalize(lab.cwd()).unwrap().join("notes.txt");
    let write = json!({"file_path": path, "content": "one\n"});
    let edit = json!({"file_path": path, "old_string": "one", "new_string": "two"});
    let bash = json!({"command": "echo bash > bash.txt", "description": "Run a step"});
    vec![
        vec![text("ANSWER-ONE is here.")],
        vec![text("Writing."), call("toolu_01", "Write", &write)],
        vec![text("ANSWER-TWO is here.")],
        vec![call("toolu_02", "Edit", &edit)],
        vec![call("toolu_03", "Bash", &bash)],
        vec![text("ANSWER-THREE is here.")],
        vec![text("ANSWER-FOUR is here.")],
        vec![text("ANSWER-FIVE is here.")],
    ]
}

/// A client that is hosted.
pub(crate) struct Hosted {
    child: Child,
    input: ChildStdin,
    events: BufReader<ChildStdout>,
}

impl Hosted {
    pub(crate) fn start(lab: &Lab, start: &[PathBuf], server: &Server, args: &[&str]) -> Hosted {
        let mut command = lab.command(start, server);
        command.args(STREAM).args(args).arg("--dangerously-skip-permissions");
        command.env("CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING", "1");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (input, events) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Hosted { child, input, events: BufReader::new(events) }
    }

    pub(crate) fn until(&mut self, is_last: impl Fn(&Value) -> bool) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.events.read_line(&mut line).unwrap() > 0, "it ends too early");
            let event: Value = serde_json::from_str(&line).unwrap();
            if is_last(&event) {
                return event;
            }
        }
    }

    pub(crate) fn say(&mut self, words: &str, uuid: &str) -> Value {
        let message = json!({"role": "user", "content": words});
        let line = json!({
            "type": "user", "message": message, "uuid": uuid, "session_id": "", "parent_tool_use_id": null,
        });
        writeln!(self.input, "{line}").unwrap();
        self.until(|event| event["type"] == "result")
    }

    pub(crate) fn ask(&mut self, request: &Value) -> Value {
        let line = json!({"type": "control_request", "request_id": "r1", "request": request});
        writeln!(self.input, "{line}").unwrap();
        self.until(|event| event["type"] == "control_response")["response"].clone()
    }

    pub(crate) fn end(self) {
        let Hosted { mut child, input, .. } = self;
        drop(input);
        child.wait().unwrap();
    }
}

fn three_prompts(hosted: &mut Hosted) {
    let prompts = ["Prompt one", "Prompt two, write a note", "Prompt three, edit the note"];
    for (number, words) in (1..).zip(prompts) {
        hosted.say(words, &id(number));
    }
}

fn file(lab: &Lab) -> PathBuf {
    let project = slug(&fs::canonicalize(lab.cwd()).unwrap().to_string_lossy());
    let project = lab.home().join(".claude/projects").join(project);
    let mut files = fs::read_dir(project).unwrap().flatten().map(|entry| entry.path());
    files.find(|path| path.extension().is_some_and(|kind| kind == "jsonl")).unwrap()
}

/// The conversation as a tree: each prompt, answer and result with the message that it hangs on.
fn shape(bytes: &[u8]) -> Vec<(String, String)> {
    let lines: Vec<Value> = bytes
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    let find = |id: &Value| lines.iter().find(|line| !id.is_null() && line["uuid"] == *id);
    let words = |line: &Value| -> Option<String> {
        let content = &line["message"]["content"];
        let block = &content[0];
        let kind = line["type"].as_str().filter(|kind| matches!(*kind, "user" | "assistant"))?;
        let text = match block["type"].as_str() {
            None => content.as_str()?.to_owned(),
            Some("text") => block["text"].as_str()?.to_owned(),
            Some("tool_use") => block["name"].as_str()?.to_owned(),
            Some(kind) => kind.to_owned(),
        };
        (!text.starts_with('<')).then(|| format!("{kind}: {text}"))
    };
    let mut all = Vec::new();
    for line in &lines {
        let Some(text) = words(line) else { continue };
        let mut parent = find(&line["parentUuid"]);
        while let Some(one) = parent.filter(|one| words(one).is_none()) {
            parent = find(&one["parentUuid"]);
        }
        all.push((text, parent.and_then(words).unwrap_or_default()));
    }
    all
}

#[test]
fn our_rewinds_are_resumed_and_put_back_by_the_clients() {
    let lab = Lab::new();
    let mut answers = answers(&lab);
    answers.remove(4);
    let server = Server::start(answers).unwrap();
    let mut hosted = Hosted::start(&lab, &ours(), &server, &["--session-id", SESSION]);
    three_prompts(&mut hosted);
    let rewind = hosted.ask(&json!({"subtype": "rewind", "user_message_id": id(3)}));
    assert_eq!(rewind["response"]["canRewind"], true, "{rewind}");
    assert_eq!(fs::read_to_string(lab.cwd().join("notes.txt")).unwrap(), "one\n");
    hosted.say("Prompt three again, other words", &id(4));
    hosted.end();
    let bytes = fs::read(file(&lab)).unwrap();
    // The records have the form of those of the real client.
    for version in ["2.1.45", "2.1.325"] {
        let Some(recordings) = testkit::shared("recordings") else { continue };
        let folder = recordings.join(version).join("i_rewind/projects");
        let recorded = testkit::files_under(&[folder]);
        let recorded = recorded.iter().find(|file| file.path.extension().is_some()).unwrap();
        assert_eq!(shape(&bytes), shape(&recorded.bytes), "{version}");
    }
    let wrong: Vec<String> = clients()
        .iter()
        .filter_map(|(version, start)| {
            Some(format!("{version}: {}", resumes(version, start, std::slice::from_ref(&bytes))?))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_clients_rewind_finds_our_copies() {
    for (version, start) in clients() {
        let lab = Lab::new();
        let server = Server::start(answers(&lab)).unwrap();
        let mut hosted = Hosted::start(&lab, &ours(), &server, &["--session-id", SESSION]);
        three_prompts(&mut hosted);
        hosted.end();
        let notes = lab.cwd().join("notes.txt");
        assert_eq!(fs::read_to_string(&notes).unwrap(), "two\n", "{version}");
        let args = ["--resume", SESSION, "--replay-user-messages"];
        let mut client = Hosted::start(&lab, &start, &server, &args);
        client.say("Go on", &id(5));
        let wish = json!({"subtype": "rewind_files", "user_message_id": id(3)});
        let done = client.ask(&wish);
        println!("{version}: {done}");
        assert_eq!(done["subtype"], "success", "{version}: {done}");
        assert_eq!(fs::read_to_string(&notes).unwrap(), "one\n", "{version}");
        let done = client.ask(&json!({"subtype": "rewind_files", "user_message_id": id(2)}));
        assert_eq!(done["subtype"], "success", "{version}: {done}");
        assert!(!notes.exists(), "{version}");
        client.end();
    }
}

#[test]
fn our_rewind_finds_the_clients_copies() {
    for (version, start) in clients() {
        let lab = Lab::new();
        let server = Server::start(answers(&lab)).unwrap();
        let mut client = Hosted::start(&lab, &start, &server, &["--session-id", SESSION]);
        three_prompts(&mut client);
        client.end();
        let rewind = |args: &[&str]| {
            let output = Command::new(env!("CARGO_BIN_EXE_quipu"))
                .args(["rewind", SESSION])
                .args(args)
                .current_dir(lab.cwd())
                .env_clear()
                .env("HOME", lab.home())
                .output()
                .unwrap();
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{version}: {error}");
            assert!(error.contains("what commands changed is not undone"), "{version}: {error}");
        };
        rewind(&["--files", "--yes"]);
        let notes = lab.cwd().join("notes.txt");
        assert_eq!(fs::read_to_string(&notes).unwrap(), "one\n", "{version}");
        assert!(lab.cwd().join("bash.txt").exists(), "{version}");
        rewind(&["--files", "--yes", "--to", "2", "--force"]);
        assert!(!notes.exists(), "{version}");
        println!("{version}: its copies were found");
    }
}

#[test]
fn recorded_rewinds_go_on_in_our_agent() {
    // The file of 2.1.29 lacks the answer that the rewound prompts hang on. The client goes on
    // without everything before it; our agent repairs the session first, and goes on with it.
    recorded_go_on(&RECORDED, |version, name| {
        ((version, name) == ("2.1.29", "i_rewind")).then_some("message 0 of 1/5")
    });
}
