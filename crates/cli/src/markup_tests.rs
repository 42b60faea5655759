use super::*;
use crate::out::Out;

/// Markdown drawn in that many columns.
fn drawn(text: &str, columns: usize) -> String {
    let mut out = Out::to_memory(columns);
    write(&mut Page::new(&mut out), &Lead::default(), text).unwrap();
    out.into_text()
}

#[test]
fn everything_a_model_writes() {
    let text = "\
# Title\n\nA paragraph with **bold**, *slanted*, ~~gone~~ and `code`, and a [link](https://x.test/a) that is long enough to wrap.\n\
Next line of it.\n\n- one\n- two\n  - nested\n    deeper text\n- three\n\n3. third\n4. fourth\n\n- [x] done\n- [ ] not\n\n\
> quoted\n> more\n\n```rust\nfn main() {\n\tprintln!(\"a line that is rather too long for the page\");\n}\n```\n\n---\n\n\
| a | number |\n|---|---:|\n| x | 1 |\n| a longer cell | 22 |\n\n<details>raw html</details>\n\nlast";
    insta::assert_snapshot!(drawn(text, 50));
}

#[test]
fn nothing_hostile_gets_through() {
    let text = "a\u{1b}[31mred\u{1b}]0;title\u{7} `\u{1b}[2J` \u{202e}turned\n\n```\n\u{9b}31m\u{7f}\n```\n";
    let drawn = drawn(text, 60);
    assert!(drawn.chars().all(|c| c == '\n' || !c.is_control()), "{drawn:?}");
    insta::assert_snapshot!(drawn, @r"
    a␛[31mred␛]0;title␇ `␛[2J` �turned

      �31m␡
    ");
}

#[test]
fn wide_characters_line_up() {
    let text = "| 名前 | n |\n|---|---|\n| 日本語 | 1 |\n| ab | 22 |";
    insta::assert_snapshot!(drawn(text, 40), @r"
    名前   │ n
    ───────┼───
    日本語 │ 1
    ab     │ 22
    ");
}

#[test]
fn a_table_that_is_too_wide_wraps_its_cells() {
    let text = "| what | why |\n|---|---|\n| short | because it is so very long that it cannot stand on one line |";
    insta::assert_snapshot!(drawn(text, 30));
}

#[test]
fn links_may_wrap_and_stand_in_each_other_and_nesting_has_an_end() {
    insta::assert_snapshot!(drawn("a `b` c **d** [link\ntext](http://x.y) [![alt](img)](outer)", 60), @r"
    a `b` c d link
    text (http://x.y) alt (img) (outer)
    ");
    assert!(drawn(&format!("{}x", "> ".repeat(20_000)), 80).len() < 1_000);
    assert!(drawn(&format!("{}x", "- ".repeat(3_000)), 80).len() < 100_000);
}
