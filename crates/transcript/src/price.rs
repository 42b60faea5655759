//! What models cost: data (`data/prices.json`), and what tokens come to.
//!
//! Invariant: what is not known has no price; it is never 0.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::json::{Json, Object};
use crate::table::Usage;

/// What a model takes, and what it costs: US dollars for a million tokens.
#[derive(Clone, Debug)]
pub struct Price {
    usual: Rates,
    /// For requests that are longer than [`LONG`], where these cost more.
    long: Option<Rates>,
    /// How many tokens it reads.
    pub max_input_tokens: Option<u64>,
    /// How many tokens it writes.
    pub max_output_tokens: Option<u64>,
}

/// What a million tokens cost.
#[derive(Clone, Debug)]
struct Rates {
    input: f64,
    output: f64,
    cache_5m: f64,
    cache_1h: f64,
    cache_read: f64,
}

impl Rates {
    /// The members whose names end so. What is not listed follows from the price of input.
    fn read(object: &Object<'_>, end: &str) -> Option<Rates> {
        let number = |name: &str| object.get(&format!("{name}{end}")).and_then(Json::float);
        let input = number("input")?;
        Some(Rates {
            input,
            output: number("output")?,
            cache_5m: number("cache_write_5m").unwrap_or(input * 1.25),
            cache_1h: number("cache_write_1h").unwrap_or(input * 2.0),
            cache_read: number("cache_read").unwrap_or(input * 0.1),
        })
    }
}

/// A request with more input than this is a long one.
const LONG: u64 = 200_000;

impl Price {
    fn read(object: &Object<'_>) -> Option<Price> {
        let count = |name: &str| u64::try_from(object.get(name)?.integer()?).ok();
        Some(Price {
            usual: Rates::read(object, "")?,
            long: Rates::read(object, "_above_200k"),
            max_input_tokens: count("max_input_tokens"),
            max_output_tokens: count("max_output_tokens"),
        })
    }
}

static PRICES: LazyLock<BTreeMap<String, Price>> = LazyLock::new(|| {
    let models =
        Json::parse(include_bytes!("../data/prices.json")).and_then(|all| all.get("models"));
    let models = models.and_then(Json::object);
    let each = models.iter().flat_map(Object::members);
    each.filter_map(|(name, json)| Some((name.into_owned(), Price::read(&json.object()?)?)))
        .collect()
});

/// A thousand searches of the web.
const SEARCHES: f64 = 10.0;

/// What is known of a model.
pub fn known(model: &str) -> Option<&'static Price> {
    PRICES.get(model)
}

/// Tokens that were used, each in one place only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Read for the full price.
    pub input: u64,
    /// Written.
    pub output: u64,
    /// Put into the cache for five minutes.
    pub cache_5m: u64,
    /// Put into the cache for an hour.
    pub cache_1h: u64,
    /// Read from the cache.
    pub cache_read: u64,
    /// Searches of the web.
    pub searches: u64,
}

/// What tokens cost, in US dollars.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are those of the tokens")]
pub struct Cost {
    pub input: f64,
    pub output: f64,
    pub cache_5m: f64,
    pub cache_1h: f64,
    pub cache_read: f64,
    pub searches: f64,
}

impl Cost {
    /// All of it.
    pub fn total(self) -> f64 {
        self.input + self.output + self.cache_5m + self.cache_1h + self.cache_read + self.searches
    }
}

impl From<&Usage> for Spent {
    /// What went into the cache went there for five minutes, if nothing says for how long.
    fn from(usage: &Usage) -> Spent {
        let hour = usage.cache_split.map_or(0, |[_, hour]| hour);
        Spent {
            input: usage.input,
            output: usage.output,
            cache_5m: usage.cache_write.saturating_sub(hour),
            cache_1h: hour,
            cache_read: usage.cache_read,
            searches: usage.server_tools[0],
        }
    }
}

impl Spent {
    /// Adds more.
    pub fn add(&mut self, more: Spent) {
        self.input += more.input;
        self.output += more.output;
        self.cache_5m += more.cache_5m;
        self.cache_1h += more.cache_1h;
        self.cache_read += more.cache_read;
        self.searches += more.searches;
    }

    /// What it costs; nothing if that is not known. Of several requests: none of them is taken for a long one.
    pub fn cost(self, model: &str) -> Option<Cost> {
        known(model).map(|price| self.at(&price.usual))
    }

    /// What one request costs; nothing if that is not known.
    pub fn request_cost(self, model: &str) -> Option<Cost> {
        let price = known(model)?;
        let read = self.input + self.cache_read + self.cache_5m + self.cache_1h;
        Some(self.at(price.long.as_ref().filter(|_| read > LONG).unwrap_or(&price.usual)))
    }

    #[allow(clippy::cast_precision_loss, reason = "nobody uses so many tokens")]
    fn at(self, rates: &Rates) -> Cost {
        let of = |count: u64, each: f64| count as f64 * each / 1e6;
        Cost {
            input: of(self.input, rates.input),
            output: of(self.output, rates.output),
            cache_5m: of(self.cache_5m, rates.cache_5m),
            cache_1h: of(self.cache_1h, rates.cache_1h),
            cache_read: of(self.cache_read, rates.cache_read),
            searches: self.searches as f64 * SEARCHES / 1e3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_their_prices() {
        let spent =
            Spent { input: 24, output: 99, cache_5m: 680, cache_read: 11_200, ..Spent::default() };
        let cost = spent.cost("claude-sonnet-4-6").unwrap().total();
        assert!((cost - 0.007_467).abs() < 1e-9, "{cost}");
        assert_eq!(spent.cost("some-model"), None);
        let long = Spent { input: 1, cache_read: 200_000, ..Spent::default() };
        let cost = long.request_cost("claude-sonnet-4-20250514").unwrap().total();
        assert!((cost - 0.120_006).abs() < 1e-9, "{cost}");
    }

    #[test]
    fn the_data_is_whole() {
        assert!(PRICES.len() > 30);
        assert_eq!(known("claude-3-haiku-20240307").unwrap().max_output_tokens, Some(4_096));
    }
}
