//! What stands above and below a turn.

use maud::{Markup, html};
use transcript::conversation::table::Table;
use transcript::conversation::turn::{Step, Turn};
use transcript::conversation::view;

use super::Drawing;
use crate::escape::{T, line};
use crate::opened::{Flow, FlowName};
use crate::words::{cost, short, span, time, tokens, wrote};

impl Drawing<'_> {
    pub(super) fn turn_head(&self, flow: &Flow, number: usize) -> Markup {
        let turn = &flow.turns[number];
        let table = &self.opened.family.of(flow.owner).table;
        let spent = turn.spending(table, self.prices);
        let anchor = Drawing::anchor(flow.name, "turn-", number as u64 + 1);
        let is_fork = flow.shared > 0 && number == flow.shared;
        html! {
            @if is_fork { p.parting { "From here on, this branch is not the live one." } }
            div.turn id=(anchor) data-turn=(number + 1) {
                h2 { a.self href={ "#" (anchor) } { "Turn " (number + 1) } }
                span.facts {
                    @if let Some([begin, end]) = turn.times {
                        span { (time(begin, "%Y-%m-%d %H:%M")) }
                        @if end.0 - begin.0 >= 1_000 { span { (span(end.0 - begin.0)) } }
                    }
                    @if spent.usage.output > 0 {
                        span title=(tokens(spent.usage)) {
                            (short(spent.usage.read())) " in, " (wrote(spent.usage)) " out"
                        }
                    }
                    @if let Some(calls) = calls_of(flow, table, number).filter(|_| self.has_tools()) {
                        span.calls-made { (line(&self.masked(&calls), 80)) }
                    }
                    @if let Some(cost) = cost(&spent) { span.cost { (cost) } }
                }
                @if !self.is_file() {
                    button.quiet.copy type="button" title="Copy this turn as Markdown"
                        data-copy=(format!("{}markdown/{}/{}", self.base, flow.name.text(), number + 1)) { "Copy" }
                    @if flow.name == FlowName::Live {
                        button.quiet.fork type="button"
                            title={ "The command that forks the session after turn " (number + 1) }
                            data-fork=(T(&format!("{} fork {} --at {}", self.again, self.session, number + 1))) { "Fork" }
                    }
                } @else if self.depth.get() == 0 {
                    // The script copies what the file has of it.
                    button.quiet.copy.scripted type="button" data-copy="" { "Copy" }
                }
            }
        }
    }
}

/// How often a turn called which tools: the three that it called most.
fn calls_of(flow: &Flow, table: &Table, number: usize) -> Option<String> {
    let mut made: Vec<(&str, usize)> = Vec::new();
    for step in &flow.turns[number].steps {
        let Step::Answer { blocks, .. } = step else { continue };
        for part in blocks.iter().map(|block| table.block(*block)).filter(|one| one.kind.is_call())
        {
            let name = table.text(part.name).unwrap_or("?");
            match made.iter_mut().find(|one| one.0 == name) {
                Some(known) => known.1 += 1,
                None => made.push((name, 1)),
            }
        }
    }
    made.sort_by_key(|one| std::cmp::Reverse(one.1));
    let mut words: Vec<String> =
        made.iter().take(3).map(|(name, count)| format!("{count} {name}")).collect();
    let more: usize = made.iter().skip(3).map(|one| one.1).sum();
    words.extend((more > 0).then(|| format!("{more} more")));
    (!words.is_empty()).then(|| words.join(", "))
}

/// A note below a turn whose end does not show.
pub(super) fn turn_end(turn: &Turn) -> Markup {
    html! { @if let Some(words) = view::turn_end(turn.outcome) { p.outcome { (words) } } }
}
