//! Finds words in a session, also in what is folded away, in sub-agents and in dead ends.
//!
//! Invariant: bounded in time and in hits, to within a step; goes on at the step where it stopped.

use std::time::{Duration, Instant};

use maud::{Markup, html};
use transcript::conversation::table::RowId;
use transcript::conversation::turn::Step;
use transcript::conversation::view::{self, Item, Piece};

use crate::draw::Drawing;
use crate::escape::T;
use crate::opened::{Flow, FlowName, Opened};

/// How many hits are listed.
const HITS: usize = 100;
/// How long it looks before it answers.
const PATIENCE: Duration = Duration::from_millis(1_500);

struct Hit {
    flow: FlowName,
    turn: usize,
    line: u64,
    what: String,
    text: String,
}

/// Where to look on: a part of the session (`Opened::parts`), and a step of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) part: usize,
    pub(crate) step: usize,
}

/// The hits of some words from a place on.
pub(crate) fn find(
    drawing: &Drawing<'_>,
    flow: &Flow,
    words: &str,
    from: Place,
) -> transcript::Result<Markup> {
    let needle = words.to_lowercase();
    let begin = Instant::now();
    let mut hits = Vec::new();
    let mut stopped = None;
    let (mut looked, mut skipped) = (0_usize, from.step);
    'parts: for (place, name) in drawing.opened.parts(flow).enumerate().skip(from.part) {
        let Some(part) = drawing.opened.flow(name) else { continue };
        let turns = part.turns_beside(flow);
        let steps = turns
            .flat_map(|(number, turn)| turn.steps.iter().map(move |step| (number, turn, step)));
        let steps = steps.enumerate().skip(std::mem::take(&mut skipped));
        for (at, (number, turn, step)) in steps {
            // However long something takes, the next answer is about something else.
            if looked > 0 && (begin.elapsed() > PATIENCE || hits.len() >= HITS) {
                stopped = Some(Place { part: place, step: at });
                break 'parts;
            }
            looked += 1;
            if !may_have(drawing.opened, &part, step, &needle)? {
                continue;
            }
            let only = Opened::part_of(turn, std::slice::from_ref(step));
            for item in view::items(&drawing.opened.family, part.owner, &only) {
                hits.extend(hit(drawing, (part.name, number), &item?, &needle));
            }
        }
    }
    let next = stopped.map(|Place { part, step }| {
        let word = percent_encoding::utf8_percent_encode(words, percent_encoding::NON_ALPHANUMERIC);
        let flow = flow.name.text();
        format!("{}find?flow={flow}&part={part}&step={step}&q={word}", drawing.base)
    });
    Ok(html! {
        @if from == Place::default() {
            p { (hits.len()) @if stopped.is_some() { " or more" } @if hits.len() == 1 { " hit" } @else
                { " hits" } }
        }
        ol.hits {
            @for hit in &hits {
                li { a href={ "#" (Drawing::anchor(hit.flow, "L", hit.line)) } {
                    span.who {
                        @if hit.flow != flow.name { (hit.flow.words()) ", " }
                        (hit.turn + 1) " " (T(&drawing.masked(&hit.what)))
                    }
                    " " (marked(&hit.text, &needle))
                } }
            }
        }
        @if let Some(next) = next { button.more type="button" data-more=(next) { "Look further" } }
    })
}

fn marked(text: &str, needle: &str) -> Markup {
    let lower = text.to_lowercase();
    // Lower case may have other lengths.
    let at = lower.find(needle).filter(|at| {
        lower.len() == text.len()
            && text.is_char_boundary(*at)
            && text.is_char_boundary(at + needle.len())
    });
    let Some(at) = at else { return html! { (T(text)) } };
    let end = at + needle.len();
    html! { (T(&text[..at])) mark { (T(&text[at..end])) } (T(&text[end..])) }
}

/// Whether the records of a step may contain the words. Only plain words can be looked for in JSON.
fn may_have(opened: &Opened, flow: &Flow, step: &Step, needle: &str) -> transcript::Result<bool> {
    if !needle.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b' ' || byte == b'_') {
        return Ok(true);
    }
    let conversation = opened.family.of(flow.owner);
    let table = &conversation.table;
    let has = |row: RowId| conversation.look(row, |entry| contains(entry.raw(), needle.as_bytes()));
    match step {
        Step::Said(row) | Step::Event(row) => has(*row),
        Step::Orphan(block) => has(table.block(*block).row),
        Step::Answer { blocks, .. } => {
            for block in blocks {
                let result = conversation.pairs.of(*block).map(|result| table.block(result).row);
                if has(table.block(*block).row)? || result.map_or(Ok(false), has)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
    }
}

/// Whether bytes contain a lower-case word, in any case.
pub(crate) fn contains(bytes: &[u8], needle: &[u8]) -> bool {
    let Some(first) = needle.first() else { return true };
    let (low, high) = (*first, first.to_ascii_uppercase());
    let mut at = 0;
    while at + needle.len() <= bytes.len() {
        let Some(found) = bytes[at..].iter().position(|byte| *byte == low || *byte == high) else {
            return false;
        };
        at += found;
        if bytes.get(at..at + needle.len()).is_some_and(|part| part.eq_ignore_ascii_case(needle)) {
            return true;
        }
        at += 1;
    }
    false
}

fn hit(
    drawing: &Drawing<'_>,
    (flow, turn): (FlowName, usize),
    item: &Item,
    needle: &str,
) -> Option<Hit> {
    let (line, what, texts): (u64, String, Vec<String>) = match item {
        Item::Message(message) => (message.line, "prompt".to_owned(), vec![message.text.clone()]),
        Item::Block(block) => match &block.piece {
            Some(Piece::Text { text, .. }) => (block.line, "answer".to_owned(), vec![text.clone()]),
            Some(Piece::Thinking { text, .. }) => {
                (block.line, "thinking".to_owned(), vec![text.clone()])
            }
            _ => return None,
        },
        Item::Call(call) => {
            let result = call.result.as_ref().map(transcript::conversation::view::CallResult::text);
            let texts = [Some(call.about.clone()), Some(call.input.as_str().to_owned()), result];
            (call.line, call.tool.clone(), texts.into_iter().flatten().collect())
        }
        Item::Orphan(orphan) => (orphan.line, "result".to_owned(), vec![orphan.text()]),
        Item::Event(event) => (event.line, event.kind.clone(), vec![event.text.clone()]),
        Item::Answer(_) => return None,
    };
    let text =
        texts.iter().map(|text| drawing.masked(text)).find_map(|text| around(&text, needle))?;
    let what = crate::escape::one_line(&what, 30);
    Some(Hit { flow, turn, line, what, text })
}

/// The text around the first place of some words.
fn around(text: &str, needle: &str) -> Option<String> {
    let lower = text.to_lowercase();
    let at = lower.find(needle)?;
    let mut from = at.saturating_sub(50).min(text.len());
    while !text.is_char_boundary(from) {
        from -= 1;
    }
    let mut to = (at + needle.len() + 90).min(text.len());
    while !text.is_char_boundary(to) {
        to -= 1;
    }
    Some(crate::escape::one_line(&text[from..to.max(from)], 200))
}

#[cfg(test)]
#[path = "find_tests.rs"]
mod tests;
