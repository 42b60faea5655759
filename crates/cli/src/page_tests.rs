use super::*;

fn wrapped(text: &str, room: usize) -> Vec<String> {
    let lines = wrap(&[Span::plain(text)], room);
    lines.iter().map(|line| line.iter().map(|span| span.text.as_str()).collect()).collect()
}

#[test]
fn words_go_on_the_next_line() {
    assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
    assert_eq!(wrapped("  indented words", 10), ["  indented", "words"]);
    assert_eq!(wrapped("", 10), [""]);
    assert_eq!(wrapped("two  spaces", 20), ["two  spaces"]);
}

#[test]
fn a_word_that_is_too_wide_is_broken() {
    assert_eq!(wrapped("abcdefgh ij", 3), ["abc", "def", "gh", "ij"]);
}

#[test]
fn wide_characters_take_two_columns_and_families_stay_together() {
    assert_eq!(wrapped("日本語 日本", 6), ["日本語", "日本"]);
    assert_eq!(wrapped("日本語日本", 5), ["日本", "語日", "本"]);
    assert_eq!(wrapped("👨‍👩‍👧👨‍👩‍👧👨‍👩‍👧", 4), ["👨‍👩‍👧👨‍👩‍👧", "👨‍👩‍👧"]);
    assert_eq!(wrapped("e\u{301}e\u{301}e\u{301}", 2), ["e\u{301}e\u{301}", "e\u{301}"]);
}

#[test]
fn styles_do_not_part_words() {
    let bold = Style::new().bold();
    let lines = wrap(&[Span::plain("a b"), Span::new(bold, "cd ef")], 4);
    assert_eq!(lines.len(), 3);
    assert_eq!(width(&lines[0]), 1);
    assert_eq!(lines[1], [Span::plain("b"), Span::new(bold, "cd")]);
}
