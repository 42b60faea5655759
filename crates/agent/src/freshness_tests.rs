use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use super::*;

#[test]
fn what_a_file_holds_counts_and_its_times_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    let put = |text: &str, age: u64| {
        fs::write(&path, text).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(age);
        File::options().append(true).open(&path).unwrap().set_modified(time).unwrap();
    };
    let seen = Freshness::default();
    put("one", 1_000);
    assert_eq!(seen.state(&path), State::Unread);
    seen.note(&path, Print::of(b"one"));
    assert_eq!(seen.state(&path), State::Known);
    // The same length and the same time, or an older one: as `cp -p` leaves it.
    for age in [1_000, 10] {
        put("two", age);
        assert_eq!(seen.state(&path), State::Changed);
    }
    put("one", 5_000);
    assert_eq!(seen.state(&path), State::Known);
    fs::remove_file(&path).unwrap();
    assert_eq!(seen.state(&path), State::Changed);
}

#[test]
fn after_a_resume_the_text_counts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    let seen = Freshness::default();
    seen.restore(&path, Print::of_text("a\nb\n"));
    for (bytes, state) in [
        (&b"a\nb\n"[..], State::Known),
        (b"\xef\xbb\xbfa\r\nb\r\n", State::Known),
        (b"a\nb", State::Changed),
        (b"a\nb\n\xff", State::Changed),
    ] {
        fs::write(&path, bytes).unwrap();
        assert_eq!(seen.state(&path), state, "{bytes:?}");
    }
}
