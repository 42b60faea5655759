//! What is left when the program ends in the middle of something.

use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use testkit::api::Reply;

use super::{Desk, SESSION, blocks};
use crate::chat::text;
use crate::env::Env;

fn started(replies: Vec<Reply>, env: Env) -> Option<Desk> {
    let desk = Desk::in_shell(replies, env, (100, 30), |line| {
        let again = line.replace(&format!("'--session-id' '{SESSION}'"), "");
        let flags = "--sandbox off --no-snapshots";
        // After a crash: what the terminal is like, and the same once more.
        format!(
            "{line} {flags}; echo left $?; stty -a; stty sane; read x; clear; {again} {flags} --continue; cat"
        )
    })?;
    desk.wait("lists the keys");
    Some(desk)
}

/// The process of the console.
pub(crate) fn process(desk: &Desk) -> String {
    let shell = desk.run(&["display-message", "-p", "-t", ":0", "#{pane_pid}"]);
    let child = Command::new("pgrep").args(["-P", shell.trim()]).output().unwrap();
    String::from_utf8(child.stdout).unwrap().trim().to_owned()
}

/// What is kept of prompts that were not sent.
fn drafts(desk: &Desk) -> Vec<String> {
    let mut folders = vec![desk.env.path(".local/state")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().unwrap().to_string_lossy().starts_with("chat-") {
                found.push(fs::read_to_string(path).unwrap());
            }
        }
    }
    found
}

fn signal(desk: &Desk, name: &str) {
    let process = process(desk);
    assert!(Command::new("kill").args(["-s", name, &process]).status().unwrap().success());
}

#[test]
fn a_draft_survives_and_the_terminal_is_as_before() {
    for name in ["TERM", "KILL"] {
        let Some(desk) =
            started(vec![blocks(&[text("ANSWER-ONE.")]), blocks(&[text("On.")])], Env::bare())
        else {
            return;
        };
        desk.line("first");
        desk.wait("ANSWER-ONE.");
        desk.text("what was not sent");
        // It is kept a little after the last key.
        sleep(Duration::from_millis(800));
        signal(&desk, name);
        let screen = desk.wait("left ");
        if name == "TERM" {
            let screen = desk.until("a terminal as before", |screen| {
                screen.contains(" icanon") && screen.contains(" echo ")
            });
            assert!(screen.contains("left 143"), "{screen}");
            assert!(screen.contains(&format!("quipu chat --resume {SESSION}")), "{screen}");
            // Nothing of the live area is left.
            assert!(!screen.contains("manual mode"), "{screen}");
        } else {
            // Nobody can put that right but the next program.
            assert!(screen.contains("left 137"), "{screen}");
        }
        desk.keys(&["Enter"]);
        desk.wait("a draft that was not sent");
        desk.until("the draft", |screen| screen.contains("❯ what was not sent"));
        desk.keys(&["Enter"]);
        desk.wait("On.");
        let request = desk.server.requests().pop().unwrap().to_string();
        assert!(request.contains("first") && request.contains("what was not sent"), "{request}");
        assert_eq!(drafts(&desk), Vec::<String>::new());
    }
}

#[test]
fn the_window_is_closed() {
    let Some(desk) = started(vec![blocks(&[text("ANSWER-ONE.")])], Env::bare()) else { return };
    desk.line("first");
    desk.wait("ANSWER-ONE.");
    desk.paste("pasted\nlines\nof\na text ");
    desk.text("typed a moment ago");
    sleep(Duration::from_millis(200));
    let process = process(&desk);
    desk.run(&["kill-server"]);
    let proc = format!("/proc/{process}");
    for _ in 0..100 {
        if fs::metadata(&proc).is_err() {
            break;
        }
        sleep(Duration::from_millis(50));
    }
    assert!(fs::metadata(&proc).is_err(), "it still runs");
    assert_eq!(drafts(&desk), ["pasted\nlines\nof\na text typed a moment ago"]);
    let check = desk.quipu(&["check", SESSION]);
    assert!(check.contains("resumes"), "{check}");
}
