use super::*;

#[test]
fn control_characters_are_made_visible() {
    assert_eq!(printable("a\u{1b}[31m\0\n\u{7f}"), "a␛[31m␀␊␡");
    assert_eq!(printable("\u{9b}1m \u{202e}x\u{2066}"), "\u{fffd}1m \u{fffd}x\u{fffd}");
    assert_eq!(
        printable("a\u{e0041}\u{e007f}\u{fff9}\u{fffb}"),
        "a\u{fffd}\u{fffd}\u{fffd}\u{fffd}"
    );
    assert_eq!(printable("é 中 😀"), "é 中 😀");
    assert_eq!(one_line(" a\n\t b\u{7} "), "a b␇");
}

#[test]
fn text_is_cut_by_columns() {
    assert_eq!(fit("abc", 3), "abc");
    assert_eq!(fit("abcd", 3), "ab…");
    assert_eq!(fit("中中中", 6), "中中中");
    assert_eq!(fit("中中中", 5), "中中…");
    assert_eq!(fit("中中中", 4), "中…");
    assert_eq!(fit("abc", 0), "…");
}

#[test]
fn sizes_and_ages_as_people_say_them() {
    let sizes = [0, 999, 1_000, 9_949, 9_950, 999_499, 999_500, 1_500_000, 2_000_000_000_000];
    let expected =
        ["0 B", "999 B", "1.0 KB", "9.9 KB", "10 KB", "999 KB", "1.0 MB", "1.5 MB", "2.0 TB"];
    assert_eq!(sizes.map(size), expected);
    let ages = [0, 59, 60, 3_599, 3_600, 86_399, 86_400, 5_184_000, 31_536_000];
    assert_eq!(ages.map(age), ["now", "now", "1m", "59m", "1h", "23h", "1d", "2mo", "1y"]);
    assert_eq!([0, 1, 2].map(|n| count(n, "day")), ["0 days", "1 day", "2 days"]);
}

#[test]
fn times_and_numbers_as_people_say_them() {
    let spans = [0, 949, 9_999, 10_000, 59_999, 61_000, 3_599_000, 7_260_000, -5];
    let texts: Vec<String> = spans.into_iter().map(span).collect();
    assert_eq!(texts, ["0.0s", "0.9s", "10.0s", "10s", "59s", "1m01s", "59m59s", "2h01m", "0.0s"]);
    let numbers = [0, 999, 1_000, 9_940, 12_345, 999_499, 1_200_000, 5_000_000_000];
    let texts: Vec<String> = numbers.into_iter().map(short_number).collect();
    assert_eq!(texts, ["0", "999", "1.0k", "9.9k", "12k", "999k", "1.2M", "5.0G"]);
}

#[test]
fn line_numbers_are_listed_once() {
    assert_eq!(line_list(&[]), None);
    assert_eq!(line_list(&[6, 6]).as_deref(), Some("line 6"));
    assert_eq!(line_list(&[6, 11, 6]).as_deref(), Some("lines 6, 11"));
    let many: Vec<u64> = (1..=10).chain(1..=10).collect();
    assert_eq!(line_list(&many).as_deref(), Some("lines 1, 2, 3, 4, 5, 6, 7, 8 and 2 more"));
}

#[test]
fn a_line_is_shown_without_being_obeyed() {
    assert_eq!(shown("a\tb\u{1b}[1m\r"), "a    b␛[1m");
}

#[test]
fn printed_commands_mean_what_they_say() {
    for (word, expected) in [
        ("plain/path-1.0_x:y", "plain/path-1.0_x:y"),
        ("two  blanks", "'two  blanks'"),
        ("", "''"),
        ("~/x", "'~/x'"),
        ("a~b", "a~b"),
        ("it's", r"'it'\''s'"),
        ("a\nb\u{1b}[2J", "'a␊b␛[2J'"),
    ] {
        assert_eq!(quoted(word), expected);
    }
}
