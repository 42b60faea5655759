//! Where the conversation goes on: the leaf that the newest client takes.
//!
//! The rule of 2.1.325, as it was observed: the last end in the file; if a `last-prompt` record names a record on whose way something was said, the last
//! end that is it or hangs below it. Older clients take the newest time instead; what they would do is not asked here.

use super::Link;
use super::chain::Tree;
use crate::entry::Kind;
use crate::table::{RowId, Table};

/// The live leaf; nothing if there is no conversation.
pub(super) fn live(table: &Table, links: &[Link], tree: &Tree) -> Option<RowId> {
    let is_step = |row: RowId| {
        let own = table.row(row);
        let kind = matches!(
            own.kind,
            Kind::User | Kind::Assistant | Kind::Attachment | Kind::System | Kind::Progress
        );
        kind && !own.is_side && links[row.index()].is_step()
    };
    // Compactions start anew: they hang on nothing.
    let hangs = |row: RowId| !links[row.index()].is_compaction();
    // Whether there is a message on the way to each row, and whether the named row is.
    let mut said = vec![false; links.len()];
    let mut below = vec![false; links.len()];
    let named = table.named_leaf.and_then(|leaf| {
        table.numbered().find(|(_, row)| row.uuid == Some(leaf)).map(|(row, _)| row)
    });
    for row in tree.down() {
        let parent = links[row.index()].parent().filter(|_| hangs(row));
        let own = matches!(table.row(row).kind, Kind::User | Kind::Assistant);
        said[row.index()] = own || parent.is_some_and(|parent| said[parent.index()]);
        below[row.index()] =
            Some(row) == named || parent.is_some_and(|parent| below[parent.index()]);
    }
    // A name for something on whose way nothing was said names nothing.
    let named = named.filter(|named| said[named.index()]);
    let is_end = |row: RowId| {
        let mut children = tree.children(row).iter().copied();
        is_step(row) && said[row.index()] && !children.any(|child| is_step(child) && hangs(child))
    };
    // A record that stands twice counts where it stands last.
    let mut place: Vec<RowId> = table.numbered().map(|(row, _)| row).collect();
    for (row, link) in table.numbered().map(|(row, _)| row).zip(links) {
        if let Link::Repeat(first) = link {
            place[first.index()] = row;
        }
    }
    let last = |wanted: &dyn Fn(RowId) -> bool| {
        let ends = table.numbered().map(|(row, _)| row).filter(|row| is_end(*row) && wanted(*row));
        ends.max_by_key(|row| place[row.index()])
    };
    last(&|row| named.is_some() && below[row.index()]).or_else(|| last(&|_| true))
}
