//! What a query asks for.
//!
//! Words, `"phrases"`, `prefix*`, `-word` or `NOT word`, `/regular expressions/`, and filters:
//! `project:`, `branch:`, `tool:`, `file:`, `role:`, `kind:`, `model:`, `after:`, `before:`,
//! `session:`, `error:`, `cost>`. What looks like a filter and is none is searched as text.

use std::fmt::Write;

use jiff::Timestamp;
use regex::{Regex, RegexBuilder};
use thiserror::Error;

use crate::catalog::filter_word;
use crate::moment::{FORMS, moment};
use crate::texts::TextKind;
use crate::words::{Word, dense, lower, parts, words};

/// A query.
#[derive(Clone, Debug, Default)]
pub struct Query {
    pub(super) terms: Vec<Term>,
    pub(super) patterns: Vec<Regex>,
    pub(super) filters: Filters,
}

/// Words that follow each other; usually only one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) words: Vec<TermWord>,
    /// The last word may go on.
    pub(super) is_prefix: bool,
    pub(super) is_excluded: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TermWord {
    /// In lower case.
    Plain(String),
    /// A run of characters that are written without spaces.
    Dense(String),
}

/// What a session, or a text in it, must be.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Filters {
    pub(super) project: Vec<String>,
    pub(super) branch: Vec<String>,
    pub(super) session: Vec<String>,
    pub(super) file: Vec<String>,
    /// What a record must be.
    pub(super) record: Vec<RecordFilter>,
    /// Only sessions with something after these times; an age counts from when it is searched.
    pub(super) after: Vec<String>,
    /// Only sessions with something before these times.
    pub(super) before: Vec<String>,
    pub(super) cost_over: Option<f64>,
}

/// Words of the index of which a record must have one; one with a `*` behind it may go on.
pub(super) type RecordFilter = Vec<String>;

/// Why a query cannot be understood.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum QueryError {
    /// A regular expression is wrong.
    #[error("`/{pattern}/` is not a regular expression: {why}")]
    Pattern {
        /// The expression.
        pattern: String,
        /// What is wrong with it.
        why: String,
    },
    /// A filter has a value that it cannot have.
    #[error("`{filter}` cannot be `{value}`: use {known}")]
    Value {
        /// The filter.
        filter: String,
        /// Its value.
        value: String,
        /// The values that it can have.
        known: String,
    },
    /// Only words can be excluded.
    #[error("`{0}` cannot be excluded: only words can")]
    Excluded(String),
    /// Nothing is behind the word that excludes what is behind it.
    #[error("`NOT` needs a word behind it")]
    NotWhat,
    /// Nothing is asked for.
    #[error("the query is empty")]
    Empty,
}

/// The largest compiled regular expression, in bytes.
const PATTERN_SIZE: usize = 1 << 20;

impl Query {
    /// Reads a query.
    pub fn parse(text: &str) -> Result<Query, QueryError> {
        let mut query = Query::default();
        let mut is_excluded = false;
        for token in Tokens(text) {
            if token.body == "NOT" && !token.is_quoted && token.filter.is_none() {
                is_excluded = true;
                continue;
            }
            query.add(&token, std::mem::take(&mut is_excluded))?;
        }
        if is_excluded {
            return Err(QueryError::NotWhat);
        }
        let is_empty = query.terms.is_empty()
            && query.patterns.is_empty()
            && query.filters == Filters::default();
        if is_empty { Err(QueryError::Empty) } else { Ok(query) }
    }

    /// Asks for sessions in which a tool touched this file, too.
    pub fn add_file(&mut self, file: &str) {
        self.filters.file.push(file.to_owned());
    }

    /// The same query for calls that name the files of its filters. Their names are what is marked.
    pub(super) fn of_files(&self) -> Query {
        let mut query = self.clone();
        for file in &self.filters.file {
            let words = term_words(file);
            if !words.is_empty() {
                query.terms.push(Term { words, is_prefix: false, is_excluded: false });
            }
        }
        query.filters.record.push(vec![filter_word("k", TextKind::Call.name())]);
        query
    }

    fn add(&mut self, token: &Token<'_>, is_negated: bool) -> Result<(), QueryError> {
        let is_excluded = token.is_excluded || is_negated;
        if token.is_pattern {
            if is_excluded {
                return Err(QueryError::Excluded(format!("/{}/", token.body)));
            }
            let found = RegexBuilder::new(token.body).size_limit(PATTERN_SIZE).build();
            self.patterns.push(found.map_err(|error| QueryError::Pattern {
                pattern: token.body.to_owned(),
                why: error.to_string().lines().last().unwrap_or_default().to_owned(),
            })?);
            return Ok(());
        }
        if let Some(name) = token.filter
            && self.filter(name, token.body)?
        {
            let excluded = || QueryError::Excluded(format!("{name}:{}", token.body));
            return if is_excluded { Err(excluded()) } else { Ok(()) };
        }
        let whole = token.filter.map(|name| format!("{name}:{}", token.body));
        let body = whole.as_deref().unwrap_or(token.body);
        let is_prefix = !token.is_quoted && body.ends_with('*');
        let words = term_words(body);
        if !words.is_empty() {
            self.terms.push(Term { words, is_prefix, is_excluded });
        }
        Ok(())
    }

    /// Adds a filter; false if there is none of that name.
    fn filter(&mut self, name: &str, value: &str) -> Result<bool, QueryError> {
        let filters = &mut self.filters;
        let text = value.to_owned();
        let wrong = |known: &str| {
            let [filter, value, known] = [name, value, known].map(str::to_owned);
            QueryError::Value { filter, value, known }
        };
        let known = |list: &[&str]| {
            if list.contains(&value) { Ok(()) } else { Err(wrong(&list.join(", "))) }
        };
        match name {
            "project" => filters.project.push(text),
            "branch" => filters.branch.push(text),
            "session" => filters.session.push(text),
            "after" | "before" => {
                moment(value, Timestamp::UNIX_EPOCH).ok_or_else(|| wrong(FORMS))?;
                let times = if name == "after" { &mut filters.after } else { &mut filters.before };
                times.push(text);
            }
            "file" => filters.file.push(text),
            "tool" => filters.record.push(vec![match value.strip_suffix('*') {
                Some(start) => filter_word("t", start) + "*",
                None => filter_word("t", value),
            }]),
            "model" => {
                // Names go on with a date, and people leave out what most begin with.
                let value = value.trim_end_matches('*');
                let names = [value.to_owned(), format!("claude-{value}")];
                filters.record.push(names.map(|name| filter_word("m", &name) + "*").to_vec());
            }
            "error" => {
                if !["", "true", "yes"].contains(&value) {
                    return Err(wrong("`error:` with nothing behind it"));
                }
                filters.record.push(vec![filter_word("e", "error")]);
            }
            "role" => {
                known(&["user", "assistant", "tool", "client"])?;
                filters.record.push(vec![filter_word("r", value)]);
            }
            "kind" => {
                known(&TextKind::ALL.map(TextKind::name))?;
                filters.record.push(vec![filter_word("k", value)]);
            }
            "cost>" => match value.parse::<f64>() {
                Ok(number) if number.is_finite() => {
                    let most = filters.cost_over.map_or(number, |known| known.max(number));
                    filters.cost_over = Some(most);
                }
                _ => return Err(wrong("a number of US dollars")),
            },
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl Term {
    /// The term as the database's text index understands it.
    pub(super) fn expression(&self) -> String {
        let star = |is_prefix: bool| if is_prefix { " *" } else { "" };
        if let [TermWord::Plain(word)] = self.words.as_slice() {
            return format!("{{words parts}} : \"{word}\"{}", star(self.is_prefix));
        }
        let mut tokens = Vec::new();
        let mut is_prefix = self.is_prefix;
        for (at, word) in self.words.iter().enumerate() {
            match word {
                TermWord::Plain(word) => tokens.push(word.as_str()),
                TermWord::Dense(run) => {
                    let is_last = at + 1 == self.words.len();
                    let pairs: Vec<&str> = dense(run).collect();
                    // Behind a pair, the text may go on; behind a single character, too.
                    let end =
                        if is_last && pairs.len() > 1 { pairs.len() - 1 } else { pairs.len() };
                    is_prefix |= is_last && pairs.len() == 1;
                    tokens.extend(&pairs[..end]);
                }
            }
        }
        format!("words : \"{}\"{}", tokens.join(" "), star(is_prefix))
    }

    /// The expression for records that fit the filters, too.
    pub(super) fn expression_in(&self, filters: &[RecordFilter]) -> String {
        filters.iter().fold(format!("({})", self.expression()), |mut text, filter| {
            let _ = write!(text, " AND {}", of_filter(filter));
            text
        })
    }

    /// Whether the term begins with this word of a text, and how many words it takes there.
    pub(super) fn fits(&self, text: &[Word<'_>]) -> Option<usize> {
        let count = self.words.len();
        if text.len() < count {
            return None;
        }
        let fits = |at: usize, word: &TermWord| {
            let (is_last, text) = (at + 1 == count, text[at].text);
            match word {
                TermWord::Dense(run) => text.contains(run.as_str()),
                TermWord::Plain(word) if !may_contain(text, word) => false,
                TermWord::Plain(word) => {
                    let same = |other: &str| {
                        let other = lower(other);
                        other == *word
                            || is_last && self.is_prefix && other.starts_with(word.as_str())
                    };
                    same(text) || count == 1 && parts(text).into_iter().any(same)
                }
            }
        };
        self.words.iter().enumerate().all(|(at, word)| fits(at, word)).then_some(count)
    }
}

/// The words that a query or the name of a file asks for.
fn term_words(text: &str) -> Vec<TermWord> {
    let found = words(text).map(|word| {
        if word.is_dense {
            TermWord::Dense(word.text.to_owned())
        } else {
            TermWord::Plain(lower(word.text))
        }
    });
    found.collect()
}

/// The expression for records that fit a filter.
pub(super) fn of_filter(filter: &[String]) -> String {
    let words = filter.iter().map(|wanted| match wanted.strip_suffix('*') {
        Some(start) => format!("meta : \"{start}\" *"),
        None => format!("meta : \"{wanted}\""),
    });
    format!("({})", words.collect::<Vec<_>>().join(" OR "))
}

/// Whether a record of these words fits a filter.
pub(super) fn fits_filter(filter: &[String], words: &str) -> bool {
    let fits = |word: &str, wanted: &String| match wanted.strip_suffix('*') {
        Some(start) => word.starts_with(start),
        None => word == wanted,
    };
    words.split(' ').any(|word| filter.iter().any(|wanted| fits(word, wanted)))
}

/// Whether a word of a text may contain a word in lower case. Most do not, and need not be divided
/// into their parts.
fn may_contain(text: &str, word: &str) -> bool {
    let (text, word) = (text.as_bytes(), word.as_bytes());
    !text.is_ascii()
        || text.len() >= word.len()
            && text.windows(word.len().max(1)).any(|part| part.eq_ignore_ascii_case(word))
}

/// A part of a query.
struct Token<'a> {
    /// Without quotes, slashes and the name of the filter.
    body: &'a str,
    filter: Option<&'a str>,
    is_quoted: bool,
    is_pattern: bool,
    is_excluded: bool,
}

struct Tokens<'a>(&'a str);

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        self.0 = self.0.trim_start();
        let mut rest = self.0;
        if rest.is_empty() {
            return None;
        }
        // Two hyphens begin the name of an option, which people look for.
        let is_excluded = rest.len() > 1 && rest.starts_with('-') && !rest.starts_with("--");
        rest = if is_excluded { &rest[1..] } else { rest };
        // A path also begins with a slash: an expression ends where its word ends.
        if let Some(inner) = rest.strip_prefix('/')
            && let Some(end) = pattern_end(inner)
        {
            self.0 = &inner[end + 1..];
            let body = &inner[..end];
            return Some(Token {
                body,
                filter: None,
                is_quoted: false,
                is_pattern: true,
                is_excluded,
            });
        }
        let name = rest.find([':', '>', '"']).filter(|at| {
            *at > 0
                && !rest[*at..].starts_with('"')
                && rest[..*at].bytes().all(|b| b.is_ascii_alphabetic())
        });
        let filter =
            name.map(|at| if rest[at..].starts_with('>') { &rest[..=at] } else { &rest[..at] });
        rest = name.map_or(rest, |at| &rest[at + 1..]);
        if let Some(inner) = rest.strip_prefix('"') {
            let end = inner.find('"').unwrap_or(inner.len());
            self.0 = inner.get(end + 1..).unwrap_or_default();
            let body = &inner[..end];
            return Some(Token { body, filter, is_quoted: true, is_pattern: false, is_excluded });
        }
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        self.0 = &rest[end..];
        let body = &rest[..end];
        Some(Token { body, filter, is_quoted: false, is_pattern: false, is_excluded })
    }
}

/// Where a regular expression ends: at a slash with a space or nothing behind it.
fn pattern_end(text: &str) -> Option<usize> {
    let ends = text.char_indices().filter(|(at, c)| {
        let next = text[at + c.len_utf8()..].chars().next();
        *c == '/' && *at > 0 && !text[..*at].ends_with('\\') && next.is_none_or(char::is_whitespace)
    });
    ends.map(|(at, _)| at).next()
}

#[cfg(test)]
#[path = "query_tests.rs"]
mod tests;
