//! `quipu compaction`: what a compaction took away.

use serde::Serialize;
use transcript::client::compaction::{
    Compaction, CompactionError, LostBlock, Missed, MissedText, PieceKind,
};
use transcript::conversation::Conversation;

use crate::failure::Failure;
use crate::out::{BOLD, JSON_VERSION};
use crate::page::{Lead, Page, label, styled, unstyled};
use crate::refusal::why;
use crate::select;
use crate::table::{Column, Table};
use crate::text::{count, grouped, one_line};
use crate::version::As;
use crate::world::World;

/// Show what a compaction took away: every block that is neither sent nor quoted any more
///
/// For sessions of every client. First what people miss: prompts, paths, commands, numbers and open
/// todos that occur nowhere in what is sent now. Then the blocks, by turn and kind; `--json` lists
/// each. `quipu uncompress --turns` writes chosen turns back.
#[derive(clap::Args, Debug)]
pub(crate) struct CompactionArgs {
    /// The session
    #[arg(default_value = "last")]
    session: String,
    /// Which compaction, counted from 1; by default the last one. Of an earlier one, `now` is the
    /// moment before the next
    #[arg(long, value_name = "N")]
    at: Option<usize>,
    #[command(flatten)]
    r#as: As,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct CompactionJson<'a> {
    v: u32,
    id: &'a str,
    path: String,
    number: usize,
    count: usize,
    line: u64,
    trigger: &'static str,
    tokens_before: Option<u64>,
    tokens_after: Option<u64>,
    turns: usize,
    blocks_before: usize,
    blocks_after: usize,
    missed: &'a Missed,
    lost: &'a [LostBlock],
}

/// How many entries of a list are printed.
const MOST: usize = 20;

pub(crate) fn compaction(world: &mut World, args: &CompactionArgs) -> Result<(), Failure> {
    let rules = args.r#as.asked(world)?.rules;
    let session = select::session(world, &args.session)?;
    let found = Compaction::find(&session.path, rules, args.at);
    let found = found.map_err(|error| match error {
        CompactionError::Read(error) => error.into(),
        CompactionError::Refused(when, refusal) => match Conversation::open(&session.path) {
            Ok(conversation) => {
                let text = format!("{when} the compaction: {}", why(&conversation, refusal));
                Failure::refused(&text, &rules.name())
            }
            Err(error) => error.into(),
        },
        error @ CompactionError::Never => {
            let hint = "`quipu turns` shows where a conversation was compacted";
            Failure::not_found(error.to_string(), hint)
        }
        error @ CompactionError::NoSuch { .. } => {
            Failure::not_found(error.to_string(), "leave out `--at` for the last one")
        }
    })?;
    let trigger = if found.is_auto { "auto" } else { "manual" };
    if args.json {
        return Ok(world.out.json(&CompactionJson {
            v: JSON_VERSION,
            id: &session.id,
            path: session.path.display().to_string(),
            number: found.number,
            count: found.count,
            line: found.line,
            trigger,
            tokens_before: found.tokens[0],
            tokens_after: found.tokens[1],
            turns: found.turns,
            blocks_before: found.blocks[0],
            blocks_after: found.blocks[1],
            missed: &found.receipt.missed,
            lost: &found.receipt.lost,
        })?);
    }
    world.page()?;
    head(world, &found, trigger)?;
    let missed = &found.receipt.missed;
    for (name, list) in missed.lists() {
        missing(world, name, list)?;
    }
    by_turn(world, &found)?;
    if !found.receipt.lost.is_empty() {
        world
            .out
            .note("`quipu uncompress --turns N,M` writes turns back; `--json` lists every block")?;
    }
    Ok(())
}

fn head(world: &mut World, found: &Compaction, trigger: &str) -> Result<(), Failure> {
    let page = &mut Page::new(&mut world.out);
    let number = if found.count == 1 {
        String::new()
    } else {
        format!(" {} of {}", found.number, found.count)
    };
    let [before, after] = found.blocks;
    let lost = found.receipt.lost.len();
    let text = format!(
        ", {trigger}, line {}, after {}: {} of {} are neither sent nor quoted any more; {} sent now",
        found.line,
        count(found.turns as u64, "turn"),
        grouped(lost as u64),
        count(before as u64, "block"),
        count(after as u64, "block"),
    );
    let spans = [styled(BOLD, format!("compaction{number}")), unstyled(text)];
    Ok(page.paragraph(&Lead::spaces(0), &spans)?)
}

fn missing(world: &mut World, name: &str, list: &[MissedText]) -> Result<(), Failure> {
    if list.is_empty() {
        return Ok(());
    }
    let page = &mut Page::new(&mut world.out);
    let text = format!(" that occur nowhere now: {}", list.len());
    page.line(&[styled(BOLD, name), unstyled(text)])?;
    // The newest are missed most.
    for one in list.iter().rev().take(MOST) {
        let lead = Lead::hanging(label(&format!("  turn {}", one.turn)));
        page.paragraph(&lead, &[unstyled(one_line(&one.text))])?;
    }
    if list.len() > MOST {
        page.line(&[unstyled(format!("  … and {} older", list.len() - MOST))])?;
    }
    Ok(())
}

fn by_turn(world: &mut World, found: &Compaction) -> Result<(), Failure> {
    let kinds: Vec<PieceKind> = found.receipt.by_kind().into_iter().map(|(kind, _)| kind).collect();
    if kinds.is_empty() {
        return Ok(());
    }
    let columns: Vec<Column> = std::iter::once(Column::right("turn"))
        .chain(kinds.iter().map(|kind| Column::right(kind.name())))
        .collect();
    let mut table = Table::new(&columns);
    for (turn, counts) in found.receipt.by_turn() {
        let cell = |kind: &PieceKind| {
            let found = counts.iter().find(|(other, _)| other == kind);
            found.map_or_else(String::new, |(_, count)| count.to_string())
        };
        let cells: Vec<String> =
            std::iter::once(turn.to_string()).chain(kinds.iter().map(cell)).collect();
        table.row(&cells);
    }
    Ok(table.write(&mut world.out)?)
}
