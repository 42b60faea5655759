//! The models and their short names: data (`data/models.json`). Their prices are in
//! [`transcript::conversation::price`].

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

pub use transcript::conversation::price::known;
pub use transcript::conversation::usage::Usage;
use transcript::format::json::Json;

#[derive(Debug, Deserialize)]
struct Models {
    default: String,
    aliases: BTreeMap<String, String>,
    output_tokens: u64,
}

static MODELS: LazyLock<Models> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../data/models.json")).unwrap_or_else(|_| Models {
        default: String::new(),
        aliases: BTreeMap::new(),
        output_tokens: 32_000,
    })
});

/// The id of the model that a name means.
pub fn named(name: Option<&str>) -> String {
    let name = name.filter(|name| !name.is_empty() && *name != "default");
    let Some(name) = name else { return MODELS.default.clone() };
    // A longer context is requested from the API separately; the model is the same.
    let name = name.strip_suffix("[1m]").unwrap_or(name);
    MODELS.aliases.get(name).cloned().unwrap_or_else(|| name.to_owned())
}

/// The short names of models, and the ids that they mean.
pub fn offered() -> impl Iterator<Item = (&'static str, &'static str)> {
    MODELS.aliases.iter().map(|(name, meant)| (name.as_str(), meant.as_str()))
}

/// How many of the tokens of an answer may be thinking, if so many are requested. The API wants at
/// least 1,024, and some tokens left for the answer.
pub fn thinking_tokens(wish: Option<u64>, max_tokens: u64) -> Option<u64> {
    wish.filter(|tokens| *tokens >= 1_024 && *tokens < max_tokens)
}

/// The most tokens that an answer may have.
pub fn output_tokens(model: &str) -> u64 {
    let most = known(model).and_then(|price| price.max_output_tokens);
    most.map_or(MODELS.output_tokens, |most| most.min(MODELS.output_tokens))
}

/// Reads the API's `usage`.
pub fn usage(usage: &Value) -> Usage {
    let text = usage.to_string();
    let object = Json::parse(text.as_bytes()).and_then(Json::object);
    object.map(|object| Usage::of_api(&object)).unwrap_or_default()
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
