//! Chains: the records between two branch points.
//!
//! Most records with several children are not branch points (parallel calls, progress, hooks). A
//! *voice* is an input that opens a turn, an interruption, or an answer. A record is a branch point
//! if two children lead to different voices, or to copies of one voice that lead to different
//! voices. For each row the first three voices below it are kept, which is enough to leave out the
//! answer that a branch point itself belongs to.

use std::ops::Range;

use hashbrown::{HashMap, HashSet};

use super::Link;
use crate::conversation::table::{AnswerId, RowId, Table};
use crate::format::entry::Kind;
use crate::format::input::Input;

/// The number of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChainId(pub u32);

impl ChainId {
    /// The number as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Records that follow each other without a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// How it begins.
    pub start: Start,
    /// Whether it belongs to a sub-agent.
    pub is_sidechain: bool,
    /// The first of its rows, the ancestor of the others.
    pub first: RowId,
    /// The last row in it that is a step of the conversation.
    pub last: RowId,
    pub(super) rows: Range<usize>,
}

/// How a chain begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With nothing before it.
    Root,
    /// With nothing before it, because the parent that it names is not in the file.
    Lost,
    /// With nothing before it, because its parent links form a cycle.
    Loop,
    /// As one of several branches that continue from that row.
    Branch(RowId),
    /// After a compaction; the row is the last one before it.
    Compaction(RowId),
    /// After a compaction; the row is probably the last one before it.
    CompactionGuess(RowId),
    /// As a sidechain whose parent is that row.
    Sidechain(RowId),
}

impl Start {
    /// The row that it continues from.
    pub fn after(self) -> Option<RowId> {
        match self {
            Start::Root | Start::Lost | Start::Loop => None,
            Start::Branch(row)
            | Start::Compaction(row)
            | Start::CompactionGuess(row)
            | Start::Sidechain(row) => Some(row),
        }
    }
}

/// The children of each row.
#[derive(Debug)]
pub(super) struct Tree {
    /// Where the children of each row begin in `children`.
    starts: Vec<u32>,
    children: Vec<RowId>,
    pub(super) roots: Vec<RowId>,
}

impl Tree {
    /// Collects the children of each row, in file order.
    pub(super) fn new(links: &[Link]) -> Tree {
        let mut starts = vec![0; links.len() + 1];
        let mut roots = Vec::new();
        for (row, link) in rows(links.len()).zip(links) {
            match link.parent() {
                Some(parent) => starts[parent.index() + 1] += 1,
                None => roots.push(row),
            }
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut next = starts.clone();
        let mut children = vec![RowId(0); links.len() - roots.len()];
        for (row, link) in rows(links.len()).zip(links) {
            if let Some(parent) = link.parent() {
                let at = &mut next[parent.index()];
                children[*at as usize] = row;
                *at += 1;
            }
        }
        Tree { starts, children, roots }
    }

    pub(super) fn children(&self, row: RowId) -> &[RowId] {
        let at = row.index();
        &self.children[self.starts[at] as usize..self.starts[at + 1] as usize]
    }

    /// All rows, parents before children.
    pub(super) fn down(&self) -> Vec<RowId> {
        let mut order = self.roots.clone();
        let mut at = 0;
        while let Some(row) = order.get(at) {
            order.extend_from_slice(self.children(*row));
            at += 1;
        }
        order
    }
}

fn rows(count: usize) -> impl Iterator<Item = RowId> {
    (0..u32::try_from(count).unwrap_or(u32::MAX)).map(RowId)
}

/// An input or an answer that continues the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Voice {
    Input(RowId),
    Answer(AnswerId),
}

/// The first voices at and below a row, the nearest first, each once.
#[derive(Clone, Copy, Debug, Default)]
struct Voices([Option<Voice>; 3]);

impl Voices {
    fn add(&mut self, voice: Option<Voice>) {
        if voice.is_some()
            && !self.0.contains(&voice)
            && let Some(free) = self.0.iter_mut().find(|slot| slot.is_none())
        {
            *free = voice;
        }
    }

    /// The nearest two voices except this answer: the one that continues, and the one after that.
    fn beside(self, answer: Option<AnswerId>) -> Way {
        let answer_voice = answer.map(Voice::Answer);
        let mut others = self.0.into_iter().flatten().filter(|voice| Some(*voice) != answer_voice);
        [others.next(), others.next()]
    }
}

/// The voice that continues from a record, and the one after that.
type Way = [Option<Voice>; 2];

/// Whether two continuations branch: their voices differ, or are one voice whose copies lead to
/// different ones.
fn part(one: Way, other: Way) -> bool {
    match (one, other) {
        ([Some(one), after], [Some(other), later]) => {
            one != other || matches!((after, later), (Some(after), Some(later)) if after != later)
        }
        _ => false,
    }
}

fn voice(table: &Table, id: RowId) -> Option<Voice> {
    let row = table.row(id);
    let speaks = row.opens() || (row.input == Some(Input::Interrupt) && row.kind == Kind::User);
    row.answer.map(Voice::Answer).or_else(|| speaks.then_some(Voice::Input(id)))
}

/// The voices at and below each row. The voices of a sidechain do not count for its parent.
fn voices(table: &Table, links: &[Link], tree: &Tree) -> Vec<Voices> {
    let mut voices = vec![Voices::default(); links.len()];
    for row in tree.down().into_iter().rev() {
        // A repeated record says nothing new.
        let mut row_voices = Voices::default();
        if links[row.index()].is_step() {
            row_voices.add(voice(table, row));
        }
        for child in tree.children(row) {
            if table.row(*child).is_sidechain == table.row(row).is_sidechain {
                let below = voices[child.index()].0;
                for voice in below {
                    row_voices.add(voice);
                }
            }
        }
        voices[row.index()] = row_voices;
    }
    voices
}

/// The result of [`chains`].
pub(super) struct Division {
    pub(super) order: Vec<RowId>,
    pub(super) chain_of: Vec<ChainId>,
    pub(super) chains: Vec<Chain>,
    pub(super) branches: Vec<RowId>,
}

/// Divides the rows into chains.
pub(super) fn chains(table: &Table, links: &[Link], tree: &Tree) -> Division {
    let voices = voices(table, links, tree);
    let mut found =
        ChainSearch { table, chain_of: vec![ChainId(u32::MAX); links.len()], chains: Vec::new() };
    let mut branches = Vec::new();
    let mut order = Vec::with_capacity(links.len());
    let mut open: Vec<RowId> = Vec::new();
    for root in tree.roots.iter().rev() {
        open.push(*root);
    }
    let mut quiet: Vec<RowId> = Vec::new();
    let mut loud: Vec<RowId> = Vec::new();
    while let Some(row) = open.pop() {
        if links[row.index()].parent().is_none() {
            let start = match links[row.index()] {
                Link::Lost => Start::Lost,
                Link::Loop => Start::Loop,
                _ => Start::Root,
            };
            found.begin(row, start);
        }
        order.push(row);
        let parent_row = table.row(row);
        let on = |child: RowId| {
            if table.row(child).is_sidechain == parent_row.is_sidechain {
                voices[child.index()].beside(parent_row.answer)
            } else {
                [None, None]
            }
        };
        let children = tree.children(row);
        let mut ahead = children.iter().map(|child| on(*child)).filter(|way| way[0].is_some());
        let first = ahead.next().unwrap_or_default();
        // The first continuation whose voice leads to another represents all copies of that voice.
        let mut lead = first;
        let is_branch = ahead.any(|way| {
            let parts = part(lead, way);
            if lead[1].is_none() && way[0] == lead[0] {
                lead = way;
            }
            parts
        });
        if is_branch {
            branches.push(row);
        }
        let mut ways: HashMap<Way, ChainId> = HashMap::new();
        let goes_on: HashSet<Voice> = if is_branch {
            let long = children.iter().map(|child| on(*child)).filter(|way| way[1].is_some());
            long.filter_map(|way| way[0]).collect()
        } else {
            HashSet::new()
        };
        for child in children {
            let link = links[child.index()];
            let way = on(*child);
            // A copy that leads nowhere, of a voice that continues elsewhere, is not a branch of
            // its own.
            let is_way = way[0].is_some_and(|voice| way[1].is_some() || !goes_on.contains(&voice));
            let chain = match way {
                _ if table.row(*child).is_sidechain != parent_row.is_sidechain => {
                    found.begin(*child, Start::Sidechain(row))
                }
                _ if link.is_compaction() => {
                    let guess = matches!(link, Link::CompactionGuess(_));
                    let start =
                        if guess { Start::CompactionGuess(row) } else { Start::Compaction(row) };
                    found.begin(*child, start)
                }
                _ if is_branch && is_way => {
                    *ways.entry(way).or_insert_with(|| found.begin(*child, Start::Branch(row)))
                }
                _ => found.chain_of[row.index()],
            };
            found.chain_of[child.index()] = chain;
            if way[0].is_some() { loud.push(*child) } else { quiet.push(*child) }
        }
        // Children that lead nowhere come first, then those that continue.
        open.extend(loud.drain(..).rev());
        open.extend(quiet.drain(..).rev());
    }
    branches.sort_unstable();
    let (chain_of, chains) = found.numbered();
    let (order, chains) = in_pieces(&order, &chain_of, chains, links);
    Division { order, chain_of, chains, branches }
}

struct ChainSearch<'a> {
    table: &'a Table,
    chain_of: Vec<ChainId>,
    chains: Vec<Chain>,
}

impl ChainSearch<'_> {
    fn begin(&mut self, first: RowId, start: Start) -> ChainId {
        let id = ChainId(u32::try_from(self.chains.len()).unwrap_or(u32::MAX));
        let is_sidechain = self.table.row(first).is_sidechain;
        self.chains.push(Chain { start, is_sidechain, first, last: first, rows: 0..0 });
        self.chain_of[first.index()] = id;
        id
    }

    /// The chains in the order of their first rows, whatever order they were found in.
    fn numbered(self) -> (Vec<ChainId>, Vec<Chain>) {
        let mut by_first: Vec<usize> = (0..self.chains.len()).collect();
        by_first.sort_unstable_by_key(|chain| self.chains[*chain].first);
        let mut number = vec![ChainId(0); self.chains.len()];
        for (new, old) in by_first.iter().enumerate() {
            number[*old] = ChainId(u32::try_from(new).unwrap_or(u32::MAX));
        }
        let chain_of = self.chain_of.iter().map(|chain| number[chain.index()]).collect();
        let chains = by_first.into_iter().map(|old| self.chains[old].clone()).collect();
        (chain_of, chains)
    }
}

/// The same order, with the rows of each chain together.
fn in_pieces(
    order: &[RowId],
    chain_of: &[ChainId],
    mut chains: Vec<Chain>,
    links: &[Link],
) -> (Vec<RowId>, Vec<Chain>) {
    let mut counts = vec![0; chains.len()];
    for chain in chain_of {
        counts[chain.index()] += 1;
    }
    let mut at = 0;
    for (chain, count) in chains.iter_mut().zip(counts) {
        chain.rows = at..at;
        at += count;
    }
    let mut pieces = vec![RowId(0); order.len()];
    for row in order {
        let chain = &mut chains[chain_of[row.index()].index()];
        pieces[chain.rows.end] = *row;
        chain.rows.end += 1;
        if links[row.index()].is_step() {
            chain.last = *row;
        }
    }
    (pieces, chains)
}
