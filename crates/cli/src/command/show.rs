//! `quipu show`: a session as a person reads it.

mod call;
mod turn;

use std::io::Write;
use std::ops::RangeInclusive;

use transcript::conversation::Turns;
use transcript::family::{Family, Owner};
use transcript::glance::{Glance, glance};
use transcript::graph::{ChainId, Start};
use transcript::markdown;
use transcript::place::Session;
use transcript::secret::Mask;
use transcript::turn::Turn;

use super::as_json::{self, Place};
use super::damage;
use super::range::range;
use crate::failure::Failure;
use crate::out::{BOLD, DIM, Visible, WARN};
use crate::page::{Lead, Page, Span};
use crate::redact::hidden;
use crate::text::{count, fit, local, one_line, quoted};
use crate::world::World;

/// Show a session as a conversation
///
/// Turn by turn: what was asked, what the model said, its calls folded to a line each, what they changed in files. The live conversation is
/// shown, the one that the newest Claude Code goes on with; `quipu tree` shows what else there is. Secrets are hidden with `--markdown`
/// only, which is for others to read; the screen and `--json` are exact.
#[derive(clap::Args, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "switches of a command line")]
pub(crate) struct ShowArgs {
    /// The session
    session: String,
    /// Only this turn, or these: `3`, `3..5`, `3..`
    #[arg(long, value_name = "N", value_parser = range)]
    turn: Option<RangeInclusive<u64>>,
    /// The conversation that ends in this record, or goes through it (its uuid, or the beginning of it)
    #[arg(long, value_name = "LEAF")]
    branch: Option<String>,
    /// Dead branches too
    #[arg(long, conflicts_with = "branch")]
    all: bool,
    /// Everything: whole results, whole diffs, summaries, reminders, and what sub-agents did
    #[arg(long)]
    full: bool,
    /// The model's thinking
    #[arg(long)]
    thinking: bool,
    /// As Markdown, with secrets hidden
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// With `--markdown`: do not hide secrets
    #[arg(long, requires = "markdown")]
    no_redact: bool,
    /// As JSON, one turn a line; exact, secrets included
    #[arg(long)]
    json: bool,
    /// Do not use a pager
    #[arg(long)]
    no_pager: bool,
}

/// What is to be shown.
#[derive(Clone, Copy, Debug)]
struct Wanted<'a> {
    full: bool,
    thinking: bool,
    /// The session's folder: paths are shown from there.
    cwd: Option<&'a str>,
}

/// Turns that follow each other, and what they are.
struct Part {
    chain: Option<ChainId>,
    turns: Vec<Turn>,
}

pub(crate) fn show(world: &mut World, args: &ShowArgs) -> Result<(), Failure> {
    let session = world.session(&args.session)?;
    let unreadable = |error| Failure::unreadable(&session.path, error);
    let family = Family::open(&session).map_err(unreadable)?;
    world.agents_unreadable(&family)?;
    let found = family.main.turns();
    let left_out = Left::of(&found);
    let parts = parts(&family, found, args)?;
    let wanted =
        |number: usize| args.turn.as_ref().is_none_or(|turn| turn.contains(&(number as u64)));
    let last = parts.iter().map(|part| part.turns.len()).max().unwrap_or(0);
    if let Some(turn) = args.turn.as_ref().filter(|turn| *turn.start() > last as u64) {
        let message = format!("there is no turn {}", turn.start());
        return Err(Failure::usage(
            message,
            Some(&format!("the conversation has {}", count(last as u64, "turn"))),
        ));
    }
    let chosen = parts.iter().flat_map(|part| {
        (1..)
            .zip(&part.turns)
            .filter(|(number, _)| wanted(*number))
            .map(|(number, turn)| (part.chain, number, turn))
    });
    if args.json {
        for (chain, number, turn) in chosen {
            let place = Place { number, owner: Owner::Main, agent: None, chain };
            as_json::turn(&family, turn, place, &mut world.out)?;
            world.out.write_all(b"\n")?;
        }
        return Ok(());
    }
    let seen = glance(&session.path).map_err(unreadable)?;
    if !args.no_pager {
        let pager = world.pager.clone();
        world.out.page(&pager)?;
    }
    if args.markdown {
        let options = markdown::Options { thinking: args.thinking, full: args.full };
        let redactor = world.redactor();
        let mask = if args.no_redact { Mask::none() } else { Mask::new(&redactor) };
        let mut writer = markdown::Writer::new(&family, options, mask, Visible(&mut world.out));
        let failed = |error| Failure::mixed(&session.path, error);
        writer.head(&session.id, &seen).map_err(failed)?;
        let mut before = None;
        for (chain, number, turn) in chosen {
            if chain != before {
                writer.dead_end(chain).map_err(failed)?;
                before = chain;
            }
            writer.turn(Owner::Main, turn, number).map_err(failed)?;
        }
        let note = hidden(writer.hidden());
        return Ok(note.map_or(Ok(()), |note| world.out.note(&note))?);
    }
    let page = &mut Page::new(&mut world.out);
    head(page, &session, &seen, &family, &left_out, last)?;
    let wanted = Wanted { full: args.full, thinking: args.thinking, cwd: seen.cwd.as_deref() };
    let mut chain_before = None;
    for (chain, number, turn) in chosen {
        if chain != chain_before {
            dead_head(page, &family, chain)?;
            chain_before = chain;
        }
        turn::write(page, &family, Owner::Main, turn, number, wanted)?;
    }
    if !args.all && args.branch.is_none() {
        left_out.tell(page, &args.session)?;
    }
    let alone = family.agents.iter().filter(|agent| agent.start.is_none()).count();
    if alone > 0 {
        let name = quoted(&args.session);
        let alone = count(alone as u64, "sub-agent");
        let text = format!("{alone} that no call is known for: quipu tree {name}.");
        page.paragraph(&Lead::default(), &[Span::new(DIM, text)])?;
    }
    Ok(())
}

/// The turns that were asked for.
fn parts(family: &Family, found: Turns, args: &ShowArgs) -> Result<Vec<Part>, Failure> {
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
        return Err(Failure::not_found(format!("no record is called `{leaf}`"), hint));
    };
    if rows.any(|(_, other)| other.uuid != first.uuid) {
        return Err(Failure::not_found(
            format!("several records begin with `{leaf}`"),
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
            "Not on the live chain: {} in {} (quipu show {name} --all; quipu tree {name}).",
            count(self.turns as u64, "turn"),
            count(self.chains as u64, "dead end")
        );
        page.blank()?;
        Ok(page.paragraph(&Lead::default(), &[Span::new(DIM, text)])?)
    }
}

fn head(
    page: &mut Page<'_>,
    session: &Session,
    seen: &Glance,
    family: &Family,
    left: &Left,
    shown: usize,
) -> Result<(), Failure> {
    let title = seen.title.as_deref().or(seen.prompt.as_deref()).unwrap_or("(nothing was said)");
    let title: String = title.chars().take(1_000).collect();
    let title = fit(&one_line(&title), page.width * 2 - 2);
    page.paragraph(&Lead::default(), &[Span::new(BOLD, title)])?;
    let mut facts = vec![session.id.clone()];
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
    page.paragraph(&Lead::default(), &[Span::new(DIM, one_line(&facts.join(" · ")))])?;
    if let Some(text) = damage::describe(family.main.table.damaged) {
        page.paragraph(&Lead::default(), &[Span::new(WARN, text)])?;
    }
    if left.turns > left.live && shown == left.live {
        let text = format!(
            "On the live chain: {} of {} turns. Claude Code would go on without the others.",
            left.live,
            left.live + left.turns
        );
        page.paragraph(&Lead::default(), &[Span::new(WARN, text)])?;
    }
    Ok(())
}

/// A line before the turns of a dead branch.
fn dead_head(page: &mut Page<'_>, family: &Family, chain: Option<ChainId>) -> Result<(), Failure> {
    let Some(chain) = chain else { return Ok(()) };
    let conversation = &family.main;
    let line = |row| conversation.table.row(row).line;
    let known = conversation.graph.chain(chain);
    let from = match known.start {
        Start::Root => "a root of its own".to_owned(),
        Start::Lost => "its parent is not in the file".to_owned(),
        Start::Loop => "its parents go round".to_owned(),
        Start::Branch(row) => format!("branches off at line {}", line(row)),
        Start::Compaction(row) | Start::CompactionGuess(row) => {
            format!("after a compaction, line {}", line(row))
        }
        Start::Side(row) => format!("a sidechain at line {}", line(row)),
    };
    let text = format!("dead end from line {}: {from}", line(known.first));
    page.blank()?;
    let rule = "━".repeat(page.width.saturating_sub(text.chars().count() + 4));
    Ok(page.line(&[Span::new(WARN, format!("━━ {text} {rule}"))])?)
}
