//! Texts that the rules were tried on and in which they found nothing, so that no text is searched
//! twice: when a session is rewritten or shown, most of its texts are what they were.
//!
//! Invariants: only whole texts are known, by 128 bits of hashes with seeds of this run; how many
//! are known is bounded; texts whose name can make them a secret are never known. A text as it is
//! written in JSON is not taken for a text that is decoded: the same bytes may mean another one.

use std::hash::{BuildHasher, Hash};

use hashbrown::{DefaultHashBuilder, HashSet};

/// The length of the shortest text that is remembered for the whole run.
const SHORTEST: usize = 128;
/// What is hashed before a decoded text.
const DECODED: &str = "decoded";
/// How many texts are remembered.
const MOST: usize = 1 << 18;

/// The hashes of texts.
#[derive(Clone, Debug, Default)]
pub(super) struct Seeds([DefaultHashBuilder; 2]);

impl Seeds {
    /// The hash of a text as it is written in JSON.
    pub(super) fn hash(&self, text: &[u8]) -> u128 {
        self.of(text)
    }

    /// The hash of a text that was decoded; `None` if it is not worth one.
    pub(super) fn hash_decoded(&self, text: &str) -> Option<u128> {
        let bytes = text.as_bytes();
        // Without an escape, both are the same.
        let is_same = || memchr::memchr(b'\\', bytes).is_none();
        let hash = || if is_same() { self.of(bytes) } else { self.of((DECODED, bytes)) };
        (bytes.len() >= SHORTEST).then(hash)
    }

    fn of(&self, text: impl Hash + Copy) -> u128 {
        let [one, other] = &self.0;
        u128::from(one.hash_one(text)) << 64 | u128::from(other.hash_one(text))
    }
}

/// Whether a text is so long that it is remembered for the whole run.
pub(super) fn is_long(text: &[u8]) -> bool {
    text.len() >= SHORTEST
}

/// Short texts in which nothing was found lately. Ids, names and paths are in one record after
/// another; which of them are forgotten first does not matter.
pub(super) struct Lately(Vec<u128>);

/// How many short texts are remembered, as a power of two.
const SLOTS: usize = 1 << 11;

impl Default for Lately {
    fn default() -> Self {
        Lately(vec![0; SLOTS])
    }
}

impl Lately {
    fn slot(hash: u128) -> usize {
        #[allow(clippy::cast_possible_truncation, reason = "any bits of it will do")]
        let bits = hash as usize;
        bits % SLOTS
    }

    pub(super) fn has(&self, text: u128) -> bool {
        self.0[Lately::slot(text)] == text
    }

    pub(super) fn add(&mut self, text: u128) {
        self.0[Lately::slot(text)] = text;
    }
}

/// Texts without secrets.
#[derive(Default)]
pub(super) struct Searched {
    pub(super) seeds: Seeds,
    clean: HashSet<u128>,
}

impl Searched {
    pub(super) fn has(&self, text: u128) -> bool {
        self.clean.contains(&text)
    }

    /// Whether that is a text, decoded, in which nothing was found.
    pub(super) fn has_decoded(&self, text: &str) -> bool {
        self.seeds.hash_decoded(text).is_some_and(|hash| self.has(hash))
    }

    pub(super) fn add(&mut self, texts: impl IntoIterator<Item = u128>) {
        for text in texts {
            if self.clean.len() == MOST {
                break;
            }
            self.clean.insert(text);
        }
    }
}
