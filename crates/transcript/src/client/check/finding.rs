//! Collects findings.
//!
//! A broken file can have as many faults as records. The first ones of each kind are reported, the
//! rest are counted. Invariant: the number of findings is bounded.

use std::cmp::Ordering;

use hashbrown::HashMap;

use super::code::{Code, Severity};
use crate::conversation::table::{RowId, Table};

/// How many findings of one code and severity are reported.
const TOLD: usize = 20;

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The code documented in docs/checks.md.
    pub code: Code,
    /// How serious it is.
    pub severity: Severity,
    /// The name of the sub-agent's file that it is in; `None` for the session's own file.
    pub file: Option<String>,
    /// The line number, if it is about one line.
    pub line: Option<u64>,
    /// One sentence that describes it.
    pub text: String,
    /// How many more findings of its kind follow it, which are not reported.
    pub more: u64,
}

impl Finding {
    /// Worst first, then by file and line.
    pub(super) fn order(&self, other: &Finding) -> Ordering {
        let severity = other.severity.cmp(&self.severity);
        let place = |finding: &Finding| (finding.line, finding.code);
        severity
            .then_with(|| self.file.cmp(&other.file))
            .then_with(|| place(self).cmp(&place(other)))
    }
}

/// The findings so far.
#[derive(Debug)]
pub(super) struct Findings<'a> {
    table: &'a Table,
    list: Vec<Finding>,
    /// For each code and severity, how many there are, and the index of the last one that is
    /// reported.
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

    /// Adds a finding about a record.
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

    /// All findings, worst first, then by line.
    pub(super) fn into_list(self) -> Vec<Finding> {
        let mut list = self.list;
        list.sort_by(Finding::order);
        list
    }
}
