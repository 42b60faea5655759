use std::fmt::Write as _;

use transcript::format::secret::Values;

use super::*;

/// A session with enough turns for several folded pages.
fn session() -> (tempfile::TempDir, Session) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("11111111-1111-4111-8111-111111111111.jsonl");
    let mut lines = String::new();
    for number in 0..400 {
        let parent = if number == 0 { "null".to_owned() } else { format!("\"a{}\"", number - 1) };
        let time = "\"timestamp\":\"2026-01-01T00:00:00.000Z\"";
        let _ = write!(
            lines,
            "{{\"type\":\"user\",\"uuid\":\"u{number}\",\"parentUuid\":{parent},{time},\
             \"message\":{{\"role\":\"user\",\"content\":\"prompt{number}x\"}}}}\n\
             {{\"type\":\"assistant\",\"uuid\":\"a{number}\",\"parentUuid\":\"u{number}\",{time},\
             \"message\":{{\"id\":\"m{number}\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[\
             {{\"type\":\"text\",\"text\":\"answer{number}x {}\"}},\
             {{\"type\":\"tool_use\",\"id\":\"t{number}\",\"name\":\"Bash\",\"input\":{{\"command\":\"call{number}x\"}}}}]}}}}\n",
            "words ".repeat(1_500),
        );
    }
    std::fs::write(&path, lines).unwrap();
    (folder, Session::at(&path).unwrap())
}

fn written(session: &Session, turns: Option<Vec<bool>>, has_tools: bool) -> String {
    let redactor = Arc::<Redactor>::default();
    let cover = Cover::new(Arc::clone(&redactor), Values::default());
    let (prices, cover) = (Prices::default(), Some(&cover));
    let (has_thinking, has_session, redactor, prices) = (true, false, &redactor, &prices);
    let wish = FileWish { turns, has_thinking, has_tools, has_session, cover, redactor, prices };
    let mut out = Vec::new();
    let source = Source::open(session, redactor).unwrap();
    write_file(&source, &wish, &mut out).unwrap();
    write_end(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn the_same_on_one_thread_and_on_several() {
    let (_folder, session) = session();
    let several = written(&session, None, true);
    let one = threads::alone(|| written(&session, None, true));
    assert!(several == one, "a file depends on the number of threads");
    assert!(several.matches("<details class=\"page\"").count() > 1);
    // Every turn once, in order, and every element that is opened is closed.
    let html = several.split("</script>").nth(1).unwrap();
    let turns = html.split("data-turn=\"").skip(1);
    let turns = turns.map(|rest| rest[..rest.find('"').unwrap()].parse().unwrap());
    assert_eq!(turns.collect::<Vec<usize>>(), (1..=400).collect::<Vec<_>>());
    for name in ["details", "div", "main", "aside", "section", "ul", "ol", "table"] {
        let begun = [" ", ">"].map(|next| html.matches(&format!("<{name}{next}")).count());
        let ended = html.matches(&format!("</{name}>")).count();
        assert_eq!(begun.iter().sum::<usize>(), ended, "{name}");
    }
}

#[test]
fn dead_ends_are_folded_pages_from_where_they_leave() {
    let (_folder, session) = session();
    let mut lines = std::fs::read_to_string(&session.path).unwrap();
    // Back to the answer of turn 391: what follows it is a dead end, after a new prompt.
    for (name, parent, role) in [("w", "a390", "user"), ("v", "w", "assistant")] {
        let _ = writeln!(
            lines,
            "{{\"type\":\"{role}\",\"uuid\":\"{name}\",\"parentUuid\":\"{parent}\",\
             \"timestamp\":\"2026-01-02T00:00:00.000Z\",\"message\":{{\"id\":\"m{name}\",\
             \"role\":\"{role}\",\"content\":[{{\"type\":\"text\",\"text\":\"live{name}x\"}}]}}}}"
        );
    }
    std::fs::write(&session.path, lines).unwrap();
    let session = Session::at(&session.path).unwrap();
    let html = written(&session, None, true);
    let (live, dead) = html.split_once("<details class=\"page dead\">").unwrap();
    assert!(live.contains("prompt390x") && live.contains("livewx") && live.contains("livevx"));
    assert!(!live.contains("answer391x") && !dead.contains("answer390x"));
    for turn in 391..400 {
        assert_eq!(dead.matches(&format!("answer{turn}x")).count(), 1, "{turn}");
        assert!(dead.contains(&format!("call{turn}x")));
    }
    assert!(dead.contains("Dead end, turn 392 to 400"), "{dead}");
    // The panel leads there.
    let anchor = dead.split("class=\"turn\" id=\"").nth(1).unwrap().split('"').next().unwrap();
    assert!(anchor.ends_with("-turn-392") && live.contains(&format!("href=\"#{anchor}\"")));
    let talk = written(&session, None, false);
    assert!(talk.contains("answer399x") && !talk.contains("call399x"));
    let chosen: Vec<bool> = (0..392).map(|turn| turn == 7).collect();
    let few = written(&session, Some(chosen), true);
    assert!(!few.contains("answer399x") && !few.contains("page dead"));
}

#[test]
fn what_is_left_out_is_nowhere_in_it() {
    let (_folder, session) = session();
    let chosen: Vec<bool> = (0..400).map(|turn| turn == 7 || turn == 8).collect();
    let few = written(&session, Some(chosen), true);
    for turn in [0, 6, 9, 399] {
        for word in ["prompt", "answer", "call"] {
            assert!(!few.contains(&format!("{word}{turn}x")), "{word} of turn {turn}");
        }
    }
    assert!(few.contains("prompt7x") && few.contains("answer8x") && few.contains("call8x"));
    assert!(few.contains("<title>prompt7x</title>"));
    let talk = written(&session, None, false);
    assert!(talk.contains("answer399x") && !talk.contains("call3x"));
}
