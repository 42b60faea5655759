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
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Bytes near the special ones, to test signs and carries.
        #[test]
        fn finds_what_a_plain_search_finds(block in prop::array::uniform16(prop::sample::select(
            vec![0_u8, 0x1f, 0x20, 0x21, b'"', 0x23, b'[', b'\\', b']', b'a', 0x7f, 0x80, 0xa2, 0xdc, 0xff],
        ))) {
            let plain = block.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20));
            prop_assert_eq!(first(&block), plain);
            let mut blocks = [b'a'; MANY];
            blocks[32..48].copy_from_slice(&block);
            blocks[63] = b'"';
            let many = special(&blocks);
            prop_assert_eq!((many >> 32) as usize & 0xffff, specials(&block) as usize);
            prop_assert_eq!((many & 0xffff_ffff, many >> 48), (0, 1 << 15));
        }
    }
}
