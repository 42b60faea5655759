use super::*;
use proptest::prelude::*;

fn shown(text: &str) -> String {
    let mut out = String::new();
    push_prose(&mut out, text);
    out
}

#[test]
fn html_is_text() {
    let text = "a <img src=x onerror=alert(1)>\n\n<script>alert(1)</script>\n";
    let html = shown(text);
    assert!(!html.contains("<img") && !html.contains("<script"), "{html}");
    assert!(html.contains("&lt;img src=x onerror=alert(1)&gt;"), "{html}");
}

#[test]
fn links_show_their_target() {
    assert_eq!(
        shown("[here](https://example.org/a?b=c&d)"),
        "<p><a target=\"_blank\" rel=\"noopener noreferrer\" href=\"https://example.org/a?b=c&amp;d\">\
         here</a> <span class=\"url\">(https://example.org/a?b=c&amp;d)</span></p>"
    );
    assert_eq!(
        shown("[x](javascript:alert(1))"),
        "<p>x <span class=\"url\">(javascript:alert(1))</span></p>"
    );
    assert_eq!(
        shown("![x](http://a/b.png)"),
        "<p>[image: x <span class=\"url\">(http://a/b.png)</span>]</p>"
    );
    assert_eq!(shown("[a](data:text/html,x) [b](file:///etc)").matches("<a ").count(), 0);
}

#[test]
fn depth_is_bounded() {
    let html = shown(&format!("{}deep", "> ".repeat(10_000)));
    assert!(html.matches("<blockquote>").count() <= DEEPEST);
    assert_eq!(html.matches("<blockquote>").count(), html.matches("</blockquote>").count());
    assert!(html.contains("deep"));
}

#[test]
fn code_keeps_its_language() {
    assert_eq!(
        shown("```rust ignore\nlet x = 1 < 2;\n```"),
        "<pre class=\"code\" tabindex=\"0\" data-lang=\"rust\">let x = 1 &lt; 2;\n</pre>"
    );
}

proptest! {
    #[test]
    fn any_text_gives_only_known_elements(text in "[\\[\\]()<>!*_`~#>|\\-x:/ajhtps.\"'&\n 1]{0,120}") {
        let html = shown(&text);
        let known = ["p", "h4", "h5", "h6", "blockquote", "pre", "ol", "ul", "li", "div", "table", "thead",
            "tr", "th", "td", "em", "strong", "s", "a", "span", "code", "br", "hr"];
        for part in html.split('<').skip(1) {
            let name: String = part.trim_start_matches('/').chars().take_while(char::is_ascii_alphanumeric).collect();
            prop_assert!(known.contains(&name.as_str()), "{name} in {html}");
        }
        for (begin, end) in [("<p>", "</p>"), ("<a ", "</a>"), ("<li>", "</li>"), ("<pre", "</pre>")] {
            prop_assert_eq!(html.matches(begin).count(), html.matches(end).count());
        }
        prop_assert!(!html.contains('\''));
    }
}
