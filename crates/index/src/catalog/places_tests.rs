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
    let whole = Places([[5, 9, 1, 0], [1, 4, 1, 2]].concat());
    let [first, second] = [
        RecordPlace { offset: 5, len: 9, line: 1, turn: None },
        RecordPlace { offset: 15, len: 4, line: 2, turn: Some(2) },
    ];
    assert_eq!(whole.list(), [first, second]);
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
    let found: Vec<(&str, u64, Option<u64>)> = places
        .iter()
        .map(|place| {
            let start = usize::try_from(place.offset).unwrap();
            let end = start + usize::try_from(place.len).unwrap();
            (&text[start..end], place.line, place.turn)
        })
        .collect();
    let turns = |at: usize| places[at].turn;
    assert_eq!(found, [(lines[0], 1, turns(0)), (lines[1], 2, turns(1)), (lines[3], 4, turns(2))]);
    assert_eq!((turns(0), turns(2)), (Some(1), Some(2)));
}
