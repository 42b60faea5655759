use proptest::prelude::*;

use super::*;

/// Every byte is a character of base64 or is not, whichever way it is asked.
#[test]
fn characters_are_known_together_as_one_by_one() {
    for byte in 0..=u8::MAX {
        let expected = if is_base64(byte) { u64::MAX } else { 0 };
        assert_eq!(known_in(&[byte; block::MANY]), expected, "{byte:#x}");
    }
}

proptest! {
    #[test]
    fn the_next_run_is_the_first_window_of_base64(
        lengths in prop::collection::vec((0..70_usize, 1..3_usize), 0..12),
        from in 0..40_usize,
    ) {
        let mut text = Vec::new();
        for (run, others) in lengths {
            text.extend(std::iter::repeat_n(b'A', run));
            text.extend(std::iter::repeat_n(b' ', others));
        }
        let windows = text.get(from..).unwrap_or_default().windows(SHORTEST_RUN);
        let plain = windows.into_iter().position(|run| run.iter().all(|byte| is_base64(*byte)));
        prop_assert_eq!(next_run(&text, from), plain.map(|at| from + at));
    }
}
