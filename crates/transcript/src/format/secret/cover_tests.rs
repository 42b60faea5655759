//! Known secrets in all forms, and what stays.

use std::slice;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::format::secret::{Form, Sighting, Spot, Survey, survey};

const KEY: &str = "ghp_Zq8Rk2Tn5Wc7Lx0Vb3Hm6Jd9Gp1Fs4Yt0aB2";

fn cover_of(secrets: &[(&str, &str)]) -> Cover {
    let mut values = Values::default();
    for (kind, secret) in secrets {
        values.add(kind, secret.as_bytes(), Vec::new());
    }
    Cover::new(Arc::default(), values)
}

#[test]
fn a_known_secret_is_found_in_every_form() {
    let cover = cover_of(&[("github-token", KEY)]);
    let halves = KEY.split_at(17);
    let escaped: String =
        KEY.bytes().fold(String::new(), |all, byte| all + &format!("\\u{byte:04x}"));
    for text in [
        format!("it is {KEY}, really"),
        format!("{}\n{}", halves.0, halves.1),
        format!("{}\\n{}", halves.0, halves.1),
        format!("{}\\\\n   12→{}", halves.0, halves.1),
        format!("{}\n     2\t{}", halves.0, halves.1),
        format!("{}\\n2\\t{}", halves.0, halves.1),
        format!("{}\n+{}", halves.0, halves.1),
        format!("{}\",\"{}", halves.0, halves.1),
        format!("{}\u{1b}[01;31m\u{1b}[K{}", halves.0, halves.1),
        format!("{}\\u001b[0m{}", halves.0, halves.1),
        escaped.clone(),
        escaped.replace('\\', "\\\\\\\\"),
        KEY.replace('_', "%5F"),
        STANDARD.encode(KEY),
        STANDARD.encode(format!("a{KEY}b")),
        URL_SAFE.encode(format!("ab{KEY}")),
    ] {
        let shown = cover.text(&text).unwrap_or_else(|| panic!("not found: {text}"));
        assert!(shown.contains("[redacted:github-token:1]"), "{text}: {shown}");
        assert!(!cover.stands_in(shown.as_bytes()), "{text}: {shown}");
        assert!(shown.len() < 60, "{text}: {shown}");
    }
    assert_eq!(cover.text("ghp_ and Zq8Rk2T"), None);
}

#[test]
fn lines_keep_their_bytes_outside_of_secrets() {
    let cover = cover_of(&[("github-token", KEY)]);
    let line = format!(r#"{{"a" : "\u00e9", "{KEY}":1, "b":["x\/y {KEY}\n"], "c":1.50}}"#);
    let wanted = concat!(
        r#"{"a" : "\u00e9", "[redacted:github-token:1]":1, "#,
        r#""b":["x/y [redacted:github-token:1]\n"], "c":1.50}"#
    );
    assert_eq!(String::from_utf8(cover.line(line.as_bytes()).unwrap()).unwrap(), wanted);
    assert_eq!(cover.line(wanted.as_bytes()), None);
}

#[test]
fn short_and_plain_secrets_are_not_pursued() {
    let cover = cover_of(&[
        ("url-password", "hunter"),
        ("assigned-secret", "production"),
        ("assigned-secret", "12345678"),
        ("assigned-secret", "tr0ub4dor"),
    ]);
    assert_eq!(cover.unpursued(), 3);
    assert_eq!(cover.text("hunter production 12345678"), None);
    let shown = cover.text("use tr0ub4dor, not xtr0ub4dory");
    assert_eq!(shown.as_deref(), Some("use [redacted:assigned-secret:3], not xtr0ub4dory"));
}

#[test]
fn the_longest_secret_names_what_overlaps() {
    let cover = cover_of(&[("jwt", "abcd1234efgh"), ("cookie", "sid=abcd1234efgh5678")]);
    assert_eq!(cover.text("x sid=abcd1234efgh5678 y").as_deref(), Some("x [redacted:cookie:1] y"));
}

#[test]
fn a_file_is_looked_through_by_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.jsonl");
    let padding = "x".repeat(3 << 20);
    let text = format!(
        "{{\"type\":\"summary\",\"summary\":\"{KEY}\"}}\n{{\"pad\":\"{padding}\"}}\n\n\
         {{\"type\":\"user\",\"toolUseResult\":{{\"password\":\"c0rrect-horse\"}}}}\nno {KEY}"
    );
    std::fs::write(&path, &text).unwrap();
    let mut values = Values::default();
    let file = files::open(&path).unwrap();
    let redactor = Redactor::default();
    let Survey { seen, lines } = survey(&file, Form::Lines, &redactor, None, &mut values).unwrap();
    let seen: Vec<_> =
        seen.iter().map(|Sighting { line, kind, spot }| (*line, &**kind, *spot)).collect();
    assert_eq!(
        seen,
        [
            (1, "github-token", Spot::Title),
            (4, "assigned-secret", Spot::StructuredResult),
            (5, "github-token", Spot::Damage)
        ]
    );
    assert_eq!(lines.len(), 3);
    assert_eq!(values.kinds(), [("github-token", 1), ("assigned-secret", 1)]);
    assert_eq!(format!("{values:?}"), "Values(2)");
}

proptest! {
    /// Whatever surrounds a secret, and however it is escaped, it is hidden, and JSON stays JSON.
    #[test]
    fn any_line_with_a_secret_is_covered(
        before in "\\PC{0,40}",
        after in "\\PC{0,40}",
        depth in 0..4_usize,
        at in 1..39_usize,
    ) {
        let cover = cover_of(&[("github-token", KEY)]);
        let (one, other) = KEY.split_at(at);
        let mut text = format!("{before} {one}\n{other} {after}");
        for _ in 0..depth {
            text = serde_json::json!({"inner": text}).to_string();
        }
        let line = serde_json::json!({"text": text}).to_string();
        let shown = cover.line(line.as_bytes()).expect("covered");
        prop_assert!(!cover.stands_in(&shown));
        prop_assert!(serde_json::from_slice::<serde_json::Value>(&shown).is_ok());
        prop_assert_eq!(cover.line(&shown), None);
    }

    /// No bytes make it fail, and what is covered has nothing left to cover.
    #[test]
    fn any_bytes_are_covered(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let cover = cover_of(&[("github-token", KEY)]);
        let line = [&bytes[..], KEY.as_bytes()].concat();
        let shown = cover.bytes(&line).unwrap_or(line);
        prop_assert!(!cover.stands_in(&shown) || shown.ends_with(KEY.as_bytes()));
    }
}

/// A file with these lines.
fn file_of(lines: &[String]) -> std::fs::File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(format!("{}\n", lines.join("\n")).as_bytes()).unwrap();
    file
}

/// The lines and the kinds of what is found in a file after another one was looked through.
fn found_after(before: &[String], after: &[String]) -> Vec<(u64, String)> {
    let (redactor, mut values) = (Arc::new(Redactor::default()), Values::default());
    survey(&file_of(before), Form::Lines, &redactor, None, &mut values).unwrap();
    let cover = Cover::new(redactor, values);
    let (redactor, mut again) = (cover.redactor(), Values::default());
    let found = survey(&file_of(after), Form::Lines, redactor, Some(&cover), &mut again).unwrap();
    found.seen.into_iter().map(|seen| (seen.line, seen.kind)).collect()
}

#[test]
fn texts_that_were_searched_are_searched_again_if_anything_changed() {
    let text = "a line of a log that says nothing, ".repeat(8);
    let line = |name: &str, text: &str| format!(r#"{{"type":"x","{name}":"{text}"}}"#);
    let clean = line("text", &text);
    assert_eq!(found_after(slice::from_ref(&clean), &[clean.clone(), clean.clone()]), []);
    let token = (2, "github-token".to_owned());
    let changed = line("text", &format!("{text}{KEY}"));
    assert_eq!(found_after(slice::from_ref(&clean), &[clean.clone(), changed]), [token]);
    // A known secret, in a form that no rule recognizes.
    let known = line("text", &format!("{text}{}", KEY.replace('_', "%5F")));
    let secret = line("other", KEY);
    assert_eq!(found_after(&[clean.clone(), secret], &[known])[0].0, 1);
    // The same text is a secret by its name.
    let value = KEY[4..].repeat(4);
    let (plain, named) = (line("text", &value), line("apiKey", &value));
    let expected = (2, "assigned-secret".to_owned());
    assert_eq!(found_after(slice::from_ref(&plain), &[clean.clone(), plain.clone()]), []);
    assert_eq!(found_after(slice::from_ref(&plain), &[plain.clone(), named]), [expected]);
}

/// Texts that are shown were searched in the file, and what is hidden in them is the same.
#[test]
fn what_was_searched_in_a_file_is_hidden_as_if_it_was_not() {
    let words = "a line of a log that says nothing,\n".repeat(8);
    let (path, value) = ("C:\\new\\".repeat(20), KEY[4..].repeat(4));
    let texts = [words.clone(), path.clone(), value.clone(), format!("{words}{KEY}\n{words}")];
    let lines = texts.each_ref().map(|text| serde_json::json!({ "text": text }).to_string());
    let known = || {
        let (redactor, mut values) = (Arc::new(Redactor::default()), Values::default());
        survey(&file_of(&lines), Form::Lines, &redactor, None, &mut values).unwrap();
        (redactor, values)
    };
    let ((redactor, values), (again, mut anew)) = (known(), known());
    let has = texts.each_ref().map(|text| values.searched.has_decoded(text));
    assert_eq!(has, [true, true, true, false]);
    // What those bytes mean where they are written with escapes is another text.
    assert!(!values.searched.has(values.searched.seeds.hash(path.as_bytes())));
    anew.searched = Searched::default();
    let (cover, searching) = (Cover::new(redactor, values), Cover::new(again, anew));
    for text in &texts {
        for member in [None, Some("text"), Some("apiKey")] {
            let hidden = [&cover, &searching].map(|cover| {
                let mut kinds = Vec::new();
                (cover.hide(member, text, &mut |kind| kinds.push(kind.to_owned())), kinds)
            });
            assert_eq!(hidden[0], hidden[1], "{member:?}: {text}");
        }
    }
    assert_eq!(cover.text(&words), None);
    assert!(cover.text(&texts[3]).is_some_and(|shown| !shown.contains(KEY)));
    assert!(cover.hide(Some("apiKey"), &value, &mut |_| {}).is_some(), "its name makes it one");
}

#[test]
fn names_and_ids_of_calls_stay_such() {
    let cover = cover_of(&[("github-token", KEY)]);
    let line = format!(
        r#"{{"id":"toolu_01{KEY}","name":"mcp__srv__{KEY}","names":["mcp__{KEY}"],"text":"mcp__a {KEY}"}}"#
    );
    let wanted = concat!(
        r#"{"id":"toolu_01redacted-github-token-1","name":"mcp__srv__redacted-github-token-1","#,
        r#""names":["mcp__redacted-github-token-1"],"text":"mcp__a [redacted:github-token:1]"}"#
    );
    let shown = cover.line(line.as_bytes()).unwrap_or_default();
    assert_eq!(String::from_utf8_lossy(&shown), wanted);
    assert_eq!(cover.line(&shown), None);
}
