//! What a change costs: the next message before and after it, and when that pays for itself.

use serde::Serialize;
use transcript::client::change::Proof;
use transcript::client::context::NextRequest;
use transcript::conversation::Conversation;
use transcript::conversation::price::Prices;
use transcript::conversation::turn::Step;
use transcript::conversation::usage::Spending;
use workshop::{Read, Verb};

use crate::prospect::{self, Payoff, Prospect, ProspectJson};
use crate::text::{count, dollars, grouped};
use crate::version;
use crate::world::World;

/// What the next message costs, before and after a change.
pub(crate) struct PriceOfChange<'a> {
    /// `None` if nothing would be sent.
    sides: Option<[Prospect<'a>; 2]>,
    /// How many turns and answers the live conversation has.
    pace: [u64; 2],
    verb: Verb,
}

/// The line if there is no price.
const NOTHING: &str = "not known: nothing would be sent";

/// What the next message costs.
#[derive(Debug, Serialize)]
pub(crate) struct PriceJson<'a> {
    before: ProspectJson<'a>,
    after: ProspectJson<'a>,
    pays_after: Option<u64>,
    pays_after_turns: Option<u64>,
}

impl<'a> PriceOfChange<'a> {
    pub(crate) fn new(
        world: &World,
        read: &Read,
        proof: &Proof,
        verb: Verb,
        prices: &'a Prices,
    ) -> PriceOfChange<'a> {
        let now = prospect::now(world);
        let sides = match [&proof.before, &proof.after].map(|side| side.next.clone()) {
            [Some(before), Some(after)] => {
                let version = version::installed(world.programs());
                let by = |next: NextRequest| next.continued_by(version.as_deref());
                Some([before, after].map(|next| Prospect::new(by(next), now, prices)))
            }
            _ => None,
        };
        PriceOfChange { sides, pace: pace(read.subject.conversation()), verb }
    }

    /// The line for people.
    pub(crate) fn line(&self) -> String {
        let Some([before, after]) = &self.sides else {
            return NOTHING.to_owned();
        };
        let line = after.line();
        if before.next.tokens == after.next.tokens && before.usage == after.usage {
            return format!("{line}; as before");
        }
        let pays = match Payoff::of(before, after) {
            _ if before.dollars().is_none() || after.dollars().is_none() => String::new(),
            // Nobody repairs a session, hides a secret or brings turns back to save tokens.
            Payoff::Never if !self.verb.saves() => String::new(),
            Payoff::Never => "; it does not pay for itself".to_owned(),
            Payoff::AtOnce => "; it pays for itself at once".to_owned(),
            Payoff::After(calls) => {
                let turns = count(self.turns_of(calls), "turn");
                format!("; it pays for itself after {} (about {turns})", count(calls, "request"))
            }
        };
        format!("{line}; before the change {}{pays}", before.price())
    }

    /// The line for several sessions that are changed at once.
    pub(crate) fn line_of_all(all: &[PriceOfChange<'_>]) -> String {
        let [mut before, mut after] = [Spending::default(), Spending::default()];
        for sides in all.iter().filter_map(|one| one.sides.as_ref()) {
            before += sides[0].spending();
            after += sides[1].spending();
        }
        if after.messages == 0 {
            return NOTHING.to_owned();
        }
        let line = format!(
            "the next messages cost about {} in all: ~{} tokens cached, ~{} new",
            dollars(&after),
            grouped(after.usage.cache_read),
            grouped(after.usage.cache_write())
        );
        if before == after {
            return format!("{line}; as before");
        }
        format!("{line}; before the change about {}", dollars(&before))
    }

    pub(crate) fn json(&self) -> Option<PriceJson<'_>> {
        let [before, after] = self.sides.as_ref()?;
        let pays_after = match Payoff::of(before, after) {
            Payoff::Never => None,
            Payoff::AtOnce => Some(0),
            Payoff::After(calls) => Some(calls),
        };
        let pays_after_turns = pays_after.map(|calls| self.turns_of(calls));
        let (before, after) = (before.json(), after.json());
        Some(PriceJson { before, after, pays_after, pays_after_turns })
    }

    /// How many turns so many requests are, at the pace of the conversation so far.
    fn turns_of(&self, requests: u64) -> u64 {
        let [turns, answers] = self.pace;
        requests.saturating_mul(turns.max(1)).div_ceil(answers.max(turns).max(1))
    }
}

/// How many turns and answers a live conversation has.
fn pace(conversation: &Conversation) -> [u64; 2] {
    let turns = conversation.turns_in(&conversation.live());
    let steps = turns.iter().flat_map(|turn| &turn.steps);
    let answers = steps.filter(|step| matches!(step, Step::Answer { .. })).count();
    [turns.len() as u64, answers as u64]
}
