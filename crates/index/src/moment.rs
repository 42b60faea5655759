//! Points in time as people write them.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// How a point in time is written, for people.
pub const FORMS: &str = "`30m`, `12h`, `3d`, `2w`, or a date: `2026-11-01`";

/// A point in time: an age, or a date with or without a time, by default in local time.
pub fn moment(text: &str, now: Timestamp) -> Option<Timestamp> {
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Some(moment);
    }
    // Without an offset, it is local time; a date is its midnight.
    if let Ok(local) = text.parse::<DateTime>() {
        return local.to_zoned(TimeZone::system()).ok().map(|zoned| zoned.timestamp());
    }
    let unit = text.chars().last()?;
    let number: u32 = text[..text.len() - unit.len_utf8()].parse().ok()?;
    let minutes = match unit {
        'm' => 1,
        'h' => 60,
        'd' => 24 * 60,
        'w' => 7 * 24 * 60,
        _ => return None,
    };
    let back = SignedDuration::from_mins(i64::from(number) * minutes);
    Some(now.checked_sub(back).unwrap_or(Timestamp::MIN))
}
