//! `quipu usage`: what the API's messages took and cost.

mod explain;
mod print;
mod statusline;

use std::collections::{HashMap, HashSet};
use std::mem;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use index::catalog::{Catalog, KnownSession, root_of};
use index::usage::{By, Filter, Question, REST, Report, Row, report};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use serde::Serialize;
use transcript::conversation::price;
use transcript::conversation::usage::{Ledger, Spending};

use crate::catalog::{self, CatalogArgs};
use crate::failure::Failure;
use crate::moment::moment;
use crate::out::JSON_VERSION;
use crate::prices;
use crate::project::{self, Named};
use crate::select;
use crate::survey;
use crate::text::count;
use crate::world::World;

/// Count tokens and cost, by day, session, project, model, agent, tool or block
///
/// Counts every message of the API once, by its id, however many lines, forks, resumed copies or
/// files of sub-agents contain it, with the figures of its line with the most output. It belongs to
/// the session that made the call. `--by tool` gives a message to the first tool that it calls, and
/// `--by block` to five hours from the hour of the first message on: an estimate (`~`) of what the
/// client's limits count. Days are those of the local time zone.
///
/// What the catalog has of sessions that have not changed, or are gone, is not read again. Nothing
/// is written.
///
/// Costs are estimates from a list of prices (its day is printed below the table), which
/// `modelPricing` in the client's managed or user settings and `--prices` replace. `>`: at least
/// that much, because an answer was recorded before it ended, or its model has no price.
#[derive(clap::Args, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "flags of a command line")]
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
    /// How many rows to print; the others are added up in the last one, `(rest)`
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    limit: usize,
    /// Print at most about this many bytes of rows, such as `64k`
    #[arg(long, value_name = "SIZE", value_parser = crate::text::bytes, default_value = "4m")]
    max_bytes: u64,
    /// Prices that replace those of the list (docs/usage.md)
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// How the number of one session comes about, message by message
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["by", "csv", "project", "since", "until"])]
    explain: Option<String>,
    /// One line for the client's status line, whose JSON is read from standard input
    #[arg(long, conflicts_with_all = ["by", "csv", "json", "explain", "no_catalog", "project", "since", "until", "limit", "max_bytes"])]
    statusline: bool,
    /// Read all sessions, and do not look into the catalog
    #[arg(long, conflicts_with = "catalog")]
    no_catalog: bool,
    #[command(flatten)]
    catalog: CatalogArgs,
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

/// The whole of `--json`.
#[derive(Serialize)]
struct UsageJson<'a> {
    v: u32,
    by: &'a str,
    rows: Vec<RowJson<'a>>,
    total: &'a Spending,
    unpriced: Vec<UnpricedJson<'a>>,
    lower_bound: LowerBoundJson,
    only_in_catalog: Option<&'a Spending>,
    prices: &'a str,
    unreadable: Vec<String>,
    truncated: bool,
}

#[derive(Serialize)]
struct RowJson<'a> {
    key: &'a str,
    #[serde(flatten)]
    sum: &'a Spending,
    #[serde(skip_serializing_if = "Option::is_none")]
    estimated: Option<bool>,
}

impl<'a> RowJson<'a> {
    fn new(by: By, row: &'a Row) -> RowJson<'a> {
        let estimated = (by == By::Block).then_some(row.is_estimate);
        RowJson { key: &row.key, sum: &row.sum, estimated }
    }
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
    if args.statusline {
        return statusline::statusline(world, &args.catalog, &prices);
    }
    let catalog = if args.no_catalog { None } else { args.catalog.open_if_there(world)? };
    // Asked for before everything is read: it may not exist.
    let explained = args.explain.as_deref();
    let explained = explained.map(|name| explained_session(world, name, catalog.as_ref()));
    let explained = explained.transpose()?;
    let ledger = ledger(world, args, catalog.as_ref())?;
    let filter = filter(world, args, &ledger)?;
    for (path, error) in &ledger.unreadable {
        world.out.note(&format!("cannot read `{}`: {error}", path.display()))?;
    }
    if let Some((session, project)) = explained {
        return explain::explain(world, &ledger, &prices, (&session, &project), args);
    }
    let zone = TimeZone::system();
    let homes: Vec<PathBuf> = world.homes()?.list.iter().map(root_of).collect();
    let ends = catalog.as_ref().and_then(|catalog| catalog.limits_seen(&homes).ok());
    let ends = ends.unwrap_or_default().into_iter();
    let block_ends: Vec<Timestamp> =
        ends.filter_map(|end| Timestamp::from_millisecond(end.0).ok()).collect();
    let (prices, block_ends) = (&prices, block_ends.as_slice());
    let question = Question { by: args.by, filter: &filter, prices, zone: &zone, block_ends };
    let mut found = report(&ledger, &question);
    let mut room = Room::new(args);
    found.shorten(args.by, args.limit, |row| room.has(row.key.len()));
    if args.json {
        let mut room = Room::new(args);
        let unpriced: Vec<UnpricedJson> = found
            .unpriced
            .iter()
            .take_while(|(model, _)| room.has(model.len()))
            .map(|(model, sum)| UnpricedJson {
                model,
                messages: sum.messages,
                output: sum.usage.output,
            })
            .collect();
        let paths = ledger.unreadable.iter().map(|(path, _)| path.to_string_lossy());
        let unreadable: Vec<String> =
            paths.take_while(|path| room.has(path.len())).map(Into::into).collect();
        let truncated = found.rest > 0
            || unpriced.len() < found.unpriced.len()
            || unreadable.len() < ledger.unreadable.len();
        let Spending { messages, usage, .. } = found.lower_bound;
        return Ok(world.out.json(&UsageJson {
            v: JSON_VERSION,
            by: args.by.name(),
            rows: found.rows.iter().map(|row| RowJson::new(args.by, row)).collect(),
            total: &found.total,
            unpriced,
            lower_bound: LowerBoundJson { messages, output: usage.output },
            only_in_catalog: Some(&found.only_in_catalog).filter(|sum| sum.messages > 0),
            prices: &price::COLLECTED,
            unreadable,
            truncated,
        })?);
    }
    if args.csv {
        print::csv(world, &found)?;
        return rest(world, &found);
    }
    if found.rows.is_empty() {
        return Ok(world.out.note("no messages")?);
    }
    let titles = match args.by {
        By::Session => titles(world, &found, catalog.as_ref(), &ledger)?,
        _ => HashMap::new(),
    };
    // The program ends here: freeing many messages one by one would take longer than exiting.
    mem::forget(ledger);
    world.page()?;
    print::table(world, args.by, &found, &titles)?;
    rest(world, &found)
}

/// Says that rows were left out.
fn rest(world: &mut World, found: &Report) -> Result<(), Failure> {
    if found.rest == 0 {
        return Ok(());
    }
    let rows = count(found.rest as u64, "row");
    let text = format!("{rows} added up in `{REST}`: `--limit` and `--max-bytes` show more");
    Ok(world.out.note(&text)?)
}

/// How much may still be printed.
struct Room {
    bytes: u64,
    is_json: bool,
}

impl Room {
    fn new(args: &UsageArgs) -> Room {
        Room { bytes: args.max_bytes, is_json: args.json }
    }

    /// Whether there is room for a row with names of that length, which is taken.
    fn has(&mut self, names: usize) -> bool {
        // With all numbers, and with the names of members in JSON.
        let numbers = if self.is_json { 270 } else { 130 };
        let left = self.bytes.checked_sub(names as u64 + numbers);
        self.bytes = left.unwrap_or_default();
        left.is_some()
    }
}

/// The id of the session to explain, and the folder of its project; one that only the catalog knows
/// is named by its id, or the start of it.
fn explained_session(
    world: &mut World,
    name: &str,
    catalog: Option<&Catalog>,
) -> Result<(String, PathBuf), Failure> {
    let failure = match select::session(world, name) {
        Ok(session) => {
            let project = session.path.parent().unwrap_or(Path::new("")).to_owned();
            return Ok((session.id.to_string(), project));
        }
        Err(failure) => failure,
    };
    let known = catalog.map(|catalog| catalog::known(world, catalog, name));
    let known = known.and_then(Result::ok).into_iter().flatten().find(|known| known.is_deleted);
    known.map(|known| (known.id, known.project)).ok_or(failure)
}

/// All messages: what the catalog has of files that have not changed, and the others read.
fn ledger(
    world: &mut World,
    args: &UsageArgs,
    catalog: Option<&Catalog>,
) -> Result<Ledger, Failure> {
    let homes = world.homes()?.list;
    let threads = args.catalog.threads();
    if let Some(catalog) = catalog {
        match catalog.current_ledger(&homes, threads) {
            Ok(ledger) => return Ok(ledger),
            Err(error) => world.out.note(&format!("{error}: all sessions are read"))?,
        }
    }
    Ok(Ledger::of_homes(&homes, threads))
}

/// The titles of the sessions in a report, by their ids: those that the catalog has, and those of
/// the files.
fn titles(
    world: &mut World,
    found: &Report,
    catalog: Option<&Catalog>,
    ledger: &Ledger,
) -> Result<HashMap<String, String>, Failure> {
    let homes: Vec<PathBuf> = world.homes()?.list.iter().map(root_of).collect();
    let known = catalog.and_then(|catalog| catalog.sessions(&homes).ok()).unwrap_or_default();
    let title = |one: KnownSession| Some((one.id, one.seen.title.or(one.seen.prompt)?));
    let mut titles: HashMap<String, String> = known.into_iter().filter_map(title).collect();
    let shown: HashSet<&str> = found.rows.iter().map(|row| row.key.as_str()).collect();
    for source in ledger.sources.iter().filter(|source| !source.is_agent) {
        let id: &str = &source.session;
        if shown.contains(id)
            && !titles.contains_key(id)
            && let Some(one) = survey::of_file(&source.path)
        {
            titles.insert(id.to_owned(), survey::headline(&one));
        }
    }
    Ok(titles)
}

fn filter(world: &mut World, args: &UsageArgs, ledger: &Ledger) -> Result<Filter, Failure> {
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
            let folders = sessions.iter().filter_map(|one| one.path.parent());
            let mut folders: HashSet<PathBuf> = folders.map(Path::to_owned).collect();
            // Also those of which only the catalog knows sessions.
            let named = Named::new(world, name)?;
            let known: HashSet<&PathBuf> =
                ledger.sources.iter().map(|source| &source.project).collect();
            let is_named = |folder: &&PathBuf| {
                folder.file_name().is_some_and(|name| named.is(&name.to_string_lossy()))
            };
            folders.extend(known.into_iter().filter(is_named).cloned());
            if folders.is_empty() {
                let hint = "`quipu usage --by project` lists all projects";
                return Err(Failure::not_found(format!("no project is called `{name}`"), hint));
            }
            Some(folders)
        }
        None => None,
    };
    Ok(Filter { since, until, projects })
}
