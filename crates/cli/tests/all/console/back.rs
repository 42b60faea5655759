//! Going back behind turns of which there are no images.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use serde_json::json;
use testkit::api::Reply;

use super::{Desk, SESSION, blocks};
use crate::chat::{call, text};
use crate::env::Env;

/// What edit tools changed there comes from their copies; what commands changed stays, and that is
/// said.
#[test]
fn turns_without_images_go_back_by_their_copies() {
    let bash = |id: &str, command: &str| {
        call(id, "Bash", &json!({"command": command, "description": "x"}))
    };
    let edit = json!({"file_path": "knots.sh", "old_string": "count=2", "new_string": "count=1"});
    let replies = vec![
        blocks(&[call("toolu_01", "Read", &json!({"file_path": "knots.sh"}))]),
        blocks(&[call("toolu_02", "Edit", &edit), bash("toolu_03", "echo x > bash.txt")]),
        blocks(&[text("ANSWER-ONE.")]),
        blocks(&[bash("toolu_04", "rm README.md")]),
        blocks(&[text("ANSWER-TWO.")]),
    ];
    let desk = Desk::in_shell(replies, Env::bare(), (100, 40), |line| {
        let free = "--sandbox off --dangerously-skip-permissions";
        let resume = line.replace("--session-id", "--resume");
        format!(
            "{line} {free} --no-snapshots -p 'first prompt'; {resume} {free}; echo left $?; cat"
        )
    });
    let Some(desk) = desk else { return };
    desk.wait("lists the keys");
    desk.line("second prompt");
    desk.wait("ANSWER-TWO.");
    let path = |name: &str| desk.env.path(&format!("demo/{name}"));
    assert!(path("bash.txt").exists() && !path("README.md").exists());
    assert!(fs::read_to_string(path("knots.sh")).unwrap().contains("count=1"));
    desk.line("/rewind");
    desk.wait("2. #1 first prompt");
    desk.answer("2");
    let screen = desk.wait("What goes back?");
    assert!(screen.contains("there are no images of 1 turn"), "{screen}");
    assert!(screen.contains("+count=2") && screen.contains("README.md (+1 -0)"), "{screen}");
    assert!(!screen.contains("demo/bash.txt"), "{screen}");
    desk.answer("1");
    desk.wait("the conversation goes on before this prompt");
    assert!(fs::read_to_string(path("knots.sh")).unwrap().contains("count=2"));
    assert!(path("README.md").exists() && path("bash.txt").exists());
    let undone = desk.quipu(&["undo"]);
    assert!(fs::read_to_string(path("knots.sh")).unwrap().contains("count=1"), "{undone}");
    assert!(!path("README.md").exists(), "{undone}");
    desk.keys(&["C-u"]);
    desk.line("/exit");
    desk.wait("left 0");
    assert!(desk.quipu(&["check", SESSION]).contains("resumes"));
}

/// What is summarised is not sent any more, what came before is; and a prompt that was stopped
/// before its answer is as if it had not been sent.
#[test]
fn a_summary_of_what_followed_and_a_prompt_that_was_not_answered() {
    let replies = vec![
        blocks(&[text("ANSWER-ONE.")]),
        blocks(&[text("ANSWER-TWO.")]),
        blocks(&[text("<summary>They spoke of two.</summary>")]),
        Reply::Silent(Vec::new(), 0, Duration::from_secs(30)),
        blocks(&[text("ANSWER-THREE.")]),
    ];
    let flags = ["--sandbox", "off", "--no-snapshots"];
    let Some(desk) = Desk::start(replies, &flags, (100, 40)) else { return };
    desk.line("first prompt");
    desk.wait("ANSWER-ONE.");
    desk.line("second prompt");
    desk.wait("ANSWER-TWO.");
    desk.line("/rewind");
    desk.wait("2. #1 first prompt");
    desk.answer("1");
    desk.wait("2. Only a summary of what followed");
    desk.answer("2");
    desk.wait("summarised:");
    desk.line("thrid prompt");
    desk.wait("Esc stops");
    sleep(Duration::from_millis(500));
    desk.keys(&["Escape"]);
    desk.until("the prompt", |screen| {
        screen.contains("interrupted") && screen.matches("❯ thrid prompt").count() == 2
    });
    desk.keys(&["C-u"]);
    desk.line("third prompt");
    desk.wait("ANSWER-THREE.");
    let requests = desk.server.requests();
    let last = requests.last().unwrap()["messages"].to_string();
    for sent in ["first prompt", "ANSWER-ONE.", "They spoke of two.", "third prompt"] {
        assert!(last.contains(sent), "{sent}: {last}");
    }
    for gone in ["ANSWER-TWO.", "thrid", "interrupted by user"] {
        assert!(!last.contains(gone), "{gone}: {last}");
    }
    desk.keys(&["C-d"]);
    desk.wait("left 0");
    assert!(desk.quipu(&["check", SESSION]).contains("resumes"));
}

/// What came before a prompt is summed up from the records; from the prompt on all is sent as it
/// was, also by a resume, and it can be taken back.
#[test]
fn what_came_before_a_prompt_is_summed_up() {
    let long = format!("ANSWER-ONE. {}", "many words of it ".repeat(800));
    let replies = vec![
        blocks(&[text("ANSWER-NONE.")]),
        blocks(&[text(&long)]),
        blocks(&[text("ANSWER-TWO.")]),
        blocks(&[text("ANSWER-THREE.")]),
    ];
    let flags = ["--sandbox", "off", "--no-snapshots"];
    let Some(desk) = Desk::start(replies, &flags, (100, 60)) else { return };
    for (prompt, answer) in
        [("zeroth", "ANSWER-NONE."), ("first", "many words"), ("second", "ANSWER-TWO.")]
    {
        desk.line(&format!("{prompt} prompt"));
        desk.wait(answer);
    }
    let before = fs::read(transcript(&desk)).unwrap();
    desk.line("/rewind");
    desk.wait("3. #1 zeroth prompt");
    desk.answer("1");
    desk.wait("3. Nothing; what came before is summed up");
    desk.answer("3");
    let screen = desk.wait("`quipu undo` takes it back");
    assert!(screen.contains("summed up: 2 turns in"), "{screen}");
    desk.line("third prompt");
    desk.wait("ANSWER-THREE.");
    let last = desk.server.requests().last().unwrap()["messages"].to_string();
    for sent in ["zeroth prompt", "first prompt", "second prompt", "ANSWER-TWO.", "third prompt"] {
        assert!(last.contains(sent), "{sent}: {last}");
    }
    assert!(last.matches("many words").count() < 200, "{last}");
    desk.line("/rewind");
    desk.wait("#1 second prompt");
    desk.answer("2");
    desk.wait("3. Nothing; what came before is summed up");
    desk.answer("3");
    desk.wait("nothing was summed up: nothing is sent before the prompt");
    desk.keys(&["C-d"]);
    desk.wait("left 0");
    assert!(desk.quipu(&["check", SESSION]).contains("resumes"));
    desk.quipu(&["undo", "--force"]);
    let after = fs::read(transcript(&desk)).unwrap();
    assert!(after.starts_with(&before[..before.len() / 2]));
}

/// The file of the only session.
fn transcript(desk: &Desk) -> std::path::PathBuf {
    testkit::files_under(&[desk.env.path(".claude/projects")])[0].path.clone()
}
