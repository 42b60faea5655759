//! Two conversations side by side: branches, a fork and its origin, before and after a change.
//!
//! The comparison is that of `quipu diff`. Invariant: every turn of both sides is listed, or
//! counted as left out.

use maud::{Markup, html};
use transcript::conversation::parting::{Aligned, align, keys};

use crate::draw::Drawing;
use crate::escape::{T, line, one_line};
use crate::opened::Flow;
use crate::page;
use crate::words::{and_more, count};

/// How many rows are listed, and how many turns of those that are the same.
const ROWS: usize = 400;
const SAME: usize = 400;

/// One side.
pub(crate) struct Side<'a, 'd> {
    pub(crate) drawing: &'a Drawing<'d>,
    pub(crate) flow: &'a Flow,
    /// Which state of the session it is, if the sides are two of them.
    pub(crate) state: Option<String>,
}

/// A row of the comparison.
#[derive(Debug, PartialEq, Eq)]
enum Row {
    /// That many turns are the same, from these on.
    Same { from: [usize; 2], count: usize },
    /// A turn of one side, or of both, by their indices.
    Pair { class: &'static str, turns: [Option<usize>; 2] },
}

/// Turns that are the same and follow each other are one row.
fn rows(aligned: &[Aligned]) -> Vec<Row> {
    let mut rows = Vec::new();
    for part in aligned {
        let (class, turns) = match *part {
            Aligned::Same(a, b) => {
                if let Some(Row::Same { count, .. }) = rows.last_mut() {
                    *count += 1;
                } else {
                    rows.push(Row::Same { from: [a, b], count: 1 });
                }
                continue;
            }
            Aligned::Changed(a, b) => ("changed", [Some(a), Some(b)]),
            Aligned::First(a) => ("first", [Some(a), None]),
            Aligned::Second(b) => ("second", [None, Some(b)]),
        };
        rows.push(Row::Pair { class, turns });
    }
    rows
}

/// `3`, or `3-7`: turns from an index on.
fn numbers(from: usize, count: usize) -> String {
    if count == 1 { format!("{}", from + 1) } else { format!("{}-{}", from + 1, from + count) }
}

impl Side<'_, '_> {
    fn head(&self) -> Markup {
        let opened = self.drawing.opened;
        html! {
            a href=(format!("{}?flow={}", self.drawing.base.trim_end_matches('/'), self.flow.name.text())) {
                (line(&self.drawing.masked(opened.title()), 80))
            }
            span.facts {
                @if let Some(state) = &self.state { strong { (T(state)) } }
                code { (T(&opened.session.id.short())) } span { (self.flow.name.words()) }
                span { (count(self.flow.turns.len(), "turn")) }
            }
        }
    }

    fn turn(&self, at: usize) -> Markup {
        let words = self.drawing.masked(&self.drawing.opened.headline(self.flow, at));
        let source = format!("{}turn/{}/{at}", self.drawing.base, self.flow.name.text());
        html! {
            details data-src=(source) {
                summary { span.who { (at + 1) } " " (line(&words, 120)) }
                p.lazy { a href=(source) { "Open" } }
            }
        }
    }
}

/// The page without anything to compare: a form.
pub(crate) fn form(root: &str, note: Option<&str>) -> String {
    let body = html! {
        main id="main" tabindex="-1" class="home" {
            h1 { "Compare" }
            p { "Two sessions, turn by turn. Branches of one session can be compared from its page." }
            @if let Some(note) = note { p.error { (T(note)) } }
            form.filters action={ (root) "compare" } method="get" {
                label { span { "First session (id)" } input name="a" required; }
                label { span { "Second session (id)" } input name="b" required; }
                button { "Compare" }
            }
        }
    };
    page::page("Compare", root, &body)
}

/// The comparison.
pub(crate) fn compare(
    root: &str,
    first: &Side<'_, '_>,
    second: &Side<'_, '_>,
) -> transcript::Result<String> {
    let of = |side: &Side<'_, '_>| {
        keys(side.drawing.opened.family.of(side.flow.owner), &side.flow.turns)
    };
    let aligned = align(&of(first)?, &of(second)?);
    let rows = rows(&aligned);
    let common = match rows.first() {
        Some(Row::Same { count, .. }) => *count,
        _ => 0,
    };
    let number = |kind: fn(&Aligned) -> bool| aligned.iter().filter(|one| kind(one)).count();
    let changed = number(|one| matches!(one, Aligned::Changed(..)));
    let only_first = number(|one| matches!(one, Aligned::First(_)));
    let only_second = number(|one| matches!(one, Aligned::Second(_)));
    let again = number(|one| matches!(one, Aligned::Same(..))) - common;
    let is_end = |side: &Side<'_, '_>| side.flow.turns.len() == common;
    let body = html! {
        main id="main" tabindex="-1" class="home compare" {
            h1 { "Compare" }
            div.pair.heads { div { strong { "A " } (first.head()) } div { strong { "B " } (second.head()) } }
            p {
                @if common == aligned.len() { "The same: " (count(common, "turn")) "." }
                @else if common > 0 && is_end(first) { "The same up to turn " (common) ", where A ends." }
                @else if common > 0 && is_end(second) { "The same up to turn " (common) ", where B ends." }
                @else if common > 0 { "The same up to turn " (common) "; they part at turn " (common + 1) "." }
                @else { "Nothing in common at the beginning." }
                " " (changed) " with the same prompt and another outcome, " (only_first) " only in A, " (only_second)
                    " only in B"
                @if again > 0 { ", " (again) " the same after that" }
                "."
            }
            @for row in rows.iter().take(ROWS) {
                @match row {
                    Row::Same { from, count } => (same(first, *from, *count)),
                    Row::Pair { class, turns: [a, b] } => div.pair.(class) {
                        div { @if let Some(a) = a { (first.turn(*a)) } }
                        div { @if let Some(b) = b { (second.turn(*b)) } }
                    },
                }
            }
            (and_more(rows.len(), ROWS))
        }
    };
    Ok(page::page(
        &one_line(&format!("Compare {}", first.drawing.masked(first.drawing.opened.title())), 80),
        root,
        &body,
    ))
}

/// Turns that are the same on both sides.
fn same(first: &Side<'_, '_>, from: [usize; 2], number: usize) -> Markup {
    let [a, b] = from.map(|from| numbers(from, number));
    let opened = first.drawing.opened;
    html! {
        details.same {
            summary { "= " (count(number, "turn")) " the same: A " (a) ", B " (b) }
            ol.turns start=(from[0] + 1) { @for at in (from[0]..from[0] + number).take(SAME) { li {
                (line(&first.drawing.masked(&opened.headline(first.flow, at)), 120)) } } }
            (and_more(number, SAME))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_turn_is_in_a_row() {
        let aligned = [
            Aligned::Same(0, 0),
            Aligned::Same(1, 1),
            Aligned::Changed(2, 2),
            Aligned::First(3),
            Aligned::Second(3),
            Aligned::Same(4, 4),
            Aligned::Same(5, 5),
        ];
        let wanted = [
            Row::Same { from: [0, 0], count: 2 },
            Row::Pair { class: "changed", turns: [Some(2), Some(2)] },
            Row::Pair { class: "first", turns: [Some(3), None] },
            Row::Pair { class: "second", turns: [None, Some(3)] },
            Row::Same { from: [4, 4], count: 2 },
        ];
        assert_eq!(rows(&aligned), wanted);
        assert_eq!((numbers(4, 2), numbers(4, 1)), ("5-6".to_owned(), "5".to_owned()));
    }
}
