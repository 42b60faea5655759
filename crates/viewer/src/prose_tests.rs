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

#[test]
fn what_is_inside_a_link_does_not_change_its_end() {
    assert_eq!(
        shown("[![x](https://a/y)](https://z) after"),
        "<p><a target=\"_blank\" rel=\"noopener noreferrer\" href=\"https://z\">[image: x \
         <span class=\"url\">(https://a/y)</span>]</a> <span class=\"url\">(https://z)</span> after</p>"
    );
    assert_eq!(nested(&shown("![a [b](https://c) d](https://e)")), Ok(()));
}

#[test]
fn links_below_what_is_too_deep_are_shown_and_those_behind_it_are_links() {
    let deep = format!("{}[a](https://b) ![c](https://d)\n\n[e](https://f)", "> ".repeat(40));
    let html = shown(&deep);
    for text in ["a <span class=\"url\">(https://b)", "[image: c <span class=\"url\">(https://d)"] {
        assert!(html.contains(text), "{html}");
    }
    assert_eq!((html.matches("<a ").count(), html.contains("href=\"https://f\"")), (1, true));
    assert_eq!(nested(&html), Ok(()));
}

const KNOWN: &str =
    "p h4 h5 h6 blockquote pre ol ul li div table thead tr th td em strong s a span code";

/// Whether every element is known and closed where it was opened, and no link is in another.
fn nested(html: &str) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    for part in html.split('<').skip(1) {
        let end = part.find(|c: char| !c.is_ascii_alphanumeric() && c != '/').unwrap_or(part.len());
        let name = &part[..end];
        if let Some(name) = name.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Err(format!("</{name}> in {html}"));
            }
        } else if !["br", "hr"].contains(&name) {
            if !KNOWN.split(' ').any(|one| one == name) || name == "a" && open.contains(&"a") {
                return Err(format!("<{name}> in {html}"));
            }
            open.push(name);
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("{open:?} open in {html}")) }
}

/// What changes how deep one is, or what a text means.
const FRAGMENTS: &str = "[¦![¦[![¦](https://z)¦](javascript:x)¦](https://a/b \"t\")¦> ¦- ¦1. ¦**¦_¦`¦\
    ~~¦\n¦\n\n¦| a | b |\n|--|--|\n¦<https://y>¦<b>¦```\n¦# ¦x¦ ";

proptest! {
    #[test]
    fn any_text_gives_only_known_elements(text in "[\\[\\]()<>!*_`~#>|\\-x:/ajhtps.\"'&\n 1]{0,120}") {
        let html = shown(&text);
        prop_assert_eq!(nested(&html), Ok(()));
        prop_assert!(!html.contains('\''));
    }

    #[test]
    fn any_fragments_are_closed(
        parts in prop::collection::vec(prop::sample::select(FRAGMENTS.split('¦').collect::<Vec<_>>()), 0..60)
    ) {
        prop_assert_eq!(nested(&shown(&parts.concat())), Ok(()));
    }
}
