//! Interned names: each text is kept once.
//!
//! Transcripts repeat ids: every record has its own and its parent's. The texts follow each other
//! in one buffer; an [`Id`] is a number. Invariant: equal texts have equal ids.

use std::hash::BuildHasher;
use std::num::NonZeroU32;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::format::limit::LONGEST_NAME;

/// The number of an interned text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(NonZeroU32);

impl Id {
    /// The number as an index, from 0.
    pub fn index(self) -> usize {
        self.0.get() as usize - 1
    }

    /// The number itself, from 1.
    pub(crate) fn number(self) -> u32 {
        self.0.get()
    }

    fn new(index: usize) -> Option<Self> {
        u32::try_from(index + 1).ok().and_then(NonZeroU32::new).map(Id)
    }
}

/// The interned texts.
#[derive(Clone, Debug, Default)]
pub struct Ids {
    texts: String,
    /// Where each text ends in `texts`.
    ends: Vec<usize>,
    table: HashTable<Id>,
    hasher: DefaultHashBuilder,
}

impl Ids {
    /// How many texts there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All texts, in the order of their ids.
    pub(super) fn all(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.texts[start..*end])
    }

    /// Reserves memory for that many more texts.
    pub(super) fn reserve(&mut self, more: usize) {
        let Ids { texts, ends, table, hasher } = self;
        let each = texts.len() / ends.len().max(1);
        texts.reserve(more * each);
        ends.reserve(more);
        table.reserve(more, |id| hasher.hash_one(text(texts, ends, *id)));
    }

    /// The text of an id.
    pub fn text(&self, id: Id) -> &str {
        text(&self.texts, &self.ends, id)
    }

    /// The id of a text, if it was interned before.
    pub fn find(&self, wanted: &str) -> Option<Id> {
        self.find_hashed(wanted, self.hasher.hash_one(wanted))
    }

    fn find_hashed(&self, wanted: &str, hash: u64) -> Option<Id> {
        self.table.find(hash, |id| self.text(*id) == wanted).copied()
    }

    /// Interns a text. `None` if it is too long for a name, or if there are four billion texts
    /// already.
    pub fn keep(&mut self, wanted: &str) -> Option<Id> {
        if wanted.len() > LONGEST_NAME {
            return None;
        }
        let hash = self.hasher.hash_one(wanted);
        if let Some(id) = self.find_hashed(wanted, hash) {
            return Some(id);
        }
        let id = Id::new(self.ends.len())?;
        self.texts.push_str(wanted);
        self.ends.push(self.texts.len());
        let Ids { texts, ends, table, hasher } = self;
        table.insert_unique(hash, id, |id| hasher.hash_one(text(texts, ends, *id)));
        Some(id)
    }
}

fn text<'a>(texts: &'a str, ends: &[usize], id: Id) -> &'a str {
    let start = id.index().checked_sub(1).map_or(0, |before| ends[before]);
    &texts[start..ends[id.index()]]
}
