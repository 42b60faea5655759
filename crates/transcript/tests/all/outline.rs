//! Graph, turns, pairs, merges and sub-agents of all recordings, as text.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use transcript::conversation::Conversation;
use transcript::conversation::agents::{Owner, SubAgent, WithAgents};
use transcript::conversation::graph::Start;
use transcript::conversation::place::Session;
use transcript::conversation::table::{BlockId, RowId};
use transcript::conversation::turn::{Step, Turn};
use transcript::format::input::Input;

fn line(conversation: &Conversation, row: RowId) -> u64 {
    conversation.table.row(row).line
}

fn block(family: &WithAgents, owner: Owner, id: BlockId) -> String {
    let conversation = family.of(owner);
    let part = conversation.table.block(id);
    let mut text = format!("{}:", line(conversation, part.row));
    match conversation.table.text(part.name) {
        Some(tool) => text.push_str(tool),
        None => write!(text, "{:?}", part.kind).unwrap(),
    }
    if part.kind.is_call() {
        match conversation.pairs.of(id) {
            Some(result) => {
                let error = if conversation.table.block(result).is_error { "!" } else { "" };
                write!(
                    text,
                    "->{}{error}",
                    line(conversation, conversation.table.block(result).row)
                )
                .unwrap();
            }
            None => text.push_str("->?"),
        }
        for at in family.started(owner, id) {
            write!(text, "(starts {})", family.agents[*at].id).unwrap();
        }
    }
    text
}

fn turns(family: &WithAgents, owner: Owner, turns: &[Turn], text: &mut String) {
    let conversation = family.of(owner);
    for (number, turn) in (1..).zip(turns) {
        let input = turn.input.map_or("-", Input::name);
        let tokens = turn.tokens(&conversation.table);
        let more = if tokens.at_least { ">" } else { "" };
        let [first, last] = turn.rows.map(|row| line(conversation, row));
        writeln!(
            text,
            "    {number}. {input} {} {} lines {first}-{last} tokens {}+{}+{}/{more}{}",
            turn.round.name(),
            turn.outcome.name(),
            tokens.input,
            tokens.cache_write(),
            tokens.cache_read,
            tokens.output
        )
        .unwrap();
        for step in &turn.steps {
            match step {
                Step::Said(row) => {
                    let input = conversation.table.row(*row).input.map_or("queue", Input::name);
                    writeln!(text, "       said {}:{input}", line(conversation, *row)).unwrap();
                }
                Step::Answer { id, blocks, .. } => {
                    let answer = conversation.table.answer(*id);
                    let blocks: Vec<_> =
                        blocks.iter().map(|id| block(family, owner, *id)).collect();
                    let error = if answer.is_error { " error" } else { "" };
                    writeln!(text, "       answer of {}{error}: {}", answer.rows, blocks.join(" "))
                        .unwrap();
                }
                Step::Orphan(id) => {
                    writeln!(
                        text,
                        "       orphan {}",
                        line(conversation, conversation.table.block(*id).row)
                    )
                    .unwrap();
                }
                Step::Event(row) => {
                    let seen =
                        conversation.look(*row, transcript::conversation::event::event).unwrap();
                    if seen.matters {
                        writeln!(text, "       event {}: {}", line(conversation, *row), seen.text)
                            .unwrap();
                    }
                }
            }
        }
    }
}

fn agent(family: &WithAgents, at: usize, agent: &SubAgent, text: &mut String) {
    write!(text, "  agent {} {}", agent.id, agent.purpose.name()).unwrap();
    if let Some(start) = agent.start {
        let guess = if start.is_guess { " guess" } else { "" };
        write!(text, " joined by {}{guess}", start.how.name()).unwrap();
    }
    if agent.is_background {
        text.push_str(" background");
    }
    if agent.notified.is_some() {
        text.push_str(" notified");
    }
    text.push('\n');
    turns(family, Owner::Agent(at), &family.turns(agent), text);
}

fn outline(path: &Path) -> String {
    let family = WithAgents::open(&Session::at(path).unwrap()).unwrap();
    let conversation = &family.main;
    let found = conversation.turns();
    let mut text = String::new();
    for (id, chain) in conversation.graph.numbered() {
        let start = match chain.start {
            Start::Root => "root".to_owned(),
            Start::Lost => "lost".to_owned(),
            Start::Loop => "loop".to_owned(),
            Start::Branch(row) => format!("branch at {}", line(conversation, row)),
            Start::Compaction(row) => format!("compaction after {}", line(conversation, row)),
            Start::CompactionGuess(row) => {
                format!("compaction, perhaps after {}", line(conversation, row))
            }
            Start::Sidechain(row) => format!("side of {}", line(conversation, row)),
        };
        let side = if chain.is_sidechain { " side" } else { "" };
        let (first, last) = (line(conversation, chain.first), line(conversation, chain.last));
        let rows = conversation.graph.rows(id).len();
        writeln!(text, "  chain {}{side} {start}: {rows} records, {first} to {last}", id.0)
            .unwrap();
    }
    for boundary in &conversation.table.boundaries {
        let kept = conversation.graph.kept(boundary);
        let kept: Vec<u64> = kept.into_iter().map(|row| line(conversation, row)).collect();
        writeln!(text, "  boundary {} keeps {kept:?}", line(conversation, boundary.row)).unwrap();
    }
    let leaf = conversation.leaf().map(|row| line(conversation, row));
    writeln!(text, "  live leaf {leaf:?}, consumed {}", found.consumed).unwrap();
    turns(&family, Owner::Main, &found.live, &mut text);
    for (chain, dead) in &found.dead {
        writeln!(text, "  dead chain {}", chain.0).unwrap();
        turns(&family, Owner::Main, dead, &mut text);
    }
    for (at, one) in family.agents.iter().enumerate() {
        agent(&family, at, one, &mut text);
    }
    text
}

#[test]
fn recordings() {
    let root = testkit::fixtures().join("recordings");
    let mut by_version: BTreeMap<String, String> = BTreeMap::new();
    for file in testkit::files_under(std::slice::from_ref(&root)) {
        let name = file.path.file_name().unwrap().to_string_lossy();
        if name.starts_with("agent-") {
            continue;
        }
        let mut parts = file.path.strip_prefix(&root).unwrap().components();
        let mut part = || parts.next().unwrap().as_os_str().to_string_lossy().into_owned();
        let (version, scenario) = (part(), part());
        let text = by_version.entry(version).or_default();
        writeln!(text, "{scenario} {}\n{}", &name[..8], outline(&file.path)).unwrap();
    }
    assert_eq!(by_version.len(), 6);
    for (version, text) in by_version {
        insta::assert_snapshot!(format!("recordings_{version}"), text);
    }
}

#[test]
fn edited() {
    let mut text = String::new();
    for file in testkit::files_under(&[testkit::fixtures().join("edited")]) {
        let name = file.path.file_stem().unwrap().to_string_lossy().into_owned();
        writeln!(text, "{name}\n{}", outline(&file.path)).unwrap();
    }
    insta::assert_snapshot!("edited", text);
}
