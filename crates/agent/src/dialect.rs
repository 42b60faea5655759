//! The form of records: which members they have, in which order. Data (`data/dialect.json`).
//!
//! Invariant: the caller gives the values of members; the dialect decides whether and where they
//! occur.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use transcript::format::json::quote;

#[derive(Debug, Default, Deserialize)]
struct Dialect {
    version: String,
    envelope: Vec<String>,
    records: BTreeMap<String, Vec<String>>,
}

static DIALECT: LazyLock<Dialect> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../data/dialect.json")).unwrap_or_default()
});

/// A placeholder for the members that all records of the conversation begin with.
const ENVELOPE: &str = "...";

/// The client version whose records these are.
pub fn version() -> &'static str {
    &DIALECT.version
}

/// The names and values of a record's members, each value as JSON.
#[derive(Debug, Default)]
pub(crate) struct Members(Vec<(String, String)>);

impl Members {
    /// Adds a member whose value is JSON.
    pub(crate) fn raw(mut self, name: &str, value: impl Into<String>) -> Members {
        self.0.push((name.to_owned(), value.into()));
        self
    }

    pub(crate) fn put(self, name: &str, value: &impl Serialize) -> Members {
        let value = serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned());
        self.raw(name, value)
    }

    /// Adds a member if there is a value.
    pub(crate) fn maybe(self, name: &str, value: Option<&impl Serialize>) -> Members {
        match value {
            Some(value) => self.put(name, value),
            None => self,
        }
    }

    /// All members, as an object.
    pub(crate) fn object(&self) -> String {
        let names = self.0.iter().map(|(name, _)| name.as_str());
        self.in_order(names)
    }

    /// A record of this kind: the members that the kind has, in its order.
    pub(crate) fn record(&self, kind: &str) -> String {
        let keys = DIALECT.records.get(kind).map(Vec::as_slice).unwrap_or_default();
        let names = keys.iter().flat_map(|name| match name.as_str() {
            ENVELOPE => DIALECT.envelope.as_slice(),
            _ => std::slice::from_ref(name),
        });
        self.in_order(names.map(String::as_str))
    }

    fn in_order<'a>(&self, names: impl Iterator<Item = &'a str>) -> String {
        let mut out = "{".to_owned();
        for name in names {
            if let Some((_, value)) = self.0.iter().find(|(key, _)| key == name) {
                let comma = if out.len() > 1 { "," } else { "" };
                let _ = write!(out, "{comma}{}:{value}", quote(name));
            }
        }
        out.push('}');
        out
    }
}

#[cfg(test)]
#[path = "dialect_tests.rs"]
mod tests;
