use std::fs;

use super::*;

/// A record of an answer.
fn answer(id: &str, session: &str, second: u8, output: u64, more: &str) -> String {
    format!(
        concat!(
            r#"{{"type":"assistant","sessionId":"{session}","uuid":"{id}-{output}","#,
            r#""timestamp":"2026-03-01T10:00:{second:02}.000Z","message":{{"id":"{id}","#,
            r#""role":"assistant","model":"claude-opus-4-5","content":[{more}],"#,
            r#""usage":{{"input_tokens":10,"output_tokens":{output}}},"stop_reason":{stop}}}}}"#
        ),
        id = id,
        session = session,
        second = second,
        output = output,
        more = more,
        stop = if output > 1 { "\"end_turn\"" } else { "null" },
    )
}

/// What a ledger says of each message: id, output, session, copies, lower bound.
fn counted(files: &[(&str, &[String])]) -> Vec<(String, u64, String, usize, bool)> {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("projects/demo");
    for (name, lines) in files {
        let path = project.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, lines.join("\n") + "\n").unwrap();
    }
    let ledger = Ledger::of_homes(&[Home { root: folder.path().to_owned() }], 2);
    assert!(ledger.unreadable.is_empty());
    let each = ledger.entries.iter().map(|entry| {
        let session = ledger.source(entry).session.to_string();
        let message = &entry.message;
        let usage = message.usage;
        (message.id.clone(), usage.output, session, entry.copies.len(), usage.at_least)
    });
    each.collect()
}

fn row(id: &str, output: u64, session: &str, copies: usize) -> (String, u64, String, usize, bool) {
    (id.to_owned(), output, session.to_owned(), copies, output == 1)
}

#[test]
fn a_message_counts_once_with_its_last_figures() {
    let lines = [
        answer("m1", "a", 1, 1, r#"{"type":"text","text":"x"}"#),
        answer("m1", "a", 2, 40, r#"{"type":"tool_use","id":"t","name":"Bash","input":{}}"#),
        answer("m1", "a", 3, 7, ""),
        answer("m2", "a", 4, 1, ""),
    ];
    assert_eq!(counted(&[("a.jsonl", &lines)]), [row("m1", 40, "a", 0), row("m2", 1, "a", 0)]);
}

#[test]
fn what_is_no_message_of_the_api_does_not_count() {
    let synthetic = answer("m1", "a", 1, 5, "").replace("claude-opus-4-5", "<synthetic>");
    let nameless = answer("m2", "a", 1, 5, "").replace(r#""id":"m2","#, "");
    let without = r#"{"type":"assistant","message":{"id":"m3","role":"assistant","content":[]}}"#;
    let inside = answer("m4", "a", 1, 5, "");
    let progress = format!(r#"{{"type":"progress","data":{{"message":{inside}}}}}"#);
    // Two records on one line, and the rest of a third: these count.
    let glued = format!("{}{}{{\"type\":\"ass", answer("m5", "a", 2, 3, ""), inside);
    let lines = [synthetic, nameless, without.to_owned(), progress, glued];
    assert_eq!(counted(&[("a.jsonl", &lines)]), [row("m5", 3, "a", 0), row("m4", 5, "a", 0)]);
}

#[test]
fn copies_belong_to_the_session_that_made_the_call() {
    let first = [answer("m1", "a", 1, 5, ""), answer("m2", "a", 2, 6, "")];
    // A fork that keeps the names, and one that renames; each goes on by itself.
    let keeps = [answer("m1", "a", 1, 5, ""), answer("m3", "0", 9, 7, "")];
    let renames = [answer("m2", "1", 3, 6, ""), answer("m4", "1", 9, 8, "")];
    let found = counted(&[("a.jsonl", &first), ("0.jsonl", &keeps), ("1.jsonl", &renames)]);
    let wanted =
        [row("m3", 7, "0", 0), row("m4", 8, "1", 0), row("m1", 5, "a", 1), row("m2", 6, "a", 1)];
    assert_eq!(found, wanted);
}

#[test]
fn sub_agents_belong_to_their_sessions() {
    let main = [answer("m1", "a", 1, 5, "")];
    let inside = [answer("m2", "a", 2, 6, "")];
    let beside = [answer("m3", "a", 3, 7, "")];
    let deep = [answer("m4", "x", 4, 8, "")];
    let found = counted(&[
        ("a.jsonl", &main),
        ("a/subagents/agent-1.jsonl", &inside),
        ("a/subagents/workflows/w/agent-3.jsonl", &deep),
        ("agent-2.jsonl", &beside),
    ]);
    let mut sessions: Vec<_> = found.iter().map(|row| (row.0.as_str(), row.2.as_str())).collect();
    sessions.sort_unstable();
    assert_eq!(sessions, [("m1", "a"), ("m2", "a"), ("m3", "a"), ("m4", "a")]);
}

/// A file that was moved, of which a catalog still knows the old place.
#[test]
fn what_is_there_comes_before_what_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let read = |project: &str| {
        let project = folder.path().join(project);
        let path = project.join("a.jsonl");
        fs::create_dir_all(&project).unwrap();
        fs::write(&path, answer("m1", "a", 1, 5, "") + "\n").unwrap();
        FileMessages::read(&project, &path).unwrap()
    };
    for [gone, there] in [["old", "new"], ["new", "old"]] {
        let mut old = read(gone);
        old.source.is_gone = true;
        let ledger = Ledger::new(vec![old, read(there)]);
        let [entry] = ledger.entries.as_slice() else { panic!("one message") };
        assert_eq!(ledger.source(entry).project, folder.path().join(there));
        assert!(!ledger.is_gone(entry));
    }
}
