//! What is beside a conversation: its turns, branches, sub-agents, context and findings.
//!
//! Invariant: every number is one that another command prints too: `context`, `check`, `tree`.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use maud::{Markup, html};
use transcript::client::context::GroupBy;
use transcript::conversation::agents::Owner;
use transcript::conversation::graph::{ChainId, Start};
use transcript::conversation::lineage::relatives;
use transcript::conversation::place::sessions_in;
use transcript::conversation::preview::Trouble;
use transcript::conversation::table::RowId;
use transcript::conversation::turn::Step;
use transcript::format::secret::Redactor;

use crate::draw::Drawing;
use crate::earlier::{Descent, Earlier, key_before};
use crate::escape::{T, line};
use crate::library::key_of;
use crate::opened::{DEAD_ENDS, DeadEnd, Flow, FlowName, Opened, PRICED};
use crate::plot::{Point, area, bars};
use crate::words::{and_more, cost, count, grouped, local, path_end, short, time, tokens};

/// The names of the panels, with their titles, in order. The turns are the last: they are listed
/// when the page is there already, and nothing below them moves.
pub(crate) const PANELS: [(&str, &str); 6] = [
    ("branches", "Branches and forks"),
    ("agents", "Sub-agents"),
    ("commits", "Commits"),
    ("context", "Context"),
    ("check", "Will it resume?"),
    ("turns", "Turns"),
];

/// How many turns are listed at once on a page, and in a file.
pub(crate) const LISTED: usize = 60;
const LISTED_IN_FILE: usize = 2_000;
/// How many sessions, agents and parts of the context are listed.
const BESIDE: usize = 50;
const AGENTS: usize = 500;
const GROUPS: usize = 12;
/// How deep dead ends are listed below each other; what is deeper is beside the deepest.
const DEEPEST: usize = 12;

/// Which turns are listed, and whether buttons lead to those before and after them.
#[derive(Clone, Debug)]
pub(crate) struct TurnRange {
    pub(crate) turns: Range<usize>,
    pub(crate) leads_back: bool,
    pub(crate) leads_on: bool,
}

impl TurnRange {
    /// All turns, as far as a file lists them.
    pub(crate) fn in_file(flow: &Flow) -> TurnRange {
        let turns = 0..flow.turns.len().min(LISTED_IN_FILE);
        TurnRange { turns, leads_back: false, leads_on: false }
    }
}

/// Some turns of a flow.
pub(crate) fn turns(drawing: &Drawing<'_>, flow: &Flow, range: &TurnRange) -> Markup {
    let all = flow.turns.len();
    let end = range.turns.end.min(all);
    let from = range.turns.start.min(end);
    let table = &drawing.opened.family.of(flow.owner).table;
    let address = |from: usize, to: usize, way: &str| {
        let flow = flow.name.text();
        format!("{}panel/turns?flow={flow}&from={from}&to={to}&way={way}", drawing.base)
    };
    let is_shown = |at: &usize| flow.name != FlowName::Live || drawing.has_turn(*at);
    html! {
        @if range.leads_back && from > 0 {
            button.more type="button" data-more=(address(from.saturating_sub(LISTED), from, "back")) {
                "Earlier: " (from)
            }
        }
        // Numbers with many digits need more room.
        ol class={ "turns d" (end.to_string().len()) } start=(from + 1) {
            @for at in (from..end).filter(is_shown) {
                li value=(at + 1) {
                    a href={ "#" (Drawing::anchor(flow.name, "turn-", at as u64 + 1)) } {
                        (line(&drawing.masked(&drawing.opened.headline(flow, at)), 90))
                    }
                    @if let Some(cost) = cost(&flow.turns[at].spending(table, drawing.prices)) { " " span.cost {
                        (cost) } }
                }
            }
        }
        @if drawing.is_file() { (and_more(all, end)) }
        @if range.leads_on && end < all {
            button.more type="button" data-more=(address(end, end + LISTED, "on")) { "Later: " (all - end) }
        }
    }
}

/// What is known of a session beside its file. A file knows nothing of it.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) before: Vec<Earlier>,
    /// With the name in addresses of the other session, if it is there.
    pub(crate) descents: Vec<(Descent, Option<String>)>,
}

/// A session that this one was made from, or that was made from it.
fn descent(drawing: &Drawing<'_>, one: &Descent, key: Option<&str>) -> Markup {
    let page = drawing.base.trim_end_matches('/');
    let pages = page.rsplit_once('/').map_or("", |(pages, _)| pages);
    let is_made = one.made == *drawing.opened.session.id;
    let other = line(if is_made { &one.origin } else { &one.made }, 8);
    html! {
        @if is_made { "made by " } (line(&one.what, 40)) @if is_made { " from " } @else { " made " }
        @match key {
            Some(key) => {
                a href={ (pages) "/" (key) } { code { (other) } }
                " · " (time(one.time, "%Y-%m-%d %H:%M")) " · "
                a href=(format!("{page}/compare?b={key}&fa=m&fb=m")) { "compare" }
            },
            None => { code { (other) } ", which is no longer there" },
        }
    }
}

/// The branches that are not live, what the session was before changes, and sessions that share
/// records with this one.
pub(crate) fn branches(drawing: &Drawing<'_>, known: &Known) -> Markup {
    let opened = drawing.opened;
    let main = &opened.family.main;
    let others = opened.session.path.parent().map(sessions_in).unwrap_or_default();
    let mut kin =
        if drawing.is_file() { Vec::new() } else { relatives(&opened.session, main, &others) };
    kin.sort_by_key(|one| std::cmp::Reverse(one.shared));
    let page = drawing.base.trim_end_matches('/');
    html! {
        @if opened.dead.is_empty() { p { "One branch, no dead ends." } }
        @else {
            p { (count(opened.dead.len(), "dead end")) " beside the live branch of " (count(opened.live.turns.len(),
                "turn")) "." }
            (DeadEnds::of(opened).list(drawing, None))
            (and_more(opened.dead.len(), DEAD_ENDS))
        }
        @if !known.before.is_empty() {
            h3 { "Before changes" }
            ul.branches {
                @for one in known.before.iter().take(BESIDE) {
                    li {
                        "before " (T(&one.what)) " · " (time(one.time, "%Y-%m-%d %H:%M")) " · "
                        a href=(format!("{}/compare?b={}", key_before(page, &one.name), key_of(&opened.session.path))) {
                            "compare"
                        }
                    }
                }
            }
            (and_more(known.before.len(), BESIDE))
        }
        @if !kin.is_empty() || !known.descents.is_empty() {
            h3 { "Related sessions" }
            ul.branches {
                @for (one, key) in known.descents.iter().take(BESIDE) { li { (descent(drawing, one, key.as_deref())) } }
                @for one in kin.iter().take(BESIDE) {
                    @let id = key_of(&one.session.path);
                    li {
                        (one.words()) " " code { (T(&one.session.id.short())) } " · " (grouped(one.shared)) " records"
                        " in both · " a href=(format!("{page}/compare?b={id}&fa=m&fb=m")) { "compare" }
                    }
                }
            }
            (and_more(kin.len(), BESIDE))
            (and_more(known.descents.len(), BESIDE))
        }
    }
}

/// Dead ends as a tree: below each, those that leave it.
struct DeadEnds<'a> {
    below: HashMap<Option<ChainId>, Vec<&'a DeadEnd>>,
}

impl<'a> DeadEnds<'a> {
    fn of(opened: &'a Opened) -> DeadEnds<'a> {
        let graph = &opened.family.main.graph;
        let mut below: HashMap<Option<ChainId>, Vec<&DeadEnd>> = HashMap::new();
        // How deep each is, and what it is below.
        let mut places: HashMap<ChainId, (usize, Option<ChainId>)> = HashMap::new();
        for dead in opened.dead.iter().take(DEAD_ENDS) {
            let left = graph.chain(dead.chain).start.after().map(|row| graph.chain_of(row));
            let place = match left.and_then(|left| Some((left, *places.get(&left)?))) {
                Some((left, (depth, _))) if depth < DEEPEST => (depth + 1, Some(left)),
                Some((_, beside)) => beside,
                None => (0, None),
            };
            places.insert(dead.chain, place);
            below.entry(place.1).or_default().push(dead);
        }
        DeadEnds { below }
    }

    fn list(&self, drawing: &Drawing<'_>, parent: Option<ChainId>) -> Markup {
        let opened = drawing.opened;
        let main = &opened.family.main;
        let line_of = |row| main.table.row(row).line;
        let page = drawing.base.trim_end_matches('/');
        let Some(ends) = self.below.get(&parent) else { return html! {} };
        html! {
            ul.branches {
                @for dead in ends {
                    @let chain = main.graph.chain(dead.chain);
                    @let name = FlowName::Chain(dead.chain.0);
                    li {
                        @let from = line_of(chain.first);
                        // What is not in a file is not named there.
                        @if let Some(to) = way_to(drawing, name) {
                            a href=(to) {
                                (line(&drawing.masked(&opened.headline_of(Owner::Main, dead.turns.first())), 90))
                            }
                            " · "
                        }
                        "from line " (from) " · " (count(dead.turns.len(), "turn")) " · "
                        @match (chain.start, parent) {
                            // Its line is on the page of that dead end.
                            (Start::Branch(row), None) => a href={ "#" (Drawing::anchor(FlowName::Live, "L",
                                line_of(row))) } { "leaves at line " (line_of(row)) },
                            (start, _) => (words_of(start, &line_of)),
                        }
                        @if !drawing.is_file() {
                            " · " a href=(format!("{page}/compare?fa=m&fb={}", name.text())) { "compare" }
                        }
                        (self.list(drawing, Some(dead.chain)))
                    }
                }
            }
        }
    }
}

/// Where a dead end is shown: on a page of its own, or in the file, if it has it.
fn way_to(drawing: &Drawing<'_>, name: FlowName) -> Option<String> {
    if !drawing.is_file() {
        return Some(format!("{}?flow={}", drawing.base.trim_end_matches('/'), name.text()));
    }
    let flow = drawing.opened.flow(name).filter(|_| drawing.chosen.is_none())?;
    Some(format!("#{}", Drawing::anchor(name, "turn-", flow.shared as u64 + 1)))
}

/// How a branch begins.
fn words_of(start: Start, line_of: &dyn Fn(RowId) -> u64) -> String {
    match start {
        Start::Root => "has its own root".to_owned(),
        Start::Lost => "its parent is not in the file".to_owned(),
        Start::Loop => "its parents form a cycle".to_owned(),
        Start::Branch(row) => format!("leaves at line {}", line_of(row)),
        Start::Compaction(row) | Start::CompactionGuess(row) => {
            format!("after a compaction, line {}", line_of(row))
        }
        Start::Sidechain(row) => format!("a sidechain at line {}", line_of(row)),
    }
}

/// All sub-agents.
pub(crate) fn agents(drawing: &Drawing<'_>) -> transcript::Result<Markup> {
    let opened = drawing.opened;
    let page = drawing.base.trim_end_matches('/');
    let mut rows = Vec::new();
    for (at, agent) in opened.family.agents.iter().enumerate() {
        if !drawing.has_agent(at) {
            continue;
        }
        let [kind, task] = opened.family.task(agent)?;
        let Some(flow) = opened.flow(FlowName::Agent(at)) else { continue };
        let start = agent.start.map(|start| {
            let table = &opened.family.of(start.owner).table;
            table.row(table.block(start.call).row).line
        });
        rows.push((
            at,
            kind,
            task,
            flow.turns.len(),
            opened.spending(&flow, drawing.prices),
            start,
            agent,
        ));
    }
    Ok(html! {
        @if rows.is_empty() { p { "None." } }
        ul.branches {
            @for (at, kind, task, turns, sum, start, agent) in rows.iter().take(AGENTS) {
                li {
                    @let name = html! { (line(&drawing.masked(kind.as_deref().unwrap_or(agent.purpose.name())), 40))
                        ": " (line(&drawing.masked(task.as_deref().unwrap_or("")), 90)) };
                    @if drawing.is_file() { (name) } @else { a href=(format!("{page}?flow=a{at}")) { (name) } }
                    " · " (count(*turns, "turn"))
                    @if let Some(cost) = cost(sum) { " · " span.cost { (cost) } }
                    @if let Some(start) = start { " · " a href={ "#" (Drawing::anchor(FlowName::Live, "L", *start)) }
                        { "started at line " (start) } }
                }
            }
        }
        (and_more(rows.len(), AGENTS))
    })
}

/// How the context fills up, and what fills it now.
pub(crate) fn context(drawing: &Drawing<'_>) -> Markup {
    let opened = drawing.opened;
    let filling = match opened.filling() {
        Ok(filling) => filling,
        Err(error) => return html! { p { "What would be sent is not known: " (T(error)) } },
    };
    let table = &opened.family.main.table;
    let mut points = Vec::new();
    for (number, turn) in opened.live.turns.iter().enumerate() {
        let mut totals = turn.steps.iter().filter_map(|step| match step {
            Step::Answer { id, .. } => {
                table.answer(*id).usage.as_ref().map(|usage| usage.usage.total())
            }
            _ => None,
        });
        if let Some(tokens) = totals.rfind(|tokens| *tokens > 0) {
            points.push(Point {
                name: format!("Turn {}", number + 1),
                value: tokens as f64,
                shown: grouped(tokens),
                link: Some(format!("#turn-{}", number + 1)),
                title: None,
            });
        }
    }
    let window = filling.window.map(|window| window as f64);
    let mark = if filling.is_estimate { "~" } else { "" };
    html! {
        p {
            strong { (mark) (grouped(filling.tokens)) " tokens" } " would be sent now"
            @if let Some(window) = filling.window { ", " (filling.tokens.saturating_mul(100) / window.max(1))
                "% of the window of " (line(&drawing.masked(&filling.model), 60)) " (" (short(window)) ")" }
            @if let Some(from) = filling.compacts_from { "; the client compacts from about " (short(from)) " on" }
            "."
        }
        @if points.len() > 1 {
            (area("Tokens at the end of each turn", ["turn", "tokens"], &points, window))
        }
        @for (by, groups) in filling.groups.iter().filter(|(by, _)| drawing.has_tools() || matches!(by, GroupBy::Kind | GroupBy::Turn)) {
            @let (title, head) = match by {
                GroupBy::Kind => ("By kind", "kind"),
                GroupBy::Tool => ("By tool", "tool"),
                GroupBy::File => ("By file", "file"),
                GroupBy::Turn => ("By turn", "turn"),
            };
            @let rows: Vec<Point> = groups.iter().take(GROUPS).map(|group| Point {
                name: match by {
                    GroupBy::Kind if group.key == "system" => "system prompt, tools".to_owned(),
                    GroupBy::Turn => format!("Turn {}", group.key),
                    // The ends of paths tell them apart.
                    GroupBy::File => path_end(drawing.below_cwd(&drawing.masked(&group.key)), 50),
                    _ => crate::escape::one_line(&drawing.masked(&group.key), 60),
                },
                title: (*by == GroupBy::File).then(|| drawing.masked(&group.key)),
                value: group.tokens as f64,
                shown: format!("{}{}", if group.is_estimate { "~" } else { "" }, grouped(group.tokens)),
                link: (*by == GroupBy::Turn).then(|| format!("#turn-{}", group.key)),
            }).collect();
            @if !rows.is_empty() { (bars(title, [head, "tokens"], &rows)) (and_more(groups.len(), GROUPS)) }
        }
    }
}

/// The verdict and the findings of `check`.
pub(crate) fn check(drawing: &Drawing<'_>, redactor: &Arc<Redactor>) -> Markup {
    let report = match drawing.opened.report(redactor) {
        Ok(report) => report,
        Err(error) => return html! { p { "Cannot check it: " (T(error)) } },
    };
    html! {
        p.verdict.(report.verdict.name()) { strong { (report.verdict.words()) } " (as " (report.version) ")" }
        p { (grouped(report.reach.sent as u64)) " of " (grouped(report.reach.recorded as u64))
            " recorded messages are sent"
            @if report.reach.summed_up > 0 { ", " (report.reach.summed_up) " summed up" }
            @if report.reach.left > 0 { ", " (report.reach.left) " on other branches" }
            @if report.reach.lost > 0 { ", " (report.reach.lost) " lost" }
            "." }
        ul.checks {
            @for finding in &report.findings {
                li.(finding.severity.name()) {
                    strong { (finding.code.name()) } " " (finding.severity.name()) ": " (T(&finding.text))
                    @if let (Some(number), None) = (finding.line, &finding.file) {
                        " " a href={ "#" (Drawing::anchor(FlowName::Live, "L", number)) } data-finding=(number) {
                            "line " (number) }
                    }
                    @if finding.more > 0 { " and " (finding.more) " more" }
                    div.advice { (finding.code.advice()) }
                }
            }
        }
    }
}

/// Facts about the session.
pub(crate) fn facts(drawing: &Drawing<'_>) -> Markup {
    let opened = drawing.opened;
    let seen = &opened.seen;
    let table = &opened.family.main.table;
    let all = opened.spending_of_all(drawing.prices);
    let is_torn = seen.troubles.contains(&Trouble::Torn);
    let damaged = table.damaged.saturating_sub(u64::from(is_torn));
    let text = |text: &Option<String>| {
        text.as_ref().filter(|text| !text.is_empty()).map(|text| drawing.masked(text))
    };
    html! {
        p.facts {
            code { (line(&drawing.masked(&opened.session.id), 60)) }
            @if let Some(cwd) = text(&seen.cwd) { span { (line(&cwd, 120)) } }
            @if let Some(branch) = text(&seen.branch) { span { (line(&branch, 60)) } }
            @if let Some(version) = text(&seen.version) { span { "Claude Code " (line(&version, 20)) } }
            @if let Some(started) = seen.started { span { (local(started, "%Y-%m-%d %H:%M")) } }
            span { (count(opened.live.turns.len(), "turn")) }
            span { (count(table.rows().len(), "record")) }
            @if !opened.family.agents.is_empty() { span { (count(opened.family.agents.len(), "sub-agent")) } }
            @if all.usage.total() > 0 { span { (tokens(all.usage)) } }
            @if let Some(cost) = cost(&all) { span.cost title="All branches and sub-agents, by list prices" {
                (cost) @if opened.family.agents.len() > PRICED { ", with " (grouped(PRICED as u64)) " of the sub-agents" } } }
            @if damaged > 0 { span.error { (damaged) " damaged" } }
            // It may be written just now.
            @if is_torn { span { "the last line is not complete" } }
        }
    }
}
