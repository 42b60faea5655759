//! The strip above a conversation: what happened when, to jump with.
//!
//! Invariant: computed from the table, without reading a text; the number of marks is bounded,
//! however long the session is.

use maud::{Markup, html};
use transcript::conversation::turn::Step;
use transcript::format::time::Time;

use crate::draw::Drawing;
use crate::opened::{Flow, Opened};
use crate::words::{count, local, short};

/// How many marks a strip has at most.
const MARKS: usize = 120;

/// Some steps that follow each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mark {
    turn: usize,
    line: u64,
    time: Option<Time>,
    tokens: u64,
    calls: usize,
    errors: usize,
    prompts: usize,
    compactions: usize,
}

fn marks<'a>(opened: &Opened, flow: &'a Flow) -> &'a [Mark] {
    flow.marks.get_or_init(|| made(opened, flow))
}

fn made(opened: &Opened, flow: &Flow) -> Vec<Mark> {
    let conversation = opened.family.of(flow.owner);
    let table = &conversation.table;
    let all: usize = flow.turns.iter().map(|turn| turn.steps.len()).sum();
    let each = all.div_ceil(MARKS).max(1);
    let mut marks: Vec<Mark> = Vec::new();
    let mut at = 0;
    for (number, turn) in flow.turns.iter().enumerate() {
        for step in &turn.steps {
            let row = match step {
                Step::Said(row) | Step::Event(row) => Some(*row),
                Step::Orphan(block) => Some(table.block(*block).row),
                Step::Answer { blocks, .. } => blocks.first().map(|block| table.block(*block).row),
            };
            if at % each == 0 {
                marks.push(Mark { turn: number, ..Mark::default() });
            }
            at += 1;
            let Some(mark) = marks.last_mut() else { continue };
            if let Some(row) = row {
                let known = table.row(row);
                mark.line = if mark.line == 0 { known.line } else { mark.line };
                mark.time = mark.time.or(known.time);
                mark.compactions += usize::from(table.boundary(row).is_some());
                mark.prompts += usize::from(matches!(step, Step::Said(_)) && known.opens());
            }
            if let Step::Answer { id, blocks, counts } = step {
                let usage = table.answer(*id).usage.as_ref().filter(|_| *counts);
                mark.tokens += usage.map_or(0, |usage| usage.usage.output);
                mark.errors += usize::from(table.answer(*id).is_error);
                for block in blocks {
                    mark.calls += usize::from(table.block(*block).kind.is_call());
                    let result = conversation.pairs.of(*block);
                    mark.errors += usize::from(result.is_some_and(|one| table.block(one).is_error));
                }
            }
        }
    }
    marks
}

/// The strip of a flow.
pub(crate) fn strip(drawing: &Drawing<'_>, flow: &Flow) -> Markup {
    let marks = marks(drawing.opened, flow);
    if marks.len() < 3 {
        return html! {};
    }
    let most = marks.iter().map(|mark| mark.tokens).max().unwrap_or(0).max(1) as f64;
    let most_calls = marks.iter().map(|mark| mark.calls).max().unwrap_or(0).max(1) as f64;
    let step = 1000.0 / marks.len() as f64;
    let form = |value: f64| format!("{value:.2}");
    html! {
        nav.strip aria-label="Timeline" {
            svg viewBox="0 0 1000 44" preserveAspectRatio="none" {
                @for (at, mark) in marks.iter().enumerate() {
                    @let x = at as f64 * step;
                    @let words = words(mark);
                    a href={ "#" (Drawing::anchor(flow.name, "L", mark.line)) } tabindex="-1" aria-label=(words) {
                        title { (words) }
                        rect.hit x=(form(x)) y="0" width=(form(step)) height="44" {}
                        @if mark.tokens > 0 { rect.fill x=(form(x)) width=(form(step * 0.85)) y=(form(28.0 -
                            mark.tokens as f64 / most * 26.0))
                            height=(form(mark.tokens as f64 / most * 26.0)) {} }
                        @if mark.calls > 0 { rect.calls x=(form(x)) width=(form(step * 0.85)) y="30"
                            height=(form(mark.calls as f64 / most_calls * 7.0)) {} }
                        @if mark.prompts > 0 { rect.prompts x=(form(x)) width=(form(step * 0.85)) y="39" height="4"
                            {} }
                        @if mark.errors > 0 { rect.errors x=(form(x)) width=(form((step * 0.85).max(2.0))) y="30"
                            height="9" {} }
                        @if mark.compactions > 0 { rect.compactions x=(form(x)) width="2" y="0" height="44" {} }
                    }
                }
            }
            div.ends {
                span { (marks.first().and_then(|mark| mark.time).map_or(String::new(), |time| local(time,
                    "%Y-%m-%d %H:%M"))) }
                span.legend { span.k1 { "tokens" } span.k2 { "calls" } span.k3 { "prompts" } span.k4 { "errors" }
                    span.k5 { "compactions" } }
                span { (marks.last().and_then(|mark| mark.time).map_or(String::new(), |time| local(time,
                    "%Y-%m-%d %H:%M"))) }
            }
            @let source = (!drawing.is_file()).then(|| format!("{}panel/timeline?flow={}", drawing.base,
                flow.name.text()));
            details.behind id="timeline" data-src=[source.as_ref()] {
                summary { "Timeline as a table" }
                @if let Some(source) = &source { p.lazy { a href=(source) { "Open" } } }
                @else { (rows(flow, marks)) }
            }
        }
    }
}

/// The numbers of the strip.
pub(crate) fn table(drawing: &Drawing<'_>, flow: &Flow) -> Markup {
    rows(flow, marks(drawing.opened, flow))
}

fn rows(flow: &Flow, marks: &[Mark]) -> Markup {
    html! {
        div.wide tabindex="0" { table {
            thead { tr { th { "from" } th { "turn" } th { "tokens out" } th { "calls" } th { "errors" } th {
                "compactions" } } }
            tbody { @for mark in marks { tr {
                td { a href={ "#" (Drawing::anchor(flow.name, "L", mark.line)) } { (mark.time.map_or("?".to_owned(),
                    |time| local(time, "%m-%d %H:%M"))) } }
                td { (mark.turn + 1) } td { (short(mark.tokens)) } td { (mark.calls) } td { (mark.errors) } td {
                    (mark.compactions) }
            } } }
        } }
    }
}

fn words(mark: &Mark) -> String {
    let mut words = vec![format!("Turn {}", mark.turn + 1)];
    words.extend(mark.time.map(|time| local(time, "%Y-%m-%d %H:%M")));
    words.push(format!("{} tokens", short(mark.tokens)));
    words.extend((mark.calls > 0).then(|| count(mark.calls, "call")));
    words.extend((mark.errors > 0).then(|| count(mark.errors, "error")));
    words.extend((mark.compactions > 0).then(|| count(mark.compactions, "compaction")));
    words.join(", ")
}
