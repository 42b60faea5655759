//! Every record on a line of its own, and nothing else on any.

use super::super::Scraps;
use super::Mending;
use crate::check::{Code, What};
use crate::entry::Kind;

impl Mending<'_> {
    pub(super) fn has_messages(&self) -> bool {
        let rows = self.conversation.table.rows();
        rows.iter().any(|row| matches!(row.kind, Kind::User | Kind::Assistant) && !row.is_side)
    }

    /// Damage goes, whole records in it get lines of their own, the last line gets its end.
    pub(super) fn lines(&mut self) {
        let mut fixes: Vec<(Code, Option<u64>, String)> = Vec::new();
        let examined = &self.subject.case.examined;
        for mark in &examined.marks {
            let line = Some(mark.line);
            let (code, text) = match &mark.what {
                What::Damaged(why) if examined.is_torn(mark) => (
                    Code::TornTail,
                    format!(
                        "the last record was cut off ({why}): removed, and the file ends with a newline"
                    ),
                ),
                What::Damaged(why) => {
                    (Code::DamagedLine, format!("bytes that are no record removed ({why})"))
                }
                What::Nul => (Code::NulBytes, "NUL bytes removed".to_owned()),
                What::Glued => (Code::GluedRecords, "put on a line of its own".to_owned()),
                What::Bare => (Code::NotAnObject, "removed".to_owned()),
                What::Null => (Code::NullLine, "the line `null` removed".to_owned()),
                _ => continue,
            };
            fixes.push((code, line, text));
        }
        let is_open = examined.last.is_some_and(|last| !last.is_ended && !last.is_blank);
        if is_open && !fixes.iter().any(|(code, ..)| *code == Code::TornTail) {
            let line = examined.last.map(|last| last.line);
            fixes.push((Code::NoFinalNewline, line, "a newline ends the last record".to_owned()));
        }
        if !fixes.is_empty() {
            self.change.scraps = Scraps::Go;
        }
        for (code, line, text) in fixes {
            self.change.did(Some(code), line, text);
        }
        for mark in &self.subject.case.examined.marks {
            let (code, text) = match mark.what {
                What::NotUtf8 => (Code::NotUtf8, "bytes that are no UTF-8 became U+FFFD"),
                What::Surrogate => (Code::LoneSurrogate, "half of a character became U+FFFD"),
                _ => continue,
            };
            if let Some(row) = self.subject.case.row_at(mark.offset)
                && !self.conversation.table.row(row).is_long()
            {
                self.change.edit(row).mends_text = true;
                self.did(code, Some(row), text);
            }
        }
    }
}
