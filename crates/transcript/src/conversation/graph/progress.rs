//! Prompts whose parent is the progress of a call.
//!
//! Some clients (2.1.81 in an editor) make the last `progress` record of a call of the turn before
//! the parent of the next prompt, although that turn continued: its call has a result, and answers
//! follow. The user did not go back there. Such a prompt becomes a child of the last of these
//! answers. Invariants: which record opens which turn does not change, so no cycle arises; time is
//! linear.

use hashbrown::HashSet;

use super::Link;
use super::chain::Tree;
use crate::conversation::table::{Id, RowId, Table};
use crate::format::content::BlockKind;
use crate::format::entry::Kind;

/// Makes such prompts children of the answers that they follow.
pub(super) fn reattach(table: &Table, links: &mut [Link]) {
    let progress = |link: Link| match link {
        Link::Parent(parent) if table.row(parent).kind == Kind::Progress => Some(parent),
        _ => None,
    };
    let opens = |row: RowId| table.row(row).opens() && !table.row(row).is_sidechain;
    let asked: Vec<(RowId, RowId)> = table
        .numbered()
        .filter(|(row, _)| opens(*row))
        .filter_map(|(row, _)| Some((row, progress(links[row.index()])?)))
        .collect();
    if asked.is_empty() {
        return;
    }
    let results: HashSet<Id> = table
        .blocks()
        .iter()
        .filter(|part| part.kind == BlockKind::ToolResult)
        .filter_map(|part| part.id)
        .collect();
    let order = Tree::new(links).down();
    let above = above_progress(table, links, &order);
    let last = last_answers(table, links, &order);
    for (row, parent) in asked {
        let Some(call) = above[parent.index()] else { continue };
        let is_answered = table.blocks_of(call).any(|part| {
            let part = table.block(part);
            part.kind == BlockKind::ToolUse && part.id.is_some_and(|id| results.contains(&id))
        });
        let Some(answer) = last[call.index()].filter(|_| is_answered) else { continue };
        let time = |row: RowId| table.row(row).time;
        let is_later = time(answer).zip(time(row)).is_none_or(|(answer, row)| answer <= row);
        if is_later && table.row(answer).answer != table.row(call).answer {
            links[row.index()] = Link::Behind(answer);
        }
    }
}

/// For each progress record, its nearest ancestor that is not progress.
fn above_progress(table: &Table, links: &[Link], order: &[RowId]) -> Vec<Option<RowId>> {
    let mut above: Vec<Option<RowId>> = vec![None; links.len()];
    for row in order.iter().filter(|row| table.row(**row).kind == Kind::Progress) {
        let parent = links[row.index()].parent();
        above[row.index()] = parent.and_then(|parent| match table.row(parent).kind {
            Kind::Progress => above[parent.index()],
            _ => Some(parent),
        });
    }
    above
}

/// For each record, the last answer at or below it in its turn: one that no other answer of the
/// turn is below, and of several such answers the newest.
fn last_answers(table: &Table, links: &[Link], order: &[RowId]) -> Vec<Option<RowId>> {
    let mut last: Vec<Option<RowId>> = vec![None; links.len()];
    for row in order.iter().rev().copied() {
        let (known, link) = (table.row(row), links[row.index()]);
        let is_answer = known
            .answer
            .is_some_and(|answer| !table.answer(answer).is_error && !table.is_filler(answer));
        if last[row.index()].is_none() && is_answer {
            last[row.index()] = Some(row);
        }
        let Some(parent) = link.parent().filter(|_| {
            link.is_step() && !link.is_compaction() && !known.opens() && !known.is_sidechain
        }) else {
            continue;
        };
        let both = [last[parent.index()], last[row.index()]];
        last[parent.index()] =
            both.into_iter().flatten().max_by_key(|row| (table.row(*row).time, *row));
    }
    last
}
