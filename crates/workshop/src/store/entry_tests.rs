//! Entries are read exactly as they were written, or not at all.

use super::super::journal::Intent;
use super::*;

fn body() -> Body {
    let before = Mark { size: 12, modified: 1_700_000_000_000_000_001 };
    let after = Mark { size: 5, modified: 1_800_000_000_000_000_002 };
    let attributes = Attributes {
        mode: 0o640,
        owner: (1000, 1000),
        extended: vec![(b"user.x".to_vec(), vec![0, 255, 10])],
    };
    let item = |how| {
        let copy = Kept { name: "0".to_owned(), sha256: Some("ab".repeat(32)), how };
        Item {
            path: PathBuf::from("/h/s.jsonl"),
            was: Was::There { copy, before },
            after: Some(after),
        }
    };
    let new =
        Item { path: PathBuf::from("/h/ü\u{1b}.jsonl"), was: Was::Nothing, after: Some(after) };
    Body {
        name: "1-strip-s".to_owned(),
        time: 1,
        what: "strip".to_owned(),
        session: "s".to_owned(),
        made: Some("n".to_owned()),
        items: vec![item(How::Link { taken: 3 }), item(How::copy(&attributes)), new],
    }
}

/// As the first version wrote it.
const FIRST: &str = r#"{
  "v": 1, "time": 1, "what": "strip", "session": "s",
  "items": [{
    "path": "/h/s.jsonl",
    "was": { "there": { "copy": "/j/1-strip-s/0", "before": { "size": 12, "modified": 5 } } },
    "after": { "size": 5, "modified": 6 }
  }]
}"#;

#[test]
fn an_entry_is_read_as_it_was_written() {
    let bytes = body().to_json().unwrap();
    assert_eq!(Body::parse(&bytes, "1-strip-s"), Ok((body(), State::Sealed)));
    let (first, state) = Body::parse(FIRST.as_bytes(), "1-strip-s").unwrap();
    assert_eq!((state, first.items.len()), (State::Unsealed, 1));
    let Was::There { copy, .. } = &first.items[0].was else { panic!("it was there") };
    assert_eq!((copy.name.as_str(), &copy.how), ("0", &How::Plain));
}

#[test]
fn what_is_wrong_with_an_entry_is_said() {
    let whole = String::from_utf8(body().to_json().unwrap()).unwrap();
    let up = whole.replace(r#""name":"0""#, r#""name":"../0""#);
    let entry = &up[up.find(r#""entry":"#).unwrap() + 8..up.len() - 1];
    let resealed = format!(
        r#"{{"v":2,"sha256":"{}","entry":{entry}}}"#,
        format_args!("{:x}", Sha256::digest(entry))
    );
    for (text, name, why) in [
        (whole.replace("strip", "strop"), "1-strop-s", "SHA-256"),
        (whole.clone(), "2-strip-s", "belongs to the change `1-strip-s`"),
        (whole.replace(r#"{"v":2"#, r#"{"v":3"#), "1-strip-s", "version 3"),
        (whole.replace(r#"{"v":2"#, r#"{"v":1"#), "1-strip-s", "not an entry"),
        (whole[..whole.len() / 2].to_owned(), "1-strip-s", "not an entry"),
        (String::new(), "1-strip-s", "empty"),
        // A copy is in the folder, whatever an entry says.
        (resealed, "1-strip-s", "which files"),
        (FIRST.to_owned(), "2-strip-s", "belongs to"),
    ] {
        let error = Body::parse(text.as_bytes(), name).unwrap_err();
        assert!(error.contains(why), "{error} instead of {why}: {text}");
    }
}

/// Arbitrary bytes and mutated entries: nothing panics or hangs, and whatever is taken for whole is
/// what was written.
#[test]
fn damaged_entries_are_never_taken_for_whole() {
    let whole = body().to_json().unwrap();
    let intent = br#"{"temps":["/h/.quipu-1-0.tmp"],"folders":["/h/n"]}"#.to_vec();
    let seeds = [whole, FIRST.as_bytes().to_vec(), intent];
    testkit::mutate::run(&seeds, 100_000, |bytes| {
        let _ = Intent::parse(bytes);
        if let Ok((found, State::Sealed)) = Body::parse(bytes, "1-strip-s") {
            assert_eq!(found, body());
        }
    });
}

#[test]
fn names_of_folders_say_what_entries_cannot() {
    let read = |name: &str| {
        let entry = Entry::damaged(&Path::new("/j").join(name), "gone".to_owned());
        (entry.time, entry.what, entry.session)
    };
    let is = |time, what: &str, session: &str| (time, what.to_owned(), session.to_owned());
    assert_eq!(read("17-strip-5eed0001"), is(17, "strip", "5eed0001"));
    assert_eq!(read("17-strip-5eed0001-2"), is(17, "strip", "5eed0001"));
    assert_eq!(read("17-hook-install-settings"), is(17, "hook-install", "settings"));
    assert_eq!(time_of("notes"), None);
    assert_eq!(time_of("x-y"), None);
}
