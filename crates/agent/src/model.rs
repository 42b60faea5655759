//! Which models there are, what they take and what they cost: data (`data/models.json`, `data/prices.json`).
//!
//! Invariant: what is not known costs nothing that is told; it is never told as 0.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
struct Models {
    default: String,
    aliases: BTreeMap<String, String>,
    output_tokens: u64,
}

#[derive(Debug, Deserialize)]
struct Prices {
    models: BTreeMap<String, Price>,
}

/// What a model takes, and what it costs: US dollars for a million tokens.
#[derive(Clone, Debug, Deserialize)]
pub struct Price {
    input: f64,
    output: f64,
    cache_write_5m: Option<f64>,
    cache_write_1h: Option<f64>,
    cache_read: Option<f64>,
    /// How many tokens it reads.
    pub max_input_tokens: Option<u64>,
    /// How many tokens it writes.
    pub max_output_tokens: Option<u64>,
}

static MODELS: LazyLock<Models> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../data/models.json")).unwrap_or_else(|_| Models {
        default: String::new(),
        aliases: BTreeMap::new(),
        output_tokens: 32_000,
    })
});

static PRICES: LazyLock<Prices> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../data/prices.json"))
        .unwrap_or_else(|_| Prices { models: BTreeMap::new() })
});

/// Web searches, a thousand of them.
const SEARCHES: f64 = 10.0;

/// The model that is meant.
pub fn named(name: Option<&str>) -> String {
    let name = name.filter(|name| !name.is_empty() && *name != "default");
    let Some(name) = name else { return MODELS.default.clone() };
    // A longer context is the API's business; the model is the same.
    let name = name.strip_suffix("[1m]").unwrap_or(name);
    MODELS.aliases.get(name).cloned().unwrap_or_else(|| name.to_owned())
}

/// The short names of models, and what they mean.
pub(crate) fn offered() -> impl Iterator<Item = (&'static str, &'static str)> {
    MODELS.aliases.iter().map(|(name, meant)| (name.as_str(), meant.as_str()))
}

/// How many of the tokens of an answer may be thinking, if so many are wished for: the API wants a thousand at least, and some to be left.
pub fn thinking_tokens(wish: Option<u64>, max_tokens: u64) -> Option<u64> {
    wish.filter(|tokens| *tokens >= 1_024 && *tokens < max_tokens)
}

/// Whether a model takes messages of the role `system`: those of the fifth generation do.
pub(crate) fn takes_system(model: &str) -> bool {
    let mut numbers = model.split('-').filter_map(|part| part.parse::<u32>().ok());
    numbers.next().is_some_and(|generation| (5..1_000).contains(&generation))
}

/// What is known of a model.
pub fn known(model: &str) -> Option<&'static Price> {
    PRICES.models.get(model)
}

/// How many tokens an answer may have.
pub fn output_tokens(model: &str) -> u64 {
    let most = known(model).and_then(|price| price.max_output_tokens);
    most.map_or(MODELS.output_tokens, |most| most.min(MODELS.output_tokens))
}

/// Tokens that were used, and what they are called.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
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

impl Usage {
    /// Reads the API's `usage`.
    pub fn read(usage: &Value) -> Usage {
        let count = |value: &Value| value.as_u64().unwrap_or(0);
        let written = count(&usage["cache_creation_input_tokens"]);
        let hour = count(&usage["cache_creation"]["ephemeral_1h_input_tokens"]);
        Usage {
            input: count(&usage["input_tokens"]),
            output: count(&usage["output_tokens"]),
            cache_5m: written.saturating_sub(hour),
            cache_1h: hour,
            cache_read: count(&usage["cache_read_input_tokens"]),
            searches: count(&usage["server_tool_use"]["web_search_requests"]),
        }
    }

    /// Adds another.
    pub fn add(&mut self, more: Usage) {
        self.input += more.input;
        self.output += more.output;
        self.cache_5m += more.cache_5m;
        self.cache_1h += more.cache_1h;
        self.cache_read += more.cache_read;
        self.searches += more.searches;
    }

    /// What it costs in US dollars; nothing if that is not known.
    #[allow(clippy::cast_precision_loss, reason = "nobody uses so many tokens")]
    pub fn cost(self, model: &str) -> Option<f64> {
        let price = known(model)?;
        let each = [
            (self.input, price.input),
            (self.output, price.output),
            (self.cache_5m, price.cache_write_5m.unwrap_or(price.input * 1.25)),
            (self.cache_1h, price.cache_write_1h.unwrap_or(price.input * 2.0)),
            (self.cache_read, price.cache_read.unwrap_or(price.input * 0.1)),
        ];
        let tokens: f64 = each.iter().map(|(count, price)| *count as f64 * price).sum();
        Some(tokens / 1e6 + self.searches as f64 * SEARCHES / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_their_prices() {
        let usage = serde_json::json!({
            "input_tokens": 24, "cache_creation_input_tokens": 680, "cache_read_input_tokens": 11200,
            "output_tokens": 99, "cache_creation": {"ephemeral_5m_input_tokens": 680, "ephemeral_1h_input_tokens": 0},
        });
        let cost = Usage::read(&usage).cost("claude-sonnet-4-6").unwrap();
        assert!((cost - 0.007_467).abs() < 1e-9, "{cost}");
        assert_eq!(Usage::read(&usage).cost("some-model"), None);
    }

    #[test]
    fn the_data_is_whole() {
        assert!(known(&named(None)).is_some());
        for alias in MODELS.aliases.keys() {
            assert!(known(&named(Some(alias))).is_some(), "{alias}");
        }
        assert_eq!(named(Some("claude-x")), "claude-x");
        assert_eq!(output_tokens("claude-3-haiku-20240307"), 4_096);
        assert_eq!(output_tokens("claude-x"), 32_000);
        let takes =
            ["claude-opus-5-5", "claude-sonnet-4-5-20250929", "claude-3-opus-20240229", "x"];
        assert_eq!(takes.map(takes_system), [true, false, false, false]);
    }
}
