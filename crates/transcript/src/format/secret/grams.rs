//! Finds many values at once, by four bytes of each.
//!
//! Only every fourth place of a text is looked at: a value of seven bytes or more has one of its
//! groups of four bytes at such a place. Invariant: every occurrence of a pattern, and for
//! [`Grams::touches`] every part of one that has [`CONTIGUOUS`] bytes, is found.

use std::ops::Range;

use hashbrown::HashMap;

/// How many bytes a group has, and how far apart the places are that are looked at.
const GRAM: usize = 4;
/// The length of the shortest part of a pattern that is found.
pub(super) const CONTIGUOUS: usize = 2 * GRAM - 1;
/// The number of bits of the filter: 128 KB, so that a hundred secrets leave most of it empty.
const BITS: usize = 1 << 20;

/// Patterns, and where their groups are.
pub(super) struct Grams {
    patterns: Vec<Vec<u8>>,
    /// For each group, in which patterns it is, and at which offset.
    places: HashMap<u32, Vec<(u32, u32)>>,
    /// A bit for each group, to pass over most places quickly.
    filter: Vec<u64>,
}

impl Grams {
    /// Patterns that are found only as a whole.
    pub(super) fn whole(patterns: Vec<Vec<u8>>) -> Grams {
        Grams::new(patterns, |_| 0..GRAM)
    }

    /// Patterns that are found also in part. Of a long one, its front and its end are known.
    pub(super) fn parts(patterns: Vec<Vec<u8>>) -> Grams {
        let ends = |pattern: &[u8]| pattern.len().saturating_sub(LONG)..pattern.len();
        let mut cut: Vec<Vec<u8>> = Vec::with_capacity(patterns.len());
        for pattern in patterns {
            if pattern.len() > 2 * LONG {
                cut.push(pattern[ends(&pattern)].to_vec());
                cut.push(pattern[..LONG].to_vec());
            } else {
                cut.push(pattern);
            }
        }
        Grams::new(cut, |pattern| 0..pattern.len())
    }

    fn new(patterns: Vec<Vec<u8>>, offsets: impl Fn(&[u8]) -> Range<usize>) -> Grams {
        let mut places: HashMap<u32, Vec<(u32, u32)>> = HashMap::new();
        let mut filter = vec![0; BITS / 64];
        for (number, pattern) in patterns.iter().enumerate() {
            for (offset, group) in pattern.windows(GRAM).enumerate() {
                if !offsets(pattern).contains(&offset) {
                    break;
                }
                let group = group_of(group);
                let bit = bit_of(group);
                filter[bit / 64] |= 1 << (bit % 64);
                let [number, offset] = [number, offset].map(|one| u32::try_from(one).unwrap_or(0));
                places.entry(group).or_default().push((number, offset));
            }
        }
        Grams { patterns, places, filter }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Whether a text has seven bytes of a pattern in a row.
    pub(super) fn touches(&self, text: &[u8]) -> bool {
        self.places(text, |at, number, offset| {
            let pattern = &self.patterns[number];
            let before = text[..at].iter().rev().zip(pattern[..offset].iter().rev());
            let after = text[at..].iter().zip(&pattern[offset..]);
            let same = |(one, other): &(&u8, &u8)| one == other;
            before.take_while(same).count() + after.take_while(same).count() >= CONTIGUOUS
        })
    }

    /// Calls `take` for each occurrence of a pattern with its number and its range.
    pub(super) fn each(&self, text: &[u8], mut take: impl FnMut(usize, Range<usize>)) {
        self.places(text, |at, number, offset| {
            let pattern = &self.patterns[number];
            if let Some(start) = at.checked_sub(offset)
                && text[start..].starts_with(pattern)
            {
                take(number, start..start + pattern.len());
            }
            false
        });
    }

    /// Calls `is_it` for each place with a known group, until it returns true.
    fn places(&self, text: &[u8], mut is_it: impl FnMut(usize, usize, usize) -> bool) -> bool {
        if self.is_empty() {
            return false;
        }
        for (number, group) in text.chunks_exact(GRAM).enumerate() {
            let group = group_of(group);
            let bit = bit_of(group);
            if self.filter[bit / 64] >> (bit % 64) & 1 == 0 {
                continue;
            }
            for (pattern, offset) in self.places.get(&group).into_iter().flatten() {
                if is_it(number * GRAM, *pattern as usize, *offset as usize) {
                    return true;
                }
            }
        }
        false
    }
}

/// How much of the front and of the end of a long pattern is known.
const LONG: usize = 128;

fn group_of(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn bit_of(group: u32) -> usize {
    (group.wrapping_mul(0x9e37_79b1) >> 12) as usize % BITS
}
