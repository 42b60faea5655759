//! A stand-in for a receiver of traces, OTLP over HTTP, on loopback, which fails on demand.
//!
//! For testing an exporter without a service. It is as strict as the strictest known receivers:
//! Phoenix refuses JSON and garbage, Langfuse refuses a whole request because of one malformed id.
//! A request is stored whole or not at all, and this is decided before the sender gets an answer.
//! Nothing is removed: what is sent twice is stored twice. One thread for each connection; all end
//! with the receiver.

mod http;
pub mod proto;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fmt::Write as _;
use std::io::{self, BufReader, Read};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use flate2::read::MultiGzDecoder;
use prost::Message;
use serde_json::Value;

use http::Answer;
use proto::{ExportTraceServiceRequest, KeyValue, Span};

const PROTOBUF: &str = "application/x-protobuf";

/// A running receiver.
#[derive(Debug)]
pub struct Receiver {
    port: u16,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the receiver does instead of storing a request and confirming it. Each request to store
/// spans uses up one fault, whatever the request contains.
#[derive(Clone, Debug)]
pub enum Fault {
    /// It answers with this status, these headers (whole lines) and this body. Nothing is stored.
    Status(u16, String, String),
    /// It closes the connection without an answer. Nothing is stored.
    Cut,
    /// It stores the request, and closes the connection without an answer: the sender cannot know.
    Stored,
    /// It stores the request, and answers only after this time.
    Slow(Duration),
}

/// What the receiver refuses, besides what every receiver refuses.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// A body with more bytes than this, as sent, gets 413.
    pub most_bytes: Option<usize>,
    /// A request with a span for which this returns true gets 400.
    pub bad: Option<fn(&Span) -> bool>,
    /// A request whose `authorization` is not this gets 401.
    pub key: Option<String>,
}

/// What is kept of the spans that are stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Keep {
    /// The spans themselves.
    Spans,
    /// Only their number, for more spans than fit into memory.
    Counts,
}

/// A POST request that arrived.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The path of the URL.
    pub path: String,
    /// The headers by name, in lower case.
    pub headers: BTreeMap<String, String>,
    /// The length of the body, as sent.
    pub wire: usize,
    /// The status of the answer; `None` if the connection was closed instead.
    pub status: Option<u16>,
    /// How many spans it had, stored or not; 0 if it could not be read.
    pub spans: usize,
}

/// A span that was stored. Ids are in hexadecimal digits.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    pub trace: String,
    pub id: String,
    pub parent: Option<String>,
    pub name: String,
    pub kind: i32,
    /// In nanoseconds since 1970, like `end`.
    pub start: u64,
    pub end: u64,
    pub status: i32,
    /// The message of the status.
    pub message: String,
    pub attributes: BTreeMap<String, Value>,
    pub resource: BTreeMap<String, Value>,
    /// The name and version of the scope.
    pub scope: (String, String),
}

/// How much was stored. Refused requests do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Count {
    /// Spans, including duplicates.
    pub spans: u64,
    /// Distinct pairs of trace id and span id.
    pub distinct: u64,
    /// Bytes of bodies as sent.
    pub wire: u64,
    /// Bytes of bodies as protobuf.
    pub inflated: u64,
}

/// The ids of a trace and of a span.
type Id = ([u8; 16], [u8; 8]);

#[derive(Debug)]
struct Shared {
    keep: Keep,
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    faults: VecDeque<Fault>,
    requests: Vec<Request>,
    spans: Vec<Stored>,
    ids: HashSet<Id>,
    count: Count,
    connections: Vec<Weak<TcpStream>>,
    stopped: bool,
}

/// A request that could be read.
struct Batch {
    message: ExportTraceServiceRequest,
    inflated: usize,
}

/// A status and the reason.
type Refusal = (u16, &'static str);

impl Receiver {
    /// Starts a receiver that stores what it gets.
    pub fn start() -> io::Result<Self> {
        Receiver::with(Limits::default(), Vec::new())
    }

    /// Starts a receiver that counts what it gets.
    pub fn counting() -> io::Result<Self> {
        Receiver::at(0, Keep::Counts, Limits::default(), Vec::new())
    }

    /// Starts a receiver with these limits, which first does these faults in turn.
    pub fn with(limits: Limits, faults: Vec<Fault>) -> io::Result<Self> {
        Receiver::at(0, Keep::Spans, limits, faults)
    }

    /// Starts a receiver on this port, so that a test can start one where there was none; 0 is any
    /// free port.
    pub fn at(port: u16, keep: Keep, limits: Limits, faults: Vec<Fault>) -> io::Result<Self> {
        let listener = listen_at(port)?;
        let port = listener.local_addr()?.port();
        let state = State {
            faults: faults.into(),
            requests: Vec::new(),
            spans: Vec::new(),
            ids: HashSet::new(),
            count: Count::default(),
            connections: Vec::new(),
            stopped: false,
        };
        let shared = Arc::new(Shared { keep, limits, state: Mutex::new(state) });
        let theirs = Arc::clone(&shared);
        let thread = thread::spawn(move || listen(&listener, &theirs));
        Ok(Receiver { port, shared, thread: Some(thread) })
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL to send traces to.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/v1/traces", self.port)
    }

    /// Every POST so far, in order.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.state().requests.clone()
    }

    /// The spans stored so far, in order, including duplicates. Empty if they are only counted.
    pub fn spans(&self) -> Vec<Stored> {
        self.shared.state().spans.clone()
    }

    /// How much was stored so far.
    pub fn count(&self) -> Count {
        let state = self.shared.state();
        Count { distinct: state.ids.len() as u64, ..state.count }
    }

    /// Ends it: its connections are closed, and new ones are refused from then on.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.shared.state().stopped = true;
        // The thread waits for a connection. This one wakes it up, so that it ends and the port
        // becomes free.
        if TcpStream::connect(("127.0.0.1", self.port)).is_ok()
            && let Some(thread) = self.thread.take()
        {
            drop(thread.join());
        }
        for connection in self.shared.state().connections.iter().filter_map(Weak::upgrade) {
            // It may have been closed in the meantime.
            drop(connection.shutdown(Shutdown::Both));
        }
    }
}

/// A port that was free a moment ago may be the near end of somebody's connection now: that passes.
fn listen_at(port: u16) -> io::Result<TcpListener> {
    let begun = Instant::now();
    loop {
        match TcpListener::bind(("127.0.0.1", port)) {
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse
                    && begun.elapsed() < Duration::from_secs(60) =>
            {
                thread::sleep(Duration::from_millis(50));
            }
            bound => return bound,
        }
    }
}

fn listen(listener: &TcpListener, shared: &Arc<Shared>) {
    for connection in listener.incoming().flatten() {
        let connection = Arc::new(connection);
        let mut state = shared.state();
        if state.stopped {
            return;
        }
        state.connections.retain(|known| known.strong_count() > 0);
        state.connections.push(Arc::downgrade(&connection));
        let shared = Arc::clone(shared);
        // A client that disconnects early is not an error here.
        thread::spawn(move || drop(serve(&connection, &shared)));
    }
}

/// Answers the requests of a connection, until one side ends it.
fn serve(connection: &TcpStream, shared: &Shared) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut reader = BufReader::new(connection);
    while let Some(request) = http::Request::read(&mut reader)? {
        let answer = match request.method.as_str() {
            "POST" => shared.take(&request),
            "GET" => Some(Answer::new(200, "application/json", "{}")),
            _ => Some(Answer::new(405, "text/plain", "only GET and POST")),
        };
        let Some(answer) = answer else { break };
        answer.send(connection)?;
        if request.last {
            break;
        }
    }
    Ok(())
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the contents of a request, unless it is refused or a fault is due. `None` closes the
    /// connection.
    fn take(&self, request: &http::Request) -> Option<Answer> {
        let path = request.path.split('?').next().unwrap_or_default();
        let traces = path.ends_with("/v1/traces");
        let fault = if traces { self.state().faults.pop_front() } else { None };
        let batch = if traces { self.read(request) } else { Err((404, "no such path")) };
        let spans = batch.as_ref().map_or(0, |batch| batch.spans().count());
        let checked = batch.and_then(|batch| Ok((self.check(&batch)?, batch)));
        let answer = match (&fault, &checked) {
            (Some(Fault::Cut | Fault::Stored), _) => None,
            (Some(Fault::Status(status, headers, body)), _) => {
                Some(Answer { status: *status, headers: headers.clone(), body: body.clone() })
            }
            (None | Some(Fault::Slow(_)), Ok(_)) => Some(Answer::new(200, PROTOBUF, "")),
            (None | Some(Fault::Slow(_)), Err((status, why))) => {
                Some(Answer::new(*status, "text/plain", why))
            }
        };
        let seen = Request {
            path: request.path.clone(),
            headers: request.headers.clone(),
            wire: request.body.len(),
            status: answer.as_ref().map(|answer| answer.status),
            spans,
        };
        match checked {
            Ok((ids, batch)) if !matches!(fault, Some(Fault::Cut | Fault::Status(..))) => {
                let inflated = batch.inflated as u64;
                // Prepared before the lock is taken, so that others need not wait.
                let stored = if self.keep == Keep::Spans { batch.stored() } else { Vec::new() };
                let mut state = self.state();
                state.count.spans += spans as u64;
                state.count.wire += seen.wire as u64;
                state.count.inflated += inflated;
                state.ids.extend(ids);
                state.spans.extend(stored);
                state.requests.push(seen);
            }
            Ok(_) | Err(_) => self.state().requests.push(seen),
        }
        if let Some(Fault::Slow(pause)) = fault {
            thread::sleep(pause);
        }
        answer
    }

    fn read(&self, request: &http::Request) -> Result<Batch, Refusal> {
        if self.limits.key.as_ref().is_some_and(|key| request.header("authorization") != key) {
            return Err((401, "another key is wanted"));
        }
        if self.limits.most_bytes.is_some_and(|most| request.body.len() > most) {
            return Err((413, "too many bytes"));
        }
        let kind = request.header("content-type").split(';').next().unwrap_or_default();
        if !kind.trim().eq_ignore_ascii_case(PROTOBUF) {
            return Err((415, "only protobuf is taken"));
        }
        let mut inflated = Vec::new();
        let body = match request.header("content-encoding") {
            "" | "identity" => &request.body,
            "gzip" => {
                let decoder = MultiGzDecoder::new(request.body.as_slice());
                let read = decoder.take(http::LONGEST + 1).read_to_end(&mut inflated);
                if read.map_err(|_| (422, "not gzip"))? as u64 > http::LONGEST {
                    return Err((413, "too many bytes when inflated"));
                }
                &inflated
            }
            _ => return Err((415, "only gzip is known")),
        };
        let message = ExportTraceServiceRequest::decode(body.as_slice());
        let message = message.map_err(|_| (422, "not a request to store traces"))?;
        Ok(Batch { message, inflated: body.len() })
    }

    /// The ids of the spans, if all spans are valid.
    fn check(&self, batch: &Batch) -> Result<Vec<Id>, Refusal> {
        let check = |span: &Span| {
            let parent = &span.parent_span_id;
            if !parent.is_empty() && id::<8>(parent).is_none() {
                return Err((400, "a span has a malformed parent"));
            }
            let ids = id(&span.trace_id).zip(id(&span.span_id));
            let ids = ids.ok_or((400, "a span has a malformed id"))?;
            if self.limits.bad.is_some_and(|bad| bad(span)) {
                return Err((400, "a span is bad"));
            }
            Ok(ids)
        };
        batch.spans().map(check).collect()
    }
}

/// An id, if it is valid: of the right length, and not all zero.
fn id<const LENGTH: usize>(bytes: &[u8]) -> Option<[u8; LENGTH]> {
    bytes.try_into().ok().filter(|id| *id != [0; LENGTH])
}

impl Batch {
    fn spans(&self) -> impl Iterator<Item = &Span> {
        let scopes = self.message.resource_spans.iter().flat_map(|of| &of.scope_spans);
        scopes.flat_map(|of| &of.spans)
    }

    /// The spans, each with its resource and scope.
    fn stored(self) -> Vec<Stored> {
        let mut stored = Vec::new();
        for of in self.message.resource_spans {
            let resource: BTreeMap<_, _> = named(of.resource.unwrap_or_default().attributes);
            for of in of.scope_spans {
                let scope = of.scope.unwrap_or_default();
                let scope = (scope.name, scope.version);
                for span in of.spans {
                    let status = span.status.unwrap_or_default();
                    let parent = &span.parent_span_id;
                    stored.push(Stored {
                        trace: hex(&span.trace_id),
                        id: hex(&span.span_id),
                        parent: (!parent.is_empty()).then(|| hex(parent)),
                        name: span.name,
                        kind: span.kind,
                        start: span.start_time_unix_nano,
                        end: span.end_time_unix_nano,
                        status: status.code,
                        message: status.message,
                        attributes: named(span.attributes),
                        resource: resource.clone(),
                        scope: scope.clone(),
                    });
                }
            }
        }
        stored
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        // Cannot fail: the target is a string.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn named<Map: FromIterator<(String, Value)>>(attributes: Vec<KeyValue>) -> Map {
    let value = |attribute: KeyValue| attribute.value.and_then(|any| any.value);
    attributes.into_iter().map(|mut it| (std::mem::take(&mut it.key), json(value(it)))).collect()
}

/// A value as JSON: a missing value is null, bytes are hexadecimal digits.
fn json(value: Option<proto::Value>) -> Value {
    match value {
        None => Value::Null,
        Some(proto::Value::StringValue(text)) => text.into(),
        Some(proto::Value::BoolValue(truth)) => truth.into(),
        Some(proto::Value::IntValue(number)) => number.into(),
        Some(proto::Value::DoubleValue(number)) => number.into(),
        Some(proto::Value::ArrayValue(list)) => {
            list.values.into_iter().map(|any| json(any.value)).collect()
        }
        Some(proto::Value::KvlistValue(list)) => Value::Object(named(list.values)),
        Some(proto::Value::BytesValue(bytes)) => hex(&bytes).into(),
    }
}
