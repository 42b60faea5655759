//! The inner loops of reading: where in some bytes a string may end, or has an escape.
//!
//! Strings are nine tenths of a transcript, so this decides how fast it is read. `wide` uses the
//! vector instructions that every processor of a platform has, and plain code where there are none.

use wide::u8x16;

/// How many bytes one vector instruction checks.
pub(super) const SIZE: usize = 16;
/// How many bytes are checked together: one bit for each fits into a `u64`.
pub(in crate::format) const MANY: usize = 64;

/// The bytes from an offset on, filled up with zeros behind the end.
#[inline]
pub(in crate::format) fn at(bytes: &[u8], at: usize) -> [u8; MANY] {
    let rest = &bytes[at..];
    if let Some(block) = rest.first_chunk() {
        return *block;
    }
    let mut block = [0; MANY];
    block[..rest.len()].copy_from_slice(rest);
    block
}

/// The index of the first byte that cannot be in a string without an escape, or that ends it: a
/// quote, a backslash or a control character.
#[inline]
pub(super) fn first(block: &[u8; SIZE]) -> Option<usize> {
    let found = specials(block);
    (found != 0).then(|| found.trailing_zeros() as usize)
}

/// All such bytes, as one bit each.
#[inline]
pub(in crate::format) fn special(blocks: &[u8; MANY]) -> u64 {
    let mut found = 0;
    for (number, block) in blocks.as_chunks::<SIZE>().0.iter().enumerate() {
        found |= u64::from(specials(block)) << (number * SIZE);
    }
    found
}

/// All backslashes, as one bit each.
#[inline]
pub(in crate::format) fn slashes(blocks: &[u8; MANY]) -> u64 {
    let mut found = 0;
    for (number, block) in blocks.as_chunks::<SIZE>().0.iter().enumerate() {
        let slash = u8x16::new(*block).simd_eq(u8x16::splat(b'\\'));
        found |= u64::from(slash.to_bitmask()) << (number * SIZE);
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
