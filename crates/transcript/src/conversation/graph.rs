//! The graph of records: parents, chains, branches.
//!
//! `docs/conversation.md` defines which record is the parent of which, and what a branch is.
//! Invariants: every row is in exactly one chain; nothing fails, whatever the ids are: a cycle is
//! cut, and a missing parent is bridged; time and memory are linear in the number of rows; if ids
//! link records, their order in the file does not matter.

mod chain;
mod link;
mod progress;
mod repeat;

pub use chain::{Chain, ChainId, Start};
pub use link::Link;
pub(crate) use repeat::repeats;

use crate::conversation::table::{Boundary, Id, RowId, Table};
use crate::format::entry::Kind;
use crate::format::input::Input;
use crate::format::limit::{BRANCHES_UP, LONGEST_SEGMENT};

/// The records of a table, linked.
#[derive(Debug, Default)]
pub struct Graph {
    /// The parent of each row, and how it is known.
    links: Vec<Link>,
    /// All rows, parents before children, each chain in one piece.
    order: Vec<RowId>,
    /// The chain of each row.
    chain_of: Vec<ChainId>,
    chains: Vec<Chain>,
    /// The rows where the conversation branches.
    branches: Vec<RowId>,
    /// The first row with each id.
    index: Vec<Option<RowId>>,
}

impl Graph {
    /// Links the records of a table.
    pub fn new(table: &Table) -> Graph {
        let index = link::index(table);
        let mut links = link::links(table, &index);
        progress::reattach(table, &mut links);
        let tree = chain::Tree::new(&links);
        let chain::Division { order, chain_of, chains, branches } =
            chain::chains(table, &links, &tree);
        Graph { links, order, chain_of, chains, branches, index }
    }

    /// The parent of a row, and how it is known.
    pub fn link(&self, row: RowId) -> Link {
        self.links[row.index()]
    }

    /// The chains, in the file order of their first rows.
    pub fn chains(&self) -> &[Chain] {
        &self.chains
    }

    /// The first row with that id.
    pub fn row_of(&self, id: Id) -> Option<RowId> {
        self.index[id.index()]
    }

    /// All chains with their numbers.
    pub fn numbered(&self) -> impl Iterator<Item = (ChainId, &Chain)> {
        let ids = (0..u32::MAX).map(ChainId);
        ids.zip(&self.chains)
    }

    /// The chain with that number.
    pub fn chain(&self, id: ChainId) -> &Chain {
        &self.chains[id.index()]
    }

    /// The chain that a row is in.
    pub fn chain_of(&self, row: RowId) -> ChainId {
        self.chain_of[row.index()]
    }

    /// The rows of a chain, parents before children.
    pub fn rows(&self, id: ChainId) -> &[RowId] {
        &self.order[self.chain(id).rows.clone()]
    }

    /// All rows, parents before children.
    pub(crate) fn order(&self) -> &[RowId] {
        &self.order
    }

    /// The rows where the conversation branches.
    pub fn branches(&self) -> &[RowId] {
        &self.branches
    }

    /// The number of compactions: boundaries, and in old files summaries without a boundary.
    pub fn compactions(&self, table: &Table) -> usize {
        let alone = self.chains.iter().filter(|chain| {
            matches!(chain.start, Start::CompactionGuess(_))
                && table.row(chain.first).input == Some(Input::Summary)
        });
        table.boundaries.len() + alone.count()
    }

    /// Where the conversation that is shown ends: at that leaf; if there is none, at the last
    /// message.
    pub(crate) fn end(&self, table: &Table, leaf: Option<RowId>) -> Option<RowId> {
        let is_message = |row: &RowId| {
            let known = table.row(*row);
            matches!(known.kind, Kind::User | Kind::Assistant)
                && !known.is_sidechain
                && self.link(*row).is_step()
        };
        match leaf.map(|leaf| (leaf, self.link(leaf))) {
            // A repeated record is shown at its first place.
            Some((_, Link::Repeat(first))) => Some(first),
            Some((leaf, _)) => Some(leaf),
            None => table.numbered().map(|(row, _)| row).rfind(is_message),
        }
    }

    /// The chains from a root to that one.
    pub fn path(&self, to: ChainId) -> Vec<ChainId> {
        let mut path = vec![to];
        let mut chain = self.chain(to);
        while let Some(before) = chain.start.after() {
            path.push(self.chain_of(before));
            chain = self.chain(self.chain_of(before));
        }
        path.reverse();
        path
    }

    /// Whether `above` is on the path to `below`, or is the same chain. Only a limited number of
    /// branches up is searched.
    pub(crate) fn is_above(&self, above: ChainId, below: ChainId) -> bool {
        let mut at = Some(below);
        for _ in 0..BRANCHES_UP {
            match at {
                Some(here) if here == above => return true,
                Some(here) => at = self.chain(here).start.after().map(|row| self.chain_of(row)),
                None => return false,
            }
        }
        false
    }

    /// The rows that a compaction keeps word for word and that are in the file.
    pub fn kept(&self, boundary: &Boundary) -> Vec<RowId> {
        let row = |id: &Id| self.index[id.index()];
        if let Some(messages) = &boundary.messages {
            return messages.uuids.iter().filter_map(row).collect();
        }
        let Some(segment) = &boundary.segment else { return Vec::new() };
        let (head, mut at) = (row(&segment.head), row(&segment.tail));
        let mut found = Vec::new();
        while let Some(here) = at.filter(|_| found.len() < LONGEST_SEGMENT) {
            found.push(here);
            at = if at == head { None } else { self.link(here).parent() };
        }
        found.reverse();
        found
    }
}

#[cfg(test)]
#[path = "graph_tests.rs"]
mod tests;
