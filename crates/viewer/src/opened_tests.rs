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
