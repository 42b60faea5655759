use std::io::Write as _;
use std::time::Instant;

use super::*;

#[test]
fn somebody_who_says_nothing_is_not_waited_for() {
    let (reader, mut writer) = io::pipe().unwrap();
    let begin = Instant::now();
    assert!(!is_ready(&reader, Duration::from_millis(50)).unwrap());
    assert!(begin.elapsed() >= Duration::from_millis(50));
    writer.write_all(b"x").unwrap();
    assert!(is_ready(&reader, Duration::from_secs(60)).unwrap());
    let (reader, writer) = io::pipe().unwrap();
    drop(writer);
    assert!(is_ready(&reader, Duration::from_secs(60)).unwrap(), "the end");
}
