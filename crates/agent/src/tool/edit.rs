//! `Edit`: replaces a text in a file.
//!
//! The text is searched for with `\n` as line end, whatever the file has. Invariants: bytes that
//! are not replaced stay (including line ends and a byte order mark); the new text gets the line
//! ends that most lines of the file have; a file that is not UTF-8 stays as it is.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use super::write::patch::{Hunk, hunks};
use super::write::{LARGEST, guard, previewed, save, unreadable};
use super::{Answer, Call, Site, Trouble, text};
use crate::host::Preview;

const MARK: &str = "\u{feff}";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EditDetail<'a> {
    file_path: &'a str,
    old_string: &'a str,
    new_string: &'a str,
    original_file: &'a str,
    structured_patch: Vec<Hunk>,
    user_modified: bool,
    replace_all: bool,
}

/// An edit that applies.
struct Applied {
    path: PathBuf,
    /// Where it led when the call was permitted.
    pinned: PathBuf,
    /// The file as it is; None if there is none.
    found: Option<String>,
    /// The same, without a byte order mark, and with `\n` as line end.
    was: Plain,
    new_string: String,
    replace_all: bool,
    /// The file as it will be, without a byte order mark.
    now: String,
}

impl Applied {
    fn of(call: &Call, site: &Site) -> Result<Applied, Trouble> {
        let path = site.path(text(call, "file_path"));
        let old_string = text(call, "old_string");
        let new_string = trimmed(text(call, "new_string"), old_string, &path);
        let replace_all =
            call.input.get("replace_all").and_then(Value::as_bool).unwrap_or_default();
        if old_string == new_string {
            return Err(Trouble::wrong(
                "No changes to make: old_string and new_string are exactly the same.",
            ));
        }
        if path.extension().is_some_and(|ext| ext == "ipynb") {
            return Err(Trouble::wrong("This is a notebook: use NotebookEdit."));
        }
        let pinned = site.pinned(call, &path);
        let found = match guard(&path, site)? {
            Some(found) if found.len() > LARGEST => {
                return Err(Trouble::failed("File is too large to edit (more than 32 MB)."));
            }
            Some(_) => {
                let bytes = files::read_fixed(&pinned, LARGEST);
                let found = String::from_utf8(bytes.map_err(|why| unreadable(&path, &why))?);
                let not_text = "File is not UTF-8 text: it cannot be edited.";
                Some(found.map_err(|_| Trouble::failed(not_text))?)
            }
            None if old_string.is_empty() => None,
            None => return Err(Trouble::wrong("File does not exist.")),
        };
        let content = found.as_deref().unwrap_or_default();
        let was = Plain::of(content.strip_prefix(MARK).unwrap_or(content));
        let at = places(&was.text, old_string, replace_all)?;
        let now = was.with(&at, &new_string);
        Ok(Applied { path, pinned, found, was, new_string, replace_all, now })
    }

    /// The file as it will be.
    fn after(&self) -> String {
        let is_marked = self.found.as_ref().is_some_and(|found| found.starts_with(MARK));
        format!("{}{}", if is_marked { MARK } else { "" }, self.now)
    }
}

/// What a call would do.
pub(super) fn preview(call: &Call, site: &Site) -> Result<Preview, Trouble> {
    let edit = Applied::of(call, site)?;
    let after = edit.after();
    Ok(previewed((&edit.path, &edit.pinned), edit.found, &after, site))
}

pub(super) fn run(call: &Call, site: &Site) -> Result<Answer, Trouble> {
    let edit = Applied::of(call, site)?;
    let (name, replace_all) = (edit.path.to_string_lossy(), edit.replace_all);
    save((&edit.path, &edit.pinned), edit.after().as_bytes(), site)?;
    let detail = EditDetail {
        file_path: &name,
        old_string: text(call, "old_string"),
        new_string: &edit.new_string,
        original_file: &edit.was.text,
        structured_patch: hunks(&edit.was.text, &edit.now.replace("\r\n", "\n")),
        user_modified: false,
        replace_all,
    };
    let message = if replace_all {
        format!("The file {name} has been updated. All occurrences were successfully replaced.")
    } else {
        format!("The file {name} has been updated successfully.")
    };
    Ok(Answer::text(message, &detail))
}

/// The new text: with `\n` as line end, and without white space before it, which has a meaning only
/// in Markdown.
///
/// The last line keeps its white space if that of the old text has some, too: then it may end
/// within a line.
fn trimmed(new: &str, old: &str, path: &Path) -> String {
    let new = new.replace("\r\n", "\n");
    let is_markdown = path
        .extension()
        .is_some_and(|ext| ext.eq_ignore_ascii_case("md") || ext.eq_ignore_ascii_case("mdx"));
    if is_markdown {
        return new;
    }
    let mut lines: Vec<&str> = new.split('\n').map(str::trim_end).collect();
    if let (true, Some(last)) = (old.ends_with([' ', '\t']), lines.last_mut()) {
        *last = new.rsplit('\n').next().unwrap_or_default();
    }
    lines.join("\n")
}

/// The positions of the old text. Models write straight quotes where a text has others: if the old
/// text is not found exactly, kinds of quotes are ignored.
fn places(within: &str, old: &str, replace_all: bool) -> Result<Vec<Range<usize>>, Trouble> {
    if old.is_empty() {
        let none = Trouble::wrong("old_string is empty, but the file is not.");
        return if within.is_empty() { Ok(vec![Range::default()]) } else { Err(none) };
    }
    let plain = old.replace("\r\n", "\n");
    let exact = within.match_indices(&plain).map(|(at, matched)| at..at + matched.len());
    let mut at: Vec<Range<usize>> = exact.collect();
    if at.is_empty() {
        at = alike(within, &plain);
    }
    match at.len() {
        0 => Err(Trouble::wrong(format!("String to replace not found in file.\nString: {old}"))),
        count if count > 1 && !replace_all => Err(Trouble::wrong(format!(
            "Found {count} matches of the string to replace, but replace_all is false. Set it to true, or give more of the text around the one that is meant.\nString: {old}"
        ))),
        _ => Ok(at),
    }
}

/// The positions of a text if all kinds of a quote count as the same.
fn alike(within: &str, old: &str) -> Vec<Range<usize>> {
    let straight = |c: char| match c {
        '‘' | '’' => '\'',
        '“' | '”' => '"',
        other => other,
    };
    let plain: String = within.chars().map(straight).collect();
    let old: String = old.chars().map(straight).collect();
    // Quotes that are not straight have more bytes: map the positions back to the original text.
    let mut places = within
        .char_indices()
        .zip(plain.char_indices())
        .map(|((at, _), (plain_at, _))| (plain_at, at));
    let ends = std::iter::once((plain.len(), within.len()));
    let places: HashMap<usize, usize> = places.by_ref().chain(ends).collect();
    let found = plain.match_indices(&old).map(|(at, matched)| at..at + matched.len());
    found.filter_map(|found| Some(*places.get(&found.start)?..*places.get(&found.end)?)).collect()
}

/// A text with `\n` as line end, and where it had `\r\n`.
struct Plain {
    text: String,
    /// The positions of line ends that were `\r\n`, in order.
    long: Vec<usize>,
}

impl Plain {
    fn of(text: &str) -> Plain {
        let mut long = Vec::new();
        let starts = text.match_indices("\r\n").enumerate();
        long.extend(starts.map(|(before, (at, _))| at - before));
        Plain { text: text.replace("\r\n", "\n"), long }
    }

    /// The original text, with other text at some positions.
    fn with(&self, at: &[Range<usize>], new: &str) -> String {
        let ends = self.text.matches('\n').count();
        let long = new.replace('\n', "\r\n");
        let new = if self.long.len() * 2 > ends { &long } else { new };
        let mut out = String::with_capacity(self.text.len() + self.long.len());
        let mut end = 0;
        for place in at {
            self.copy(end, place.start, &mut out);
            out.push_str(new);
            end = place.end;
        }
        self.copy(end, self.text.len(), &mut out);
        out
    }

    /// Copies a part as it was originally.
    fn copy(&self, mut start: usize, end: usize, out: &mut String) {
        let first = self.long.partition_point(|&at| at < start);
        for &at in self.long[first..].iter().take_while(|&&at| at < end) {
            out.push_str(&self.text[start..at]);
            out.push_str("\r\n");
            start = at + 1;
        }
        out.push_str(&self.text[start..end]);
    }
}

#[cfg(test)]
#[path = "edit_tests.rs"]
mod tests;
