use opentelemetry_proto::tonic::trace::v1::Span;
use testkit::otlp::{Fault, Limits, Receiver};

use super::*;

fn sender(receiver: &Receiver) -> Sender {
    let target = Target {
        url: receiver.url(),
        headers: HeaderMap::new(),
        is_packed: true,
        project: "project".to_owned(),
        tries: 0,
    };
    Sender::new(target, Client::builder().no_proxy().build().unwrap())
}

fn batch(names: &[&str]) -> Batch {
    let mut batch = Batch::default();
    for (name, number) in names.iter().zip(1_u8..) {
        let (trace_id, span_id) = (vec![number; 16], vec![number; 8]);
        let name = (*name).to_owned();
        batch.push("2.1.45", Span { trace_id, span_id, name, ..Span::default() });
    }
    let done = [("unit".to_owned(), "mark".to_owned())].into();
    batch.note(Update { session: "s".to_owned(), done, position: None });
    batch
}

#[test]
fn the_span_that_is_refused_is_found() {
    let bad = |span: &testkit::otlp::proto::Span| span.name == "bad";
    let limits = Limits { bad: Some(bad), ..Limits::default() };
    let receiver = Receiver::with(limits, Vec::new()).unwrap();
    let mut all = batch(&["a", "b", "bad", "c", "d"]);
    let sent = sender(&receiver).send(&mut all).unwrap();
    assert_eq!(receiver.count().spans, 4);
    assert_eq!(sent.refused.len(), 1);
    // The updates count as done only when the last of the spans has arrived.
    assert_eq!((all.updates.len(), sent.refused.updates.len()), (0, 1));
    assert!(sent.why.unwrap().contains("`bad`"));
}

#[test]
fn what_did_not_arrive_comes_back() {
    let receiver = Receiver::with(Limits::default(), vec![Fault::Cut]).unwrap();
    let mut all = batch(&["a", "b"]);
    let stop = sender(&receiver).send(&mut all).unwrap_err();
    assert!(matches!(stop, Stop::Down(_)), "{stop}");
    assert_eq!(all, batch(&["a", "b"]));
}

#[test]
fn an_answer_is_told_in_short_and_harmless_words() {
    let text = describe(500, format!("\u{1b}[31m  a\n\n b {}", "x".repeat(9_000)).as_bytes());
    assert!(text.starts_with("500 [31m a b xxx") && text.chars().count() < 210, "{text}");
    assert_eq!(describe(503, b""), "503");
}

#[test]
fn waiting_grows_and_has_an_end() {
    let waits: Vec<Duration> = (1..40).map(|failures| backoff(failures, 0.0)).collect();
    assert!(waits.is_sorted() && waits[0] == Duration::from_millis(500));
    assert_eq!(waits[38], LONGEST);
    assert!(backoff(40, 1.0) <= LONGEST * 2);
}
