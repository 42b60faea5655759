//! Lists what a session has to ship: its units (turns and runs of sub-agents), with their ids.
//!
//! Made from tables only; no text is read. `transcript::conversation::ingest` lists the units and
//! knows which are finished. Invariants: ids depend only on the transcript; no two spans of a
//! session have the same id.

use std::collections::{HashMap, HashSet};

use transcript::conversation::Conversation;
use transcript::conversation::agents::{Owner, WithAgents};
use transcript::conversation::ingest::{Closing, Copied, Unit, Units, record_name};
use transcript::conversation::table::{BlockId, RowId};
use transcript::format::time::Time;

use crate::id::{Ids, SpanId, TraceId};

/// What a session has to ship.
#[derive(Debug)]
pub struct Plan {
    pub(crate) units: Units,
    /// The ids of each unit.
    unit_ids: Vec<UnitIds>,
    /// The spans of calls.
    pub(crate) calls: HashMap<(Owner, BlockId), SpanId>,
    ids: Ids,
}

#[derive(Debug)]
struct UnitIds {
    key: String,
    root: SpanId,
    trace: TraceId,
    parent: Option<SpanId>,
}

/// A unit with its ids.
#[derive(Clone, Copy, Debug)]
pub struct Shipment<'a> {
    /// The turn, or the run of a sub-agent.
    pub unit: &'a Unit,
    /// The id under which it is recorded as shipped.
    pub key: &'a str,
    pub(crate) root: SpanId,
    pub(crate) trace: TraceId,
    pub(crate) parent: Option<SpanId>,
}

impl Shipment<'_> {
    /// About how many spans it has: itself, its answers, and their blocks.
    pub(crate) fn likely_spans(&self) -> u64 {
        let answers = self.unit.records.answers.iter();
        1 + answers.map(|(_, blocks)| 1 + blocks.len() as u64).sum::<u64>()
    }
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
        let units = Units::new(family, name, closing, copied);
        let (ids, calls) = (ids.clone(), HashMap::new());
        let mut plan = Plan { units, unit_ids: Vec::new(), calls, ids };
        let mut used = HashSet::new();
        let mut at = 0;
        while let Some(unit) = plan.units.list().get(at) {
            // Each turn with its calls; of a sub-agent, all runs before their calls.
            let is_its = |other: &&Unit| !unit.is_turn() && other.owner == unit.owner;
            let count = plan.units.list()[at..].iter().take_while(is_its).count().max(1);
            for at in at..at + count {
                plan.add_unit(at, &mut used);
            }
            for at in at..at + count {
                plan.add_calls(at, &mut used);
            }
            at += count;
        }
        plan
    }

    /// The units, turns before the sub-agents that they started.
    pub fn shipments(&self) -> impl DoubleEndedIterator<Item = Shipment<'_>> {
        self.units.list().iter().zip(&self.unit_ids).map(|(unit, ids)| Shipment {
            unit,
            key: &ids.key,
            root: ids.root,
            trace: ids.trace,
            parent: ids.parent,
        })
    }

    /// The session's file.
    pub fn main(&self) -> &Conversation {
        &self.units.family.main
    }

    /// When the turn began that a unit is or belongs to.
    pub fn opened(&self, unit: &Unit) -> Time {
        self.units.opened(unit)
    }

    fn add_unit(&mut self, at: usize, used: &mut HashSet<SpanId>) {
        let unit = &self.units.list()[at];
        let ids = if unit.is_turn() {
            let trace = self.ids.trace(&unit.session, &unit.name);
            let root = self.ids.span(&unit.session, &unit.name);
            used.insert(root);
            UnitIds { key: trace.to_string(), root, trace, parent: None }
        } else {
            let root = fresh(used, &self.ids, &unit.session, [&unit.name, &unit.opener]);
            let turn = unit.turn.map(|turn| &self.unit_ids[turn]);
            let agent = || unit.name.split('/').next().unwrap_or_default();
            let trace =
                turn.map_or_else(|| self.ids.trace(&unit.session, agent()), |turn| turn.trace);
            let call = unit.call.and_then(|call| self.calls.get(&call).copied());
            let parent = if unit.call.is_some() { call } else { turn.map(|turn| turn.root) };
            UnitIds { key: root.to_string(), root, trace, parent }
        };
        self.unit_ids.push(ids);
    }

    /// Adds the spans of the calls of a unit.
    fn add_calls(&mut self, at: usize, used: &mut HashSet<SpanId>) {
        let unit = &self.units.list()[at];
        let conversation = self.units.family.of(unit.owner);
        let calls: Vec<BlockId> = self.units.calls(unit).collect();
        for call in calls {
            let block = conversation.table.block(call);
            let place = conversation.table.place(call);
            let record = format!("{}/{place}", record_name(conversation, block.row));
            let seed = conversation.table.text(block.id).unwrap_or(&record);
            let id = fresh(used, &self.ids, &unit.session, [seed, &record]);
            self.calls.insert((unit.owner, call), id);
        }
    }

    pub(crate) fn time(&self, owner: Owner, row: RowId) -> Time {
        self.units.time(owner, row)
    }

    /// The id of the span of something in a unit.
    pub(crate) fn span(&self, unit: &Unit, seed: &str) -> SpanId {
        self.ids.span(&unit.session, seed)
    }
}

/// An id that no other span has. If two things have the same name, the record is added.
fn fresh(
    used: &mut HashSet<SpanId>,
    ids: &Ids,
    session: &str,
    [seed, record]: [&str; 2],
) -> SpanId {
    let id = ids.span(session, seed);
    if used.insert(id) {
        return id;
    }
    let id = ids.span(session, &format!("{seed}/{record}"));
    used.insert(id);
    id
}
