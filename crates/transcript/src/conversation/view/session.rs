//! A session, its sub-agents and its turns, without their steps.

use std::collections::HashMap;

use serde::Serialize;

use super::{stamp, text};
use crate::conversation::agents::{Body, Owner, SubAgent, WithAgents};
use crate::conversation::graph::ChainId;
use crate::conversation::id::AgentId;
use crate::conversation::table::{Answer, BlockId, ReportedUsage, RowId};
use crate::conversation::turn::{Outcome, Turn};
use crate::conversation::usage::Usage;
use crate::conversation::{Conversation, Turns};
use crate::format::input::Input;

/// Where a turn is: in the session or a sub-agent, on which branch, and its number.
#[derive(Clone, Copy, Debug)]
pub struct TurnPlace<'a> {
    /// Its number in the conversation, from 1.
    pub number: usize,
    /// Whether it belongs to the session or to a sub-agent.
    pub owner: Owner,
    /// The sub-agent, if it belongs to one.
    pub agent: Option<&'a SubAgent>,
    /// The chain, if it is not on the live branch.
    pub chain: Option<ChainId>,
}

/// Turns that follow each other.
#[derive(Debug)]
pub struct Run<'a> {
    /// Where they are.
    pub place: TurnPlace<'a>,
    /// The turns.
    pub turns: Vec<Turn>,
}

/// How a turn ended that is not complete, for people. The end of others is among their items.
pub fn turn_end(outcome: Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Open => Some("the model did not continue"),
        Outcome::Unanswered => Some("not answered"),
        Outcome::Answered
        | Outcome::Interrupted
        | Outcome::Failed
        | Outcome::Local
        | Outcome::Compacted => None,
    }
}

/// All turns of a session: the live ones, those of abandoned branches, those of each sub-agent.
pub fn runs(session: &WithAgents, found: Turns) -> Vec<Run<'_>> {
    let Turns { live, dead, side, .. } = found;
    let mut side: HashMap<ChainId, Vec<Turn>> = side.into_iter().collect();
    let main = TurnPlace { number: 0, owner: Owner::Main, agent: None, chain: None };
    let mut runs = vec![Run { place: main, turns: live }];
    let aside = |place, (chain, turns)| {
        let place = TurnPlace { chain: Some(chain), ..place };
        Run { place, turns }
    };
    runs.extend(dead.into_iter().map(|branch| aside(main, branch)));
    for (at, agent) in session.agents.iter().enumerate() {
        let place = TurnPlace { owner: Owner::Agent(at), agent: Some(agent), ..main };
        match &agent.body {
            Body::File(conversation) => {
                let Turns { live, dead, .. } = conversation.turns();
                runs.push(Run { place, turns: live });
                runs.extend(dead.into_iter().map(|branch| aside(place, branch)));
            }
            Body::Sidechain(chains) => {
                for (number, chain) in chains.iter().enumerate() {
                    let turns = side.remove(chain).unwrap_or_default();
                    let chain = (number > 0).then_some(*chain);
                    runs.push(Run { place: TurnPlace { chain, ..place }, turns });
                }
            }
        }
    }
    runs
}

/// A session, without its turns.
#[derive(Debug, Serialize)]
pub struct SessionView<'a> {
    r#type: &'static str,
    /// Its id.
    pub id: &'a str,
    /// The path of its file.
    pub path: String,
    /// How many lines the file has.
    pub lines: u64,
    /// How many records it has.
    pub records: usize,
    /// How many pieces of lines are not records.
    pub damaged: u64,
    /// How many turns the live branch has.
    pub turns: usize,
    /// How many turns the abandoned branches have.
    pub dead_turns: usize,
    /// How many chains of records there are.
    pub chains: usize,
    /// At how many places the conversation branches.
    pub branches: usize,
    /// How many compactions there are.
    pub compactions: usize,
    /// How many sub-agents there are.
    pub agents: usize,
    /// The id of the record that the client resumes from.
    pub leaf: Option<String>,
    /// The number of its line.
    pub leaf_line: Option<u64>,
    /// The number of the line up to which all turns are complete.
    pub consumed: u64,
    /// Results without a call.
    pub orphans: Vec<Unpaired>,
    /// Calls without a result.
    pub open: Vec<Unpaired>,
}

/// A call without a result, or a result without a call.
#[derive(Debug, Serialize)]
pub struct Unpaired {
    /// The id of the call.
    pub id: Option<String>,
    /// The number of its line.
    pub line: u64,
}

impl<'a> SessionView<'a> {
    /// The view of a session with these turns.
    pub fn new(id: &'a str, session: &WithAgents, turns: &Turns) -> SessionView<'a> {
        let conversation = &session.main;
        let (table, graph) = (&conversation.table, &conversation.graph);
        let unpaired = |blocks: Vec<BlockId>| {
            let one = |block: BlockId| {
                let block = table.block(block);
                Unpaired { id: text(conversation, block.id), line: table.row(block.row).line }
            };
            blocks.into_iter().map(one).collect()
        };
        let leaf = conversation.leaf().map(|row| table.row(row));
        SessionView {
            r#type: "session",
            id,
            path: conversation.path.to_string_lossy().into_owned(),
            lines: table.lines,
            records: table.rows().len(),
            damaged: table.damaged,
            turns: turns.live.len(),
            dead_turns: turns.dead.iter().map(|(_, turns)| turns.len()).sum(),
            chains: graph.chains().len(),
            branches: graph.branches().len(),
            compactions: graph.compactions(table),
            agents: session.agents.len(),
            leaf: leaf.and_then(|row| text(conversation, row.uuid)),
            leaf_line: leaf.map(|row| row.line),
            consumed: turns.consumed,
            orphans: unpaired(conversation.pairs.orphans(table)),
            open: unpaired(conversation.pairs.open(table)),
        }
    }
}

/// A sub-agent, without its turns.
#[derive(Debug, Serialize)]
pub struct AgentView<'a> {
    r#type: &'static str,
    /// Its id.
    pub id: &'a str,
    /// The path of its file, if it has one.
    pub path: Option<String>,
    /// What it was for.
    pub purpose: &'static str,
    /// The kind of agent.
    pub kind: Option<String>,
    /// Its task in a few words.
    pub description: Option<String>,
    /// The call that started it.
    pub start: Option<StartView>,
    /// Whether it ran in the background.
    pub background: bool,
    /// The number of the line of the record that reported its end.
    pub notified_line: Option<u64>,
    /// How many turns it has.
    pub turns: usize,
    /// The tokens that it took.
    pub tokens: Usage,
}

/// The call that started a sub-agent.
#[derive(Debug, Serialize)]
pub struct StartView {
    /// The id of the sub-agent that made the call; `None` if the session made it.
    pub agent: Option<AgentId>,
    /// The id of the call.
    pub call: Option<String>,
    /// The number of its line.
    pub line: u64,
    /// The evidence for it.
    pub how: &'static str,
    /// Whether another call or another agent fits as well.
    pub guess: bool,
}

impl StartView {
    /// The start of a sub-agent, if its call is known.
    pub fn new(session: &WithAgents, agent: &SubAgent) -> Option<StartView> {
        let start = agent.start?;
        let conversation = session.of(start.owner);
        let block = conversation.table.block(start.call);
        Some(StartView {
            agent: match start.owner {
                Owner::Main => None,
                Owner::Agent(at) => session.agents.get(at).map(|agent| agent.id.clone()),
            },
            call: text(conversation, block.id),
            line: conversation.table.row(block.row).line,
            how: start.how.name(),
            guess: start.is_guess,
        })
    }
}

impl<'a> AgentView<'a> {
    /// The view of a sub-agent with these turns.
    pub fn new(
        session: &'a WithAgents,
        agent: &'a SubAgent,
        turns: &[Turn],
    ) -> crate::Result<AgentView<'a>> {
        let [kind, description] = session.task(agent)?;
        let conversation = session.body(agent);
        let is_file = matches!(agent.body, Body::File(_));
        let notified = agent.notified.map(|(owner, row)| session.of(owner).table.row(row).line);
        Ok(AgentView {
            r#type: "agent",
            id: &agent.id,
            path: is_file.then(|| conversation.path.to_string_lossy().into_owned()),
            purpose: agent.purpose.name(),
            kind,
            description,
            start: StartView::new(session, agent),
            background: agent.is_background,
            notified_line: notified,
            turns: turns.len(),
            tokens: turns.iter().map(|turn| turn.tokens(&conversation.table)).sum(),
        })
    }
}

/// A turn, without its steps.
#[derive(Debug, Serialize)]
pub struct TurnView<'a> {
    r#type: &'static str,
    /// Its number, from 1.
    pub turn: usize,
    /// The id of the sub-agent, if it belongs to one.
    pub agent: Option<&'a str>,
    /// Whether it is on the live branch.
    pub live: bool,
    /// The number of its chain, if it is not on the live branch.
    pub chain: Option<u32>,
    /// The kind of input that opened it.
    pub input: Option<&'static str>,
    /// How it follows the turn before.
    pub round: &'static str,
    /// How it ended.
    pub outcome: &'static str,
    /// Whether the turn is over, so that nothing more can follow in it.
    pub complete: bool,
    /// The numbers of its first and its last line.
    pub lines: [u64; 2],
    /// When it began.
    pub start: Option<String>,
    /// When it ended.
    pub end: Option<String>,
    /// The time between these, in milliseconds.
    pub duration_ms: Option<i64>,
    /// How long it took according to the client, in milliseconds.
    pub measured_ms: Option<u64>,
    /// The models that answered.
    pub models: Vec<String>,
    /// The tokens that it took.
    pub tokens: Usage,
}

impl<'a> TurnView<'a> {
    /// The view of a turn at that place.
    pub fn new(session: &WithAgents, turn: &Turn, place: TurnPlace<'a>) -> TurnView<'a> {
        let conversation = session.of(place.owner);
        let table = &conversation.table;
        let models = turn.models(table).into_iter();
        TurnView {
            r#type: "turn",
            turn: place.number,
            agent: place.agent.map(|agent| agent.id.as_str()),
            live: place.chain.is_none(),
            chain: place.chain.map(|chain| chain.0),
            input: turn.input.map(Input::name),
            round: turn.round.name(),
            outcome: turn.outcome.name(),
            complete: turn.outcome.is_complete(),
            lines: turn.rows.map(|row: RowId| table.row(row).line),
            start: turn.times.and_then(|[start, _]| stamp(start)),
            end: turn.times.and_then(|[_, end]| stamp(end)),
            duration_ms: turn.times.map(|[start, end]| end.0.saturating_sub(start.0)),
            measured_ms: turn.measured,
            models: models.map(|id| table.ids.text(id).to_owned()).collect(),
            tokens: turn.tokens(table),
        }
    }
}

/// The tokens that an answer took, as the API reported them.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "docs/output.md describes the members")]
pub struct UsageView {
    pub input: u64,
    pub output: u64,
    pub r#final: bool,
    pub thinking: Option<u64>,
    pub cache_read: u64,
    pub cache_write: u64,
    pub cache_write_5m: Option<u64>,
    pub cache_write_1h: Option<u64>,
    pub web_searches: u64,
    pub web_fetches: u64,
    pub service_tier: Option<String>,
    pub speed: Option<String>,
    pub inference_geo: Option<String>,
}

pub(super) fn usage(
    conversation: &Conversation,
    reported: &ReportedUsage,
    answer: &Answer,
) -> UsageView {
    let usage = reported.usage;
    UsageView {
        input: usage.input,
        output: usage.output,
        r#final: answer.is_final(),
        thinking: reported.thinking,
        cache_read: usage.cache_read,
        cache_write: usage.cache_write(),
        cache_write_5m: reported.cache_split.map(|[short, _]| short),
        cache_write_1h: reported.cache_split.map(|[_, long]| long),
        web_searches: usage.searches,
        web_fetches: usage.fetches,
        service_tier: text(conversation, reported.tier),
        speed: text(conversation, reported.speed),
        inference_geo: text(conversation, reported.geo),
    }
}
