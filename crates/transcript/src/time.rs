//! Moments as transcripts give them.
//!
//! Milliseconds since 1970, because that is what every dialect can say: ISO 8601 text, or a number.

use jiff::Timestamp;

use crate::json::{Json, Shape};

/// A moment, in milliseconds since 1970 (UTC).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub i64);

impl Time {
    /// Reads a `timestamp` field: text with an offset, or milliseconds (seed 000).
    pub fn read(value: Json<'_>) -> Option<Time> {
        match value.shape() {
            Shape::String => {
                let moment: Timestamp = value.text()?.parse().ok()?;
                Some(Time(moment.as_millisecond()))
            }
            Shape::Number => value.integer().map(Time),
            _ => None,
        }
    }
}
