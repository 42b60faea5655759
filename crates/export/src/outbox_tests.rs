use std::collections::BTreeMap;
use std::fs;

use opentelemetry_proto::tonic::trace::v1::Span;
use reqwest::header::HeaderMap;
use testkit::otlp::Receiver;

use super::*;
use crate::client::Target;
use crate::receipts::Update;

fn sender(url: &str) -> Sender {
    let target = Target {
        url: url.to_owned(),
        headers: HeaderMap::new(),
        is_packed: true,
        project: "project".to_owned(),
        tries: 0,
    };
    Sender::new(target, reqwest::blocking::Client::builder().no_proxy().build().unwrap())
}

/// A batch with one span, which completes one unit of a session.
fn batch(number: u8) -> Batch {
    let mut batch = Batch::default();
    let (trace_id, span_id) = (vec![number; 16], vec![number; 8]);
    batch.push("2.1.45", Span { trace_id, span_id, name: number.to_string(), ..Span::default() });
    let done = BTreeMap::from([(number.to_string(), "mark".to_owned())]);
    batch.note(Update { session: "s".to_owned(), done, position: None });
    batch
}

fn names(receiver: &Receiver) -> Vec<String> {
    receiver.spans().into_iter().map(|span| span.name).collect()
}

#[test]
fn what_is_damaged_is_neither_sent_nor_done() {
    let root = tempfile::tempdir().unwrap();
    let receiver_dir = ReceiverDir::at(root.path());
    for number in 1..=3 {
        receiver_dir.spool.add(&batch(number), "project").unwrap();
    }
    let second = &receiver_dir.spool.waiting()[1];
    let mut bytes = fs::read(second).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 4;
    fs::write(second, bytes).unwrap();
    fs::write(root.path().join("spool/.0000000004.batch.99"), "half").unwrap();
    let receiver = Receiver::start().unwrap();
    let sender = sender(&receiver.url());
    let mut outbox = Outbox::new(&sender, &receiver_dir, WhenDown::Stop);
    outbox.drain(Refused::TryAgain).unwrap();
    assert_eq!(names(&receiver), ["1", "3"]);
    assert_eq!((outbox.tally.spans, outbox.tally.waited), (2, 2));
    let notes = &outbox.tally.notes;
    assert!(notes[0].contains("is corrupt and was not sent"), "{notes:?}");
    let state = receiver_dir.states.load("s");
    assert_eq!(state.done.keys().collect::<Vec<_>>(), ["1", "3"]);
    assert_eq!((receiver_dir.spool.waiting().len(), receiver_dir.spool.damaged().len()), (0, 1));
    assert_eq!(fs::read_dir(root.path().join("spool")).unwrap().count(), 0, "half a file is left");
}

#[test]
fn nothing_overtakes_what_waits() {
    let root = tempfile::tempdir().unwrap();
    let receiver_dir = ReceiverDir::at(root.path());
    let receiver = Receiver::start().unwrap();
    let (port, sender) = (receiver.port(), sender(&receiver.url()));
    receiver.stop();
    let mut outbox = Outbox::new(&sender, &receiver_dir, WhenDown::Keep);
    outbox.deliver(batch(1)).unwrap();
    assert!(matches!(outbox.down, Some(Stop::Down(_))), "{:?}", outbox.down);
    let limits = testkit::otlp::Limits::default();
    let receiver = Receiver::at(port, testkit::otlp::Keep::Spans, limits, Vec::new()).unwrap();
    // If one batch could not be delivered, later ones are not tried.
    outbox.deliver(batch(2)).unwrap();
    assert_eq!((outbox.tally.kept, names(&receiver).len()), (2, 0));
    assert!(receiver_dir.states.load("s").done.is_empty());
    let mut outbox = Outbox::new(&sender, &receiver_dir, WhenDown::Keep);
    outbox.drain(Refused::Leave).unwrap();
    outbox.deliver(batch(3)).unwrap();
    assert_eq!(names(&receiver), ["1", "2", "3"]);
    assert_eq!(receiver_dir.states.load("s").done.len(), 3);
}

#[test]
fn one_ships_at_a_time_and_the_other_is_told_who() {
    let root = tempfile::tempdir().unwrap();
    let receiver_dir = ReceiverDir::at(&root.path().join("receiver_dir"));
    let Lock::Held(first) = receiver_dir.lock("process 1", Duration::ZERO).unwrap() else {
        panic!("nobody else has it")
    };
    let second = receiver_dir.lock("process 2", Duration::from_millis(50)).unwrap();
    assert!(matches!(&second, Lock::Busy(who) if who == "process 1"), "{second:?}");
    drop(first);
    assert!(matches!(receiver_dir.lock("process 2", Duration::ZERO).unwrap(), Lock::Held(_)));
}
