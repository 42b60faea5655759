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
    assert_eq!(press(&mut dialog, KeyCode::Char('1'), 1_299), Reply::Early);
    assert_eq!(press(&mut dialog, KeyCode::Char('1'), 1_300), Reply::Answered(Answer::Yes));
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
