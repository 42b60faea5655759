use std::fmt::Write as _;

use transcript::Session;
use transcript::conversation::price::Prices;
use transcript::format::secret::Mask;

use super::*;
use crate::draw::Form;

/// A session of one turn with so many answers, and a dead end beside its end.
fn opened(answers: usize) -> (tempfile::TempDir, Opened) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("11111111-1111-4111-8111-111111111111.jsonl");
    let (mut lines, mut second) = (String::new(), 0);
    let mut add = |uuid: &str, parent: &str, role: &str, content: &str| {
        second += 1;
        let time = format!("2026-01-01T00:{:02}:{:02}.000Z", second / 60, second % 60);
        let _ = writeln!(
            lines,
            "{{\"type\":\"{role}\",\"uuid\":\"{uuid}\",\"parentUuid\":{parent},\"timestamp\":\"{time}\",\
             \"message\":{{\"id\":\"m{uuid}\",\"role\":\"{role}\",\"content\":{content}}}}}"
        );
    };
    let text = |words: &str| format!("[{{\"type\":\"text\",\"text\":\"{words}\"}}]");
    add("p", "null", "user", "\"begin\"");
    let mut last = "\"p\"".to_owned();
    for number in 0..answers {
        add(&format!("a{number}"), &last, "assistant", &text(&format!("needle {number};")));
        last = format!("\"a{number}\"");
    }
    add("d1", &last, "user", "\"another way\"");
    add("d2", "\"d1\"", "assistant", &text("needle in a dead end"));
    add("l1", &last, "user", "\"the way\"");
    add("l2", "\"l1\"", "assistant", &text("the live end"));
    std::fs::write(&path, lines).unwrap();
    let opened = Opened::open(Session::at(&path).unwrap()).unwrap();
    (folder, opened)
}

#[test]
fn one_long_turn_is_searched_in_bounded_pieces_and_dead_ends_after_it() {
    let (_folder, opened) = opened(350);
    let prices = Prices::default();
    let drawing = Drawing::new(&opened, Mask::none(), Form::Page, &prices);
    let (mut from, mut answers) = (Place::default(), Vec::new());
    loop {
        let html = find(&drawing, &opened.live, "needle", from).unwrap().into_string();
        let next = html.split_once("part=").map(|(_, rest)| {
            let numbers: Vec<usize> = rest
                .split(|c: char| !c.is_ascii_digit())
                .filter_map(|part| part.parse().ok())
                .take(2)
                .collect();
            Place { part: numbers[0], step: numbers[1] }
        });
        answers.push(html);
        match next {
            Some(next) => from = next,
            None => break,
        }
    }
    assert!(answers.len() > 3, "{}", answers.len());
    let hits = |html: &String| html.matches("<mark>").count();
    assert!(answers.iter().all(|html| hits(html) <= HITS));
    assert_eq!(answers.iter().map(hits).sum::<usize>(), 351);
    let all = answers.concat();
    for number in 0..350 {
        assert_eq!(all.matches(&format!("</mark> {number};")).count(), 1, "{number}");
    }
    assert!(all.contains("in a dead end") && all.contains("branch "), "{all}");
}
