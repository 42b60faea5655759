//! Fuzzing on stable Rust: arbitrary bytes and mutated genuine files, with reproducible random
//! numbers.
//!
//! Invariant: the same seed produces the same input, so that a failure can be reproduced by the
//! number in its report.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::Rng;

/// An input that takes longer than this counts as a hang.
const SLOWEST: Duration = Duration::from_secs(1);
/// How many changes are made to a seed, at most.
const CHANGES: usize = 8;
/// How much memory all inputs together may take.
const MEMORY: u64 = 64 << 20;
/// Longest input. Repeated duplication of long seeds would fill memory without testing the reader.
const LONGEST: usize = 1 << 16;
/// Bytes that are special to the readers of JSON, TOML and lines.
const TELLING: &[u8] = b"{}[]()\",:\\/*@=#%.-+0189eEu\n\r\t \0\x1b\x7f\x80\xff";

/// Creates inputs.
#[derive(Clone, Debug)]
pub struct Mutator {
    rng: Rng,
}

impl Mutator {
    /// Creates inputs from `seed`.
    pub fn new(seed: u64) -> Self {
        Mutator { rng: Rng::new(seed) }
    }

    /// The next input: sometimes arbitrary bytes, mostly one of the seeds with changes.
    pub fn bytes(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        if seeds.is_empty() || self.rng.below(5) == 0 {
            return self.arbitrary();
        }
        let mut bytes = self.rng.pick(seeds).clone();
        bytes.truncate(LONGEST);
        for _ in 0..=self.rng.below(CHANGES) {
            self.change(&mut bytes, seeds);
        }
        bytes.truncate(LONGEST);
        bytes
    }

    /// Random bytes, or random bytes of the reader's grammar.
    fn arbitrary(&mut self) -> Vec<u8> {
        let (len, is_telling) = (self.rng.below(512), self.rng.below(2) == 0);
        let byte = |rng: &mut Rng| if is_telling { *rng.pick(TELLING) } else { rng.byte() };
        (0..len).map(|_| byte(&mut self.rng)).collect()
    }

    fn change(&mut self, bytes: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        let rng = &mut self.rng;
        let at = rng.below(bytes.len() + 1);
        let end = (at + rng.below(64)).min(bytes.len());
        match rng.below(8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
            1 if at < bytes.len() => bytes[at] = *rng.pick(TELLING),
            2 => drop(bytes.drain(at..end)),
            3 => bytes.insert(at, rng.byte()),
            4 => bytes.insert(at, *rng.pick(TELLING)),
            5 => {
                let copy = bytes[at..end].repeat(1 + rng.below(4));
                let to = rng.below(bytes.len() + 1);
                drop(bytes.splice(to..to, copy));
            }
            6 => {
                // The beginning of one seed, the end of another.
                let other = rng.pick(seeds);
                let from = rng.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            7 => bytes.truncate(at),
            _ => bytes.push(rng.byte()),
        }
    }
}

/// How long the caller wants it to run, instead of the default number of inputs.
#[allow(clippy::disallowed_methods, reason = "how long to run is the caller's to say")]
fn seconds() -> Option<u64> {
    std::env::var("QUIPU_FUZZ_SECONDS").ok()?.parse().ok()
}

#[allow(clippy::print_stdout, reason = "a count that nobody sees proves nothing")]
/// Passes `default_count` inputs to a reader, or as many as fit into `QUIPU_FUZZ_SECONDS`; prints
/// how many there were.
///
/// # Panics
///
/// If the reader panics, or takes longer than a second for one input, or too much memory for all.
pub fn run(seeds: &[Vec<u8>], default_count: u64, mut reader: impl FnMut(&[u8])) {
    let before = most_memory();
    let end = seconds().map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut count = 0;
    while end.map_or(count < default_count, |end| Instant::now() < end) {
        count += 1;
        let bytes = Mutator::new(count).bytes(seeds);
        // A busy machine does not make a slow reader: a real hang is slow each time.
        let is_slow = (0..3).all(|_| {
            let began = Instant::now();
            let outcome = catch_unwind(AssertUnwindSafe(|| reader(&bytes)));
            assert!(outcome.is_ok(), "input {count}: {}", bytes.escape_ascii());
            began.elapsed() >= SLOWEST
        });
        assert!(!is_slow, "input {count} takes too long: {}", bytes.escape_ascii());
    }
    let taken = most_memory().zip(before).map(|(after, before)| after - before);
    println!("{count} inputs, {} kB", taken.unwrap_or_default() >> 10);
    // In a short run, other tests of the same process take some of it.
    let most = if end.is_some() { MEMORY } else { 4 * MEMORY };
    assert!(taken.is_none_or(|taken| taken <= most), "the inputs took {taken:?} bytes");
}

/// The peak memory of this process, if the system reports it.
#[allow(clippy::disallowed_methods, reason = "what the system says of this process")]
fn most_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn inputs_repeat_by_seed_and_differ_between_seeds() {
        let seeds = [br#"{"permissions":{"deny":["Write"]}}"#.to_vec(), b"a = 1\n".to_vec()];
        let input = |seed| Mutator::new(seed).bytes(&seeds);
        let made: Vec<Vec<u8>> = (0..2_000).map(input).collect();
        assert_eq!(made, (0..2_000).map(input).collect::<Vec<_>>());
        assert!(made.iter().collect::<HashSet<_>>().len() > 1_500);
        assert!(made.iter().any(|one| one.windows(6).any(|part| part == b"\"deny\"")));
        assert!(made.iter().any(Vec::is_empty));
    }

    #[test]
    fn long_seeds_stay_bounded_and_no_seeds_are_needed() {
        let seeds = [vec![b'x'; 3 * LONGEST]];
        assert!((0..200).all(|seed| Mutator::new(seed).bytes(&seeds).len() <= LONGEST));
        assert!((0..200).any(|seed| !Mutator::new(seed).bytes(&[]).is_empty()));
    }

    #[test]
    #[should_panic(expected = "input ")]
    fn a_panic_names_the_input() {
        run(&[b"seed".to_vec()], 1_000, |bytes| assert!(bytes.len() < 100));
    }
}
