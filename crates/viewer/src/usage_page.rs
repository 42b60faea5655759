//! What messages took and cost, as plots: the numbers of `quipu usage`.

use index::usage::{By, Filter, Question, report};
use jiff::tz::TimeZone;
use maud::{Markup, html};
use transcript::conversation::price::COLLECTED;
use transcript::conversation::usage::{Money, Spending};

use crate::escape::T;
use crate::library::Library;
use crate::page;
use crate::plot::{Point, bars, columns};
use crate::words::{cost, grouped};

/// What can be chosen.
const CHOICES: [By; 8] =
    [By::Day, By::Week, By::Month, By::Model, By::Project, By::Tool, By::Agent, By::Session];

/// How many rows of a table are shown.
const ROWS: usize = 400;

pub(crate) fn usage(library: &Library, root: &str, by: &str) -> String {
    let by = By::named(by).filter(|by| CHOICES.contains(by)).unwrap_or(By::Day);
    let ledger = library.ledger();
    let (filter, zone) = (Filter::default(), TimeZone::system());
    let question =
        Question { by, filter: &filter, prices: &library.prices, zone: &zone, block_ends: &[] };
    let found = report(&ledger, &question);
    let points: Vec<Point> = found
        .rows
        .iter()
        .map(|row| Point {
            name: crate::escape::one_line(&library.masked(&row.key), 80),
            value: row.sum.cost.map_or(0.0, Money::dollars),
            shown: cost(&row.sum).unwrap_or_else(|| "no price".to_owned()),
            link: None,
        })
        .collect();
    let title = format!("Cost by {}, at list prices", by.name());
    let body = html! {
        main id="main" tabindex="-1" class="home" {
            h1 { "Usage" }
            nav.choices aria-label="What the rows are" {
                @for choice in CHOICES {
                    a href=(format!("{root}usage?by={}", choice.name())) aria-current=[(choice ==
                        by).then_some("true")] { (choice.name()) }
                }
            }
            @if by.is_time() { (columns(&title, [by.name(), "cost"], &points[points.len().saturating_sub(370)..])) }
            @else { (bars(&title, [by.name(), "cost"], &points[..points.len().min(25)])) }
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

fn numbers(key: &str, sum: &Spending) -> Markup {
    html! {
        tr {
            th scope="row" { (T(&crate::escape::one_line(key, 100))) }
            td { (grouped(sum.messages)) } td { (grouped(sum.usage.input)) } td { (grouped(sum.usage.output)) }
            td { (grouped(sum.usage.cache_write())) } td { (grouped(sum.usage.cache_read)) }
            td { (cost(sum).unwrap_or_default()) }
        }
    }
}
