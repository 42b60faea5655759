//! Records beside the chain that belong to it: parallel calls of an answer, their results, and the
//! attachments and events that hang on these.
//!
//! Invariant: what is on the chain stays in its order, except where an attachment or event stands
//! among the records of an answer; only what is beside it is put somewhere.

use hashbrown::{HashMap, HashSet};

use super::super::Note;
use super::super::rules::Siblings;
use super::{Tree, is_message, is_result};
use crate::conversation::table::{Id, RowId};
use crate::format::content::BlockKind;
use crate::format::entry::Kind;
use crate::format::limit::FARTHEST_UP;

/// What is beside the chain, in the order of the file.
#[derive(Default)]
struct Beside {
    /// Records of answers on the chain, by answer.
    lines: HashMap<Id, Vec<usize>>,
    /// Results of the calls of these answers, and what hangs on calls and results, by answer.
    results: HashMap<Id, Vec<usize>>,
}

/// The calls of answers on the chain: the record, and the answer.
type Calls = HashMap<Id, (usize, Id)>;

impl Tree<'_> {
    /// Recovers records beside the chain that belong to answers on it, and the results of their
    /// calls.
    pub(super) fn recover(
        &self,
        chain: &mut Vec<usize>,
        after: Option<RowId>,
        notes: &mut Vec<Note>,
    ) {
        let calls = self.calls(chain);
        self.drop_stray_results(chain, &calls);
        let mut beside = self.beside(chain, after, &calls);
        if self.rules.siblings != Siblings::ByTime {
            self.add_hanging(&mut beside, chain, after, &calls);
        }
        *chain = self.woven(chain, beside, &calls, notes);
        if self.rules.siblings == Siblings::ByCall {
            self.gather(chain);
        }
    }

    /// The answer that a record is a part of.
    fn answer(&self, node: usize) -> Option<Id> {
        let row = self.row(node);
        if row.kind == Kind::Assistant { row.message } else { None }
    }

    /// The calls by which results are found, in versions that do that.
    fn calls(&self, chain: &[usize]) -> Calls {
        if self.rules.siblings != Siblings::ByCall {
            return Calls::new();
        }
        let on_chain: HashSet<Id> = chain.iter().filter_map(|node| self.answer(*node)).collect();
        let answer = |node| self.answer(node).filter(|id| on_chain.contains(id));
        let answers = (0..self.nodes.len()).filter_map(|node| Some((node, answer(node)?)));
        let calls = answers.flat_map(|(node, answer)| {
            let blocks = self.table.blocks_of(self.nodes[node]).map(|id| self.table.block(id));
            let ids = blocks.filter(|block| block.kind == BlockKind::ToolUse);
            ids.filter_map(|block| block.id).map(move |id| (id, (node, answer)))
        });
        calls.collect()
    }

    /// The ids of the blocks of a record.
    fn block_ids(&self, node: usize) -> impl Iterator<Item = Id> {
        let blocks = self.table.blocks_of(self.nodes[node]);
        blocks.filter_map(|block| self.table.block(block).id)
    }

    /// The call that a record has the result of, and the call's answer.
    fn called(&self, node: usize, calls: &Calls) -> Option<(usize, Id)> {
        self.block_ids(node).find_map(|id| calls.get(&id).copied())
    }

    /// Where the chain begins with a result whose call is beside the chain, the result is recovered
    /// together with the call.
    fn drop_stray_results(&self, chain: &mut Vec<usize>, calls: &Calls) {
        let is_beside = |call: usize| !chain.contains(&call);
        let is_stray = |node: &usize| {
            is_result(self.row(*node))
                && self.called(*node, calls).is_some_and(|(call, _)| is_beside(call))
        };
        let count = chain.iter().take_while(|node| is_stray(node)).count();
        chain.drain(..count);
    }

    fn beside(&self, chain: &[usize], after: Option<RowId>, calls: &Calls) -> Beside {
        let on: HashSet<usize> = chain.iter().copied().collect();
        let answers: HashSet<Id> = chain.iter().filter_map(|node| self.answer(*node)).collect();
        let answer = |node: usize| self.answer(node).filter(|id| answers.contains(id));
        let mut answered: HashSet<Id> = HashSet::new();
        if !calls.is_empty() {
            let results = chain.iter().copied().filter(|node| is_result(self.row(*node)));
            answered.extend(results.flat_map(|node| self.block_ids(node)));
        }
        let is_open = |node: usize| !self.block_ids(node).all(|id| answered.contains(&id));
        let is_off = |node: &usize| {
            !on.contains(node) && after.is_none_or(|after| self.nodes[*node] > after)
        };
        let mut beside = Beside::default();
        for node in (0..self.nodes.len()).filter(is_off) {
            if let Some(id) = answer(node) {
                beside.lines.entry(id).or_default().push(node);
                continue;
            }
            let of_call = || self.called(node, calls).filter(|_| is_open(node));
            let of = || {
                let of_parent = self.parents[node].and_then(answer);
                of_parent.or_else(|| of_call().map(|(_, answer)| answer))
            };
            if let Some(id) = is_result(self.row(node)).then(of).flatten() {
                beside.results.entry(id).or_default().push(node);
            }
        }
        beside
    }

    /// Adds the attachments and events beside the chain that hang on a call or a result of an
    /// answer that calls something, if no message hangs below them.
    fn add_hanging(
        &self,
        beside: &mut Beside,
        chain: &[usize],
        after: Option<RowId>,
        calls: &Calls,
    ) {
        let on: HashSet<usize> = chain.iter().copied().collect();
        let is_beside = |node: &usize| {
            !on.contains(node) && after.is_none_or(|after| self.nodes[*node] > after)
        };
        let quiet: Vec<usize> =
            (0..self.nodes.len()).filter(|node| self.is_quiet(*node)).filter(is_beside).collect();
        if quiet.is_empty() {
            return;
        }
        let is_call = |node: usize| {
            let blocks = self.table.blocks_of(self.nodes[node]);
            blocks.map(|id| self.table.block(id)).any(|block| block.kind == BlockKind::ToolUse)
        };
        // The answer that each call and each result belongs to.
        let mut owners: HashMap<usize, Id> = HashMap::new();
        for (id, results) in &beside.results {
            owners.extend(results.iter().map(|node| (*node, *id)));
        }
        let of_chain: HashSet<Id> = chain.iter().filter_map(|node| self.answer(*node)).collect();
        let answers = (0..self.nodes.len()).filter_map(|node| Some((node, self.answer(node)?)));
        let answers: Vec<_> = answers.filter(|(_, id)| of_chain.contains(id)).collect();
        let calling: HashSet<Id> =
            answers.iter().filter(|(node, _)| is_call(*node)).map(|(_, id)| *id).collect();
        owners.extend(answers.into_iter().filter(|(_, id)| calling.contains(id)));
        for node in chain.iter().copied().filter(|node| is_result(self.row(*node))) {
            let of_parent = self.parents[node].and_then(|parent| self.answer(parent));
            let of_call = || self.called(node, calls).map(|(_, answer)| answer);
            owners.extend(of_parent.or_else(of_call).map(|id| (node, id)));
        }
        let is_below_said = self.above_messages();
        for node in quiet.into_iter().filter(|node| !is_below_said[*node]) {
            let id = self.hangs_on(node).and_then(|message| owners.get(&message));
            if let Some(id) = id {
                beside.results.entry(*id).or_default().push(node);
            }
        }
        beside.results.values_mut().for_each(|results| results.sort_unstable());
    }

    /// Whether a record is an attachment or an event.
    fn is_quiet(&self, node: usize) -> bool {
        matches!(self.row(node).kind, Kind::Attachment | Kind::System)
    }

    /// The message that an attachment or event hangs on, directly or on others of these.
    fn hangs_on(&self, node: usize) -> Option<usize> {
        let mut at = self.parents[node];
        for _ in 0..FARTHEST_UP {
            let here = at?;
            if is_message(self.row(here)) {
                return Some(here);
            }
            at = self.parents[here];
        }
        None
    }

    /// For each record, whether a message hangs below it with nothing else that is said between.
    fn above_messages(&self) -> Vec<bool> {
        let mut found = vec![false; self.nodes.len()];
        for node in (0..self.nodes.len()).filter(|node| is_message(self.row(*node))) {
            let mut at = self.parents[node];
            while let Some(here) = at.filter(|here| !is_message(self.row(*here)) && !found[*here]) {
                found[here] = true;
                at = self.parents[here];
            }
        }
        found
    }

    /// Where an attachment or event stands among the records of an answer, moves the results and
    /// whatever else is among them behind the last of these records.
    fn gather(&self, chain: &mut [usize]) {
        let mut last: HashMap<Id, usize> = HashMap::new();
        for (at, node) in chain.iter().enumerate() {
            last.extend(self.answer(*node).map(|id| (id, at)));
        }
        let mut at = 0;
        while at < chain.len() {
            let id = self.answer(chain[at]);
            let end = id.and_then(|id| last.remove(&id)).unwrap_or(at);
            let part = &chain[at..=end];
            let is_of_it = |node: &usize| {
                self.answer(*node) == id
                    || is_result(self.row(*node))
                    || !is_message(self.row(*node))
            };
            at += 1;
            if part.iter().all(is_of_it) && part.iter().any(|node| self.is_quiet(*node)) {
                let is_answer = |node: &usize| self.answer(*node) == id;
                let (mut whole, rest): (Vec<usize>, Vec<usize>) =
                    part.iter().copied().partition(is_answer);
                whole.extend(rest);
                chain[at - 1..=end].copy_from_slice(&whole);
                at = end + 1;
            }
        }
    }

    /// The chain, and what is beside it in its place.
    fn woven(
        &self,
        chain: &[usize],
        mut beside: Beside,
        calls: &Calls,
        notes: &mut Vec<Note>,
    ) -> Vec<usize> {
        let (mut first, mut last): (HashMap<Id, usize>, HashMap<Id, usize>) = Default::default();
        for (at, node) in chain.iter().enumerate() {
            if let Some(id) = self.answer(*node) {
                first.entry(id).or_insert(at);
                last.insert(id, at);
            }
        }
        let is_by_time = self.rules.siblings == Siblings::ByTime;
        let mut whole = Vec::with_capacity(chain.len());
        // Results that wait for their place, and the answer that they belong to.
        let mut waiting: (Option<Id>, Vec<usize>) = (None, Vec::new());
        let mut put: HashSet<usize> = HashSet::new();
        let mut count = 0;
        for (at, node) in chain.iter().enumerate() {
            let of = self.answer(*node);
            if is_result(self.row(*node)) || self.is_quiet(*node) {
                whole.extend(self.before(&mut waiting.1, *node));
            } else if is_message(self.row(*node)) && of != waiting.0 {
                whole.append(&mut waiting.1);
                waiting.0 = None;
            }
            let Some(id) = of else {
                whole.push(*node);
                continue;
            };
            let found = beside.lines.entry(id).or_default();
            if !is_by_time {
                // Nothing goes before the first record on the chain.
                let is_first = first.get(&id) == Some(&at);
                let early = if is_first { Vec::new() } else { self.before(found, *node) };
                count += early.len();
                put.extend(early.iter().copied().chain([*node]));
                whole.extend(early);
                // A result waits from its call on, with what hangs on it.
                if let Some(results) = beside.results.get_mut(&id) {
                    let is_called = |node: &mut usize| {
                        let message = self.hangs_on(*node).filter(|_| self.is_quiet(*node));
                        let message = message.unwrap_or(*node);
                        if self.answer(message).is_some() {
                            return put.contains(&message);
                        }
                        self.called(message, calls).is_none_or(|(call, _)| put.contains(&call))
                    };
                    let ready: Vec<usize> = results.extract_if(.., is_called).collect();
                    count += ready.len();
                    waiting.0 = Some(id);
                    waiting.1.extend(ready);
                    waiting.1.sort_unstable();
                }
            }
            whole.push(*node);
            if last.get(&id) != Some(&at) {
                continue;
            }
            count += found.len();
            if is_by_time {
                found.sort_by_key(|node| self.row(*node).time);
            }
            whole.append(found);
            if let Some(mut results) = beside.results.remove(&id) {
                count += results.len();
                if is_by_time {
                    // Of several with the same time, the one whose call comes first.
                    results.sort_by_key(|node| (self.row(*node).time, self.parents[*node]));
                    whole.extend(results);
                } else {
                    waiting.1.extend(results);
                    waiting.1.sort_unstable();
                }
            }
            let records = std::mem::take(&mut count);
            notes.extend(
                (records > 0).then(|| Note::Recovered { answer: self.nodes[*node], records }),
            );
        }
        whole.append(&mut waiting.1);
        whole
    }

    /// Takes those that precede a record in the file.
    fn before(&self, waiting: &mut Vec<usize>, node: usize) -> Vec<usize> {
        let split = waiting.iter().position(|other| self.nodes[*other] > self.nodes[node]);
        let rest = waiting.split_off(split.unwrap_or(waiting.len()));
        std::mem::replace(waiting, rest)
    }
}
