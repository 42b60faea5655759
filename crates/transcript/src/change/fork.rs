//! A session up to a point: one way through it, and nothing beside that.

use thiserror::Error;

use super::{Change, Subject, answer_of};
use crate::conversation::Conversation;
use crate::entry::Kind;
use crate::table::RowId;

/// Where a fork ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum At {
    /// With the live conversation.
    End,
    /// With a turn of it, from 1.
    Turn(usize),
    /// With a record, by its id or the beginning of it, on whatever branch: with all of its answer, and the results of that.
    Record(String),
    /// With the branch that a record is on: at that branch's end.
    Branch(String),
}

/// Why there is no such place.
#[derive(Debug, Error)]
pub enum ForkError {
    /// There is nothing to go on with.
    #[error("there is no conversation in it")]
    Nothing,
    /// No such turn.
    #[error("there is no turn {wanted}: the live conversation has {turns}")]
    Turn {
        /// The one that was asked for.
        wanted: usize,
        /// How many there are.
        turns: usize,
    },
    /// No such record.
    #[error("no record has an id that begins with `{0}`")]
    Record(String),
    /// It is of a sub-agent.
    #[error("the record `{0}` is of a sub-agent, which nothing goes on from")]
    Side(String),
    /// More than one record.
    #[error("several records have ids that begin with `{0}`")]
    Ambiguous(String),
    /// Reading failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
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
    let mut change = Change::new(conversation);
    let mut stays = vec![false; conversation.table.rows().len()];
    let mut last = 0;
    for row in &order[..end] {
        stays[row.index()] = true;
        last = last.max(row.index());
    }
    let mut gone = 0;
    for (id, row) in conversation.table.numbered() {
        // Sub-agents in the session's file that worked before it.
        let is_side = row.is_side && id.index() < last;
        if !stays[id.index()] && !is_side {
            change.drop(id);
            gone += u64::from(matches!(row.kind, Kind::User | Kind::Assistant));
        }
    }
    if change.leaves_nothing(conversation) {
        return Err(ForkError::Nothing);
    }
    if gone > 0 {
        change.did(
            None,
            None,
            format!("left out: {gone} messages behind that place or on other branches"),
        );
    }
    change.settle(subject)?;
    // Somebody else's end has the newest time no more, but two records may share it.
    let is_step = |row: &&RowId| {
        let known = conversation.table.row(**row);
        let is_tree =
            matches!(known.kind, Kind::User | Kind::Assistant | Kind::Attachment | Kind::System);
        is_tree && !known.is_side && conversation.graph.link(**row).is_step()
    };
    if let Some(last) = order[..end].iter().rev().find(is_step)
        && let Some(time) =
            change.needed_time(conversation, Some(*last), conversation.table.row(*last).time)
    {
        change.edit(*last).set_text("timestamp", &time.to_string());
        change.did(
            None,
            Some(conversation.table.row(*last).line),
            "the last record has the newest time now",
        );
    }
    Ok(change)
}

/// The rows on the way to a record's chain, to the end of that.
fn way(conversation: &Conversation, to: RowId) -> Vec<RowId> {
    conversation.rows(&conversation.graph.path(conversation.graph.chain_of(to))).collect()
}

/// The record that a name means, of the main conversation.
fn main_record(conversation: &Conversation, name: &str) -> Result<RowId, ForkError> {
    let row = record(conversation, name)?;
    if conversation.table.row(row).is_side && !conversation.table.is_agent {
        return Err(ForkError::Side(name.to_owned()));
    }
    Ok(row)
}

/// The record that a name means.
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

/// The last record in the file of those below one.
fn end_below(conversation: &Conversation, row: RowId) -> RowId {
    let mut is_below = vec![false; conversation.table.rows().len()];
    let mut last = row;
    for here in conversation.graph.order() {
        let link = conversation.graph.link(*here);
        let above = link.parent().is_some_and(|above| is_below[above.index()]);
        if *here == row || (above && link.is_step()) {
            is_below[here.index()] = true;
            if !conversation.table.row(*here).is_side {
                last = last.max(*here);
            }
        }
    }
    last
}

/// Where the answer that a record is of ends on a way, and the results of its calls.
fn complete(conversation: &Conversation, order: &[RowId], at: usize) -> usize {
    let answer = answer_of(conversation, order[at]);
    let Some(answer) = answer else { return at };
    let behind = order.iter().enumerate().skip(at);
    let of_answer = behind.filter(|(_, row)| answer_of(conversation, **row) == Some(answer));
    of_answer.map(|(place, _)| place).last().unwrap_or(at)
}
