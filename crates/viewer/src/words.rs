//! Numbers, times and costs for people.

use maud::{Markup, html};
pub(crate) use transcript::conversation::view::{
    dollars as cost, grouped, local, short_number as short, size as size_of, stamp,
};
use transcript::format::time::Time;

/// A word of a command that is shown to be copied into a shell: whatever is in it, it stays one
/// word.
pub(crate) fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
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

/// A note below a list of at most so many things.
pub(crate) fn and_more(all: usize, shown: usize) -> Markup {
    html! { @if all > shown { p.addition { "and " (grouped((all - shown) as u64)) " more" } } }
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

/// A time, for people and programs.
pub(crate) fn time(time: Time, form: &str) -> Markup {
    html! { time datetime=(stamp(time).unwrap_or_default()) { (local(time, form)) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_a_command_stays_one_word() {
        assert_eq!(shell_word("0a1b2c3d-0000"), "0a1b2c3d-0000");
        assert_eq!(shell_word("a b"), "'a b'");
        assert_eq!(shell_word("$(touch x);`y`"), "'$(touch x);`y`'");
        assert_eq!(shell_word("it's\n~"), "'it'\\''s\n~'");
        assert_eq!(shell_word(""), "''");
    }
}
