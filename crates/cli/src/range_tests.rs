use super::*;

#[test]
fn numbers_count_from_one_and_both_ends_belong() {
    assert_eq!(range("3..5"), Ok(3..=5));
    assert_eq!(range("3..=5"), Ok(3..=5));
    assert_eq!(range("3.."), Ok(3..=u64::MAX));
    assert_eq!(range("..5"), Ok(1..=5));
    assert_eq!(range("7"), Ok(7..=7));
    for wrong in ["0", "0..3", "5..3", "a..b", "-1", ""] {
        assert!(range(wrong).is_err(), "{wrong}");
    }
}
