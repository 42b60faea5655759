use std::collections::BTreeMap;

use super::*;

/// Every single bit counts.
#[test]
fn a_changed_bit_is_noticed() {
    let value = BTreeMap::from([("a".to_owned(), 1_u64), ("b".to_owned(), 22)]);
    let line = seal(&value).unwrap();
    assert_eq!(unseal::<BTreeMap<String, u64>>(&line), Some(value.clone()));
    for at in 0..line.len() - 1 {
        for bit in 0..8 {
            let mut other = line.clone();
            other[at] ^= 1 << bit;
            let read = unseal::<BTreeMap<String, u64>>(&other);
            assert_eq!(read, None, "bit {bit} of byte {at}");
        }
    }
    for end in 0..line.len() - 1 {
        assert_eq!(unseal::<BTreeMap<String, u64>>(&line[..end]), None, "cut at {end}");
    }
}

#[test]
fn what_has_no_hash_is_not_believed() {
    assert_eq!(unseal::<BTreeMap<String, u64>>(b"{\"a\":1}\n"), None);
}
