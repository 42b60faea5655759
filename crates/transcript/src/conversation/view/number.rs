//! Numbers, sizes, times and money, as people read them everywhere.

use jiff::{Timestamp, tz::TimeZone};

use crate::conversation::usage::{Money, Spending};
use crate::format::time::Time;

/// A number for people, with up to three digits, such as 12k.
#[allow(clippy::cast_precision_loss, reason = "three digits are shown")]
pub fn short_number(number: u64) -> String {
    if number < 1_000 {
        return number.to_string();
    }
    let mut value = number as f64 / 1000.0;
    for unit in ["k", "M"] {
        if value < 999.5 {
            let digits = usize::from(value < 9.95);
            return format!("{value:.digits$}{unit}");
        }
        value /= 1000.0;
    }
    format!("{value:.1}G")
}

/// A number with thousands separators.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of bytes for people, such as 12 KB.
#[allow(clippy::cast_precision_loss, reason = "two digits are shown")]
pub fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KB", "MB", "GB"] {
        if value < 999.5 {
            let digits = usize::from(value < 9.95 && unit != "B");
            return format!("{value:.digits$} {unit}");
        }
        value /= 1000.0;
    }
    format!("{value:.1} TB")
}

/// What something cost, with cents; `>` if it is a lower bound. What is less than a cent is not
/// called nothing; `None` if no price is known.
pub fn dollars(sum: &Spending) -> Option<String> {
    let at_least = if sum.is_lower_bound() { ">" } else { "" };
    Some(match sum.cost.map(Money::dollars)? {
        cost if cost > 0.0 && cost < 0.005 => format!("{at_least}${cost:.4}"),
        cost => format!("{at_least}${cost:.2}"),
    })
}

/// A time on the user's clock, in that format of `strftime`.
pub fn local(time: Time, form: &str) -> String {
    let moment = Timestamp::from_millisecond(time.0).ok();
    let local = moment.map(|moment| moment.to_zoned(TimeZone::system()));
    local.map_or("?".to_owned(), |local| local.strftime(form).to_string())
}
