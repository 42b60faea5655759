//! What else is a secret, and what is none: `[redact]` of the user's configuration.
//!
//! Only the user's: a project could name what is to be let through. Invariant: a rule that cannot
//! be followed stops the program; nothing is sent that the user wanted hidden.

use std::collections::BTreeMap;
use std::ops::Range;

use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use transcript::secret::{Custom, Redactor};

use crate::failure::Failure;
use crate::text::printable;

/// `[redact]` in the configuration.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RedactConfig {
    /// What is hidden too.
    rules: Vec<Rule>,
    /// Values that are no secrets; `*` stands for anything.
    allow: Vec<String>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
struct Rule {
    name: String,
    /// A regular expression; of one with a group, that group is the secret.
    pattern: String,
}

/// So many rules there may be: each goes through all texts once more.
const MOST_RULES: usize = 64;
/// So many values may be allowed.
const MOST_ALLOWED: usize = 1_000;
/// So long may a pattern, a name or a value be.
const LONGEST: usize = 1_000;
/// So much memory may a compiled pattern take.
const LARGEST: usize = 1 << 20;

/// A rule, ready.
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

/// What finds secrets by this configuration.
pub(crate) fn redactor(config: &RedactConfig) -> Result<Redactor, Failure> {
    let bad = |what: String, hint: &str| Failure::usage(format!("[redact]: {what}"), Some(hint));
    if config.rules.len() > MOST_RULES {
        let what = format!("{} rules; at most {MOST_RULES} are possible", config.rules.len());
        return Err(bad(what, "one pattern can have several parts: `a|b`"));
    }
    if config.allow.len() > MOST_ALLOWED {
        let what = format!(
            "{} values in `allow`; at most {MOST_ALLOWED} are possible",
            config.allow.len()
        );
        return Err(bad(what, "`*` stands for anything: `test_*`"));
    }
    if let Some(value) = config.allow.iter().find(|value| value.len() > LONGEST || value.is_empty())
    {
        let what = format!("`allow` has a value of {} bytes", value.len());
        return Err(bad(what, &format!("1 to {LONGEST} bytes are possible")));
    }
    let mut rules: Vec<Box<dyn Custom>> = Vec::new();
    for Rule { name, pattern } in &config.rules {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_word) {
            let what = format!("a rule is called `{}`", printable(name));
            return Err(bad(what, "letters, digits, `-` and `_`, at most 64 of them"));
        }
        if pattern.len() > LONGEST {
            let what = format!("the pattern of `{name}` has {} bytes", pattern.len());
            return Err(bad(what, &format!("at most {LONGEST} are possible")));
        }
        let regex = RegexBuilder::new(pattern).size_limit(LARGEST).build().map_err(|error| {
            let what = error.to_string().lines().last().unwrap_or_default().to_owned();
            bad(
                format!("the pattern of `{name}` cannot be read: {}", printable(&what)),
                "patterns are those of the Rust crate `regex`; write them in single quotes",
            )
        })?;
        if regex.is_match("") {
            let what = format!("the pattern of `{name}` fits where nothing is");
            return Err(bad(what, "let it have at least one character"));
        }
        rules.push(Box::new(Pattern { name: name.clone(), regex }));
    }
    Ok(Redactor::new(rules, config.allow.clone()))
}

/// What was hidden, in words: `3 secrets hidden: 2 github-token, 1 aws-key`. Nothing if nothing
/// was.
pub(crate) fn hidden(by_kind: &BTreeMap<String, u64>) -> Option<String> {
    let all: u64 = by_kind.values().sum();
    let mut kinds: Vec<(&String, &u64)> = by_kind.iter().collect();
    kinds.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), *name));
    let kinds: Vec<String> = kinds.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let secrets = if all == 1 { "secret" } else { "secrets" };
    let text = format!("{all} {secrets} hidden: {}; `--no-redact` shows them", kinds.join(", "));
    (all > 0).then_some(text)
}

#[cfg(test)]
#[path = "redact_tests.rs"]
mod tests;
