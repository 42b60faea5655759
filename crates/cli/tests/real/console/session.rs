//! A day's work at the console, then a resume, and what the real clients make of the file.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::api::Reply;

use super::{Desk, SESSION, call, calls, records, says};
use crate::chat::resumes;
use crate::lab::{Lab, clients, write};

/// The smallest image.
const PNG: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\
    \0\0\0\nIDATx\x9cc\0\x01\0\0\x05\0\x01\r\n-\xb4\0\0\0\0IEND\xaeB`\x82";

fn bash(id: &str, command: &str) -> Value {
    call(id, "Bash", &json!({"command": command, "description": "A step"}))
}

fn agent(id: &str, about: &str) -> Value {
    let input = json!({"description": about, "prompt": about, "subagent_type": "general-purpose"});
    call(id, "Task", &input)
}

fn replies(lab: &Lab) -> Vec<Reply> {
    let path = |name: &str| fs::canonicalize(lab.cwd()).unwrap().join(name);
    let edit =
        json!({"file_path": path("README.md"), "old_string": "widget", "new_string": "knot"});
    let note = json!({"file_path": path("notes.txt"), "content": "one\n"});
    vec![
        says("Hello, **you**.\n\n```sh\necho code\n```\n"),
        calls(&[bash("toolu_01", "touch made.txt")]),
        says("MADE."),
        calls(&[bash("toolu_02", "rm -r /tmp/never")]),
        says("LEFT ALONE."),
        calls(&[bash("toolu_03", "git init elsewhere")]),
        says("REPOSITORY ONE."),
        calls(&[bash("toolu_04", "git init another")]),
        says("REPOSITORY TWO."),
        calls(&[call("toolu_05", "Read", &json!({"file_path": path("README.md")}))]),
        calls(&[call("toolu_06", "Edit", &edit)]),
        says("CHANGED."),
        calls(&[bash("toolu_07", "sleep 61")]),
        calls(&[bash("toolu_08", "sleep 6")]),
        says("SLEPT."),
        calls(&[bash("toolu_09", "sleep 62")]),
        says("IN THE BACKGROUND."),
        calls(&[agent("toolu_10", "Look left"), agent("toolu_11", "Look right")]),
        says("A report."),
        says("A report."),
        says("BOTH REPORTED."),
        says("A SMALL PICTURE."),
        says("<summary>Knots were counted.</summary>"),
        says("AFTER THE SUMMARY."),
        calls(&[call("toolu_12", "Write", &note)]),
        says("NOTED."),
        says("OTHER WORDS."),
        says("RESUMED."),
    ]
}

/// What is done at the keyboard.
fn work(desk: &Desk) {
    let here = |name: &str| desk.lab.cwd().join(name);
    desk.line("Say hello");
    desk.rest("echo code", 1);
    desk.line("make a file");
    desk.wait("allow it?");
    desk.answer("1");
    desk.rest("MADE.", 1);
    assert!(here("made.txt").exists());
    desk.line("remove it");
    desk.wait("rm -r /tmp/never");
    desk.wait("allow it?");
    desk.answer("3");
    desk.line("it is not yours");
    desk.rest("LEFT ALONE.", 1);
    // The rule is edited before it is written.
    desk.line("a repository");
    desk.wait("allow it?");
    desk.answer("2");
    desk.keys(&["C-u"]);
    desk.line("Bash(git init:*)");
    desk.rest("REPOSITORY ONE.", 1);
    desk.line("one more repository");
    desk.rest("REPOSITORY TWO.", 1);
    let rules = fs::read_to_string(here(".claude/settings.local.json")).unwrap();
    let rules: Value = serde_json::from_str(&rules).unwrap();
    assert_eq!(rules, json!({"permissions": {"allow": ["Bash(git init:*)"]}}));
    desk.line("call it a knot");
    desk.wait("+A knot counter.");
    desk.wait("allow it?");
    desk.answer("1");
    desk.rest("CHANGED.", 1);
    desk.line("sleep for a minute");
    desk.wait("○ Bash(sleep 61)");
    sleep(Duration::from_millis(300));
    desk.keys(&["Escape"]);
    desk.rest("interrupted", 1);
    // The queue is seen, edited, and handed over while the command runs.
    desk.line("sleep a little");
    desk.wait("○ Bash(sleep 6)");
    desk.line("queued one");
    desk.line("queued two");
    desk.wait("⧗ queued two");
    desk.keys(&["Up"]);
    desk.keys(&["C-u"]);
    desk.line("queued three");
    desk.wait("⧗ queued three");
    desk.wait("❯ queued three");
    desk.rest("SLEPT.", 1);
    desk.line("something long");
    desk.wait("○ Bash(sleep 62)");
    sleep(Duration::from_millis(300));
    desk.keys(&["C-b"]);
    desk.rest("IN THE BACKGROUND.", 1);
    desk.wait("1 command in the background");
    desk.line("look around");
    desk.rest("BOTH REPORTED.", 1);
    write(&here("dot.png"), PNG);
    desk.paste(&here("dot.png").display().to_string());
    desk.wait("[Image #1]");
    desk.line(" what is this?");
    desk.rest("A SMALL PICTURE.", 1);
    desk.line("/compact");
    desk.rest("summarised:", 1);
    desk.line("go on");
    desk.rest("AFTER THE SUMMARY.", 1);
    desk.line("write a note");
    desk.wait("allow it?");
    desk.answer("1");
    desk.rest("NOTED.", 1);
    assert!(here("notes.txt").exists());
    desk.keys(&["Escape"]);
    desk.keys(&["Escape"]);
    desk.wait("before which prompt?");
    desk.answer("1");
    desk.wait("What goes back?");
    desk.answer("1");
    desk.wait("the conversation goes on before this prompt");
    assert!(!here("notes.txt").exists());
    desk.until("the prompt", |screen| screen.contains("❯ write a note"));
    desk.keys(&["C-u"]);
    desk.line("other words");
    desk.rest("OTHER WORDS.", 1);
    // The command in the background may still run: one Ctrl-D would not be enough.
    desk.line("/exit");
    desk.wait(&format!("quipu chat --resume {SESSION}"));
    desk.wait("left once 0");
    desk.keys(&["Enter"]);
    desk.wait("lists the keys");
    desk.line("are you still there?");
    desk.rest("RESUMED.", 1);
    desk.keys(&["C-d"]);
    desk.wait("left 0");
}

#[test]
fn a_working_session_is_resumed_by_the_clients() {
    let lab = Lab::new();
    let replies = replies(&lab);
    let flags = ["--permission-mode", "default", "--allowedTools", "Bash(sleep:*)"];
    let Some(desk) = Desk::start(lab, replies, &flags) else {
        assert!(!testkit::is_ci(), "there is no tmux");
        println!("left out: there is no tmux");
        return;
    };
    work(&desk);
    // Everything that was said arrived: the reason, the edited queue, the image, the summary.
    let requests: Vec<String> = desk.server.requests().iter().map(Value::to_string).collect();
    for wanted in
        ["it is not yours", "queued one", "queued three", "image/png", "Knots were counted."]
    {
        assert!(requests.iter().any(|request| request.contains(wanted)), "{wanted}");
    }
    assert!(!requests.iter().any(|request| request.contains("queued two")));
    let last = requests.last().unwrap();
    assert!(last.contains("other words") && !last.contains("write a note"), "{last}");
    let path = desk.project().join(format!("{SESSION}.jsonl"));
    let bytes = fs::read(&path).unwrap();
    let records = records(&bytes);
    let prompts = records.iter().filter(|record| record["permissionMode"].is_string()).count();
    assert!(prompts >= 15, "{prompts} prompts");
    let check = desk.lab.quipu(&["check", SESSION, "--json"]);
    let check: Value = serde_json::from_str(&check).unwrap();
    println!("{prompts} prompts, {} records, check: {}", records.len(), check["verdict"]);
    for (version, start) in clients() {
        let wrong = resumes(&version, &start, std::slice::from_ref(&bytes));
        assert_eq!(wrong, None, "{version}");
        println!("{version} resumes it as predicted");
    }
}
