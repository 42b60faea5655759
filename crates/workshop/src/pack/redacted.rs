//! A copy of a file without secrets: the one place where packs remove them.
//!
//! Invariants: transcripts stay JSON, line by line; signed thinking that contained a secret is
//! dropped, because it cannot be changed; records that keep copies and hashes of messages
//! (`api-request-*`) are dropped; a file that is not text and seems to contain a secret is not
//! copied at all.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};

use transcript::conversation::place::Thing;
use transcript::format::content::BlockKind;
use transcript::format::entry::{Entry, Kind};
use transcript::format::file::{Body, From, Line, Lines};
use transcript::format::json::Json;
use transcript::format::secret::{JsonMask, Mask, Redactor};
use transcript::format::threads;

/// How much of a file is searched at a time.
const PIECE: usize = 4 << 20;

/// How many secrets were removed, by kind.
pub(super) type Hidden = BTreeMap<String, u64>;

/// Writes a file without its secrets. `None` if it cannot be written without them.
pub(super) fn redacted_copy(
    thing: Thing,
    file: &File,
    redactor: &Redactor,
    out: &mut dyn Write,
) -> io::Result<Option<Hidden>> {
    match thing {
        Thing::Transcript | Thing::Agent => lines(file, redactor, out).map(Some),
        Thing::AgentMeta | Thing::Todos => {
            let mut mask = Mask::new(redactor);
            let mut json = JsonMask::new(&mut mask, out);
            io::copy(&mut &*file, &mut json)?;
            json.finish().map_err(transcript::Error::into_io)?;
            Ok(Some(mask.hidden().clone()))
        }
        _ => text(file, redactor, out),
    }
}

/// Redacts a transcript: the pieces of it on all cores.
fn lines(file: &File, redactor: &Redactor, out: &mut dyn Write) -> io::Result<Hidden> {
    let mut hidden = Hidden::new();
    let mut source = Lines::new(From::new(file, 0));
    let mut is_end = false;
    while !is_end {
        // As many pieces as can be worked on at once.
        let mut pieces: Vec<Vec<u8>> = Vec::new();
        let mut long = None;
        while pieces.len() < threads::count() * 2 && long.is_none() {
            let mut piece = Vec::new();
            while piece.len() < PIECE {
                let Some(line) = source.next_line().map_err(transcript::Error::into_io)? else {
                    is_end = true;
                    break;
                };
                match line.body {
                    Body::Held(bytes) => {
                        piece.extend_from_slice(bytes);
                        piece.extend_from_slice(if line.ended { b"\n" } else { b"" });
                    }
                    Body::Condensed(_) => {
                        long = Some((line.offset, line.len, line.ended, is_request(&line)));
                        break;
                    }
                }
            }
            pieces.push(piece);
            if is_end {
                break;
            }
        }
        let work = |at: usize| redact_lines(&pieces[at], redactor);
        threads::in_order(pieces.len(), threads::count(), work, |_, (bytes, found)| {
            add(&mut hidden, &found);
            out.write_all(&bytes)
        })?;
        if let Some((offset, len, ended, false)) = long {
            let mut mask = Mask::new(redactor);
            let mut json = JsonMask::new(&mut mask, &mut *out);
            io::copy(&mut From::new(file, offset).take(len), &mut json)?;
            json.finish().map_err(transcript::Error::into_io)?;
            add(&mut hidden, mask.hidden());
            out.write_all(if ended { b"\n" } else { b"" })?;
        }
    }
    Ok(hidden)
}

fn add(hidden: &mut Hidden, found: &Hidden) {
    for (kind, count) in found {
        *hidden.entry(kind.clone()).or_default() += count;
    }
}

fn is_request(line: &Line<'_>) -> bool {
    line.records().filter_map(|record| record.entry).any(|entry| is_copy(entry.kind()))
}

fn is_copy(kind: Kind) -> bool {
    matches!(kind, Kind::ApiRequest | Kind::ApiRequestShape | Kind::ApiRequestBlob)
}

fn redact_lines(bytes: &[u8], redactor: &Redactor) -> (Vec<u8>, Hidden) {
    let mut out = Vec::with_capacity(bytes.len());
    let mut hidden = Hidden::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let is_request = memchr::memmem::find(line, b"\"api-request").is_some()
            && Entry::parse(line.trim_ascii()).is_some_and(|entry| is_copy(entry.kind()));
        if is_request {
            continue;
        }
        let mut mask = Mask::new(redactor);
        let begin = out.len();
        let mut json = JsonMask::new(&mut mask, &mut out);
        // Writing into memory does not fail.
        let _ = json.write_all(line).map(|()| json.finish());
        if mask.hidden().is_empty() {
            continue;
        }
        add(&mut hidden, mask.hidden());
        if let Some(without) =
            without_touched_thinking(line.trim_ascii(), out[begin..].trim_ascii())
        {
            let end: &[u8] = if line.ends_with(b"\n") { b"\n" } else { b"" };
            out.truncate(begin);
            out.extend_from_slice(&without);
            out.extend_from_slice(end);
        }
    }
    (out, hidden)
}

/// A redacted record without the thinking that is not as it was; `None` if there is none.
fn without_touched_thinking(old: &[u8], new: &[u8]) -> Option<Vec<u8>> {
    let blocks = |bytes: &[u8]| -> Option<Vec<(Vec<u8>, bool)>> {
        let entry = Entry::parse(bytes)?;
        let signed = |kind| matches!(kind, BlockKind::Thinking | BlockKind::RedactedThinking);
        let blocks = entry.message()?.blocks();
        Some(blocks.map(|block| (block.json().raw().to_vec(), signed(block.kind()))).collect())
    };
    let (before, after) = (blocks(old)?, blocks(new)?);
    let is_touched = |at: usize| after[at].1 && before.get(at) != Some(&after[at]);
    let touched: Vec<bool> = (0..after.len()).map(is_touched).collect();
    if !touched.contains(&true) {
        return None;
    }
    let kept = after.iter().zip(&touched).filter(|(_, touched)| !**touched);
    let mut kept: Vec<Vec<u8>> = kept.map(|((bytes, _), _)| bytes.clone()).collect();
    if kept.is_empty() {
        kept.push(br#"{"type":"text","text":"[redacted thinking]"}"#.to_vec());
    }
    let content = [b"[".as_slice(), &kept.join(&b','), b"]"].concat();
    let record = Json::parse(new)?.object()?;
    let message = record.get("message")?.object()?.with("content", &content);
    Some(record.with("message", &message))
}

/// Redacts a file of text in pieces that end with lines.
fn text(file: &File, redactor: &Redactor, out: &mut dyn Write) -> io::Result<Option<Hidden>> {
    let mut hidden = Hidden::new();
    let (mut source, mut bytes) = (file, Vec::new());
    loop {
        let before = bytes.len();
        Read::take(&mut source, PIECE as u64).read_to_end(&mut bytes)?;
        let is_end = bytes.len() == before;
        let newline = memchr::memrchr(b'\n', &bytes).map_or(0, |at| at + 1);
        // A line without an end is searched as a whole, up to a limit.
        let cut = match newline {
            _ if is_end => bytes.len(),
            0 if bytes.len() > 16 * PIECE => return Ok(None),
            cut => cut,
        };
        let mut mask = Mask::new(redactor);
        match std::str::from_utf8(&bytes[..cut]) {
            Ok(text) => out.write_all(mask.text(text).as_bytes())?,
            Err(_) if redactor.find(&String::from_utf8_lossy(&bytes[..cut])).is_empty() => {
                out.write_all(&bytes[..cut])?;
            }
            Err(_) => return Ok(None),
        }
        add(&mut hidden, mask.hidden());
        bytes.drain(..cut);
        if is_end {
            return Ok(Some(hidden));
        }
    }
}
