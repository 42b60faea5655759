//! What is beside the talk: events, compactions, images, sub-agents.

use maud::{Markup, html};
use transcript::conversation::table::{Boundary, RowId};
use transcript::conversation::turn::Turn;
use transcript::conversation::usage::Spending;
use transcript::conversation::view::{Call, EventView};

use super::{DEEPEST, Drawing};
use crate::escape::{T, line};
use crate::media;
use crate::opened::{Flow, FlowName};
use crate::receipt;
use crate::words::{and_more, cost, count, short};

/// How many turns are listed that a compaction summed up.
const LOST: usize = 200;

impl Drawing<'_> {
    /// What the sub-agents of a call cost.
    pub(super) fn spent_by(&self, call: &Call) -> Option<String> {
        let mut sum = Spending::default();
        for at in &call.started {
            let flow = self.opened.flow(FlowName::Agent(*at))?;
            sum += self.opened.spending(&flow, self.prices);
        }
        cost(&sum).filter(|_| !call.started.is_empty())
    }

    /// What a call is about; paths below the session's folder without it.
    pub(super) fn about(&self, call: &Call) -> String {
        let about = self.masked(&call.about);
        self.below_cwd(&about).to_owned()
    }

    /// A path below the session's folder without it; any other text as it is.
    pub(crate) fn below_cwd<'t>(&self, text: &'t str) -> &'t str {
        let cwd = self.opened.seen.cwd.as_deref().filter(|cwd| cwd.len() > 1);
        let inside = cwd.and_then(|cwd| text.strip_prefix(cwd)?.strip_prefix('/'));
        inside.filter(|inside| !inside.is_empty()).unwrap_or(text)
    }

    pub(super) fn event(&self, flow: &Flow, event: &EventView) -> Markup {
        let anchor = Drawing::anchor(flow.name, "L", event.line);
        if let Some(boundary) = &event.compaction {
            return self.compaction(flow, event, boundary);
        }
        if !event.matters {
            return html! { span.at id=(anchor) {} };
        }
        let text = self.masked(&event.text);
        html! { p.item.event id=(anchor) { (line(&text, 400)) " " (self.made_at(flow, event.line))
        (self.tools(flow, event.line)) } }
    }

    /// A compaction, and what was lost by it.
    pub(super) fn compaction(&self, flow: &Flow, event: &EventView, boundary: &Boundary) -> Markup {
        let conversation = self.opened.family.of(flow.owner);
        let kept = conversation.graph.kept(boundary).len();
        let is_before = |turn: &Turn| turn.rows[0] < boundary.row;
        let after_last = conversation.table.boundaries.iter().rev();
        let before: Option<RowId> =
            after_last.map(|other| other.row).find(|row| *row < boundary.row);
        let is_lost = |turn: &Turn| is_before(turn) && before.is_none_or(|row| turn.rows[1] > row);
        let lost: Vec<usize> =
            (0..flow.turns.len()).filter(|at| is_lost(&flow.turns[*at])).collect();
        let is_live = flow.name == FlowName::Live;
        let may_show = |at: &&usize| !is_live || self.has_turn(**at);
        let tokens = match boundary.tokens {
            [Some(from), Some(to)] => Some(format!("{} → {} tokens", short(from), short(to))),
            [Some(from), None] => Some(format!("{} tokens before", short(from))),
            _ => None,
        };
        html! {
            details.item.compaction id=(Drawing::anchor(flow.name, "L", event.line)) {
                summary {
                    span.who { "Compaction" }
                    span.facts {
                        span { @if boundary.is_auto { "automatic" } @else { "manual" } }
                        @if let Some(tokens) = &tokens { span { (tokens) } }
                        span { (count(lost.len(), "turn")) " summed up" }
                        @if kept > 0 { span { (count(kept, "record")) " kept word for word" } }
                        (self.made_at(flow, event.line))
                    }
                }
                @if is_live { (receipt::folded(self, boundary.row)) }
                p { "These turns are no longer sent to the model, only the summary that follows:" }
                ol.lost {
                    @for at in lost.iter().take(LOST).filter(may_show) {
                        li value=(at + 1) {
                            a href={ "#" (Drawing::anchor(flow.name, "turn-", *at as u64 + 1)) } {
                                (line(&self.masked(&self.opened.headline(flow, *at)), 100))
                            }
                        }
                    }
                }
                (and_more(lost.len(), LOST))
            }
        }
    }

    /// The images of a record.
    pub(crate) fn media(&self, flow: &Flow, number: u64) -> Markup {
        let images = media::images(self.opened.family.of(flow.owner), number);
        html! {
            @for image in images {
                @match image {
                    media::Image::Shown(address) => img.media src=(address) alt="Image from the session"
                        loading="lazy";,
                    media::Image::Described(words) => p.addition { (T(&self.masked(&words))) },
                }
            }
        }
    }

    /// The turns of a sub-agent, where it was started.
    pub(crate) fn agent(&self, at: usize) -> transcript::Result<Markup> {
        let name = FlowName::Agent(at);
        let Some(flow) = self.opened.flow(name) else { return Ok(html! {}) };
        let agent = &self.opened.family.agents[at];
        let [kind, task] = self.opened.family.task(agent)?;
        let is_guess = agent.start.is_some_and(|start| start.is_guess);
        let sum = self.opened.spending(&flow, self.prices);
        let head = html! {
            summary {
                span.tool { "Sub-agent" } " "
                span.about { (line(&self.masked(&kind.unwrap_or_default()), 40)) " "
                    (line(&self.masked(&task.unwrap_or_default()), 120)) }
                span.facts {
                    @if is_guess { span { "perhaps this one" } }
                    span { (count(flow.turns.len(), "turn")) }
                    span { (short(sum.usage.output)) " tokens out" }
                    @if let Some(cost) = cost(&sum) { span.cost { (cost) } }
                }
            }
        };
        if !self.is_file() {
            let first = format!("{}window/{}/0", self.base, name.text());
            let page = format!("{}?flow={}", self.base.trim_end_matches('/'), name.text());
            return Ok(html! {
                details.agent id={ "agent-" (name.text()) } data-src=(first) data-flow=(name.text())
                    data-windows=(flow.windows.len()) {
                    (head)
                    p.lazy { a href=(page) { "Open as a page" } }
                }
            });
        }
        if self.depth.get() >= DEEPEST {
            return Ok(html! { p.addition { "a sub-agent of a sub-agent, too deep to be shown" } });
        }
        self.depth.set(self.depth.get() + 1);
        let mut windows = Vec::new();
        for number in 0..flow.windows.len() {
            windows.push(self.window(&flow, number)?);
        }
        self.depth.set(self.depth.get() - 1);
        Ok(html! { details.agent { (head) @for window in &windows { (window) } } })
    }
}
