//! A session up to a point: one path through it, and nothing else.

use hashbrown::HashSet;
use thiserror::Error;

use super::splice::To;
use super::{Change, Subject, answer_of};
use crate::conversation::Conversation;
use crate::conversation::graph::Link;
use crate::conversation::table::{Id, RowId};
use crate::conversation::turn::Turn;
use crate::format::content::BlockKind;
use crate::format::entry::Kind;
use crate::format::json::quote;
use crate::format::limit::FARTHEST_UP;

/// Where a fork ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum At {
    /// At the end of the live conversation.
    End,
    /// After a turn of the live conversation, counted from 1.
    Turn(usize),
    /// After a record on any branch, given by its id or the start of it, including the rest of its
    /// answer and that answer's tool results.
    Record(String),
    /// At the end of the branch that contains a record.
    Branch(String),
}

/// Why a fork cannot end there.
#[derive(Debug, Error)]
pub enum ForkError {
    /// There is no conversation.
    #[error("there is no conversation in the session")]
    Nothing,
    /// No such turn.
    #[error("there is no turn {wanted}: the live conversation has {turns}")]
    Turn {
        /// The turn that was asked for.
        wanted: usize,
        /// How many turns there are.
        turns: usize,
    },
    /// No such record.
    #[error("no record has an id that begins with `{0}`")]
    Record(String),
    /// The record belongs to a sub-agent.
    #[error("the record `{0}` belongs to a sub-agent, and a fork cannot end there")]
    Side(String),
    /// Several records match.
    #[error("several records have ids that begin with `{0}`")]
    Ambiguous(String),
    /// Reading failed.
    #[error(transparent)]
    Read(#[from] crate::Error),
}

/// Plans a session that ends there.
pub fn fork(subject: &Subject, at: &At) -> Result<Change, ForkError> {
    let conversation = &subject.case.conversation;
    let order = match at {
        At::End | At::Turn(_) => {
            let leaf = conversation.end().ok_or(ForkError::Nothing)?;
            way(conversation, leaf)
        }
        At::Record(name) => way(conversation, main_record(conversation, name)?),
        At::Branch(name) => {
            way(conversation, end_below(conversation, main_record(conversation, name)?))
        }
    };
    let end = match at {
        At::End | At::Branch(_) => order.len(),
        At::Turn(wanted) => {
            let turns = conversation.turns_in(&conversation.live());
            if *wanted == 0 || *wanted > turns.len() {
                return Err(ForkError::Turn { wanted: *wanted, turns: turns.len() });
            }
            let next = turns.get(*wanted).map(|turn| turn.rows[0]);
            next.and_then(|next| order.iter().position(|row| *row == next)).unwrap_or(order.len())
        }
        At::Record(name) => {
            let row = record(conversation, name)?;
            let at = order.iter().position(|other| *other == row).unwrap_or(0);
            complete(conversation, &order, at) + 1
        }
    };
    cut(subject, at, &order[..end], &[])
}

/// A session with only the start of a path, and some records beside it.
pub(super) fn cut(
    subject: &Subject,
    at: &At,
    path: &[RowId],
    beside: &[RowId],
) -> Result<Change, ForkError> {
    let conversation = &subject.case.conversation;
    let mut change = Change::new(conversation);
    let mut stays = vec![false; conversation.table.rows().len()];
    let mut last = 0;
    for row in path {
        stays[row.index()] = true;
        last = last.max(row.index());
    }
    for row in beside {
        stays[row.index()] = true;
    }
    let mut kept = path.to_vec();
    for row in results_elsewhere(conversation, &stays) {
        stays[row.index()] = true;
        kept.extend((row.index() > last).then_some(row));
    }
    let mut gone = 0;
    for (id, row) in conversation.table.numbered() {
        // Records of sub-agents in the session's file, from before the last kept record.
        let is_sidechain = row.is_sidechain && id.index() < last;
        if !stays[id.index()] && !is_sidechain {
            change.drop(id);
            gone += u64::from(matches!(row.kind, Kind::User | Kind::Assistant));
        }
    }
    if change.leaves_nothing(conversation) {
        return Err(ForkError::Nothing);
    }
    if gone > 0 {
        let messages = if gone == 1 { "message" } else { "messages" };
        let after = match at {
            At::Turn(turn) => format!("after turn {turn} or "),
            At::Record(_) => "after that record or ".to_owned(),
            At::End | At::Branch(_) => String::new(),
        };
        change.did(None, None, format!("left out: {gone} {messages} {after}on other branches"));
    }
    // A version that follows a cycle of parents sends part of it, or nothing.
    let in_cycle = |row: &&RowId| conversation.graph.link(**row) == Link::Loop;
    for row in kept.iter().filter(in_cycle) {
        change.edit(*row).set("parentUuid", To::Value(b"null".to_vec()));
        let line = conversation.table.row(*row).line;
        change.did(None, Some(line), "cycle of parent links broken here");
    }
    change.keep_pairs(conversation);
    change.relink(subject)?;
    change.end_with(conversation, &kept);
    // Where nothing was answered after a compaction, clients would go on before it.
    let table = &conversation.table;
    let boundary = path.iter().rposition(|row| table.boundary(*row).is_some());
    let after = boundary.map_or(&[][..], |at| &path[at..]);
    let is_answered = after.iter().any(|row| table.row(*row).kind == Kind::Assistant);
    let is_said = |row: &&RowId| table.row(**row).kind == Kind::User;
    if let Some(last) = after.iter().rfind(is_said).filter(|_| !is_answered) {
        change.name_end(conversation, *last);
    }
    Ok(change)
}

impl Change {
    /// Adds a record that names the end of the conversation.
    pub(super) fn name_end(&mut self, conversation: &Conversation, row: RowId) {
        let table = &conversation.table;
        let Some(uuid) = table.text(table.row(row).uuid) else { return };
        let session = table.row(row).session.map(|id| quote(table.ids.text(id)));
        let line = format!(
            r#"{{"type":"last-prompt","leafUuid":{},"sessionId":{}}}"#,
            quote(uuid),
            session.as_deref().unwrap_or("null")
        );
        self.end.push(line.into_bytes());
    }

    /// Gives the last record of the kept ones the newest time. The ends of other branches are gone,
    /// so none of them has it; but two records may share it.
    pub(super) fn end_with(&mut self, conversation: &Conversation, kept: &[RowId]) {
        let is_step = |row: &&RowId| {
            let known = conversation.table.row(**row);
            let is_tree = matches!(
                known.kind,
                Kind::User | Kind::Assistant | Kind::Attachment | Kind::System
            );
            is_tree && !known.is_sidechain && conversation.graph.link(**row).is_step()
        };
        if let Some(last) = kept.iter().rev().find(is_step)
            && let Some(time) =
                self.needed_time(conversation, Some(*last), conversation.table.row(*last).time)
        {
            self.edit(*last).set_text("timestamp", &time.to_string());
            let line = conversation.table.row(*last).line;
            self.did(None, Some(line), "given the newest time: the last record");
        }
    }
}

/// The records beside the path that are sent, and belong to the part of the path before `end`.
pub(super) fn beside_path(subject: &Subject, order: &[RowId], end: usize) -> Vec<RowId> {
    let conversation = &subject.case.conversation;
    let mut places = vec![None; conversation.table.rows().len()];
    for (place, row) in order.iter().enumerate() {
        places[row.index()] = Some(place);
    }
    let is_beside = |row: &RowId| {
        let mut at = conversation.graph.link(*row).parent();
        // As far up as the path is, at most.
        for _ in 0..FARTHEST_UP {
            match at.map(|at| (at, places[at.index()])) {
                Some((_, Some(place))) => return place < end,
                Some((above, None)) => at = conversation.graph.link(above).parent(),
                None => return false,
            }
        }
        false
    };
    let sent = subject.sent().0.iter().copied();
    sent.filter(|row| places[row.index()].is_none()).filter(is_beside).collect()
}

/// Results of calls that stay, on records that do not: newer clients find a result by its call,
/// wherever it hangs.
pub(super) fn results_elsewhere(conversation: &Conversation, stays: &[bool]) -> Vec<RowId> {
    let table = &conversation.table;
    let of = |kind: BlockKind| {
        let blocks = table.blocks().iter().filter(move |block| block.kind == kind);
        blocks.filter_map(|block| Some((block.id?, block.row)))
    };
    let is_kept = |(_, row): &(Id, RowId)| stays[row.index()];
    let calls: HashSet<Id> = of(BlockKind::ToolUse).filter(is_kept).map(|(id, _)| id).collect();
    let mut done: HashSet<Id> =
        of(BlockKind::ToolResult).filter(is_kept).map(|(id, _)| id).collect();
    let others = of(BlockKind::ToolResult).filter(|(_, row)| {
        !stays[row.index()] && !table.row(*row).is_sidechain && !table.row(*row).is_repeat
    });
    others.filter(|(id, _)| calls.contains(id) && done.insert(*id)).map(|(_, row)| row).collect()
}

/// The turns of the branch with that record, from the beginning of the session.
pub fn branch_turns(conversation: &Conversation, name: &str) -> Result<Vec<Turn>, ForkError> {
    let end = end_below(conversation, main_record(conversation, name)?);
    Ok(conversation.turns_in(&conversation.graph.path(conversation.graph.chain_of(end))))
}

/// The rows on the path to a record's chain, up to the end of that chain.
fn way(conversation: &Conversation, to: RowId) -> Vec<RowId> {
    conversation.rows(&conversation.graph.path(conversation.graph.chain_of(to))).collect()
}

/// The record with that id or id prefix; it must be in the main conversation.
pub(super) fn main_record(conversation: &Conversation, name: &str) -> Result<RowId, ForkError> {
    let row = record(conversation, name)?;
    if conversation.table.row(row).is_sidechain && !conversation.table.is_agent {
        return Err(ForkError::Side(name.to_owned()));
    }
    Ok(row)
}

/// The record with that id or id prefix.
fn record(conversation: &Conversation, name: &str) -> Result<RowId, ForkError> {
    if name.is_empty() {
        return Err(ForkError::Record(name.to_owned()));
    }
    if let Some(row) =
        conversation.table.ids.find(name).and_then(|id| conversation.graph.row_of(id))
    {
        return Ok(row);
    }
    let begins = |row: &RowId| {
        conversation
            .table
            .text(conversation.table.row(*row).uuid)
            .is_some_and(|uuid| uuid.starts_with(name))
    };
    let rows = conversation.table.numbered().filter(|(_, row)| !row.is_repeat).map(|(id, _)| id);
    let mut found = rows.filter(begins);
    match (found.next(), found.next()) {
        (Some(_), Some(_)) => Err(ForkError::Ambiguous(name.to_owned())),
        (Some(row), None) => Ok(row),
        (None, _) => Err(ForkError::Record(name.to_owned())),
    }
}

/// The last record in the file among a record and its descendants.
pub(super) fn end_below(conversation: &Conversation, row: RowId) -> RowId {
    let mut is_below = vec![false; conversation.table.rows().len()];
    let mut last = row;
    for here in conversation.graph.order() {
        let link = conversation.graph.link(*here);
        let above = link.parent().is_some_and(|above| is_below[above.index()]);
        if *here == row || (above && link.is_step()) {
            is_below[here.index()] = true;
            if !conversation.table.row(*here).is_sidechain {
                last = last.max(*here);
            }
        }
    }
    last
}

/// The index on a path where a record's answer and the results of its calls end.
fn complete(conversation: &Conversation, order: &[RowId], at: usize) -> usize {
    let answer = answer_of(conversation, order[at]);
    let Some(answer) = answer else { return at };
    let behind = order.iter().enumerate().skip(at);
    let of_answer = behind.filter(|(_, row)| answer_of(conversation, **row) == Some(answer));
    of_answer.map(|(place, _)| place).last().unwrap_or(at)
}
