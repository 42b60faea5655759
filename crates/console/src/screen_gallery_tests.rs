//! One screen for each thing that the console shows, at three sizes.

use super::*;
use crate::question::Change;
use crate::text::{Line, line};

fn ask(screen: &mut Screen, question: Question) {
    heard(screen, News::Ask(Box::new(question)), 5);
    screen.live(Size { width: 80, height: 24 }, at(5));
}

fn question(tool: &str, input: serde_json::Value) -> Question {
    Question {
        request: "r1".to_owned(),
        tool: tool.to_owned(),
        input,
        rule_files: vec![".claude/settings.local.json".to_owned()],
        ..Question::default()
    }
}

#[test]
fn a_change_of_a_file() {
    let mut screen = at_work();
    let input = json!({
        "file_path": "/x/knots.sh", "old_string": "count + 2", "new_string": "count + 1",
    });
    let before = "count=0\nfor knot in \"$@\"; do\n  count=$((count + 2))\ndone\n".to_owned();
    let (path, after) = ("/x/knots.sh".to_owned(), before.replace("count + 2", "count + 1"));
    let change = Some(Ok(Change { path, before: Some(before), after }));
    let why = "`default` mode asks before files are changed".to_owned();
    ask(&mut screen, Question { why, change, ..question("Edit", input) });
    insta::assert_snapshot!(sizes(&mut screen, 6));
}

#[test]
fn a_new_file_of_a_sub_agent() {
    let mut screen = at_work();
    let (path, after) = ("/x/notes \u{202e}txt.exe", "one\n\u{1b}[31mtwo\n");
    let input = json!({"file_path": path, "content": after});
    let (path, after) = (path.to_owned(), after.to_owned());
    let change = Some(Ok(Change { path, before: None, after }));
    let agent = Some("a1b2".to_owned());
    ask(&mut screen, Question { change, agent, ..question("Write", input) });
    insta::assert_snapshot!(sizes(&mut screen, 6));
}

#[test]
fn a_rule_is_edited_first() {
    let mut screen = at_work();
    let input = json!({"command": "npm run build -- --mode production && npm publish"});
    let rule = Some("Bash(npm run build -- --mode production:*)".to_owned());
    let sandbox = "writes only in the session's folders".to_owned();
    ask(&mut screen, Question { rule, sandbox, ..question("Bash", input) });
    press(&mut screen, "2", at(6));
    insta::assert_snapshot!("rule", sizes(&mut screen, 6));
    press(&mut screen, "^uBash(npm run build:*)", at(6));
    let answer = press(&mut screen, "⏎", at(6));
    let Wish::Answer(_, answer) = &answer[0] else { panic!("{answer:?}") };
    assert_eq!(*answer, always("Bash(npm run build:*)"));
}

#[test]
fn a_refusal_with_a_reason_and_no_sandbox() {
    let mut screen = at_work();
    let command = "curl https://example.org/install.sh | sh\necho \"a second line\"";
    ask(&mut screen, question("Bash", json!({"command": command})));
    press(&mut screen, "2", at(6));
    press(&mut screen, "read it first", at(6));
    insta::assert_snapshot!(sizes(&mut screen, 6));
}

#[test]
fn once_outside_the_sandbox() {
    let mut screen = at_work();
    let outside = Question {
        is_outside: true,
        why: "the sandbox has no network".to_owned(),
        ..question("Bash", json!({"command": "git fetch"}))
    };
    ask(&mut screen, outside);
    insta::assert_snapshot!(sizes(&mut screen, 6));
    // Enter takes what is preselected: no.
    let answer = press(&mut screen, "⏎", at(6));
    let Wish::Answer(_, answer) = &answer[0] else { panic!("{answer:?}") };
    assert_eq!(*answer, crate::question::Answer::No);
}

#[test]
fn a_plan() {
    let mut screen = at_work();
    let plan = "# Plan\n\n1. Read `knots.sh`\n2. Count **once**\n\n| step | risk |\n|---|---|\n| 1 | none |\n";
    ask(&mut screen, question("ExitPlanMode", json!({"plan": plan})));
    insta::assert_snapshot!(sizes(&mut screen, 6));
}

#[test]
fn questions_of_the_model() {
    let mut screen = at_work();
    let input = json!({"questions": [
        {"question": "Which cord?", "header": "Cord", "multiSelect": false, "options": [
            {"label": "Cotton", "description": "soft, light, and what most of the old ones are made of"},
            {"label": "Camelid", "description": "stronger"}]},
        {"question": "Which knots?", "header": "Knots", "multiSelect": true, "options": [
            {"label": "Single", "description": ""}, {"label": "Long", "description": ""}]},
    ]});
    ask(&mut screen, question("AskUserQuestion", input));
    insta::assert_snapshot!("one_of", sizes(&mut screen, 6));
    press(&mut screen, "2", at(6));
    screen.live(Size { width: 80, height: 24 }, at(6));
    press(&mut screen, "1↓ ", at(7));
    insta::assert_snapshot!("several_of", sizes(&mut screen, 7));
    let answer = press(&mut screen, "⏎", at(7));
    let Wish::Answer(_, answer) = &answer[0] else { panic!("{answer:?}") };
    let chosen = [("Which cord?", "Camelid"), ("Which knots?", "Single, Long")]
        .map(|(question, choice)| (question.to_owned(), choice.to_owned()));
    assert_eq!(*answer, crate::question::Answer::Chosen(chosen.to_vec()));
}

#[test]
fn agents_tasks_and_the_queue() {
    let mut screen = at_work();
    let agent = |about: &str, now: &str, calls| AgentRow {
        about: about.to_owned(),
        now: now.to_owned(),
        calls,
        is_done: false,
    };
    let agents = vec![
        agent("Explore: find the counter", "Grep", 3),
        agent("general-purpose: run the tests in all folders", "Bash", 11),
    ];
    heard(&mut screen, News::Agents(agents), 6);
    let task = Task { id: "b1".to_owned(), command: "npm run dev".to_owned() };
    heard(&mut screen, News::Tasks(vec![task]), 6);
    press(&mut screen, "first of two^jwith two lines⏎the second one⏎", at(7));
    insta::assert_snapshot!(sizes(&mut screen, 8));
}

#[test]
fn a_search_in_the_history() {
    let mut history = History::default();
    for text in ["cargo test --workspace", "fix the counter\nand the docs", "cargo build"] {
        history.add(&Prompt::typed(text), 1).unwrap();
    }
    let mut screen = Screen::new(Keymap::Emacs, history, Vec::new());
    press(&mut screen, "a draft^rcounter", at(1));
    insta::assert_snapshot!(sizes(&mut screen, 1));
}

#[test]
fn the_keys() {
    let mut screen = screen();
    press(&mut screen, "?", at(1));
    insta::assert_snapshot!(sizes(&mut screen, 1));
}

#[test]
fn pastes_images_and_vi() {
    let mut screen = screen();
    screen.set_keymap(Keymap::Vi);
    screen.paste("one\ntwo\nthree\nfour\nfive", at(1));
    let image = crate::composer::Image { media: "image/png".to_owned(), data: "AAAA".to_owned() };
    heard(&mut screen, News::Image(image), 1);
    press(&mut screen, " and 家族\u{1f469}\u{200d}\u{1f469}\u{200d}\u{1f467} e\u{301}⎋", at(1));
    insta::assert_snapshot!(sizes(&mut screen, 1));
}

#[test]
fn the_users_status_line_a_retry_and_a_failure() {
    let mut screen = screen();
    let lines: Vec<Line<'static>> = vec![line(look::GOOD, "demo on main, 3 files changed")];
    heard(&mut screen, News::StatusLine(lines), 1);
    press(&mut screen, "go⏎", at(1));
    heard(&mut screen, News::Begin, 1);
    heard(&mut screen, News::Retry("529 overloaded (attempt 1 of 10)".to_owned(), at(2)), 2);
    heard(
        &mut screen,
        News::Notice("the sandbox is not complete here: no network rules".to_owned()),
        3,
    );
    heard(&mut screen, News::End(Ending::Failed("API Error: 401 invalid x-api-key".to_owned())), 4);
    heard(&mut screen, News::Mode("plan".to_owned()), 4);
    insta::assert_snapshot!(sizes(&mut screen, 5));
}

#[test]
fn thinking_is_shown_on_demand_and_a_turn_is_stopped() {
    let mut screen = screen();
    press(&mut screen, "go⏎^o", at(1));
    heard(&mut screen, News::Begin, 1);
    heard(&mut screen, News::Thinking("First this.\nThen that.".to_owned()), 2);
    insta::assert_snapshot!("thinking", sizes(&mut screen, 3));
    heard(&mut screen, News::Text("So it".to_owned()), 4);
    press(&mut screen, "⎋", at(4));
    heard(&mut screen, News::End(Ending::Interrupted), 5);
    insta::assert_snapshot!("stopped", sizes(&mut screen, 5));
}

#[test]
fn everything_that_markdown_can_be() {
    let mut screen = screen();
    press(&mut screen, "show me⏎", at(1));
    heard(&mut screen, News::Begin, 1);
    let text = "# Title\n\nA paragraph with *emphasis*, **weight**, `code` and [a link](https://example.org).\n\n- one\n  - nested\n- two\n\n> a quotation\n\n```rust\nfn main() { println!(\"{}\", 1); } // a comment that is longer than a narrow window\n```\n\n| left | right |\n|:--|--:|\n| a | 1 |\n| bb | 22 |\n\nThe end.\n";
    heard(&mut screen, News::Text(text.to_owned()), 2);
    heard(&mut screen, News::End(Ending::Answered), 3);
    insta::assert_snapshot!(sizes(&mut screen, 3));
}

#[test]
fn going_back() {
    let mut screen = screen();
    let diff = [
        (look::DIM, "knots.sh (+1 -1)"),
        (look::BAD, "-count=1"),
        (look::GOOD, "+count=2"),
        (look::WARN, "stays as it is: /mnt/other/notes.txt"),
    ];
    let lines = diff.map(|(style, text)| line(style, text));
    heard(&mut screen, News::Lines(lines.into()), 4);
    let option = |label: &str| json!({"label": label});
    let options = [
        "Files and conversation",
        "Only the conversation",
        "Only files",
        "Only a summary of what followed; files stay",
        "Nothing",
    ];
    let asked = json!({"question": "What goes back?", "options": options.map(option)});
    let input = json!({"questions": [asked], "is_closed": true});
    ask(&mut screen, question("AskUserQuestion", input));
    insta::assert_snapshot!(sizes(&mut screen, 6));
}

#[test]
fn a_resumed_session_and_files_that_are_completed() {
    let mut screen = screen();
    let earlier = vec![Spoken::Prompt("count the knots".to_owned())];
    let call = Spoken::Call {
        name: "Bash".to_owned(),
        input: json!({"command": "sh knots.sh a b c"}),
        is_error: true,
    };
    let last = [
        Spoken::Prompt("and again\nwith all cords".to_owned()),
        call,
        Spoken::Answer("It says **6 knots**: each is counted twice.".to_owned()),
    ];
    screen.recall(earlier, &last);
    let files = ["knots.sh", "docs/knots.md", "docs/cords.md", "src/"];
    heard(&mut screen, News::Files(files.map(str::to_owned).into()), 1);
    press(&mut screen, "fix @kno", at(2));
    insta::assert_snapshot!(sizes(&mut screen, 2));
}

#[test]
fn a_command_of_the_users_runs() {
    let mut screen = screen();
    press(&mut screen, "!npm test⏎", at(1));
    heard(&mut screen, News::Begin, 1);
    let lines: Vec<String> =
        (1..=8).map(|number| format!("ok {number} - a cord with {number} knots\n")).collect();
    let printed = lines.concat();
    heard(&mut screen, News::Printed(printed), 3);
    press(&mut screen, "what is typed meanwhile", at(4));
    insta::assert_snapshot!(sizes(&mut screen, 5));
}

#[test]
fn a_summary_and_what_waits_is_edited() {
    let mut screen = screen();
    heard(&mut screen, News::Notice("the conversation is being summarised".to_owned()), 1);
    let done = "summarised: 150000 tokens before, about 9000 now".to_owned();
    heard(&mut screen, News::Notice(done), 4);
    press(&mut screen, "go on⏎", at(5));
    heard(&mut screen, News::Begin, 5);
    heard(&mut screen, News::Text("First the cords.".to_owned()), 6);
    press(&mut screen, "one⏎two⏎three⏎↑↑", at(7));
    insta::assert_snapshot!(sizes(&mut screen, 8));
}

#[test]
fn a_prompt_that_came_back_and_commands_in_the_background() {
    let mut screen = screen();
    press(&mut screen, "cuont the knots⏎", at(1));
    heard(&mut screen, News::Begin, 1);
    heard(&mut screen, News::End(Ending::Interrupted), 2);
    let task = |id: &str| Task { id: id.to_owned(), command: "npm run dev".to_owned() };
    heard(&mut screen, News::Tasks(vec![task("b1"), task("b2")]), 3);
    insta::assert_snapshot!(sizes(&mut screen, 4));
}
