//! The tree of a session on the screen.

use std::collections::HashSet;

use transcript::conversation::agents::{Body, Owner, Purpose, SubAgent, WithAgents};
use transcript::conversation::graph::{ChainId, Start};
use transcript::conversation::lineage::{Relative, Sign, named_sessions};
use transcript::conversation::place::Session;
use transcript::conversation::table::{BlockId, RowId};
use transcript::conversation::turn::{Outcome, Step, Turn};
use transcript::conversation::{Conversation, Turns};
use unicode_width::UnicodeWidthStr;

use crate::failure::Failure;
use crate::headline::headline;
use crate::out::{BOLD, DIM, GOOD, WARN};
use crate::page::{Lead, Page, styled, unstyled};
use crate::text::{clock, count, fit, one_line};
use crate::{compaction, damage};

/// Draws the whole tree.
pub(super) fn draw(
    page: &mut Page<'_>,
    session: &Session,
    family: &WithAgents,
    found: &Turns,
    kin: &[Relative],
) -> Result<(), Failure> {
    let mut drawing = Drawing::new(page, family, found);
    drawing.head(session)?;
    drawing.live()?;
    drawing.elsewhere()?;
    drawing.agents_alone()?;
    drawing.relatives(kin)?;
    drawing.strangers(session, kin)
}

struct Drawing<'a, 'p, 'o> {
    page: &'p mut Page<'o>,
    family: &'a WithAgents,
    found: &'a Turns,
    live: Vec<ChainId>,
    /// The abandoned chains that branch off each chain.
    below: Vec<Vec<ChainId>>,
    /// The abandoned chains that have their own root.
    alone: Vec<ChainId>,
    /// How many chains were skipped because they contain no messages.
    silent: u64,
    /// The sub-agents that were drawn.
    drawn: HashSet<usize>,
}

impl<'a, 'p, 'o> Drawing<'a, 'p, 'o> {
    fn new(page: &'p mut Page<'o>, family: &'a WithAgents, found: &'a Turns) -> Self {
        let graph = &family.main.graph;
        let live = family.main.live();
        let mut is_live = vec![false; graph.chains().len()];
        for chain in &live {
            is_live[chain.index()] = true;
        }
        let (mut below, mut alone) = (vec![Vec::new(); is_live.len()], Vec::new());
        for (id, chain) in
            graph.numbered().filter(|(id, chain)| !chain.is_sidechain && !is_live[id.index()])
        {
            match chain.start.after() {
                Some(row) => below[graph.chain_of(row).index()].push(id),
                None => alone.push(id),
            }
        }
        Drawing { page, family, found, live, below, alone, silent: 0, drawn: HashSet::new() }
    }

    fn conversation(&self) -> &'a Conversation {
        &self.family.main
    }

    fn head(&mut self, session: &Session) -> Result<(), Failure> {
        let conversation = self.conversation();
        let dead: usize = self.found.dead.iter().map(|(_, turns)| turns.len()).sum();
        let facts = [
            count(self.found.live.len() as u64, "turn"),
            format!("{dead} abandoned"),
            count(conversation.graph.branches().len() as u64, "branch point"),
            count(conversation.graph.compactions(&conversation.table) as u64, "compaction"),
            count(self.family.agents.len() as u64, "sub-agent"),
        ];
        self.page.line(&[styled(BOLD, one_line(&session.id))])?;
        self.page.paragraph(&Lead::default(), &[styled(DIM, facts.join(" · "))])?;
        if let Some(text) = damage::describe(conversation.table.damaged) {
            self.page.paragraph(&Lead::default(), &[styled(WARN, text)])?;
        }
        Ok(())
    }

    /// The live conversation, chain by chain, with what branches off each.
    fn live(&mut self) -> Result<(), Failure> {
        let path = self.live.clone();
        let Some(end) = self.conversation().end() else {
            return Ok(self
                .page
                .line(&[styled(WARN, "nothing to resume: there is no conversation")])?);
        };
        let mut turns = (1..).zip(&self.found.live).peekable();
        let conversation = self.conversation();
        let graph = &conversation.graph;
        let mut shown = vec![false; graph.chains().len()];
        for (at, chain) in path.iter().enumerate() {
            self.start(*chain)?;
            let last = at + 1 == path.len();
            // A turn belongs to the chain in which it begins.
            shown[chain.index()] = true;
            while let Some((number, turn)) = turns.next_if(|(_, turn)| {
                last || shown[graph.chain_of(opening(conversation, turn)).index()]
            }) {
                self.turn(number, turn)?;
            }
            self.dead_below(*chain, 0)?;
        }
        let conversation = self.conversation();
        let row = conversation.table.row(conversation.leaf().unwrap_or(end));
        let name = conversation.table.text(row.uuid).unwrap_or("(no id)");
        let (style, what) = match conversation.leaf() {
            Some(_) => (GOOD, "live leaf"),
            None => (WARN, "not resumed by the client; shown up to"),
        };
        let text = format!("● {what} {}, line {}", short(name), row.line);
        Ok(self.page.line(&[styled(style, text)])?)
    }

    /// How a chain of the live conversation begins, if that is worth a line.
    fn start(&mut self, chain: ChainId) -> Result<(), Failure> {
        let conversation = self.conversation();
        let known = conversation.graph.chain(chain);
        let line = conversation.table.row(known.first).line;
        // A file may begin with the compaction of another.
        if conversation.table.boundary(known.first).is_some() {
            return self.compaction(chain);
        }
        let text = match known.start {
            Start::Root => format!("root, line {line}"),
            Start::Lost => format!("line {line}, whose parent is not in the file"),
            Start::Loop => format!("line {line}, where a cycle of parent links was cut"),
            Start::Branch(_) => format!("live branch, from line {line}"),
            Start::Sidechain(_) => format!("line {line}, off a sidechain"),
            Start::Compaction(_) | Start::CompactionGuess(_) => return self.compaction(chain),
        };
        let mark = if matches!(known.start, Start::Branch(_)) { "├" } else { "┌" };
        Ok(self.page.line(&[styled(GOOD, mark), styled(DIM, format!(" {text}"))])?)
    }

    fn compaction(&mut self, chain: ChainId) -> Result<(), Failure> {
        let conversation = self.conversation();
        let known = conversation.graph.chain(chain);
        let mut facts = vec![format!("line {}", conversation.table.row(known.first).line)];
        if let Some(boundary) = conversation.table.boundary(known.first) {
            facts.extend(compaction::facts(conversation, boundary));
        }
        if matches!(known.start, Start::CompactionGuess(_)) {
            facts.push("what came before it is a guess".to_owned());
        }
        let text = format!("╞ compaction: {}", facts.join(", "));
        Ok(self.page.line(&[styled(WARN, text)])?)
    }

    fn turn(&mut self, number: usize, turn: &Turn) -> Result<(), Failure> {
        let conversation = self.conversation();
        let calls: Vec<_> = turn.calls(&conversation.table).collect();
        let time = turn.times.map(|[start, _]| clock(start)).unwrap_or_default();
        let mut tail = Vec::new();
        if !calls.is_empty() {
            tail.push(count(calls.len() as u64, "call"));
        }
        if turn.outcome != Outcome::Answered {
            tail.push(turn.outcome.name().to_owned());
        }
        let tail = if tail.is_empty() { String::new() } else { format!("  {}", tail.join(", ")) };
        let front = format!("{number:>4}  {time}  ");
        let room = self.page.width.saturating_sub(2 + front.width() + tail.width()).max(10);
        let title = fit(&headline(conversation, turn)?, room);
        self.page.line(&[
            styled(GOOD, "│ "),
            styled(DIM, front),
            unstyled(title),
            styled(DIM, tail),
        ])?;
        for call in calls {
            self.agents_of(Owner::Main, call, 1)?;
        }
        Ok(())
    }

    /// The sub-agents that a call started, and those that they started.
    fn agents_of(&mut self, owner: Owner, call: BlockId, depth: usize) -> Result<(), Failure> {
        let family = self.family;
        for at in family.started(owner, call).iter().copied() {
            let agent = &family.agents[at];
            if !self.drawn.insert(at) || depth > DEEPEST {
                continue;
            }
            let text = about(family, agent)?;
            let lead = format!("{:>width$}↳ ", "", width = 4 * depth);
            let lead = Lead {
                first: vec![styled(GOOD, "│"), unstyled(lead.clone())],
                rest: vec![styled(GOOD, "│"), unstyled(" ".repeat(lead.width()))],
            };
            self.page.paragraph(&lead, &[styled(DIM, text)])?;
            if let Body::File(conversation) = &agent.body {
                for turn in family.turns(agent) {
                    for call in turn.calls(&conversation.table) {
                        self.agents_of(Owner::Agent(at), call, depth + 1)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The abandoned chains that branch off a chain, and those that branch off them.
    fn dead_below(&mut self, chain: ChainId, depth: usize) -> Result<(), Failure> {
        let mut open: Vec<_> =
            self.below[chain.index()].iter().rev().map(|id| (*id, depth)).collect();
        while let Some((id, depth)) = open.pop() {
            self.dead(id, depth)?;
            open.extend(self.below[id.index()].iter().rev().map(|id| (*id, depth + 1)));
        }
        Ok(())
    }

    fn dead(&mut self, chain: ChainId, depth: usize) -> Result<(), Failure> {
        let conversation = self.conversation();
        let known = conversation.graph.chain(chain);
        let leaf =
            conversation.table.text(conversation.table.row(known.last).uuid).unwrap_or("(no id)");
        let Ok(at) = self.found.dead.binary_search_by_key(&chain, |(id, _)| *id) else {
            self.silent += 1;
            return Ok(());
        };
        let turns = &self.found.dead[at].1;
        let from = match known.start.after() {
            Some(row) => format!("off line {}", conversation.table.row(row).line),
            None => format!("line {}", conversation.table.row(known.first).line),
        };
        let front = format!(
            "{:indent$}○ {} {from}, {}  ",
            "",
            short(leaf),
            count(turns.len() as u64, "turn"),
            indent = 2 * depth.min(DEEPEST)
        );
        let title = turns.first().map(|turn| headline(conversation, turn)).transpose()?;
        let room = self.page.width.saturating_sub(2 + front.width()).max(10);
        let title = fit(&title.unwrap_or_default(), room);
        Ok(self.page.line(&[styled(GOOD, "├╴"), styled(WARN, front), styled(DIM, title)])?)
    }

    /// Roots that the live conversation does not come from.
    fn elsewhere(&mut self) -> Result<(), Failure> {
        let alone = std::mem::take(&mut self.alone);
        let speaks = |id: &ChainId| self.found.dead.binary_search_by_key(id, |(id, _)| *id).is_ok();
        if alone.iter().any(speaks) {
            self.page.blank()?;
            self.page.line(&[styled(BOLD, "Other roots")])?;
        }
        for id in alone {
            self.dead(id, 0)?;
            self.dead_below(id, 1)?;
        }
        if self.silent > 0 {
            let text = format!("and {} without messages", count(self.silent, "chain"));
            self.page.line(&[styled(DIM, text)])?;
        }
        Ok(())
    }

    /// The sub-agents that are not on the live branch: on abandoned branches, or without a known
    /// call.
    fn agents_alone(&mut self) -> Result<(), Failure> {
        let family = self.family;
        for (title, joined) in
            [("Sub-agents on abandoned branches", true), ("Sub-agents without a known call", false)]
        {
            let left =
                family.agents.iter().enumerate().filter(|(at, agent)| {
                    agent.start.is_some() == joined && !self.drawn.contains(at)
                });
            let left: Vec<&SubAgent> = left.map(|(_, agent)| agent).collect();
            if left.is_empty() {
                continue;
            }
            self.page.blank()?;
            self.page.line(&[styled(BOLD, title)])?;
            for agent in left {
                self.page.paragraph(&Lead::spaces(2), &[unstyled(about(family, agent)?)])?;
            }
        }
        Ok(())
    }

    fn relatives(&mut self, kin: &[Relative]) -> Result<(), Failure> {
        if kin.is_empty() {
            return Ok(());
        }
        self.page.blank()?;
        self.page.line(&[styled(BOLD, "Related sessions")])?;
        for one in &kin[..kin.len().min(MOST_RELATIVES)] {
            let line = one
                .last
                .map(|row| format!(" up to line {}", self.conversation().table.row(row).line));
            let text = format!(
                "{} {}: {} in both{}, {} only there ({})",
                one.words(),
                one_line(&one.session.id),
                count(one.shared, "record"),
                line.unwrap_or_default(),
                one.beyond,
                match one.sign {
                    Sign::ForkedFrom => "records say that they were copied",
                    Sign::FirstRecord => "the first record says so",
                    Sign::SessionIds => "records name the other session",
                    Sign::Times => "its records are older",
                    Sign::Contained => "one contains all of the other",
                    Sign::Shared => "unknown which came first",
                }
            );
            self.page.paragraph(&Lead::spaces(2), &[unstyled(text)])?;
        }
        if kin.len() > MOST_RELATIVES {
            let text = format!("and {} more (--json lists all)", kin.len() - MOST_RELATIVES);
            self.page.line(&[styled(DIM, format!("  {text}"))])?;
        }
        Ok(())
    }

    /// Sessions that records name and that are not in this folder.
    fn strangers(&mut self, session: &Session, kin: &[Relative]) -> Result<(), Failure> {
        let conversation = self.conversation();
        if conversation.table.is_agent {
            return Ok(());
        }
        let known: HashSet<&str> =
            kin.iter().map(|one| one.session.id.as_str()).chain([session.id.as_str()]).collect();
        let named = named_sessions(&conversation.table);
        let named: Vec<_> =
            named.into_iter().filter(|(id, _)| !known.contains(id.as_str())).collect();
        for (id, records) in named.iter().take(MOST_RELATIVES) {
            let text = format!(
                "{} of session {}, which is not in this folder",
                count(*records, "record"),
                one_line(id)
            );
            self.page.paragraph(&Lead::spaces(2), &[styled(DIM, text)])?;
        }
        Ok(())
    }
}

/// How deep nested sub-agents are drawn.
const DEEPEST: usize = 16;

/// How many related sessions are drawn.
const MOST_RELATIVES: usize = 12;

/// The row that a turn begins with.
fn opening(conversation: &Conversation, turn: &Turn) -> RowId {
    let opens = turn.steps.iter().find_map(|step| match step {
        Step::Said(row) if conversation.table.row(*row).opens() => Some(*row),
        _ => None,
    });
    opens.unwrap_or(turn.rows[0])
}

/// A sub-agent on one line.
fn about(family: &WithAgents, agent: &SubAgent) -> Result<String, Failure> {
    let conversation = family.body(agent);
    let turns = family.turns(agent);
    let calls: usize = turns.iter().map(|turn| turn.calls(&conversation.table).count()).sum();
    let mut facts = Vec::new();
    let task = family.task(agent)?;
    facts.extend(task.into_iter().flatten());
    match agent.purpose {
        Purpose::Task => {}
        Purpose::Unknown => facts.push("unknown purpose".to_owned()),
        purpose => facts.push(format!("not a task but {}", purpose.name())),
    }
    if let Body::Sidechain(chains) = &agent.body
        && let Some(last) = chains.last()
    {
        let leaf = conversation.table.row(conversation.graph.chain(*last).last);
        facts
            .extend(conversation.table.text(leaf.uuid).map(|uuid| format!("leaf {}", short(uuid))));
    }
    facts.push(count(calls as u64, "call"));
    if agent.is_background {
        let line = agent.notified.map(|(owner, row)| family.of(owner).table.row(row).line);
        facts.push(match line {
            Some(line) => format!("in the background, reported at line {line}"),
            None => "in the background".to_owned(),
        });
    }
    if let Some(start) = agent.start {
        let guess = if start.is_guess { ", a guess" } else { "" };
        facts.push(format!("by {}{guess}", start.how.name()));
    }
    let facts: Vec<String> = facts.iter().map(|fact| one_line(fact)).collect();
    Ok(format!("agent {}: {}", one_line(&agent.id), facts.join(" · ")))
}

fn short(id: &str) -> String {
    one_line(&id.chars().take(8).collect::<String>())
}
