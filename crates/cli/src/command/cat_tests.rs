use super::*;

#[test]
fn lines_are_counted_from_one_and_both_ends_belong() {
    assert_eq!(parse_lines("3..5"), Ok(3..=5));
    assert_eq!(parse_lines("3..=5"), Ok(3..=5));
    assert_eq!(parse_lines("3.."), Ok(3..=u64::MAX));
    assert_eq!(parse_lines("..5"), Ok(1..=5));
    assert_eq!(parse_lines("7"), Ok(7..=7));
    for wrong in ["0", "0..3", "5..3", "a..b", "-1", ""] {
        assert!(parse_lines(wrong).is_err(), "{wrong}");
    }
}
