//! Ranges of numbers on the command line.

use std::ops::RangeInclusive;

/// Parses a range of numbers that count from 1, both ends included: `10..20`, `10..`, `..20`, `10`.
pub(crate) fn range(text: &str) -> Result<RangeInclusive<u64>, String> {
    let number = |part: &str, open: u64| match part {
        "" => Ok(open),
        _ => part.parse::<u64>().map_err(|_| format!("`{part}` is not a number")),
    };
    let (first, last) = match text.split_once("..") {
        Some((first, last)) => (number(first, 1)?, number(last.trim_start_matches('='), u64::MAX)?),
        None => (number(text, 0)?, number(text, 0)?),
    };
    match first {
        0 => Err("numbers start at 1".to_owned()),
        _ if first > last => Err(format!("{first} comes after {last}")),
        _ => Ok(first..=last),
    }
}

#[cfg(test)]
#[path = "range_tests.rs"]
mod tests;
