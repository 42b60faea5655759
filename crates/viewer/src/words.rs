//! Numbers, times and costs for people.

use std::cell::Cell;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use maud::{Markup, PreEscaped, html};
use transcript::conversation::usage::Usage;
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

/// The end of a path, if it is longer than so many characters.
pub(crate) fn path_end(path: &str, most: usize) -> String {
    let path = crate::escape::one_line(path, 4_000);
    let Some(cut) = path.chars().count().checked_sub(most).filter(|cut| *cut > 0) else {
        return path;
    };
    let tail: String = path.chars().skip(cut + 1).collect();
    // At a folder, if there is one.
    let tail = tail.find('/').map_or(tail.as_str(), |at| &tail[at..]);
    format!("…{tail}")
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

/// The tokens that something took: what the model read, how much of that came from the cache and
/// was written to it, and what it wrote.
pub(crate) fn tokens(usage: Usage) -> String {
    let mut text = short(usage.read());
    text.push_str(" in");
    let mut between = " (";
    for (count, word) in [(usage.cache_read, " from cache"), (usage.cache_write(), " to cache")] {
        if count > 0 {
            text.extend([between, short(count).as_str(), word]);
            between = ", ";
        }
    }
    text.push_str(if between == ", " { "), " } else { ", " });
    text.push_str(&wrote(usage));
    text.push_str(" out");
    text
}

/// What was written; `>` if it is a lower bound.
pub(crate) fn wrote(usage: Usage) -> String {
    let mark = if usage.at_least && usage.total() > 0 { ">" } else { "" };
    format!("{mark}{}", short(usage.output))
}

/// Shows times of the day. A file has one for each item, so the zone is not asked each time.
#[derive(Debug, Default)]
pub(crate) struct Clock(Cell<Option<(i64, i64)>>);

impl Clock {
    /// Offsets change at full quarters of an hour.
    const QUARTER: i64 = 900_000;

    pub(crate) fn show(&self, time: Time) -> Markup {
        let quarter = time.0.div_euclid(Clock::QUARTER);
        let offset = match self.0.get() {
            Some((known, offset)) if known == quarter => offset,
            _ => {
                let Ok(moment) = Timestamp::from_millisecond(time.0) else { return html! {} };
                let offset = i64::from(TimeZone::system().to_offset(moment).seconds());
                self.0.set(Some((quarter, offset)));
                offset
            }
        };
        let second = (time.0.div_euclid(1_000) + offset).rem_euclid(86_400);
        let mut text = String::with_capacity("<time>00:00:00</time>".len());
        for (mark, number) in
            [("<time>", second / 3_600), (":", second / 60 % 60), (":", second % 60)]
        {
            text.push_str(mark);
            let digits =
                [number / 10, number % 10].map(|digit| u8::try_from(digit).unwrap_or_default());
            text.extend(digits.map(|digit| char::from(b'0' + digit)));
        }
        text.push_str("</time>");
        PreEscaped(text)
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

    #[test]
    fn tokens_are_counted_with_those_of_the_cache() {
        let all = Usage {
            input: 10,
            output: 1_500,
            cache_read: 40_000,
            cache_5m: 5_000,
            at_least: true,
            ..Usage::default()
        };
        let plain = Usage { input: 10, output: 20, ..Usage::default() };
        let read = Usage { cache_read: 90, ..plain };
        assert_eq!(
            [all, plain, read].map(tokens),
            [
                "45k in (40k from cache, 5.0k to cache), >1.5k out",
                "10 in, 20 out",
                "100 in (90 from cache), 20 out"
            ]
        );
    }

    #[test]
    fn a_clock_is_right_in_every_quarter_of_an_hour() {
        let clock = Clock::default();
        for time in [0, 1_767_225_599_999, 1_767_225_600_000, 1_774_746_000_000, -1] {
            let shown = format!("<time>{}</time>", local(Time(time), "%H:%M:%S"));
            assert_eq!(clock.show(Time(time)).into_string(), shown, "{time}");
        }
    }

    #[test]
    fn a_path_keeps_its_end() {
        assert_eq!(path_end("a/b.rs", 10), "a/b.rs");
        assert_eq!(path_end("/long/folder/name/b.rs", 12), "…/name/b.rs");
        assert_eq!(path_end("averyveryverylongname.rs", 8), "…name.rs");
    }
}
