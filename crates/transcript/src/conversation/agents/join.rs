//! Which call started which sub-agent.
//!
//! First by ids; the rest by equal prompts. All evidence is collected, and the most certain
//! decides.

use std::collections::{HashMap, HashSet};

use super::{Body, How, Joined, Owner, Purpose, SubAgent, WithAgents, first_prompt};
use crate::conversation::Conversation;
use crate::conversation::cycles::cycles;
use crate::conversation::graph::{ChainId, Start};
use crate::conversation::table::{BlockId, Id, RowId, Started, StartedBy};

/// The lookup tables for joining sub-agents to calls.
pub(super) struct Joining {
    sidecars: Vec<Option<String>>,
    files: Vec<File>,
    /// The sub-agents of the session's file, by their chains.
    sides: HashMap<ChainId, usize>,
}

/// The evidence in one file.
struct File {
    owner: Owner,
    calls: HashMap<Id, BlockId>,
    /// The records that name a sub-agent.
    facts: HashMap<Id, Vec<Started>>,
}

impl Joining {
    pub(super) fn new(family: &WithAgents, sidecars: &[Option<String>]) -> Joining {
        let mut files = vec![File::new(Owner::Main, &family.main)];
        let mut sides = HashMap::new();
        for (at, agent) in family.agents.iter().enumerate() {
            match &agent.body {
                Body::File(conversation) => files.push(File::new(Owner::Agent(at), conversation)),
                Body::Sidechain(chains) => sides.extend(chains.iter().map(|chain| (*chain, at))),
            }
        }
        Joining { sidecars: sidecars.to_vec(), files, sides }
    }

    /// Who made a call: the sidechain that it is in, or else the file's owner.
    fn owner(&self, family: &WithAgents, file: Owner, call: BlockId) -> Owner {
        if file != Owner::Main {
            return file;
        }
        let row = family.main.table.block(call).row;
        let side = self.sides.get(&family.main.graph.chain_of(row));
        side.map_or(Owner::Main, |at| Owner::Agent(*at))
    }

    pub(super) fn join(&self, family: &mut WithAgents) {
        let mut calls: Vec<Vec<Joined>> = Vec::new();
        for at in 0..family.agents.len() {
            let mut found = self.by_id(family, at);
            found.retain(|joined| joined.owner != Owner::Agent(at));
            let (is_background, notified) = self.background_and_notice(family, at);
            let agent = &mut family.agents[at];
            // Of equally certain ones the first, because later calls continue the agent.
            agent.start = found.iter().min_by_key(|joined| joined.how).copied();
            agent.is_background = is_background;
            agent.notified = notified;
            calls.push(found);
        }
        self.by_prompt(family);
        break_loops(&mut family.agents);
        for (at, mut found) in calls.into_iter().enumerate() {
            let agent = &mut family.agents[at];
            let file =
                if let Body::File(conversation) = &agent.body { Some(conversation) } else { None };
            let has_prompt = file.is_none_or(|conversation| first_prompt(conversation).is_some());
            if agent.start.is_none() && agent.purpose == Purpose::Task && !has_prompt {
                agent.purpose = Purpose::Unknown;
            }
            // A notification names an agent, but does not start it; and only the owner that started
            // an agent continues it.
            let owner = agent.start.map(|start| start.owner);
            found.retain(|joined| Some(joined.owner) == owner && joined.how != How::Notification);
            found.extend(agent.start);
            for joined in found {
                let of_call = family.by_call.entry((joined.owner, joined.call)).or_default();
                if !of_call.contains(&at) {
                    of_call.push(at);
                }
            }
        }
    }

    /// The files that may name an agent: all except its own.
    fn others(&self, at: usize) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |file| file.owner != Owner::Agent(at))
    }

    /// The calls that are found by ids.
    fn by_id(&self, family: &WithAgents, at: usize) -> Vec<Joined> {
        let agent = &family.agents[at];
        let mut found = Vec::new();
        let mut add = |file: Owner, call: BlockId, how| {
            found.push(Joined {
                owner: self.owner(family, file, call),
                call,
                how,
                is_guess: false,
            });
        };
        if let Some(named) = self.sidecars.get(at).and_then(Option::as_deref) {
            for file in self.others(at) {
                let id = family.of(file.owner).table.ids.find(named);
                if let Some(call) = id.and_then(|id| file.calls.get(&id)) {
                    add(file.owner, *call, How::Sidecar);
                }
            }
        }
        if let Body::Sidechain(chains) = &agent.body {
            if let Start::Sidechain(row) = family.main.graph.chain(chains[0]).start {
                let table = &family.main.table;
                let calls: Vec<BlockId> =
                    table.blocks_of(row).filter(|part| table.block(*part).kind.is_call()).collect();
                let prompt = table.text_hash(family.main.graph.chain(chains[0]).first);
                let asked = |call: &&BlockId| {
                    let prompts = &table.prompts;
                    let at = prompts.binary_search_by_key(*call, |(block, _)| *block);
                    at.is_ok_and(|at| Some(prompts[at].1) == prompt)
                };
                let call = calls.iter().find(asked).or(calls.first());
                if let Some(call) = call {
                    add(Owner::Main, *call, How::Parent);
                    // If the record has several calls, only the prompt can show which one it was.
                    let is_guess = calls.len() > 1 && !asked(&call);
                    for joined in &mut found {
                        joined.is_guess = is_guess;
                    }
                }
            }
            return found;
        }
        for file in self.others(at) {
            for fact in file.about(family, &agent.id) {
                let how = match fact.by {
                    StartedBy::Result | StartedBy::Launch => How::Result,
                    StartedBy::Progress => How::Progress,
                    StartedBy::Notification => How::Notification,
                };
                if let Some(call) = fact.call.and_then(|call| file.calls.get(&call)) {
                    add(file.owner, *call, how);
                }
            }
        }
        found
    }

    /// Whether it ran in the background, and the record that reported its end.
    fn background_and_notice(
        &self,
        family: &WithAgents,
        at: usize,
    ) -> (bool, Option<(Owner, RowId)>) {
        let (mut is_background, mut notified) = (false, None);
        for file in self.others(at) {
            for fact in file.about(family, &family.agents[at].id) {
                match fact.by {
                    StartedBy::Launch => is_background = true,
                    StartedBy::Notification => notified = Some((file.owner, fact.row)),
                    StartedBy::Result | StartedBy::Progress => {}
                }
            }
        }
        (is_background, notified)
    }

    /// Joins the rest by equal prompts, in order.
    fn by_prompt(&self, family: &mut WithAgents) {
        let starts = family.agents.iter().filter_map(|agent| agent.start);
        let taken: HashSet<(Owner, BlockId)> =
            starts.map(|start| (start.owner, start.call)).collect();
        let mut free: HashMap<u64, Vec<(Owner, BlockId)>> = HashMap::new();
        for file in &self.files {
            for (call, prompt) in &family.of(file.owner).table.prompts {
                let owner = self.owner(family, file.owner, *call);
                if !taken.contains(&(owner, *call)) {
                    free.entry(*prompt).or_default().push((owner, *call));
                }
            }
        }
        let mut wanting: HashMap<u64, Vec<usize>> = HashMap::new();
        for (at, agent) in family.agents.iter().enumerate() {
            if agent.start.is_none() && agent.purpose == Purpose::Task {
                let conversation = family.body(agent);
                let row = match &agent.body {
                    Body::File(_) => first_prompt(conversation),
                    Body::Sidechain(chains) => Some(conversation.graph.chain(chains[0]).first),
                };
                if let Some(prompt) = row.and_then(|row| conversation.table.text_hash(row)) {
                    wanting.entry(prompt).or_default().push(at);
                }
            }
        }
        for (prompt, agents) in wanting {
            let calls = free.remove(&prompt).unwrap_or_default();
            let is_guess = agents.len() > 1 || calls.len() > 1;
            let mut calls = calls.into_iter();
            for at in agents {
                let call = calls.find(|(owner, _)| *owner != Owner::Agent(at));
                family.agents[at].start =
                    call.map(|(owner, call)| Joined { owner, call, how: How::Prompt, is_guess });
            }
        }
    }
}

impl File {
    fn new(owner: Owner, conversation: &Conversation) -> File {
        let mut facts: HashMap<Id, Vec<Started>> = HashMap::new();
        for fact in &conversation.table.started {
            facts.entry(fact.agent).or_default().push(*fact);
        }
        File { owner, calls: calls(conversation), facts }
    }

    /// The records that name a sub-agent.
    fn about(&self, family: &WithAgents, agent: &str) -> &[Started] {
        let id = family.of(self.owner).table.ids.find(agent);
        id.and_then(|id| self.facts.get(&id)).map_or(&[], Vec::as_slice)
    }
}

/// Where agents seem to have started each other, removes the start of one of them.
fn break_loops(agents: &mut [SubAgent]) {
    let starter = |at: usize| match agents[at].start?.owner {
        Owner::Agent(up) => Some(up),
        Owner::Main => None,
    };
    for cut in cycles(agents.len(), starter) {
        agents[cut].start = None;
    }
}

/// The calls of a conversation, by their ids.
pub(super) fn calls(conversation: &Conversation) -> HashMap<Id, BlockId> {
    let parts = conversation.table.blocks().iter().enumerate();
    let calls = parts.filter(|(_, part)| part.kind.is_call() && !part.is_repeat);
    calls.filter_map(|(at, part)| Some((part.id?, BlockId(u32::try_from(at).ok()?)))).collect()
}
