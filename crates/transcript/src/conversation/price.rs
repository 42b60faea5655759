//! What models cost: the prices (`data/prices.json`), what replaces them, and the cost of tokens.
//!
//! Invariant: an unknown price is `None`, never 0.

mod replaced;

use std::collections::BTreeMap;
use std::sync::LazyLock;

pub use replaced::{PriceError, Prices};

use crate::conversation::usage::Usage;
use crate::format::json::{Json, Object};

/// The limits of a model, and its prices in US dollars for a million tokens.
#[derive(Clone, Debug)]
pub struct Price {
    usual: Rates,
    /// The prices for requests with more than [`LONG`] input tokens, if these cost more.
    long: Option<Rates>,
    /// The largest number of input tokens.
    pub max_input_tokens: Option<u64>,
    /// The largest number of output tokens.
    pub max_output_tokens: Option<u64>,
}

/// The prices of a million tokens, in US dollars.
#[derive(Clone, Debug)]
struct Rates {
    input: f64,
    output: f64,
    cache_5m: f64,
    cache_1h: f64,
    cache_read: f64,
}

impl Rates {
    /// Reads the members whose names end with `end`. Missing prices follow from the price of input.
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

/// A request with more input tokens than this is a long one.
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

const DATA: &[u8] = include_bytes!("../../data/prices.json");

/// The day on which the prices were collected.
pub static COLLECTED: LazyLock<String> = LazyLock::new(|| {
    let day = Json::parse(DATA).and_then(|all| Some(all.get("collected")?.text()?.into_owned()));
    day.unwrap_or_default()
});

static PRICES: LazyLock<BTreeMap<String, Price>> = LazyLock::new(|| {
    let models = Json::parse(DATA).and_then(|all| all.get("models"));
    let models = models.and_then(Json::object);
    let each = models.iter().flat_map(Object::members);
    each.filter_map(|(name, json)| Some((name.into_owned(), Price::read(&json.object()?)?)))
        .collect()
});

/// The price of a thousand web searches, in US dollars.
const SEARCHES: f64 = 10.0;

/// The limits and prices of a model, if it is known: by its name, or by the name without a date and
/// without what Bedrock, Vertex or the client add to it.
///
/// ```
/// use transcript::conversation::price::known;
///
/// assert!(known("us.anthropic.claude-opus-4-5-20251101-v1:0").is_some());
/// assert!(known("claude-of-next-year").is_none());
/// ```
pub fn known(model: &str) -> Option<&'static Price> {
    PRICES.get(model).or_else(|| PRICES.get(canonical(model)))
}

/// The prices of a model at a speed. Other speeds than the usual one have their own prices, which
/// are not in the list.
pub(crate) fn known_at(model: &str, speed: Option<&str>) -> Option<&'static Price> {
    let is_usual = speed.is_none_or(|speed| speed == "standard");
    known(model).filter(|_| is_usual)
}

/// The name of a model without a date, and without what Bedrock, Vertex or the client add to it.
fn canonical(model: &str) -> &str {
    let name = model.rfind("claude-").map_or(model, |at| &model[at..]);
    let name = name.split(['@', ':', '[']).next().unwrap_or(name);
    let name = name.strip_suffix("-v1").or_else(|| name.strip_suffix("-v2")).unwrap_or(name);
    match name.rsplit_once('-') {
        Some((name, date)) if date.len() == 8 && date.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => name,
    }
}

/// The cost of tokens, in US dollars.
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
    /// The sum of all fields.
    pub fn total(self) -> f64 {
        self.input + self.output + self.cache_5m + self.cache_1h + self.cache_read + self.searches
    }
}

impl Cost {
    /// The same at other prices: each field times that.
    fn times(self, factor: f64) -> Cost {
        Cost {
            input: self.input * factor,
            output: self.output * factor,
            cache_5m: self.cache_5m * factor,
            cache_1h: self.cache_1h * factor,
            cache_read: self.cache_read * factor,
            searches: self.searches * factor,
        }
    }
}

impl Price {
    /// Whether no rate is negative or not a number.
    fn is_sound(&self) -> bool {
        let all = [Some(&self.usual), self.long.as_ref()];
        all.into_iter().flatten().all(|rates| {
            let rates =
                [rates.input, rates.output, rates.cache_5m, rates.cache_1h, rates.cache_read];
            rates.into_iter().all(|rate| rate.is_finite() && rate >= 0.0)
        })
    }

    /// The cost of several requests. None of them is priced as a long one.
    pub(crate) fn of_many(&self, usage: Usage) -> Cost {
        self.usual.cost(usage)
    }

    /// The cost of one request. Long requests may cost more per token.
    pub(crate) fn of_one(&self, usage: Usage) -> Cost {
        let long = self.long.as_ref().filter(|_| usage.read() > LONG);
        long.unwrap_or(&self.usual).cost(usage)
    }
}

impl Rates {
    #[allow(clippy::cast_precision_loss, reason = "nobody uses so many tokens")]
    fn cost(&self, usage: Usage) -> Cost {
        let of = |count: u64, each: f64| count as f64 * each / 1e6;
        Cost {
            input: of(usage.input, self.input),
            output: of(usage.output, self.output),
            cache_5m: of(usage.cache_5m, self.cache_5m),
            cache_1h: of(usage.cache_1h, self.cache_1h),
            cache_read: of(usage.cache_read, self.cache_read),
            searches: usage.searches as f64 * SEARCHES / 1e3,
        }
    }
}

#[cfg(test)]
#[path = "price_tests.rs"]
mod tests;
