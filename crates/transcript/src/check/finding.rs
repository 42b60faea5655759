//! Findings, as they come together.
//!
//! A broken file can have as many faults as records: of each kind the first are told, the rest counted. Invariant: the number of findings is bounded.

use std::cmp::Ordering;

use hashbrown::HashMap;

use super::code::{Code, Severity};
use crate::table::{RowId, Table};

/// How many findings of one code and severity are told.
const TOLD: usize = 20;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub code: Code,
    /// How much it matters.
    pub severity: Severity,
    /// The file, if it is not the session's own: that of a sub-agent, by its name.
    pub file: Option<String>,
    /// The number of the line, if it is about one.
    pub line: Option<u64>,
    /// One sentence.
    pub text: String,
    /// How many more there are of its kind behind it, which are not told.
    pub more: u64,
}

impl Finding {
    /// The worst first, then by file and line.
    pub(super) fn order(&self, other: &Finding) -> Ordering {
        let severity = other.severity.cmp(&self.severity);
        let place = |finding: &Finding| (finding.line, finding.code);
        severity
            .then_with(|| self.file.cmp(&other.file))
            .then_with(|| place(self).cmp(&place(other)))
    }
}

/// What was found so far.
#[derive(Debug)]
pub(super) struct Findings<'a> {
    table: &'a Table,
    list: Vec<Finding>,
    /// How many there are of each kind, and where the last one of those that are told stands.
    counts: HashMap<(Code, Severity), (usize, usize)>,
}

impl<'a> Findings<'a> {
    pub(super) fn new(table: &'a Table) -> Self {
        Findings { table, list: Vec::new(), counts: HashMap::new() }
    }

    pub(super) fn add(
        &mut self,
        code: Code,
        severity: Severity,
        line: Option<u64>,
        text: impl Into<String>,
    ) {
        self.put(Finding { code, severity, file: None, line, text: text.into(), more: 0 });
    }

    /// A finding about a record.
    pub(super) fn row(
        &mut self,
        code: Code,
        severity: Severity,
        row: Option<RowId>,
        text: impl Into<String>,
    ) {
        let line = row.map(|row| self.table.row(row).line);
        self.add(code, severity, line, text);
    }

    pub(super) fn put(&mut self, finding: Finding) {
        let (count, last) =
            self.counts.entry((finding.code, finding.severity)).or_insert((0, self.list.len()));
        *count += 1;
        if *count > TOLD {
            self.list[*last].more += 1;
            return;
        }
        *last = self.list.len();
        self.list.push(finding);
    }

    /// All of them, the worst first, by line.
    pub(super) fn into_list(self) -> Vec<Finding> {
        let mut list = self.list;
        list.sort_by(Finding::order);
        list
    }
}
