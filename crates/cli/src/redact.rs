//! Additional secrets, and values that are not secrets: `[redact]` in the user's configuration.
//!
//! Only the user's: a project's could let secrets through. Invariant: a rule that cannot be
//! applied stops the program; nothing is sent that the user wanted redacted.

use std::collections::BTreeMap;
use std::ops::Range;

use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use transcript::format::secret::{Custom, Redactor};

use crate::failure::Failure;
use crate::text::printable;

/// `[redact]` in the configuration.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RedactConfig {
    /// Additional secrets.
    rules: Vec<Rule>,
    /// Values that are not secrets; `*` matches anything.
    allow: Vec<String>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
struct Rule {
    name: String,
    /// A regular expression; if it has a group, the group is the secret.
    pattern: String,
}

/// The maximum number of rules: each searches all texts once more.
const MOST_RULES: usize = 64;
/// The maximum number of allowed values.
const MOST_ALLOWED: usize = 1_000;
/// The maximum length of a pattern, a name or a value, in bytes.
const LONGEST: usize = 1_000;
/// The maximum size of a compiled pattern in memory, in bytes.
const LARGEST: usize = 1 << 20;

/// A compiled rule.
#[derive(Debug)]
struct Pattern {
    name: String,
    regex: Regex,
}

impl Custom for Pattern {
    fn name(&self) -> &str {
        &self.name
    }

    fn find(&self, text: &str) -> Vec<Range<usize>> {
        let captures = self.regex.captures_iter(text);
        let groups = captures.filter_map(|found| found.get(1).or_else(|| found.get(0)));
        groups.map(|group| group.range()).collect()
    }
}

/// Finds secrets by this configuration.
pub(crate) fn redactor(config: &RedactConfig) -> Result<Redactor, Failure> {
    let bad = |what: String, hint: &str| Failure::usage(format!("[redact]: {what}"), Some(hint));
    if config.rules.len() > MOST_RULES {
        let what = format!("{} rules; at most {MOST_RULES} are allowed", config.rules.len());
        return Err(bad(what, "one pattern can have several parts: `a|b`"));
    }
    if config.allow.len() > MOST_ALLOWED {
        let what =
            format!("{} values in `allow`; at most {MOST_ALLOWED} are allowed", config.allow.len());
        return Err(bad(what, "`*` matches anything: `test_*`"));
    }
    if let Some(value) = config.allow.iter().find(|value| value.len() > LONGEST || value.is_empty())
    {
        let what = format!("`allow` has a value of {} bytes", value.len());
        return Err(bad(what, &format!("1 to {LONGEST} bytes are allowed")));
    }
    let mut rules: Vec<Box<dyn Custom>> = Vec::new();
    for Rule { name, pattern } in &config.rules {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_word) {
            let what = format!("a rule is called `{}`", printable(name));
            return Err(bad(what, "use letters, digits, `-` and `_`, at most 64 of them"));
        }
        if pattern.len() > LONGEST {
            let what = format!("the pattern of `{name}` has {} bytes", pattern.len());
            return Err(bad(what, &format!("at most {LONGEST} are allowed")));
        }
        let regex = RegexBuilder::new(pattern).size_limit(LARGEST).build().map_err(|error| {
            let what = error.to_string().lines().last().unwrap_or_default().to_owned();
            bad(
                format!("cannot parse the pattern of `{name}`: {}", printable(&what)),
                "patterns are those of the Rust crate `regex`; write them in single quotes",
            )
        })?;
        if regex.is_match("") {
            let what = format!("the pattern of `{name}` matches the empty text");
            return Err(bad(what, "it must match at least one character"));
        }
        rules.push(Box::new(Pattern { name: name.clone(), regex }));
    }
    Ok(Redactor::new(rules, config.allow.clone()))
}

/// What was redacted, in words: `3 secrets redacted: 2 github-token, 1 aws-key`. `None` if nothing
/// was.
pub(crate) fn hidden(by_kind: &BTreeMap<String, u64>) -> Option<String> {
    let all: u64 = by_kind.values().sum();
    let mut kinds: Vec<(&String, &u64)> = by_kind.iter().collect();
    kinds.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), *name));
    let kinds: Vec<String> = kinds.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let secrets = if all == 1 { "secret" } else { "secrets" };
    let text = format!("{all} {secrets} redacted: {}; `--no-redact` shows them", kinds.join(", "));
    (all > 0).then_some(text)
}

#[cfg(test)]
#[path = "redact_tests.rs"]
mod tests;
