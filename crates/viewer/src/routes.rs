//! What each address of the server gives.
//!
//! Invariants: everything is read-only; what an address names is looked up in tables, and never
//! becomes a path; a request of the script gets a part of a page, any other one a whole page.

use std::sync::Arc;

use maud::{Markup, html};
use percent_encoding::percent_decode_str;
use transcript::conversation::agents::{Owner, SubAgent};
use transcript::conversation::markdown::Writer;
use transcript::conversation::table::{BlockId, RowId};
use transcript::conversation::view::Show;
use transcript::format::secret::Mask;

use crate::commits::commits;
use crate::compare::{self, Side};
use crate::draw::{Drawing, Extent, Form, Only};
use crate::earlier::{Descent, parted};
use crate::escape::{T, indented, start};
use crate::find;
use crate::home::{self, Wanted};
use crate::library::Library;
use crate::opened::{ErrorIn, Flow, FlowName, Opened};
use crate::page;
use crate::panels::{self, Known, TurnRange};
use crate::receipt;
use crate::session_page::{self, Opening, Place};
use crate::timeline;
use crate::usage_page;

/// An answer of the server.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) kind: &'static str,
    pub(crate) body: String,
}

/// What is asked for: the path without the key, the query, and whether the script asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address<'a> {
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) is_part: bool,
}

impl Address<'_> {
    fn value(&self, name: &str) -> String {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        let found = pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value);
        let plain = found.unwrap_or_default().replace('+', " ");
        let decoded = percent_decode_str(&plain).decode_utf8_lossy();
        decoded.chars().take(1_000).collect()
    }

    fn flow(&self) -> FlowName {
        FlowName::parse(&self.value("flow")).unwrap_or(FlowName::Live)
    }
}

/// The pages of a server.
#[derive(Debug)]
pub(crate) struct Pages {
    pub(crate) library: Arc<Library>,
    /// Where they are, with a slash at the end.
    pub(crate) root: String,
    /// The command that uses the same homes.
    pub(crate) again: String,
}

fn html_reply(status: u16, body: String) -> Reply {
    Reply { status, kind: "text/html; charset=utf-8", body }
}

fn text_reply(body: String) -> Reply {
    Reply { status: 200, kind: "text/plain; charset=utf-8", body }
}

/// How many windows of a turn are beside another turn.
const WINDOWS_OF_A_TURN: usize = 8;

type Answer = Option<transcript::Result<Reply>>;

impl Pages {
    pub(crate) fn answer(&self, address: Address<'_>) -> Reply {
        match self.find(address) {
            Some(Ok(reply)) => reply,
            Some(Err(error)) => self.note(404, &self.library.masked(&error.to_string())),
            None => self.note(404, "There is no such page, or no such session any more."),
        }
    }

    pub(crate) fn note(&self, status: u16, words: &str) -> Reply {
        let body = html! { main id="main" tabindex="-1" class="home" { h1 { "Not found" } p { (T(words)) } } };
        html_reply(status, page::page("Not found", &self.root, &body))
    }

    /// A part for the script, or the same as a page.
    fn part(&self, address: Address<'_>, title: &str, part: &Markup) -> Reply {
        if address.is_part {
            return html_reply(200, part.clone().into_string());
        }
        let body = html! { main id="main" tabindex="-1" class="home" { h1 { (title) } (part) } };
        html_reply(200, page::page(title, &self.root, &body))
    }

    fn find(&self, address: Address<'_>) -> Answer {
        let parts: Vec<&str> = address.path.split('/').collect();
        let library = &self.library;
        let wanted = || Wanted {
            words: address.value("q"),
            project: address.value("project"),
            sort: address.value("sort"),
            only: address.value("only"),
            days: address.value("days").parse().ok(),
            from: address.value("from").parse().unwrap_or(0),
        };
        if matches!(parts[..], ["" | "rows" | "usage"]) {
            library.want_catalog();
        }
        Some(Ok(match parts[..] {
            [""] => html_reply(200, home::home(library, &self.root, &wanted())),
            ["rows"] => html_reply(200, home::rows(library, &self.root, &wanted()).into_string()),
            ["plot"] => html_reply(200, home::plot(library, &self.root).into_string()),
            ["usage"] => {
                html_reply(200, usage_page::usage(library, &self.root, &address.value("by")))
            }
            ["health", key] => text_reply(library.health(key).unwrap_or("").to_owned()),
            ["compare"] => return self.compare_named(address),
            ["s", key] => return self.session(address, key, None),
            ["s", key, "compare"] => return self.compare(address, key, &address.value("b")),
            ["s", key, ref rest @ ..] => return self.session(address, key, Some(rest)),
            _ => return None,
        }))
    }

    fn drawing<'a>(
        &'a self,
        address: Address<'_>,
        opened: &'a Opened,
        key: &str,
    ) -> transcript::Result<Drawing<'a>> {
        let library = &self.library;
        let mask = library.mask_of(opened)?;
        let mut drawing = Drawing::new(opened, mask, Form::Page, &library.prices);
        drawing.base = format!("{}s/{key}/", self.root);
        drawing.again.clone_from(&self.again);
        drawing.session = drawing.masked(&library.name_of(&opened.session));
        drawing.only = Only::parse(&address.value("only"));
        if address.value("all") == "1" {
            drawing.extent = Extent::Whole;
        }
        Ok(drawing)
    }

    fn session(&self, address: Address<'_>, key: &str, rest: Option<&[&str]>) -> Answer {
        let (stamp, opened) = match self.library.open(key)? {
            Ok(found) => found,
            Err(error) => return Some(Err(error)),
        };
        let drawing = match self.drawing(address, &opened, key) {
            Ok(drawing) => drawing,
            Err(error) => return Some(Err(error)),
        };
        let flow_of = |name: &str| opened.flow(FlowName::parse(name)?);
        let number = |text: &str| text.parse::<usize>().ok();
        let made = match rest {
            None => self.whole(address, &drawing, &stamp),
            Some(["state"]) => {
                let flow = opened.flow(address.flow())?;
                let heights: Vec<String> =
                    flow.windows.iter().map(|one| one.height.to_string()).collect();
                let heights =
                    if address.value("have") == stamp { String::new() } else { heights.join(",") };
                Ok(text_reply(format!(
                    "{stamp} {} {} {heights}",
                    flow.windows.len(),
                    flow.turns.len()
                )))
            }
            Some(["head"]) => {
                let flow = opened.flow(address.flow())?;
                Ok(self.part(address, "Session", &session_page::headline(&drawing, &flow)))
            }
            Some(["where"]) => {
                let flow = opened.flow(address.flow())?;
                let error = number(&address.value("error"));
                Ok(text_reply(if let Some(window) = error {
                    next_error(&drawing, &flow, window)
                } else {
                    let (flow, window) = found(&opened, &flow, &address)?;
                    format!("{} {window}", flow.name.text())
                }))
            }
            Some(["window", flow, at]) => {
                let flow = flow_of(flow)?;
                let at = number(at)?;
                drawing.window(&flow, at).map(|part| self.part(address, "Window", &part))
            }
            Some(["turn", flow, at]) => {
                let flow = flow_of(flow)?;
                let at = number(at).filter(|at| *at < flow.turns.len())?;
                self.turn(address, &drawing, &flow, at)
            }
            Some(["receipt", at]) => {
                Ok(self.part(address, "Compaction", &receipt::receipt(&drawing, number(at)?)))
            }
            Some(["part", flow, block]) => {
                let flow = flow_of(flow)?;
                let block = BlockId(block.parse().ok()?);
                let turn = opened.only(&flow, block)?;
                drawing.inside(&flow, &turn).map(|part| self.part(address, "Call", &part))
            }
            Some(["raw", flow, line]) => {
                let flow = flow_of(flow)?;
                let line = line.parse().ok()?;
                let part = raw_part(&drawing, &flow, line)?;
                Ok(self.part(address, &format!("Line {line}"), &part))
            }
            Some(["text", flow, line]) => {
                Ok(text_reply(texts(&drawing, &*flow_of(flow)?, line.parse().ok()?)?))
            }
            Some(["markdown", flow, at]) => {
                let flow = flow_of(flow)?;
                let at = number(at).filter(|at| (1..=flow.turns.len()).contains(at))?;
                markdown(self, &opened, &flow, at).map(text_reply)
            }
            Some(["find"]) => {
                let flow = opened.flow(address.flow())?;
                let words = address.value("q");
                let at = |name: &str| number(&address.value(name)).unwrap_or(0);
                let from = find::Place { part: at("part"), step: at("step") };
                find::find(&drawing, &flow, &words, from)
                    .map(|part| self.part(address, "Found", &part))
            }
            Some(["panel", "timeline"]) => {
                let flow = opened.flow(address.flow())?;
                Ok(self.part(address, "Timeline", &timeline::table(&drawing, &flow)))
            }
            Some(["panel", name]) => {
                let flow = opened.flow(address.flow())?;
                let title = panels::PANELS.iter().find(|panel| panel.0 == *name)?.1;
                let part = match *name {
                    "turns" => Ok(panels::turns(&drawing, &flow, &turn_range(&address))),
                    "commits" => commits(&drawing, &flow),
                    "branches" => Ok(panels::branches(&drawing, &self.known(key, &opened))),
                    "agents" => panels::agents(&drawing),
                    "context" => Ok(panels::context(&drawing)),
                    _ => Ok(panels::check(&drawing, &self.library.redactor)),
                };
                part.map(|part| self.part(address, title, &part))
            }
            Some(_) => return None,
        };
        Some(made)
    }

    /// What is known of a session beside its file.
    fn known(&self, key: &str, opened: &Opened) -> Known {
        let library = &self.library;
        if parted(key).is_some() {
            return Known::default();
        }
        let id = opened.session.id.as_str();
        let with_key = |one: Descent| {
            let other = if one.made == id { &one.origin } else { &one.made };
            let key = library.key_of_id(other);
            (one, key)
        };
        Known {
            before: library.changes.before(&opened.session.path),
            descents: library.changes.descents(id).into_iter().map(with_key).collect(),
        }
    }

    /// The page of a session.
    fn whole(
        &self,
        address: Address<'_>,
        drawing: &Drawing<'_>,
        stamp: &str,
    ) -> transcript::Result<Reply> {
        let opened = drawing.opened;
        let agent = address.value("agent");
        let is_agent = |one: &SubAgent| !agent.is_empty() && one.id == *agent;
        let agent = opened.family.agents.iter().position(is_agent).map(FlowName::Agent);
        let flow = opened.flow(agent.unwrap_or(address.flow()));
        let Some(flow) = flow else { return Ok(self.note(404, "There is no such branch.")) };
        let (flow, place) = match found(opened, &flow, &address) {
            Some((flow, window)) => (flow, Place::Window(window)),
            None if flow.name == FlowName::Live => (flow, Place::End),
            None => {
                let window = flow.window_of_turn(flow.shared);
                (flow, Place::Window(window))
            }
        };
        let line: Option<u64> = address.value("line").parse().ok();
        let target = line.map(|line| Drawing::anchor(flow.name, "L", line));
        let opening = Opening { place, target };
        session_page::served(drawing, &flow, &opening, stamp, &self.root)
            .map(|body| html_reply(200, body))
    }

    fn turn(
        &self,
        address: Address<'_>,
        drawing: &Drawing<'_>,
        flow: &Flow,
        at: usize,
    ) -> transcript::Result<Reply> {
        let first = flow.window_of_turn(at);
        let has = |number: &usize| flow.windows[*number].parts.iter().any(|part| part.0 == at);
        let windows: Vec<usize> = (first..flow.windows.len()).take_while(has).collect();
        let mut parts = Vec::new();
        for number in windows.iter().take(WINDOWS_OF_A_TURN) {
            parts.push(drawing.window_of(flow, *number, &|turn| turn == at)?);
        }
        let page = drawing.base.trim_end_matches('/');
        let whole = format!("{page}?flow={}&turn={}", flow.name.text(), at + 1);
        let part = html! {
            @for part in &parts { (part) }
            @if windows.len() > WINDOWS_OF_A_TURN {
                p { a.more href=(whole) { "All of this turn, in its conversation" } }
            }
        };
        Ok(self.part(address, &format!("Turn {}", at + 1), &part))
    }

    fn compare_named(&self, address: Address<'_>) -> Answer {
        let (a, b) = (address.value("a"), address.value("b"));
        if a.is_empty() && b.is_empty() {
            return Some(Ok(html_reply(200, compare::form(&self.root, None))));
        }
        let Some(key) = self.library.find(&a) else {
            let note = format!("No session has an id that begins with {a}.");
            return Some(Ok(html_reply(404, compare::form(&self.root, Some(&note)))));
        };
        self.compare(address, &key, &b)
    }

    fn compare(&self, address: Address<'_>, key: &str, other: &str) -> Answer {
        let found = if other.is_empty() { Some(key.to_owned()) } else { self.library.find(other) };
        let Some(other) = found else {
            let note = format!("No session has an id that begins with {other}.");
            return Some(Ok(html_reply(404, compare::form(&self.root, Some(&note)))));
        };
        let open = |key: &str| self.library.open(key);
        let (first, second) = match (open(key)?, open(&other)?) {
            (Ok((_, first)), Ok((_, second))) => (first, second),
            (Err(error), _) | (_, Err(error)) => return Some(Err(error)),
        };
        let name = |which: &str| FlowName::parse(&address.value(which)).unwrap_or(FlowName::Live);
        let (flow_a, flow_b) = (first.flow(name("fa"))?, second.flow(name("fb"))?);
        let drawn = || {
            let a = &self.drawing(address, &first, key)?;
            let b = &self.drawing(address, &second, &other)?;
            let is_change = parted(key).or(parted(&other)).is_some();
            let state = |key: &str| is_change.then(|| self.library.state_of(key));
            let a = Side { drawing: a, flow: &flow_a, state: state(key) };
            let b = Side { drawing: b, flow: &flow_b, state: state(&other) };
            compare::compare(&self.root, &a, &b)
        };
        Some(drawn().map(|body| html_reply(200, body)))
    }
}

/// Which turns a list of them has.
fn turn_range(address: &Address<'_>) -> TurnRange {
    let number = |name: &str| address.value(name).parse::<usize>().ok();
    let from = number("from").unwrap_or(0);
    let most = from.saturating_add(panels::LISTED);
    let way = address.value("way");
    TurnRange {
        turns: from..number("to").map_or(most, |to| to.min(most)),
        leads_back: way != "on",
        leads_on: way != "back",
    }
}

/// Where a turn or a line is: a flow and the number of a window. A line may be in another flow than
/// the one that is shown.
fn found(opened: &Opened, flow: &Arc<Flow>, address: &Address<'_>) -> Option<(Arc<Flow>, usize)> {
    if let Some(window) = place(opened, flow, address) {
        return Some((Arc::clone(flow), window));
    }
    let line = address.value("line").parse().ok().filter(|_| flow.owner == Owner::Main)?;
    let other = opened.flow(opened.flow_with(line)?)?;
    let window = other.window_of_line(&opened.family, line)?;
    Some((other, window))
}

/// The name of the next error from a window on; nothing if there is none.
fn next_error(drawing: &Drawing<'_>, flow: &Flow, window: usize) -> String {
    let is_shown = |error| match drawing.only {
        Only::Everything => true,
        Only::Talk => error == ErrorIn::Answer,
        Only::Asked => false,
    };
    let line = flow.error_from(&drawing.opened.family, window, is_shown);
    line.map_or_else(String::new, |line| Drawing::anchor(flow.name, "L", line))
}

/// The window that an address names: by its number, a turn or a line.
fn place(opened: &Opened, flow: &Flow, address: &Address<'_>) -> Option<usize> {
    if let Ok(at) = address.value("at").parse() {
        return Some(at);
    }
    if let Ok(turn) = address.value("turn").parse::<usize>() {
        let turn = turn.checked_sub(1).filter(|turn| *turn < flow.turns.len())?;
        return Some(flow.window_of_turn(turn));
    }
    flow.window_of_line(&opened.family, address.value("line").parse().ok()?)
}

fn rows_on(drawing: &Drawing<'_>, flow: &Flow, line: u64) -> Vec<RowId> {
    let table = &drawing.opened.family.of(flow.owner).table;
    let first = table.rows().partition_point(|row| row.line < line);
    let rows = table.numbered().skip(first).take_while(|(_, row)| row.line == line);
    rows.map(|(id, _)| id).collect()
}

/// The records on a line, as they are in the file but for white space.
fn raw(drawing: &Drawing<'_>, flow: &Flow, line: u64) -> Option<String> {
    let conversation = drawing.opened.family.of(flow.owner);
    let mut all = Vec::new();
    for row in rows_on(drawing, flow, line) {
        let text =
            conversation.look(row, |entry| String::from_utf8_lossy(entry.raw()).into_owned());
        all.push(indented(&drawing.masked_json(&text.ok()?)));
    }
    (!all.is_empty()).then(|| all.join("\n"))
}

/// The records on a line, with the way to the lines beside it: every record of a file can be seen.
fn raw_part(drawing: &Drawing<'_>, flow: &Flow, line: u64) -> Option<Markup> {
    let table = &drawing.opened.family.of(flow.owner).table;
    if line == 0 || line > table.lines {
        return None;
    }
    let text = raw(drawing, flow, line);
    let (head, left) = start(text.as_deref().unwrap_or_default(), 400_000);
    let lead = |to: u64| {
        let source = format!("{}raw/{}/{to}", drawing.base, flow.name.text());
        let title = format!("The record on line {to}");
        html! { button.quiet type="button" data-raw=(source) title=(title) { "Line " (to) } }
    };
    Some(html! {
        p.beside.scripted {
            @if line > 1 { (lead(line - 1)) } @if line < table.lines { (lead(line + 1)) }
        }
        @if text.is_some() { pre.code data-lang="json" tabindex="0" { (T(head)) } }
        @else { p { "There is no record on this line: it is empty, or damaged." } }
        @if left > 0 { p.addition { (left) " bytes more" } }
    })
}

/// The texts of a record, as they are.
fn texts(drawing: &Drawing<'_>, flow: &Flow, line: u64) -> Option<String> {
    let conversation = drawing.opened.family.of(flow.owner);
    let mut all = Vec::new();
    for row in rows_on(drawing, flow, line) {
        for (_, piece) in conversation.pieces_of(row).ok()? {
            all.extend(piece.text().map(str::to_owned));
        }
        let table = &conversation.table;
        for block in table.blocks_of(row).filter(|block| table.block(*block).kind.is_result()) {
            let (pieces, _) = conversation.result(block).ok()?;
            all.extend(pieces.iter().filter_map(|piece| piece.text().map(str::to_owned)));
        }
    }
    (!all.is_empty()).then(|| drawing.masked(&all.join("\n")))
}

/// A turn as Markdown, without the session's secrets, as `quipu export md` writes it.
fn markdown(
    pages: &Pages,
    opened: &Opened,
    flow: &Flow,
    number: usize,
) -> transcript::Result<String> {
    let mask = Mask::of(pages.library.cover_of(opened)?);
    let mut out = Vec::new();
    let owner: Owner = flow.owner;
    let mut writer = Writer::new(&opened.family, Show::default(), mask, &mut out);
    writer.turn(owner, &flow.turns[number - 1], number)?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}
