use super::*;
use crate::question::Question;
use crate::terminal::{Live, Size, Terminal};
use crate::text::{Colors, plain_lines};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::json;
use std::num::NonZero;

#[path = "screen_gallery_tests.rs"]
mod gallery;

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

fn always(rule: &str) -> crate::question::Answer {
    let rule = rules::Rule::parse(rule, rules::Kind::Allow, "", std::path::PathBuf::new());
    crate::question::Answer::Always(rule.unwrap(), 0)
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
        rule_files: vec![".claude/settings.local.json".to_owned()],
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
    assert_eq!(screen.written(), "y1");
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
    assert_eq!(screen.written(), "see @src/main.rs now");
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
    let alt = |c: char| KeyEvent::new(KeyCode::Char(c), KeyModifiers::ALT);
    assert_eq!(screen.key(alt('p'), at(5)), [Wish::Key("model")]);
    assert_eq!(screen.key(alt('t'), at(5)), [Wish::Key("thinking")]);
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
    assert_eq!(screen.written(), "three");
    press(&mut screen, "^u↑", at(6));
    assert_eq!(screen.written(), "two");
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
    assert_eq!(screen.written(), "cargo test");
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

#[test]
fn what_is_not_known_of_the_context_is_not_shown() {
    let mut screen = screen();
    assert!(shown(&mut screen, 200, 24, 1).contains("24k/200k 12%"));
    heard(&mut screen, News::Meter(Meter { window: 200_000, ..Meter::default() }), 2);
    assert!(!shown(&mut screen, 200, 24, 2).contains('%'));
}

#[test]
fn a_prompt_goes_along_with_a_silent_command() {
    let mut screen = at_work();
    let input = json!({"command": "sleep 6"});
    let (id, name) = ("1".to_owned(), "Bash".to_owned());
    heard(&mut screen, News::Call { id: id.clone(), name, input }, 5);
    press(&mut screen, "and then?⏎", at(6));
    let output = News::Output { id, text: String::new() };
    assert_eq!(heard(&mut screen, output.clone(), 7), []);
    assert_eq!(heard(&mut screen, output, 8), [Wish::Say(Prompt::typed("and then?"))]);
}

#[test]
fn what_is_put_aside_comes_back() {
    let mut screen = screen();
    press(&mut screen, "a long thought^s", at(1));
    assert_eq!(screen.written(), "");
    press(&mut screen, "^s", at(1));
    assert_eq!(screen.written(), "a long thought");
    press(&mut screen, "^squick question", at(2));
    let wishes = press(&mut screen, "⏎", at(2));
    assert_eq!(wishes, [Wish::Say(Prompt::typed("quick question"))]);
    assert_eq!(screen.written(), "a long thought");
}

#[test]
fn a_draft_is_everything_that_was_not_sent() {
    let mut screen = at_work();
    press(&mut screen, "put aside^squeued⏎", at(5));
    // The next prompt has brought it back.
    press(&mut screen, "^s", at(5));
    screen.paste("one\ntwo\nthree\nfour\n", at(6));
    let image = crate::composer::Image { media: "image/png".to_owned(), data: "AAAA".to_owned() };
    screen.paste_image(image);
    press(&mut screen, " end", at(6));
    assert!(screen.written().contains("[Image #2] end"));
    assert_eq!(screen.draft(), "put aside\nqueued\none\ntwo\nthree\nfour\n end");
}

#[test]
fn a_name_that_is_typed_as_a_whole_is_sent() {
    let mut screen = screen();
    heard(&mut screen, News::Files(vec!["src/main.rs".to_owned(), "main.rs".to_owned()]), 1);
    let wishes = press(&mut screen, "see @main.rs⏎", at(2));
    assert_eq!(wishes, [Wish::Say(Prompt::typed("see @main.rs"))]);
    heard(&mut screen, News::End(Ending::Answered), 3);
    assert_eq!(press(&mut screen, "/cost⏎", at(4)).len(), 1);
    assert_eq!(press(&mut screen, "see @ma⏎", at(5)), []);
    assert_eq!(screen.written(), "see @main.rs ");
}

#[test]
fn the_title_says_what_goes_on() {
    let mut screen = screen();
    screen.set_name("quipu – a\u{1b}b");
    assert_eq!(screen.title(), "quipu – a\\x1bb");
    press(&mut screen, "go⏎", at(1));
    assert_eq!(screen.title(), "… quipu – a\\x1bb");
    heard(&mut screen, News::Ask(Box::default()), 2);
    assert_eq!(screen.title(), "? quipu – a\\x1bb");
    heard(&mut screen, News::End(Ending::Interrupted), 3);
    assert_eq!(screen.title(), "quipu – a\\x1bb");
}

#[test]
fn whole_lines_in_place_of_keys() {
    let mut screen = screen();
    screen.set_lines_only();
    heard(&mut screen, News::Files(vec!["README.md".to_owned()]), 1);
    // Nothing is completed, and what starts like a key is text.
    let wishes = screen.line("? what is in @READ", at(1));
    assert_eq!(wishes, [Wish::Say(Prompt::typed("? what is in @READ"))]);
    assert_eq!(screen.line("one more", at(2)), []);
    assert!(
        screen.take_lines().iter().any(|line| crate::text::plain(line).contains("waits until"))
    );
    let question = Question {
        tool: "Bash".to_owned(),
        input: json!({"command": "ls"}),
        rule: Some("Bash(ls:*)".to_owned()),
        ..Question::default()
    };
    heard(&mut screen, News::Ask(Box::new(question.clone())), 3);
    screen.live(Size { width: 80, height: 24 }, at(3));
    // A line that came before the question was there waits, as other prompts do.
    assert_eq!(screen.line("1", at(3)), []);
    // What means nothing is said.
    screen.take_lines();
    assert_eq!(screen.line("no, see issue 17", at(4)), []);
    let lines = crate::text::plain_lines(&screen.take_lines());
    assert_eq!(lines, "answer with the number of a choice\n");
    assert_eq!(screen.line("2", at(4)), []);
    let wishes = screen.line("Bash(ls -l)", at(4));
    let always = always("Bash(ls -l)");
    assert_eq!(wishes, [Wish::Answer(Box::new(question), always)]);
    let wishes = heard(&mut screen, News::End(Ending::Answered), 5);
    assert_eq!(wishes, [Wish::Say(Prompt::typed("one more"))]);
    // Nothing is typed that is not seen: what comes back is printed.
    heard(&mut screen, News::End(Ending::Interrupted), 6);
    screen.take_lines();
    assert_eq!(heard(&mut screen, News::Write("an old\nprompt".to_owned()), 6), []);
    let lines = crate::text::plain_lines(&screen.take_lines());
    assert_eq!(lines, "what was not sent:\nan old\nprompt\n");
    assert_eq!(screen.line("a new one", at(7)), [Wish::Say(Prompt::typed("a new one"))]);
}

#[test]
fn what_was_said_before_a_resume() {
    let mut screen = screen();
    let input = json!({"command": "ls -l"});
    let call = |is_error| Spoken::Call { name: "Bash".to_owned(), input: input.clone(), is_error };
    let earlier = ["one", "two"].map(|text| Spoken::Prompt(text.to_owned()));
    screen.recall(
        earlier.to_vec(),
        &[
            Spoken::Prompt("list them\nall".to_owned()),
            Spoken::Answer("I **look**.".to_owned()),
            call(false),
            call(true),
            Spoken::Answer("Nothing\u{1b}[2J there.".to_owned()),
        ],
    );
    let lines: Vec<String> = screen.take_lines().iter().map(crate::text::plain).collect();
    let wanted = "\n… 2 earlier prompts of this session (Ctrl-O)\n\n❯ list them\n  all\n\nI look.\n\n\
        ● Bash(ls -l)\n\n✗ Bash(ls -l)\n\nNothing\\x1b[2J there.";
    assert_eq!(lines.join("\n"), wanted);
    press(&mut screen, "^o", at(1));
    let lines = crate::text::plain_lines(&screen.take_lines());
    assert_eq!(lines, "\nfrom the beginning:\n\n❯ one\n\n❯ two\n");
    press(&mut screen, "^o^o", at(2));
    assert_eq!(screen.take_lines(), []);
}

/// Ctrl-O shows what the last turn has folded, `/open all` also what came before.
#[test]
fn what_earlier_turns_have_folded_is_opened_too() {
    let mut screen = screen();
    for turn in ["a", "b"] {
        heard(&mut screen, News::Begin, 1);
        let (id, name) = (turn.to_owned(), "Bash".to_owned());
        let input = json!({"command": format!("seq {turn}")});
        heard(&mut screen, News::Call { id: id.clone(), name, input }, 1);
        let lines: Vec<String> = (1..=9).map(|number| format!("{turn}{number}\n")).collect();
        let text = lines.concat();
        let detail = json!(null);
        heard(&mut screen, News::Result { id, is_error: false, text, detail }, 1);
        heard(&mut screen, News::End(Ending::Answered), 1);
    }
    let printed = |screen: &mut Screen| crate::text::plain_lines(&screen.take_lines());
    let all = printed(&mut screen);
    assert!(all.contains("a4") && !all.contains("a5") && !all.contains("b5"), "{all}");
    press(&mut screen, "^o", at(2));
    assert_eq!(printed(&mut screen), "\nBash(seq b)\nb5\nb6\nb7\nb8\nb9\n");
    assert!(shown(&mut screen, 100, 24, 2).contains("/open all"));
    screen.open_older(at(3));
    assert_eq!(printed(&mut screen), "\nBash(seq a)\na5\na6\na7\na8\na9\n");
    assert!(!shown(&mut screen, 100, 24, 3).contains("/open all"));
}

/// What happens while something is asked is printed afterwards: what is asked about stays beside
/// the choices. Ctrl-O prints it at once.
#[test]
fn what_is_asked_about_stays_beside_the_choices() {
    let mut screen = at_work();
    let call = |id: &str| {
        let input = json!({"command": format!("run {id}")});
        News::Call { id: id.to_owned(), name: "Bash".to_owned(), input }
    };
    let question = |id: &str| {
        let input = json!({"command": format!("run {id}")});
        let (call, tool) = (id.to_owned(), "Bash".to_owned());
        News::Ask(Box::new(Question { call, tool, input, ..Question::default() }))
    };
    let result = |id: &str| News::Result {
        id: id.to_owned(),
        is_error: false,
        text: format!("result of {id}"),
        detail: json!(null),
    };
    for id in ["a", "b", "c"] {
        heard(&mut screen, call(id), 5);
    }
    for id in ["a", "b", "c"] {
        heard(&mut screen, question(id), 5);
    }
    let window = Size { width: 80, height: 24 };
    let seen = |screen: &mut Screen, now: u64| {
        let rows = plain_lines(&screen.live(window, at(now)).rows);
        (plain_lines(&screen.take_lines()), rows)
    };
    let (printed, _) = seen(&mut screen, 5);
    assert!(printed.contains("run a") && !printed.contains("run b"), "{printed}");
    press(&mut screen, "1", at(6));
    heard(&mut screen, result("a"), 6);
    let (printed, rows) = seen(&mut screen, 6);
    assert!(printed.contains("run b") && !printed.contains("result of a"), "{printed}");
    assert!(rows.contains("(3 lines wait; Ctrl-O prints them now)"), "{rows}");
    press(&mut screen, "1", at(7));
    heard(&mut screen, result("b"), 7);
    // What came before is printed before the next question.
    let (printed, _) = seen(&mut screen, 7);
    let (before, after) = printed.split_once("run c").unwrap();
    assert!(before.contains("result of a") && !after.contains("result of b"), "{printed}");
    // At the end nothing is left out.
    let mut other = at_work();
    for news in [question("d"), News::Notice("meanwhile".to_owned())] {
        heard(&mut other, news, 7);
    }
    assert!(!seen(&mut other, 7).0.contains("meanwhile"));
    assert_eq!(plain_lines(&other.take_all_lines()), "meanwhile\n");
    press(&mut screen, "^o", at(7));
    let (printed, rows) = seen(&mut screen, 7);
    assert!(printed.contains("result of b") && !rows.contains("lines wait"), "{printed}{rows}");
    press(&mut screen, "1", at(8));
    heard(&mut screen, result("c"), 8);
    assert!(seen(&mut screen, 8).0.contains("result of c"));
}

#[test]
fn the_list_of_keys_fits_a_usual_window() {
    for (keys, about) in keys::KEYS {
        assert!(crate::text::columns(about) <= 55, "{keys}: {about}");
    }
}

/// Nothing came of a prompt: it is typed again, with what was pasted, and counts as not sent.
#[test]
fn a_prompt_that_was_stopped_before_its_answer_is_typed_again() {
    let mut screen = screen();
    screen.paste("one\ntwo\nthree\nfour\n", at(1));
    press(&mut screen, "count⏎", at(1));
    heard(&mut screen, News::Begin, 1);
    assert_eq!(press(&mut screen, "⎋", at(2)), [Wish::Interrupt]);
    assert_eq!(heard(&mut screen, News::End(Ending::Interrupted), 2), [Wish::Unsay]);
    assert_eq!(screen.written(), "one\ntwo\nthree\nfour\ncount");
    // What has begun is not taken back, nor what is typed meanwhile replaced.
    press(&mut screen, "⏎", at(3));
    heard(&mut screen, News::Text("So".to_owned()), 3);
    assert_eq!(heard(&mut screen, News::End(Ending::Interrupted), 4), []);
    assert_eq!(screen.written(), "");
    press(&mut screen, "again⏎and", at(5));
    assert_eq!(heard(&mut screen, News::End(Ending::Interrupted), 6), []);
    assert_eq!(screen.written(), "and");
    // A prompt that waits is sent instead.
    press(&mut screen, "^uagain⏎more⏎", at(7));
    let more = Prompt::typed("more");
    assert_eq!(heard(&mut screen, News::End(Ending::Interrupted), 8), [Wish::Say(more)]);
}

#[test]
fn a_paste_while_a_question_is_asked_waits_in_the_composer() {
    let mut screen = at_work();
    let command = json!({"command": "ls"});
    let question = Question { tool: "Bash".to_owned(), input: command, ..Question::default() };
    heard(&mut screen, News::Ask(Box::new(question)), 5);
    screen.live(Size { width: 80, height: 24 }, at(5));
    screen.paste("1\n", at(6));
    assert_eq!(screen.written(), "1\n");
    // Whoever pastes does not look at what is selected.
    assert_eq!(press(&mut screen, "⏎", at(7)), []);
}

#[test]
fn what_waits_is_changed_by_commands() {
    let mut screen = at_work();
    press(&mut screen, "one⏎two⏎three⏎", at(5));
    screen.change_waiting(1, Some("another"));
    screen.change_waiting(0, None);
    assert_eq!(screen.waiting(), ["another", "three"]);
    screen.change_waiting(7, None);
    assert_eq!(screen.waiting(), ["another", "three"]);
}

#[test]
fn what_is_selected_is_seen_in_a_small_window() {
    let mut screen = at_work();
    let option =
        |n: usize| json!({"label": format!("Option {n}"), "description": "long ".repeat(20)});
    let options: Vec<serde_json::Value> = (1..=4).map(option).collect();
    let input = json!({"questions": [{"question": "Which one?", "options": options}]});
    let tool = "AskUserQuestion".to_owned();
    heard(&mut screen, News::Ask(Box::new(Question { tool, input, ..Question::default() })), 5);
    shown(&mut screen, 40, 15, 5);
    for (keys, selected) in [("", 1), ("↓", 2), ("↓", 3), ("↓", 4)] {
        press(&mut screen, keys, at(6));
        let window = shown(&mut screen, 40, 15, 6);
        let wanted = format!("❯ {selected}. Option {selected}");
        assert!(window.contains(&wanted), "{wanted}:\n{window}");
        // What is cut is marked.
        assert!(window.contains("↑ more") || window.contains("↓ more"), "{window}");
    }
}

#[test]
fn paths_are_shown_from_the_folder_on() {
    let mut screen = screen();
    screen.set_place("/x/demo/");
    let mut words = |name: &str, input: serde_json::Value| {
        let id = "c".to_owned();
        heard(&mut screen, News::Call { id: id.clone(), name: name.to_owned(), input }, 1);
        let words = screen.call_words(&id).unwrap();
        screen.calls.clear();
        words
    };
    assert_eq!(words("Read", json!({"file_path": "/x/demo/a b/c.rs"})), "Read(a b/c.rs)");
    assert_eq!(words("Read", json!({"file_path": "/x/demolition"})), "Read(/x/demolition)");
    assert_eq!(words("Grep", json!({"pattern": "x", "path": "/x/demo"})), "Grep(x .)");
    let command = "rm /x/demo/y";
    assert_eq!(words("Bash", json!({"command": command})), format!("Bash({command})"));
}

#[test]
fn a_diff_that_was_asked_about_is_not_printed_again() {
    let mut screen = at_work();
    let input = json!({"file_path": "a", "old_string": "one", "new_string": "two"});
    let mut edit = |call: &str, added: &str| {
        let (call, name) = (call.to_owned(), "Edit".to_owned());
        heard(
            &mut screen,
            News::Call { id: call.clone(), name: name.clone(), input: input.clone() },
            5,
        );
        let change = crate::question::Change {
            path: "/x/a".to_owned(),
            before: Some("one\n".to_owned()),
            after: "two\n".to_owned(),
        };
        let (tool, input, change) = (name, input.clone(), Some(Ok(change)));
        let question = Question { call: call.clone(), tool, input, change, ..Question::default() };
        heard(&mut screen, News::Ask(Box::new(question)), 5);
        screen.live(Size { width: 80, height: 24 }, at(5));
        press(&mut screen, "1", at(6));
        let detail = json!({"structuredPatch": [{"lines": ["-one", added]}]});
        screen.take_lines();
        let text = String::new();
        heard(&mut screen, News::Result { id: call, is_error: false, text, detail }, 7);
        crate::text::plain_lines(&screen.take_lines())
    };
    assert_eq!(edit("c1", "+two"), "\n● Edit(a)  +1 -1\n");
    // Something else was written than what was asked about.
    assert_eq!(edit("c2", "+three"), "\n● Edit(a)  +1 -1\n-one\n+three\n");
    press(&mut screen, "^o", at(8));
    let folded = crate::text::plain_lines(&screen.take_lines());
    assert!(folded.ends_with("Edit(a)\n-one\n+two\n"), "{folded}");
}

/// A long command is one line of a few hundred columns; Ctrl-O has all of it, once.
#[test]
fn a_long_command_is_folded() {
    let command = format!("echo begin {}\necho second; echo end", "word ".repeat(200));
    let run = |screen: &mut Screen, id: &str, now: u64| {
        let (id, input) = (id.to_owned(), json!({"command": command}));
        let call = News::Call { id: id.clone(), name: "Bash".to_owned(), input };
        heard(screen, call, now);
        let text = "begin\nsecond\nend".to_owned();
        heard(screen, News::Result { id, is_error: false, text, detail: json!({}) }, now);
        plain_lines(&screen.take_lines())
    };
    let mut screen = screen();
    screen.hear(News::Begin, at(0));
    let printed = run(&mut screen, "c1", 1);
    let head = printed.lines().find(|line| line.contains("Bash(echo begin")).unwrap();
    assert!(head.chars().count() < 250 && head.ends_with('…'), "{head}");
    assert!(!printed.contains("echo second"), "{printed}");
    press(&mut screen, "^o", at(2));
    let opened = plain_lines(&screen.take_lines());
    assert_eq!(opened.matches(&command).count(), 1, "{opened}");
    // And with everything open, before its output.
    let printed = run(&mut screen, "c2", 3);
    let place = |text: &str| printed.find(text).unwrap();
    assert!(place("echo end") < place("begin\nsecond"), "{printed}");
}

#[test]
fn a_sentence_typed_into_a_question_answers_nothing() {
    let mut screen = screen();
    let question = Question {
        request: "r1".to_owned(),
        tool: "Bash".to_owned(),
        input: json!({"command": "git push"}),
        sandbox: "holds".to_owned(),
        ..Question::default()
    };
    heard(&mut screen, News::Ask(Box::new(question)), 1);
    screen.live(Size { width: 80, height: 24 }, at(1));
    assert_eq!(press(&mut screen, "run 1 test", at(5)), []);
    assert_eq!(press(&mut screen, "⏎", at(8)), []);
    let rows = plain_lines(&screen.live(Size { width: 80, height: 24 }, at(8)).rows);
    assert!(rows.contains("(waiting in the composer: run 1 test)"), "{rows}");
    assert!(rows.contains("what you type waits"), "{rows}");
    let wishes = press(&mut screen, "1", at(9));
    assert!(matches!(&wishes[..], [Wish::Answer(_, crate::question::Answer::Yes)]), "{wishes:?}");
}

#[test]
fn commands_in_the_background_do_not_end_by_one_key() {
    let mut screen = screen();
    let task = Task { id: "b1".to_owned(), command: "make watch".to_owned() };
    heard(&mut screen, News::Tasks(vec![task]), 1);
    assert_eq!(press(&mut screen, "^d", at(5)), []);
    let rows = plain_lines(&screen.live(Size { width: 80, height: 24 }, at(5)).rows);
    assert!(rows.contains("Ctrl-D again leaves, and ends the command"), "{rows}");
    // Not a second key a while later.
    assert_eq!(press(&mut screen, "^d", at(9)), []);
    assert_eq!(press(&mut screen, "^d", at(10)), [Wish::Leave]);
    heard(&mut screen, News::Tasks(Vec::new()), 11);
    assert_eq!(press(&mut screen, "^d", at(20)), [Wish::Leave]);
}
