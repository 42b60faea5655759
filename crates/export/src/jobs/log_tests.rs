use std::time::UNIX_EPOCH;

use super::*;

/// Replacements may take more bytes than what they replace.
fn printable(text: &str) -> String {
    text.replace('\u{1b}', "␛").replace('\u{202e}', "\u{fffd}")
}

#[test]
fn it_is_bounded_whatever_is_written() {
    let root = tempfile::tempdir().unwrap();
    let log = Log::at(&root.path().join("ship"), printable);
    let path = log.path();
    for text in ["ä", "\u{1b}", "x", "\u{202e}"] {
        log.add(UNIX_EPOCH, &text.repeat(3 << 20)).unwrap();
    }
    let text = fs::read_to_string(path).unwrap();
    assert_eq!(text.lines().count(), 4);
    assert!(text.lines().all(|line| line.len() < LONGEST_LINE && line.ends_with('…')));
    for _ in 0..1_100 {
        log.add(UNIX_EPOCH, &"y".repeat(2_000)).unwrap();
    }
    let size = |path: &Path| fs::metadata(path).unwrap().len();
    assert!(size(path) <= MOST && size(&path.with_extension("old")) <= MOST);
    log.add(UNIX_EPOCH, "short").unwrap();
    assert!(fs::read_to_string(path).unwrap().ends_with("1970-01-01T00:00:00Z short\n"));
}
