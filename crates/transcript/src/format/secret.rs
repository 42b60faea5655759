//! Secrets in clear text: keys, tokens, passwords. Finds them, and removes them from texts.
//!
//! Everything that looks for secrets uses the same code: `check` counts what a [`Redactor`] finds;
//! `export`, `show --markdown` and `ship` hide it. It recognizes keys by their vendor prefixes and
//! by the names that they are assigned to (`data/secrets.txt`), and users can add their own rules.
//! It works on decoded text. Escapes that are left in the text, from nested JSON or from a
//! terminal, are word boundaries like any other sign, so a line of JSON can be searched as it is.
//! Invariants: a value is only ever returned as a range; redacted text contains nothing left to
//! redact; JSON stays JSON; nothing except the secrets changes.

mod anchor;
mod apart;
mod beside;
mod border;
mod canon;
mod coded;
mod command;
mod context;
mod cookie;
mod cover;
mod deep;
mod grams;
mod key_lines;
mod lines;
mod mask;
mod media;
mod password;
mod placeholder;
mod plain;
mod searched;
mod shape;
mod spot;
mod strings;
mod survey;
mod table;
mod values;
mod words;
mod wrap;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;

pub use cover::Cover;
pub use mask::{JsonMask, Mask};
pub use spot::Spot;
pub use survey::{Form, Sighting, Survey, survey, survey_name};
pub use table::kinds;
pub use values::Values;

use border::printable;
use plain::Plain;
use shape::{Rule, Shape, Text};
use table::TABLE;

/// A secret: its kind and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret<'a> {
    /// The name of its kind, as it is printed.
    pub kind: &'a str,
    /// Its byte range in the text.
    pub range: Range<usize>,
}

/// A user's own rule for what to hide.
pub trait Custom: Debug + Send + Sync {
    /// The name of its kind, as it is printed.
    fn name(&self) -> &str;
    /// The ranges to hide, in order, without overlap.
    fn find(&self, text: &str) -> Vec<Range<usize>>;
}

/// Finds secrets.
#[derive(Debug, Default)]
pub struct Redactor {
    custom: Vec<Box<dyn Custom>>,
    allowed: Vec<String>,
}

/// How many levels of escapes are decoded.
const DEPTH: usize = 3;

impl Redactor {
    /// A redactor with a user's own rules, and with values that are never secrets; `*` in these
    /// values matches anything.
    pub fn new(custom: Vec<Box<dyn Custom>>, allowed: Vec<String>) -> Redactor {
        Redactor { custom, allowed }
    }

    /// The secrets in a text, in order, without overlap.
    ///
    /// ```
    /// use transcript::format::secret::Redactor;
    ///
    /// let found = Redactor::default();
    /// let found = found.find("export GITHUB_TOKEN=ghp_Zq8Rk2Tn5Wc7Lx0Vb3Hm6Jd9Gp1Fs4Yt0aB2");
    /// assert_eq!((found[0].kind, found[0].range.clone()), ("github-token", 20..60));
    /// ```
    pub fn find(&self, text: &str) -> Vec<Secret<'_>> {
        self.find_in(None, text)
    }

    /// Like [`Redactor::find`], for the value of a JSON member.
    fn find_in(&self, member: Option<&str>, text: &str) -> Vec<Secret<'_>> {
        let found = self.scan_all(member, text);
        // Nearly always nothing is.
        if found.is_empty() {
            return Vec::new();
        }
        let found = self.outside_placeholders(found, text.as_bytes(), |blank| {
            self.scan_all(member, &plain::same_length(blank))
        });
        found.into_iter().map(|(range, (kind, _))| Secret { kind, range }).collect()
    }

    /// What the table describes, with the ranks of the kinds.
    fn find_ranked(&self, text: &[u8]) -> Vec<Found<'_>> {
        let found = self.merge(scan(text, DEPTH), text);
        self.outside_placeholders(found, text, |blank| self.merge(scan(blank, DEPTH), blank))
    }

    /// What was found in a text, without its placeholders. `again` looks for it in a text whose
    /// placeholders are blank.
    fn outside_placeholders<'a>(
        &self,
        found: Vec<Found<'a>>,
        text: &[u8],
        again: impl FnOnce(&[u8]) -> Vec<Found<'a>>,
    ) -> Vec<Found<'a>> {
        let places = if found.is_empty() { Vec::new() } else { placeholder::places(self, text) };
        if places.is_empty() {
            return found;
        }
        placeholder::outside(again(&placeholder::blanked(text, &places)), text, &places)
    }

    /// What all rules find, wherever they match.
    fn scan_all(&self, member: Option<&str>, text: &str) -> Vec<Found<'_>> {
        let bytes = text.as_bytes();
        let mut found = scan(bytes, DEPTH);
        if let Some(range) = member.and_then(|name| context::member(name.as_bytes(), bytes)) {
            found.push((range, ("assigned-secret", usize::MAX)));
        }
        for (number, rule) in self.custom.iter().enumerate() {
            let rank = TABLE.anchors.len() + number;
            found.extend(rule.find(text).into_iter().map(|range| (range, (rule.name(), rank))));
        }
        for (range, _) in &mut found {
            *range = whole_characters(text, range.clone());
        }
        self.merge(found, bytes)
    }

    /// The kind of each secret in a line of JSON, or in a fragment of one.
    pub fn find_in_line(&self, line: &[u8]) -> Vec<&str> {
        if !self.custom.is_empty() {
            return mask::kinds_in_json(self, line);
        }
        self.find_ranked(line).into_iter().map(|(_, (kind, _))| kind).collect()
    }

    /// Sorts the secrets, merges those that overlap, and removes allowed values.
    fn merge<'a>(&self, mut found: Vec<Found<'a>>, text: &[u8]) -> Vec<Found<'a>> {
        found.retain(|(range, _)| !range.is_empty() && !self.allows(&text[range.clone()]));
        found.sort_by_key(|(range, (_, rank))| (range.start, *rank));
        let mut merged: Vec<Found<'a>> = Vec::with_capacity(found.len());
        for (range, named) in found {
            match merged.last_mut() {
                Some((last, name)) if range.start < last.end => {
                    last.end = last.end.max(range.end);
                    *name = std::cmp::min_by_key(*name, named, |(_, rank)| *rank);
                }
                _ => merged.push((range, named)),
            }
        }
        merged
    }

    fn allows(&self, value: &[u8]) -> bool {
        self.allowed.iter().any(|pattern| fits(pattern.as_bytes(), value))
    }
}

/// The range of a secret, its kind, and the rank that decides between several kinds.
type Found<'a> = (Range<usize>, (&'a str, usize));

/// The secrets that the table describes.
fn scan<'a>(bytes: &[u8], depth: usize) -> Vec<Found<'a>> {
    let text = Text::new(bytes);
    let mut found = Vec::new();
    let (mut has_escapes, mut covered) = (false, (0, 0));
    let mut commands = BTreeMap::new();
    TABLE.finder.each(&TABLE.anchors, bytes, |number, start| {
        let anchor = &TABLE.anchors[number];
        let end = start + anchor.text.len();
        match &anchor.shape {
            Shape::Rule(Rule::Escape) => has_escapes |= printable(bytes, end).is_some(),
            // A key contains no other key, unless that one ranks higher in the table.
            Shape::Parts { .. } if start < covered.0 && number > covered.1 => {}
            Shape::Rule(rule) if rule.is_of_command() => {
                // A line may contain the name of a command many times. What was found after one is
                // not reported again after the next; otherwise there could be more findings than
                // text.
                let from = commands.entry(number).or_insert(0);
                for range in rule.in_command(bytes, end) {
                    if range.start >= *from {
                        *from = range.end;
                        found.push((range, (anchor.kind, number)));
                    }
                }
            }
            shape => {
                let Some(range) = shape.place(&text, start..end) else { return };
                if matches!(shape, Shape::Parts { .. }) {
                    covered = covered.max((range.end, number));
                }
                found.push((range, (anchor.kind, number)));
            }
        }
    });
    for (rule, range) in shape::unannounced(bytes) {
        let is_it = |number: &&usize| TABLE.anchors[**number].shape == Shape::Rule(rule);
        if let Some(number) = TABLE.unannounced.iter().find(is_it) {
            found.push((range, (TABLE.anchors[*number].kind, *number)));
        }
    }
    if has_escapes
        && depth > 0
        && let Some(plain) = Plain::of_letters(bytes)
    {
        let inner = scan(&plain.text, depth - 1).into_iter();
        let inner = inner.filter(|(range, _)| !range.is_empty());
        found = inner.map(|(range, named)| (plain.source(&range), named)).collect();
    }
    found
}

/// Extends a range to whole characters: rather hide more than less.
fn whole_characters(text: &str, range: Range<usize>) -> Range<usize> {
    let start = (0..=range.start).rev().find(|at| text.is_char_boundary(*at));
    let end = (range.end..=text.len()).find(|at| text.is_char_boundary(*at));
    start.unwrap_or_default()..end.unwrap_or(text.len())
}

/// Whether a value matches a pattern in which `*` matches anything.
fn fits(pattern: &[u8], value: &[u8]) -> bool {
    let mut parts = pattern.split(|byte| *byte == b'*');
    let Some(mut rest) = parts.next().and_then(|first| value.strip_prefix(first)) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = memchr::memmem::find(rest, part) else { return false };
        rest = &rest[at + part.len()..];
    }
    false
}

#[cfg(test)]
#[path = "secret_tests.rs"]
mod tests;
