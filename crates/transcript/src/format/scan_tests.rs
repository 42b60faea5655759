use proptest::prelude::*;
use serde::de::IgnoredAny;

use super::*;

/// The end of the value at the start of the text, or what is wrong.
fn end(text: &str) -> Result<usize, (usize, String)> {
    let end = Scanner::new(text.as_bytes()).value(0);
    end.map_err(|fault| (fault.at, fault.why.to_string()))
}

#[test]
fn values_end_where_they_end() {
    for (text, expected) in [
        ("{}", 2),
        ("[]", 2),
        (r#"{"a":[1,{"b":"]}"}],"c":null} rest"#, 29),
        (r#""a\"b\\" rest"#, 8),
        ("-0.5e+10,", 8),
        ("0123", 1),
        ("true", 4),
        ("[ 1 , [ ] , { } ]", 17),
    ] {
        assert_eq!(end(text), Ok(expected), "{text}");
    }
}

#[test]
fn faults_say_where_and_why() {
    for (text, at, why) in [
        ("", 0, "record is cut off"),
        (r#"{"a":"b"#, 7, "ends inside a string"),
        (r#"{"a":"b\"#, 8, "ends inside a string"),
        (r#"{"a":"\u12"#, 10, "ends inside a string"),
        (r#"{"a":1"#, 6, "record is cut off"),
        (r#"{"a" 1}"#, 5, "unexpected `1`"),
        (r#"{"a":1,}"#, 7, "unexpected `}`"),
        ("[1,]", 3, "unexpected `]`"),
        ("[1}", 2, "unexpected `}`"),
        (r#""\x""#, 1, "bad escape in a string"),
        (r#""\u12g4""#, 1, "bad escape in a string"),
        ("\"a\u{1}b\"", 2, "control character 0x01 in a string"),
        ("\"a\tb\"", 2, "control character 0x09 in a string"),
        ("nul", 3, "record is cut off"),
        ("nulL", 3, "unexpected `L`"),
        ("1.", 2, "record is cut off"),
        ("-a", 1, "unexpected `a`"),
        ("1e", 2, "record is cut off"),
        ("\u{7f}", 0, "unexpected byte 0x7f"),
    ] {
        assert_eq!(end(text), Err((at, why.to_owned())), "{text}");
    }
}

/// Strings longer than every block that the search works in, with the end at every place in it.
#[test]
fn specials_are_found_wherever_they_stand() {
    for length in 0..200 {
        let plain = "é".repeat(length / 2) + &"a".repeat(length % 2);
        assert_eq!(end(&format!("\"{plain}\"")), Ok(plain.len() + 2));
        assert_eq!(end(&format!("\"{plain}\\n{plain}\"x")), Ok(2 * plain.len() + 4));
        let control = format!("\"{plain}\u{1f}\"");
        assert_eq!(end(&control).unwrap_err().0, plain.len() + 1);
    }
}

#[test]
fn depth_costs_no_stack() {
    for depth in [1, 63, 64, 65, 128, 129, 100_000] {
        let text = "[".repeat(depth) + &"]".repeat(depth);
        assert_eq!(end(&text), Ok(2 * depth));
        let mixed = r#"[{"a":"#.repeat(depth) + "1" + &"}]".repeat(depth);
        assert_eq!(end(&mixed), Ok(mixed.len()));
        let wrong = r#"[{"a":"#.repeat(depth) + "1" + &"]}".repeat(depth);
        assert!(end(&wrong).is_err());
    }
}

/// Bytes that are nearly JSON.
fn nearly_json() -> impl Strategy<Value = String> {
    let token = prop::sample::select(vec![
        "{", "}", "[", "]", ",", ":", "\"", "\\", "a", "\"k\":", "\"s\"", "1", "-", "0", ".", "e",
        "+", "true", "null", "false", " ", "\\u00e9", "\\n", "\t", "é", "\u{2028}", "\u{1}",
    ]);
    prop::collection::vec(token, 0..24).prop_map(|tokens| tokens.concat())
}

proptest! {
    /// Both readers accept the same texts as JSON.
    #[test]
    fn agrees_with_serde_json(text in nearly_json()) {
        let scanner = Scanner::new(text.as_bytes());
        let start = scanner.space(0);
        let ours = scanner.value(start).is_ok_and(|end| scanner.space(end) == text.len());
        let theirs = serde_json::from_str::<IgnoredAny>(&text).is_ok();
        prop_assert_eq!(ours, theirs, "{}", text);
    }
}
