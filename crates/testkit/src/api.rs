//! A stand-in for the Messages API, on loopback, with scripted answers.
//!
//! For testing the real client without a model: each request of the main conversation gets the next
//! scripted answer, whatever it asks; requests without tools (titles, probes) get a fixed one. The
//! body of every request of the main conversation is kept. One thread for each connection; they end
//! with the process.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// A running server.
#[derive(Debug)]
pub struct Server {
    port: u16,
    state: Arc<Mutex<State>>,
}

/// What the server does with a request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// It answers with these blocks.
    Blocks(Vec<Value>),
    /// The same, and it says that it read so many tokens from its cache.
    Full(Vec<Value>, u64),
    /// It answers with this status, these headers and this body.
    Status(u16, String, String),
    /// It closes the connection after that many events.
    Cut(Vec<Value>, usize),
    /// It sends that many events, then nothing for this long.
    Silent(Vec<Value>, usize, Duration),
}

#[derive(Debug)]
struct State {
    /// What a request must contain in its last message, and the replies to such requests.
    rules: Vec<(String, VecDeque<Reply>)>,
    answers: VecDeque<Reply>,
    requests: Vec<Value>,
    headers: Vec<String>,
    served: usize,
}

impl Server {
    /// Starts a server that gives these answers in turn; each is a list of content blocks.
    pub fn start(answers: Vec<Vec<Value>>) -> io::Result<Self> {
        Server::play(answers.into_iter().map(Reply::Blocks).collect())
    }

    /// Starts a server that gives these replies in turn.
    pub fn play(answers: Vec<Reply>) -> io::Result<Self> {
        Server::play_by(Vec::new(), answers)
    }

    /// The same. Requests whose last message contains one of these texts get the replies that
    /// belong to it first.
    pub fn play_by(rules: Vec<(String, Vec<Reply>)>, answers: Vec<Reply>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let state = State {
            rules: rules.into_iter().map(|(text, replies)| (text, replies.into())).collect(),
            answers: answers.into(),
            requests: Vec::new(),
            headers: Vec::new(),
            served: 0,
        };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                // A client that disconnects early is not an error here.
                thread::spawn(move || drop(serve(&connection, &state)));
            }
        });
        Ok(Server { port, state })
    }

    /// The URL it listens on.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The bodies of the requests of the main conversation so far.
    pub fn requests(&self) -> Vec<Value> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).requests.clone()
    }

    /// The headers of these requests, in lower case.
    pub fn headers(&self) -> Vec<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).headers.clone()
    }
}

/// Answers one request, and closes the connection.
fn serve(connection: &TcpStream, state: &Mutex<State>) -> io::Result<()> {
    let mut reader = BufReader::new(connection);
    let mut request = String::new();
    reader.read_line(&mut request)?;
    let (mut length, mut headers) = (0, String::new());
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let header = header.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        headers.push_str(&header);
        headers.push('\n');
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let path = request.split_whitespace().nth(1).unwrap_or_default();
    if !request.starts_with("POST") || !path.starts_with("/v1/messages") {
        return respond(connection, "application/json", b"{}");
    }
    if path.contains("count_tokens") {
        return respond(connection, "application/json", br#"{"input_tokens":100}"#);
    }
    let (reply, number) =
        state.lock().unwrap_or_else(PoisonError::into_inner).answer(&body, headers);
    let (blocks, cached) = match reply {
        Reply::Blocks(blocks) => (blocks, 0),
        Reply::Full(blocks, cached) => (blocks, cached),
        Reply::Status(status, headers, body) => return fail(connection, status, &headers, &body),
        Reply::Cut(blocks, after) => {
            let events = events((&blocks, 0), number, &body);
            return break_off(connection, &events, after, Duration::ZERO);
        }
        Reply::Silent(blocks, after, pause) => {
            return break_off(connection, &events((&blocks, 0), number, &body), after, pause);
        }
    };
    if body["stream"] == true {
        respond(
            connection,
            "text/event-stream",
            events((&blocks, cached), number, &body).as_bytes(),
        )
    } else {
        let message = message((&blocks, cached), number, &body, stop_reason(&blocks));
        respond(connection, "application/json", message.to_string().as_bytes())
    }
}

fn fail(mut connection: &TcpStream, status: u16, headers: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    let json = "content-type: application/json\r\n";
    let kind = if headers.contains("content-type:") { "" } else { json };
    write!(
        connection,
        "HTTP/1.1 {status} No\r\n{kind}request-id: req_failed\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )?;
    connection.flush()
}

/// Sends only the first events of a stream.
fn break_off(
    mut connection: &TcpStream,
    events: &str,
    after: usize,
    pause: Duration,
) -> io::Result<()> {
    let first_events: String = events.split_inclusive("\n\n").take(after).collect();
    write!(
        connection,
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nrequest-id: req_cut\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{first_events}",
        events.len()
    )?;
    connection.flush()?;
    thread::sleep(pause);
    Ok(())
}

impl State {
    fn answer(&mut self, body: &Value, headers: String) -> (Reply, usize) {
        self.served += 1;
        let stock = Reply::Blocks(vec![json!({"type": "text", "text": "OK"})]);
        let main = body["tools"].as_array().is_some_and(|tools| !tools.is_empty());
        if !main {
            return (stock, self.served);
        }
        self.requests.push(body.clone());
        self.headers.push(headers);
        let last = body["messages"].as_array().and_then(|all| all.last());
        let last = last.map(Value::to_string).unwrap_or_default();
        let rule =
            self.rules.iter_mut().find(|(text, left)| last.contains(text) && !left.is_empty());
        if let Some(reply) = rule.and_then(|(_, left)| left.pop_front()) {
            return (reply, self.served);
        }
        (self.answers.pop_front().unwrap_or(stock), self.served)
    }
}

fn respond(mut connection: &TcpStream, kind: &str, body: &[u8]) -> io::Result<()> {
    let length = body.len();
    write!(
        connection,
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nrequest-id: req_test\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    )?;
    connection.write_all(body)?;
    connection.flush()
}

fn stop_reason(blocks: &[Value]) -> &'static str {
    let calls = blocks.iter().any(|block| block["type"] == "tool_use");
    if calls { "tool_use" } else { "end_turn" }
}

fn message(
    (blocks, cached): (&[Value], u64),
    number: usize,
    body: &Value,
    stop: impl Into<Value>,
) -> Value {
    json!({
        "id": format!("msg_test{number:04}"), "type": "message", "role": "assistant",
        "model": body["model"], "content": blocks, "stop_reason": stop.into(), "stop_sequence": null,
        "usage": {"input_tokens": 10, "output_tokens": 20, "cache_creation_input_tokens": 0,
                  "cache_read_input_tokens": cached},
    })
}

/// An answer as the events of a stream, each block in one piece.
fn events((blocks, cached): (&[Value], u64), number: usize, body: &Value) -> String {
    let mut text = String::new();
    let mut event = |kind: &str, mut value: Value| {
        value["type"] = kind.into();
        // Cannot fail: the target is a string.
        let _ = write!(text, "event: {kind}\ndata: {value}\n\n");
    };
    event("message_start", json!({"message": message((&[], cached), number, body, Value::Null)}));
    for (index, block) in blocks.iter().enumerate() {
        let (start, deltas) = match block["type"].as_str() {
            Some("tool_use") => {
                let mut start = block.clone();
                start["input"] = json!({});
                let input = block["input"].to_string();
                (start, vec![json!({"type": "input_json_delta", "partial_json": input})])
            }
            Some("thinking") => {
                let start = json!({"type": "thinking", "thinking": "", "signature": ""});
                let thinking = json!({"type": "thinking_delta", "thinking": block["thinking"]});
                let signature = json!({"type": "signature_delta", "signature": block["signature"]});
                (start, vec![thinking, signature])
            }
            _ => {
                let start = json!({"type": "text", "text": ""});
                (start, vec![json!({"type": "text_delta", "text": block["text"]})])
            }
        };
        event("content_block_start", json!({"index": index, "content_block": start}));
        for delta in deltas {
            event("content_block_delta", json!({"index": index, "delta": delta}));
        }
        event("content_block_stop", json!({"index": index}));
    }
    let delta = json!({"stop_reason": stop_reason(blocks), "stop_sequence": null});
    event("message_delta", json!({"delta": delta, "usage": {"output_tokens": 20}}));
    event("message_stop", json!({}));
    text
}
