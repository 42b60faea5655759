//! Puts each record on its own line, and removes everything else.

use super::super::Scraps;
use super::Repairing;
use crate::client::check::{Code, What};
use crate::format::entry::Kind;

impl Repairing<'_> {
    pub(super) fn has_messages(&self) -> bool {
        let rows = self.conversation.table.rows();
        rows.iter().any(|row| matches!(row.kind, Kind::User | Kind::Assistant) && !row.is_sidechain)
    }

    /// Removes damage, puts complete records inside it on their own lines, and ends the last line.
    pub(super) fn lines(&mut self) {
        let mut fixes: Vec<(Code, Option<u64>, String)> = Vec::new();
        let examined = &self.subject.case.examined;
        for mark in &examined.marks {
            let line = Some(mark.line);
            let (code, text) = match &mark.what {
                What::Damaged(why) if examined.is_torn(mark) => (
                    Code::TornTail,
                    format!(
                        "the last record was cut off ({why}): removed; the file now ends with a newline"
                    ),
                ),
                What::Damaged(why) => {
                    (Code::DamagedLine, format!("unreadable bytes removed ({why})"))
                }
                What::Nul => (Code::NulBytes, "NUL bytes removed".to_owned()),
                What::Glued => (Code::GluedRecords, "record put on its own line".to_owned()),
                What::Bare => (Code::NotAnObject, "line removed".to_owned()),
                What::Null => (Code::NullLine, "line `null` removed".to_owned()),
                _ => continue,
            };
            fixes.push((code, line, text));
        }
        let is_open = examined.last.is_some_and(|last| !last.is_ended && !last.is_blank);
        if is_open && !fixes.iter().any(|(code, ..)| *code == Code::TornTail) {
            let line = examined.last.map(|last| last.line);
            fixes.push((
                Code::NoFinalNewline,
                line,
                "newline added after the last record".to_owned(),
            ));
        }
        if !fixes.is_empty() {
            self.change.scraps = Scraps::Go;
        }
        for (code, line, text) in fixes {
            self.change.did(Some(code), line, text);
        }
        for mark in &self.subject.case.examined.marks {
            let (code, text) = match mark.what {
                What::NotUtf8 => (Code::NotUtf8, "bytes that are not UTF-8 replaced with U+FFFD"),
                What::Surrogate => {
                    (Code::LoneSurrogate, "unpaired UTF-16 surrogate replaced with U+FFFD")
                }
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
