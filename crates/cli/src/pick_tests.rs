use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use index::catalog::KnownSession;
use index::search::{Found, FoundSession, Hit, Snippet};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Rect;
use transcript::Session;
use transcript::conversation::preview::{Preview, Trouble};
use unicode_width::UnicodeWidthStr;

use super::draw::{self, Look};
use super::rows::Rows;
use super::state::{Deed, Effect, News, Peek, Picked, Picker};

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_hours(498_648)
}

fn id(number: usize) -> String {
    format!("{number:08x}-0000-4000-8000-000000000000")
}

fn path(number: usize) -> PathBuf {
    PathBuf::from(format!("/h/projects/-w/{}.jsonl", id(number)))
}

fn session(number: usize) -> Session {
    Session {
        id: id(number).into(),
        path: path(number),
        project: "-w".to_owned(),
        size: 1_000 * (number as u64 + 1),
        modified: now() - Duration::from_hours(number as u64),
    }
}

fn seen(title: Option<&str>, prompt: &str, cwd: &str) -> Preview {
    Preview {
        title: title.map(str::to_owned),
        tag: None,
        prompt: Some(prompt.to_owned()),
        is_prompt_cut: false,
        cwd: Some(cwd.to_owned()),
        branch: Some("main".to_owned()),
        version: Some("2.1.325".to_owned()),
        // Shown on the clock of the user, which is another one elsewhere.
        started: None,
        ended: None,
        troubles: Vec::new(),
    }
}

/// Sessions with these previews; the first two are of the current project.
fn picker(previews: Vec<Preview>) -> Picker {
    let sessions: Vec<Session> = (0..previews.len()).map(session).collect();
    let here: HashSet<PathBuf> = [path(0), path(1)].into();
    let mut picker = Picker::new(Rows::new(sessions, &here), "show", "", false);
    let all = previews.into_iter().map(Ok).enumerate().collect();
    picker.hear(News::Seen(all));
    picker
}

fn several() -> Picker {
    picker(vec![
        seen(Some("My boots are wet"), "How do I dry boots?", "/home/dev/shoes"),
        seen(None, "Fix the parser", "/home/dev/shoes"),
        seen(Some("日本語のタイトル：靴を乾かす方法について"), "靴", "/home/開発/靴屋"),
        seen(Some("e\u{301}te\u{301} \u{1b}[31mred\u{202e} 👩‍👩‍👧 family"), "x", "/srv/a"),
        seen(Some(&"a very long title that goes on ".repeat(9)), "long", "/srv/b"),
    ])
}

fn press(picker: &mut Picker, keys: &str) {
    for c in keys.chars() {
        assert_eq!(picker.key(KeyCode::Char(c).into()), Effect::Nothing);
    }
}

fn ctrl(picker: &mut Picker, c: char) -> Effect {
    picker.key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL))
}

fn screen(picker: &Picker, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw::draw(frame, picker, &Look::plain(now()))).unwrap();
    let cursor = terminal.get_cursor_position().unwrap();
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for y in 0..height {
        let mut x = 0;
        while x < width {
            // A wide character takes the cell behind it, too.
            let symbol = buffer[(x, y)].symbol();
            text.push_str(symbol);
            x += u16::try_from(symbol.width().max(1)).unwrap();
        }
        text = format!("{}\n", text.trim_end_matches(' '));
    }
    format!("{text}cursor at {},{}", cursor.x, cursor.y)
}

fn shown(picker: &Picker) -> Vec<String> {
    let rows = picker.shown.iter().filter_map(|at| picker.rows.get(*at));
    rows.map(|row| row.one.session.id.short()).collect()
}

fn found(number: usize, text: &str, mark: std::ops::Range<usize>) -> FoundSession {
    let snippet = Snippet { text: text.to_owned(), marks: vec![mark] };
    let hit = Hit {
        turn: Some(3),
        line: 7,
        agent: None,
        branch: None,
        role: "assistant",
        kind: "answer",
        snippet,
    };
    FoundSession {
        id: id(number),
        path: path(number),
        project: "/h/projects/-w".into(),
        cwd: None,
        title: None,
        prompt: None,
        ended: None,
        is_deleted: false,
        score: 1.0,
        hits: vec![hit],
    }
}

fn answer(asked: u64, sessions: Vec<FoundSession>) -> News {
    News::Found(asked, Ok(Found { total: sessions.len(), sessions, is_cut: false }))
}

#[test]
fn the_first_screen_in_three_sizes() {
    let mut picker = several();
    let (path, _) = picker.take_peek().unwrap();
    let answer = Some("Put them\nnear a stove.".to_owned());
    picker.hear(News::Peeked(path, Peek { answer, has_folder: false }));
    for (name, width, height) in [("large", 130, 16), ("usual", 80, 24), ("small", 40, 15)] {
        insta::assert_snapshot!(format!("screen_{name}"), screen(&picker, width, height));
    }
}

#[test]
fn wide_characters_and_harmful_ones() {
    let mut picker = several();
    picker.key(KeyCode::Down.into());
    picker.key(KeyCode::Down.into());
    picker.paste("日");
    picker.key(KeyCode::Backspace.into());
    picker.key(KeyCode::End.into());
    picker.key(KeyCode::Up.into());
    insta::assert_snapshot!("screen_harmful", screen(&picker, 60, 15));
    picker.key(KeyCode::Up.into());
    insta::assert_snapshot!("screen_wide", screen(&picker, 40, 15));
}

#[test]
fn no_size_is_too_small() {
    let mut picker = several();
    press(&mut picker, "ö");
    for width in 0..20 {
        for height in 0..14 {
            picker.page = draw::page(Rect::new(0, 0, width, height));
            screen(&picker, width, height);
        }
    }
}

#[test]
fn what_is_typed_filters_at_once() {
    let mut picker = several();
    press(&mut picker, "SHOES boo");
    assert_eq!(shown(&picker), ["00000000"]);
    ctrl(&mut picker, 'u');
    press(&mut picker, "靴屋");
    assert_eq!(shown(&picker), ["00000002"]);
    ctrl(&mut picker, 'u');
    press(&mut picker, "00000004-");
    assert_eq!(shown(&picker), ["00000004"]);
    ctrl(&mut picker, 'u');
    press(&mut picker, "nowhere to be found");
    assert_eq!(shown(&picker), Vec::<String>::new());
    insta::assert_snapshot!("screen_none", screen(&picker, 40, 15));
    assert_eq!(picker.key(KeyCode::Enter.into()), Effect::Nothing);
}

#[test]
fn words_inside_of_sessions_come_after_names() {
    let mut picker = several();
    press(&mut picker, "boots");
    let (number, text) = picker.take_query().unwrap();
    assert_eq!((text.as_str(), picker.take_query()), ("boots", None));
    let found = vec![
        found(4, "… with wet boots\u{9b} you …", 11..16),
        found(0, "my boots are wet", 3..8),
        found(99, "not in the list", 0..3),
    ];
    picker.hear(answer(number, found));
    assert_eq!(shown(&picker), ["00000000", "00000004"]);
    picker.key(KeyCode::Down.into());
    insta::assert_snapshot!("screen_found", screen(&picker, 80, 24));
}

#[test]
fn answers_to_another_query_do_not_count() {
    let mut picker = several();
    press(&mut picker, "bo");
    let (old, _) = picker.take_query().unwrap();
    press(&mut picker, "ots");
    let (new, _) = picker.take_query().unwrap();
    picker.hear(answer(new, vec![found(4, "boots", 0..5)]));
    picker.hear(answer(old, vec![found(3, "bo", 0..2)]));
    assert_eq!(shown(&picker), ["00000000", "00000004"]);
    // The catalog is newer than the answer: the same query again.
    picker.hear(News::Refreshed(Ok(())));
    let (again, text) = picker.take_query().unwrap();
    assert!(again > new && text == "boots");
    picker.hear(answer(again, vec![found(3, "boots", 0..5)]));
    assert_eq!(shown(&picker), ["00000000", "00000003"]);
    picker.hear(News::Found(again, Err("a quote is missing".to_owned())));
    let last = screen(&picker, 60, 12);
    assert!(last.contains("a quote is missing") && shown(&picker) == ["00000000"], "{last}");
}

#[test]
fn the_selection_stays_when_more_becomes_known() {
    let mut picker = several();
    press(&mut picker, "a");
    for _ in 0..2 {
        picker.key(KeyCode::Down.into());
    }
    let selected = picker.selected().unwrap().one.session.id.clone();
    picker.hear(News::Seen(vec![(1, Ok(seen(None, "xyz", "/nowhere")))]));
    assert_eq!(picker.selected().unwrap().one.session.id, selected);
}

#[test]
fn what_keys_ask_for() {
    let mut picker = several();
    let wanted = |deed| Effect::Pick(Picked { deed, name: id(0) });
    assert_eq!(picker.key(KeyCode::Enter.into()), wanted(Deed::Open));
    assert_eq!(ctrl(&mut picker, 'r'), wanted(Deed::Resume));
    assert_eq!(ctrl(&mut picker, 'f'), wanted(Deed::Fork));
    assert_eq!(ctrl(&mut picker, 'y'), Effect::Copy(id(0)));
    assert_eq!(ctrl(&mut picker, 'z'), Effect::Suspend);
    assert_eq!(ctrl(&mut picker, 'l'), Effect::Redraw);
    assert_eq!(ctrl(&mut picker, 'c'), Effect::Leave);
    assert_eq!(picker.key(KeyCode::Esc.into()), Effect::Leave);
    picker.page = 3;
    let keys = [KeyCode::Down, KeyCode::PageDown, KeyCode::Down, KeyCode::PageUp, KeyCode::Home];
    let places = keys.map(|key| {
        picker.key(key.into());
        picker.at
    });
    assert_eq!(places, [1, 4, 4, 1, 0]);
}

#[test]
fn a_name_that_could_mean_something_else_is_a_path() {
    let named = |one: &str, file: &str| {
        let sessions =
            vec![Session { id: one.into(), path: format!("/h/p/{file}").into(), ..session(0) }];
        let rows = Rows::new(sessions, &HashSet::new());
        rows.name(rows.get(0).unwrap())
    };
    assert_eq!(named(&id(7), "x.jsonl"), id(7));
    assert_eq!(named("--in-place", "--in-place.jsonl"), "/h/p/--in-place.jsonl");
    assert_eq!(named("last", "last.jsonl"), "/h/p/last.jsonl");
    let twice = [1, 2].map(|number| Session { id: id(0).into(), ..session(number) });
    let rows = Rows::new(twice.to_vec(), &HashSet::new());
    assert_eq!(PathBuf::from(rows.name(rows.get(0).unwrap())), path(1));
}

#[test]
fn deleted_sessions_are_listed_last() {
    let mut picker = several();
    let known = |number: usize, is_deleted| KnownSession {
        id: id(number),
        path: path(number),
        project: "/h/projects/-w".into(),
        size: 2_000,
        modified: session(number).modified,
        is_deleted,
        prompts: 4,
        seen: seen(Some("Gone with the wind"), "wind", "/home/dev/wind"),
    };
    // One that has not changed, one that has, and one that is gone.
    picker.hear(News::Known(vec![known(1, false), known(2, false), known(50, true)]));
    let prompts: Vec<Option<u64>> = picker.rows.iter().map(|row| row.prompts).collect();
    assert_eq!(prompts, [None, Some(4), None, None, None, Some(4)]);
    press(&mut picker, "wind");
    assert_eq!(picker.key(KeyCode::Enter.into()), Effect::Nothing);
    insta::assert_snapshot!("screen_deleted", screen(&picker, 80, 15));
    assert_eq!(ctrl(&mut picker, 'y'), Effect::Copy(id(50)));
}

#[test]
fn only_the_current_project_and_damage() {
    let sessions = vec![session(0), session(1), session(2)];
    let here: HashSet<PathBuf> = [path(2)].into();
    let mut picker = Picker::new(Rows::new(sessions, &here), "strip", "torn", true);
    let mut torn = seen(None, "torn file", "/w");
    torn.troubles.push(Trouble::Torn);
    // The current project's sessions come first.
    picker.hear(News::Seen(vec![(0, Ok(torn.clone())), (1, Ok(torn))]));
    picker.hear(News::Reading(35, 100));
    insta::assert_snapshot!("screen_here", screen(&picker, 80, 15));
}
