//! What a compaction took away: the receipt of `quipu compaction`.
//!
//! Invariant: a page computes it when it is opened; a file only if that reads little.

use maud::{Markup, html};
use transcript::client::compaction::Compaction;
use transcript::client::history::Rules;
use transcript::conversation::table::RowId;

use crate::draw::Drawing;
use crate::escape::{T, line};
use crate::opened::FlowName;
use crate::words::{count, grouped};

/// How many entries of a list are shown, the newest.
const MOST: usize = 20;
/// How many turns the table has, the newest.
const TURNS: usize = 100;
/// How many bytes are read for all receipts of a file: each reads the session again.
const READ_FOR_FILE: u64 = 40 << 20;

/// The receipt of a compaction of the live branch, folded.
pub(crate) fn folded(drawing: &Drawing<'_>, boundary: RowId) -> Markup {
    let opened = drawing.opened;
    let Some(number) = opened.compaction_number(boundary) else { return html! {} };
    if !drawing.is_file() {
        let source = format!("{}receipt/{number}", drawing.base);
        return html! {
            details.receipt id={ "receipt-" (number) } data-src=(source) {
                summary { "What nothing says any more" }
                p.lazy { a href=(source) { "Open" } }
            }
        };
    }
    let all = opened.family.main.table.boundaries.len() as u64;
    if drawing.chosen.is_some() || !drawing.has_tools() {
        return html! {};
    }
    html! {
        @if opened.session.size.saturating_mul(all) > READ_FOR_FILE {
            p { "What was lost: " code { "quipu compaction " (T(&opened.session.id.short())) " --at " (number) } }
        } @else {
            details.receipt {
                summary { "What nothing says any more" }
                (receipt(drawing, number))
            }
        }
    }
}

/// The receipt of a compaction of the live branch, counted from 1.
pub(crate) fn receipt(drawing: &Drawing<'_>, number: usize) -> Markup {
    let path = &drawing.opened.session.path;
    let found = match Compaction::find(path, Rules::newest(), Some(number)) {
        Ok(found) => found,
        Err(error) => {
            let words = drawing.masked(&error.to_string());
            return html! { p { "What it took away is not known: " (T(&words)) } };
        }
    };
    let [before, after] = found.blocks;
    let lost = found.receipt.lost.len();
    let kinds: Vec<_> = found.receipt.by_kind().into_iter().map(|(kind, _)| kind).collect();
    let turn = |number: usize| {
        let anchor = Drawing::anchor(FlowName::Live, "turn-", number as u64);
        html! { a href={ "#" (anchor) } { "turn " (number) } }
    };
    html! {
        p {
            (grouped(lost as u64)) " of " (count(before, "block"))
            " are neither sent nor quoted any more; " (count(after, "block")) " are sent instead."
        }
        @for (name, list) in found.receipt.missed.lists().into_iter().filter(|(_, list)| !list.is_empty()) {
            h4 {
                @if list.len() == 1 { "1 " (name.trim_end_matches('s')) " that occurs nowhere now" }
                @else { (list.len()) " " (name) " that occur nowhere now" }
            }
            ul {
                @for one in list.iter().rev().take(MOST) {
                    li { (turn(one.turn)) " " (line(&drawing.masked(&one.text), 300)) }
                }
            }
            @if list.len() > MOST { p { "and " (list.len() - MOST) " older" } }
        }
        @if found.receipt.missed.more > 0 { p { "and " (grouped(found.receipt.missed.more as u64)) " more of these" } }
        @if !kinds.is_empty() {
            @let turns = found.receipt.by_turn();
            div.wide tabindex="0" { table.figures {
                caption { "Blocks that are lost, by turn" }
                thead { tr { th scope="col" { "turn" } @for kind in &kinds { th scope="col" { (kind.name()) } } } }
                tbody {
                    @for (number, counts) in turns.iter().rev().take(TURNS) {
                        tr {
                            th scope="row" { (turn(*number)) }
                            @for kind in &kinds {
                                td { @if let Some((_, count)) = counts.iter().find(|(other, _)| other == kind) { (count) } }
                            }
                        }
                    }
                }
            } }
            @if turns.len() > TURNS { p { "and " (count(turns.len() - TURNS, "older turn")) } }
        }
    }
}
