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
        let is_slash = |at: &u32| blocks[*at as usize] == b'\\';
        let plain = (0..u64::BITS).filter(is_slash).fold(0, |found, at| found | 1 << at);
        prop_assert_eq!(slashes(&blocks), plain);
    }
}
