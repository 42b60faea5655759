//! Which records a client continues with: parse, dedupe, leaf, chain.
//!
//! Works on the table alone. The steps and their order are as observed; each step is one function.

mod siblings;

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::num::NonZeroU32;

use hashbrown::HashSet;

use super::rules::{Bridge, Keeps, Leaf, NullLine, Rules, Siblings, Timeless};
use super::{Note, Refusal};
use crate::conversation::cycles::cycles;
use crate::conversation::table::{Boundary, Id, Row, RowId, Table};
use crate::format::entry::Kind;
use crate::format::input::Input;
use crate::format::limit::{FARTHEST_UP, MOST_TRIED};
use crate::format::time::Time;

/// The records that a client sees, linked.
pub(super) struct Tree<'a> {
    table: &'a Table,
    rules: Rules,
    /// The records, in the client's order.
    nodes: Vec<RowId>,
    /// The parent of each, as an index into `nodes`.
    parents: Vec<Option<usize>>,
    by_id: ById,
}

/// For each id, its index in a list; ids are small numbers.
struct ById(Vec<Option<NonZeroU32>>);

impl ById {
    fn new(table: &Table) -> Self {
        ById(vec![None; table.ids.len()])
    }

    fn get(&self, id: Id) -> Option<usize> {
        self.0[id.index()].map(|place| place.get() as usize - 1)
    }

    fn put(&mut self, id: Id, place: usize) {
        self.0[id.index()] = u32::try_from(place + 1).ok().and_then(NonZeroU32::new);
    }
}

/// The records that a client continues with.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) leaf: Option<RowId>,
    pub(super) rows: Vec<RowId>,
    /// The compaction that the chain follows.
    pub(super) boundary: Option<RowId>,
}

impl<'a> Tree<'a> {
    pub(super) fn new(table: &'a Table, rules: Rules, remarks: &mut Vec<Note>) -> Self {
        let (nodes, by_id) = nodes(table, rules);
        let parents = parents(table, rules, &nodes, &by_id, remarks);
        Tree { table, rules, nodes, parents, by_id }
    }

    fn row(&self, node: usize) -> &'a Row {
        self.table.row(self.nodes[node])
    }

    /// The records from the root, or from the last compaction, to the leaf, and those that the
    /// client adds. `at` is the leaf, if it is not the one that the client finds.
    pub(super) fn chain(&self, at: Option<RowId>, notes: &mut Vec<Note>) -> Result<Chain, Refusal> {
        if let Some(line) = self.table.null_line
            && self.rules.null_line == NullLine::Refused
        {
            return Err(Refusal::Null(line));
        }
        let leaf = match at {
            Some(row) => {
                let node = self.nodes.iter().position(|node| *node == row);
                node.ok_or(Refusal::NoEnd)?
            }
            None => self.leaf()?,
        };
        let mut chain = if self.rules.bridge == Bridge::No {
            self.walk(leaf)?
        } else {
            self.walk_over_gaps(leaf, notes)?
        };
        let untimed = |node: usize| self.row(node).time.is_none();
        let refused = match self.rules.timeless {
            Timeless::Accepted => false,
            Timeless::Leaf => untimed(leaf),
            Timeless::LastSaid => {
                let last_message =
                    chain.iter().rev().copied().find(|node| is_message(self.row(*node)));
                last_message.map_or_else(|| chain.iter().all(|node| untimed(*node)), untimed)
            }
            Timeless::LeafOrRoot => {
                // A record whose parent is missing is not a root.
                let is_root = |node: &&usize| self.row(**node).parent.is_none();
                untimed(leaf) || chain.first().filter(is_root).is_some_and(|root| untimed(*root))
            }
        };
        if refused {
            let last_message = chain.iter().rev().copied().find(|node| is_message(self.row(*node)));
            let last =
                last_message.filter(|_| self.rules.timeless == Timeless::LastSaid).unwrap_or(leaf);
            return Err(Refusal::NoTime(self.nodes[last]));
        }
        let boundary = self.cut(&mut chain, notes);
        if let Some(boundary) = boundary {
            self.keep(boundary, &mut chain, notes);
        }
        if self.rules.siblings != Siblings::Lost {
            let after = boundary.map(|boundary| boundary.row);
            self.recover(&mut chain, after, notes);
        }
        let rows = chain.into_iter().map(|node| self.nodes[node]).collect();
        let boundary = boundary.map(|boundary| boundary.row);
        Ok(Chain { leaf: Some(self.nodes[leaf]), rows, boundary })
    }

    fn leaf(&self) -> Result<usize, Refusal> {
        let is_candidate = |node: usize| {
            let row = self.row(node);
            let can_be_side = self.rules.sidechain_leaf && !self.table.is_agent;
            (can_be_side || !row.says_sidechain)
                && (self.rules.progress_leaf || row.kind != Kind::Progress)
        };
        let candidates: Vec<usize> =
            (0..self.nodes.len()).filter(|node| is_candidate(*node)).collect();
        let first = *candidates.first().ok_or(Refusal::Nothing)?;
        match self.rules.leaf {
            Leaf::NewestOrFirst if self.row(first).time.is_none() => Ok(first),
            Leaf::NewestOrFirst | Leaf::Newest => Ok(self.newest(&candidates).unwrap_or(first)),
            Leaf::LastMessage | Leaf::LastEnd => self.last_end(&candidates),
        }
    }

    /// The newest of the records that have a time; of several with the same time, the first.
    fn newest(&self, candidates: &[usize]) -> Option<usize> {
        let timed = candidates.iter().copied().filter(|node| self.row(*node).time.is_some());
        timed.reduce(
            |best, node| {
                if self.row(node).time > self.row(best).time { node } else { best }
            },
        )
    }

    fn last_end(&self, candidates: &[usize]) -> Result<usize, Refusal> {
        let is_progress = |node: usize| self.row(node).kind == Kind::Progress;
        let mut has_child = vec![false; self.nodes.len()];
        for node in (0..self.nodes.len()).filter(|node| !is_progress(*node)) {
            if self.row(node).says_sidechain && !self.rules.counts_sidechains {
                continue;
            }
            // The children of a `progress` record count as children of its parent.
            let mut at = self.parents[node];
            while let Some(here) = at.filter(|here| !has_child[*here]) {
                has_child[here] = true;
                at = self.parents[here].filter(|_| is_progress(here));
            }
        }
        let named = self.table.named_leaf.filter(|_| self.rules.leaf_is_named);
        let named = named.and_then(|id| self.by_id.get(id));
        // Whether there is a message, and whether the named record is, on the path up from a node;
        // determined once per node.
        let mut known: Vec<Option<[bool; 2]>> = vec![None; self.nodes.len()];
        let mut above = |node: usize| {
            let mut way = Vec::new();
            let mut at = Some(node);
            let mut seen = HashSet::new();
            let mut found = [false, false];
            while let Some(here) = at {
                if let Some(of_here) = known[here] {
                    found = of_here;
                    break;
                }
                if !seen.insert(here) {
                    break;
                }
                way.push(here);
                at = self.parents[here];
            }
            for here in way.into_iter().rev() {
                found = [found[0] || is_message(self.row(here)), found[1] || Some(here) == named];
                known[here] = Some(found);
            }
            found
        };
        // A named record counts only if there is a message on the path up from it.
        let named = named.filter(|node| above(*node)[0]);
        let is_end = |node: &usize| {
            let counts = self.rules.leaf == Leaf::LastMessage && is_message(self.row(*node));
            counts || !has_child[*node]
        };
        let mut ends = candidates.iter().rev().copied().filter(is_end);
        let found = ends.clone().find(|node| {
            let [has_message, below] = above(*node);
            has_message && (named.is_none() || below)
        });
        // A session with only local commands is resumed too.
        let is_event_enough = self.rules.resumes_events && named.is_none();
        let found = found.or_else(|| ends.next().filter(|_| is_event_enough));
        let is_named = |node: &usize| self.rules.resumes_events || self.row(*node).uuid.is_some();
        found.filter(is_named).ok_or(Refusal::NoEnd)
    }

    /// The path from the leaf up to a root, reversed.
    fn walk(&self, leaf: usize) -> Result<Vec<usize>, Refusal> {
        let mut chain = Vec::new();
        let mut seen = vec![false; self.nodes.len()];
        let mut at = Some(leaf);
        while let Some(here) = at {
            if std::mem::replace(&mut seen[here], true) {
                if !self.rules.breaks_loops {
                    return Err(Refusal::Loop(self.nodes[here]));
                }
                break;
            }
            chain.push(here);
            at = self.parents[here];
        }
        chain.reverse();
        Ok(chain)
    }

    /// Like `walk`, for versions that bridge gaps: each once they reach it, and never to a record
    /// that was on the way. Some versions take the end of a loop for a gap.
    fn walk_over_gaps(&self, leaf: usize, notes: &mut [Note]) -> Result<Vec<usize>, Refusal> {
        let times = OnceCell::new();
        let mut chain = vec![leaf];
        let mut seen = vec![false; self.nodes.len()];
        seen[leaf] = true;
        let mut here = leaf;
        loop {
            let row = self.row(here);
            let parent = row.parent.and_then(|parent| self.by_id.get(parent));
            let next = match parent {
                Some(parent) if !seen[parent] => Some(parent),
                Some(_) if !self.rules.breaks_loops => return Err(Refusal::Loop(self.nodes[here])),
                Some(_) if !self.rules.bridges_loops => None,
                None if row.parent.is_none() => None,
                _ => {
                    let times = times.get_or_init(|| times_of(self.table, self.rules, &self.nodes));
                    bridge(row.time, times, |node| !seen[node])
                }
            };
            if next != self.parents[here] {
                self.correct(here, next, notes);
            }
            let Some(next) = next else { break };
            seen[next] = true;
            chain.push(next);
            here = next;
        }
        chain.reverse();
        Ok(chain)
    }

    /// A gap was bridged otherwise than it was noted.
    fn correct(&self, gap: usize, to: Option<usize>, notes: &mut [Note]) {
        for note in notes {
            if let Note::Missing { row, bridged } = note
                && *row == self.nodes[gap]
            {
                *bridged = to.map(|to| self.nodes[to]);
            }
        }
    }

    /// Cuts the chain after its last compaction.
    fn cut(&self, chain: &mut Vec<usize>, notes: &mut Vec<Note>) -> Option<&'a Boundary> {
        let boundary = |node: &usize| self.table.boundary(self.nodes[*node]);
        let at = chain.iter().rposition(|node| boundary(node).is_some())?;
        let found = boundary(&chain[at]);
        chain.drain(..=at);
        notes.extend(found.map(|found| Note::Compacted { boundary: found.row }));
        found
    }

    /// Inserts the records that the compaction keeps verbatim.
    fn keep(&self, boundary: &Boundary, chain: &mut Vec<usize>, notes: &mut Vec<Note>) {
        let node = |id: &Id| self.by_id.get(*id);
        let messages = boundary.messages.as_ref().filter(|_| self.rules.kept == Keeps::Messages);
        let segment = boundary.segment.as_ref().filter(|_| self.rules.kept != Keeps::Nothing);
        let (kept, anchor): (Vec<usize>, _) = if let Some(messages) = messages {
            (messages.uuids.iter().filter_map(node).collect(), messages.anchor)
        } else if let Some(segment) = segment {
            let mut way = Vec::new();
            let mut at = node(&segment.tail);
            let mut seen = HashSet::new();
            while let Some(here) = at.filter(|here| seen.insert(*here)) {
                way.push(here);
                at = if self.row(here).uuid == Some(segment.head) {
                    None
                } else {
                    self.parents[here]
                };
            }
            way.reverse();
            (way, segment.anchor)
        } else {
            return;
        };
        let held: HashSet<usize> = chain.iter().copied().collect();
        let kept: Vec<usize> = kept.into_iter().filter(|node| !held.contains(node)).collect();
        let anchor = anchor.as_ref().and_then(node);
        let at = chain.iter().position(|node| Some(*node) == anchor).map_or(0, |at| at + 1);
        notes.extend(
            (!kept.is_empty())
                .then_some(Note::Kept { boundary: boundary.row, records: kept.len() }),
        );
        chain.splice(at..at, kept);
    }
}

/// The record that a client resumes from; `None` if there is none. This is the only implementation
/// of that rule: everything that shows, checks or changes a session uses it.
pub(crate) fn leaf(table: &Table, rules: Rules) -> Option<RowId> {
    let tree = Tree::new(table, rules, &mut Vec::new());
    tree.leaf().ok().map(|node| tree.nodes[node])
}

/// The records that a client continues with, or why there are none.
pub(super) fn chain(table: &Table, rules: Rules) -> Result<Chain, Refusal> {
    let mut notes = Vec::new();
    Tree::new(table, rules, &mut notes).chain(None, &mut notes)
}

/// Whether the record is a message.
pub(super) fn is_message(row: &Row) -> bool {
    matches!(row.kind, Kind::User | Kind::Assistant)
}

pub(super) fn is_result(row: &Row) -> bool {
    row.kind == Kind::User && row.input == Some(Input::ToolResult)
}

/// The records that the client uses as links, each id once.
fn nodes(table: &Table, rules: Rules) -> (Vec<RowId>, ById) {
    let mut slots: Vec<Option<RowId>> = Vec::new();
    // Records without an id share one slot.
    let mut nameless: Option<usize> = None;
    let mut by_id = ById::new(table);
    for (id, row) in table.numbered() {
        if rules.null_line == NullLine::Ends && table.null_line.is_some_and(|null| row.line > null)
        {
            break;
        }
        let links = match row.kind {
            Kind::User | Kind::Assistant | Kind::Attachment | Kind::System => true,
            Kind::Progress => rules.progress_links,
            _ => false,
        };
        if !rules.reads(row.placed) || !links || !row.is_native {
            continue;
        }
        match row.uuid.map_or(nameless, |uuid| by_id.get(uuid)) {
            Some(slot) if !rules.repeats_move => slots[slot] = Some(id),
            known => {
                if let Some(slot) = known {
                    slots[slot] = None;
                }
                match row.uuid {
                    Some(uuid) => by_id.put(uuid, slots.len()),
                    None => nameless = Some(slots.len()),
                }
                slots.push(Some(id));
            }
        }
    }
    let nodes: Vec<RowId> = slots.into_iter().flatten().collect();
    for (node, row) in nodes.iter().enumerate() {
        if let Some(uuid) = table.row(*row).uuid {
            by_id.put(uuid, node);
        }
    }
    (nodes, by_id)
}

/// The parent of each record.
fn parents(
    table: &Table,
    rules: Rules,
    nodes: &[RowId],
    by_id: &ById,
    remarks: &mut Vec<Note>,
) -> Vec<Option<usize>> {
    let parent = |id: &RowId| table.row(*id).parent.and_then(|parent| by_id.get(parent));
    let mut parents: Vec<Option<usize>> = nodes.iter().map(parent).collect();
    let gaps = nodes
        .iter()
        .enumerate()
        .filter(|(node, id)| parents[*node].is_none() && table.row(**id).parent.is_some());
    let gaps: Vec<usize> = gaps.map(|(node, _)| node).collect();
    let times = OnceCell::new();
    let nearest = |node: usize, is_fit: &dyn Fn(usize) -> bool| {
        let times = times.get_or_init(|| times_of(table, rules, nodes));
        let is_fit = |other| other != node && is_fit(other);
        (rules.bridge != Bridge::No).then(|| bridge(table.row(nodes[node]).time, times, is_fit))?
    };
    // What is bridged here only decides what is an end: the client bridges a gap anew once it
    // reaches it on the way up (`walk_over_gaps`). Versions that cut cycles cut those that a bridge
    // closes, too.
    let avoids = rules.bridge == Bridge::Main && !rules.cuts_loops;
    for node in gaps {
        let bridged = nearest(node, &|other| !avoids || !hangs_on(&parents, other, node));
        parents[node] = bridged;
        remarks.push(Note::Missing { row: nodes[node], bridged: bridged.map(|to| nodes[to]) });
    }
    if rules.cuts_loops {
        // Cuts each cycle, also one that a bridge has closed, before its first record, so that it
        // has an end. What was cut is a gap.
        for cut in cycles(parents.len(), |node| parents[node]) {
            parents[cut] = None;
            parents[cut] = nearest(cut, &|other| !hangs_on(&parents, other, cut));
        }
    }
    parents
}

/// The records that a gap may be bridged to, by time; of several with the same time, the last in
/// the file comes first.
fn times_of(table: &Table, rules: Rules, nodes: &[RowId]) -> Vec<(Time, usize)> {
    let known = nodes.iter().enumerate().filter_map(|(node, id)| {
        let row = table.row(*id);
        let is_sidechain = rules.bridge == Bridge::Main && row.says_sidechain;
        (row.kind != Kind::Progress && !is_sidechain).then_some((row.time?, node))
    });
    let mut times: Vec<(Time, usize)> = known.collect();
    times.sort_unstable_by_key(|(time, node)| (*time, Reverse(*node)));
    times
}

/// The newest record that is not newer than `time`, and not much older; of several with the same
/// time, the first in the file.
fn bridge(
    time: Option<Time>,
    times: &[(Time, usize)],
    is_fit: impl Fn(usize) -> bool,
) -> Option<usize> {
    let time = time?;
    let end = times.partition_point(|(known, _)| *known <= time);
    let near = times[..end].iter().rev().take_while(|(known, _)| time.0 - known.0 <= BRIDGED);
    near.map(|(_, node)| *node).take(MOST_TRIED).find(|node| is_fit(*node))
}

/// How much older the record that a gap is bridged to may be, in milliseconds.
const BRIDGED: i64 = 5_000;

/// Whether one record is a descendant of another, as far up as the search goes.
fn hangs_on(parents: &[Option<usize>], below: usize, above: usize) -> bool {
    let mut at = parents[below];
    for _ in 0..FARTHEST_UP {
        match at {
            Some(here) if here == above => return true,
            Some(here) => at = parents[here],
            None => return false,
        }
    }
    false
}
