//! The page of a session, on the server and as a file.
//!
//! Both are made of the same windows. Invariants: a page of the server has a few windows, and the
//! script asks for others; a file has all of them, in folded pages if they are many, and can be
//! read without the script.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use maud::{Markup, html};
use transcript::format::secret::Redactor;

use crate::draw::Drawing;
use crate::escape::{T, line, one_line};
use crate::opened::{Flow, FlowName};
use crate::page;
use crate::panels;
use crate::timeline::strip;
use crate::words::{count, size_of};

/// How many windows a page has at first.
const WINDOWS: usize = 3;
/// How many windows a page of a file has.
const IN_PAGE: usize = 60;

/// Where a page begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At the last turn.
    End,
    /// At a window.
    Window(usize),
}

/// The page of a session on the server.
pub(crate) fn served(
    drawing: &Drawing<'_>,
    flow: &Flow,
    place: Place,
    root: &str,
    again: &str,
) -> transcript::Result<String> {
    let opened = drawing.opened;
    let last = flow.windows.len().saturating_sub(1);
    let first = match place {
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
    let title = one_line(&drawing.masked(opened.title()), 120);
    let base = &drawing.base;
    let at = |number: usize| {
        format!("{}?flow={}&at={number}", base.trim_end_matches('/'), flow.name.text())
    };
    let start = if place == Place::End { "end" } else { "window" };
    let body = html! {
        div.session {
            div.headline {
                h1 { (T(&title)) }
                (panels::facts(drawing))
                p.resume { code { (T(again)) " resume " (line(&opened.session.id, 60)) }
                    button.quiet.scripted type="button" data-copy-text=(format!("{again} resume {}",
                        opened.session.id)) { "Copy" } }
                @if flow.name != FlowName::Live {
                    p.parting {
                        @match flow.name { FlowName::Agent(_) => "This is a sub-agent.", _ =>
                            "This branch is a dead end." }
                        " " a href=(base.trim_end_matches('/')) { "To the live conversation" }
                    }
                }
                (strip(drawing, flow))
            }
            (find_field())
            div.columns {
                aside aria-label="About this session" {
                    @for (name, title) in panels::PANELS {
                        @let address = format!("{base}panel/{name}?flow={}", flow.name.text());
                        details.panel data-src=(address) data-name=(name) {
                            summary { (title) (panel_count(drawing, name)) }
                            p.lazy { a href=(address) { "Open" } }
                        }
                    }
                }
                main id="main" tabindex="-1" data-flow=(flow.name.text()) data-base=(base) data-first=(first)
                    data-start=(start) data-heights=(heights.join(",")) data-again=(T(again))
                    data-session=(T(&opened.session.id)) {
                    @if first > 0 { p.nav { a href=(at(first.saturating_sub(WINDOWS))) { "Earlier" } } }
                    div id="windows" { @for window in &windows { (window) } }
                    @if end < flow.windows.len() { p.nav { a href=(at(end)) { "Later" } } }
                    @if flow.turns.is_empty() { p { "There is no conversation in this file." } }
                }
            }
        }
    };
    Ok(page::page(&title, root, &body))
}

/// Where words are typed that are looked for.
fn find_field() -> Markup {
    html! {
        div.find.scripted role="search" {
            label.hidden for="find" { "Find in this session" }
            input id="find" type="search" autocomplete="off"
                placeholder="Find in this session, also in what is folded ( / )";
            div id="found" {}
        }
    }
}

fn panel_count(drawing: &Drawing<'_>, name: &str) -> Markup {
    let opened = drawing.opened;
    let number = match name {
        "turns" => opened.live.turns.len(),
        "branches" => opened.dead.len(),
        "agents" => opened.family.agents.len(),
        _ => return html! {},
    };
    html! { " " span.number { (number) } }
}

/// What a file begins with.
#[derive(Debug)]
pub(crate) struct FileHead<'a> {
    /// Which turns are in it, from 0; none: all.
    pub(crate) turns: Option<&'a [bool]>,
    /// Whether the session itself is in it too.
    pub(crate) has_session: bool,
    /// Whether secrets are hidden.
    pub(crate) is_redacted: bool,
    pub(crate) redactor: &'a Arc<Redactor>,
}

/// Writes the page of a session as a file. Its end is left to the caller, because the session
/// itself may follow.
pub(crate) fn filed(
    drawing: &Drawing<'_>,
    flow: &Flow,
    what: &FileHead<'_>,
    out: &mut dyn Write,
) -> Result<(), FileError> {
    let opened = drawing.opened;
    let title = one_line(&drawing.masked(opened.title()), 120);
    let no_ids = |_: &Path| String::new();
    // The counts of what is hidden come at the end, when they are known.
    let head = html! {
        (page::head(&title, Some(&page::OF_FILE)))
        body data-form="file" {
            a.skip href="#main" { "Skip to the conversation" }
        }
    };
    // The body stays open.
    let head = head.into_string();
    out.write_all(head.trim_end_matches("</body>").as_bytes())?;
    let top = html! {
        header.top { nav aria-label="Pages" { span.brand { "quipu" } } (page::buttons()) }
    };
    out.write_all(top.into_string().as_bytes())?;
    out.write_all(b"<div class=\"session\">")?;
    let top = html! {
        div.headline {
            h1 { (T(&title)) }
            (panels::facts(drawing))
            @if what.has_session {
                p { "This file also carries the session itself: " code { "quipu unpack THIS-FILE" }
                    " puts it where Claude Code resumes it." }
            }
            @if what.turns.is_none() { (strip(drawing, flow)) }
        }
        (find_field())
    };
    out.write_all(top.into_string().as_bytes())?;
    out.write_all(b"<div class=\"columns\">")?;
    let panels = html! {
        aside aria-label="About this session" {
            @for (name, title) in panels::PANELS {
                details.panel data-name=(name) {
                    summary { (title) (panel_count(drawing, name)) }
                    @match name {
                        "turns" => (panels::turns(drawing, flow, 0)),
                        "branches" => (panels::branches(drawing, &no_ids)),
                        "agents" => (panels::agents(drawing)?),
                        "context" => (panels::context(drawing)),
                        _ => (panels::check(drawing, what.redactor)),
                    }
                }
            }
        }
    };
    out.write_all(panels.into_string().as_bytes())?;
    out.write_all(b"<main id=\"main\" tabindex=\"-1\"><div id=\"windows\">")?;
    let is_in = |turn: usize| what.turns.is_none_or(|turns| turns.get(turn) == Some(&true));
    let wanted: Vec<usize> = (0..flow.windows.len())
        .filter(|at| flow.windows[*at].parts.iter().any(|(turn, _)| is_in(*turn)))
        .collect();
    let pages: Vec<&[usize]> = wanted.chunks(IN_PAGE).collect();
    for (number, windows) in pages.iter().enumerate() {
        if pages.len() > 1 {
            let turn = |at: usize, first: bool| {
                let parts = &flow.windows[at].parts;
                let part = if first { parts.first() } else { parts.last() };
                part.map_or(0, |(turn, _)| turn + 1)
            };
            let (from, to) = (turn(windows[0], true), turn(windows[windows.len() - 1], false));
            let words = drawing.masked(&opened.headline(flow, from - 1));
            let open = if number == 0 { " open" } else { "" };
            write!(out, "<details class=\"page\"{open}><summary>")?;
            let summary = html! {
                span.who { "Turns " (from) " to " (to) } " " span.about { (line(&words, 100)) }
            };
            out.write_all(summary.into_string().as_bytes())?;
            out.write_all(b"</summary>")?;
        }
        for at in *windows {
            let drawn = drawing.window_of(flow, *at, &is_in)?;
            out.write_all(drawn.into_string().as_bytes())?;
        }
        if pages.len() > 1 {
            out.write_all(b"</details>")?;
        }
    }
    out.write_all(b"</div>")?;
    let hidden: u64 = drawing.mask.borrow().hidden().values().sum();
    let hidden = usize::try_from(hidden).unwrap_or(usize::MAX);
    let foot = html! {
        p.made {
            "Made by quipu from a session of " (size_of(opened.session.size)) ". "
            @if what.is_redacted { (count(hidden, "secret")) " redacted." } @else { "Nothing is redacted." }
        }
    };
    out.write_all(foot.into_string().as_bytes())?;
    out.write_all(b"</main></div></div>")?;
    out.write_all(page::dialogs().into_string().as_bytes())?;
    out.write_all(page::script().into_string().as_bytes())?;
    Ok(())
}

/// Why a file could not be made.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The session cannot be read.
    #[error(transparent)]
    Read(#[from] transcript::Error),
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] io::Error),
}
