//! `quipu usage --statusline`: one line for the status line of the client.
//!
//! The client runs it after every answer, so it must be fast: it takes the catalog as it is, and
//! reads only what is new in the one session.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use index::catalog::{Catalog, root_of};
use index::usage::{BLOCK, Blocks};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use transcript::conversation::price::Prices;
use transcript::conversation::usage::{FileMessages, Ledger, LedgerEntry, Money, Spending};
use transcript::format::time::Time;

use crate::catalog::CatalogArgs;
use crate::failure::Failure;
use crate::text::{dollars, local};
use crate::world::World;

/// What the client writes is not longer.
const LONGEST: u64 = 1 << 20;
/// How long another process is waited for.
const PATIENCE: Duration = Duration::from_millis(20);
/// How many bytes of a session are read at most.
const MOST: u64 = 8 << 20;

/// What the client writes, as far as it is used here. All of it may be missing.
#[derive(Debug)]
struct Status {
    transcript_path: Option<PathBuf>,
    cost: Option<Cost>,
    context_window: Option<Window>,
    rate_limits: Option<Limits>,
}

#[derive(Debug, Deserialize)]
struct Cost {
    total_cost_usd: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct Window {
    used_percentage: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct Limits {
    five_hour: Option<Limit>,
    seven_day: Option<Limit>,
}

#[derive(Debug, Deserialize)]
struct Limit {
    used_percentage: Option<f64>,
    /// In seconds since 1970, or as a text.
    resets_at: Option<Value>,
}

/// What the sessions cost.
#[derive(Default)]
struct Costs {
    session: Option<Spending>,
    today: Option<Spending>,
    /// The block of now: what was spent, and when it ends.
    block: Option<(Spending, Timestamp)>,
}

pub(super) fn statusline(
    world: &mut World,
    args: &CatalogArgs,
    prices: &Prices,
) -> Result<(), Failure> {
    let mut text = Vec::new();
    std::io::stdin().lock().take(LONGEST).read_to_end(&mut text)?;
    // One by one, so that what is strange does not hide the rest.
    let object: serde_json::Map<String, Value> = serde_json::from_slice(&text).map_err(|_| {
        let hint = "in the client's settings: {\"statusLine\": {\"type\": \"command\", \
                    \"command\": \"quipu usage --statusline\"}}";
        let message = "standard input is not the JSON object that the client writes";
        Failure::usage(message, Some(hint))
    })?;
    let status = Status {
        transcript_path: member(&object, "transcript_path"),
        cost: member(&object, "cost"),
        context_window: member(&object, "context_window"),
        rate_limits: member(&object, "rate_limits"),
    };
    let limit = status.rate_limits.as_ref().and_then(|limits| limits.five_hour.as_ref());
    let catalog = args.open_if_there(world)?;
    let homes: Vec<PathBuf> = world.found()?.list.iter().map(root_of).collect();
    let now = Timestamp::try_from(world.now).unwrap_or_default();
    if let Some(catalog) = &catalog {
        // Nobody waits for a status line.
        let _ = catalog.set_patience(PATIENCE);
    }
    // A block ends within five hours.
    let is_near = |end: Timestamp| end > now && end.duration_since(now) <= BLOCK;
    let limit = limit.and_then(Limit::known).filter(|(end, _)| is_near(*end));
    // Each home may have an account of its own.
    let path = status.transcript_path.as_deref();
    let home = homes.iter().find(|home| path.is_some_and(|path| path.starts_with(home)));
    if let (Some(catalog), Some(home), Some((end, used))) = (&catalog, home, limit) {
        // The next report of usage knows it; this one needs it no more.
        let [end, now] = [end, now].map(|time| Time(time.as_millisecond()));
        let _ = catalog.saw_limit(home, end, used, now);
    }
    let costs = costs(&homes, catalog.as_ref(), &status, prices, now);
    let line = line(&status, &costs);
    Ok(writeln!(world.out, "{line}")?)
}

fn member<T: DeserializeOwned>(object: &serde_json::Map<String, Value>, name: &str) -> Option<T> {
    serde_json::from_value(object.get(name)?.clone()).ok()
}

impl Limit {
    /// When it is reset, and how much of it is used.
    fn known(&self) -> Option<(Timestamp, f64)> {
        let end = match self.resets_at.as_ref()? {
            Value::String(text) => text.parse().ok()?,
            number => Timestamp::from_second(number.as_i64()?).ok()?,
        };
        Some((end, self.used_percentage?))
    }
}

fn costs(
    homes: &[PathBuf],
    catalog: Option<&Catalog>,
    status: &Status,
    prices: &Prices,
    now: Timestamp,
) -> Costs {
    let Some(path) = status.transcript_path.as_deref() else { return Costs::default() };
    let zone = TimeZone::system();
    let midnight = now.to_zoned(zone.clone()).start_of_day().map(|day| day.timestamp());
    let midnight = midnight.unwrap_or(now);
    // Two blocks: the current one may follow another without a break.
    let after = midnight.min(now.checked_sub(BLOCK * 2).unwrap_or(now));
    let after = Time(after.as_millisecond());
    let ledger = match catalog {
        Some(catalog) => catalog.recent_ledger(homes, path, after, MOST).ok().flatten(),
        None => of_file(path),
    };
    let Some(ledger) = ledger else { return Costs::default() };
    let session = ledger.sources.iter().find(|source| source.path == path);
    let session = session.map(|source| source.session.clone());
    let mut costs = Costs::default();
    let time = |entry: &LedgerEntry| Timestamp::from_millisecond(entry.message.time?.0).ok();
    let ends = catalog.and_then(|catalog| catalog.limits_seen(homes).ok()).unwrap_or_default();
    let ends: Vec<Timestamp> =
        ends.iter().filter_map(|end| Timestamp::from_millisecond(end.0).ok()).collect();
    let blocks = Blocks::new(ledger.entries.iter().filter_map(time), &ends, &zone);
    let block = blocks.start_of(now);
    for entry in &ledger.entries {
        let sum = entry.message.spending(prices);
        if Some(&ledger.source(entry).session) == session.as_ref() {
            *costs.session.get_or_insert_default() += sum;
        }
        let Some(time) = time(entry).filter(|_| catalog.is_some()) else { continue };
        if time >= midnight {
            *costs.today.get_or_insert_default() += sum;
        }
        if let Some(start) = block.filter(|start| blocks.start_of(time) == Some(*start)) {
            let end = start.checked_add(BLOCK).unwrap_or(start);
            costs.block.get_or_insert((Spending::default(), end)).0 += sum;
        }
    }
    costs
}

/// The messages of one session without a catalog.
fn of_file(path: &Path) -> Option<Ledger> {
    let size = path.metadata().ok()?.len();
    let read = (size <= MOST).then(|| FileMessages::read(path.parent()?, path).ok());
    Some(Ledger::new(vec![read??]))
}

/// The line: what is not known is not in it.
fn line(status: &Status, costs: &Costs) -> String {
    let mut parts: Vec<String> = Vec::new();
    let of_client = status.cost.as_ref().and_then(|cost| cost.total_cost_usd);
    let of_client = of_client.map(|cost| Spending {
        cost: Some(Money::of_dollars(cost.max(0.0))),
        ..Spending::default()
    });
    if let Some(sum) = costs.session.or(of_client) {
        parts.push(format!("{} session", dollars(&sum)));
    }
    if let Some(sum) = &costs.today {
        parts.push(format!("{} today", dollars(sum)));
    }
    let limits = status.rate_limits.as_ref();
    match limits.and_then(|limits| limits.five_hour.as_ref()?.known()) {
        Some((end, used)) => parts.push(format!("5h {used:.0} % until {}", clock(end))),
        None => {
            if let Some((sum, end)) = &costs.block {
                parts.push(format!("5h ~{} until ~{}", dollars(sum), clock(*end)));
            }
        }
    }
    if let Some(used) = limits.and_then(|limits| limits.seven_day.as_ref()?.used_percentage) {
        parts.push(format!("7d {used:.0} %"));
    }
    let window = status.context_window.as_ref().and_then(|window| window.used_percentage);
    if let Some(used) = window {
        parts.push(format!("context {used:.0} %"));
    }
    parts.join(" · ")
}

fn clock(time: Timestamp) -> String {
    local(Time(time.as_millisecond()), "%H:%M")
}
