//! Tokens: one type, one way to add them up, one way to price them.
//!
//! Each token is in exactly one of the counts, so that sums and prices count it once. Which answers
//! count is decided by [`Turn`](crate::conversation::turn::Turn): an answer counts in the turn
//! where it first stands, and once.

mod ledger;
mod message;
mod spending;

use std::iter::Sum;
use std::ops::{Add, AddAssign};

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

pub use ledger::{CountedFile, FileMessages, Ledger, LedgerEntry, session_of_file};
pub use message::{MessageCounter, MessageUsage, Messages, messages_in};
pub use spending::{Money, Spending};

use crate::conversation::price::{self, Cost};
use crate::format::json::{Json, Object};

/// What answers took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Input tokens that were not in the cache.
    pub input: u64,
    /// Output tokens, thinking included.
    pub output: u64,
    /// Input tokens that were read from the cache.
    pub cache_read: u64,
    /// Input tokens that were written to the cache for five minutes.
    pub cache_5m: u64,
    /// Input tokens that were written to the cache for one hour.
    pub cache_1h: u64,
    /// Web searches that the API did.
    pub searches: u64,
    /// Web fetches that the API did.
    pub fetches: u64,
    /// The output is a lower bound: an answer was recorded before it ended.
    pub at_least: bool,
}

impl Usage {
    /// Reads the `usage` of an answer of the API. Tokens that were written to the cache count as
    /// cached for five minutes unless the API says for how long.
    pub fn of_api(object: &Object<'_>) -> Usage {
        let number = |json: Option<Json<'_>>| {
            json.and_then(Json::integer).and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
        };
        let count = |name: &str| number(object.get(name));
        let inner = |outer: &str, name: &str| number(object.get(outer).and_then(|o| o.get(name)));
        let cache_1h = inner("cache_creation", "ephemeral_1h_input_tokens");
        let short = inner("cache_creation", "ephemeral_5m_input_tokens");
        let written = count("cache_creation_input_tokens");
        Usage {
            input: count("input_tokens"),
            output: count("output_tokens"),
            cache_read: count("cache_read_input_tokens"),
            cache_5m: written.saturating_sub(cache_1h).max(short),
            cache_1h,
            searches: inner("server_tool_use", "web_search_requests"),
            fetches: inner("server_tool_use", "web_fetch_requests"),
            at_least: false,
        }
    }

    /// Input tokens of any kind: what the model read.
    pub fn read(self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write())
    }

    /// Input tokens that were written to the cache.
    pub fn cache_write(self) -> u64 {
        self.cache_5m.saturating_add(self.cache_1h)
    }

    /// All tokens.
    pub fn total(self) -> u64 {
        self.read().saturating_add(self.output)
    }

    /// What it costs; none if the model's price is not known. For one request, long ones have their
    /// own price; sums of several requests are priced as short ones.
    ///
    /// ```
    /// use transcript::conversation::usage::Usage;
    ///
    /// let usage = Usage { input: 24, output: 99, cache_read: 11_200, ..Usage::default() };
    /// let cost = usage.cost("claude-sonnet-4-6").unwrap();
    /// assert_eq!(format!("{:.6}", cost.total()), "0.004917");
    /// assert_eq!(usage.cost("some-model"), None);
    /// ```
    pub fn cost(self, model: &str) -> Option<Cost> {
        price::known(model).map(|price| price.of_many(self))
    }

    /// What one request costs; none if the price of the model at that speed is not known.
    pub fn request_cost(self, model: &str, speed: Option<&str>) -> Option<Cost> {
        price::known_at(model, speed).map(|price| price.of_one(self))
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, more: Usage) {
        // The counts come from a file.
        for (sum, more) in [
            (&mut self.input, more.input),
            (&mut self.output, more.output),
            (&mut self.cache_read, more.cache_read),
            (&mut self.cache_5m, more.cache_5m),
            (&mut self.cache_1h, more.cache_1h),
            (&mut self.searches, more.searches),
            (&mut self.fetches, more.fetches),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.at_least = self.at_least || more.at_least;
    }
}

impl Add for Usage {
    type Output = Usage;

    fn add(mut self, more: Usage) -> Usage {
        self += more;
        self
    }
}

impl Sum for Usage {
    fn sum<I: Iterator<Item = Usage>>(all: I) -> Usage {
        all.fold(Usage::default(), Add::add)
    }
}

/// As `docs/output.md` has it.
impl Serialize for Usage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Usage", 5)?;
        object.serialize_field("input", &self.input)?;
        object.serialize_field("output", &self.output)?;
        object.serialize_field("cache_read", &self.cache_read)?;
        object.serialize_field("cache_write", &self.cache_write())?;
        object.serialize_field("at_least", &self.at_least)?;
        object.end()
    }
}
