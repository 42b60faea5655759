//! Damages files as it happens in practice, and knows what must survive.
//!
//! Each kind of damage knows which bytes of the original it does not touch, and where these are
//! afterwards, so that a test can ask for every untouched record.

use std::ops::Range;

use crate::Rng;

/// A damaged file.
#[derive(Clone, Debug)]
pub struct Damaged {
    /// What was done, as text.
    pub what: String,
    /// The bytes afterwards.
    pub bytes: Vec<u8>,
    /// The original bytes that are missing or changed; empty if something was only inserted.
    hurt: Range<usize>,
    /// By how much the bytes after `hurt` have moved to the right.
    shift: isize,
}

impl Damaged {
    /// Where a range of the original is now; `None` if it was touched.
    pub fn place(&self, range: &Range<usize>) -> Option<usize> {
        if range.end <= self.hurt.start {
            Some(range.start)
        } else if range.start >= self.hurt.end {
            range.start.checked_add_signed(self.shift)
        } else {
            None
        }
    }
}

/// Damages a file in one of the ways that are seen in practice.
pub fn damage(original: &[u8], rng: &mut Rng) -> Damaged {
    let newlines: Vec<usize> = (0..original.len()).filter(|at| original[*at] == b'\n').collect();
    let any = rng.below(original.len().max(1));
    let length = 1 + rng.below(3_000);
    let stretch = any..(any + length).min(original.len());
    match rng.below(8) {
        0 => replace(original, "torn end", any..original.len(), &[]),
        1 => replace(original, "cut", stretch, &[]),
        2 => {
            // From the middle of a record to just before another: the rest is glued to a whole one.
            let end = newlines.iter().find(|at| **at >= any).map_or(original.len(), |at| at + 1);
            replace(original, "cut off and glued", any.min(end)..end, &[])
        }
        3 => {
            let at = if newlines.is_empty() { any } else { *rng.pick(&newlines) };
            replace(original, "newline lost", at..(at + 1).min(original.len()), &[])
        }
        4 => {
            let zeros = vec![0; stretch.len()];
            replace(original, "overwritten with NUL", stretch, &zeros)
        }
        5 => {
            let at = if newlines.is_empty() { any } else { rng.pick(&newlines) + 1 };
            replace(original, "NUL run put in", at..at, &vec![0; length])
        }
        6 => {
            let noise: Vec<u8> = (0..=rng.below(40)).map(|_| rng.byte()).collect();
            replace(original, "noise put in", any..any, &noise)
        }
        _ => {
            let byte = rng.byte();
            replace(original, "byte flipped", any..(any + 1).min(original.len()), &[byte])
        }
    }
}

fn replace(original: &[u8], what: &str, hurt: Range<usize>, by: &[u8]) -> Damaged {
    let mut bytes = original[..hurt.start].to_vec();
    bytes.extend_from_slice(by);
    bytes.extend_from_slice(&original[hurt.end..]);
    let shift = by.len().cast_signed() - hurt.len().cast_signed();
    let what = format!("{what}: {} bytes at {} became {}", hurt.len(), hurt.start, by.len());
    Damaged { what, bytes, hurt, shift }
}
