//! The page of a session on the server.
//!
//! Invariant: a page has a few windows of the conversation, and the script asks for others.

use maud::{Markup, html};

use crate::draw::Drawing;
use crate::earlier::parted;
use crate::escape::{T, line};
use crate::library::SOON_CHECKED;
use crate::opened::{Flow, FlowName};
use crate::page;
use crate::panels;
use crate::timeline::strip;

/// How many windows a page has at first.
const WINDOWS: usize = 3;

/// Where a page begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At the last turn.
    End,
    /// At a window.
    Window(usize),
}

/// How a page opens.
#[derive(Clone, Debug)]
pub(crate) struct Opening {
    pub(crate) place: Place,
    /// The record that the script goes to.
    pub(crate) target: Option<String>,
}

/// The page of a session on the server.
pub(crate) fn served(
    drawing: &Drawing<'_>,
    flow: &Flow,
    opening: &Opening,
    stamp: &str,
    root: &str,
) -> transcript::Result<String> {
    let opened = drawing.opened;
    let last = flow.windows.len().saturating_sub(1);
    let first = match opening.place {
        Place::End => last.saturating_sub(WINDOWS - 1),
        Place::Window(number) => number.min(last),
    };
    let end = flow.windows.len().min(first + WINDOWS);
    let mut windows = Vec::new();
    for number in first..end {
        windows.push(drawing.window(flow, number)?);
    }
    let heights: Vec<String> =
        flow.windows.iter().map(|window| window.height.to_string()).collect();
    let base = &drawing.base;
    // The list of turns begins near what is shown.
    let near =
        flow.windows.get(first).and_then(|window| window.parts.first()).map_or(0, |part| part.0);
    let listed = near.saturating_sub(10).min(flow.turns.len().saturating_sub(panels::LISTED));
    let at = |number: usize| {
        format!("{}?flow={}&at={number}", base.trim_end_matches('/'), flow.name.text())
    };
    let start = if opening.place == Place::End { "end" } else { "window" };
    let body = html! {
        div.session {
            (headline(drawing, flow))
            (find_field())
            div.columns {
                aside aria-label="About this session" {
                    @for (name, title) in panels::PANELS {
                        @let address = format!("{base}panel/{name}?flow={}&from={listed}", flow.name.text());
                        @let early = name == "check" && opened.session.size <= SOON_CHECKED;
                        details.panel data-src=(address) data-name=(name) data-early[early] {
                            summary { (title) (panel_count(drawing, flow, name)) }
                            p.lazy { a href=(address) { "Open" } }
                        }
                    }
                }
                main id="main" tabindex="-1" data-flow=(flow.name.text()) data-base=(base) data-first=(first)
                    data-start=(start) data-target=[&opening.target] data-heights=(heights.join(",")) data-stamp=(stamp) {
                    @if first > 0 { p.nav { a href=(at(first.saturating_sub(WINDOWS))) { "Earlier" } } }
                    div id="windows" { @for window in &windows { (window) } }
                    @if end < flow.windows.len() { p.nav { a href=(at(end)) { "Later" } } }
                    @if flow.turns.is_empty() { p { "There is no conversation in this file." } }
                }
            }
        }
    };
    Ok(page::page(&drawing.title(), root, &body))
}

/// What stands above a conversation. The script asks for it again when the session has grown, also
/// for the numbers beside the titles of panels.
pub(crate) fn headline(drawing: &Drawing<'_>, flow: &Flow) -> Markup {
    let resume = format!("{} resume {}", drawing.again, drawing.session);
    let number = |name| panel_number(drawing, flow, name);
    html! {
        div.headline data-turns=[number("turns")] data-branches=[number("branches")] data-agents=[number("agents")] {
            h1 { (T(&drawing.title())) }
            (panels::facts(drawing))
            p.resume { code { (line(&resume, 400)) }
                button.quiet.scripted type="button" data-copy-text=(T(&resume)) { "Copy" } }
            @if let Some((now, _)) = parted(drawing.base.trim_end_matches('/')) {
                p.parting { "This is what the session was before a change. " a href=(now) { "To what it is now" } }
            }
            @if flow.name != FlowName::Live {
                p.parting {
                    @match flow.name { FlowName::Agent(_) => "This is a sub-agent.", _ =>
                        "This branch is a dead end." }
                    " " a href=(drawing.base.trim_end_matches('/')) { "To the live conversation" }
                }
            }
            (strip(drawing, flow))
        }
    }
}

/// Where words are typed that are looked for.
pub(crate) fn find_field() -> Markup {
    html! {
        div.find.scripted role="search" {
            label.hidden for="find" { "Find in this session" }
            input id="find" type="search" autocomplete="off"
                placeholder="Find, also in what is folded ( / )";
            span id="hit" role="status" {}
            button type="button" data-do="hit" data-by="-1" title="The hit before (Shift+Enter)" { "↑" }
            button type="button" data-do="hit" data-by="1" title="The next hit (Enter)" { "↓" }
            div id="found" {}
        }
    }
}

/// How many things a panel lists, beside its title.
pub(crate) fn panel_count(drawing: &Drawing<'_>, flow: &Flow, name: &str) -> Markup {
    html! { @if let Some(number) = panel_number(drawing, flow, name) { " " span.number { (number) } } }
}

fn panel_number(drawing: &Drawing<'_>, flow: &Flow, name: &str) -> Option<usize> {
    match name {
        "turns" => Some(flow.turns.len()),
        "branches" => Some(drawing.opened.dead.len()),
        "agents" => Some(drawing.opened.family.agents.len()),
        _ => None,
    }
}
