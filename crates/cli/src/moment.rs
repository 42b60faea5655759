//! Points in time on the command line.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::failure::Failure;

/// A point in time: an age, or a date with or without a time.
pub(crate) fn moment(text: &str, now: Timestamp) -> Result<Timestamp, Failure> {
    let bad = || {
        let hint = "write it as `30m`, `12h`, `3d`, `2w`, or as a date: `2026-11-01`";
        Failure::usage(format!("`{text}` is not a time"), Some(hint))
    };
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(moment);
    }
    // Without an offset, it is local time; a date is its midnight.
    if let Ok(local) = text.parse::<DateTime>() {
        return Ok(local.to_zoned(TimeZone::system()).map_err(|_| bad())?.timestamp());
    }
    let unit = text.chars().last().ok_or_else(bad)?;
    let number: u32 = text[..text.len() - unit.len_utf8()].parse().map_err(|_| bad())?;
    let minutes = match unit {
        'm' => 1,
        'h' => 60,
        'd' => 24 * 60,
        'w' => 7 * 24 * 60,
        _ => return Err(bad()),
    };
    let back = SignedDuration::from_mins(i64::from(number) * minutes);
    Ok(now.checked_sub(back).unwrap_or(Timestamp::MIN))
}
