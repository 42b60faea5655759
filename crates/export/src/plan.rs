//! Lists what a session has to ship: its turns and the runs of its sub-agents, with their ids, and
//! which of them are finished.
//!
//! Made from tables only; no text is read. A *unit* is what is shipped as a whole: a turn, or a run
//! of a sub-agent, which may end long after the turn that started it. Invariants: ids depend only
//! on the transcript; a unit's mark changes if something is added to it afterwards, and only then;
//! no two spans of a session have the same id.

use std::collections::{HashMap, HashSet};

use sha2::{Digest, Sha256};
use transcript::agents::{Body, Owner, SubAgent, WithAgents};
use transcript::conversation::Conversation;
use transcript::table::{AnswerId, BlockId, RowId};
use transcript::time::Time;

use crate::id::{Ids, SpanId, TraceId, hex};
use crate::origin::Copied;
use crate::round::{Round, group, rounds, times};

/// What is known about whether a session continues, and since when. It does not apply to what was
/// opened later, even if that exists by the time the plan is made. (The length of the file at that
/// time would not do: the client may write a whole turn after it has reported that it is over.)
#[derive(Clone, Debug)]
pub struct Closing {
    /// When the client reported that the turn is over.
    pub stopped: Time,
    /// When the session ended; the latest possible time if nothing was written for long.
    pub ended: Time,
    /// The ids of the sub-agents that the client reports as done.
    pub agents: Vec<String>,
}

/// Nothing is known.
impl Default for Closing {
    fn default() -> Self {
        Closing { stopped: NEVER, ended: NEVER, agents: Vec::new() }
    }
}

/// Before any other time, and after any other time.
pub(crate) const NEVER: Time = Time(i64::MIN);
pub(crate) const ALWAYS: Time = Time(i64::MAX);

impl Closing {
    /// The whole session is over.
    pub fn ended() -> Closing {
        Closing { ended: ALWAYS, ..Closing::default() }
    }
}

/// What a session has to ship.
#[derive(Debug)]
pub struct Plan {
    pub(crate) family: WithAgents,
    pub(crate) units: Vec<Unit>,
    /// The spans of calls.
    pub(crate) calls: HashMap<(Owner, BlockId), SpanId>,
    times: HashMap<Owner, Vec<Time>>,
    ids: Ids,
}

/// A turn, or a run of a sub-agent.
#[derive(Debug)]
pub struct Unit {
    /// The id under which it is recorded as shipped.
    pub key: String,
    /// A hash that changes when something is added to the unit.
    pub mark: String,
    /// Whether nothing more is expected.
    pub is_finished: bool,
    /// The id of the record that opens it.
    pub opener: String,
    /// The line of that record, and the unit's last line.
    pub lines: [u64; 2],
    /// Which turn of the session it is or belongs to, from 1.
    pub number: usize,
    pub(crate) round: Round,
    pub(crate) owner: Owner,
    pub(crate) root: SpanId,
    pub(crate) trace: TraceId,
    pub(crate) parent: Option<SpanId>,
    pub(crate) session: String,
    /// The record that opens the turn that it is or belongs to.
    pub(crate) opened: RowId,
    /// When that turn was opened.
    at: Time,
    /// Whether this is a copy that another session reports.
    pub is_copy: bool,
}

impl Unit {
    /// The session that its records name.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// About how many spans it has: itself, its answers, and their blocks.
    pub(crate) fn likely_spans(&self) -> u64 {
        let answers = self.round.answers.iter().map(|(_, blocks)| 1 + blocks.len() as u64);
        1 + answers.sum::<u64>()
    }

    /// Whether it is a turn of the session itself.
    pub fn is_turn(&self) -> bool {
        self.owner == Owner::Main
    }
}

/// Where a run of a sub-agent belongs.
#[derive(Clone)]
struct Above {
    trace: TraceId,
    parent: Option<SpanId>,
    session: String,
    number: usize,
    opened: RowId,
    /// When that turn was opened.
    at: Time,
    is_finished: bool,
    is_copy: bool,
}

impl Plan {
    /// The plan of a session. `name` is the session's name if no record gives one; `copied` knows
    /// which turns are copies from another session.
    pub fn new(
        family: WithAgents,
        name: &str,
        ids: &Ids,
        closing: &Closing,
        copied: &Copied,
    ) -> Plan {
        let mut plan = Plan {
            times: HashMap::from([(Owner::Main, times(&family.main))]),
            family,
            units: Vec::new(),
            calls: HashMap::new(),
            ids: ids.clone(),
        };
        let mut making = Making::default();
        plan.add_turns(name, closing, copied, &mut making);
        plan.add_runs(name, closing, &mut making);
        plan
    }

    /// The units, turns before the sub-agents that they started.
    pub fn units(&self) -> &[Unit] {
        &self.units
    }

    /// The session's file.
    pub fn main(&self) -> &Conversation {
        &self.family.main
    }

    /// When the turn began that a unit is or belongs to.
    pub fn opened(&self, unit: &Unit) -> Time {
        self.time(Owner::Main, unit.opened)
    }

    fn add_turns(&mut self, name: &str, closing: &Closing, copied: &Copied, making: &mut Making) {
        let conversation = &self.family.main;
        let mut number = 0;
        for mut round in rounds(conversation, conversation.turns()) {
            making.drop_copies(conversation, &mut round, true);
            if !round.counts(conversation) {
                continue;
            }
            number += 1;
            let opener = record_id(conversation, round.first);
            let session = conversation
                .table
                .text(conversation.table.row(round.first).session)
                .unwrap_or(name);
            let trace = self.ids.trace(session, &opener);
            let is_copy = copied
                .has(&opener, conversation.table.text(conversation.table.row(round.first).session))
                && last_record(conversation, &round).is_none_or(|row| {
                    let known = conversation.table.row(row);
                    copied
                        .has(&record_id(conversation, row), conversation.table.text(known.session))
                });
            let at = self.time(Owner::Main, round.first);
            let is_complete = round.outcome().is_complete()
                && (at <= closing.stopped || is_measured(&round) || is_final(conversation, &round));
            let unit = Unit {
                key: trace.to_string(),
                mark: mark(conversation, &round),
                is_finished: !round.is_last || is_complete || at <= closing.ended,
                lines: [conversation.table.row(round.first).line, round.last_line(conversation)],
                number,
                owner: Owner::Main,
                root: self.ids.span(session, &opener),
                trace,
                parent: None,
                session: session.to_owned(),
                opened: round.first,
                at,
                is_copy,
                opener,
                round,
            };
            making.used.insert(unit.root);
            let calls = making.calls(&self.family, &self.ids, &unit);
            self.calls.extend(calls);
            self.units.push(unit);
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
            Body::File(body) => rounds(body, body.turns()),
            Body::Sidechain(_) => group(conversation, self.family.turns(agent), []),
        };
        let times = times(conversation);
        let mut calls = making.of_agent.remove(&at).unwrap_or_default();
        calls.sort_by_key(|(owner, call)| (self.time(*owner, self.row_of(*owner, *call)), *call));
        let mut units = Vec::new();
        for mut round in found {
            making.drop_copies(conversation, &mut round, false);
            if round.answers.is_empty() {
                continue;
            }
            let run = units.len();
            // A continued sub-agent has one run per call that started or continued it, in their
            // order.
            let call = calls.get(run).or(calls.last()).copied();
            let start = times[round.first.index()];
            let above = self.above(making, call, start, agent, name, closing);
            let Some(above) = above else { continue };
            let opener = record_id(conversation, round.first);
            let id = &agent.id;
            let seed = if run == 0 { id.clone() } else { format!("{id}/{opener}") };
            let root = making.fresh(&self.ids, &above.session, &seed, &opener);
            let is_told = closing.agents.contains(id)
                || is_final(conversation, &round)
                || agent.notified.is_some_and(|(owner, row)| self.time(owner, row) >= start);
            let is_done = is_told && round.outcome().is_complete()
                || !agent.is_background && call.is_some_and(|call| self.is_answered(call));
            let unit = Unit {
                key: root.to_string(),
                mark: mark(conversation, &round),
                is_finished: above.is_finished
                    && (!round.is_last || is_done || above.at <= closing.ended),
                lines: [conversation.table.row(round.first).line, round.last_line(conversation)],
                number: above.number,
                owner,
                root,
                trace: above.trace,
                parent: above.parent,
                session: above.session,
                opened: above.opened,
                at: above.at,
                is_copy: above.is_copy,
                opener,
                round,
            };
            units.push(unit);
        }
        let calls: Vec<_> =
            units.iter().flat_map(|unit| making.calls(&self.family, &self.ids, unit)).collect();
        self.calls.extend(calls);
        self.units.extend(units);
        self.times.insert(owner, times);
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
        agent: &SubAgent,
        name: &str,
        closing: &Closing,
    ) -> Option<Above> {
        if let Some(above) = call.and_then(|call| making.above.get(&call)) {
            let parent = call.and_then(|call| self.calls.get(&call)).copied();
            return Some(Above { parent, ..above.clone() });
        }
        let turns = || self.units.iter().filter(|unit| unit.is_turn());
        let before = turns().filter(|unit| self.time(Owner::Main, unit.round.first) <= start);
        let Some(turn) = before.last().or_else(|| turns().next()) else {
            // A session without a turn: its first record has to do.
            self.family.main.table.rows().first()?;
            return Some(Above {
                trace: self.ids.trace(name, &agent.id),
                parent: None,
                session: name.to_owned(),
                number: 0,
                opened: RowId(0),
                // A turn may still come, and the run would belong to that.
                at: start,
                is_finished: start <= closing.ended,
                is_copy: false,
            });
        };
        Some(Above {
            trace: turn.trace,
            parent: Some(turn.root),
            session: turn.session.clone(),
            number: turn.number,
            opened: turn.round.first,
            at: turn.at,
            is_finished: turn.is_finished,
            is_copy: turn.is_copy,
        })
    }

    fn is_answered(&self, (owner, call): (Owner, BlockId)) -> bool {
        self.family.of(owner).pairs.of(call).is_some()
    }

    pub(crate) fn time(&self, owner: Owner, row: RowId) -> Time {
        let known = self.times.get(&owner).and_then(|times| times.get(row.index()));
        known.copied().unwrap_or(Time(0))
    }

    /// The id of the span of something in a unit.
    pub(crate) fn span(&self, unit: &Unit, seed: &str) -> SpanId {
        self.ids.span(&unit.session, seed)
    }
}

/// What is known while a plan is made.
#[derive(Default)]
struct Making {
    used: HashSet<SpanId>,
    above: HashMap<(Owner, BlockId), Above>,
    /// The calls that started or continued each sub-agent.
    of_agent: HashMap<usize, Vec<(Owner, BlockId)>>,
    /// The ids of the messages found so far.
    message_ids: HashSet<String>,
}

impl Making {
    /// Removes answers that another file of the session already has: some sub-agents begin with a
    /// copy of the conversation.
    fn drop_copies(&mut self, conversation: &Conversation, round: &mut Round, is_main: bool) {
        round.answers.retain(|(id, _)| {
            let Some(message) = conversation.table.text(conversation.table.answer(*id).id) else {
                return true;
            };
            self.message_ids.insert(message.to_owned()) || is_main
        });
    }

    /// An id that no other span has. If two things have the same name, the record is added.
    fn fresh(&mut self, ids: &Ids, session: &str, seed: &str, record: &str) -> SpanId {
        let id = ids.span(session, seed);
        if self.used.insert(id) {
            return id;
        }
        let id = ids.span(session, &format!("{seed}/{record}"));
        self.used.insert(id);
        id
    }

    /// The spans of the calls of a unit.
    fn calls(
        &mut self,
        family: &WithAgents,
        ids: &Ids,
        unit: &Unit,
    ) -> Vec<((Owner, BlockId), SpanId)> {
        let conversation = family.of(unit.owner);
        let mut found = Vec::new();
        let blocks = unit.round.answers.iter().flat_map(|(_, blocks)| blocks);
        for block in blocks.filter(|block| conversation.table.block(**block).kind.is_call()) {
            let part = conversation.table.block(*block);
            let record = format!(
                "{}/{}",
                record_id(conversation, part.row),
                conversation.table.place(*block)
            );
            let seed = conversation.table.text(part.id).unwrap_or(&record);
            let id = self.fresh(ids, &unit.session, seed, &record);
            let above = Above {
                trace: unit.trace,
                parent: Some(id),
                session: unit.session.clone(),
                number: unit.number,
                opened: unit.opened,
                at: unit.at,
                is_finished: unit.is_finished,
                is_copy: unit.is_copy,
            };
            self.above.insert((unit.owner, *block), above);
            for agent in family.started(unit.owner, *block) {
                self.of_agent.entry(*agent).or_default().push((unit.owner, *block));
            }
            found.push(((unit.owner, *block), id));
        }
        found
    }
}

/// The name of a record: its id, or its line.
pub(crate) fn record_id(conversation: &Conversation, row: RowId) -> String {
    let known = conversation.table.row(row);
    conversation
        .table
        .text(known.uuid)
        .map_or_else(|| format!("line-{}", known.line), str::to_owned)
}

/// The name of an answer: the id of its message, or the name of its first record.
pub(crate) fn answer_id(conversation: &Conversation, id: AnswerId) -> String {
    let answer = conversation.table.answer(id);
    conversation
        .table
        .text(answer.id)
        .map_or_else(|| record_id(conversation, answer.first), str::to_owned)
}

/// The last record of the round's answers.
fn last_record(conversation: &Conversation, round: &Round) -> Option<RowId> {
    let blocks = round.answers.iter().flat_map(|(_, blocks)| blocks);
    blocks.map(|block| conversation.table.block(*block).row).max()
}

fn is_measured(round: &Round) -> bool {
    round.turns.last().is_some_and(|turn| turn.measured.is_some())
}

/// Whether the last answer contains the reason why it ended.
fn is_final(conversation: &Conversation, round: &Round) -> bool {
    round.answers.last().is_none_or(|(id, _)| conversation.table.answer(*id).is_final())
}

/// A hash that changes when an answer or a result is added.
fn mark(conversation: &Conversation, round: &Round) -> String {
    let mut hash = Sha256::new();
    hash.update(round.outcome().name());
    for (id, blocks) in &round.answers {
        let answer = conversation.table.answer(*id);
        let output = answer.usage.as_ref().map_or(0, |reported| reported.usage.output);
        hash.update(answer_id(conversation, *id));
        hash.update([u8::from(answer.is_final())]);
        hash.update(output.to_le_bytes());
        for block in blocks {
            let is_call = conversation.table.block(*block).kind.is_call();
            hash.update([u8::from(is_call), u8::from(conversation.pairs.of(*block).is_some())]);
        }
    }
    hex(&hash.finalize()[..4])
}
