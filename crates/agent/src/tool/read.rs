//! `Read`: shows a file to the model, as numbered lines, as a picture, or as a document.
//!
//! The first bytes of a file determine what it is, not its name (except for notebooks, which are
//! text). Invariants: only the part of a text that is shown is in memory; what is shown is bounded;
//! a file that was shown is recorded as seen, with a fingerprint of all of it.

mod media;
pub(super) mod notebook;
mod pages;

use std::fmt::Write as _;
use std::fs::{self};
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use serde::Serialize;
use similar::get_close_matches;

use super::write::unreadable;
use super::{Answer, Call, Site, Trouble, number, text};
use crate::freshness::Printed;

/// How many lines are shown by default.
const LINES: usize = 2_000;

/// The most characters of a line that are shown.
const WIDTH: usize = 2_000;

/// The largest file that is read without naming a part, in bytes.
const WHOLE: u64 = 256 << 10;

/// The most bytes that are shown: about 25,000 tokens.
pub(super) const MOST: usize = 100_000;

/// How many names in a folder are compared with a missing one.
const NAMES: usize = 1_000;

#[derive(Serialize)]
struct ReadDetail<T> {
    r#type: &'static str,
    file: T,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    file_path: &'a str,
    content: &'a str,
    num_lines: usize,
    start_line: usize,
    total_lines: usize,
}

pub(super) fn run(call: &Call, site: &Site) -> Result<Answer, Trouble> {
    let path = site.path(text(call, "file_path"));
    let found = fs::metadata(&path).map_err(|why| missing(&path, &why))?;
    if found.is_dir() {
        return Err(Trouble::failed(format!(
            "{} is a folder. List it with Bash (`ls`) or Glob.",
            path.display()
        )));
    }
    if !found.is_file() {
        return Err(Trouble::failed(format!("{} is not a regular file.", path.display())));
    }
    // Not where it leads now: where it led when it was permitted.
    let file = files::open_fixed(&site.pinned(call, &path)).map_err(|why| missing(&path, &why))?;
    let found = file.metadata().map_err(|why| unreadable(&path, &why))?;
    let mut file = BufReader::new(Printed::new(file));
    let head = file.fill_buf().map_err(|why| unreadable(&path, &why))?;
    let is_binary = head.contains(&0);
    let pages = text(call, "pages").trim();
    let answer = if let Some(kind) = media::kind(head) {
        media::read(kind, &path, &mut file, (found.len(), pages))?
    } else if !pages.is_empty() {
        return Err(Trouble::wrong(media::NO_PAGES));
    } else if path.extension().is_some_and(|ext| ext == "ipynb") && !is_binary {
        notebook::read(&path, &mut file, found.len())?
    } else if is_binary {
        return Err(Trouble::failed(format!("{} is a binary file.", path.display())));
    } else {
        lines(call, &path, &mut file, found.len())?
    };
    // The part that was not shown counts as known, too.
    io::copy(&mut file, &mut io::sink()).map_err(|why| unreadable(&path, &why))?;
    site.seen.note(&path, file.into_inner().print());
    Ok(answer)
}

/// Why there is nothing to read.
fn missing(path: &Path, why: &io::Error) -> Trouble {
    match why.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            let hint = alike(path).map(|name| format!(" Did you mean {name}?"));
            Trouble::failed(format!("File does not exist.{}", hint.unwrap_or_default()))
        }
        io::ErrorKind::PermissionDenied => {
            Trouble::failed(format!("No permission to read {}.", path.display()))
        }
        _ => unreadable(path, why),
    }
}

/// A file in the same folder with a name similar to a missing one.
fn alike(path: &Path) -> Option<String> {
    let (folder, name) = (path.parent()?, path.file_name()?.to_str()?);
    let names: Vec<String> = fs::read_dir(folder)
        .ok()?
        .take(NAMES)
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let best = get_close_matches(name, &names, 1, 0.7);
    Some(folder.join(best.first()?).to_string_lossy().into_owned())
}

/// Lines of a text file.
fn lines(call: &Call, path: &Path, mut file: impl BufRead, size: u64) -> Result<Answer, Trouble> {
    let offset = number(call, "offset");
    let limit = number(call, "limit").filter(|&limit| limit > 0);
    if size > WHOLE && offset.is_none() && limit.is_none() {
        return Err(Trouble::failed(format!(
            "File is too large to read whole ({} KB, at most {} KB). Use offset and limit to read a part, or Grep to search it.",
            size >> 10,
            WHOLE >> 10
        )));
    }
    // Not every file has a size: `/proc` reports 0 for everything.
    let is_empty = file.fill_buf().map_err(|why| unreadable(path, &why))?.is_empty();
    let start = offset.unwrap_or(1).max(1);
    let (lines, total) = cut(file, start, limit.unwrap_or(LINES))
        .map_err(|why| unreadable(path, &why))?
        .ok_or_else(|| too_long("Use offset and limit to read a smaller part, or Grep."))?;
    let output = if is_empty {
        reminder("The file is empty.")
    } else if lines.is_empty() {
        reminder(&format!("The file has only {total} lines."))
    } else {
        let shown = numbered(lines.iter().map(String::as_str), start);
        let last = start + lines.len() - 1;
        // A caller that asked for a part knows that it is one.
        if limit.is_none() && last < total {
            let hint =
                format!("These are lines {start} to {last} of {total}: use offset for more.");
            format!("{shown}\n\n{}", reminder(&hint))
        } else {
            shown
        }
    };
    let part = Part {
        file_path: &path.to_string_lossy(),
        content: &lines.join("\n"),
        num_lines: lines.len(),
        start_line: start,
        total_lines: total,
    };
    Ok(Answer::text(output, &ReadDetail { r#type: "text", file: part }))
}

fn reminder(text: &str) -> String {
    format!("<system-reminder>{text}</system-reminder>")
}

/// The error for more than can be shown.
fn too_long(hint: &str) -> Trouble {
    Trouble::failed(format!("That is more than {MOST} characters. {hint}"))
}

/// Some lines as they are shown, and how many the file has. None if they are too long together.
///
/// What follows the last newline counts as a line, even if it is empty.
fn cut(
    mut file: impl BufRead,
    start: usize,
    limit: usize,
) -> io::Result<Option<(Vec<String>, usize)>> {
    let end = start.saturating_add(limit);
    let mut shown = Vec::new();
    let mut held = 0;
    let mut line = Vec::new();
    let mut number = 1;
    loop {
        let piece = file.fill_buf()?;
        let newline = piece.iter().position(|&byte| byte == b'\n');
        let len = newline.unwrap_or(piece.len());
        let is_end = piece.is_empty();
        let is_shown = (start..end).contains(&number);
        if is_shown {
            // One more character than is shown indicates that there are more.
            let room = ((WIDTH + 1) * 4).saturating_sub(line.len());
            line.extend_from_slice(&piece[..len.min(room)]);
        }
        file.consume(len + usize::from(newline.is_some()));
        if newline.is_none() && !is_end {
            continue;
        }
        if is_shown {
            let text = shown_line(&line, number);
            held += text.len();
            if held > MOST {
                return Ok(None);
            }
            shown.push(text);
            line.clear();
        }
        if is_end {
            return Ok(Some((shown, number)));
        }
        number += 1;
    }
}

/// A line as it is shown.
fn shown_line(line: &[u8], number: usize) -> String {
    let text = String::from_utf8_lossy(line);
    let text = text.strip_suffix('\r').unwrap_or(&text);
    let text = if number == 1 { text.strip_prefix('\u{feff}').unwrap_or(text) } else { text };
    match text.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}… [line cut]", &text[..end]),
        None => text.to_owned(),
    }
}

/// Lines with their numbers.
pub(super) fn numbered<'a>(lines: impl Iterator<Item = &'a str>, start: usize) -> String {
    let mut out = String::new();
    for (number, line) in (start..).zip(lines) {
        let newline = if number == start { "" } else { "\n" };
        let _ = write!(out, "{newline}{number:>6}→{line}");
    }
    out
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
