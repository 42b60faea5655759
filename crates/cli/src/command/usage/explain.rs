//! How the number of one session comes about, message by message.

use std::io::Write;
use std::path::Path;

use jiff::Timestamp;
use serde::Serialize;
use transcript::conversation::price::Prices;
use transcript::conversation::usage::{CountedFile, Ledger, LedgerEntry, Spending};

use super::{Room, UsageArgs};
use crate::failure::Failure;
use crate::out::JSON_VERSION;
use crate::table::{Column, Table};
use crate::text::{clock, count, dollars, one_line, output, short_number};
use crate::world::World;

/// The whole of `--explain --json`.
#[derive(Serialize)]
struct ExplainJson<'a> {
    v: u32,
    session: &'a str,
    messages: Vec<Explained<'a>>,
    total: Spending,
    truncated: bool,
}

/// A message that a file of the session contains.
#[derive(Serialize)]
struct Explained<'a> {
    message: &'a str,
    /// The session that it counts for.
    session: &'a str,
    path: String,
    line: u64,
    records: u32,
    time: Option<String>,
    model: Option<&'a str>,
    tool: Option<&'a str>,
    tier: Option<&'a str>,
    speed: Option<&'a str>,
    #[serde(flatten)]
    sum: Spending,
    #[serde(skip)]
    entry: &'a LedgerEntry,
    #[serde(skip)]
    is_counted: bool,
}

pub(super) fn explain(
    world: &mut World,
    ledger: &Ledger,
    prices: &Prices,
    (session, project): (&str, &Path),
    args: &UsageArgs,
) -> Result<(), Failure> {
    let is_here =
        |source: &CountedFile| source.project == project && source.session.as_str() == session;
    let explained = ledger.entries.iter().filter_map(|entry| {
        let source = ledger.source(entry);
        let is_counted = is_here(source);
        let is_copied = || entry.copies.iter().any(|copy| is_here(&ledger.sources[*copy]));
        if !is_counted && !is_copied() {
            return None;
        }
        let message = &entry.message;
        let model = message.model.as_deref();
        let time = message.time.and_then(|time| Timestamp::from_millisecond(time.0).ok());
        Some(Explained {
            message: &message.id,
            session: source.session.as_str(),
            path: source.path.to_string_lossy().into_owned(),
            line: message.line,
            records: message.records,
            time: time.map(|time| time.to_string()),
            model,
            tool: message.tool.as_deref(),
            tier: message.tier.as_deref(),
            speed: message.speed.as_deref(),
            sum: message.spending(prices),
            entry,
            is_counted,
        })
    });
    let mut messages: Vec<Explained<'_>> = explained.collect();
    messages.sort_by_key(|one| (one.entry.message.time, one.entry.source, one.line));
    let mut total = Spending::default();
    for one in messages.iter().filter(|one| one.is_counted) {
        total += one.sum;
    }
    let copied = messages.iter().filter(|one| !one.is_counted).count();
    let mut room = Room::new(args);
    let names = |one: &Explained<'_>| 200 + one.message.len() + one.path.len();
    let kept = messages.iter().take(args.limit).take_while(|one| room.has(names(one))).count();
    let rest = messages.split_off(kept).len();
    if args.json {
        let truncated = rest > 0;
        let explained = ExplainJson { v: JSON_VERSION, session, messages, total, truncated };
        return Ok(world.out.json(&explained)?);
    }
    if messages.is_empty() && rest == 0 {
        return Ok(world.out.note("no messages of the API in this session")?);
    }
    world.page()?;
    table(world, &messages)?;
    let elsewhere =
        if copied > 0 { format!("; {copied} more count elsewhere") } else { String::new() };
    let counted = count(total.messages, "message");
    writeln!(world.out, "{counted} of this session: {}{elsewhere}", dollars(&total))?;
    if rest > 0 {
        let rest = count(rest as u64, "more message");
        world.out.note(&format!("{rest}: `--limit` and `--max-bytes` show more"))?;
    }
    Ok(())
}

fn table(world: &mut World, messages: &[Explained<'_>]) -> Result<(), Failure> {
    let mut table = Table::new(&[
        Column::left("time"),
        Column::left("message"),
        Column::right("line"),
        Column::left("model"),
        Column::right("input"),
        Column::right("output"),
        Column::right("5m write"),
        Column::right("1h write"),
        Column::right("read"),
        Column::right("cost"),
        Column::left("remarks"),
    ])
    .flexible(10);
    for one in messages {
        let mut remarks = Vec::new();
        if !one.is_counted {
            let short: String = one.session.chars().take(8).collect();
            remarks.push(format!("counts for session {short}"));
        } else if !one.entry.copies.is_empty() {
            remarks.push(format!("also in {} other files", one.entry.copies.len()));
        }
        remarks.extend((one.records > 1).then(|| format!("{} records", one.records)));
        remarks.extend(one.sum.usage.at_least.then(|| "recorded before it ended".to_owned()));
        remarks.extend((one.sum.unpriced > 0).then(|| "no price".to_owned()));
        let usage = one.sum.usage;
        table.row(&[
            one.entry.message.time.map_or("unknown".to_owned(), clock),
            one_line(one.message),
            one.line.to_string(),
            one_line(one.model.unwrap_or("unknown")),
            short_number(usage.input),
            output(usage),
            short_number(usage.cache_5m),
            short_number(usage.cache_1h),
            short_number(usage.cache_read),
            dollars(&one.sum),
            remarks.join(", "),
        ]);
    }
    Ok(table.write(&mut world.out)?)
}
