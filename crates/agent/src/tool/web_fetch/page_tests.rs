use std::time::{Duration, Instant};

use super::*;

#[test]
fn a_page_as_it_should_be() {
    let page = "<html><head><title>T</title><style>p {}</style></head><body><h1>One</h1>
        <script>if (a < b) { run('</p>') }</script>
        <svg viewBox='0 0 1 1'><path d='M0'/><path d='M1'/></svg>
        <p>Some <b>bold</b> &amp; <a href='/x'>linked</a> text<p>and more<ul><li>a<li>b</ul></body>";
    let text = markdown(page);
    assert!(text.contains("# One\n\n"), "{text}");
    assert!(
        text.contains("Some **bold** & [linked](/x) text\n\nand more\n\n*   a\n*   b"),
        "{text}"
    );
    assert!(!text.contains("run") && !text.contains("{}"), "{text}");
}

/// Elements nested as deep as possible, of every kind that is walked in its own way.
#[test]
fn the_deepest_pages_are_no_danger() {
    let start = Instant::now();
    for tags in [
        "<div>",
        "<ul><li>",
        "<ol><li>",
        "<blockquote>",
        "<b>",
        "<i x=1><em>",
        "<a href=x>",
        "<span>",
        "<table><tr><td>",
        "<table><thead><tr><th>",
        "<h1>",
        "<pre>",
        "<code>",
        "<font size=1><p>",
        "<div></x>",
        "<span><div></span>",
        "<svg><foreignObject><div/>",
        "<x-y>",
        "<q/>",
    ] {
        let [a, b, c, d] = [100, 240, 2_000, 300_000].map(|count| {
            let page = format!("<p>begin {} end", tags.repeat(count));
            // If the deepest page fits into a smaller stack, it fits into a larger one.
            let thread = std::thread::Builder::new().stack_size(STACK / 4);
            thread.spawn(move || (count, markdown(&page))).unwrap()
        });
        for thread in [a, b, c, d] {
            let (count, text) = thread.join().unwrap();
            assert!(text.contains("begin") && text.contains("end"), "{tags} {count}: {text:.100}");
        }
    }
    // Nothing here looks like an open element.
    let text = markdown(&format!("<svg><foreignObject>{}end", "<div/>".repeat(20_000)));
    assert_eq!(text, "end");
    assert!(start.elapsed() < Duration::from_secs(120), "{:?}", start.elapsed());
}

#[test]
fn work_is_bounded() {
    let start = Instant::now();
    let fonts: Vec<String> = (0..1_000).map(|n| format!("<font size={n}>")).collect();
    let fonts = fonts.concat();
    let text = markdown(&format!("{fonts}{}<p>end", "<p>a".repeat(500_000)));
    assert!(text.ends_with("a\nend"));
    let text = markdown(&format!("{}{}end", "<ul><li>".repeat(200), "a<br>\n".repeat(500_000)));
    assert!(text.ends_with("a\nend"));
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn bare_text() {
    let page = "<!doctype html><style>p {}</style><p class='a'>1 < 2 &amp;&amp;\n  3 &gt; 2</p><SCRIPT>x</script>end<br";
    assert_eq!(bare(page), "1 < 2 &&\n3 > 2\nend");
}
