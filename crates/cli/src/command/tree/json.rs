//! The tree of a session as JSON. The objects are described in `docs/output.md`.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use transcript::conversation::Turns;
use transcript::conversation::agents::WithAgents;
use transcript::conversation::graph::{ChainId, Start};
use transcript::conversation::lineage::Relative;
use transcript::conversation::place::Session;

use crate::as_json::Versioned;
use crate::failure::Failure;
use crate::out::JSON_VERSION;
use crate::world::World;
use transcript::conversation::view::{AgentView, SessionView};

#[derive(Serialize)]
struct ChainLine<'a> {
    v: u32,
    r#type: &'static str,
    chain: u32,
    live: bool,
    side: bool,
    start: &'static str,
    after: Option<After<'a>>,
    first_line: u64,
    leaf: Option<&'a str>,
    leaf_line: u64,
    records: usize,
    turns: Option<usize>,
}

/// The record that a chain continues from.
#[derive(Serialize)]
struct After<'a> {
    chain: u32,
    uuid: Option<&'a str>,
    line: u64,
}

#[derive(Serialize)]
struct BoundaryLine<'a> {
    v: u32,
    r#type: &'static str,
    line: u64,
    uuid: Option<&'a str>,
    auto: bool,
    tokens_before: Option<u64>,
    tokens_after: Option<u64>,
    logical_parent: Option<&'a str>,
    kept: Vec<Option<&'a str>>,
}

#[derive(Serialize)]
struct RelativeLine<'a> {
    v: u32,
    r#type: &'static str,
    session: &'a str,
    path: String,
    relation: &'static str,
    sign: &'static str,
    shared: u64,
    beyond: u64,
    last_shared_line: Option<u64>,
}

/// Writes the whole tree, one object per line.
pub(super) fn write(
    world: &mut World,
    session: &Session,
    family: &WithAgents,
    found: &Turns,
    kin: &[Relative],
) -> Result<(), Failure> {
    let conversation = &family.main;
    let table = &conversation.table;
    world.out.json(&Versioned::new(SessionView::new(&session.id, family, found)))?;
    let live: HashSet<ChainId> = conversation.live().into_iter().collect();
    let lists = [&found.dead, &found.side].into_iter().flatten();
    let turns: HashMap<ChainId, usize> = lists.map(|(id, turns)| (*id, turns.len())).collect();
    for (id, chain) in conversation.graph.numbered() {
        let start = match chain.start {
            Start::Root => "root",
            Start::Lost => "lost",
            Start::Loop => "loop",
            Start::Branch(_) => "branch",
            Start::Compaction(_) => "compaction",
            Start::CompactionGuess(_) => "compaction-guess",
            Start::Sidechain(_) => "side",
        };
        let after = chain.start.after().map(|row| After {
            chain: conversation.graph.chain_of(row).0,
            uuid: table.text(table.row(row).uuid),
            line: table.row(row).line,
        });
        world.out.json(&ChainLine {
            v: JSON_VERSION,
            r#type: "chain",
            chain: id.0,
            live: live.contains(&id),
            side: chain.is_sidechain,
            start,
            after,
            first_line: table.row(chain.first).line,
            leaf: table.text(table.row(chain.last).uuid),
            leaf_line: table.row(chain.last).line,
            records: conversation.graph.rows(id).len(),
            turns: turns.get(&id).copied(),
        })?;
    }
    for boundary in &table.boundaries {
        let kept = conversation.graph.kept(boundary);
        world.out.json(&BoundaryLine {
            v: JSON_VERSION,
            r#type: "compaction",
            line: table.row(boundary.row).line,
            uuid: table.text(table.row(boundary.row).uuid),
            auto: boundary.is_auto,
            tokens_before: boundary.tokens[0],
            tokens_after: boundary.tokens[1],
            logical_parent: table.text(boundary.logical_parent),
            kept: kept.into_iter().map(|row| table.text(table.row(row).uuid)).collect(),
        })?;
    }
    for agent in &family.agents {
        let view = AgentView::new(family, agent, &family.turns(agent))?;
        world.out.json(&Versioned::new(view))?;
    }
    for one in kin {
        world.out.json(&RelativeLine {
            v: JSON_VERSION,
            r#type: "relative",
            session: &one.session.id,
            path: one.session.path.to_string_lossy().into_owned(),
            relation: one.relation.name(),
            sign: one.sign.name(),
            shared: one.shared,
            beyond: one.beyond,
            last_shared_line: one.last.map(|row| table.row(row).line),
        })?;
    }
    Ok(())
}
