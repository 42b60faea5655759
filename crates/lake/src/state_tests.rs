use super::*;

fn record(session: &str, print: &str) -> Record {
    Record { session: session.to_owned(), print: print.to_owned(), ..Record::default() }
}

#[test]
fn the_last_line_of_a_session_counts() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("lake/pushed.jsonl");
    let mut state = State::open(&path).expect("a state");
    assert!(state.is_new);
    state.add(record("a", "1")).expect("added");
    state.add(record("b", "1")).expect("added");
    state.add(record("a", "2")).expect("added");
    let state = State::open(&path).expect("a state");
    assert!(!state.is_new);
    assert_eq!(state.of("a"), Some(&record("a", "2")));
    assert_eq!(state.records().count(), 2);
}

/// Of what was erased, nothing else is known than that.
#[test]
fn an_erasure_alone_is_no_knowledge_of_pushes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pushed.jsonl");
    let mut state = State::open(&path).expect("a state");
    state.add(record("a", "")).expect("added");
    assert!(State::open(&path).expect("a state").is_new);
    state.add(record("b", "1")).expect("added");
    assert!(!State::open(&path).expect("a state").is_new);
}

#[test]
fn a_file_cut_at_any_byte_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pushed.jsonl");
    let mut state = State::open(&path).expect("a state");
    state.add(record("a", "1")).expect("added");
    state.add(record("b", "2")).expect("added");
    let whole = std::fs::read(&path).expect("a file");
    let first = whole.iter().position(|byte| *byte == b'\n').expect("a line");
    for cut in 0..whole.len() {
        std::fs::write(&path, &whole[..cut]).expect("a file");
        let mut state = State::open(&path).expect("a state");
        let wanted = usize::from(cut >= first) + usize::from(cut == whole.len() - 1);
        assert_eq!(state.records().count(), wanted, "cut at {cut}");
        // What is added after a cut line is not lost with it.
        state.add(record("c", "3")).expect("added");
        assert_eq!(State::open(&path).expect("a state").of("c"), Some(&record("c", "3")));
    }
}

#[test]
fn lines_that_were_replaced_are_dropped() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pushed.jsonl");
    let mut state = State::open(&path).expect("a state");
    for number in 0..200 {
        state.add(record("a", &number.to_string())).expect("added");
    }
    let state = State::open(&path).expect("a state");
    assert_eq!(state.of("a"), Some(&record("a", "199")));
    let text = std::fs::read_to_string(&path).expect("a file");
    assert_eq!(text.lines().count(), 1);
}
