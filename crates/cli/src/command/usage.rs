//! `quipu usage`: what the API's messages took and cost.

mod explain;

use std::collections::HashSet;
use std::io::Write;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use index::usage::{By, Filter, Report, Row, report};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use serde::Serialize;
use transcript::conversation::price;
use transcript::conversation::usage::{Ledger, Money, Spending};

use crate::failure::Failure;
use crate::moment::moment;
use crate::out::JSON_VERSION;
use crate::prices;
use crate::project;
use crate::select;
use crate::table::{Column, Table};
use crate::text::{count, dollars, one_line, output, short_number};
use crate::threads::Threads;
use crate::world::World;

/// Count tokens and cost, by day, session, project, model, agent, tool or block
///
/// Counts every message of the API once, by its id, however many lines, forks, resumed copies or
/// files of sub-agents contain it, with the figures of its line with the most output. It belongs to
/// the session that made the call. `--by tool` gives a message to the first tool that it calls, and
/// `--by block` to five hours from the hour of the first message on: an estimate of what the
/// client's limits count. Days are those of the local time zone.
///
/// Costs are estimates from a list of prices (its day is printed below the table), which
/// `modelPricing` in the client's managed or user settings and `--prices` replace. `>`: at least
/// that much, because an answer was recorded before it ended, or its model has no price.
#[derive(clap::Args, Debug)]
pub(crate) struct UsageArgs {
    /// What the rows are
    #[arg(long, value_parser = by(), default_value = "day", value_name = "WHAT")]
    by: By,
    /// Only messages from then on: `3d`, `12h`, `2w`, `2026-11-01`
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Only messages until then; a date includes that day
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
    /// Only this project: a folder, or part of its path
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
    /// Prices that replace those of the list (docs/usage.md)
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// How the number of one session comes about, message by message
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["by", "csv", "project", "since", "until"])]
    explain: Option<String>,
    #[command(flatten)]
    threads: Threads,
    /// Print one JSON object
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print comma-separated values
    #[arg(long)]
    csv: bool,
}

/// Reads a name of what the rows are.
fn by() -> impl TypedValueParser<Value = By> {
    PossibleValuesParser::new(By::ALL.map(By::name))
        .try_map(|name| By::named(&name).ok_or("there is no such grouping"))
}

/// The head of the column of keys.
fn heading(by: By) -> &'static str {
    match by {
        By::Week => "week of",
        By::Tool => "first tool",
        By::Block => "block (estimate)",
        by => by.name(),
    }
}

/// The whole of `--json`.
#[derive(Serialize)]
struct UsageJson<'a> {
    v: u32,
    by: &'a str,
    rows: Vec<RowJson<'a>>,
    total: &'a Spending,
    unpriced: Vec<UnpricedJson<'a>>,
    lower_bound: LowerBoundJson,
    prices: &'a str,
    unreadable: Vec<String>,
}

#[derive(Serialize)]
struct RowJson<'a> {
    key: &'a str,
    #[serde(flatten)]
    sum: &'a Spending,
}

#[derive(Serialize)]
struct UnpricedJson<'a> {
    model: &'a str,
    messages: u64,
    output: u64,
}

#[derive(Serialize)]
struct LowerBoundJson {
    messages: u64,
    output: u64,
}

pub(crate) fn usage(world: &mut World, args: &UsageArgs) -> Result<(), Failure> {
    let prices = prices::in_force(world, args.prices.as_deref())?;
    let filter = filter(world, args)?;
    // Asked for before everything is read: it may not exist.
    let explained = args.explain.as_deref().map(|name| select::session(world, name)).transpose()?;
    let ledger = Ledger::of_homes(&world.homes()?.list, args.threads.count());
    for (path, error) in &ledger.unreadable {
        world.out.note(&format!("cannot read `{}`: {error}", path.display()))?;
    }
    if let Some(session) = explained {
        return explain::explain(world, &ledger, &prices, &session, args.json);
    }
    let zone = TimeZone::system();
    let found = report(&ledger, args.by, &filter, &prices, &zone);
    if args.json {
        let unpriced = found.unpriced.iter().map(|(model, sum)| UnpricedJson {
            model,
            messages: sum.messages,
            output: sum.usage.output,
        });
        let Spending { messages, usage, .. } = found.lower_bound;
        return Ok(world.out.json(&UsageJson {
            v: JSON_VERSION,
            by: args.by.name(),
            rows: found.rows.iter().map(|row| RowJson { key: &row.key, sum: &row.sum }).collect(),
            total: &found.total,
            unpriced: unpriced.collect(),
            lower_bound: LowerBoundJson { messages, output: usage.output },
            prices: &price::COLLECTED,
            unreadable: ledger
                .unreadable
                .iter()
                .map(|(path, _)| path.to_string_lossy().into_owned())
                .collect(),
        })?);
    }
    if args.csv {
        return csv(world, &found);
    }
    if found.rows.is_empty() {
        return Ok(world.out.note("no messages")?);
    }
    world.page()?;
    table(world, args.by, &found)
}

fn filter(world: &mut World, args: &UsageArgs) -> Result<Filter, Failure> {
    let now = Timestamp::try_from(world.now).unwrap_or_default();
    let at = |text: &String| moment(text, now);
    let since = args.since.as_ref().map(at).transpose()?;
    let until = args.until.as_ref().map(|text| match text.parse::<Date>() {
        // A day ends where the next one begins.
        Ok(day) if text.len() == 10 => at(&day.saturating_add(1.day()).to_string()),
        _ => at(text),
    });
    let until = until.transpose()?;
    if let (Some(since), Some(until)) = (since, until)
        && since >= until
    {
        return Err(Failure::usage("`--since` is not before `--until`", None));
    }
    let projects = match &args.project {
        Some(name) => {
            let sessions = project::named(world, name)?;
            if sessions.is_empty() {
                let hint = "`quipu usage --by project` lists all projects";
                return Err(Failure::not_found(format!("no project is called `{name}`"), hint));
            }
            let folders = sessions.iter().filter_map(|one| Some(one.path.parent()?.to_owned()));
            Some(folders.collect::<HashSet<PathBuf>>())
        }
        None => None,
    };
    Ok(Filter { since, until, projects })
}

/// How many characters the longest bar has.
const BAR: u64 = 20;

fn table(world: &mut World, by: By, found: &Report) -> Result<(), Failure> {
    let mut table = Table::new(&[
        Column::left(heading(by)),
        Column::right("input"),
        Column::right("output"),
        Column::right("cache write"),
        Column::right("cache read"),
        Column::right("messages"),
        Column::right("cost"),
        Column::left(""),
    ])
    .flexible(0);
    let weight = |sum: &Spending| sum.cost.map_or(0.0, Money::dollars);
    let largest = found.rows.iter().map(|row| weight(&row.sum)).fold(0.0, f64::max);
    let mut line = |key: &str, sum: &Spending, bar: String| {
        table.row(&[
            one_line(key),
            short_number(sum.usage.input),
            output(sum.usage),
            short_number(sum.usage.cache_write()),
            short_number(sum.usage.cache_read),
            sum.messages.to_string(),
            dollars(sum),
            bar,
        ]);
    };
    for Row { key, sum } in &found.rows {
        line(&label(by, key), sum, bar(weight(sum), largest));
    }
    if found.rows.len() > 1 {
        line("total", &found.total, String::new());
    }
    table.write(&mut world.out)?;
    notes(world, found)
}

/// A key as people read it.
fn label(by: By, key: &str) -> String {
    match (by, key.parse::<Timestamp>()) {
        (By::Block, Ok(start)) => {
            start.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
        }
        (By::Session, _) => key.chars().take(8).collect(),
        _ => key.to_owned(),
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a small positive number"
)]
fn bar(cost: f64, largest: f64) -> String {
    if largest <= 0.0 {
        return String::new();
    }
    let eighths = (cost / largest * (BAR * 8) as f64).round() as usize;
    let rest = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'][eighths % 8];
    format!("{}{rest}", "█".repeat(eighths / 8)).trim_end().to_owned()
}

/// What makes the numbers less than exact.
fn notes(world: &mut World, found: &Report) -> Result<(), Failure> {
    let mut notes = Vec::new();
    let bound = &found.lower_bound;
    if bound.messages > 0 {
        let share = 100 * bound.usage.output / found.total.usage.output.max(1);
        notes.push(format!(
            "{} ({share} % of the output) recorded before the answer ended: at least that much",
            count(bound.messages, "message")
        ));
    }
    for (model, sum) in &found.unpriced {
        notes.push(format!(
            "no price for `{}`: {}, {} output tokens are not in the cost (`--prices FILE` adds one)",
            one_line(model),
            count(sum.messages, "message"),
            short_number(sum.usage.output),
        ));
    }
    notes.push(format!("costs are estimates from the prices of {}", *price::COLLECTED));
    for note in notes {
        writeln!(world.out, "{note}")?;
    }
    Ok(())
}

fn csv(world: &mut World, found: &Report) -> Result<(), Failure> {
    let out = &mut world.out;
    writeln!(
        out,
        "key,input,output,cache_write_5m,cache_write_1h,cache_read,web_searches,cost_usd,\
         cost_is_lower_bound,messages"
    )?;
    for Row { key, sum } in &found.rows {
        let usage = sum.usage;
        let cost = sum.cost.map(|cost| cost.dollars().to_string()).unwrap_or_default();
        writeln!(
            out,
            "{},{},{},{},{},{},{},{cost},{},{}",
            cell(key),
            usage.input,
            usage.output,
            usage.cache_5m,
            usage.cache_1h,
            usage.cache_read,
            usage.searches,
            sum.is_lower_bound(),
            sum.messages,
        )?;
    }
    Ok(())
}

/// A text as one value: quoted if necessary, and never a formula for a spreadsheet, because names
/// come from files.
fn cell(text: &str) -> String {
    let text = one_line(text);
    let text = if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text };
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}
