//! Hides secrets in a session: in every string of every record, in the lines that are added, and in
//! bytes that are not records.
//!
//! Thinking that has a secret is removed, because it is signed, with the rest of the thinking of
//! its turn; so are the records of requests, which hold copies and hashes of the messages.
//! Invariant: a plan has no texts; secrets are hidden when a record is written.

use std::sync::Arc;

use super::strip::without_thinking;
use super::{Change, Subject};
use crate::conversation::table::{BlockId, Row, RowId};
use crate::format::content::BlockKind;
use crate::format::entry::Kind;
use crate::format::secret::Cover;

/// What is hidden while records are written.
#[derive(Debug)]
pub(super) struct Covering {
    pub(super) cover: Arc<Cover>,
    /// The offsets of the lines on which secrets were recognized; `None` if that is not known.
    lines: Option<Vec<u64>>,
}

impl Covering {
    /// A record without secrets; `None` if it has none.
    pub(super) fn record(&self, row: &Row, bytes: &[u8]) -> Option<Vec<u8>> {
        let is_suspect = self.is_seen(row) || self.cover.stands_in(bytes);
        if is_suspect { self.cover.line(bytes) } else { None }
    }

    /// Whether a secret was recognized on the line of a record.
    fn is_seen(&self, row: &Row) -> bool {
        let Some(lines) = &self.lines else { return true };
        let before = lines.partition_point(|line| *line <= row.offset);
        let line = before.checked_sub(1).map(|at| lines[at]);
        // Blanks may precede a record.
        !row.placed.is_alone() || line.is_some_and(|line| row.offset - line <= NEAR)
    }
}

/// How many blanks before a record are taken for its line.
const NEAR: u64 = 64;

/// Plans to hide what a cover hides. `lines` are the offsets of the lines on which secrets were
/// recognized, if the file was looked through.
pub fn redact(
    subject: &Subject,
    cover: &Arc<Cover>,
    lines: Option<&[u64]>,
) -> crate::Result<Change> {
    let covering = Covering { cover: cover.clone(), lines: lines.map(<[u64]>::to_vec) };
    let mut change = without_thinking(subject, &thinking(subject, &covering)?)?;
    let table = &subject.conversation().table;
    let mut requests = 0_u64;
    for (id, row) in table.numbered() {
        let is_request =
            matches!(row.kind, Kind::ApiRequest | Kind::ApiRequestShape | Kind::ApiRequestBlob);
        if is_request && !change.goes(id) {
            change.drop(id);
            requests += 1;
        }
    }
    if requests > 0 {
        let records = if requests == 1 { "copy of a request" } else { "copies of requests" };
        change.did(None, None, format!("removed: {requests} {records}"));
    }
    change.relink(subject)?;
    change.covering = Some(Box::new(covering));
    Ok(change)
}

/// The thinking that has secrets.
fn thinking(subject: &Subject, covering: &Covering) -> crate::Result<Vec<BlockId>> {
    let conversation = subject.conversation();
    let table = &conversation.table;
    let is_thinking = |block: &BlockId| table.block(*block).kind == BlockKind::Thinking;
    let mut rows: Vec<RowId> = table
        .blocks()
        .iter()
        .filter(|block| block.kind == BlockKind::Thinking)
        .map(|block| block.row)
        .collect();
    rows.dedup();
    let cover = &covering.cover;
    let touched = conversation.look_all(&rows, |look, id| {
        let is_seen = covering.is_seen(table.row(id));
        look.record(id, |entry| {
            let blocks = entry.message().into_iter().flat_map(|message| message.blocks());
            let is_touched = |raw: &[u8]| {
                if is_seen { cover.line(raw).is_some() } else { cover.stands_in(raw) }
            };
            blocks.map(|block| is_touched(block.json().raw())).collect::<Vec<bool>>()
        })
    })?;
    let mut found = Vec::new();
    for (row, touched) in rows.iter().zip(touched) {
        let blocks = table.blocks_of(*row).filter(is_thinking);
        found.extend(blocks.filter(|block| touched.get(table.place(*block)) == Some(&true)));
    }
    Ok(found)
}
