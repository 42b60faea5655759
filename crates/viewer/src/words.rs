//! Numbers, times and costs for people.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use maud::{Markup, html};
use transcript::conversation::usage::Spending;
use transcript::conversation::view::stamp;
use transcript::format::time::Time;

/// A number in a few characters, such as 12k.
#[allow(clippy::cast_precision_loss, reason = "two digits are shown")]
pub(crate) fn short(number: u64) -> String {
    let mut value = number as f64;
    for unit in ["", "k", "M"] {
        if value < 999.5 {
            let digits = usize::from(value < 9.95 && !unit.is_empty());
            return format!("{value:.digits$}{unit}");
        }
        value /= 1000.0;
    }
    format!("{value:.1}G")
}

/// A number with thousands separators.
pub(crate) fn grouped(number: u64) -> String {
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

/// A number of things: `1 turn`, `2 turns`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    let end = match (number, noun) {
        (1, _) => "",
        (_, noun) if noun.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{} {noun}{end}", grouped(number as u64))
}

/// What something cost; `>` if it is a lower bound. Nothing if no price is known.
pub(crate) fn cost(sum: &Spending) -> Option<String> {
    let dollars = sum.cost?.dollars();
    let bound = if sum.is_lower_bound() { ">" } else { "" };
    Some(match dollars {
        0.0 => format!("{bound}$0"),
        d if d < 0.01 => format!("{bound}${d:.4}"),
        d if d < 100.0 => format!("{bound}${d:.2}"),
        d => format!("{bound}${d:.0}"),
    })
}

/// How long something took.
#[allow(clippy::cast_precision_loss, reason = "two digits are shown")]
pub(crate) fn span(millis: i64) -> String {
    let millis = millis.max(0);
    match millis / 1_000 {
        0 => format!("{millis} ms"),
        1..10 => format!("{:.1} s", millis as f64 / 1_000.0),
        seconds @ 10..60 => format!("{seconds} s"),
        seconds @ 60..3_600 => format!("{} min", seconds / 60),
        seconds @ 3_600..172_800 => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
        seconds => format!("{} days", seconds / 86_400),
    }
}

/// A time on the clock of this machine.
pub(crate) fn local(time: Time, form: &str) -> String {
    let moment = Timestamp::from_millisecond(time.0).ok();
    let local = moment.map(|moment| moment.to_zoned(TimeZone::system()));
    local.map_or("?".to_owned(), |local| local.strftime(form).to_string())
}

/// A time, for people and programs.
pub(crate) fn time(time: Time, form: &str) -> Markup {
    html! { time datetime=(stamp(time).unwrap_or_default()) { (local(time, form)) } }
}

/// A number of bytes.
pub(crate) fn size_of(bytes: u64) -> String {
    transcript::conversation::view::size(bytes)
}
