//! Tokens and money, added up.

use std::ops::AddAssign;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::Usage;
use crate::conversation::price::Prices;

/// Money, in millionths of a millionth of a US dollar: sums of it do not depend on their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(u128);

impl Money {
    /// That many US dollars.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "costs are not negative, and smaller than that"
    )]
    pub fn of_dollars(dollars: f64) -> Money {
        Money((dollars * 1e12).round() as u128)
    }

    /// In millionths of a millionth of a US dollar.
    pub fn trillionths(self) -> u128 {
        self.0
    }

    /// In US dollars.
    #[allow(clippy::cast_precision_loss, reason = "15 digits are enough")]
    pub fn dollars(self) -> f64 {
        self.0 as f64 / 1e12
    }
}

/// What several messages took and cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spending {
    /// What they took.
    pub usage: Usage,
    /// What those with a price cost; none if there are no such messages.
    pub cost: Option<Money>,
    /// How many messages have no price.
    pub unpriced: u64,
    /// How many messages there are.
    pub messages: u64,
}

impl Spending {
    /// One message of a model at a speed.
    pub fn of_message(
        usage: Usage,
        model: Option<&str>,
        speed: Option<&str>,
        prices: &Prices,
    ) -> Spending {
        let cost = model.and_then(|model| prices.cost(model, speed, usage));
        let cost = cost.map(|cost| Money::of_dollars(cost.total()));
        Spending { usage, cost, unpriced: u64::from(cost.is_none()), messages: 1 }
    }

    /// Whether they cost at least that much: an answer was recorded before it ended, or has no
    /// price.
    pub fn is_lower_bound(&self) -> bool {
        self.usage.at_least || self.unpriced > 0
    }
}

impl AddAssign for Spending {
    fn add_assign(&mut self, more: Spending) {
        self.usage += more.usage;
        self.cost = match (self.cost, more.cost) {
            (Some(one), Some(other)) => Some(Money(one.0.saturating_add(other.0))),
            (one, other) => one.or(other),
        };
        self.unpriced += more.unpriced;
        self.messages += more.messages;
    }
}

/// As `docs/output.md` has it.
impl Serialize for Spending {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Spending", 9)?;
        object.serialize_field("input", &self.usage.input)?;
        object.serialize_field("output", &self.usage.output)?;
        object.serialize_field("cache_write_5m", &self.usage.cache_5m)?;
        object.serialize_field("cache_write_1h", &self.usage.cache_1h)?;
        object.serialize_field("cache_read", &self.usage.cache_read)?;
        object.serialize_field("web_searches", &self.usage.searches)?;
        object.serialize_field("cost_usd", &self.cost.map(Money::dollars))?;
        object.serialize_field("cost_is_lower_bound", &self.is_lower_bound())?;
        object.serialize_field("messages", &self.messages)?;
        object.end()
    }
}
