use super::*;

#[test]
fn what_has_arrived_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let states = States::at(&folder.path().join("sessions"));
    assert_eq!(states.load("a"), State::default());
    let done = |key: &str| BTreeMap::from([(key.to_owned(), "m".to_owned())]);
    let position = Position { line: 3, turns: 1, ..Position::default() };
    let updates = [
        Update { session: "a".into(), done: done("1"), position: None },
        Update { session: "b".into(), done: done("2"), position: None },
        Update { session: "a".into(), done: done("3"), position: Some(position.clone()) },
    ];
    states.apply(&updates).unwrap();
    let known = states.load("a");
    assert_eq!(known.done.keys().collect::<Vec<_>>(), ["1", "3"]);
    assert_eq!(known.position, Some(position));
    assert_eq!(states.load("b").done.len(), 1);
    // Half a file contains nothing usable, and is not an error.
    let path = folder.path().join("sessions").join("a.json");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    assert_eq!(states.load("a"), State::default());
}

/// A mark that the disk has changed must not make a turn count as sent.
#[test]
fn a_changed_bit_makes_nothing_done() {
    let folder = tempfile::tempdir().unwrap();
    let states = States::at(folder.path());
    let done = BTreeMap::from([("0123456789abcdef".to_owned(), "89abcdef".to_owned())]);
    states.apply(&[Update { session: "a".into(), done, position: None }]).unwrap();
    let path = folder.path().join("a.json");
    let bytes = fs::read(&path).unwrap();
    let mut rng = testkit::Rng::new(3);
    for _ in 0..400 {
        let mut other = bytes.clone();
        other[rng.below(bytes.len() - 1)] ^= 1 << rng.below(8);
        fs::write(&path, &other).unwrap();
        assert_eq!(states.load("a"), State::default(), "{}", other.escape_ascii());
    }
    fs::write(&path, &bytes).unwrap();
    assert_eq!(states.load("a").done.len(), 1);
}

#[test]
fn fuzz_the_reader() {
    let folder = tempfile::tempdir().unwrap();
    let states = States::at(folder.path());
    let done = BTreeMap::from([("k".to_owned(), "m".to_owned())]);
    let position = Some(Position { line: 3, turns: 1, ..Position::default() });
    states.apply(&[Update { session: "a".into(), done, position }]).unwrap();
    let known = states.load("a");
    let seeds = [fs::read(folder.path().join("a.json")).unwrap()];
    testkit::mutate::run(&seeds, 100_000, |bytes| {
        let read = disk::unseal::<State>(bytes);
        assert!(read.is_none_or(|read| read == known), "something else was believed");
    });
}
