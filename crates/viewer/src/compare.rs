//! Two conversations side by side: branches, a fork and its origin, before and after a change.
//!
//! The comparison is that of `quipu diff`.

use maud::{Markup, html};
use transcript::conversation::parting::{Aligned, align, keys};

use crate::draw::Drawing;
use crate::escape::{T, line, one_line};
use crate::opened::Flow;
use crate::page;
use crate::words::{and_more, count};

/// How many pairs of turns are listed.
const PAIRS: usize = 400;

/// One side.
pub(crate) struct Side<'a, 'd> {
    pub(crate) drawing: &'a Drawing<'d>,
    pub(crate) flow: &'a Flow,
}

impl Side<'_, '_> {
    fn head(&self) -> Markup {
        let opened = self.drawing.opened;
        html! {
            a href=(format!("{}?flow={}", self.drawing.base.trim_end_matches('/'), self.flow.name.text())) {
                (line(&self.drawing.masked(opened.title()), 80))
            }
            span.facts { code { (T(&opened.session.id.short())) } span { (self.flow.name.words()) } span {
                (count(self.flow.turns.len(), "turn")) } }
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
    let same = |part: &&Aligned| matches!(part, Aligned::Same(..));
    let common = aligned.iter().take_while(same).count();
    let number = |kind: fn(&Aligned) -> bool| aligned.iter().filter(|one| kind(one)).count();
    let changed = number(|one| matches!(one, Aligned::Changed(..)));
    let only_first = number(|one| matches!(one, Aligned::First(_)));
    let only_second = number(|one| matches!(one, Aligned::Second(_)));
    let rows = aligned.iter().filter(|part| !same(part)).take(PAIRS);
    let body = html! {
        main id="main" tabindex="-1" class="home compare" {
            h1 { "Compare" }
            div.pair.heads { div { strong { "A " } (first.head()) } div { strong { "B " } (second.head()) } }
            p {
                @if common == aligned.len() { "The same: " (count(common, "turn")) "." }
                @else if common > 0 { "The same up to turn " (common) "; they part at turn " (common + 1) "." }
                @else { "Nothing in common at the beginning." }
                " " (changed) " with the same prompt and another outcome, " (only_first) " only in A, " (only_second)
                    " only in B."
            }
            @if common > 0 {
                details { summary { (count(common, "turn")) " that are the same" }
                    ol.turns { @for at in 0..common.min(PAIRS) { li {
                        (line(&first.drawing.masked(&first.drawing.opened.headline(first.flow, at)), 120)) } } }
                    (and_more(common, PAIRS)) }
            }
            @for part in rows {
                @let (kind, a, b) = match part {
                    Aligned::Changed(a, b) => ("changed", Some(*a), Some(*b)),
                    Aligned::First(a) => ("first", Some(*a), None),
                    Aligned::Second(b) => ("second", None, Some(*b)),
                    Aligned::Same(a, b) => ("same", Some(*a), Some(*b)),
                };
                div.pair.(kind) {
                    div { @if let Some(a) = a { (first.turn(a)) } }
                    div { @if let Some(b) = b { (second.turn(b)) } }
                }
            }
            (and_more(aligned.iter().filter(|part| !same(part)).count(), PAIRS))
        }
    };
    Ok(page::page(
        &one_line(&format!("Compare {}", first.drawing.masked(first.drawing.opened.title())), 80),
        root,
        &body,
    ))
}
