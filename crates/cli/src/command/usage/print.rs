//! Prints a report of usage.

use std::collections::HashMap;
use std::io::Write;

use index::usage::{By, Report, Row};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use transcript::conversation::price;
use transcript::conversation::usage::{Money, Spending};

use crate::csv;
use crate::failure::Failure;
use crate::table::{Column, Table};
use crate::text::{count, dollars, one_line, output, short_number};
use crate::world::World;

/// The head of the column of keys.
fn heading(by: By) -> &'static str {
    match by {
        By::Week => "week of",
        By::Tool => "first tool",
        by => by.name(),
    }
}

/// How many characters the longest bar has.
const BAR: u64 = 20;

/// The report as a table for people. `titles` has the titles of sessions, by their ids.
pub(super) fn table(
    world: &mut World,
    by: By,
    found: &Report,
    titles: &HashMap<String, String>,
) -> Result<(), Failure> {
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
    for Row { key, sum, is_estimate } in &found.rows {
        let mark = if *is_estimate { "~" } else { "" };
        let title = titles.get(key).map(|title| format!("  {title}")).unwrap_or_default();
        let label = format!("{mark}{}{title}", label(by, key));
        line(&label, sum, bar(weight(sum), largest));
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
    if found.rows.iter().any(|row| row.is_estimate) {
        let text = "~: an estimate, because the client did not report when this block began";
        notes.push(text.to_owned());
    }
    let bound = &found.lower_bound;
    if bound.messages > 0 {
        let share =
            u128::from(bound.usage.output) * 100 / u128::from(found.total.usage.output.max(1));
        notes.push(format!(
            "{} ({share} % of the output) recorded before the answer ended: at least that much",
            count(bound.messages, "message")
        ));
    }
    if found.only_in_catalog.messages > 0 {
        notes.push(format!(
            "{} ({}) of sessions whose files are gone, as the catalog has them",
            count(found.only_in_catalog.messages, "message"),
            dollars(&found.only_in_catalog),
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

pub(super) fn csv(world: &mut World, found: &Report) -> Result<(), Failure> {
    let out = &mut world.out;
    writeln!(
        out,
        "key,input,output,cache_write_5m,cache_write_1h,cache_read,web_searches,cost_usd,\
         cost_is_lower_bound,messages"
    )?;
    for Row { key, sum, .. } in &found.rows {
        let usage = sum.usage;
        let cost = sum.cost.map(|cost| cost.dollars().to_string()).unwrap_or_default();
        writeln!(
            out,
            "{},{},{},{},{},{},{},{cost},{},{}",
            csv::cell(key),
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
