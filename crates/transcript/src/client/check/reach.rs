//! How much of the conversation a client continues with, and why the rest is lost.
//!
//! The measure is the real structure of the conversation
//! ([`Graph`](crate::conversation::graph::Graph)), which joins parallel calls, bridges gaps and
//! continues across compactions. What was abandoned on purpose (a rewind) or summed up (a
//! compaction) is not lost.

use hashbrown::{HashMap, HashSet};

use crate::client::history::{History, Note, NullLine, Rules, SentBlock};
use crate::conversation::Conversation;
use crate::conversation::graph::{ChainId, Link, Start};
use crate::conversation::table::{RowId, Table};
use crate::format::entry::Kind;
use crate::format::input::Input;

/// The messages of a session, counted by records, by what happens to them. API errors and fillers
/// do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Reach {
    /// All messages.
    pub recorded: usize,
    /// Messages that are sent.
    pub sent: usize,
    /// Messages that a compaction has summed up.
    pub summed_up: usize,
    /// Messages that were abandoned on purpose: rewound, or never answered.
    pub left: usize,
    /// Messages that are lost.
    pub lost: usize,
}

/// Why messages are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Reason {
    /// They follow the record that the client continues from.
    BehindLeaf,
    /// They are beside the path that the client takes.
    Beside,
    /// The path begins after them: a parent is missing.
    Cut,
    /// They are on another branch, which was written to after the live branch began.
    OtherBranch,
    /// They are on another branch, and the live branch has no prompt and no answer.
    SilentBranch,
    /// They descend from another root.
    OtherRoot,
    /// They share a line with other data.
    Glued,
    /// They are after the line `null`.
    BehindNull,
    /// Their record type belongs to a dialect that no client reads.
    Foreign,
    /// They have no id.
    NoUuid,
}

/// The messages that are lost for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) count: usize,
    pub(super) first: RowId,
    pub(super) last: RowId,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Left,
    Lost(Reason),
}

/// Counts what happens to each message, and why messages are lost.
pub(super) fn reach(
    conversation: &Conversation,
    found: &History,
    rules: Rules,
) -> (Reach, Vec<(Reason, Lost)>) {
    let table = &conversation.table;
    let way = Way::new(conversation, found);
    let branches = way.branches();
    let mut reach = Reach::default();
    let mut lost: Vec<(Reason, Lost)> = Vec::new();
    for (id, row) in table.numbered() {
        if !is_said(conversation, id) {
            // The message that another record replaces was said, and is lost.
            if let Link::Repeat(first) = conversation.graph.link(id)
                && !row.is_sidechain
                && !way.is_summed_up(first)
                && is_replacing(table, id, first)
            {
                reach.recorded += 1;
                reach.lost += 1;
            }
            continue;
        }
        reach.recorded += 1;
        let fate = if way.is_sent(id) {
            // What is omitted on the path has a finding of its own.
            if way.dropped.contains(&id) {
                reach.lost += 1;
            } else {
                reach.sent += 1;
            }
            continue;
        } else if way.is_summed_up(id) {
            reach.summed_up += 1;
            continue;
        } else if !row.is_native {
            Fate::Lost(Reason::Foreign)
        } else if !rules.reads(row.placed) {
            Fate::Lost(Reason::Glued)
        } else if rules.null_line == NullLine::Ends
            && table.null_line.is_some_and(|null| row.line > null)
        {
            Fate::Lost(Reason::BehindNull)
        } else if row.uuid.is_none() {
            Fate::Lost(Reason::NoUuid)
        } else {
            way.fate(id, &branches)
        };
        match fate {
            Fate::Left => reach.left += 1,
            Fate::Lost(reason) => {
                reach.lost += 1;
                match lost.iter_mut().find(|(known, _)| *known == reason) {
                    Some((_, known)) => {
                        known.count += 1;
                        known.last = id;
                    }
                    None => lost.push((reason, Lost { count: 1, first: id, last: id })),
                }
            }
        }
    }
    (reach, lost)
}

/// Whether a message replaces one with the same id and different content.
pub(crate) fn is_replacing(table: &Table, id: RowId, first: RowId) -> bool {
    let says = |row: RowId| table.blocks_of(row).map(|part| table.hash(part)).collect::<Vec<_>>();
    let is_message = matches!(table.row(id).kind, Kind::User | Kind::Assistant);
    is_message && (table.row(id).kind != table.row(first).kind || says(id) != says(first))
}

/// Whether a record is a message of the main conversation, counted once.
fn is_said(conversation: &Conversation, id: RowId) -> bool {
    let row = conversation.table.row(id);
    matches!(row.kind, Kind::User | Kind::Assistant)
        && !row.is_sidechain
        && !matches!(conversation.graph.link(id), Link::Repeat(_))
        && row.answer.is_none_or(|answer| {
            !conversation.table.answer(answer).is_error && !conversation.table.is_filler(answer)
        })
}

/// The path that the client takes, compared with the real structure of the conversation.
struct Way<'a> {
    conversation: &'a Conversation,
    path: Vec<ChainId>,
    /// The rows on the path, in order.
    order: Vec<RowId>,
    /// For each row, its position on the path.
    place: Vec<Option<u32>>,
    sent: Vec<bool>,
    /// The same by id, for records that occur twice.
    sent_ids: Vec<bool>,
    /// Records on the path whose content is omitted.
    dropped: HashSet<RowId>,
    /// For each row where a branch starts, the row that continues the path.
    forks: HashMap<RowId, RowId>,
    leaf: u32,
    /// The last position on the path with a prompt or an answer.
    voice: Option<u32>,
    /// Everything before this position was summed up.
    summed_up: u32,
    /// The first position that is sent.
    first: u32,
}

impl<'a> Way<'a> {
    fn new(conversation: &'a Conversation, found: &History) -> Self {
        let (table, graph) = (&conversation.table, &conversation.graph);
        let path = found.leaf.map_or_else(Vec::new, |leaf| graph.path(graph.chain_of(leaf)));
        let order: Vec<RowId> = path.iter().flat_map(|chain| graph.rows(*chain)).copied().collect();
        let mut place = vec![None; table.rows().len()];
        for (at, row) in (0..).zip(&order) {
            place[row.index()] = Some(at);
        }
        let mut sent = vec![false; table.rows().len()];
        let mut sent_ids = vec![false; table.ids.len()];
        for row in &found.rows {
            sent[row.index()] = true;
            if let Some(uuid) = table.row(*row).uuid {
                sent_ids[uuid.index()] = true;
            }
        }
        let boundary = found.boundary;
        // What a compaction keeps is before it.
        let after = |row: &&RowId| boundary.is_none_or(|boundary| **row > boundary);
        let places = found.rows.iter().filter(after).filter_map(|row| place[row.index()]);
        let first = places.min().unwrap_or(0);
        // Old clients write no boundary: the summary is a root of its own.
        let is_compaction =
            |chain: &&ChainId| graph.link(graph.chain(**chain).first).is_compaction();
        let starts = path.iter().filter(is_compaction);
        let starts = starts.filter_map(|chain| place[graph.chain(*chain).first.index()]);
        let guessed = starts.filter(|start| *start <= first).max();
        let summed_up = boundary.and_then(|row| place[row.index()]).max(guessed).unwrap_or(0);
        let leaf = found.leaf.and_then(|leaf| place[leaf.index()]).unwrap_or(0);
        let voice = order.iter().rposition(|row| is_voice(conversation, *row));
        let forks = path.iter().filter_map(|chain| {
            let chain = graph.chain(*chain);
            Some((chain.start.after()?, chain.first))
        });
        let forks = forks.collect();
        let dropped = dropped(table, found);
        Way {
            conversation,
            path,
            order,
            place,
            sent,
            sent_ids,
            dropped,
            forks,
            leaf,
            voice: voice.and_then(|at| u32::try_from(at).ok()),
            summed_up,
            first,
        }
    }

    fn is_sent(&self, row: RowId) -> bool {
        let uuid = self.conversation.table.row(row).uuid;
        self.sent[row.index()] || uuid.is_some_and(|uuid| self.sent_ids[uuid.index()])
    }

    fn is_summed_up(&self, row: RowId) -> bool {
        self.place[row.index()].is_some_and(|place| place < self.summed_up)
    }

    fn fate(&self, row: RowId, branches: &HashMap<ChainId, Fate>) -> Fate {
        match self.place[row.index()] {
            Some(place) if place > self.leaf => Fate::Lost(Reason::BehindLeaf),
            Some(place) if place < self.first => Fate::Lost(Reason::Cut),
            Some(_) => Fate::Lost(Reason::Beside),
            None => {
                let chain = self.conversation.graph.chain_of(row);
                branches.get(&chain).copied().unwrap_or(Fate::Left)
            }
        }
    }

    /// What happens to each chain that is not on the path.
    fn branches(&self) -> HashMap<ChainId, Fate> {
        let graph = &self.conversation.graph;
        let mut on_path = vec![false; graph.chains().len()];
        for chain in &self.path {
            on_path[chain.index()] = true;
        }
        // For each chain, the topmost chain of its branch: the one that starts on the path or at a
        // root.
        let mut tops: Vec<Option<ChainId>> = vec![None; graph.chains().len()];
        for (id, _) in graph.numbered().filter(|(id, _)| !on_path[id.index()]) {
            let mut way = vec![id];
            let top = loop {
                let here = way[way.len() - 1];
                if let Some(known) = tops[here.index()] {
                    break known;
                }
                match graph.chain(here).start.after().map(|row| graph.chain_of(row)) {
                    Some(up) if !on_path[up.index()] => way.push(up),
                    _ => break here,
                }
            };
            for chain in way {
                tops[chain.index()] = Some(top);
            }
        }
        // For each branch, whether it has an answer, and its last message.
        let mut answered: HashMap<ChainId, (bool, RowId)> = HashMap::new();
        for (row, known) in self.conversation.table.numbered() {
            if let Some(top) = tops[graph.chain_of(row).index()]
                && is_said(self.conversation, row)
            {
                let branch = answered.entry(top).or_insert((false, row));
                branch.0 |= known.kind == Kind::Assistant;
                branch.1 = branch.1.max(row);
            }
        }
        // A branch without an answer contains nothing that the model could miss.
        let answered = answered.into_iter().filter(|(_, (is_answered, _))| *is_answered);
        let fates: HashMap<ChainId, Fate> =
            answered.map(|(top, (_, last))| (top, self.fate_of(top, last))).collect();
        let chains = graph.numbered().filter_map(|(id, _)| Some((id, tops[id.index()]?)));
        chains.map(|(id, top)| (id, fates.get(&top).copied().unwrap_or(Fate::Left))).collect()
    }

    /// What happens to a branch with answers.
    fn fate_of(&self, top: ChainId, last: RowId) -> Fate {
        let graph = &self.conversation.graph;
        let start = graph.chain(top).start;
        if matches!(start, Start::Sidechain(_)) {
            return Fate::Left;
        }
        let Some(fork) = start.after() else {
            // The newest client records it if the user went back to the very beginning.
            let named = self.conversation.table.text(self.conversation.table.named_leaf);
            let is_rewound =
                named.is_some_and(|id| id.bytes().all(|byte| matches!(byte, b'0' | b'-')));
            let live = self.path.first().map(|chain| graph.chain(*chain).first);
            return if is_rewound && live.is_some_and(|live| last < live) {
                Fate::Left
            } else {
                Fate::Lost(Reason::OtherRoot)
            };
        };
        if self.place[fork.index()].is_some_and(|place| place < self.summed_up) {
            return Fate::Left;
        }
        let live = self.forks.get(&fork).copied();
        // A compaction does not always start a new chain after its parent.
        let place = self.place[fork.index()].filter(|place| *place < self.leaf);
        let is_silent = self.place[fork.index()].is_some_and(|place| self.voice <= Some(place));
        match live.or_else(|| place.map(|place| self.order[place as usize + 1])) {
            Some(_) if is_silent => Fate::Lost(Reason::SilentBranch),
            Some(live) if last < self.begins(fork, live) => Fate::Left,
            Some(_) => Fate::Lost(Reason::OtherBranch),
            None => Fate::Lost(Reason::BehindLeaf),
        }
    }
}

impl Way<'_> {
    /// The first row of the live branch after a fork. The rest of the answer at the fork, and its
    /// results, belong to both branches.
    fn begins(&self, fork: RowId, live: RowId) -> RowId {
        let answer = self.conversation.table.row(fork).answer;
        let start = self.place[live.index()].unwrap_or(0) as usize;
        let is_new = |row: &&RowId| {
            let row_answer = self.conversation.table.row(**row).answer;
            is_voice(self.conversation, **row) && (row_answer.is_none() || row_answer != answer)
        };
        self.order[start..].iter().find(is_new).copied().unwrap_or(live).max(live)
    }
}

/// Whether the record is a prompt by a person or an answer by the model.
pub(crate) fn is_voice(conversation: &Conversation, row: RowId) -> bool {
    let known = conversation.table.row(row);
    let asks =
        matches!(known.input, Some(Input::Plain | Input::IdeSelection | Input::IdeOpenedFile));
    is_said(conversation, row) && (known.kind == Kind::Assistant || asks)
}

/// The records whose content the client omits.
fn dropped(table: &Table, found: &History) -> HashSet<RowId> {
    let of_notes = found.notes.iter().filter_map(|note| match note {
        Note::OpenCall { row } => Some(*row),
        Note::OrphanResult { block }
        | Note::RepeatedCall { block }
        | Note::SuffixedResult { block } => block.map(|block| table.block(block).row),
        _ => None,
    });
    let mut dropped: HashSet<RowId> = of_notes.collect();
    // Other blocks of these records may be sent.
    let blocks = found.messages.iter().flat_map(|message| &message.blocks);
    for block in blocks.filter_map(SentBlock::origin) {
        dropped.remove(&table.block(block).row);
    }
    dropped
}
