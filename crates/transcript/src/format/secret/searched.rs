//! Texts that the rules were tried on and in which they found nothing, so that no text is searched
//! twice: when a session was rewritten, most of its texts are what they were.
//!
//! Invariants: only whole texts are known, by 128 bits of hashes with seeds of this run; how many
//! are known is bounded; texts whose name can make them a secret are never known.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashSet};

/// The length of the shortest text that is remembered: shorter ones are searched as fast.
const SHORTEST: usize = 128;
/// How many texts are remembered.
const MOST: usize = 1 << 18;

/// The hashes of texts.
#[derive(Clone, Debug, Default)]
pub(super) struct Seeds([DefaultHashBuilder; 2]);

impl Seeds {
    /// The hash of a text; `None` if it is not worth one.
    pub(super) fn hash(&self, text: &[u8]) -> Option<u128> {
        let [one, other] = &self.0;
        let hash = || u128::from(one.hash_one(text)) << 64 | u128::from(other.hash_one(text));
        (text.len() >= SHORTEST).then(hash)
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

    pub(super) fn add(&mut self, texts: impl IntoIterator<Item = u128>) {
        for text in texts {
            if self.clean.len() == MOST {
                break;
            }
            self.clean.insert(text);
        }
    }
}
