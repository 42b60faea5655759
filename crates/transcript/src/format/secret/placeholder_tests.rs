//! What was redacted stays as it is, by whatever rules.

use proptest::prelude::*;

use super::*;
use crate::format::secret::{Custom, Mask};

/// What follows a text, up to one of these signs: a rule that matches by what stands around.
#[derive(Debug)]
struct After(&'static str, &'static str, &'static [char]);

impl Custom for After {
    fn name(&self) -> &'static str {
        self.0
    }
    fn find(&self, text: &str) -> Vec<Range<usize>> {
        let found = text.match_indices(self.1).map(|(at, before)| {
            let start = at + before.len();
            let end = text[start..].find(self.2).map_or(text.len(), |end| start + end);
            start..end
        });
        found.filter(|range| !range.is_empty()).collect()
    }
}

fn redactor() -> Redactor {
    let rules: Vec<Box<dyn Custom>> = vec![
        Box::new(After("name", "/home/", &['/', ' ', ':', ']', '"', '\n'])),
        Box::new(After("g", "please use ", &[' ', '\n'])),
        Box::new(After("rest", "token", &['\n'])),
        Box::new(After("of-a-long-name-z9", "x9k3q7", &[' '])),
    ];
    Redactor::new(rules, Vec::new())
}

fn shown(redactor: &Redactor, text: &str) -> String {
    Mask::new(redactor).text(text).into_owned()
}

#[test]
fn rules_that_match_by_what_stands_around_hide_once() {
    let redactor = redactor();
    for (text, wanted) in [
        ("/home/jane/p", "/home/[redacted:name]/p"),
        ("/home/[redacted:name:1]/p", "/home/[redacted:name:1]/p"),
        ("please use abc, and so on", "please use [redacted:g] and so on"),
        ("please use [redacted:g:12], and so on", "please use [redacted:g:12], and so on"),
        ("please use a[redacted:g:1]b.", "please use [redacted:g][redacted:g:1][redacted:g]"),
        ("x9k3q7 aa", "x9k3q7 aa"),
        ("x9k3q7aa", "x9k3q7[redacted:of-a-long-name-z9]"),
        ("x9k3q7[redacted:of-a-long-name-z9:3]", "x9k3q7[redacted:of-a-long-name-z9:3]"),
        // In the name of a file.
        ("/home/[redacted-name-1]/p", "/home/[redacted-name-1]/p"),
        // The name of a kind announces nothing.
        ("[redacted:github-token:1]: build-20240131", "[redacted:github-token:1]: build-20240131"),
        ("[redacted:my-password]=build-20240131", "[redacted:my-password]=build-20240131"),
    ] {
        assert_eq!(shown(&redactor, text), wanted, "{text}");
        assert_eq!(shown(&redactor, wanted), wanted, "{text}");
    }
}

#[test]
fn what_is_no_kind_is_no_placeholder() {
    let key = "ghp_Zq8Rk2Tn5Wc7Lx0Vb3Hm6Jd9Gp1Fs4Yt0aB2";
    let redactor = Redactor::default();
    assert_eq!(
        shown(&redactor, &format!("[redacted:{key}]")),
        "[redacted:[redacted:github-token]]"
    );
    let none: Vec<Range<usize>> = Vec::new();
    assert_eq!(places(&redactor, b"[redacted] [redacted:] [redacted:a b] [redacted:a"), none);
    assert_eq!(places(&redactor, b"-[redacted:jwt]- [redacted-aws-key-2]"), [1..15, 17..37]);
}

proptest! {
    /// A text that was redacted has nothing left to redact.
    #[test]
    fn what_was_redacted_stays(parts in prop::collection::vec(prop::sample::select(vec![
        "/home/", "please use ", "token", "jane", "/", " ", "\n", ":", "]", "[", "=", "password=",
        "[redacted:name:1]", "[redacted:github-token:1]", "[redacted-g-2]", "x9k3q7", "Cookie: a=",
        "; sid=", "Zq8Rk2Tn5Wc7Lx0V", "ghp_Zq8Rk2Tn5Wc7Lx0Vb3Hm6Jd9Gp1Fs4Yt0aB2", "https://a:", "@b",
        "Authorization: Bearer ", "\"", "é",
    ]), 0..16)) {
        let redactor = redactor();
        let text = parts.concat();
        let once = shown(&redactor, &text);
        prop_assert_eq!(shown(&redactor, &once), once.clone());
        prop_assert!(redactor.find(&once).is_empty(), "{}", once);
    }
}
