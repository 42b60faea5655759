use proptest::prelude::*;

use super::*;

/// Where a string ends, one byte after the other.
fn plain_end(line: &[u8], start: usize) -> usize {
    let mut at = start;
    while at < line.len() {
        match line[at] {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    line.len()
}

proptest! {
    #[test]
    fn a_string_ends_at_the_first_quote_without_a_backslash(
        parts in prop::collection::vec(prop::sample::select(vec![
            &b"a"[..], b"\\\"", b"\\\\", b"\\", b"\n", b"\x01", b"\xff", b"0123456789abcdefghijklmnopqrs",
        ]), 0..60),
        has_end in any::<bool>(),
    ) {
        let mut line = parts.concat();
        line.extend(has_end.then_some(b'"'));
        line.extend(b"rest \" of the line");
        for start in [0, line.len() / 2] {
            prop_assert_eq!(end_of(&line, start), plain_end(&line, start));
        }
    }
}
