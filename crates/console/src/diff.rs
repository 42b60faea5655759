//! What changes in a file, as lines: removed ones, added ones, and a few around them.
//!
//! Invariant: every line that changes is shown; the marks say what the colours say.

use std::time::Duration;

use similar::{ChangeTag, TextDiff};

use crate::text::{Line, Span, exact, look};

/// How many unchanged lines are shown around a change.
const AROUND: usize = 3;

/// How long the shortest difference is looked for; after that, more lines than necessary change.
const PATIENCE: Duration = Duration::from_millis(200);

/// How many lines were added and removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Added.
    pub added: usize,
    /// Removed.
    pub removed: usize,
}

/// The lines of the difference between two texts.
pub fn lines(old: &str, new: &str) -> (Vec<Line<'static>>, Counts) {
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(old, new);
    let mut lines = Vec::new();
    let mut counts = Counts::default();
    for (number, group) in diff.grouped_ops(AROUND).iter().enumerate() {
        if number > 0 {
            lines.push(Line::from(Span::styled("⋮", look::DIM)));
        }
        for change in group.iter().flat_map(|operation| diff.iter_changes(operation)) {
            let (mark, style) = match change.tag() {
                ChangeTag::Equal => (' ', look::DIM),
                ChangeTag::Insert => ('+', look::GOOD),
                ChangeTag::Delete => ('-', look::BAD),
            };
            counts.added += usize::from(change.tag() == ChangeTag::Insert);
            counts.removed += usize::from(change.tag() == ChangeTag::Delete);
            let text = change.value().trim_end_matches('\n');
            lines.push(Line::from(Span::styled(format!("{mark}{}", exact(text)), style)));
            if !change.value().ends_with('\n') && change.tag() != ChangeTag::Equal {
                lines.push(Line::from(Span::styled("\\ no newline at the end", look::DIM)));
            }
        }
    }
    (lines, counts)
}

/// The lines of a `structuredPatch`, as results of edits have them.
pub fn patch(hunks: &serde_json::Value) -> (Vec<Line<'static>>, Counts) {
    let mut lines = Vec::new();
    let mut counts = Counts::default();
    for (number, hunk) in hunks.as_array().into_iter().flatten().enumerate() {
        if number > 0 {
            lines.push(Line::from(Span::styled("⋮", look::DIM)));
        }
        for text in hunk["lines"].as_array().into_iter().flatten().filter_map(|line| line.as_str())
        {
            let style = match text.chars().next() {
                Some('+') => {
                    counts.added += 1;
                    look::GOOD
                }
                Some('-') => {
                    counts.removed += 1;
                    look::BAD
                }
                _ => look::DIM,
            };
            lines.push(Line::from(Span::styled(exact(text), style)));
        }
    }
    (lines, counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::plain;

    #[test]
    fn changes_and_what_is_around_them() {
        let old: String = (1..=12).map(|n| n.to_string() + "\n").collect();
        let new = old.replace("\n2\n", "\ntwo\u{202e}\n").replace("12\n", "12");
        let (lines, counts) = lines(&old, &new);
        let lines: Vec<String> = lines.iter().map(plain).collect();
        assert_eq!(counts, Counts { added: 2, removed: 2 });
        assert_eq!(
            lines,
            [
                " 1",
                "-2",
                "+two\\u{202e}",
                " 3",
                " 4",
                " 5",
                "⋮",
                " 9",
                " 10",
                " 11",
                "-12",
                "+12",
                "\\ no newline at the end"
            ]
        );
    }

    #[test]
    fn long_files_with_nothing_in_common() {
        let text = |seed: u64| {
            let line = |n: u64| format!("{}\n", (n * 2 + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            (0..20_000).map(line).collect::<String>()
        };
        let (lines, counts) = lines(&text(0), &text(1));
        assert_eq!(counts, Counts { added: 20_000, removed: 20_000 });
        assert_eq!(lines.len(), 40_000);
    }
}
