use super::*;

#[test]
fn numbers_are_read_back() {
    let all = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
    let mut bytes = Vec::new();
    for number in all {
        push(&mut bytes, number);
    }
    let mut rest = bytes.as_slice();
    let read: Vec<u64> = std::iter::from_fn(|| pull(&mut rest)).collect();
    assert_eq!(read, all);
}

#[test]
fn damaged_places_end_early() {
    let whole = Places([[5, 9, 1, 7], [1, 4, 1, 4]].concat());
    let [first, second] = [
        RecordPlace { offset: 5, len: 9, line: 1, of: Part::Side(3) },
        RecordPlace { offset: 15, len: 4, line: 2, of: Part::Turn(2) },
    ];
    assert_eq!(whole.list(), [first, second]);
    assert_eq!(Places::from_iter([first, second]), whole);
    assert_eq!(Places(whole.0[..7].to_vec()).list(), [first]);
    assert_eq!(Places(vec![0xff; 40]).list(), []);
}

#[test]
fn places_are_those_of_the_records() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.jsonl");
    let lines = [
        r#"{"type":"user","uuid":"a","parentUuid":null,"message":{"role":"user","content":"one"}}"#,
        r#"{"type":"assistant","uuid":"b","parentUuid":"a","message":{"role":"assistant","content":[]}}"#,
        "",
        r#"{"type":"user","uuid":"c","parentUuid":"b","message":{"role":"user","content":"two"}}"#,
    ];
    std::fs::write(&path, lines.join("\n")).unwrap();
    let conversation = Conversation::open(&path).unwrap();
    let places = Places::of(&conversation).list();
    let text = std::fs::read_to_string(&path).unwrap();
    let found: Vec<(&str, u64, Part)> = places
        .iter()
        .map(|place| {
            let start = usize::try_from(place.offset).unwrap();
            let end = start + usize::try_from(place.len).unwrap();
            (&text[start..end], place.line, place.of)
        })
        .collect();
    // An answer without anything in it is in no turn.
    let [first, second] = [1, 2].map(Part::Turn);
    let wanted = [(lines[0], 1, first), (lines[1], 2, Part::Other), (lines[3], 4, second)];
    assert_eq!(found, wanted);
}

/// What a sub-agent in the session's file did is named after it, in old sessions, too.
#[test]
fn sidechains_are_named_by_their_first_line() {
    let path = testkit::fixtures().join("edited/sidechain_in_main_file.jsonl");
    let conversation = Conversation::open(&path).unwrap();
    let places = Places::of(&conversation).list();
    let sides = sidechains(&conversation);
    assert!(!sides.is_empty());
    for (place, (_, row)) in places.iter().zip(conversation.table.numbered()) {
        let of_side = |line: u64| sides.iter().any(|side| side.line == line && line <= row.line);
        match place.of {
            Part::Side(line) => assert!(of_side(line) && row.is_sidechain, "{row:?}"),
            of => assert!(!row.is_sidechain, "{of:?}: {row:?}"),
        }
    }
}
