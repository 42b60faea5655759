//! Prices that replace the list: from a file of the user, or from the client's settings.
//!
//! Invariant: what is wrong in a file is an error or is reported; it is never a price of 0.

use std::collections::BTreeMap;

use thiserror::Error;

use super::{Cost, PRICES, Price, Rates, canonical, known, known_at};
use crate::conversation::usage::Usage;
use crate::format::json::{Json, Object};

/// The prices in force: the list, and what replaces parts of it.
#[derive(Clone, Debug)]
pub struct Prices {
    /// By names in lower case.
    replaced: BTreeMap<String, Price>,
    multiplier: f64,
}

/// Why a file has no usable prices.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PriceError {
    /// It is not a JSON object with models.
    #[error("there is no JSON object with a member `models`")]
    Shape,
    /// The prices of a model are missing or not numbers.
    #[error("the model `{0}` needs `input` and `output`, in US dollars for a million tokens")]
    Model(String),
}

impl Default for Prices {
    fn default() -> Self {
        Prices { replaced: BTreeMap::new(), multiplier: 1.0 }
    }
}

impl Prices {
    /// Adds the prices of a file in the form of `data/prices.json`: `models` has a member for each
    /// model, with at least `input` and `output`.
    pub fn add(&mut self, file: &[u8]) -> Result<(), PriceError> {
        let models = Json::parse(file).and_then(|all| all.get("models")?.object());
        for (name, json) in models.ok_or(PriceError::Shape)?.members() {
            let price = json.object().and_then(|object| Price::read(&object));
            let price = price.filter(Price::is_sound);
            let price = price.ok_or_else(|| PriceError::Model(name.clone().into_owned()))?;
            self.replaced.insert(name.to_lowercase(), price);
        }
        Ok(())
    }

    /// Adds the rates in `modelPricing` of the client's settings. Returns the rows that the client
    /// would skip, because they are incomplete or out of range.
    pub fn add_settings(&mut self, settings: &[u8]) -> Vec<String> {
        let pricing = Json::parse(settings).and_then(|all| all.get("modelPricing")?.object());
        let Some(pricing) = pricing else { return Vec::new() };
        let mut skipped = Vec::new();
        if let Some(multiplier) = pricing.get("multiplier") {
            match multiplier.float().filter(|number| *number > 0.0 && *number <= 10.0) {
                Some(multiplier) => self.multiplier = multiplier,
                None => skipped.push("multiplier".to_owned()),
            }
        }
        let rows = pricing.get("overrides").and_then(Json::object);
        for (name, json) in rows.iter().flat_map(Object::members) {
            match json.object().and_then(|object| contracted(&object)) {
                Some(price) => drop(self.replaced.insert(name.to_lowercase(), price)),
                None => skipped.push(name.into_owned()),
            }
        }
        skipped
    }

    /// What one request costs; none if the price of the model at that speed is not known. A price
    /// that replaces the list is for all speeds, as in the client.
    pub fn cost(&self, model: &str, speed: Option<&str>, usage: Usage) -> Option<Cost> {
        let cost = self.price(model, speed)?.of_one(usage);
        Some(if (self.multiplier - 1.0).abs() < f64::EPSILON {
            cost
        } else {
            cost.times(self.multiplier)
        })
    }

    /// A row for exactly this name; else one that names a model of the list, in any of its forms;
    /// else the list.
    fn price(&self, model: &str, speed: Option<&str>) -> Option<&Price> {
        if self.replaced.is_empty() {
            return known_at(model, speed);
        }
        let lower = model.to_lowercase();
        let by_model = || {
            let mut rows = self.replaced.iter();
            let is_listed = |name: &str| PRICES.contains_key(name) || known(name).is_some();
            rows.find(|(name, _)| is_listed(name) && canonical(name) == canonical(&lower))
        };
        let replaced = self.replaced.get(&lower).or_else(|| by_model().map(|(_, price)| price));
        replaced.or_else(|| known_at(model, speed))
    }
}

/// The rates of a row in the client's settings: all four are required, and the one for cache writes
/// is for both lifetimes.
fn contracted(object: &Object<'_>) -> Option<Price> {
    let rate = |name: &str| {
        object.get(name).and_then(Json::float).filter(|rate| (0.0..=10_000.0).contains(rate))
    };
    let write = rate("cacheWrite")?;
    let usual = Rates {
        input: rate("input")?,
        output: rate("output")?,
        cache_5m: write,
        cache_1h: write,
        cache_read: rate("cacheRead")?,
    };
    Some(Price { usual, long: None, max_input_tokens: None, max_output_tokens: None })
}
