use super::*;
use crate::text::plain;
use serde_json::json;

fn bash(command: &str) -> Question {
    Question {
        request: "r1".to_owned(),
        tool: "Bash".to_owned(),
        input: json!({"command": command}),
        why: "no rule covers it".to_owned(),
        rule: Some("Bash(git push:*)".to_owned()),
        rule_files: vec![".claude/settings.local.json".to_owned()],
        sandbox: "writes only in this folder, no network".to_owned(),
        ..Question::default()
    }
}

fn always(rule: &str) -> Answer {
    Answer::Always(Rule::parse(rule, Kind::Allow, "", PathBuf::new()).unwrap(), 0)
}

fn press(dialog: &mut Dialog, code: KeyCode, at: u64) -> Reply {
    dialog.key(KeyEvent::new(code, KeyModifiers::NONE), Duration::from_millis(at))
}

#[test]
fn everything_of_a_command_is_shown() {
    let long = format!("echo {} \u{202e}x\u{200b}\nrm -r y", "a".repeat(3_000));
    let mut question = bash(&long);
    question.parts = vec![
        ("echo aaa".to_owned(), "allow".to_owned(), "it only prints".to_owned()),
        ("rm -r y".to_owned(), "ask".to_owned(), "no rule".to_owned()),
    ];
    let text: Vec<String> = Dialog::new(question).lines(80).iter().map(plain).collect();
    let text = text.join("\n");
    assert!(
        text.contains(&format!("echo {} \\u{{202e}}x\\u{{200b}}\nrm -r y", "a".repeat(3_000))),
        "{text}"
    );
    assert!(text.contains("  ask: rm -r y  (no rule)"), "{text}");
    assert!(text.contains("Sandbox: writes only"), "{text}");
}

#[test]
fn an_early_key_answers_nothing() {
    let mut dialog = Dialog::new(bash("git push"));
    assert_eq!(press(&mut dialog, KeyCode::Enter, 0), Reply::Early);
    dialog.rows(0, 80, Duration::from_secs(1));
    assert_eq!(press(&mut dialog, KeyCode::Esc, 1_299), Reply::Early);
    assert_eq!(press(&mut dialog, KeyCode::Char('1'), 1_300), Reply::Answered(Answer::Yes));
}

/// A sentence that goes on while a question appears: its digits answer nothing, however long it is.
#[test]
fn a_digit_in_a_sentence_answers_nothing() {
    let mut dialog = Dialog::new(bash("git push"));
    dialog.rows(0, 80, Duration::ZERO);
    for (number, letter) in (1..).zip("make it 1 or 2, or 3 of them".chars()) {
        assert_eq!(press(&mut dialog, KeyCode::Char(letter), number * 250), Reply::Early);
    }
    // Also after a pause in it.
    for (letter, at) in [('a', 9_000), ('n', 9_100), ('d', 9_200), (' ', 9_300), ('1', 9_400)] {
        assert_eq!(press(&mut dialog, KeyCode::Char(letter), at), Reply::Early, "{letter}");
    }
    // Enter would send the sentence: it takes what is selected only once that was looked at.
    assert_eq!(press(&mut dialog, KeyCode::Enter, 12_000), Reply::Early);
    assert_eq!(press(&mut dialog, KeyCode::Enter, 13_000), Reply::Early);
    let mut looked = dialog.clone();
    assert_eq!(press(&mut looked, KeyCode::Up, 14_000), Reply::Waits);
    assert_eq!(press(&mut looked, KeyCode::Enter, 14_100), Reply::Answered(Answer::Yes));
    assert_eq!(press(&mut dialog, KeyCode::Char('1'), 14_000), Reply::Answered(Answer::Yes));
}

#[test]
fn a_rule_for_every_command_is_not_offered() {
    let mut dialog = Dialog::new(Question { rule: Some("Bash".to_owned()), ..bash("$(x)") });
    let rows: Vec<String> = dialog.rows(0, 80, Duration::ZERO).iter().map(plain).collect();
    assert!(!rows.iter().any(|row| row.contains("always")), "{rows:?}");
    assert!(rows.iter().any(|row| row.contains("2. No, because")), "{rows:?}");
}

#[test]
fn a_plan_is_written_anew() {
    let tool = "ExitPlanMode".to_owned();
    let question = Question { tool, input: json!({"plan": "One."}), ..Question::default() };
    let mut dialog = Dialog::new(question);
    dialog.rows(0, 80, Duration::ZERO);
    let key = KeyEvent::new(KeyCode::Char('g'), KeyModifiers::CONTROL);
    assert_eq!(dialog.key(key, Duration::from_millis(400)), Reply::Rewrite);
    dialog.rewrite("Two.");
    // It is on the screen anew: a key that was pressed in the editor answers nothing.
    assert_eq!(press(&mut dialog, KeyCode::Char('1'), 5_000), Reply::Early);
    let text: Vec<String> = dialog.lines(80).iter().map(plain).collect();
    assert!(text.contains(&"Two.".to_owned()) && !text.contains(&"One.".to_owned()), "{text:?}");
    assert!(dialog.question.is_rewritten);
    // Other questions have none.
    let mut dialog = Dialog::new(bash("git push"));
    dialog.rows(0, 80, Duration::ZERO);
    assert_eq!(dialog.key(key, Duration::from_millis(400)), Reply::Waits);
}

#[test]
fn a_rule_is_edited_and_a_reason_is_given() {
    let mut dialog = Dialog::new(bash("git push"));
    dialog.rows(0, 80, Duration::ZERO);
    assert_eq!(press(&mut dialog, KeyCode::Char('2'), 400), Reply::Waits);
    for _ in 0..3 {
        press(&mut dialog, KeyCode::Backspace, 400);
    }
    for c in " origin:*)".chars() {
        press(&mut dialog, KeyCode::Char(c), 400);
    }
    let always = always("Bash(git push origin:*)");
    assert_eq!(press(&mut dialog, KeyCode::Enter, 400), Reply::Answered(always));
    let mut dialog = Dialog::new(bash("git push"));
    dialog.rows(0, 80, Duration::ZERO);
    press(&mut dialog, KeyCode::Char('3'), 400);
    for c in "1 no".chars() {
        press(&mut dialog, KeyCode::Char(c), 400);
    }
    assert_eq!(
        press(&mut dialog, KeyCode::Enter, 400),
        Reply::Answered(Answer::Because("1 no".to_owned()))
    );
}

#[test]
fn a_rule_without_its_limit_is_no_answer() {
    let shown = |dialog: &mut Dialog| {
        let rows = dialog.rows(0, 80, Duration::ZERO);
        rows.iter().map(plain).collect::<Vec<_>>().join("\n")
    };
    for (typed, why) in [
        ("Bash(git push:*", "this is no rule: it does not end with `)`"),
        ("Bash()", "its brackets limit nothing; `Bash` allows every call of Bash"),
        ("Bash(*)", "its brackets limit nothing; `Bash` allows every call of Bash"),
        ("git push", "this is no rule: it does not begin with the name of a tool"),
        ("*", "this is no rule: a rule that allows must name a tool"),
    ] {
        let mut dialog = Dialog::new(bash("git push"));
        shown(&mut dialog);
        press(&mut dialog, KeyCode::Char('2'), 400);
        assert_eq!(dialog.line(typed, Duration::from_secs(1)), Reply::Waits, "{typed}");
        let text = shown(&mut dialog);
        assert!(text.contains(&format!("> {typed} \n  {why}\n")), "{text}");
        // It is put right, and then it is one.
        press(&mut dialog, KeyCode::Char('x'), 400);
        assert!(!shown(&mut dialog).contains(why));
        let right = dialog.line("Bash(git push:*)", Duration::from_secs(1));
        assert_eq!(right, Reply::Answered(always("Bash(git push:*)")));
    }
    // Who leaves the brackets out means every call.
    let mut dialog = Dialog::new(bash("git push"));
    shown(&mut dialog);
    press(&mut dialog, KeyCode::Char('2'), 400);
    let all = dialog.line("Bash", Duration::from_secs(1));
    assert_eq!(all, Reply::Answered(always("Bash")));
}

#[test]
fn yes_is_not_preselected_without_a_sandbox() {
    for (sandbox, is_outside) in [("", false), ("", true), ("writes here", true)] {
        let question = Question { sandbox: sandbox.to_owned(), is_outside, ..bash("make") };
        let mut dialog = Dialog::new(question);
        dialog.rows(0, 80, Duration::ZERO);
        let reply = press(&mut dialog, KeyCode::Enter, 400);
        assert!(!matches!(reply, Reply::Answered(Answer::Yes | Answer::Always(..))), "{reply:?}");
    }
}

#[test]
fn questions_of_the_model() {
    let input = json!({"questions": [
        {"question": "Which one?", "options": [{"label": "A", "description": "first"}, {"label": "B"}]},
        {"question": "Which ones?", "multiSelect": true, "options": [{"label": "C"}, {"label": "D"}, {"label": "E"}]},
    ]});
    let question = Question { tool: "AskUserQuestion".to_owned(), input, ..Question::default() };
    let mut dialog = Dialog::new(question);
    dialog.rows(0, 80, Duration::ZERO);
    assert_eq!(press(&mut dialog, KeyCode::Char('2'), 400), Reply::Waits);
    // The second one is not on the screen yet, and then for 300 ms.
    assert_eq!(press(&mut dialog, KeyCode::Enter, 800), Reply::Early);
    dialog.rows(0, 80, Duration::from_millis(800));
    assert_eq!(press(&mut dialog, KeyCode::Enter, 1_099), Reply::Early);
    press(&mut dialog, KeyCode::Char('1'), 1_100);
    press(&mut dialog, KeyCode::Char('3'), 1_100);
    let chosen =
        [("Which one?", "B"), ("Which ones?", "C, E")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(
        press(&mut dialog, KeyCode::Enter, 1_100),
        Reply::Answered(Answer::Chosen(chosen.to_vec()))
    );
}

#[test]
fn what_would_become_of_a_file() {
    let lines = |tool: &str, change: Result<Change, String>| {
        let input = json!({"file_path": "a.rs"});
        let (tool, change) = (tool.to_owned(), Some(change));
        let question = Question { tool, input, change, ..Question::default() };
        Dialog::new(question).lines(80).iter().map(plain).collect::<Vec<_>>()
    };
    let change = |before: Option<&str>, after: &str| {
        let (path, after) = ("/x/a.rs".to_owned(), after.to_owned());
        Ok(Change { path, before: before.map(str::to_owned), after })
    };
    let edited = lines("Edit", change(Some("one\ntwo\nthree\n"), "one\n2\nthree\n"));
    assert_eq!(edited, ["", "Change /x/a.rs?", " one", "-two", "+2", " three"]);
    let written = lines("Write", change(Some("one\n"), "two\n"));
    assert_eq!(written, ["", "Overwrite /x/a.rs?", "-one", "+two"]);
    let made = lines("Write", change(None, "two\n"));
    assert_eq!(made, ["", "Create /x/a.rs?", "+two"]);
    let wrong = lines("Edit", Err("there is no `two` in it".to_owned()));
    assert_eq!(wrong[1], "Use Edit?");
    assert_eq!(wrong.last().unwrap(), "As the file is now, it would fail: there is no `two` in it");
}

#[test]
fn yes_and_something_to_say() {
    let mut dialog = Dialog::new(Question { sandbox: "on".to_owned(), ..bash("ls") });
    dialog.rows(0, 80, Duration::ZERO);
    assert_eq!(press(&mut dialog, KeyCode::Tab, 400), Reply::Waits);
    for c in "then stop".chars() {
        press(&mut dialog, KeyCode::Char(c), 400);
    }
    let answer = Answer::YesAnd("then stop".to_owned());
    assert_eq!(press(&mut dialog, KeyCode::Enter, 400), Reply::Answered(answer));
    // Outside the sandbox nothing can be added.
    let outside = Question { is_outside: true, ..bash("ls") };
    let mut dialog = Dialog::new(outside);
    dialog.rows(0, 80, Duration::ZERO);
    press(&mut dialog, KeyCode::Tab, 400);
    assert_eq!(press(&mut dialog, KeyCode::Enter, 400), Reply::Answered(Answer::Yes));
}

#[test]
fn a_line_answers_with_numbers() {
    let options: Vec<Value> = ["a", "b", "c"].map(|label| json!({"label": label})).to_vec();
    let asked = json!({"question": "Which?", "multiSelect": true, "options": options});
    let mut dialog = Dialog::new(Question {
        tool: "AskUserQuestion".to_owned(),
        input: json!({"questions": [asked]}),
        ..Question::default()
    });
    dialog.rows(0, 80, Duration::ZERO);
    let later = Duration::from_secs(1);
    assert_eq!(dialog.line("nothing", Duration::ZERO), Reply::Early);
    for unclear in ["", "0", "5", "1 and 3", "1,x", "-1", "see issue 17"] {
        assert_eq!(dialog.line(unclear, later), Reply::Unclear, "{unclear}");
    }
    let chosen = Answer::Chosen(vec![("Which?".to_owned(), "a, c".to_owned())]);
    assert_eq!(dialog.line("1, 3", later), Reply::Answered(chosen));
    let mut dialog = Dialog::new(bash("git push"));
    dialog.rows(0, 80, Duration::ZERO);
    for unclear in ["please", "1 2", "no, see issue 17", "12"] {
        assert_eq!(dialog.line(unclear, later), Reply::Unclear, "{unclear}");
    }
    // A choice that asks for more is left again.
    let mut dialog = dialog.by_lines(true);
    for choice in ["2", "3"] {
        assert_eq!(dialog.line(choice, later), Reply::Waits);
        let rows: Vec<String> = dialog.rows(0, 80, later).iter().map(plain).collect();
        assert!(rows.last().unwrap().contains("0: back") && !rows.concat().contains("Esc"));
        assert_eq!(dialog.line("0", later), Reply::Waits);
    }
    assert_eq!(dialog.line("3", later), Reply::Waits);
    let because = Answer::Because("not 1 of them".to_owned());
    assert_eq!(dialog.line("not 1 of them", later), Reply::Answered(because));
}

#[test]
fn a_line_is_a_whole_number() {
    let options: Vec<Value> = (1..=12).map(|n| json!({"label": format!("#{n}")})).collect();
    let asked = json!({"question": "Which?", "options": options});
    let mut dialog = Dialog::new(Question {
        tool: "AskUserQuestion".to_owned(),
        input: json!({"questions": [asked], "is_closed": true}),
        ..Question::default()
    });
    dialog.rows(0, 80, Duration::ZERO);
    let chosen = Answer::Chosen(vec![("Which?".to_owned(), "#12".to_owned())]);
    assert_eq!(dialog.line("12", Duration::from_secs(1)), Reply::Answered(chosen));
}
