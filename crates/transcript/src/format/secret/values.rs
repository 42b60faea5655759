//! The secrets that were found, and the parts of them that would give them away.
//!
//! A secret is what its canonical bytes are, however it is written; its placeholder is made of its
//! kind and a number, never of the secret. Invariants: nothing here prints a secret; of two kinds
//! that fit the same secret, the one that stands first in the table names it.

use std::fmt;
use std::sync::LazyLock;

use hashbrown::HashMap;

use super::canon::{Canon, Escaping};
use super::context::{self, KEY_LINE, is_key_char, is_made};
use super::deep::Hit;
use super::searched::Searched;
use super::{kinds, words};

/// How many secrets are looked for in every place. Further ones are hidden only where they are
/// recognized.
pub(super) const MOST: usize = 4_096;
/// How many secrets are told apart. Further ones get a placeholder without a number.
const REMEMBERED: usize = 1 << 16;
/// The shortest secret, and the shortest number, that is looked for in every place.
pub(super) const SHORTEST: usize = 8;
const SHORTEST_NUMBER: usize = 12;
/// The shortest part of an address that is a secret on its own.
const TOKEN: usize = 20;

/// Secrets, in the order in which they were found.
#[derive(Default)]
pub struct Values {
    pub(super) list: Vec<Value>,
    /// The texts that have none of them.
    pub(super) searched: Searched,
    by_canon: HashMap<Vec<u8>, usize>,
}

/// One secret.
pub(super) struct Value {
    pub(super) kind: String,
    /// Its kind is a rule of the user.
    pub(super) is_custom: bool,
    /// The secret itself, and the parts of it that are secret on their own.
    pub(super) forms: Vec<Vec<u8>>,
}

impl fmt::Debug for Values {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Values({})", self.list.len())
    }
}

impl Values {
    /// How many different secrets there are, by kind, in the order of their first occurrence.
    pub fn kinds(&self) -> Vec<(&str, u64)> {
        let mut counts: Vec<(&str, u64)> = Vec::new();
        for value in &self.list {
            match counts.iter_mut().find(|(kind, _)| *kind == value.kind) {
                Some((_, count)) => *count += 1,
                None => counts.push((&value.kind, 1)),
            }
        }
        counts
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The number of a secret, which may be new; if there are too many, one that nothing has.
    pub(super) fn add(&mut self, kind: &str, value: &[u8], parts: Vec<Vec<u8>>) -> usize {
        let key = key_of(value);
        if let Some(known) = self.by_canon.get(&key) {
            let value = &mut self.list[*known];
            if rank(kind) < rank(&value.kind) {
                kind.clone_into(&mut value.kind);
                value.is_custom = rank(kind) == usize::MAX;
            }
            return *known;
        }
        if self.list.len() >= REMEMBERED {
            return usize::MAX;
        }
        let mut forms = vec![value.to_vec()];
        forms.extend(parts);
        let is_custom = rank(kind) == usize::MAX;
        self.list.push(Value { kind: kind.to_owned(), is_custom, forms });
        self.by_canon.insert(key, self.list.len() - 1);
        self.list.len() - 1
    }

    /// Adds the secrets of other files.
    pub fn add_all(&mut self, others: Values) {
        for Value { kind, mut forms, .. } in others.list {
            let parts = forms.split_off(1);
            self.add(&kind, &forms[0], parts);
        }
    }

    /// Adds a part to a secret.
    pub(super) fn add_part(&mut self, number: usize, part: &[u8]) {
        if let Some(value) = self.list.get_mut(number) {
            value.forms.push(part.to_vec());
        }
    }

    /// The number of a secret that is known.
    pub(super) fn number(&self, value: &[u8]) -> Option<usize> {
        self.by_canon.get(&key_of(value)).copied()
    }

    /// The placeholders, by number.
    pub(super) fn placeholders(&self) -> Vec<String> {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        let name = |value: &Value| value.kind.clone();
        let numbered = self.list.iter().map(|value| {
            let count = counts.entry(&value.kind).or_default();
            *count += 1;
            format!("[redacted:{}:{count}]", name(value))
        });
        numbered.collect()
    }
}

/// Where a kind stands in the table; rules of users are last.
fn rank(kind: &str) -> usize {
    static RANKS: LazyLock<HashMap<&str, usize>> =
        LazyLock::new(|| kinds().into_iter().zip(0..).collect());
    RANKS.get(kind).copied().unwrap_or(usize::MAX)
}

/// What makes two ways to write a secret the same.
fn key_of(value: &[u8]) -> Vec<u8> {
    let canon = Canon::of(value, Escaping::Escapes).bytes;
    if canon.is_empty() { value.to_vec() } else { canon }
}

/// The parts of a secret that are secret on their own.
pub(super) fn parts_of(hit: &Hit<'_>) -> Vec<Vec<u8>> {
    let value = &hit.value;
    match hit.kind {
        "private-key" => key_lines(value),
        "cookie" => {
            let pairs = value.split(|byte| *byte == b';');
            let values = pairs.filter_map(|pair| {
                let equals = memchr::memchr(b'=', pair)?;
                let value = pair[equals + 1..].trim_ascii();
                (value.len() >= SHORTEST && is_made(value)).then(|| value.to_vec())
            });
            values.collect()
        }
        // The address is public up to its last parts.
        "slack-webhook" | "discord-webhook" | "teams-webhook" => {
            let parts = value.split(|byte| matches!(byte, b'/' | b'@' | b'?'));
            parts.filter(|part| part.len() >= TOKEN && is_made(part)).map(<[u8]>::to_vec).collect()
        }
        "azure-sas" => {
            let equals = memchr::memchr(b'=', value).map(|equals| value[equals + 1..].to_vec());
            equals.into_iter().collect()
        }
        "basic-auth" | "assigned-secret" => {
            context::pair(value).filter(|password| password.len() >= SHORTEST).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// The lines of a key's body, without what precedes each.
fn key_lines(key: &[u8]) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    let mut at = 0;
    while at < key.len() {
        let run = key[at..].iter().take_while(|byte| is_key_char(**byte)).count();
        // The letter of an escape.
        let is_escape = at > 0 && key[at - 1] == b'\\' && b"nrt".contains(&key[at]);
        let line = &key[at + usize::from(is_escape && run > 0)..at + run];
        if line.len() >= KEY_LINE {
            lines.push(line.to_vec());
        }
        at += run.max(1);
    }
    lines
}

/// Whether a form of a secret is distinctive enough to be looked for in every place.
pub(super) fn is_distinctive(value: &Value, canon: &[u8]) -> bool {
    if value.is_custom {
        return canon.len() >= super::grams::CONTIGUOUS;
    }
    let is_number = canon.iter().all(u8::is_ascii_digit);
    let has_digit = canon.iter().any(u8::is_ascii_digit);
    let shortest = if is_number { SHORTEST_NUMBER } else { SHORTEST };
    canon.len() >= shortest && (has_digit || !words::reads_as_words(canon))
}
