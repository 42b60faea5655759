//! Secrets in clear text: keys, tokens, passwords; where they stand, and texts without them.
//!
//! One rule for all who look for them: `check` counts, `export`, `show --markdown` and `ship` hide
//! what a [`Redactor`] finds. It knows keys by what their makers begin them with and by what they
//! are assigned to (`data/secrets.txt`), and users add rules of their own. Works on decoded text;
//! escapes that are left in it, of JSON in JSON or of a terminal, are borders of words like any
//! sign, so that a line of JSON can be looked through as it stands. Invariants: a value never
//! leaves but as a range; what was redacted has nothing left to redact; JSON stays JSON; nothing
//! but what was found changes.

mod anchor;
mod around;
mod border;
mod command;
mod mask;
mod shape;
mod table;
mod words;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;

pub use mask::{JsonMask, Mask};
pub use table::kinds;

use border::{Plain, printable};
use shape::{Rule, Shape, Text};
use table::TABLE;

/// A secret: its kind, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret<'a> {
    /// What it is, as output names it.
    pub kind: &'a str,
    /// Its bytes in the text.
    pub range: Range<usize>,
}

/// Something that a user wants to be hidden.
pub trait Custom: Debug + Send + Sync {
    /// The name in output.
    fn name(&self) -> &str;
    /// Where it stands, in order, without overlap.
    fn find(&self, text: &str) -> Vec<Range<usize>>;
}

/// Finds secrets.
#[derive(Debug, Default)]
pub struct Redactor {
    custom: Vec<Box<dyn Custom>>,
    allowed: Vec<String>,
}

/// How deep escapes are undone.
const DEPTH: usize = 3;

impl Redactor {
    /// With rules of a user, and values that are none of them: `*` in these stands for anything.
    pub fn new(custom: Vec<Box<dyn Custom>>, allowed: Vec<String>) -> Redactor {
        Redactor { custom, allowed }
    }

    /// The secrets in a text, in order, without overlap.
    ///
    /// ```
    /// use transcript::secret::Redactor;
    ///
    /// let found = Redactor::default();
    /// let found = found.find("export GITHUB_TOKEN=ghp_Zq8Rk2Tn5Wc7Lx0Vb3Hm6Jd9Gp1Fs4Yt0aB2");
    /// assert_eq!((found[0].kind, found[0].range.clone()), ("github-token", 20..60));
    /// ```
    pub fn find(&self, text: &str) -> Vec<Secret<'_>> {
        self.find_in(None, text)
    }

    /// The same in the value of a member of JSON.
    fn find_in(&self, member: Option<&str>, text: &str) -> Vec<Secret<'_>> {
        let bytes = text.as_bytes();
        let mut found = scan(bytes, DEPTH);
        if let Some(range) = member.and_then(|name| around::member(name.as_bytes(), bytes)) {
            found.push((range, ("assigned-secret", usize::MAX)));
        }
        for (number, rule) in self.custom.iter().enumerate() {
            let rank = TABLE.anchors.len() + number;
            found.extend(rule.find(text).into_iter().map(|range| (range, (rule.name(), rank))));
        }
        for (range, _) in &mut found {
            *range = whole_characters(text, range.clone());
        }
        self.settle(found, bytes)
    }

    /// The secrets in a line of JSON, or in what is left of one: kinds, for each secret.
    pub fn find_in_line(&self, line: &[u8]) -> Vec<&str> {
        if !self.custom.is_empty() {
            return mask::kinds_in_json(self, line);
        }
        self.settle(scan(line, DEPTH), line).into_iter().map(|secret| secret.kind).collect()
    }

    /// In order, what overlaps as one, without what is allowed.
    fn settle<'a>(&self, mut found: Vec<Found<'a>>, text: &[u8]) -> Vec<Secret<'a>> {
        found.retain(|(range, _)| !range.is_empty() && !self.allows(&text[range.clone()]));
        found.sort_by_key(|(range, (_, rank))| (range.start, *rank));
        let mut settled: Vec<Found<'a>> = Vec::with_capacity(found.len());
        for (range, named) in found {
            match settled.last_mut() {
                Some((last, name)) if range.start < last.end => {
                    last.end = last.end.max(range.end);
                    *name = std::cmp::min_by_key(*name, named, |(_, rank)| *rank);
                }
                _ => settled.push((range, named)),
            }
        }
        settled.into_iter().map(|(range, (kind, _))| Secret { kind, range }).collect()
    }

    fn allows(&self, value: &[u8]) -> bool {
        self.allowed.iter().any(|pattern| fits(pattern.as_bytes(), value))
    }
}

/// A secret, with its kind and which of several kinds names it.
type Found<'a> = (Range<usize>, (&'a str, usize));

/// What the table finds.
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
            // A key has no other in it, unless one that names it better.
            Shape::Parts { .. } if start < covered.0 && number > covered.1 => {}
            shape @ Shape::Rule(Rule::Curl | Rule::Mysql | Rule::Sshpass | Rule::Redis) => {
                // A line may name a command many times: what is found for one is not told for the
                // next, or there would be more of it than text.
                let from = commands.entry(number).or_insert(0);
                for range in shape.in_command(bytes, end) {
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
        && let Some(plain) = Plain::of(bytes)
    {
        let inner = scan(&plain.text, depth - 1);
        found = inner
            .into_iter()
            .map(|(range, named)| (plain.source(range.start)..plain.source(range.end), named))
            .collect();
    }
    found
}

/// A range that cuts no character in two: more is hidden rather than less.
fn whole_characters(text: &str, range: Range<usize>) -> Range<usize> {
    let start = (0..=range.start).rev().find(|at| text.is_char_boundary(*at));
    let end = (range.end..=text.len()).find(|at| text.is_char_boundary(*at));
    start.unwrap_or_default()..end.unwrap_or(text.len())
}

/// Whether a pattern in which `*` stands for anything fits a value.
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
