//! The parent of each record.

use hashbrown::HashMap;

use crate::conversation::cycles::cycles;
use crate::conversation::table::{Boundary, Id, Row, RowId, Table};
use crate::format::entry::Kind;
use crate::format::input::Input;

/// The parent of a record, and how it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// None: the record says so itself.
    Root,
    /// None: the parent that it names is not in the file, and no record is before it.
    Lost,
    /// None: its parent links form a cycle.
    Loop,
    /// The record that it names.
    Parent(RowId),
    /// The record before it, because the one that it names is not in the file.
    Bridged(RowId),
    /// The record before it, because the dialect has no ids.
    Order(RowId),
    /// The last answer of the turn before, because the record that it names is progress of that
    /// turn.
    Behind(RowId),
    /// The last record before the compaction.
    Compaction(RowId),
    /// Probably the last record before the compaction: nothing says which one that was.
    CompactionGuess(RowId),
    /// The earlier record with the same id.
    Repeat(RowId),
    /// The record before it; it has no id and is not part of the conversation.
    Aside(RowId),
}

impl Link {
    /// The parent, if there is one.
    pub fn parent(self) -> Option<RowId> {
        match self {
            Link::Root | Link::Lost | Link::Loop => None,
            Link::Parent(row)
            | Link::Bridged(row)
            | Link::Order(row)
            | Link::Behind(row)
            | Link::Compaction(row)
            | Link::CompactionGuess(row)
            | Link::Repeat(row)
            | Link::Aside(row) => Some(row),
        }
    }

    /// Whether it begins anew after a compaction.
    pub fn is_compaction(self) -> bool {
        matches!(self, Link::Compaction(_) | Link::CompactionGuess(_))
    }

    /// Whether the record is a step of the conversation, and not beside it.
    pub fn is_step(self) -> bool {
        !matches!(self, Link::Repeat(_) | Link::Aside(_))
    }
}

/// The first row with each id, for ids that are a record's own.
pub(super) fn index(table: &Table) -> Vec<Option<RowId>> {
    let mut index = vec![None; table.ids.len()];
    for (id, row) in table.numbered() {
        if let Some(uuid) = row.uuid
            && index[uuid.index()].is_none()
        {
            index[uuid.index()] = Some(id);
        }
    }
    index
}

/// The parent of each row, without cycles.
pub(super) fn links(table: &Table, index: &[Option<RowId>]) -> Vec<Link> {
    let mut boundaries = table.boundaries.iter().peekable();
    // The last step before a record in the file, of the main conversation and of sidechains.
    let mut before: [Option<RowId>; 2] = [None, None];
    let (mut last, mut first) = (None, None);
    // Records that name the same missing parent get the same parent instead.
    let mut bridges: HashMap<Id, RowId> = HashMap::new();
    let mut early = Vec::new();
    let mut links = Vec::with_capacity(table.rows().len());
    for (id, row) in table.numbered() {
        let boundary = boundaries.next_if(|boundary| boundary.row == id);
        let side = usize::from(row.is_sidechain);
        let link = match row.uuid {
            Some(uuid) if index[uuid.index()] != Some(id) => {
                Link::Repeat(index[uuid.index()].unwrap_or(id))
            }
            Some(_) => {
                let known = row.parent.and_then(|parent| bridges.get(&parent)).copied();
                named(row, boundary, index, known.or(before[side]))
            }
            None if matches!(row.kind, Kind::User | Kind::Assistant) => {
                before[side].map_or(Link::Root, Link::Order)
            }
            None => last.map_or(Link::Root, Link::Aside),
        };
        if let (Link::Bridged(to), Some(parent)) = (link, row.parent) {
            bridges.insert(parent, to);
        }
        if row.uuid.is_none() && link == Link::Root && row.answer.is_none() && row.input.is_none() {
            early.push(id);
        } else if link.is_step() {
            before[side] = Some(id);
            last = Some(id);
            first = first.or(last);
        }
        links.push(link);
    }
    // Records before the first step become children of it; without any step, of the first of them.
    let first = first.or(early.first().copied());
    for id in early.into_iter().filter(|id| Some(*id) != first) {
        links[id.index()] = first.map_or(Link::Root, Link::Aside);
    }
    for cut in cycles(links.len(), |row| links[row].parent().map(RowId::index)) {
        links[cut] = Link::Loop;
    }
    links
}

/// The parent of a record that has an id of its own.
fn named(
    row: &Row,
    boundary: Option<&Boundary>,
    index: &[Option<RowId>],
    before: Option<RowId>,
) -> Link {
    if let Some(parent) = row.parent {
        return match (index[parent.index()], before) {
            (Some(parent), _) => Link::Parent(parent),
            (None, Some(before)) => Link::Bridged(before),
            (None, None) => Link::Lost,
        };
    }
    let logical = boundary.and_then(|boundary| index[boundary.logical_parent?.index()]);
    match (logical, before) {
        (Some(logical), _) => Link::Compaction(logical),
        (None, Some(before)) if boundary.is_some() || row.input == Some(Input::Summary) => {
            Link::CompactionGuess(before)
        }
        _ => Link::Root,
    }
}
