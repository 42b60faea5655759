//! Points in time on the command line.

use index::moment::FORMS;
use jiff::Timestamp;

use crate::failure::Failure;

/// A point in time: an age, or a date with or without a time.
pub(crate) fn moment(text: &str, now: Timestamp) -> Result<Timestamp, Failure> {
    index::moment::moment(text, now).ok_or_else(|| {
        let hint = format!("write it as {FORMS}");
        Failure::usage(format!("`{text}` is not a time"), Some(&hint))
    })
}
