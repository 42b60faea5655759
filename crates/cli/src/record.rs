//! One record as JSON, for `cat` and `follow --json`.
//!
//! `{v, line, offset, len, state, kind, entry}`, and `fault` if something is wrong. The entry is
//! the record's own bytes, copied: numbers, key order and duplicate keys are those of the file.
//! Only bytes that are not UTF-8 are replaced by U+FFFD, because JSON cannot contain them. On a
//! terminal, characters that it would obey are escaped, which means the same in JSON.

use std::io::Write;
use std::path::Path;

use serde::Serialize;
use transcript::format::file::{Record, State, read_at};

use crate::failure::Failure;
use crate::out::JSON_VERSION;
use crate::out::{Form, Out, open_object};

#[derive(Serialize)]
struct Head<'a> {
    v: u32,
    line: Option<u64>,
    offset: u64,
    len: u64,
    state: &'static str,
    kind: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<Fault>,
}

#[derive(Serialize)]
struct Fault {
    offset: u64,
    why: String,
}

/// The record's kind in output and for `--kind`: its type as written, `bare` for JSON that is not
/// an object, `untyped` for an object without a type; `None` for damage.
pub(crate) fn kind(record: &Record<'_>) -> Option<String> {
    match (&record.entry, record.bare) {
        (Some(entry), _) => {
            Some(entry.type_name().map_or("untyped".to_owned(), std::borrow::Cow::into_owned))
        }
        (None, Some(_)) => Some("bare".to_owned()),
        (None, None) => None,
    }
}

/// Writes a record as one line. `path` is the file from which a condensed record is read in full.
pub(crate) fn write(record: &Record<'_>, path: &Path, out: &mut Out) -> Result<(), Failure> {
    let kind = kind(record);
    let head = Head {
        v: JSON_VERSION,
        line: record.line,
        offset: record.offset,
        len: record.len,
        state: record.state.name(),
        kind: kind.as_deref(),
        fault: record.fault.map(|(offset, why)| Fault { offset, why: why.to_string() }),
    };
    open_object(out, &head)?;
    out.write_all(b",\"entry\":")?;
    let mut verbatim = out.verbatim(Form::Text);
    match (&record.entry, record.bare) {
        (Some(_), _) if record.condensed => {
            copy(path, record.offset, record.len, &mut verbatim)?;
        }
        (Some(entry), _) => verbatim.write_all(entry.raw())?,
        (None, Some(json)) => verbatim.write_all(json.raw())?,
        (None, None) => verbatim.write_all(b"null")?,
    }
    verbatim.finish()?;
    Ok(out.write_all(b"}\n")?)
}

/// Copies bytes of a file, however many, and distinguishes errors of reading from errors of
/// writing.
pub(crate) fn copy(
    path: &Path,
    offset: u64,
    len: u64,
    out: &mut impl Write,
) -> Result<(), Failure> {
    const BLOCK: u64 = 1 << 20;
    let file = files::open(path).map_err(|error| Failure::unreadable(path, error))?;
    let mut done = 0;
    while done < len {
        let block = read_at(&file, offset + done, BLOCK.min(len - done));
        let block = block.map_err(|error| Failure::unreadable(path, error))?;
        out.write_all(&block)?;
        done += block.len() as u64;
    }
    Ok(())
}

/// What is wrong with a record, for people.
pub(crate) fn complaint(record: &Record<'_>) -> Option<String> {
    let line = record.line.map_or(String::new(), |line| format!("line {line}, "));
    let range = format!("bytes {}..{}", record.offset, record.offset + record.len);
    match (record.state, record.fault) {
        (State::Damaged, Some((_, why))) => Some(format!("{line}{range}: not a record: {why}")),
        (_, Some((at, why))) => Some(format!("{line}byte {at}: {why} in a record")),
        (State::Recovered, None) => {
            Some(format!("{line}{range}: a record that is not alone on its line"))
        }
        _ => None,
    }
}
