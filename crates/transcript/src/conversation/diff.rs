//! What a call changed in files.
//!
//! Taken from the client's own patch (`structuredPatch`) if the record has one; else computed from
//! the input of the call, as for the files of sub-agents. Invariant: a failed call changed nothing.

use std::time::Duration;

use serde::Serialize;
use similar::{ChangeTag, TextDiff};

use super::tool::file_in;
use crate::format::json::{Json, Object, Shape};
use crate::names::named;

/// What a call did to a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileChange {
    /// The path of the file, as the call names it.
    pub path: String,
    /// What was done to it.
    pub action: Action,
    /// How many lines were added.
    pub added: usize,
    /// How many lines were removed.
    pub removed: usize,
    /// The changed parts of the file.
    pub diff: Vec<Hunk>,
}

named! {
    /// What was done with a file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Action {
        /// It was read.
        Read = "read",
        /// It was created.
        Created = "created",
        /// It existed before and has other content now.
        Changed = "changed",
    }
}

/// Lines that changed, with some lines around them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hunk {
    /// The number of its first line before and after the change, from 1; `None` if the call does
    /// not contain it.
    pub start: Option<[u64; 2]>,
    /// The lines, each after its sign: ` ` for unchanged, `-` for removed, `+` for added, `\` for a
    /// remark.
    pub lines: Vec<String>,
}

impl FileChange {
    fn new(path: String, action: Action, diff: Vec<Hunk>) -> FileChange {
        let count = |sign: char| {
            let lines = diff.iter().flat_map(|hunk| &hunk.lines);
            lines.filter(|line| line.starts_with(sign)).count()
        };
        FileChange { path, action, added: count('+'), removed: count('-'), diff }
    }
}

impl Hunk {
    /// Its lines with their signs.
    pub fn signed(&self) -> impl Iterator<Item = (char, &str)> {
        self.lines.iter().filter_map(|line| {
            let sign = line.chars().next()?;
            Some((sign, &line[sign.len_utf8()..]))
        })
    }
}

/// How long computing a diff may take; after that, the result is coarser.
const PATIENCE: Duration = Duration::from_millis(200);

/// How many lines around a change are kept in a computed diff.
const AROUND: usize = 3;

/// The tools that touch files.
pub(super) const TOUCHING: [&str; 6] =
    ["Read", "Write", "Edit", "MultiEdit", "NotebookEdit", "Update"];

/// The file that a call touched, if its tool touches files. `output` is the result as the model got
/// it.
pub fn touched(
    tool: &str,
    input: Json<'_>,
    structured: Option<Json<'_>>,
    output: &str,
) -> Option<FileChange> {
    // Most calls are of other tools, and some of their results are long.
    if !TOUCHING.contains(&tool) {
        return None;
    }
    let result = structured.filter(|json| json.shape() == Shape::Object).and_then(Json::object);
    touched_by(tool, input, result.as_ref(), output)
}

/// Like [`touched`], for a structured result that was scanned already.
pub(crate) fn touched_by(
    tool: &str,
    input: Json<'_>,
    result: Option<&Object<'_>>,
    output: &str,
) -> Option<FileChange> {
    if !TOUCHING.contains(&tool) {
        return None;
    }
    let input = input.object()?;
    let of_result = |name: &str| result.and_then(|result| result.text(name));
    let path = of_result("filePath").or_else(|| file_in(&input)).or_else(|| input.text("path"));
    let path = || path.clone().map(std::borrow::Cow::into_owned);
    match tool {
        "Read" => {
            let inner = result.and_then(|result| result.get("file")?.get("filePath")?.text());
            let path = inner.map(std::borrow::Cow::into_owned).or_else(path)?;
            Some(FileChange::new(path, Action::Read, Vec::new()))
        }
        "Write" => {
            let updated = match of_result("type") {
                Some(kind) => kind == "update",
                // Sub-agents' files have no structured result.
                None => output.contains("has been updated") || output.contains("overwritten"),
            };
            let action = if updated { Action::Changed } else { Action::Created };
            let content =
                of_result("content").or_else(|| input.text("content")).unwrap_or_default();
            let hunks = patch(result).unwrap_or_else(|| {
                let before = of_result("originalFile").unwrap_or_default();
                compare(&before, &content, Some(1))
            });
            Some(FileChange::new(path()?, action, hunks))
        }
        _ => {
            let hunks = patch(result).unwrap_or_else(|| edits(&input));
            Some(FileChange::new(path()?, Action::Changed, hunks))
        }
    }
}

/// The client's own patch. An empty one means nothing: new files have one too.
fn patch(result: Option<&Object<'_>>) -> Option<Vec<Hunk>> {
    let hunks = result?.get("structuredPatch")?.elements().filter_map(|hunk| {
        let hunk = hunk.object()?;
        let number = |name: &str| u64::try_from(hunk.get(name)?.integer()?).ok();
        let lines = hunk.get("lines")?.elements().filter_map(|line| {
            let line = line.text()?;
            let has_sign = line.starts_with([' ', '+', '-', '\\']);
            Some(if has_sign { line.into_owned() } else { format!(" {line}") })
        });
        Some(Hunk {
            start: number("oldStart").zip(number("newStart")).map(|(old, new)| [old, new]),
            lines: lines.collect(),
        })
    });
    let hunks: Vec<Hunk> = hunks.collect();
    (!hunks.is_empty()).then_some(hunks)
}

/// The changes in the edits of a call.
fn edits(input: &Object<'_>) -> Vec<Hunk> {
    let one = |edit: &Object<'_>| {
        let text = |name: &str| edit.text(name).unwrap_or_default();
        let after = edit.text("new_source").unwrap_or_else(|| text("new_string"));
        compare(&text("old_string"), &after, None)
    };
    match input.get("edits") {
        Some(edits) => {
            edits.elements().filter_map(Json::object).flat_map(|edit| one(&edit)).collect()
        }
        None => one(input),
    }
}

/// The differences between two texts. `first` is the number of their first line, if it is known.
fn compare(before: &str, after: &str, first: Option<u64>) -> Vec<Hunk> {
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(before, after);
    let mut hunks = Vec::new();
    for group in diff.grouped_ops(AROUND) {
        let start = group.first().map(|op| [op.old_range().start, op.new_range().start]);
        let mut lines = Vec::new();
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            lines.push(format!("{sign}{}", change.value().trim_end_matches(['\n', '\r'])));
        }
        let start = start.zip(first).map(|(start, first)| start.map(|at| at as u64 + first));
        hunks.push(Hunk { start, lines });
    }
    hunks
}

#[cfg(test)]
#[path = "diff_tests.rs"]
mod tests;
