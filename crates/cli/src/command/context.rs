//! `quipu context`: what fills the context, and what takes it away.

mod remedy;

use std::io::Write;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::Serialize;
use transcript::client::change::Subject;
use transcript::client::context::{Basis, Context, Group, GroupBy, PartKind};

use crate::failure::Failure;
use crate::out::{BOLD, DIM, JSON_VERSION};
use crate::refusal::why;
use crate::select;
use crate::table::{Column, Table};
use crate::text::{count, grouped, one_line, short_number};
use crate::version::As;
use crate::world::World;
use remedy::{Remedies, Remedy};

/// Show what fills the context: tokens by kind, tool, file and turn, and what takes them away
///
/// Counts what would be sent if the session was resumed now: system prompt and tools, which are not
/// in the file, and all messages. The whole is what the last call recorded, plus an estimate of
/// what came after it. `~` marks estimates: how a recorded sum divides among several blocks, and
/// what no call recorded. They are calibrated by the session's recorded calls. Shares are those of
/// the model's context window. `saves` is what the command beside it would take away.
#[derive(clap::Args, Debug)]
pub(crate) struct ContextArgs {
    /// The session
    #[arg(default_value = "last")]
    session: String,
    /// Only this table
    #[arg(long, value_parser = by(), value_name = "WHAT")]
    by: Option<GroupBy>,
    /// How many rows of each table; 5, or 20 with `--by`
    #[arg(long, value_name = "NUMBER")]
    limit: Option<usize>,
    #[command(flatten)]
    r#as: As,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// How many rows a table has among others, and alone.
const FEW: usize = 5;
const MANY: usize = 20;

/// Reads a name of what parts are added up by.
fn by() -> impl TypedValueParser<Value = GroupBy> {
    PossibleValuesParser::new(GroupBy::ALL.map(GroupBy::name)).try_map(|name| {
        GroupBy::ALL.into_iter().find(|by| by.name() == name).ok_or("there is no such table")
    })
}

/// The rows of a table, and how many tokens the ones have that are left out.
struct Shown {
    by: GroupBy,
    rows: Vec<(Group, Option<Remedy>)>,
    /// What is left out.
    rest: Vec<Group>,
}

impl Shown {
    /// The tokens of what is left out.
    fn rest(&self) -> u64 {
        self.rest.iter().map(|group| group.tokens).sum()
    }
}

pub(crate) fn context(world: &mut World, args: &ContextArgs) -> Result<(), Failure> {
    let asked = args.r#as.asked(world)?;
    let session = select::session(world, &args.session)?;
    let subject = Subject::open_as(&session.path, asked.rules)?;
    let context = subject.context()?.map_err(|refusal| {
        Failure::refused(&why(subject.conversation(), refusal), &asked.rules.name())
    })?;
    let limit = args.limit.unwrap_or(if args.by.is_some() { MANY } else { FEW });
    let names = [world.again(), remedy::name(&session, &args.session)];
    let remedies = Remedies::new(&subject, context, names);
    let which = args.by.map_or(GroupBy::ALL.to_vec(), |by| vec![by]);
    let mut tables = Vec::new();
    for by in which {
        let mut groups = context.groups(&subject.conversation().table, by);
        let rest = groups.split_off(limit.min(groups.len()));
        let mut rows = Vec::new();
        for group in groups {
            let remedy = remedies.find(by, &group)?;
            rows.push((group, remedy));
        }
        tables.push(Shown { by, rows, rest });
    }
    if args.json {
        let head = ContextJson {
            v: JSON_VERSION,
            id: &session.id,
            path: session.path.display().to_string(),
            r#as: &asked.version,
            rules: asked.rules.name(),
            observed: asked.is_observed,
            model: &context.model,
            window: context.window,
            compacts_from: context.compacts_from,
            tokens: context.tokens,
            recorded: context.recorded,
            basis: context.basis,
            calibrated_by: context.calibrated_by,
            tables: tables.iter().map(TableJson::from).collect(),
        };
        return Ok(world.out.json(&head)?);
    }
    world.page()?;
    let title = format!("{}{} tokens", mark(context.is_estimated()), grouped(context.tokens));
    let title = world.out.style(BOLD, &title);
    writeln!(world.out, "{title} would be sent now{}", of_window(context))?;
    writeln!(world.out, "{}", basis(context))?;
    for shown in &tables {
        writeln!(world.out)?;
        table(world, context, shown)?;
    }
    Ok(())
}

fn mark(is_estimate: bool) -> &'static str {
    if is_estimate { "~" } else { "" }
}

/// The share of the window that tokens take.
fn share(context: &Context, tokens: u64) -> String {
    let Some(window) = context.window.filter(|window| *window > 0) else { return String::new() };
    let tenths = tokens.saturating_mul(1_000) / window;
    match tenths {
        0 => "<0.1%".to_owned(),
        1..100 => format!("{}.{}%", tenths / 10, tenths % 10),
        _ => format!("{}%", tenths / 10),
    }
}

fn of_window(context: &Context) -> String {
    let model = one_line(&context.model);
    match context.window {
        Some(window) => {
            let share = share(context, context.tokens);
            let compacts = context
                .compacts_from
                .map(|from| format!("; the client compacts from about {} on", short_number(from)));
            let compacts = compacts.unwrap_or_default();
            format!(": {share} of the window of {model}, {}{compacts}", short_number(window))
        }
        None => format!(" to {model}, whose window is not known"),
    }
}

/// Where the numbers come from.
fn basis(context: &Context) -> String {
    let by = match context.calibrated_by {
        0 => "by the size of texts".to_owned(),
        calls => format!("calibrated by {}", count(calls, "recorded call")),
    };
    match context.basis {
        Basis::Recorded => {
            let after = match context.tokens.checked_sub(context.recorded) {
                Some(after @ 1..) => format!(", and ~{} came after it", grouped(after)),
                _ => String::new(),
            };
            let recorded = grouped(context.recorded);
            format!("{recorded} are what the last call recorded{after}; ~: estimated, {by}")
        }
        Basis::Changed => format!(
            "all of it is estimated, {by}: what would be sent is no longer what the last call read"
        ),
        Basis::OtherModel => format!(
            "all of it is estimated, {by}: the model of the last call counts tokens differently"
        ),
        Basis::Nothing if context.parts[0].tokens == 0 => format!(
            "all of it is estimated, {by}: no call is recorded, so system prompt and tools are \
             not in it"
        ),
        Basis::Nothing => {
            format!("all of it is estimated, {by}: none is recorded after the compaction")
        }
    }
}

fn table(world: &mut World, context: &Context, shown: &Shown) -> Result<(), Failure> {
    let mut table = Table::new(&[
        Column::left(shown.by.name()),
        Column::right("tokens"),
        Column::right("of window"),
        Column::right("saves"),
        Column::left("how"),
    ])
    .flexible(0);
    for (group, remedy) in &shown.rows {
        let name = match shown.by {
            GroupBy::Kind if group.key == PartKind::System.name() => "system prompt, tools".into(),
            _ => one_line(&group.key),
        };
        let saves = remedy.as_ref().map(|remedy| format!("~{}", grouped(remedy.saves)));
        table.row(&[
            name,
            format!("{}{}", mark(group.is_estimate), grouped(group.tokens)),
            share(context, group.tokens),
            saves.unwrap_or_default(),
            remedy.as_ref().map(|remedy| remedy.command.clone()).unwrap_or_default(),
        ]);
    }
    if shown.rows.is_empty() {
        let text = world.out.style(DIM, &format!("by {}: nothing", shown.by.name()));
        return Ok(writeln!(world.out, "{text}")?);
    }
    table.write(&mut world.out)?;
    if !shown.rest.is_empty() {
        let (by, more) = (shown.by.name(), shown.rest.len());
        let mark = mark(shown.rest.iter().any(|group| group.is_estimate));
        let text = format!("and {more} more, {mark}{} tokens (--by {by})", grouped(shown.rest()));
        let text = world.out.style(DIM, &text);
        writeln!(world.out, "{text}")?;
    }
    Ok(())
}

#[derive(Serialize)]
struct ContextJson<'a> {
    v: u32,
    id: &'a str,
    path: String,
    r#as: &'a str,
    rules: String,
    observed: bool,
    model: &'a str,
    window: Option<u64>,
    compacts_from: Option<u64>,
    tokens: u64,
    recorded: u64,
    basis: Basis,
    calibrated_by: u64,
    tables: Vec<TableJson<'a>>,
}

#[derive(Serialize)]
struct TableJson<'a> {
    by: GroupBy,
    rows: Vec<GroupJson<'a>>,
    left_out: usize,
    rest: u64,
}

#[derive(Serialize)]
struct GroupJson<'a> {
    key: &'a str,
    tokens: u64,
    parts: u64,
    estimate: bool,
    saves: Option<u64>,
    command: Option<&'a str>,
}

impl<'a> From<&'a Shown> for TableJson<'a> {
    fn from(shown: &'a Shown) -> Self {
        let row = |(group, remedy): &'a (Group, Option<Remedy>)| GroupJson {
            key: &group.key,
            tokens: group.tokens,
            parts: group.parts,
            estimate: group.is_estimate,
            saves: remedy.as_ref().map(|remedy| remedy.saves),
            command: remedy.as_ref().map(|remedy| remedy.command.as_str()),
        };
        TableJson {
            by: shown.by,
            rows: shown.rows.iter().map(row).collect(),
            left_out: shown.rest.len(),
            rest: shown.rest(),
        }
    }
}
