//! A stand-in for S3, on loopback, which fails on request.
//!
//! Holds objects in memory: whole ones, and uploads in parts. Signatures are not checked. One
//! thread for each connection, one request on each; they end with the process.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// Nothing.
    Good,
    /// Every third request is refused with this status.
    Refusing(u16),
    /// Every answer takes this long.
    Slow(Duration),
    /// Every third request that stores something is carried out, and its answer is lost.
    Forgetful,
    /// After this many requests, all are refused.
    Dying(usize),
    /// It lists all objects, whatever it is asked for.
    Lying,
}

/// A running server.
#[derive(Debug)]
pub struct S3 {
    port: u16,
    state: Arc<Mutex<Held>>,
}

#[derive(Debug)]
struct Held {
    mood: Mood,
    objects: BTreeMap<String, Vec<u8>>,
    uploads: BTreeMap<String, BTreeMap<u32, Vec<u8>>>,
    begun: usize,
    served: usize,
    stored: usize,
    keeps_versions: bool,
    /// The objects that were stored since it keeps versions.
    numbered: BTreeSet<String>,
}

/// A request, as far as it matters.
struct S3Request {
    method: String,
    path: String,
    query: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl S3 {
    /// Starts a server with an empty bucket.
    pub fn start() -> io::Result<S3> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let state = Arc::new(Mutex::new(Held {
            mood: Mood::Good,
            objects: BTreeMap::new(),
            uploads: BTreeMap::new(),
            begun: 0,
            served: 0,
            stored: 0,
            keeps_versions: false,
            numbered: BTreeSet::new(),
        }));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                thread::spawn(move || serve(connection, &state));
            }
        });
        Ok(S3 { port, state })
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Lets something go wrong from now on.
    pub fn set_mood(&self, mood: Mood) {
        let mut state = lock(&self.state);
        (state.mood, state.served, state.stored) = (mood, 0, 0);
    }

    /// Keeps old versions from now on, and says so, as S3 does: what is there already has the
    /// version `null`, and a deletion only marks.
    pub fn keep_versions(&self) {
        lock(&self.state).keeps_versions = true;
    }

    /// All objects: `BUCKET/KEY` and their bytes.
    pub fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        lock(&self.state).objects.clone()
    }

    /// Removes all objects, and what was begun.
    pub fn clear(&self) {
        let mut state = lock(&self.state);
        state.objects.clear();
        state.uploads.clear();
    }

    /// How many parts it has of uploads that were not completed.
    pub fn parts(&self) -> usize {
        lock(&self.state).uploads.values().map(BTreeMap::len).sum()
    }

    /// How many requests it got since its mood was set.
    pub fn served(&self) -> usize {
        lock(&self.state).served
    }
}

fn lock(state: &Mutex<Held>) -> MutexGuard<'_, Held> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(mut connection: TcpStream, state: &Mutex<Held>) {
    let Ok(Some(request)) = read(&connection) else { return };
    let (mood, number) = {
        let mut state = lock(state);
        state.served += 1;
        (state.mood, state.served)
    };
    let refusal = match mood {
        Mood::Refusing(status) if number % 3 == 0 => Some(status),
        Mood::Dying(after) if number > after => Some(503),
        _ => None,
    };
    if let Some(status) = refusal {
        // What a server says is printed: it must not reach a terminal as it is.
        let body = "<Error><Code>SlowDown</Code><Message>\u{1b}[31mnot now\u{7}</Message></Error>";
        let _ = answer(&mut connection, status, "", body.as_bytes());
        return;
    }
    if let Mood::Slow(time) = mood {
        thread::sleep(time);
    }
    let is_change = request.method != "GET" && request.method != "HEAD";
    let (status, headers, body) = carry_out(&request, &mut lock(state));
    if is_change && mood == Mood::Forgetful {
        let mut state = lock(state);
        state.stored += 1;
        if state.stored.is_multiple_of(3) {
            return;
        }
    }
    if request.method == "HEAD" {
        // The length of what a `GET` would give.
        let head = head(status, &headers, body.len());
        let _ = connection.write_all(head.as_bytes());
        return;
    }
    let _ = answer(&mut connection, status, &headers, &body);
}

fn read(connection: &TcpStream) -> io::Result<Option<S3Request>> {
    let mut reader = BufReader::new(connection);
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let method = words.next().unwrap_or_default().to_owned();
    let target = words.next().unwrap_or_default().to_owned();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim_end().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let pair = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        (decoded(name), decoded(value))
    };
    let query = query.split('&').filter(|part| !part.is_empty()).map(pair).collect();
    let path = decoded(path.trim_start_matches('/'));
    Ok(Some(S3Request { method, path, query, body }))
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next().unwrap_or(b'0'), rest.next().unwrap_or(b'0')];
            let digits = String::from_utf8_lossy(&digits).into_owned();
            bytes.push(u8::from_str_radix(&digits, 16).unwrap_or(b'?'));
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

type Answer = (u16, String, Vec<u8>);

fn carry_out(request: &S3Request, state: &mut Held) -> Answer {
    let S3Request { method, path, query, body } = request;
    if state.keeps_versions && matches!(method.as_str(), "PUT" | "POST") {
        state.numbered.insert(path.clone());
    }
    let version = match (state.keeps_versions, state.numbered.contains(path)) {
        (true, true) => "x-amz-version-id: 3\r\n".to_owned(),
        (true, false) => "x-amz-version-id: null\r\n".to_owned(),
        (false, _) => String::new(),
    };
    let etag = format!("ETag: \"{:x}\"\r\n{version}", body.len());
    let upload = query.get("uploadId");
    match method.as_str() {
        "PUT" => {
            match (upload, query.get("partNumber").and_then(|number| number.parse().ok())) {
                (Some(upload), Some(number)) => match state.uploads.get_mut(upload) {
                    Some(parts) => {
                        parts.insert(number, body.clone());
                    }
                    None => return gone(),
                },
                _ => {
                    state.objects.insert(path.clone(), body.clone());
                }
            }
            (200, etag, Vec::new())
        }
        "POST" if query.contains_key("uploads") => {
            state.begun += 1;
            let id = format!("u{}", state.begun);
            state.uploads.insert(id.clone(), BTreeMap::new());
            let (bucket, key) = path.split_once('/').unwrap_or_default();
            let body = format!(
                "<InitiateMultipartUploadResult><Bucket>{bucket}</Bucket><Key>{key}</Key>\
                 <UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
            );
            (200, String::new(), body.into_bytes())
        }
        "POST" if query.contains_key("delete") => {
            let text = String::from_utf8_lossy(body).into_owned();
            let bucket = path.trim_end_matches('/');
            let mut body = String::from("<DeleteResult>");
            for key in text.split("<Key>").skip(1).filter_map(|part| part.split("</Key>").next()) {
                state.objects.remove(&format!("{bucket}/{key}"));
                let mark = if state.keeps_versions {
                    "<DeleteMarker>true</DeleteMarker><DeleteMarkerVersionId>4\
                     </DeleteMarkerVersionId>"
                } else {
                    ""
                };
                let _ = write!(body, "<Deleted><Key>{key}</Key>{mark}</Deleted>");
            }
            body.push_str("</DeleteResult>");
            (200, String::new(), body.into_bytes())
        }
        "POST" => match upload.and_then(|upload| state.uploads.remove(upload)) {
            Some(parts) => {
                let whole: Vec<u8> = parts.into_values().flatten().collect();
                state.objects.insert(path.clone(), whole);
                let body = "<CompleteMultipartUploadResult><ETag>x</ETag>\
                            </CompleteMultipartUploadResult>";
                (200, version, body.as_bytes().to_vec())
            }
            None => gone(),
        },
        "DELETE" => {
            match upload {
                Some(upload) => drop(state.uploads.remove(upload)),
                None => drop(state.objects.remove(path)),
            }
            (204, String::new(), Vec::new())
        }
        "GET" if query.contains_key("list-type") => list(path, query, state),
        _ => match state.objects.get(path) {
            Some(found) => {
                let more = "Last-Modified: Wed, 18 Nov 2026 08:00:00 GMT\r\n";
                let sum = found.iter().fold(found.len(), |sum, byte| {
                    sum.rotate_left(5).wrapping_add(usize::from(*byte))
                });
                (200, format!("ETag: \"{sum:x}\"\r\n{more}{version}"), found.clone())
            }
            None => (404, String::new(), b"<Error><Code>NoSuchKey</Code></Error>".to_vec()),
        },
    }
}

fn gone() -> Answer {
    (404, String::new(), b"<Error><Code>NoSuchUpload</Code></Error>".to_vec())
}

/// Lists at most so many objects at once, so that several requests are needed.
const PAGE: usize = 50;

fn list(bucket: &str, query: &BTreeMap<String, String>, state: &Held) -> Answer {
    let bucket = bucket.trim_end_matches('/');
    let asked = query.get("prefix").filter(|_| state.mood != Mood::Lying);
    let prefix = format!("{bucket}/{}", asked.map_or("", String::as_str));
    let start = query.get("start-after").map(|start| format!("{bucket}/{start}"));
    let after = query.get("continuation-token").cloned().or(start).unwrap_or_default();
    let all = state.objects.iter().filter(|(key, _)| key.starts_with(&prefix) && **key > after);
    if query.contains_key("delimiter") {
        let folder = |key: &str| Some(key[prefix.len()..].split_once('/')?.0.to_owned());
        let folders: BTreeSet<String> = all.filter_map(|(key, _)| folder(key)).collect();
        let prefix = &prefix[bucket.len() + 1..];
        let mut body = String::from("<ListBucketResult>");
        for folder in folders {
            let _ =
                write!(body, "<CommonPrefixes><Prefix>{prefix}{folder}/</Prefix></CommonPrefixes>");
        }
        body.push_str("</ListBucketResult>");
        return (200, String::new(), body.into_bytes());
    }
    let page: Vec<_> = all.take(PAGE + 1).collect();
    let mut body = String::from("<ListBucketResult>");
    for (key, bytes) in page.iter().take(PAGE) {
        let name = &key[bucket.len() + 1..];
        let _ = write!(
            body,
            "<Contents><Key>{name}</Key><Size>{}</Size>\
             <LastModified>2026-11-18T08:00:00.000Z</LastModified><ETag>x</ETag></Contents>",
            bytes.len()
        );
    }
    if page.len() > PAGE {
        let last = page[PAGE - 1].0;
        let _ = write!(
            body,
            "<IsTruncated>true</IsTruncated><NextContinuationToken>{last}</NextContinuationToken>"
        );
    }
    body.push_str("</ListBucketResult>");
    (200, String::new(), body.into_bytes())
}

fn head(status: u16, headers: &str, length: usize) -> String {
    format!("HTTP/1.1 {status} x\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n")
}

fn answer(connection: &mut TcpStream, status: u16, headers: &str, body: &[u8]) -> io::Result<()> {
    connection.write_all(head(status, headers, body.len()).as_bytes())?;
    connection.write_all(body)?;
    connection.flush()
}
