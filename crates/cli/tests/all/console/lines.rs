//! Lines only, for screen readers.

use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use serde_json::json;

use super::{Desk, blocks};
use crate::chat::{call, text};

fn bash(id: &str, command: &str) -> serde_json::Value {
    call(id, "Bash", &json!({"command": command, "description": "x"}))
}

/// Answers a question with a line, after it has been there long enough.
fn say(desk: &Desk, line: &str) {
    sleep(Duration::from_millis(400));
    desk.line(line);
}

#[test]
fn lines_only_for_screen_readers() {
    let replies = vec![
        blocks(&[bash("toolu_01", "touch made.txt")]),
        blocks(&[text("Made **it**.")]),
        blocks(&[bash("toolu_02", "rm made.txt")]),
        blocks(&[text("Left it.")]),
    ];
    let flags = ["--ax-screen-reader", "--sandbox", "off"];
    let Some(tmux) = Desk::start(replies, &flags, (80, 60)) else { return };
    // A name that could be completed is sent as it was typed.
    tmux.line("make a file like @REA");
    tmux.wait("1. Yes");
    say(&tmux, "1");
    tmux.wait("Made it.");
    assert!(tmux.env.path("demo/made.txt").exists());
    assert!(tmux.server.requests()[0].to_string().contains("make a file like @REA\""));
    tmux.line("remove it");
    tmux.wait("rm made.txt");
    tmux.until("the choices", |screen| screen.matches("1. Yes").count() == 2);
    say(&tmux, "3");
    tmux.wait("0: back to the choices");
    say(&tmux, "it is mine");
    tmux.wait("Left it.");
    assert!(tmux.env.path("demo/made.txt").exists());
    assert!(tmux.server.requests().pop().unwrap().to_string().contains("it is mine"));
    tmux.line("/exit");
    tmux.wait("left 0");
    let screen = tmux.screen();
    assert!(!screen.contains("working") && !screen.contains("manual mode"), "{screen}");
}

/// The console with lines only, in a shell that survives its signals.
fn with_signals() -> Option<Desk> {
    let bash = bash("toolu_01", "sleep 60");
    let replies = vec![blocks(&[bash]), blocks(&[text("Rested.")])];
    let desk = Desk::in_shell(replies, crate::env::Env::bare(), (80, 30), |line| {
        let flags = "--ax-screen-reader --sandbox off --dangerously-skip-permissions";
        format!("trap : INT TERM; {line} {flags}; echo left $?; cat")
    })?;
    desk.wait("lists the keys");
    Some(desk)
}

#[test]
fn signals_stop_a_turn_and_end_the_program() {
    let Some(desk) = with_signals() else { return };
    desk.line("wait for a minute");
    desk.wait("running Bash(sleep 60)");
    desk.keys(&["C-c"]);
    desk.wait("interrupted");
    desk.line("and now?");
    desk.wait("Rested.");
    desk.keys(&["C-c"]);
    desk.wait("Ctrl-C again leaves");
    desk.keys(&["C-c"]);
    let screen = desk.wait("left 0");
    assert!(screen.contains("resume this session with:"), "{screen}");
    // A signal ends it, too, and the end of the input.
    for (name, code) in [("TERM", "left 143"), ("", "left 0")] {
        let Some(desk) = with_signals() else { return };
        if name.is_empty() {
            desk.keys(&["C-d"]);
        } else {
            let process = super::crash::process(&desk);
            assert!(Command::new("kill").args(["-s", name, &process]).status().unwrap().success());
        }
        desk.wait(code);
    }
}

/// There is no picker: the newest sessions are numbered lines, in a session and before one.
#[test]
fn another_session_is_picked_by_its_number() {
    let replies = vec![
        blocks(&[text("ANSWER-ONE.")]),
        blocks(&[text("ANSWER-TWO.")]),
        blocks(&[text("ANSWER-THREE.")]),
    ];
    let desk = Desk::in_shell(replies, crate::env::Env::bare(), (100, 60), |line| {
        let again = line.replace(&format!("'--session-id' '{}'", super::SESSION), "");
        let flags = "--ax-screen-reader --sandbox off --no-snapshots";
        format!("{line} {flags}; {again} {flags}; {again} {flags} --resume; echo left $?; cat")
    });
    let Some(desk) = desk else { return };
    desk.wait("lists the keys");
    desk.line("count the knots");
    desk.wait("ANSWER-ONE.");
    desk.line("/exit");
    desk.until("a second session", |screen| screen.matches("lists the keys").count() == 2);
    desk.line("/resume");
    desk.wait("1. count the knots (");
    desk.wait("2. Nothing");
    say(&desk, "1");
    desk.until("the first session", |screen| screen.matches("ANSWER-ONE.").count() == 2);
    desk.line("and the cords");
    desk.wait("ANSWER-TWO.");
    desk.line("/exit");
    desk.wait("the number of your choice, or an empty line");
    desk.line("1");
    desk.until("the same session", |screen| screen.matches("ANSWER-TWO.").count() == 2);
    desk.line("/exit");
    // Nothing was said, and it can be resumed all the same.
    let screen = desk.wait("left 0");
    assert_eq!(screen.matches("resume this session with:").count(), 3, "{screen}");
    let last = desk.server.requests().pop().unwrap().to_string();
    assert!(last.contains("count the knots") && last.contains("and the cords"), "{last}");
}

/// Hooks learn why a session ends, and what the next one comes after.
#[test]
fn hooks_know_why_a_session_ends() {
    let replies = vec![blocks(&[text("ANSWER-ONE.")]), blocks(&[text("ANSWER-TWO.")])];
    let env = crate::env::Env::bare();
    let log = env.path("hooks.log");
    let hooks = |event: &str, matchers: &[&str]| -> Vec<serde_json::Value> {
        let hook = |matcher: &&str| {
            let command = format!("echo {event} {matcher} >> '{}'", log.display());
            json!({"matcher": matcher, "hooks": [{"type": "command", "command": command}]})
        };
        matchers.iter().map(hook).collect()
    };
    let settings = json!({"hooks": {
        "SessionStart": hooks("start", &["startup", "clear", "resume"]),
        "SessionEnd": hooks("end", &["clear", "resume", "prompt_input_exit", "other"]),
    }});
    env.put(".claude/settings.json", settings.to_string());
    let desk = Desk::in_shell(replies, env, (80, 60), |line| {
        format!("{line} --ax-screen-reader --sandbox off --no-snapshots; echo left $?; cat")
    });
    let Some(desk) = desk else { return };
    desk.wait("lists the keys");
    desk.line("count the knots");
    desk.wait("ANSWER-ONE.");
    desk.line("/clear");
    desk.until("a second session", |screen| screen.matches("lists the keys").count() == 2);
    desk.line("and the cords");
    desk.wait("ANSWER-TWO.");
    desk.line("/exit");
    desk.wait("left 0");
    let lines = std::fs::read_to_string(desk.env.path("hooks.log")).unwrap();
    assert_eq!(lines, "start startup\nend clear\nstart clear\nend prompt_input_exit\n");
}
