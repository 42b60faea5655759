use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread;

use super::super::stream::{Limits, Step, Stream};
use super::*;

const START: &str = r#"data: {"type":"message_start","message":{"id":"m","content":[]}}"#;
const TEXT: &str =
    r#"data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
const CALL: &str = r#"data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"Write","input":{}}}"#;
const STOP: &str = r#"data: {"type":"content_block_stop","index":0}"#;

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(60);

/// Makes a request to a server that sends `first`, and then `again` again and again, with a pause
/// each time.
fn asked(first: &str, again: &str, pause: Duration, patience: Patience) -> (ApiError, usize) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let (first, again) = (first.to_owned(), again.to_owned());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap()).lines();
        lines.take_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty())).for_each(drop);
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        let mut sent = stream.write_all(format!("{head}{first}").as_bytes());
        while sent.is_ok() {
            thread::sleep(pause);
            sent = stream.write_all(again.as_bytes());
        }
    });
    let settings = Settings {
        base,
        key: Some("sk-test".to_owned()),
        token: None,
        headers: String::new(),
        betas: Vec::new(),
        idle: patience.idle,
        proxies: Vec::new(),
        certificates: None,
        agent: "test".to_owned(),
    };
    let http = Http { longest: patience.longest, ..Http::new(settings) };
    let mut stream = Stream::new(Limits::of(1_000));
    let (mut failure, mut heard) = (None, 0);
    let result = http.ask("{}".to_owned(), &mut |event| {
        let Heard::Event(event) = event else { return ControlFlow::Continue(()) };
        heard += event.len();
        match stream.event(event) {
            Some(Step::Failed(error)) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    });
    (result.err().or(failure).unwrap(), heard)
}

fn delta(member: &str, text: &str) -> String {
    let kind = if member == "text" { "text_delta" } else { "input_json_delta" };
    format!(
        "data: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"{kind}\",\"{member}\":\"{text}\"}}}}\n\n"
    )
}

#[test]
fn an_answer_without_an_end_is_given_up() {
    let long = "x".repeat(60_000);
    for (first, again) in [
        (format!("{START}\n\n{TEXT}\n\n"), delta("text", &long)),
        (format!("{START}\n\n{CALL}\n\n"), delta("partial_json", &long)),
        (format!("{START}\n\n"), format!("{TEXT}\n\n{}{STOP}\n\n", delta("text", "a"))),
    ] {
        let patience = Patience { idle: LONG, longest: LONG };
        let (error, heard) = asked(&first, &again, Duration::ZERO, patience);
        assert_eq!(error.why, Why::Endless, "{error}");
        assert!(heard < 40 << 20, "{heard}");
    }
}

#[test]
fn signs_of_life_are_no_answer() {
    for again in ["event: ping\ndata: {\"type\": \"ping\"}\n\n", ":", &delta("text", "")] {
        let first = format!("{START}\n\n{TEXT}\n\n");
        let patience = Patience { idle: Duration::from_millis(400), longest: LONG };
        let begin = Instant::now();
        let (error, _) = asked(&first, again, Duration::from_millis(50), patience);
        assert_eq!(error.why, Why::Idle, "{again}: {error}");
        assert!(begin.elapsed() < LONG / 4, "{again}");
    }
}

#[test]
fn an_answer_that_takes_longer_than_any_is_given_up() {
    let first = format!("{START}\n\n{TEXT}\n\n");
    let patience = Patience { idle: LONG, longest: Duration::from_secs(2) };
    let (error, _) = asked(&first, &delta("text", "a"), Duration::from_millis(100), patience);
    assert_eq!((error.why, error.to_string().contains("does not end")), (Why::Endless, true));
}
