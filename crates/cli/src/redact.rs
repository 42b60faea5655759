//! Additional secrets, and values that are not secrets: `[redact]` in the user's configuration.
//!
//! Only the user's: a project's could let secrets through. Invariant: a rule that cannot be
//! applied stops the program; nothing is sent that the user wanted redacted.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use transcript::conversation::place::{FoundSecrets, Session, agents, find_secrets};
use transcript::format::secret::{Cover, Custom, Mask, Redactor};

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

/// What else counts as a secret, for commands that change sessions or report about them.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct MoreRules {
    /// Also hide these
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    also: Vec<Also>,
    /// Also use the rules and allowed values in this file, written like `[redact]` in the
    /// configuration
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// A value that is not a secret; `*` matches anything (can be repeated)
    #[arg(long, value_name = "VALUE")]
    allow: Vec<String>,
}

/// What is not a secret, but about a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Also {
    /// E-mail addresses
    Email,
    /// Names of people: before their addresses, and as the names of their home folders
    Names,
    /// Paths of home folders
    Home,
}

/// The longest file with rules, in bytes.
const LONGEST_FILE: u64 = 1 << 20;

/// A file with rules: the settings of `[redact]`, with or without that heading.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RulesFile {
    rules: Vec<Rule>,
    allow: Vec<String>,
    redact: RedactConfig,
}

impl MoreRules {
    /// Finds secrets by the configuration, and by these.
    pub(crate) fn redactor(&self, config: &RedactConfig) -> Result<Redactor, Failure> {
        let mut config = config.clone();
        config.allow.extend(self.allow.iter().cloned());
        if let Some(path) = &self.rules {
            let bytes = files::read(path, LONGEST_FILE);
            let hint = "docs/redact.md says what is in a file with rules";
            let bytes = bytes.map_err(|error| Failure::named_file(path, error, hint))?;
            let bad = |what: String| {
                let message = format!("cannot parse `{}`: {}", path.display(), printable(&what));
                Failure::usage(message, Some("it has `rules` and `allow`, as `[redact]` has"))
            };
            let text = String::from_utf8(bytes).map_err(|_| bad("it is not UTF-8".to_owned()))?;
            let file: RulesFile =
                toml::from_str(&text).map_err(|error| bad(error.message().to_owned()))?;
            for part in [RedactConfig { rules: file.rules, allow: file.allow }, file.redact] {
                config.rules.extend(part.rules);
                config.allow.extend(part.allow);
            }
        }
        let mut rules = compiled(&config)?;
        // The first rule that fits names a secret, and a home's path contains a name.
        let mut also = self.also.clone();
        also.sort_by_key(|also| *also != Also::Home);
        for also in also {
            for pattern in also.patterns() {
                let regex = Regex::new(pattern).map_err(|error| {
                    Failure::usage(format!("a built-in rule cannot be used: {error}"), None)
                })?;
                rules.push(Box::new(Pattern { name: also.name().to_owned(), regex }));
            }
        }
        Ok(Redactor::new(rules, config.allow))
    }
}

impl Also {
    fn name(self) -> &'static str {
        match self {
            Also::Email => "email",
            Also::Names => "name",
            Also::Home => "home",
        }
    }

    fn patterns(self) -> &'static [&'static str] {
        match self {
            Also::Email => &[
                r"\b[A-Za-z0-9][A-Za-z0-9._%+-]*@(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)+[A-Za-z]{2,}\b",
            ],
            Also::Names => &[
                r"(\p{Lu}[\p{L}\p{M}'’.-]*(?: \p{Lu}[\p{L}\p{M}'’.-]*)+) ?<[^<>\s@]+@[^<>\s]+>",
                r#"(?:/home/|/Users/|[A-Za-z]:\\{1,4}Users\\{1,4})([^/\\\s"'`<>:,;)\]]+)"#,
            ],
            Also::Home => &[
                r#"(?:/home/|/Users/|[A-Za-z]:\\{1,4}Users\\{1,4})[^/\\\s"'`<>:,;)\]]+"#,
                r"(?:^|[\s\x22'=:])(/root)\b",
            ],
        }
    }
}

/// What is hidden in a document that leaves.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct HidingArgs {
    #[command(flatten)]
    more: MoreRules,
    /// Do not redact secrets
    #[arg(long, conflicts_with_all = ["also", "rules", "allow"])]
    no_redact: bool,
}

impl HidingArgs {
    /// Finds secrets; `None` if nothing is hidden.
    pub(crate) fn redactor(&self, config: &RedactConfig) -> Result<Option<Arc<Redactor>>, Failure> {
        if self.no_redact {
            return Ok(None);
        }
        self.more.redactor(config).map(|redactor| Some(Arc::new(redactor)))
    }

    /// The secrets of a session; `None` if nothing is hidden.
    pub(crate) fn cover(
        &self,
        config: &RedactConfig,
        session: &Session,
    ) -> Result<Option<Cover>, Failure> {
        self.redactor(config)?.map(|redactor| cover_of(redactor, session)).transpose()
    }
}

/// Finds secrets by this configuration.
pub(crate) fn redactor(config: &RedactConfig) -> Result<Redactor, Failure> {
    Ok(Redactor::new(compiled(config)?, config.allow.clone()))
}

/// The compiled rules of a configuration, whose values are valid, too.
fn compiled(config: &RedactConfig) -> Result<Vec<Box<dyn Custom>>, Failure> {
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
    Ok(rules)
}

/// The secrets of a session, by these rules. They are looked for in all of its files, so that
/// each is hidden wherever it stands, as `quipu redact` does.
pub(crate) fn cover_of(redactor: Arc<Redactor>, session: &Session) -> Result<Cover, Failure> {
    let found = secrets_of(&redactor, session)?;
    Ok(Cover::new(redactor, found.values))
}

/// The same secrets, and where they were seen.
pub(crate) fn secrets_of(redactor: &Redactor, session: &Session) -> Result<FoundSecrets, Failure> {
    let found = find_secrets(session, agents(session), redactor);
    found.map_err(|error| Failure::mixed(&session.path, error))
}

/// Where something is, without the secrets in it; `None` if it has none. What is hidden only on
/// request, because it is about a person, stays: otherwise nobody could find it.
pub(crate) fn place_without(cover: &Cover, text: &str) -> Option<String> {
    let about_people = [Also::Email, Also::Names, Also::Home].map(Also::name);
    let mut mask = Mask::of(cover);
    let shown = mask.text(text).into_owned();
    let has_secret = mask.hidden().keys().any(|kind| !about_people.contains(&kind.as_str()));
    has_secret.then_some(shown)
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
