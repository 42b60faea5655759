//! As much of HTTP/1.1 as a sender of traces needs: reads requests from a connection, one after the
//! other, and sends answers.
//!
//! A request is read to its end before it is handled, so that the next one begins where this one
//! ends. Bytes that are not HTTP, or longer than a limit, are an error, which ends the connection.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read, Write};

/// Longest line of a head. Keys and cookies are much shorter.
const LINE: u64 = 64 << 10;

/// Most lines of a head.
const LINES: usize = 256;

/// Longest body, as sent and inflated: the limit of Langfuse.
pub(super) const LONGEST: u64 = 512 << 20;

/// A request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    /// The headers by name, in lower case.
    pub(super) headers: BTreeMap<String, String>,
    /// The body as sent, without the framing of chunks.
    pub(super) body: Vec<u8>,
    /// No other request follows on this connection.
    pub(super) last: bool,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// The headers, as whole lines.
    pub(super) headers: String,
    pub(super) body: String,
}

impl Request {
    /// Reads the next request; `None` if the client sends no more.
    pub(super) fn read(reader: &mut impl BufRead) -> io::Result<Option<Self>> {
        if reader.fill_buf()?.is_empty() {
            return Ok(None);
        }
        let first = line(reader)?;
        let mut words = first.split_whitespace().map(str::to_owned);
        let (Some(method), Some(path), Some(version)) = (words.next(), words.next(), words.next())
        else {
            return Err(invalid("not a request"));
        };
        let headers = headers(reader)?;
        let is = |name, value| {
            headers.get(name).is_some_and(|found: &String| found.eq_ignore_ascii_case(value))
        };
        let body = if is("transfer-encoding", "chunked") {
            chunks(reader)?
        } else {
            let length = headers.get("content-length").map_or("0", String::as_str);
            let mut body = Vec::new();
            piece(reader, length.parse().map_err(|_| invalid("no length"))?, &mut body)?;
            body
        };
        let last = version != "HTTP/1.1" || is("connection", "close");
        Ok(Some(Request { method, path, headers, body, last }))
    }

    /// The value of a header, or an empty text.
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

impl Answer {
    /// Creates an answer with that content type.
    pub(super) fn new(status: u16, kind: &str, body: &str) -> Self {
        Answer { status, headers: format!("content-type: {kind}\r\n"), body: body.to_owned() }
    }

    /// Sends it in one piece, so that the rest does not wait until the other side has received the
    /// first part.
    pub(super) fn send(&self, mut connection: impl Write) -> io::Result<()> {
        let Answer { status, headers, body } = self;
        let word = if *status == 200 { "OK" } else { "No" };
        let length = body.len();
        let text =
            format!("HTTP/1.1 {status} {word}\r\n{headers}content-length: {length}\r\n\r\n{body}");
        connection.write_all(text.as_bytes())
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Reads a line, without its ending.
fn line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    reader.take(LINE).read_line(&mut line)?;
    if !line.ends_with('\n') {
        return Err(invalid("a line without an end"));
    }
    line.truncate(line.trim_end().len());
    Ok(line)
}

/// Reads the lines up to the empty one. Repeated headers are joined to the first, as HTTP defines
/// it.
fn headers(reader: &mut impl BufRead) -> io::Result<BTreeMap<String, String>> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for _ in 0..LINES {
        let line = line(reader)?;
        if line.is_empty() {
            return Ok(found);
        }
        let (name, value) = line.split_once(':').ok_or_else(|| invalid("not a header"))?;
        let known = found.entry(name.to_ascii_lowercase()).or_default();
        if !known.is_empty() {
            known.push_str(", ");
        }
        known.push_str(value.trim());
    }
    Err(invalid("too many headers"))
}

/// Reads a body in chunks, and the trailers after it.
fn chunks(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = line(reader)?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16).map_err(|_| invalid("not a chunk"))?;
        if size == 0 {
            headers(reader)?;
            return Ok(body);
        }
        piece(reader, size, &mut body)?;
        let mut end = [0; 2];
        reader.read_exact(&mut end)?;
        if end != *b"\r\n" {
            return Err(invalid("a chunk without an end"));
        }
    }
}

/// Reads that many bytes and adds them to a body.
fn piece(reader: &mut impl BufRead, length: u64, body: &mut Vec<u8>) -> io::Result<()> {
    if length > LONGEST.saturating_sub(body.len() as u64) {
        return Err(invalid("too long"));
    }
    // No memory is reserved before the bytes have arrived: the length is only a claim.
    let read = reader.take(length).read_to_end(body)?;
    if read as u64 == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}
