//! The changes in a text in the form of `structuredPatch`: hunks of lines with three lines around
//! them.
//!
//! Invariants, as recorded: a line that ends the text without a newline is followed by a mark; tabs
//! at the beginning of a line are two spaces each; a hunk's first line is counted from one, even if
//! the hunk has no lines.

use std::time::Duration;

use serde::Serialize;
use similar::{ChangeTag, TextDiff};

/// How many unchanged lines are shown around changed ones.
const AROUND: usize = 3;

/// After this time, a patch that is not the shortest suffices.
const PATIENCE: Duration = Duration::from_secs(2);

/// Lines of a text that changed, and the lines around them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::tool) struct Hunk {
    old_start: usize,
    old_lines: usize,
    new_start: usize,
    new_lines: usize,
    lines: Vec<String>,
}

/// The changes. Line ends are `\n`.
pub(in crate::tool) fn hunks(old: &str, new: &str) -> Vec<Hunk> {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let diff = TextDiff::configure().timeout(PATIENCE).diff_slices(&old, &new);
    let hunk = |ops: Vec<similar::DiffOp>| {
        let (first, last) = (ops.first()?, ops.last()?);
        let old = first.old_range().start..last.old_range().end;
        let new = first.new_range().start..last.new_range().end;
        let mut lines = Vec::new();
        for change in ops.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            let line = change.value();
            let bare = line.trim_start_matches('\t');
            let indent = "  ".repeat(line.len() - bare.len());
            lines.push(format!("{sign}{indent}{}", bare.strip_suffix('\n').unwrap_or(bare)));
            if !line.ends_with('\n') {
                lines.push("\\ No newline at end of file".to_owned());
            }
        }
        Some(Hunk {
            old_start: old.start + 1,
            old_lines: old.len(),
            new_start: new.start + 1,
            new_lines: new.len(),
            lines,
        })
    };
    diff.grouped_ops(AROUND).into_iter().filter_map(hunk).collect()
}

#[cfg(test)]
#[path = "patch_tests.rs"]
mod tests;
