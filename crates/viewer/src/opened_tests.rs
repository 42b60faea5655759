use super::*;

fn made(lines: &[String]) -> (tempfile::TempDir, Session) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("11111111-1111-4111-8111-111111111111.jsonl");
    std::fs::write(&path, lines.concat()).unwrap();
    let session = Session::at(&path).unwrap();
    (folder, session)
}

/// Prompts and answers in turn.
fn record(number: usize) -> String {
    let parent = if number == 0 { "null".to_owned() } else { format!("\"{}\"", number - 1) };
    let (kind, message) = match number % 2 {
        0 => ("user", "\"role\":\"user\",\"content\":\"a prompt\"".to_owned()),
        _ => (
            "assistant",
            format!(
                "\"id\":\"m{number}\",\"role\":\"assistant\",\"stop_reason\":\"end_turn\",\
                 \"content\":[{{\"type\":\"text\",\"text\":\"an answer\"}}]"
            ),
        ),
    };
    format!(
        "{{\"type\":\"{kind}\",\"uuid\":\"{number}\",\"parentUuid\":{parent},\
         \"timestamp\":\"2026-01-01T00:00:00.000Z\",\"message\":{{{message}}}}}\n"
    )
}

#[test]
fn every_step_is_in_one_window_and_appending_changes_the_last_one() {
    let lines: Vec<String> = (0..100).map(record).collect();
    let (_folder, session) = made(&lines);
    let opened = Opened::open(session).unwrap();
    let flow = opened.flow(FlowName::Live).unwrap();
    let all: Vec<(usize, Range<usize>)> =
        flow.windows.iter().flat_map(|window| window.parts.clone()).collect();
    let steps: usize = all.iter().map(|(_, steps)| steps.len()).sum();
    assert_eq!(steps, flow.turns.iter().map(|turn| turn.steps.len()).sum::<usize>());
    let mut turns: Vec<usize> = all.iter().map(|part| part.0).collect();
    turns.dedup();
    assert_eq!(turns, (0..50).collect::<Vec<_>>());
    assert!(flow.windows.len() > 3);
    let (_other, longer) = made(&(0..120).map(record).collect::<Vec<_>>());
    let longer = Opened::open(longer).unwrap();
    let kept = flow.windows.len() - 1;
    for (one, other) in flow.windows[..kept].iter().zip(&longer.live.windows) {
        assert_eq!(one.parts, other.parts);
    }
    assert_eq!(flow.window_of_line(&opened.family, 100), Some(flow.windows.len() - 1));
    assert_eq!(flow.window_of_turn(0), 0);
    assert_eq!(flow.window_of_line(&opened.family, 1), Some(0));
    assert_eq!(flow.window_of_line(&opened.family, 1_000), None);
}

#[test]
fn names_of_flows() {
    for name in [FlowName::Live, FlowName::Chain(12), FlowName::Agent(3)] {
        assert_eq!(FlowName::parse(&name.text()), Some(name));
    }
    for bad in ["", "m1", "x3", "c", "a-1", "../..", "é"] {
        assert_eq!(FlowName::parse(bad), None, "{bad}");
    }
}

type Shape = Vec<(Vec<(usize, Range<usize>)>, u32)>;

/// What pages show of a session, without its texts.
fn shape(opened: &Opened) -> Shape {
    let windows = opened.live.windows.iter();
    windows.map(|window| (window.parts.clone(), window.height)).collect()
}

#[test]
fn a_session_that_has_grown_is_as_if_opened_anew() {
    let lines: Vec<String> = (0..60).map(record).collect();
    let (_folder, session) = made(&lines[..20]);
    let path = session.path.clone();
    let mut growing = GrowingTable::default();
    // Appended to, ended within a line, completed, written anew and shorter, emptied.
    let half = lines[40].len() / 2;
    for text in [
        lines[..20].concat(),
        lines[..40].concat(),
        lines[..40].concat() + &lines[40][..half],
        lines[..41].concat(),
        lines[..60].concat().trim_end().to_owned(),
        lines[..60].concat(),
        lines[5..9].concat(),
        String::new(),
        lines[..3].concat(),
    ] {
        std::fs::write(&path, &text).unwrap();
        let session = Session::at(&path).unwrap();
        let again = Opened::open_again(session.clone(), &mut growing).unwrap();
        let anew = Opened::open(session).unwrap();
        assert_eq!(shape(&again), shape(&anew), "{} bytes", text.len());
        let rows = |opened: &Opened| opened.family.main.table.rows().len();
        let state = |opened: &Opened| (rows(opened), opened.family.main.table.lines);
        assert_eq!(state(&again), state(&anew), "{} bytes", text.len());
        assert_eq!(again.family.main.table.damaged, anew.family.main.table.damaged);
        assert_eq!(again.title(), anew.title());
    }
}

#[test]
fn a_line_of_another_branch_is_found_there() {
    let mut lines: Vec<String> = (0..10).map(record).collect();
    // Back to the answer on line 6, and on from there: lines 7 to 10 are a dead end.
    let other = |number: usize, parent: usize| {
        let parent_now = format!("\"parentUuid\":\"{}\"", number - 1);
        record(number).replace(&parent_now, &format!("\"parentUuid\":\"{parent}\""))
    };
    lines.push(other(20, 5).replace("00:00:00", "00:01:00"));
    lines.push(record(21).replace("00:00:00", "00:02:00"));
    let (_folder, session) = made(&lines);
    let opened = Opened::open(session).unwrap();
    assert_eq!(opened.dead.len(), 1);
    let name = opened.flow_with(8).unwrap();
    let flow = opened.flow(name).unwrap();
    assert!(matches!(name, FlowName::Chain(_)) && flow.window_of_line(&opened.family, 8).is_some());
    assert_eq!(flow.shared, 3);
    for line in [1, 6, 11, 12, 99] {
        assert_eq!(opened.flow_with(line), None, "{line}");
    }
}
