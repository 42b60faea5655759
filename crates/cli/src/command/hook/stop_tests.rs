use std::io::{PipeReader, Write as _};
use std::thread;

use super::*;

fn hear(input: &PipeReader) -> (Result<Vec<u8>, String>, Duration) {
    let begin = Instant::now();
    let words = listen(input, |wait| files::is_ready(input, wait), Duration::from_secs(2));
    (words, begin.elapsed())
}

#[test]
fn an_input_without_an_end_is_not_waited_for() {
    let open = |bytes: &[u8]| {
        let (input, mut theirs) = io::pipe().unwrap();
        theirs.write_all(bytes).unwrap();
        let outcome = hear(&input);
        drop(theirs);
        outcome
    };
    let (words, took) = open(b"{\"a\": \"}\"}\n");
    assert_eq!(words.unwrap(), b"{\"a\": \"}\"}\n");
    assert!(took < Duration::from_millis(1_500), "{took:?}");
    let (words, took) = open(b"{\"a\": \"}");
    assert_eq!(words.unwrap(), b"{\"a\": \"}");
    assert!(took >= Duration::from_secs(2), "{took:?}");
    let (words, _) = open(b"");
    assert!(words.unwrap_err().contains("nothing arrived"));
}

#[test]
fn the_end_is_enough() {
    let (input, theirs) = io::pipe().unwrap();
    drop(theirs);
    let (words, took) = hear(&input);
    assert_eq!((words.unwrap(), took < Duration::from_secs(1)), (Vec::new(), true));
}

#[test]
fn an_endless_input_is_refused() {
    let (input, mut theirs) = io::pipe().unwrap();
    let endless = thread::spawn(move || while theirs.write_all(&[b'x'; 4096]).is_ok() {});
    assert!(hear(&input).0.unwrap_err().contains("longer than"));
    drop(input);
    endless.join().unwrap();
}
