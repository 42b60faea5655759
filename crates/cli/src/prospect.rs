//! What the next message costs: the line that `price` and every proof of a change print.

use jiff::Timestamp;
use serde::Serialize;
use transcript::client::context::{NextRequest, PartKind, Reason};
use transcript::conversation::price::{Cost, Prices};
use transcript::conversation::usage::{Money, Spending, Usage};
use transcript::format::time::Time;

use crate::text::{clock, dollars, grouped, one_line};
use crate::world::World;

/// The next request at a time and at some prices.
#[derive(Clone, Debug)]
pub(crate) struct Prospect<'a> {
    pub(crate) next: NextRequest,
    pub(crate) usage: Usage,
    pub(crate) reason: Reason,
    /// What each kind of its tokens costs, at the rates for the whole request.
    cost: Option<Cost>,
    prices: &'a Prices,
}

/// The time, as transcripts have it.
pub(crate) fn now(world: &World) -> Time {
    Time(Timestamp::try_from(world.now).map_or(0, Timestamp::as_millisecond))
}

impl<'a> Prospect<'a> {
    pub(crate) fn new(next: NextRequest, now: Time, prices: &'a Prices) -> Self {
        let usage = next.usage(now);
        let cost = prices.cost(&next.model, None, usage);
        Prospect { usage, reason: next.reason(now), cost, prices, next }
    }

    /// What the tokens cost that are read from the cache, as text.
    pub(crate) fn price_of_cached(&self) -> String {
        self.text(|cost| cost.cache_read)
    }

    /// What the tokens cost that are new, as text.
    pub(crate) fn price_of_new(&self) -> String {
        self.text(|cost| cost.total() - cost.cache_read)
    }

    /// What the request takes and costs, without its answer.
    pub(crate) fn spending(&self) -> Spending {
        self.part(Cost::total)
    }

    /// A part of the cost.
    fn part(&self, part: fn(Cost) -> f64) -> Spending {
        let cost = self.cost.map(|cost| Money::of_dollars(part(cost)));
        let unpriced = u64::from(cost.is_none());
        Spending { usage: self.usage, cost, unpriced, messages: 1 }
    }

    /// A part of the cost as text.
    fn text(&self, part: fn(Cost) -> f64) -> String {
        dollars(&self.part(part))
    }

    /// What the request costs, without its answer.
    pub(crate) fn dollars(&self) -> Option<f64> {
        self.cost.map(Cost::total)
    }

    /// What a request of that size costs if all of it is cached.
    fn reading(&self) -> Option<f64> {
        let usage = Usage { cache_read: self.next.tokens, ..Usage::default() };
        self.prices.cost(&self.next.model, None, usage).map(Cost::total)
    }

    /// The cost as text.
    pub(crate) fn price(&self) -> String {
        match self.cost {
            Some(_) => format!("about {}", self.text(Cost::total)),
            None => format!("an unknown amount (no price for `{}`)", one_line(&self.next.model)),
        }
    }

    /// `~` before numbers that are estimates.
    pub(crate) fn mark(&self) -> &'static str {
        if self.next.is_estimate { "~" } else { "" }
    }

    /// The line.
    pub(crate) fn line(&self) -> String {
        let mark = self.mark();
        format!(
            "the next message costs {}: {mark}{} tokens cached, {mark}{} new ({})",
            self.price(),
            grouped(self.usage.cache_read),
            grouped(self.usage.cache_write()),
            self.why(),
        )
    }

    /// From where on tokens are new, and why.
    pub(crate) fn why(&self) -> String {
        let place = match self.next.difference.message {
            0 => "from the system prompt on".to_owned(),
            message => format!("from message {message} on"),
        };
        match self.reason {
            Reason::Continues => format!("{place}: what followed the last request"),
            Reason::NoCall => "no request is recorded".to_owned(),
            Reason::Expired => match self.next.expires() {
                Some(time) => format!("all: the cache expired at {}", clock(time)),
                None => "all: nobody knows when the cache was used".to_owned(),
            },
            Reason::ClientVersion => {
                format!("{place}: another client version made the last request")
            }
            Reason::OtherModel => format!("{place}: another model made the last answer"),
            Reason::Compaction => format!("{place}: compacted since the last request"),
            Reason::Rewind => format!("{place}: rewound since the last request"),
            Reason::Edit => format!("{place}: changed since the last request"),
        }
    }

    pub(crate) fn json(&self) -> ProspectJson<'_> {
        let difference = &self.next.difference;
        ProspectJson {
            model: &self.next.model,
            tokens: self.next.tokens,
            cached: self.usage.cache_read,
            new: self.usage.cache_write(),
            cost_usd: self.dollars(),
            reason: self.reason,
            message: difference.message,
            line: difference.line,
            kind: difference.kind,
            lifetime: self.next.lifetime.name(),
            used: self.next.used.map(|time| time.to_string()),
            expires: self.next.expires().map(|time| time.to_string()),
            estimate: self.next.is_estimate,
        }
    }
}

/// Whether and when a change pays for itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Payoff {
    /// Nothing becomes cheaper, or prices are not known.
    Never,
    /// The next message does not cost more than without the change.
    AtOnce,
    /// After this many requests.
    After(u64),
}

impl Payoff {
    /// Compares what a change costs once with what it saves at each request after that, when
    /// everything is read from the cache.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a small positive number"
    )]
    pub(crate) fn of(before: &Prospect<'_>, after: &Prospect<'_>) -> Payoff {
        let costs = before.dollars().zip(after.dollars());
        let (Some((old, new)), Some((long, short))) =
            (costs, before.reading().zip(after.reading()))
        else {
            return Payoff::Never;
        };
        let each = long - short;
        match new - old {
            _ if after.next.tokens >= before.next.tokens => Payoff::Never,
            more if more <= 0.0 => Payoff::AtOnce,
            more if each > 0.0 => Payoff::After((more / each).ceil() as u64),
            _ => Payoff::Never,
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct ProspectJson<'a> {
    model: &'a str,
    tokens: u64,
    cached: u64,
    new: u64,
    cost_usd: Option<f64>,
    reason: Reason,
    message: usize,
    line: Option<u64>,
    kind: Option<PartKind>,
    lifetime: &'static str,
    used: Option<String>,
    expires: Option<String>,
    estimate: bool,
}

#[cfg(test)]
#[path = "prospect_tests.rs"]
mod tests;
