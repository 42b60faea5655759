//! A session as two: the turns before a point, and the turns from there on.
//!
//! The first is a fork. The second begins with a compaction of our own, in the form that every
//! version loads: its summary says where the session comes from. A member in the boundary marks it,
//! so that [`merge`](super::merge()) can leave it out again. Invariant: together they contain every
//! record of the live conversation, and no record twice, except what a later compaction keeps word
//! for word from before the point.

use thiserror::Error;

use super::fork::{At, ForkError, beside_path, cut, results_elsewhere};
use super::ids::made;
use super::repair::envelope;
use super::rework::is_step;
use super::spans::Spans;
use super::splice::To;
use super::{Change, Subject};
use crate::client::context::Context;
use crate::conversation::Conversation;
use crate::conversation::graph::Link;
use crate::conversation::table::RowId;
use crate::format::entry::{Entry, Kind};
use crate::format::json::quote;

/// What the second session says about its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitNote<'a> {
    /// The short id of the session that is split.
    pub origin: &'a str,
    /// The summary that replaces the turns before the point.
    pub summary: &'a str,
}

/// Why a session cannot be split there.
#[derive(Debug, Error)]
pub enum SplitError {
    /// Nothing is before the point.
    #[error("nothing is before turn 1: the second session begins at turn 2 or later")]
    First,
    /// There is no such turn.
    #[error(transparent)]
    Fork(#[from] ForkError),
}

/// The member of a boundary's metadata that marks it as ours.
const MARK: &str = "quipuSplit";

/// Plans two sessions: the turns before a turn, counted from 1, and the others.
pub fn split(
    subject: &Subject,
    turn: usize,
    note: SplitNote<'_>,
) -> Result<[Change; 2], SplitError> {
    if turn == 1 {
        return Err(SplitError::First);
    }
    let spans = Spans::live(&subject.case.conversation);
    if turn == 0 || turn > spans.len() {
        return Err(ForkError::Turn { wanted: turn, turns: spans.len() }.into());
    }
    let start = spans.start(turn - 1);
    // Clients send the rest of an answer, too, if it is beside the path.
    let beside = beside_path(subject, &spans.order, start);
    let first = cut(subject, &At::Turn(turn - 1), &spans.order[..start], &beside)?;
    let second = rest(subject, turn, note).map_err(ForkError::from)?;
    Ok([first, second])
}

/// Whether a boundary was made by a split.
pub(super) fn is_split(entry: &Entry<'_>) -> bool {
    entry.get("compactMetadata").is_some_and(|metadata| metadata.get(MARK).is_some())
}

/// The turns from that one on, after a boundary.
fn rest(subject: &Subject, turn: usize, note: SplitNote<'_>) -> crate::Result<Change> {
    let conversation = &subject.case.conversation;
    let table = &conversation.table;
    let spans = Spans::live(conversation);
    let start = spans.start(turn - 1);
    let mut stays = vec![false; table.rows().len()];
    for row in &spans.order[start..] {
        stays[row.index()] = true;
    }
    for boundary in &table.boundaries {
        if stays[boundary.row.index()] {
            for row in conversation.graph.kept(boundary) {
                stays[row.index()] = true;
            }
        }
    }
    let before = beside_path(subject, &spans.order, start);
    let beside = beside_path(subject, &spans.order, spans.order.len()).into_iter();
    for row in beside.filter(|row| !before.contains(row)) {
        stays[row.index()] = true;
    }
    for row in results_elsewhere(conversation, &stays) {
        stays[row.index()] = true;
    }
    let begin = stays.iter().position(|stays| *stays).unwrap_or(stays.len());
    let mut change = Change::new(conversation);
    let mut gone = 0_u64;
    for (id, row) in table.numbered() {
        let is_sidechain = row.is_sidechain && id.index() > begin;
        if !stays[id.index()] && !is_sidechain {
            change.drop(id);
            gone += u64::from(matches!(row.kind, Kind::User | Kind::Assistant));
        }
    }
    let messages = if gone == 1 { "message" } else { "messages" };
    let text = format!("left out: {gone} {messages} before turn {turn} or on other branches");
    change.did(None, None, text);
    let kept: Vec<RowId> = spans.order.iter().copied().filter(|row| stays[row.index()]).collect();
    let in_cycle = |row: &&RowId| conversation.graph.link(**row) == Link::Loop;
    for row in kept.iter().filter(in_cycle) {
        change.edit(*row).set("parentUuid", To::Value(b"null".to_vec()));
    }
    let is_first = |row: &RowId| {
        let known = table.row(*row);
        is_step(known.kind) && known.uuid.is_some() && conversation.graph.link(*row).is_step()
    };
    let first = kept.iter().copied().find(is_first);
    let name = conversation.path.file_stem().unwrap_or_default().to_string_lossy();
    let ids = ["boundary", "summary"].map(|what| made(&format!("{name}/split/{turn}/{what}")));
    change.start = front(subject, &kept, turn, note, &ids)?;
    change.did(None, None, format!("added: a compaction that says what turn {turn} follows"));
    if let Some(first) = first {
        change.hang(conversation, first, &ids[1]);
    }
    change.keep_pairs(conversation);
    change.relink(subject)?;
    // Also if it was linked otherwise: nothing is before it.
    if let Some(first) = first {
        change.hang(conversation, first, &ids[1]);
    }
    change.end_with(conversation, &kept);
    Ok(change)
}

impl Change {
    /// Makes a record follow another one, which is not in its file.
    pub(super) fn hang(&mut self, conversation: &Conversation, row: RowId, on: &str) {
        let is_boundary = conversation.table.boundary(row).is_some();
        let name = if is_boundary { "logicalParentUuid" } else { "parentUuid" };
        self.edit(row).set_text(name, on);
    }
}

/// The boundary, and its summary.
fn front(
    subject: &Subject,
    kept: &[RowId],
    turn: usize,
    note: SplitNote<'_>,
    [boundary, summary]: &[String; 2],
) -> crate::Result<Vec<Vec<u8>>> {
    let conversation = &subject.case.conversation;
    let table = &conversation.table;
    let is_like = |row: &&RowId| matches!(table.row(**row).kind, Kind::User | Kind::Assistant);
    let like = kept.iter().find(is_like).or(kept.first());
    let envelope = like.map_or(Ok(String::new()), |row| conversation.look(*row, envelope))?;
    let time = kept.iter().find_map(|row| table.row(*row).time);
    let time =
        time.map_or(String::new(), |time| format!(r#","timestamp":{}"#, quote(&time.to_string())));
    let tokens = subject.context()?.map_or(0, Context::of_all_messages);
    let (boundary, summary) = (quote(boundary), quote(summary));
    let first = format!(
        r#"{{"parentUuid":null,"isSidechain":false{envelope},"type":"system","subtype":"compact_boundary","content":"Conversation compacted","isMeta":false,"level":"info","compactMetadata":{{"trigger":"manual","preTokens":{tokens},"{MARK}":{{"of":{},"turn":{turn}}}}},"uuid":{boundary}{time}}}"#,
        quote(note.origin)
    );
    let second = format!(
        r#"{{"parentUuid":{boundary},"isSidechain":false{envelope},"type":"user","message":{{"role":"user","content":{}}},"isVisibleInTranscriptOnly":true,"isCompactSummary":true,"uuid":{summary}{time}}}"#,
        quote(note.summary)
    );
    Ok(vec![first.into_bytes(), second.into_bytes()])
}
