//! A conversation as JSON: what `turns --json`, `show --json` and `export json` write.
//!
//! The objects are described in `docs/output.md`. A turn is written step by step, so that no more than one record is held. Inputs and
//! structured results are the file's own bytes.

mod turn;

use std::collections::HashMap;
use std::io;

use serde::Serialize;
use transcript::conversation::{Conversation, Turns};
use transcript::family::{Body, Family, Owner, SubAgent};
use transcript::graph::ChainId;
use transcript::table::{BlockId, Id};
use transcript::time::Time;
use transcript::turn::{Tokens, Turn};

pub(super) use self::turn::turn;
use super::JSON_VERSION;

/// Whose turn it is, and where it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) number: usize,
    pub(super) owner: Owner,
    /// The sub-agent whose it is.
    pub(super) agent: Option<&'a SubAgent>,
    /// The chain, if it is not the live conversation.
    pub(super) chain: Option<ChainId>,
}

/// Turns that follow each other.
#[derive(Debug)]
pub(super) struct Run<'a> {
    pub(super) place: Place<'a>,
    pub(super) turns: Vec<Turn>,
}

/// All turns there are: the live ones, those of dead branches, and those of each sub-agent.
pub(super) fn runs(family: &Family, found: Turns) -> Vec<Run<'_>> {
    let Turns { live, dead, side, .. } = found;
    let mut side: HashMap<ChainId, Vec<Turn>> = side.into_iter().collect();
    let main = Place { number: 0, owner: Owner::Main, agent: None, chain: None };
    let mut runs = vec![Run { place: main, turns: live }];
    let aside = |place, (chain, turns)| Run { place: Place { chain: Some(chain), ..place }, turns };
    runs.extend(dead.into_iter().map(|one| aside(main, one)));
    for (at, agent) in family.agents.iter().enumerate() {
        let place = Place { owner: Owner::Agent(at), agent: Some(agent), ..main };
        match &agent.body {
            Body::File(conversation) => {
                let Turns { live, dead, .. } = conversation.turns();
                runs.push(Run { place, turns: live });
                runs.extend(dead.into_iter().map(|one| aside(place, one)));
            }
            Body::Side(chains) => {
                for (number, chain) in chains.iter().enumerate() {
                    let turns = side.remove(chain).unwrap_or_default();
                    let chain = (number > 0).then_some(*chain);
                    runs.push(Run { place: Place { chain, ..place }, turns });
                }
            }
        }
    }
    runs
}

#[derive(Serialize)]
struct SessionHead<'a> {
    v: u32,
    r#type: &'static str,
    id: &'a str,
    path: String,
    lines: u64,
    records: usize,
    damaged: u64,
    turns: usize,
    dead_turns: usize,
    chains: usize,
    branches: usize,
    compactions: usize,
    agents: usize,
    leaf: Option<String>,
    leaf_line: Option<u64>,
    consumed: u64,
    orphans: Vec<Loose>,
    open: Vec<Loose>,
}

/// A call or a result that has no partner.
#[derive(Serialize)]
struct Loose {
    id: Option<String>,
    line: u64,
}

/// The session, before its turns.
pub(super) fn session(id: &str, family: &Family, turns: &Turns) -> impl Serialize {
    let conversation = &family.main;
    let loose = |blocks: Vec<BlockId>| {
        let one = |block: BlockId| {
            let part = conversation.table.part(block);
            Loose { id: text(conversation, part.id), line: conversation.table.row(part.row).line }
        };
        blocks.into_iter().map(one).collect()
    };
    let leaf = conversation.leaf().map(|row| conversation.table.row(row));
    SessionHead {
        v: JSON_VERSION,
        r#type: "session",
        id,
        path: conversation.path.to_string_lossy().into_owned(),
        lines: conversation.table.lines,
        records: conversation.table.rows().len(),
        damaged: conversation.table.damaged,
        turns: turns.live.len(),
        dead_turns: turns.dead.iter().map(|(_, turns)| turns.len()).sum(),
        chains: conversation.graph.chains().len(),
        branches: conversation.graph.branches().len(),
        compactions: conversation.graph.compactions(&conversation.table),
        agents: family.agents.len(),
        leaf: leaf.and_then(|row| text(conversation, row.uuid)),
        leaf_line: leaf.map(|row| row.line),
        consumed: turns.consumed,
        orphans: loose(conversation.pairs.orphans(&conversation.table)),
        open: loose(conversation.pairs.open(&conversation.table)),
    }
}

#[derive(Serialize)]
struct AgentHead<'a> {
    v: u32,
    r#type: &'static str,
    id: &'a str,
    path: Option<String>,
    purpose: &'static str,
    kind: Option<String>,
    description: Option<String>,
    start: Option<StartOf>,
    background: bool,
    notified_line: Option<u64>,
    turns: usize,
    tokens: TokensOf,
}

/// The call that started a sub-agent.
#[derive(Serialize)]
pub(super) struct StartOf {
    agent: Option<String>,
    call: Option<String>,
    line: u64,
    how: &'static str,
    guess: bool,
}

pub(super) fn start(family: &Family, agent: &SubAgent) -> Option<StartOf> {
    let start = agent.start?;
    let conversation = family.of(start.owner);
    let part = conversation.table.part(start.call);
    Some(StartOf {
        agent: match start.owner {
            Owner::Main => None,
            Owner::Agent(at) => family.agents.get(at).map(|agent| agent.id.clone()),
        },
        call: text(conversation, part.id),
        line: conversation.table.row(part.row).line,
        how: start.how.name(),
        guess: start.is_guess,
    })
}

/// A sub-agent, before its turns.
pub(super) fn agent<'a>(
    family: &'a Family,
    agent: &'a SubAgent,
    turns: &[Turn],
) -> io::Result<impl Serialize> {
    let [kind, description] = family.task(agent)?;
    let conversation = family.body(agent);
    let mut tokens = Tokens::default();
    for turn in turns {
        tokens.add(turn.tokens(&conversation.table));
    }
    let is_file = matches!(agent.body, Body::File(_));
    Ok(AgentHead {
        v: JSON_VERSION,
        r#type: "agent",
        id: &agent.id,
        path: is_file.then(|| conversation.path.to_string_lossy().into_owned()),
        purpose: agent.purpose.name(),
        kind,
        description,
        start: start(family, agent),
        background: agent.is_background,
        notified_line: agent.notified.map(|(owner, row)| family.of(owner).table.row(row).line),
        turns: turns.len(),
        tokens: tokens.into(),
    })
}

#[derive(Serialize)]
pub(super) struct TokensOf {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    at_least: bool,
}

impl From<Tokens> for TokensOf {
    fn from(tokens: Tokens) -> Self {
        let Tokens { input, output, cache_read, cache_write, at_least } = tokens;
        TokensOf { input, output, cache_read, cache_write, at_least }
    }
}

fn text(conversation: &Conversation, id: Option<Id>) -> Option<String> {
    conversation.table.text(id).map(str::to_owned)
}

/// A moment, as JSON output has them.
pub(super) fn stamp(time: Time) -> Option<String> {
    jiff::Timestamp::from_millisecond(time.0).ok().map(|moment| format!("{moment:.3}"))
}
