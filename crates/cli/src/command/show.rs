//! `quipu show`: a session as a conversation.

mod call;
mod turn;

use std::io::Write;

use transcript::conversation::Turns;
use transcript::conversation::agents::{Owner, SubAgent, WithAgents};
use transcript::conversation::graph::{ChainId, Start};
use transcript::conversation::markdown;
use transcript::conversation::place::Session;
use transcript::conversation::preview::{Preview, preview};
use transcript::conversation::price::Prices;
use transcript::conversation::turn::Turn;
use transcript::conversation::view::{Show, TurnPlace};
use transcript::format::secret::Mask;

use crate::as_json;
use crate::damage;
use crate::failure::Failure;
use crate::out::{BOLD, DIM, Visible, WARN};
use crate::page::{Lead, Page, styled};
use crate::prices;
use crate::redact::{cover_of, hidden};
use crate::select;
use crate::text::{count, fit, local, one_line, quoted};
use crate::view_args::ViewArgs;
use crate::world::World;

/// Show a session as a conversation
///
/// Prints each turn: the prompt, the model's answers, its calls (one line each) and what they
/// changed in files. Shows the live branch, which is the one that the newest Claude Code resumes;
/// `quipu tree` shows the others. Secrets are redacted only with `--markdown`, which is meant for
/// other readers; the screen and `--json` are exact.
#[derive(clap::Args, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "switches of a command line")]
pub(crate) struct ShowArgs {
    /// The session
    #[arg(default_value = "last")]
    session: String,
    #[command(flatten)]
    view: ViewArgs,
    /// The branch that contains this record (its uuid, or the start of it)
    #[arg(long, value_name = "LEAF")]
    branch: Option<String>,
    /// A sub-agent, by its id or the start of it, as `quipu search` and `quipu tree` name it
    #[arg(long, value_name = "AGENT", conflicts_with_all = ["branch", "all"])]
    agent: Option<String>,
    /// Include abandoned branches
    #[arg(long, conflicts_with = "branch")]
    all: bool,
    /// Print Markdown, with secrets redacted
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// With `--markdown`: do not redact secrets
    #[arg(long, requires = "markdown")]
    no_redact: bool,
    /// Print JSON, one turn per line; exact, secrets included
    #[arg(long)]
    json: bool,
}

/// What to show.
#[derive(Clone, Copy, Debug)]
struct Wanted<'a> {
    show: Show,
    /// The session's folder: paths are shown relative to it.
    cwd: Option<&'a str>,
    prices: &'a Prices,
}

/// Consecutive turns, and the chain that they are on.
struct Part {
    chain: Option<ChainId>,
    turns: Vec<Turn>,
}

pub(crate) fn show(world: &mut World, args: &ShowArgs) -> Result<(), Failure> {
    let session = select::session(world, &args.session)?;
    let family = WithAgents::open(&session)?;
    world.agents_unreadable(&family)?;
    let found = family.main.turns();
    let left_out = Left::of(&found);
    let agent = args.agent.as_deref().map(|name| agent_named(&family, name)).transpose()?;
    let owner = agent.map_or(Owner::Main, Owner::Agent);
    let agent = agent.map(|at| &family.agents[at]);
    let parts = match agent {
        Some(agent) => vec![Part { chain: None, turns: family.turns(agent) }],
        None => parts(&family, found, args)?,
    };
    let last = parts.iter().map(|part| part.turns.len()).max().unwrap_or(0);
    args.view.check(last)?;
    let chosen = parts.iter().flat_map(|part| {
        (1..)
            .zip(&part.turns)
            .filter(|(number, _)| args.view.has(*number, part.turns.len()))
            .map(|(number, turn)| (part.chain, number, turn))
    });
    if args.json {
        for (chain, number, turn) in chosen {
            let place = TurnPlace { number, owner, agent, chain };
            as_json::turn(&family, turn, place, &mut world.out)?;
            world.out.write_all(b"\n")?;
        }
        return Ok(());
    }
    let seen = preview(&session.path)?;
    let prices = prices::in_force(world, None)?;
    world.page()?;
    if args.markdown {
        let cover = if args.no_redact { None } else { Some(cover_of(world.redactor(), &session)?) };
        let mask = cover.as_ref().map_or_else(Mask::none, Mask::of);
        let mut writer =
            markdown::Writer::new(&family, args.view.show(), mask, Visible(&mut world.out));
        let failed = |error| Failure::mixed(&session.path, error);
        writer.head(&session.id, &seen).map_err(failed)?;
        let mut before = None;
        for (chain, number, turn) in chosen {
            if chain != before {
                writer.dead_end(chain).map_err(failed)?;
                before = chain;
            }
            writer.turn(owner, turn, number).map_err(failed)?;
        }
        let note = hidden(writer.hidden());
        return Ok(note.map_or(Ok(()), |note| world.out.note(&note))?);
    }
    let page = &mut Page::new(&mut world.out);
    match agent {
        Some(agent) => agent_head(page, &session, &family, agent, last)?,
        None => head(page, &session, &seen, &family, &left_out, last)?,
    }
    let wanted = Wanted { show: args.view.show(), cwd: seen.cwd.as_deref(), prices: &prices };
    let mut chain_before = None;
    for (chain, number, turn) in chosen {
        if chain != chain_before {
            dead_head(page, &family, chain)?;
            chain_before = chain;
        }
        turn::write(page, &family, owner, turn, number, wanted)?;
    }
    if agent.is_some() {
        return Ok(());
    }
    if !args.all && args.branch.is_none() {
        left_out.tell(page, &args.session)?;
    }
    let alone = family.agents.iter().filter(|agent| agent.start.is_none()).count();
    if alone > 0 {
        let name = quoted(&args.session);
        let alone = count(alone as u64, "sub-agent");
        let text = format!("{alone} without a known call: quipu tree {name}.");
        page.paragraph(&Lead::default(), &[styled(DIM, text)])?;
    }
    Ok(())
}

/// The sub-agent of that id, or of an id that begins like that.
fn agent_named(family: &WithAgents, name: &str) -> Result<usize, Failure> {
    let ids = || family.agents.iter().map(|agent| agent.id.as_str());
    if let Some(at) = ids().position(|id| id == name) {
        return Ok(at);
    }
    let mut fitting = ids().enumerate().filter(|(_, id)| id.starts_with(name)).map(|(at, _)| at);
    match (fitting.next(), fitting.next()) {
        (Some(at), None) => Ok(at),
        (None, _) => {
            let hint = "`quipu turns --json` lists the sub-agents";
            Err(Failure::not_found(format!("the session has no sub-agent `{name}`"), hint))
        }
        (Some(_), Some(_)) => {
            let message = format!("the ids of several sub-agents begin with `{name}`");
            Err(Failure::not_found(message, "give more of it"))
        }
    }
}

/// The turns that the user asked for.
fn parts(family: &WithAgents, found: Turns, args: &ShowArgs) -> Result<Vec<Part>, Failure> {
    let Some(leaf) = &args.branch else {
        let mut parts = vec![Part { chain: None, turns: found.live }];
        if args.all {
            let dead = found.dead.into_iter();
            parts.extend(dead.map(|(chain, turns)| Part { chain: Some(chain), turns }));
        }
        return Ok(parts);
    };
    let conversation = &family.main;
    let mut rows = conversation.table.numbered().filter(|(_, row)| {
        conversation.table.text(row.uuid).is_some_and(|uuid| uuid.starts_with(leaf.as_str()))
    });
    let Some((row, first)) = rows.next() else {
        let hint = "`quipu tree` lists the leaves";
        return Err(Failure::not_found(format!("no record has the id `{leaf}`"), hint));
    };
    if rows.any(|(_, other)| other.uuid != first.uuid) {
        return Err(Failure::not_found(
            format!("several record ids begin with `{leaf}`"),
            "give more of it",
        ));
    }
    let chain = conversation.graph.chain_of(row);
    let turns = conversation.turns_in(&conversation.graph.path(chain));
    let is_live = conversation.live().contains(&chain);
    Ok(vec![Part { chain: (!is_live).then_some(chain), turns }])
}

/// What is not shown.
struct Left {
    turns: usize,
    chains: usize,
    live: usize,
}

impl Left {
    fn of(found: &Turns) -> Left {
        let turns = found.dead.iter().map(|(_, turns)| turns.len()).sum();
        Left { turns, chains: found.dead.len(), live: found.live.len() }
    }

    fn tell(&self, page: &mut Page<'_>, name: &str) -> Result<(), Failure> {
        if self.chains == 0 {
            return Ok(());
        }
        let name = quoted(name);
        let text = format!(
            "Not on the live branch: {} on {} (quipu show {name} --all; quipu tree {name}).",
            count(self.turns as u64, "turn"),
            count(self.chains as u64, "abandoned branch|abandoned branches")
        );
        page.blank()?;
        Ok(page.paragraph(&Lead::default(), &[styled(DIM, text)])?)
    }
}

fn head(
    page: &mut Page<'_>,
    session: &Session,
    seen: &Preview,
    family: &WithAgents,
    left: &Left,
    shown: usize,
) -> Result<(), Failure> {
    let title = seen.title.as_deref().or(seen.prompt.as_deref()).unwrap_or("(no messages)");
    let title: String = title.chars().take(1_000).collect();
    let title = fit(&one_line(&title), page.width * 2 - 2);
    page.paragraph(&Lead::default(), &[styled(BOLD, title)])?;
    let mut facts = vec![session.id.to_string()];
    facts.extend(seen.tag.as_ref().map(|tag| format!("tag {}", one_line(tag))));
    facts.extend(seen.cwd.clone());
    facts.extend(seen.branch.clone().filter(|branch| !branch.is_empty()));
    facts.extend(seen.version.as_ref().map(|version| format!("Claude Code {version}")));
    if let (Some(start), Some(end)) = (seen.started, seen.ended) {
        let (first, last) = (local(start, "%Y-%m-%d"), local(end, "%Y-%m-%d"));
        let form = if first == last { "%H:%M" } else { "%Y-%m-%d %H:%M" };
        facts.push(format!("{} to {}", local(start, "%Y-%m-%d %H:%M"), local(end, form)));
    }
    facts.push(count(shown as u64, "turn"));
    if !family.agents.is_empty() {
        facts.push(count(family.agents.len() as u64, "sub-agent"));
    }
    page.paragraph(&Lead::default(), &[styled(DIM, one_line(&facts.join(" · ")))])?;
    if let Some(text) = damage::describe(family.main.table.damaged) {
        page.paragraph(&Lead::default(), &[styled(WARN, text)])?;
    }
    if left.turns > left.live && shown == left.live {
        let text = format!(
            "The live branch has {} of {} turns. Claude Code would resume without the others.",
            left.live,
            left.live + left.turns
        );
        page.paragraph(&Lead::default(), &[styled(WARN, text)])?;
    }
    Ok(())
}

/// What stands above the turns of a sub-agent.
fn agent_head(
    page: &mut Page<'_>,
    session: &Session,
    family: &WithAgents,
    agent: &SubAgent,
    turns: usize,
) -> Result<(), Failure> {
    let [kind, task] = family.task(agent)?;
    let title = task.unwrap_or_else(|| agent.purpose.name().to_owned());
    let title: String = title.chars().take(1_000).collect();
    let title = fit(&one_line(&title), page.width * 2 - 2);
    page.paragraph(&Lead::default(), &[styled(BOLD, title)])?;
    let mut facts = vec![format!("sub-agent {}", agent.id)];
    facts.extend(kind);
    facts.push(format!("of {}", session.id));
    facts.push(count(turns as u64, "turn"));
    page.paragraph(&Lead::default(), &[styled(DIM, one_line(&facts.join(" · ")))])?;
    Ok(())
}

/// A line before the turns of an abandoned branch.
fn dead_head(
    page: &mut Page<'_>,
    family: &WithAgents,
    chain: Option<ChainId>,
) -> Result<(), Failure> {
    let Some(chain) = chain else { return Ok(()) };
    let conversation = &family.main;
    let line = |row| conversation.table.row(row).line;
    let known = conversation.graph.chain(chain);
    let from = match known.start {
        Start::Root => "it has its own root".to_owned(),
        Start::Lost => "its parent is not in the file".to_owned(),
        Start::Loop => "its parent links form a cycle".to_owned(),
        Start::Branch(row) => format!("branches off at line {}", line(row)),
        Start::Compaction(row) | Start::CompactionGuess(row) => {
            format!("after a compaction, line {}", line(row))
        }
        Start::Sidechain(row) => format!("a sidechain at line {}", line(row)),
    };
    let text = format!("abandoned branch from line {}: {from}", line(known.first));
    page.blank()?;
    let rule = "━".repeat(page.width.saturating_sub(text.chars().count() + 4));
    Ok(page.line(&[styled(WARN, format!("━━ {text} {rule}"))])?)
}
