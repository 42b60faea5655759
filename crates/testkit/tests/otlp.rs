//! The receiver of traces, asked over plain sockets: what it stores, what it refuses, and how it
//! fails.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests may")]

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;
use serde_json::{Value, json};
use testkit::otlp::proto::{ExportTraceServiceRequest, ResourceSpans, ScopeSpans, Span};
use testkit::otlp::{Count, Fault, Keep, Limits, Receiver, Stored};

const PROTOBUF: &str = "content-type: application/x-protobuf\r\n";
const GZIP: &str = "content-type: application/x-protobuf\r\ncontent-encoding: gzip\r\n";

/// A request as `opentelemetry-proto` 0.33.1 writes it, with every member of a span set.
const FOREIGN: &str = "0adc020a1b0a170a0c736572766963652e6e616d6512070a057175697075100112b9020a180a06657870\
    6f72741203302e311a070a01731202180120011299020a100102030405060708090a0b0c0d0e0f101208212223242526272\
    81a03613d62220831323334353637382a047475726e30033901002a36fe9c97174102002a36fe9c97174a0c0a0474657874\
    12040a02c3a94a0b0a057472757468120210014a140a0577686f6c65120b18f9ffffffffffffffff014a110a04706172741\
    20921000000000000e03f4a100a046c69737412082a060a0218010a004a140a036d6170120d320b0a090a02696e12030a01\
    784a0d0a05627974657312043a0200ff4a060a046e6f6e6550015a170905000000000000001201651a070a016b120210002\
    00260036a1c0a10090909090909090909090909090909091208090909090909090970047a0c120869742062726f6b651802\
    8501010100001a01751a0176";

fn span(id: u8) -> Span {
    let name = format!("span {id}");
    Span { trace_id: vec![1; 16], span_id: vec![id; 8], name, ..Span::default() }
}

fn body(spans: Vec<Span>) -> Vec<u8> {
    let scope_spans = vec![ScopeSpans { scope: None, spans }];
    let resource_spans = vec![ResourceSpans { resource: None, scope_spans }];
    ExportTraceServiceRequest { resource_spans }.encode_to_vec()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A connection that may carry several requests.
struct Client(BufReader<TcpStream>);

impl Client {
    fn new(receiver: &Receiver) -> Self {
        Client(BufReader::new(TcpStream::connect(("127.0.0.1", receiver.port())).unwrap()))
    }

    fn post(&mut self, headers: &str, body: &[u8]) -> Option<(u16, String, String)> {
        let length = body.len();
        let head = format!("POST /v1/traces HTTP/1.1\r\n{headers}content-length: {length}\r\n\r\n");
        self.raw(&[head.as_bytes(), body].concat())
    }

    /// Sends this, and gives the status, the headers and the body of the answer; none if it is
    /// closed instead.
    fn raw(&mut self, request: &[u8]) -> Option<(u16, String, String)> {
        self.0.get_mut().write_all(request).unwrap();
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.0.read_line(&mut head).unwrap() == 0 {
                assert_eq!(head, "", "it broke off in the middle");
                return None;
            }
        }
        let (first, headers) = head.split_once("\r\n").unwrap();
        let status = first.split(' ').nth(1).unwrap().parse().unwrap();
        let length = headers.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.unwrap().parse().unwrap()];
        self.0.read_exact(&mut body).unwrap();
        Some((status, headers.to_owned(), String::from_utf8(body).unwrap()))
    }

    fn status(&mut self, headers: &str, body: &[u8]) -> Option<u16> {
        self.post(headers, body).map(|(status, ..)| status)
    }
}

fn names(receiver: &Receiver) -> Vec<String> {
    receiver.spans().into_iter().map(|span| span.name).collect()
}

fn statuses(receiver: &Receiver) -> Vec<Option<u16>> {
    receiver.requests().iter().map(|request| request.status).collect()
}

#[test]
fn what_another_encoder_wrote_is_read_whole() {
    let byte = |at| u8::from_str_radix(&FOREIGN[at..at + 2], 16).unwrap();
    let foreign: Vec<u8> = (0..FOREIGN.len()).step_by(2).map(byte).collect();
    let receiver = Receiver::start().unwrap();
    assert_eq!(Client::new(&receiver).status(PROTOBUF, &foreign), Some(200));
    let attributes = json!({
        "text": "é", "truth": true, "whole": -7, "part": 0.5, "list": [1, null], "map": {"in": "x"},
        "bytes": "00ff", "none": null,
    });
    let map = |value: Value| serde_json::from_value(value).unwrap();
    let stored = Stored {
        trace: "0102030405060708090a0b0c0d0e0f10".into(),
        id: "2122232425262728".into(),
        parent: Some("3132333435363738".into()),
        name: "turn".into(),
        kind: 3,
        start: 1_700_000_000_000_000_001,
        end: 1_700_000_000_000_000_002,
        status: 2,
        message: "it broke".into(),
        attributes: map(attributes),
        resource: map(json!({"service.name": "quipu"})),
        scope: ("export".into(), "0.1".into()),
    };
    assert_eq!(receiver.spans(), [stored]);
}

#[test]
fn plain_and_gzip_are_stored_on_one_connection() {
    let receiver = Receiver::start().unwrap();
    let mut client = Client::new(&receiver);
    let (status, headers, answer) = client.post(PROTOBUF, &body(vec![span(1)])).unwrap();
    assert_eq!((status, answer.as_str()), (200, ""));
    assert!(headers.contains("content-type: application/x-protobuf\r\n"), "{headers}");
    // Twice the same span: both are kept.
    let (plain, packed) = (body(vec![span(2), span(1)]), gzip(&body(vec![span(2), span(1)])));
    assert_eq!(client.status(GZIP, &packed), Some(200));
    assert_eq!(names(&receiver), ["span 1", "span 2", "span 1"]);
    assert_eq!(receiver.spans()[0].parent, None);

    let requests = receiver.requests();
    assert_eq!(requests.len(), 2);
    let request = &requests[1];
    assert_eq!((request.path.as_str(), request.status), ("/v1/traces", Some(200)));
    assert_eq!((request.wire, request.spans), (packed.len(), 2));
    assert_eq!(request.headers["content-encoding"], "gzip");

    let first = body(vec![span(1)]).len();
    let (wire, inflated) = ((first + packed.len()) as u64, (first + plain.len()) as u64);
    assert_eq!(receiver.count(), Count { spans: 3, distinct: 2, wire, inflated });
}

#[test]
fn chunks_are_put_together() {
    let receiver = Receiver::start().unwrap();
    let mut client = Client::new(&receiver);
    let body = body(vec![span(1), span(2)]);
    let mut request = format!(
        "POST /api/public/otel/v1/traces?x=1 HTTP/1.1\r\n{PROTOBUF}Transfer-Encoding: chunked\r\n\r\n"
    )
    .into_bytes();
    for chunk in body.chunks(7) {
        request.extend(format!("{:X};note\r\n", chunk.len()).into_bytes());
        request.extend([chunk, b"\r\n"].concat());
    }
    request.extend(b"0\r\ntrailer: x\r\n\r\n");
    assert_eq!(client.raw(&request).unwrap().0, 200);
    assert_eq!(receiver.requests()[0].wire, body.len());
    // What follows on the connection is not disturbed.
    assert_eq!(client.status(PROTOBUF, &self::body(vec![span(3)])), Some(200));
    assert_eq!(names(&receiver), ["span 1", "span 2", "span 3"]);
}

#[test]
fn each_fault_is_used_up_by_one_request() {
    let pause = Duration::from_millis(300);
    let headers = "retry-after: 1\r\n".to_owned();
    let faults = vec![
        Fault::Status(429, headers, "slow down".into()),
        Fault::Cut,
        Fault::Stored,
        Fault::Slow(pause),
    ];
    let receiver = Receiver::with(Limits::default(), faults).unwrap();

    let mut client = Client::new(&receiver);
    let (status, headers, answer) = client.post(PROTOBUF, &body(vec![span(1)])).unwrap();
    assert_eq!((status, answer.as_str()), (429, "slow down"));
    assert!(headers.contains("retry-after: 1\r\n"), "{headers}");
    assert_eq!(client.status(PROTOBUF, &body(vec![span(2)])), None);
    assert_eq!(names(&receiver), Vec::<String>::new());
    assert_eq!(receiver.count(), Count::default());

    let mut client = Client::new(&receiver);
    assert_eq!(client.status(PROTOBUF, &body(vec![span(3)])), None);
    assert_eq!(names(&receiver), ["span 3"]);

    let mut client = Client::new(&receiver);
    let start = Instant::now();
    assert_eq!(client.status(PROTOBUF, &body(vec![span(4)])), Some(200));
    assert!(start.elapsed() >= pause);
    assert_eq!(client.status(PROTOBUF, &body(vec![span(5)])), Some(200));
    assert_eq!(names(&receiver), ["span 3", "span 4", "span 5"]);
    assert_eq!(statuses(&receiver), [Some(429), None, None, Some(200), Some(200)]);
    assert!(receiver.requests().iter().all(|request| request.spans == 1));
}

#[test]
fn what_a_limit_forbids_is_refused_whole() {
    let limits = Limits {
        most_bytes: Some(200),
        bad: Some(|span| span.name == "span 9"),
        key: Some("Basic abc".into()),
    };
    let receiver = Receiver::with(limits, Vec::new()).unwrap();
    let mut client = Client::new(&receiver);
    let key = format!("{GZIP}Authorization: Basic abc\r\n");
    let one = gzip(&body(vec![span(1)]));
    assert_eq!(client.status(GZIP, &one), Some(401));
    assert_eq!(client.status(&format!("{GZIP}authorization: Basic abd\r\n"), &one), Some(401));
    assert_eq!(client.status(&key, &[0; 201]), Some(413));
    assert_eq!(client.status(&key, &gzip(&body(vec![span(1), span(9)]))), Some(400));
    assert_eq!(names(&receiver), Vec::<String>::new());
    // It is what is sent that counts, not what is in it.
    let many = body(vec![span(1); 50]);
    assert!(many.len() > 200);
    assert_eq!(client.status(&key, &gzip(&many)), Some(200));
    assert_eq!(receiver.count().distinct, 1);
    let spans: Vec<usize> = receiver.requests().iter().map(|request| request.spans).collect();
    assert_eq!(spans, [0, 0, 0, 2, 50]);
}

#[test]
fn what_no_receiver_takes_is_refused() {
    let receiver = Receiver::start().unwrap();
    let mut client = Client::new(&receiver);
    let good = body(vec![span(1)]);
    let json = "content-type: application/json\r\n";
    assert_eq!(client.status(json, b"{}"), Some(415));
    assert_eq!(client.status("", &good), Some(415));
    assert_eq!(client.status(&format!("{PROTOBUF}content-encoding: br\r\n"), &good), Some(415));
    assert_eq!(client.status(PROTOBUF, b"garbage"), Some(422));
    assert_eq!(client.status(PROTOBUF, &good[..good.len() - 1]), Some(422));
    assert_eq!(client.status(GZIP, &good), Some(422));
    let packed = gzip(&good);
    assert_eq!(client.status(GZIP, &packed[..packed.len() - 1]), Some(422));

    let malformed = [
        Span { trace_id: vec![1; 15], ..span(2) },
        Span { trace_id: vec![0; 16], ..span(2) },
        Span { trace_id: Vec::new(), ..span(2) },
        Span { span_id: vec![1; 9], ..span(2) },
        Span { span_id: vec![0; 8], ..span(2) },
        Span { parent_span_id: vec![1; 16], ..span(2) },
        Span { parent_span_id: vec![0; 8], ..span(2) },
    ];
    for bad in malformed {
        assert_eq!(client.status(PROTOBUF, &body(vec![span(1), bad])), Some(400));
    }
    let elsewhere = b"POST /v1/logs HTTP/1.1\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(client.raw(elsewhere).unwrap().0, 404);
    assert_eq!(receiver.requests().len(), 15);
    assert_eq!(receiver.count(), Count::default());

    let (status, _, answer) = client.raw(b"GET /health HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!((status, answer.as_str()), (200, "{}"));
    assert_eq!(client.raw(b"PUT /v1/traces HTTP/1.1\r\n\r\n").unwrap().0, 405);
    assert_eq!(receiver.requests().len(), 15, "only POSTs are noted");
    // Not HTTP: the connection ends, the receiver does not.
    assert_eq!(client.raw(b"\r\n"), None);
    assert_eq!(Client::new(&receiver).status(PROTOBUF, &good), Some(200));
}

#[test]
fn a_connection_ends_when_the_sender_says_so() {
    let receiver = Receiver::start().unwrap();
    let mut client = Client::new(&receiver);
    let headers = format!("{PROTOBUF}Connection: close\r\n");
    assert_eq!(client.status(&headers, &body(vec![span(1)])), Some(200));
    assert_eq!(client.0.read(&mut [0]).unwrap(), 0);
}

#[test]
fn one_that_was_stopped_refuses_until_there_is_another() {
    let receiver = Receiver::start().unwrap();
    let port = receiver.port();
    assert_eq!(receiver.url(), format!("http://127.0.0.1:{port}/v1/traces"));
    let mut client = Client::new(&receiver);
    assert_eq!(client.status(PROTOBUF, &body(vec![span(1)])), Some(200));
    receiver.stop();
    assert_eq!(client.0.read(&mut [0]).unwrap(), 0, "an open connection is closed");
    let refused = TcpStream::connect(("127.0.0.1", port)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);

    let receiver = Receiver::at(port, Keep::Spans, Limits::default(), Vec::new()).unwrap();
    assert_eq!(Client::new(&receiver).status(PROTOBUF, &body(vec![span(2)])), Some(200));
    assert_eq!(names(&receiver), ["span 2"]);
}

#[test]
fn counting_keeps_no_spans() {
    let receiver = Receiver::counting().unwrap();
    let mut client = Client::new(&receiver);
    let plain = body(vec![span(1), span(2), span(1)]);
    let packed = gzip(&plain);
    for _ in 0..2 {
        assert_eq!(client.status(GZIP, &packed), Some(200));
    }
    let (wire, inflated) = (2 * packed.len() as u64, 2 * plain.len() as u64);
    assert_eq!(receiver.count(), Count { spans: 6, distinct: 2, wire, inflated });
    assert_eq!(receiver.spans(), []);
    assert_eq!(receiver.requests().len(), 2);
}

#[test]
fn senders_at_the_same_time_lose_nothing() {
    let receiver = Receiver::start().unwrap();
    std::thread::scope(|scope| {
        for sender in 1..=8 {
            let receiver = &receiver;
            scope.spawn(move || {
                let mut client = Client::new(receiver);
                for number in 1..=20 {
                    let span = Span { trace_id: vec![sender; 16], ..span(number) };
                    assert_eq!(client.status(GZIP, &gzip(&body(vec![span]))), Some(200));
                }
            });
        }
    });
    let count = receiver.count();
    assert_eq!((count.spans, count.distinct, receiver.spans().len()), (160, 160, 160));
}
