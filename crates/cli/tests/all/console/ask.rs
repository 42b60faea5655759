//! Questions of the model, and plan mode: switched to, planned in, left.

use serde_json::json;

use super::{Desk, SESSION, blocks};
use crate::chat::{call, text};

#[test]
fn questions_of_the_model_and_a_plan() {
    let option = |label: &str| json!({"label": label, "description": "x"});
    let questions = json!({"questions": [
        {"question": "Which cord?", "header": "Cord", "multiSelect": false,
            "options": [option("Cotton"), option("Camelid")]},
        {"question": "Which knots?", "header": "Knots", "multiSelect": true,
            "options": [option("Single"), option("Long")]},
    ]});
    let plan = json!({"plan": "# Count once\n"});
    let note = json!({"file_path": "note.txt", "content": "one\n"});
    let replies = vec![
        // Outside of plan mode there is no plan to approve.
        blocks(&[call("toolu_00", "ExitPlanMode", &plan)]),
        blocks(&[call("toolu_01", "AskUserQuestion", &questions)]),
        blocks(&[text("KNOTS CHOSEN.")]),
        blocks(&[call("toolu_02", "Write", &note)]),
        blocks(&[call("toolu_03", "ExitPlanMode", &plan)]),
        blocks(&[call("toolu_04", "Write", &note)]),
        blocks(&[text("PLAN DONE.")]),
        blocks(&[text("AND ON.")]),
    ];
    // Also where everything is permitted, a question is the person's to answer.
    let flags = ["--sandbox", "off", "--no-snapshots", "--dangerously-skip-permissions"];
    let Some(desk) = Desk::start(replies, &flags, (100, 40)) else { return };
    desk.line("ask me");
    desk.wait("Which cord?");
    desk.wait("2. Camelid");
    desk.answer("2");
    desk.wait("[ ] Single");
    desk.answer("1");
    desk.keys(&["Down"]);
    desk.keys(&["Space"]);
    desk.keys(&["Enter"]);
    desk.wait("KNOTS CHOSEN.");
    let last = |desk: &Desk| {
        let request = desk.server.requests().pop().unwrap();
        request["messages"].as_array().unwrap().last().unwrap()["content"].clone()
    };
    let answers = last(&desk).to_string();
    assert!(answers.contains("Camelid") && answers.contains("Single, Long"), "{answers}");
    let first = desk.server.requests()[1].to_string();
    assert!(first.contains("You are not in plan mode"), "{first}");
    // Bypass, manual, accept edits, plan.
    for mode in ["manual mode on", "accept edits on", "plan mode on"] {
        desk.keys(&["BTab"]);
        desk.wait(mode);
    }
    desk.line("plan a note");
    desk.wait("Go on with this plan?");
    assert!(!desk.env.path("demo/note.txt").exists());
    desk.answer("1");
    desk.wait("PLAN DONE.");
    assert!(desk.env.path("demo/note.txt").exists());
    desk.line("go on");
    desk.wait("AND ON.");
    desk.keys(&["C-d"]);
    desk.wait("left 0");
    let in_last_request = |words: &str| {
        let requests = desk.server.requests();
        requests.last().unwrap().to_string().matches(words).count()
    };
    // The model learns when plan mode begins, and from the approval that it is over.
    assert_eq!((in_last_request("Plan mode is on"), in_last_request("Plan mode is off")), (1, 0));
    let records = desk.records();
    let answer = records.iter().find(|record| record["toolUseResult"]["answers"].is_object());
    let wanted = json!({"Which cord?": "Camelid", "Which knots?": "Single, Long"});
    assert_eq!(answer.unwrap()["toolUseResult"]["answers"], wanted);
    let check = desk.quipu(&["check", SESSION]);
    assert!(check.contains("resumes"), "{check}");
}

#[test]
fn a_resumed_session_shows_where_it_was() {
    let replies = vec![blocks(&[text("ANSWER-ONE.")]), blocks(&[text("ANSWER-TWO.")])];
    let Some(desk) = Desk::in_shell(replies, crate::env::Env::bare(), (100, 40), |line| {
        let again = line.replace(&format!("'--session-id' '{SESSION}'"), "");
        let flags = "--sandbox off --no-snapshots";
        format!("{line} {flags}; clear; {again} {flags} --continue; echo left $?; cat")
    }) else {
        return;
    };
    desk.wait("lists the keys");
    desk.line("first prompt");
    desk.wait("ANSWER-ONE.");
    desk.keys(&["C-d"]);
    let screen = desk.until("the resumed session", |screen| {
        !screen.contains("resume this session with") && screen.contains("ANSWER-ONE.")
    });
    assert!(screen.contains("❯ first prompt"), "{screen}");
    // A copy goes on below; nothing is printed again.
    desk.line("/fork");
    desk.until("the copy", |screen| screen.matches("lists the keys").count() == 2);
    desk.line("second prompt");
    let screen = desk.wait("ANSWER-TWO.");
    assert_eq!(screen.matches("ANSWER-ONE.").count(), 1, "{screen}");
    desk.keys(&["C-d"]);
    desk.wait("left 0");
}
