//! The part of the matches that is shown.
//!
//! Invariant: it is bounded, by the call's limit and by a fixed one.

use crate::tool::{Call, number};

/// The most bytes that are shown.
const MOST: usize = 20_000;

/// The lines that are shown.
pub(super) struct Page {
    pub(super) lines: Vec<String>,
    offset: usize,
    limit: Option<usize>,
    passed: usize,
    held: usize,
    cut: Option<Cut>,
}

/// Why there are more lines than are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// The limit of the call was reached.
    Limit,
    /// The fixed limit was reached.
    Most,
}

impl Page {
    pub(super) fn new(call: &Call) -> Page {
        Page {
            lines: Vec::new(),
            offset: number(call, "offset").unwrap_or(0),
            limit: number(call, "head_limit").filter(|&limit| limit > 0),
            passed: 0,
            held: 0,
            cut: None,
        }
    }

    /// Adds a line, if it is to be shown. Returns whether more are wanted.
    pub(super) fn push(&mut self, line: String) -> bool {
        if self.cut.is_some() {
            return false;
        }
        if self.passed < self.offset {
            self.passed += 1;
            return true;
        }
        if self.limit == Some(self.lines.len()) {
            self.cut = Some(Cut::Limit);
        } else if self.held + line.len() > MOST {
            self.cut = Some(Cut::Most);
        } else {
            self.held += line.len() + 1;
            self.lines.push(line);
        }
        self.cut.is_none()
    }

    /// Whether no more are wanted.
    pub(super) fn is_full(&self) -> bool {
        self.cut.is_some()
    }

    /// Whether there were lines, shown or skipped.
    pub(super) fn has_any(&self) -> bool {
        self.passed + self.lines.len() > 0
    }

    /// The limit, if there are more lines.
    pub(super) fn applied(&self) -> Option<usize> {
        self.limit.filter(|_| self.cut == Some(Cut::Limit))
    }

    /// The note about what was left out.
    pub(super) fn note(&self) -> String {
        let mut parts = Vec::new();
        if let Some(limit) = self.applied() {
            parts.push(format!("limit: {limit}"));
        }
        if self.passed > 0 {
            parts.push(format!("offset: {}", self.passed));
        }
        let mut note = String::new();
        if !parts.is_empty() {
            note = format!("\n\n[Showing results with pagination = {}]", parts.join(", "));
        }
        if self.cut == Some(Cut::Most) {
            note += "\n\n(There is more. Use offset, or a narrower pattern, path or glob.)";
        }
        note
    }
}
