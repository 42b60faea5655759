//! The units of a session: its turns and the runs of its sub-agents, and which are finished.
//!
//! A *unit* is what is kept elsewhere as a whole: a turn, or a run of a sub-agent, which may end
//! long after the turn that started it. Invariants: a unit's name depends only on the transcript;
//! its mark changes if something is added to it afterwards, and only then.

use std::collections::{HashMap, HashSet};

use sha2::{Digest, Sha256};

use super::closing::Closing;
use super::origin::Copied;
use super::stable::{StableTurn, group, stable_turns, times};
use crate::conversation::Conversation;
use crate::conversation::agents::{Body, Owner, SubAgent, WithAgents};
use crate::conversation::id::SessionId;
use crate::conversation::table::{AnswerId, BlockId, RowId};
use crate::format::time::Time;

/// The units of a session.
#[derive(Debug)]
pub struct Units {
    /// The session and its sub-agents.
    pub family: WithAgents,
    list: Vec<Unit>,
    times: HashMap<Owner, Vec<Time>>,
}

/// A turn, or a run of a sub-agent.
#[derive(Debug)]
pub struct Unit {
    /// Its name, unique among the units of its session: that of the record that opens a turn; the
    /// id of a sub-agent, with that of the record if it is not its first run.
    pub name: String,
    /// The session that its records name.
    pub session: SessionId,
    /// A hash that changes when something is added to the unit.
    pub mark: String,
    /// Whether nothing more is expected.
    pub is_finished: bool,
    /// Whether this is a copy that another session reports.
    pub is_copy: bool,
    /// The name of the record that opens it.
    pub opener: String,
    /// The line of that record, and the unit's last line.
    pub lines: [u64; 2],
    /// The number of the turn that it is or belongs to, from 1; 0 if there is none.
    pub number: usize,
    /// Which unit is the turn that it is or belongs to, if there is one.
    pub turn: Option<usize>,
    /// The call that started the run.
    pub call: Option<(Owner, BlockId)>,
    /// Whose records these are.
    pub owner: Owner,
    /// The records.
    pub records: StableTurn,
    /// The record that opens the turn that it is or belongs to.
    pub opened: RowId,
    /// When that turn was opened.
    at: Time,
}

impl Unit {
    /// Whether it is a turn of the session itself.
    pub fn is_turn(&self) -> bool {
        self.owner == Owner::Main
    }
}

/// Where a run of a sub-agent belongs.
struct Above {
    turn: Option<usize>,
    call: Option<(Owner, BlockId)>,
    session: SessionId,
    number: usize,
    opened: RowId,
    at: Time,
    is_finished: bool,
    is_copy: bool,
}

impl Above {
    fn of(unit: &Unit, call: Option<(Owner, BlockId)>) -> Above {
        Above {
            turn: unit.turn,
            call,
            session: unit.session.clone(),
            number: unit.number,
            opened: unit.opened,
            at: unit.at,
            is_finished: unit.is_finished,
            is_copy: unit.is_copy,
        }
    }
}

impl Units {
    /// The units of a session. `name` is the session's name if no record gives one; `copied` knows
    /// which turns are copies from another session.
    pub fn new(family: WithAgents, name: &str, closing: &Closing, copied: &Copied) -> Units {
        let times = HashMap::from([(Owner::Main, times(&family.main))]);
        let mut units = Units { times, family, list: Vec::new() };
        let mut making = Making::default();
        units.add_turns(name, closing, copied, &mut making);
        units.add_runs(name, closing, &mut making);
        units
    }

    /// The units, turns before the sub-agents that they started.
    pub fn list(&self) -> &[Unit] {
        &self.list
    }

    /// When the turn began that a unit is or belongs to.
    pub fn opened(&self, unit: &Unit) -> Time {
        self.time(Owner::Main, unit.opened)
    }

    /// The time of a record, or of one before it.
    pub fn time(&self, owner: Owner, row: RowId) -> Time {
        let known = self.times.get(&owner).and_then(|times| times.get(row.index()));
        known.copied().unwrap_or(Time(0))
    }

    /// The calls of a unit, in file order.
    pub fn calls(&self, unit: &Unit) -> impl Iterator<Item = BlockId> {
        let table = &self.family.of(unit.owner).table;
        let blocks = unit.records.answers.iter().flat_map(|(_, blocks)| blocks);
        blocks.copied().filter(|block| table.block(*block).kind.is_call())
    }

    fn add_turns(&mut self, name: &str, closing: &Closing, copied: &Copied, making: &mut Making) {
        let conversation = &self.family.main;
        let mut number = 0;
        for mut records in stable_turns(conversation, conversation.turns()) {
            making.drop_copies(conversation, &mut records, Owner::Main);
            if !records.counts(conversation) {
                continue;
            }
            number += 1;
            let opener = record_name(conversation, records.first);
            let named = |row: RowId| conversation.table.text(conversation.table.row(row).session);
            let session = named(records.first).unwrap_or(name);
            let is_copy = copied.has(&opener, named(records.first))
                && last_record(conversation, &records)
                    .is_none_or(|row| copied.has(&record_name(conversation, row), named(row)));
            let at = self.time(Owner::Main, records.first);
            let is_complete = records.outcome().is_complete()
                && (at <= closing.stopped
                    || is_measured(&records)
                    || is_final(conversation, &records));
            let unit = Unit {
                name: opener.clone(),
                session: session.into(),
                mark: mark(conversation, &records),
                is_finished: !records.is_last || is_complete || at <= closing.ended,
                is_copy,
                lines: [
                    conversation.table.row(records.first).line,
                    records.last_line(conversation),
                ],
                number,
                turn: Some(self.list.len()),
                call: None,
                owner: Owner::Main,
                opened: records.first,
                at,
                opener,
                records,
            };
            self.list.push(unit);
        }
        for at in 0..self.list.len() {
            making.calls(self, at);
        }
    }

    fn add_runs(&mut self, name: &str, closing: &Closing, making: &mut Making) {
        let count = self.family.agents.len();
        let mut waiting: Vec<usize> = (0..count).collect();
        // Sub-agents that a sub-agent started come after it.
        while !waiting.is_empty() {
            let (ready, later): (Vec<usize>, Vec<usize>) = waiting.iter().partition(|at| {
                let start = self.family.agents[**at].start;
                !start.is_some_and(|start| {
                    matches!(start.owner, Owner::Agent(by) if waiting.contains(&by) && by != **at)
                })
            });
            // If some wait for each other, they are processed in the order found.
            let (ready, later) = if ready.is_empty() { (later, ready) } else { (ready, later) };
            for at in ready {
                self.add_agent(at, name, closing, making);
            }
            waiting = later;
        }
    }

    fn add_agent(&mut self, at: usize, name: &str, closing: &Closing, making: &mut Making) {
        let owner = Owner::Agent(at);
        let agent = &self.family.agents[at];
        let conversation = self.family.body(agent);
        let found = match &agent.body {
            Body::File(body) => stable_turns(body, body.turns()),
            Body::Sidechain(_) => group(conversation, self.family.turns(agent), []),
        };
        let times = times(conversation);
        let mut calls = making.of_agent.remove(&at).unwrap_or_default();
        calls.sort_by_key(|(owner, call)| (self.time(*owner, self.row_of(*owner, *call)), *call));
        let mut units = Vec::new();
        for mut records in found {
            making.drop_copies(conversation, &mut records, owner);
            if records.answers.is_empty() {
                continue;
            }
            let run = units.len();
            // A continued sub-agent has one run per call that started or continued it, in their
            // order.
            let call = calls.get(run).or(calls.last()).copied();
            let start = times[records.first.index()];
            let Some(above) = self.above(making, call, start, name, closing) else { continue };
            let opener = record_name(conversation, records.first);
            let id = &agent.id;
            let unit = Unit {
                name: if run == 0 { id.to_string() } else { format!("{id}/{opener}") },
                mark: mark(conversation, &records),
                is_finished: above.is_finished
                    && (!records.is_last
                        || self.is_done(agent, &records, call, start, closing)
                        || above.at <= closing.ended),
                lines: [
                    conversation.table.row(records.first).line,
                    records.last_line(conversation),
                ],
                number: above.number,
                owner,
                turn: above.turn,
                call: above.call,
                session: above.session,
                opened: above.opened,
                at: above.at,
                is_copy: above.is_copy,
                opener,
                records,
            };
            units.push(unit);
        }
        let first = self.list.len();
        self.list.extend(units);
        for at in first..self.list.len() {
            making.calls(self, at);
        }
        self.times.insert(owner, times);
    }

    /// Whether a run is known to be over.
    fn is_done(
        &self,
        agent: &SubAgent,
        records: &StableTurn,
        call: Option<(Owner, BlockId)>,
        start: Time,
        closing: &Closing,
    ) -> bool {
        let is_reported = closing.agents.contains(&agent.id)
            || is_final(self.family.body(agent), records)
            || agent.notified.is_some_and(|(owner, row)| self.time(owner, row) >= start);
        is_reported && records.outcome().is_complete()
            || !agent.is_background && call.is_some_and(|call| self.is_answered(call))
    }

    fn row_of(&self, owner: Owner, block: BlockId) -> RowId {
        self.family.of(owner).table.block(block).row
    }

    /// Where a run belongs: to the call that started it, else to the turn that ran at that time.
    fn above(
        &self,
        making: &Making,
        call: Option<(Owner, BlockId)>,
        start: Time,
        name: &str,
        closing: &Closing,
    ) -> Option<Above> {
        if let Some(unit) = call.and_then(|call| making.within.get(&call)) {
            return Some(Above::of(&self.list[*unit], call));
        }
        let turns = || self.list.iter().filter(|unit| unit.is_turn());
        let before = turns().filter(|unit| self.time(Owner::Main, unit.records.first) <= start);
        if let Some(turn) = before.last().or_else(|| turns().next()) {
            return Some(Above::of(turn, None));
        }
        // A session without a turn: its first record has to do.
        self.family.main.table.rows().first()?;
        Some(Above {
            turn: None,
            call: None,
            session: name.into(),
            number: 0,
            opened: RowId(0),
            // A turn may still come, and the run would belong to that.
            at: start,
            is_finished: start <= closing.ended,
            is_copy: false,
        })
    }

    fn is_answered(&self, (owner, call): (Owner, BlockId)) -> bool {
        self.family.of(owner).pairs.of(call).is_some()
    }
}

/// What is known while the units are listed.
#[derive(Default)]
struct Making {
    /// The unit that contains each call.
    within: HashMap<(Owner, BlockId), usize>,
    /// The calls that started or continued each sub-agent.
    of_agent: HashMap<usize, Vec<(Owner, BlockId)>>,
    /// The ids of the messages found so far.
    message_ids: HashSet<String>,
}

impl Making {
    /// Removes answers that another file of the session already has: some sub-agents begin with a
    /// copy of the conversation.
    fn drop_copies(&mut self, conversation: &Conversation, records: &mut StableTurn, owner: Owner) {
        records.answers.retain(|(id, _)| {
            let Some(message) = conversation.table.text(conversation.table.answer(*id).id) else {
                return true;
            };
            self.message_ids.insert(message.to_owned()) || owner == Owner::Main
        });
    }

    /// Notes the calls of a unit.
    fn calls(&mut self, units: &Units, at: usize) {
        let unit = &units.list[at];
        for call in units.calls(unit) {
            let call = (unit.owner, call);
            self.within.insert(call, at);
            for agent in units.family.started(call.0, call.1) {
                self.of_agent.entry(*agent).or_default().push(call);
            }
        }
    }
}

/// The name of a record: its id, or its line.
pub fn record_name(conversation: &Conversation, row: RowId) -> String {
    let known = conversation.table.row(row);
    let id = conversation.table.text(known.uuid);
    id.map_or_else(|| format!("line-{}", known.line), str::to_owned)
}

/// The name of an answer: the id of its message, or the name of its first record.
pub fn answer_name(conversation: &Conversation, id: AnswerId) -> String {
    let answer = conversation.table.answer(id);
    let message = conversation.table.text(answer.id);
    message.map_or_else(|| record_name(conversation, answer.first), str::to_owned)
}

/// The last record of the answers.
fn last_record(conversation: &Conversation, records: &StableTurn) -> Option<RowId> {
    let blocks = records.answers.iter().flat_map(|(_, blocks)| blocks);
    blocks.map(|block| conversation.table.block(*block).row).max()
}

fn is_measured(records: &StableTurn) -> bool {
    records.parts.last().is_some_and(|turn| turn.measured.is_some())
}

/// Whether the last answer contains the reason why it ended.
fn is_final(conversation: &Conversation, records: &StableTurn) -> bool {
    records.answers.last().is_none_or(|(id, _)| conversation.table.answer(*id).is_final())
}

/// A hash that changes when an answer or a result is added.
fn mark(conversation: &Conversation, records: &StableTurn) -> String {
    let mut hash = Sha256::new();
    hash.update(records.outcome().name());
    for (id, blocks) in &records.answers {
        let answer = conversation.table.answer(*id);
        let output = answer.usage.as_ref().map_or(0, |reported| reported.usage.output);
        hash.update(answer_name(conversation, *id));
        hash.update([u8::from(answer.is_final())]);
        hash.update(output.to_le_bytes());
        for block in blocks {
            let is_call = conversation.table.block(*block).kind.is_call();
            hash.update([u8::from(is_call), u8::from(conversation.pairs.of(*block).is_some())]);
        }
    }
    format!("{:x}", hash.finalize())[..8].to_owned()
}
