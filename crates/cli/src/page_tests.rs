use ratatui::style::Modifier;

use super::*;

fn wrapped(text: &str, room: usize) -> Vec<String> {
    let lines = wrap(&[unstyled(text)], room);
    lines.iter().map(|line| line.iter().map(|span| span.content.as_ref()).collect()).collect()
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

/// Chinese and Japanese have no spaces: a line is filled, and punctuation stays with its text.
#[test]
fn text_without_spaces_is_wrapped_between_wide_characters() {
    assert_eq!(wrapped("a 日本語日本", 6), ["a 日本", "語日本"]);
    assert_eq!(wrapped("名前、日本。", 6), ["名前、", "日本。"]);
    assert_eq!(wrapped("日本語。", 6), ["日本", "語。"]);
    assert_eq!(wrapped("日本「語」", 6), ["日本", "「語」"]);
    assert_eq!(wrapped("語のtest.です", 8), ["語の", "test.で", "す"]);
    assert_eq!(wrapped("日本(x)", 5), ["日本", "(x)"]);
    // Nothing but punctuation still fits.
    assert_eq!(wrapped("。。。。", 4), ["。。", "。。"]);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let lines = wrap(&[unstyled("日本"), styled(bold, "語、"), unstyled("x")], 6);
    assert_eq!(lines[0], [unstyled("日"), unstyled("本")]);
    assert_eq!(lines[1], [styled(bold, "語、"), unstyled("x")]);
}

#[test]
fn styles_do_not_part_words() {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let lines = wrap(&[unstyled("a b"), styled(bold, "cd ef")], 4);
    assert_eq!(lines.len(), 3);
    assert_eq!(width(&lines[0]), 1);
    assert_eq!(lines[1], [unstyled("b"), styled(bold, "cd")]);
}
