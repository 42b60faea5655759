use super::*;
use crate::text::{Colors, ansi, plain};
use proptest::prelude::*;

const TEXT: &str = "# A heading\nA paragraph with **bold**, `code` and a\nsecond line.\n\n\n- one\n- two with [a link](https://x.org/a)\n  and more\n1. first\n2. second\n\n```rust\nfn main() {\n\n    x(); // y\n}\n```\n| a | b |\n|---|--:|\n| 1 | 22 |\n| three | 4 |\n\n> quoted\n> twice\n\nhttps://x.org/b *end*";

fn pieces(text: &str, cuts: &[usize]) -> Vec<String> {
    let mut markdown = Markdown::default();
    let mut lines = Vec::new();
    let mut rest = text;
    for cut in cuts {
        let mut cut = (*cut).min(rest.len());
        while !rest.is_char_boundary(cut) {
            cut += 1;
        }
        lines.extend(markdown.push(&rest[..cut], 80));
        let _ = markdown.rest();
        rest = &rest[cut..];
    }
    lines.extend(markdown.push(rest, 80));
    lines.extend(markdown.end(80));
    lines.iter().map(|line| ansi(line, Colors::Sixteen)).collect()
}

#[test]
fn everything_a_model_writes() {
    let mut markdown = Markdown::default();
    let mut lines = markdown.push(TEXT, 80);
    lines.extend(markdown.end(80));
    let text: Vec<String> = lines.iter().map(plain).collect();
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn no_text_is_lost() {
    for (text, shown) in [
        ("foo\n---\nbar", "foo\n────────\nbar"),
        ("foo\n* * *\nbar", "foo\n────────\nbar"),
        ("foo\n===\nbar", "foo\n===\nbar"),
        ("foo\n--\nbar", "foo\n--\nbar"),
        ("one\n<div>\ntwo\n</div>\nthree", "one\n<div>\ntwo\n</div>\nthree"),
        ("<details>\n<summary>x</summary>", "<details>\n<summary>x</summary>"),
        ("see\n<!-- a\n- b -->\nthat", "see\n<!-- a\n• b -->\nthat"),
        ("[1]: https://x.org/a\n[2]: /b", "[1]: https://x.org/a\n[2]: /b"),
        ("- ___\n- ***\n- ```rust\n- # x", "• ___\n• ***\n• ```rust\n• # x"),
        ("**\"bold\"** and\n*thin* `- x`", "\"bold\" and\nthin `- x`"),
        ("[a](b) <https://x.org>", "a (b) https://x.org"),
    ] {
        let lines = pieces(text, &[]).join("\n");
        let plain = crate::text::output_lines(&lines).join("\n");
        assert_eq!(plain, shown, "{text}");
    }
}

#[test]
fn code_is_copied_byte_for_byte() {
    let code: Vec<String> =
        (0..20).map(|n| format!("    let x{n} = \"{}\";", "ab ".repeat(60))).collect();
    let text = format!("```rust\n{}\n```\n", code.join("\n"));
    let mut markdown = Markdown::default();
    let lines = markdown.push(&text, 80);
    let shown: Vec<String> = lines[1..lines.len() - 1].iter().map(plain).collect();
    assert_eq!(shown, code);
}

#[test]
fn what_is_not_finished_is_shown() {
    let mut markdown = Markdown::default();
    assert_eq!(markdown.push("one **two", 80), []);
    assert_eq!(markdown.rest().iter().map(plain).collect::<Vec<_>>(), ["one **two"]);
    assert_eq!(markdown.push("**\n\nthree", 80).iter().map(plain).collect::<Vec<_>>(), ["one two"]);
    assert_eq!(markdown.end(80).iter().map(plain).collect::<Vec<_>>(), ["", "three"]);
}

proptest! {
    #[test]
    fn however_it_is_cut(cuts in proptest::collection::vec(1usize..40, 0..30)) {
        prop_assert_eq!(pieces(TEXT, &cuts), pieces(TEXT, &[]));
    }

    #[test]
    fn any_text_is_shown_safely(text in "[\\PC\n`|>#*_\u{1b}\u{202e}-]{0,120}", cuts in proptest::collection::vec(1usize..10, 0..20)) {
        let lines = pieces(&text, &cuts);
        prop_assert_eq!(&lines, &pieces(&text, &[]));
        let is_safe = !lines.concat().contains('\u{202e}');
        prop_assert!(is_safe);
    }
}
