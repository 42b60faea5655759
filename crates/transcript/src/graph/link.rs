//! What each record hangs on.

use hashbrown::HashMap;

use crate::entry::Kind;
use crate::input::Input;
use crate::loops::loops;
use crate::table::{Boundary, Id, Row, RowId, Table};

/// What a record hangs on, and how that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// On nothing: it says so itself.
    Root,
    /// On nothing: the parent that it names is not in the file, and nothing stands before it.
    Lost,
    /// On nothing: its parents lead back to it.
    Loop,
    /// On the record that it names.
    Parent(RowId),
    /// On the record before it: the one that it names is not in the file.
    Bridged(RowId),
    /// On the record before it: the dialect has no ids.
    Order(RowId),
    /// On the last answer of the turn before: the record that it names is progress of that turn.
    Behind(RowId),
    /// On the last record before the compaction.
    Compaction(RowId),
    /// The same, but nothing says which record that was.
    CompactionGuess(RowId),
    /// It has the id of an earlier record.
    Repeat(RowId),
    /// It has no id and is no part of the conversation.
    Aside(RowId),
}

impl Link {
    /// What it hangs on.
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

    /// Whether it starts anew after a compaction.
    pub fn is_compaction(self) -> bool {
        matches!(self, Link::Compaction(_) | Link::CompactionGuess(_))
    }

    /// Whether the record is a step of the conversation, and not beside it.
    pub fn is_step(self) -> bool {
        !matches!(self, Link::Repeat(_) | Link::Aside(_))
    }
}

/// The first row of each id that is a record's own.
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

/// What each row hangs on. No loops are left.
pub(super) fn links(table: &Table, index: &[Option<RowId>]) -> Vec<Link> {
    let mut boundaries = table.boundaries.iter().peekable();
    // The steps before a record in the file, of the main conversation and of sidechains.
    let mut before: [Option<RowId>; 2] = [None, None];
    let (mut last, mut first) = (None, None);
    // Records that name one parent which is not there hang on one place.
    let mut bridges: HashMap<Id, RowId> = HashMap::new();
    let mut early = Vec::new();
    let mut links = Vec::with_capacity(table.rows().len());
    for (id, row) in table.numbered() {
        let boundary = boundaries.next_if(|boundary| boundary.row == id);
        let side = usize::from(row.is_side);
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
    // What came before there was anything to hang on goes with the first step, or with the first of them.
    let first = first.or(early.first().copied());
    for id in early.into_iter().filter(|id| Some(*id) != first) {
        links[id.index()] = first.map_or(Link::Root, Link::Aside);
    }
    for cut in loops(links.len(), |row| links[row].parent().map(RowId::index)) {
        links[cut] = Link::Loop;
    }
    links
}

/// What a record with an id of its own hangs on.
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
