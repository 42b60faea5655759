use super::*;
use crate::question::Question;
use crate::terminal::{Live, Size, Terminal};
use crate::text::Colors;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::json;
use std::num::NonZero;

fn screen() -> Screen {
    let commands = ["help", "clear", "compact", "context", "cost", "resume"]
        .map(|name| CommandName { name: name.to_owned(), about: format!("what {name} does") });
    let mut screen = Screen::new(Keymap::Emacs, History::default(), commands.to_vec());
    screen.status.model = "claude-opus-4-6".to_owned();
    screen.status.mode = "default".to_owned();
    screen.status.meter = Meter {
        context: 24_300,
        window: 200_000,
        cost: Some(0.1234),
        cache: Cache::Warm,
        ..Meter::default()
    };
    screen.status.branch = Some("main".to_owned());
    screen.status.sandbox = "on".to_owned();
    screen
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn press(screen: &mut Screen, keys: &str, now: Duration) -> Vec<Wish> {
    let mut wishes = Vec::new();
    let mut rest = keys.chars();
    while let Some(c) = rest.next() {
        let (code, modifiers) = match c {
            '^' => (KeyCode::Char(rest.next().unwrap()), KeyModifiers::CONTROL),
            '⏎' => (KeyCode::Enter, KeyModifiers::NONE),
            '⎋' => (KeyCode::Esc, KeyModifiers::NONE),
            '↑' => (KeyCode::Up, KeyModifiers::NONE),
            '↓' => (KeyCode::Down, KeyModifiers::NONE),
            '⇥' => (KeyCode::Tab, KeyModifiers::NONE),
            '⇤' => (KeyCode::BackTab, KeyModifiers::SHIFT),
            c => (KeyCode::Char(c), KeyModifiers::NONE),
        };
        wishes.extend(screen.key(KeyEvent::new(code, modifiers), now));
    }
    wishes
}

fn heard(screen: &mut Screen, news: News, now: u64) -> Vec<Wish> {
    screen.hear(news, at(now))
}

/// What a terminal of that size shows.
fn shown(screen: &mut Screen, width: u16, height: u16, now: u64) -> String {
    let size = Size { width, height };
    let mut bytes = Vec::new();
    {
        let mut terminal = Terminal::new(&mut bytes, size, Colors::Sixteen);
        let live: Live = screen.live(size, at(now));
        terminal.print(&screen.out.clone());
        terminal.draw(&live).unwrap();
    }
    let mut glass =
        vt100::Parser::new(NonZero::new(height).unwrap(), NonZero::new(width).unwrap(), 0);
    glass.process(&bytes);
    let rows: Vec<String> =
        glass.screen().rows(0, width).map(|row| row.trim_end().to_owned()).collect();
    rows.join("\n").trim_end().to_owned()
}

/// The same at the three sizes.
fn sizes(screen: &mut Screen, now: u64) -> String {
    let mut all = Vec::new();
    for (width, height) in [(80, 24), (40, 15), (200, 60)] {
        all.push(format!("── {width}×{height}\n{}", shown(screen, width, height, now)));
    }
    all.join("\n")
}

fn at_work() -> Screen {
    let mut screen = screen();
    press(&mut screen, "Fix the counter⏎", at(1));
    heard(&mut screen, News::Begin, 1);
    heard(&mut screen, News::Thinking("Let me see.\nIt counts twice.".to_owned()), 1);
    heard(
        &mut screen,
        News::Text(
            "I look at **the file** first.\n\n```sh\necho \"$count knots\"\n```\nThen I".to_owned(),
        ),
        4,
    );
    screen
}

#[test]
fn an_answer_arrives() {
    let mut screen = at_work();
    insta::assert_snapshot!(sizes(&mut screen, 5));
}

#[test]
fn calls_run_and_end() {
    let mut screen = at_work();
    let call = |id: &str, name: &str, input: serde_json::Value| News::Call {
        id: id.to_owned(),
        name: name.to_owned(),
        input,
    };
    heard(&mut screen, call("1", "Read", json!({"file_path": "/x/knots.sh"})), 5);
    heard(&mut screen, call("2", "Bash", json!({"command": "cargo test --workspace"})), 5);
    let text = "1→# Counts".to_owned();
    let detail = json!({"type": "text", "file": {"numLines": 6}});
    heard(&mut screen, News::Result { id: "1".to_owned(), is_error: false, text, detail }, 6);
    let output: String =
        (1..=20).map(|n| ["test ", &n.to_string(), " \u{1b}[32mok\u{1b}[0m\n"].concat()).collect();
    heard(&mut screen, News::Output { id: "2".to_owned(), text: output.clone() }, 7);
    heard(
        &mut screen,
        News::Todos(vec![
            Todo { text: "Read it".to_owned(), state: TodoState::Done },
            Todo { text: "Fix it".to_owned(), state: TodoState::Now },
            Todo { text: "Test it".to_owned(), state: TodoState::Open },
        ]),
        7,
    );
    press(&mut screen, "and then commit⏎and push", at(8));
    insta::assert_snapshot!("running", sizes(&mut screen, 9));
    heard(
        &mut screen,
        News::Result { id: "2".to_owned(), is_error: false, text: output, detail: json!({}) },
        10,
    );
    heard(&mut screen, call("3", "Edit", json!({"file_path": "/x/knots.sh"})), 10);
    let patch = json!({"structuredPatch": [{"lines": [" for knot; do", "-  count=$((count + 2))", "+  count=$((count + 1))", " done"]}]});
    heard(
        &mut screen,
        News::Result { id: "3".to_owned(), is_error: false, text: String::new(), detail: patch },
        11,
    );
    heard(&mut screen, call("4", "Bash", json!({"command": "false"})), 11);
    heard(
        &mut screen,
        News::Result {
            id: "4".to_owned(),
            is_error: true,
            text: "Exit code 1".to_owned(),
            detail: json!("x"),
        },
        11,
    );
    heard(&mut screen, News::Text("Done.".to_owned()), 11);
    let wishes = heard(&mut screen, News::End(Ending::Answered), 12);
    // What waited has a turn of its own now.
    assert!(wishes.contains(&Wish::Say(Prompt::typed("and then commit"))), "{wishes:?}");
    insta::assert_snapshot!("ended", sizes(&mut screen, 12));
    press(&mut screen, "^o", at(13));
    assert!(shown(&mut screen, 100, 80, 13).contains("test 20 ok"));
}

#[test]
fn a_question() {
    let mut screen = at_work();
    let question = Question {
        request: "r1".to_owned(),
        tool: "Bash".to_owned(),
        input: json!({"command": "cargo build && git push --force"}),
        why: "no rule covers `git push`".to_owned(),
        rule: Some("Bash(git push:*)".to_owned()),
        rule_file: ".claude/settings.local.json".to_owned(),
        parts: vec![
            ("cargo build".to_owned(), "allow".to_owned(), "a rule".to_owned()),
            ("git push --force".to_owned(), "ask".to_owned(), "no rule".to_owned()),
        ],
        sandbox: "writes in this folder; no network".to_owned(),
        ..Question::default()
    };
    let wishes = heard(&mut screen, News::Ask(Box::new(question.clone())), 5);
    assert_eq!(wishes, [Wish::Ring("Bash needs your answer".to_owned())]);
    heard(
        &mut screen,
        News::Ask(Box::new(Question { request: "r2".to_owned(), ..question.clone() })),
        5,
    );
    screen.live(Size { width: 80, height: 24 }, at(5));
    // What was typed for the composer answers nothing.
    assert_eq!(press(&mut screen, "y1", at(5)), []);
    assert_eq!(screen.draft(), "y1");
    insta::assert_snapshot!(sizes(&mut screen, 6));
    let answers = press(&mut screen, "1", at(6));
    assert_eq!(answers, [Wish::Answer(Box::new(question), crate::question::Answer::Yes)]);
    // The next one is not answered by the same key.
    assert_eq!(press(&mut screen, "1", at(6)), []);
}

#[test]
fn idle_with_a_draft_and_completions() {
    let mut screen = screen();
    press(&mut screen, "a first line^jand 日本語", at(1));
    insta::assert_snapshot!("draft", sizes(&mut screen, 1));
    press(&mut screen, "^c/co", at(1));
    insta::assert_snapshot!("commands", sizes(&mut screen, 1));
    assert_eq!(
        press(&mut screen, "↓⏎", at(1)),
        [Wish::Command("context".to_owned(), String::new())]
    );
    heard(&mut screen, News::Files(vec!["src/main.rs".to_owned(), "src/lib.rs".to_owned()]), 1);
    press(&mut screen, "see @mai⇥now", at(2));
    assert_eq!(screen.draft(), "see @src/main.rs now");
}

#[test]
fn keys_that_leave_stop_and_switch() {
    let mut screen = screen();
    assert_eq!(press(&mut screen, "^d", at(1)), [Wish::Leave]);
    assert_eq!(press(&mut screen, "x^d", at(1)), []);
    assert_eq!(press(&mut screen, "^c", at(2)), []);
    assert_eq!(screen.draft(), "");
    assert_eq!(press(&mut screen, "^c", at(3)), []);
    assert_eq!(press(&mut screen, "^c", at(4)), [Wish::Leave]);
    assert_eq!(press(&mut screen, "⇤", at(5)), [Wish::NextMode]);
    assert_eq!(press(&mut screen, "⎋⎋", at(5)), [Wish::Rewind]);
    assert_eq!(press(&mut screen, "!ls -l⏎", at(6)), [Wish::Shell("ls -l".to_owned())]);
    assert_eq!(press(&mut screen, "/etc/hosts is a file⏎", at(7)).len(), 1);
    assert!(screen.is_busy());
    assert_eq!(press(&mut screen, "⎋", at(8)), [Wish::Interrupt]);
    assert_eq!(press(&mut screen, "^b", at(8)), [Wish::Background]);
}

#[test]
fn what_waits_is_taken_back_one_by_one() {
    let mut screen = at_work();
    press(&mut screen, "one⏎two⏎three⏎", at(5));
    press(&mut screen, "↑", at(6));
    assert_eq!(screen.draft(), "three");
    press(&mut screen, "^u↑", at(6));
    assert_eq!(screen.draft(), "two");
    press(&mut screen, "!⏎", at(6));
    assert_eq!(
        press(&mut screen, "⏎", at(6)),
        [Wish::Say(Prompt::typed("one")), Wish::Say(Prompt::typed("two!"))]
    );
}

#[test]
fn the_history_is_searched() {
    let mut history = History::default();
    for text in ["cargo test", "cargo build", "other"] {
        history.add(&Prompt::typed(text), 1).unwrap();
    }
    let mut screen = Screen::new(Keymap::Emacs, history, Vec::new());
    press(&mut screen, "draft^rcargo", at(1));
    assert!(shown(&mut screen, 80, 24, 1).contains("(search) cargo: cargo build"));
    press(&mut screen, "^r⏎", at(1));
    assert_eq!(screen.draft(), "cargo test");
    press(&mut screen, "^c^rzzz⎋", at(1));
    assert_eq!(screen.draft(), "");
}

#[test]
fn the_cache_becomes_cold() {
    let mut screen = screen();
    let meter = Meter { context: 10, window: 100, cache: Cache::Warm, ..Meter::default() };
    heard(&mut screen, News::Meter(meter), 10);
    assert_eq!(screen.next_change(), Some(at(310)));
    screen.tick(at(310));
    assert!(shown(&mut screen, 200, 24, 310).contains("cache cold"));
    assert_eq!(screen.next_change(), None);
}
