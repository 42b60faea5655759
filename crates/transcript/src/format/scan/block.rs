//! The inner loop of reading: where in sixteen bytes a string may end.
//!
//! Strings are nine tenths of a transcript, so this decides how fast it is read. `wide` uses the
//! vector instructions that every processor of a platform has, and plain code where there are none.

use wide::u8x16;

/// How many bytes one vector instruction checks.
pub(super) const SIZE: usize = 16;
/// How many bytes are checked together: one bit for each fits into a `u64`.
pub(super) const MANY: usize = 64;

/// The index of the first byte that cannot be in a string without an escape, or that ends it: a
/// quote, a backslash or a control character.
#[inline]
pub(super) fn first(block: &[u8; SIZE]) -> Option<usize> {
    let found = specials(block);
    (found != 0).then(|| found.trailing_zeros() as usize)
}

/// All such bytes, as one bit each.
#[inline]
pub(super) fn special(blocks: &[u8; MANY]) -> u64 {
    let mut found = 0;
    for (number, block) in blocks.as_chunks::<SIZE>().0.iter().enumerate() {
        found |= u64::from(specials(block)) << (number * SIZE);
    }
    found
}

#[inline]
fn specials(block: &[u8; SIZE]) -> u32 {
    let bytes = u8x16::new(*block);
    let quote = bytes.simd_eq(u8x16::splat(b'"'));
    let slash = bytes.simd_eq(u8x16::splat(b'\\'));
    let control = bytes.simd_eq(bytes.min(u8x16::splat(0x1f)));
    (quote | slash | control).to_bitmask()
}

#[cfg(test)]
#[path = "block_tests.rs"]
mod tests;
