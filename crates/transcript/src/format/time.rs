//! Points in time, as transcripts write them.
//!
//! Milliseconds since 1970, because every dialect can be converted to that: ISO 8601 text, or a
//! number.

use std::fmt;

use jiff::Timestamp;

use crate::format::json::{Json, Shape};

/// A point in time, in milliseconds since 1970 (UTC).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub i64);

impl Time {
    /// Reads a `timestamp` field: text with an offset, or milliseconds (dialect `human`).
    pub fn read(value: Json<'_>) -> Option<Time> {
        match value.shape() {
            Shape::String => {
                if let Some(time) = usual(value.raw()) {
                    return Some(time);
                }
                let moment: Timestamp = value.text()?.parse().ok()?;
                Some(Time(moment.as_millisecond()))
            }
            Shape::Number => value.integer().map(Time),
            _ => None,
        }
    }
}

/// Formats the time as clients write it.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = Timestamp::from_millisecond(self.0).unwrap_or(Timestamp::UNIX_EPOCH);
        write!(f, "{}", moment.strftime("%Y-%m-%dT%H:%M:%S%.3fZ"))
    }
}

/// Parses a time as clients write it, `"2026-01-31T23:59:59.999Z"`. A fast path: clients write
/// nothing else, and each record has one.
fn usual(raw: &[u8]) -> Option<Time> {
    let inner: &[u8; 24] = raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?.try_into().ok()?;
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'.'), (23, b'Z')];
    if marks.iter().any(|(at, mark)| inner[*at] != *mark) {
        return None;
    }
    let number = |from: usize, to: usize| {
        inner[from..to].iter().try_fold(0_i64, |number, byte| {
            byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0'))
        })
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    // Only the days that every month has; the rest is left to the calendar library.
    if !(1..=12).contains(&month)
        || !(1..=28).contains(&day)
        || hour > 23
        || minute > 59
        || second > 59
    {
        return None;
    }
    // A year that begins in March has its leap day at the end.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    let days = days - 719_468;
    Some(Time((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000 + number(20, 23)?))
}

#[cfg(test)]
#[path = "time_tests.rs"]
mod tests;
