use super::*;
use proptest::prelude::*;

fn escaped(text: &str) -> String {
    let mut out = String::new();
    push(&mut out, text);
    out
}

#[test]
fn what_html_gives_a_meaning_is_escaped() {
    let text = "<script>alert(\"1\")</script>&'x'";
    let shown = "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;&#39;x&#39;";
    assert_eq!(escaped(text), shown);
    assert_eq!(escaped("a\u{202e}b\u{0}c\r\nd\u{2028}e"), "a\u{fffd}b␀c\nd\u{fffd}e");
}

#[test]
fn json_is_indented_and_otherwise_the_same() {
    assert_eq!(
        indented(r#"{"a":[1.0e5,"x,{\"}"],"b":{},"c":[ ]}"#),
        "{\n  \"a\": [\n    1.0e5,\n    \"x,{\\\"}\"\n  ],\n  \"b\": {},\n  \"c\": []\n}"
    );
}

proptest! {
    #[test]
    fn no_text_becomes_markup(text in "(?s).{0,200}|[\\r\\n<&é\u{2028}\u{85}\u{7f}a]{0,20}") {
        let shown = escaped(&text);
        prop_assert!(!shown.contains(['<', '>', '"', '\'']));
        // It is what each of its characters becomes by itself.
        let mut by_one = String::new();
        for (at, c) in text.char_indices() {
            one(&mut by_one, c, &text[at + c.len_utf8()..]);
        }
        prop_assert_eq!(shown, by_one);
    }

    #[test]
    fn the_start_of_a_text_is_one(text in ".{0,100}", most in 0_usize..120) {
        let (head, left) = start(&text, most);
        prop_assert!(text.starts_with(head));
        prop_assert_eq!(head.len() + left, text.len());
        prop_assert!(head.len() <= most || left == 0);
    }
}
