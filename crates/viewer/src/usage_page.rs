//! What messages took and cost, as plots: the numbers of `quipu usage`.

use std::collections::BTreeMap;

use index::usage::{By, Filter, Question, Row, report};
use jiff::ToSpan;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use maud::{Markup, html};
use transcript::conversation::price::COLLECTED;
use transcript::conversation::usage::{Money, Spending};

use crate::escape::{T, one_line};
use crate::library::Library;
use crate::page;
use crate::plot::{Point, bars, columns};
use crate::words::{and_more, cost, count, grouped};

/// What can be chosen.
const CHOICES: [By; 8] =
    [By::Day, By::Week, By::Month, By::Model, By::Project, By::Tool, By::Agent, By::Session];

/// How many rows of a table are shown.
const ROWS: usize = 400;
/// How many days, weeks or months a plot has, and how many bars.
const PERIODS: usize = 370;
const BARS: usize = 25;

pub(crate) fn usage(library: &Library, root: &str, by: &str) -> String {
    let by = By::named(by).filter(|by| CHOICES.contains(by)).unwrap_or(By::Day);
    let ledger = library.ledger();
    let (filter, zone) = (Filter::default(), TimeZone::system());
    let question =
        Question { by, filter: &filter, prices: &library.prices, zone: &zone, block_ends: &[] };
    let found = report(&ledger, &question);
    let points = if by.is_time() { periods(by, &found.rows, PERIODS) } else { Vec::new() };
    let title = title(by, points.len(), PERIODS);
    let body = html! {
        main id="main" tabindex="-1" class="home" {
            h1 { "Usage" }
            nav.choices aria-label="What the rows are" {
                @for choice in CHOICES {
                    a href=(format!("{root}usage?by={}", choice.name())) aria-current=[(choice ==
                        by).then_some("true")] { (choice.name()) }
                }
            }
            @if by.is_time() { (columns(&title, [by.name(), "cost"], &points)) }
            @else {
                @let rows = found.rows.iter().take(BARS);
                @let name = |row: &Row| one_line(&library.masked(&row.key), 80);
                @let points: Vec<Point> = rows.map(|row| point(name(row), Some(row))).collect();
                (bars(&title, [by.name(), "cost"], &points))
                (and_more(found.rows.len(), BARS))
            }
            div.wide tabindex="0" { table.figures {
                caption { "All numbers by " (by.name()) }
                thead { tr { th { (by.name()) } th { "messages" } th { "input" } th { "output" } th { "cache write" }
                    th { "cache read" } th { "cost" } } }
                tbody {
                    @for row in found.rows.iter().rev().take(ROWS).filter(|_| by.is_time()) { (numbers(&row.key,
                        &row.sum)) }
                    @for row in found.rows.iter().take(ROWS).filter(|_| !by.is_time()) {
                        (numbers(&library.masked(&row.key), &row.sum)) }
                }
                tfoot { (numbers("total", &found.total)) }
            } }
            @if found.rows.len() > ROWS { p { "and " (found.rows.len() - ROWS) " more: quipu usage --by " (by.name())
                } }
            @let bound = &found.lower_bound;
            @if bound.messages > 0 {
                p { (messages(bound)) " (" (share(bound.usage.output, found.total.usage.output))
                    " % of the output) recorded before the answer ended: at least that much." }
            }
            @let gone = &found.only_in_catalog;
            @if gone.messages > 0 {
                p { (messages(gone)) @if let Some(cost) = cost(gone) { " (" (cost) ")" }
                    " of sessions whose files are gone, as the catalog has them." }
            }
            @if !found.unpriced.is_empty() {
                p { "Without a price: " @for (model, sum) in &found.unpriced { code { (T(&library.masked(model))) } " ("
                    (sum.messages) " messages) " } }
            }
            p.facts { "Costs are estimates from a list of prices (" (*COLLECTED)
                "). Every message of the API counts once." }
        }
    };
    page::page("Usage", root, &body)
}

/// What a plot of that many rows is called. If it has the most that fit, it says which they are.
pub(crate) fn title(by: By, shown: usize, most: usize) -> String {
    let name = by.name();
    let last = if shown < most { String::new() } else { format!(" of the last {most} {name}s") };
    format!("Cost by {name}{last}, at list prices")
}

fn messages(sum: &Spending) -> String {
    count(usize::try_from(sum.messages).unwrap_or(usize::MAX), "message")
}

/// How much of the whole a part is, in percent.
fn share(part: u64, whole: u64) -> u128 {
    u128::from(part) * 100 / u128::from(whole.max(1))
}

/// The cost of a row; of none, if nothing was used.
fn point(name: String, row: Option<&Row>) -> Point {
    let price = |row: &Row| cost(&row.sum).unwrap_or_else(|| "no price".to_owned());
    let value = row.and_then(|row| row.sum.cost).map_or(0.0, Money::dollars);
    Point {
        name,
        value,
        shown: row.map_or_else(|| "nothing".to_owned(), price),
        link: None,
        title: None,
    }
}

/// The last days, weeks or months of a report, also those on which nothing was used: at most so
/// many of them.
pub(crate) fn periods(by: By, rows: &[Row], most: usize) -> Vec<Point> {
    let begin = |row: &Row| match by {
        By::Month => format!("{}-01", row.key).parse::<Date>().ok(),
        _ => row.key.parse().ok(),
    };
    let known: BTreeMap<Date, &Row> =
        rows.iter().filter_map(|row| Some((begin(row)?, row))).collect();
    let (Some(first), Some(last)) = (known.keys().next(), known.keys().next_back()) else {
        return Vec::new();
    };
    let name = |date: Date| match by {
        By::Month => date.strftime("%Y-%m").to_string(),
        _ => date.to_string(),
    };
    let span = match by {
        By::Month => 1.month(),
        By::Week => 1.week(),
        _ => 1.day(),
    };
    let back = std::iter::successors(Some(*last), |date| date.checked_sub(span).ok());
    let back = back.take_while(|date| date >= first).take(most);
    let mut points: Vec<Point> =
        back.map(|date| point(name(date), known.get(&date).copied())).collect();
    points.reverse();
    points
}

fn numbers(key: &str, sum: &Spending) -> Markup {
    html! {
        tr {
            th scope="row" { (T(&one_line(key, 100))) }
            td { (grouped(sum.messages)) } td { (grouped(sum.usage.input)) } td { (grouped(sum.usage.output)) }
            td { (grouped(sum.usage.cache_write())) } td { (grouped(sum.usage.cache_read)) }
            td { (cost(sum).unwrap_or_default()) }
        }
    }
}

#[cfg(test)]
#[path = "usage_page_tests.rs"]
mod tests;
