use proptest::prelude::*;

use super::*;

fn text(json: &str) -> String {
    Json::parse(json.as_bytes()).unwrap().text().unwrap().into_owned()
}

#[test]
fn strings_are_decoded() {
    for (json, expected) in [
        (r#""plain""#, "plain"),
        (r#""a\"\\\/\b\f\n\r\t""#, "a\"\\/\u{8}\u{c}\n\r\t"),
        (r#""\u00e9\u4e2d""#, "é中"),
        (r#""\ud83d\ude00!""#, "😀!"),
        (r#""\ud83d!""#, "\u{fffd}!"),
        (r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}"),
        (r#""\ud83d\u0041""#, "\u{fffd}A"),
    ] {
        assert_eq!(text(json), expected, "{json}");
    }
    let latin1 = Json::parse(b"\"caf\xe9\"").unwrap();
    assert_eq!(latin1.text().unwrap(), "caf\u{fffd}");
}

#[test]
fn numbers_keep_their_bytes() {
    let json = Json::parse(b"[1.0, 1e400, 12345678901234567890123, -0]").unwrap();
    let raw: Vec<&[u8]> = json.elements().map(Json::raw).collect();
    assert_eq!(raw, [&b"1.0"[..], b"1e400", b"12345678901234567890123", b"-0"]);
    let places: Vec<_> = json.places().collect();
    assert_eq!(places, [1..4, 6..11, 13..36, 38..40]);
    let integers: Vec<_> = json.elements().map(Json::integer).collect();
    assert_eq!(integers, [None, None, None, Some(0)]);
    assert_eq!(json.elements().map(Json::float).next(), Some(Some(1.0)));
}

#[test]
fn members_keep_order_and_duplicates_and_the_last_one_counts() {
    let json = Json::parse(br#" {"b":1,"a":2,"b":[3],"\u0061":4} "#).unwrap();
    let object = json.object().unwrap();
    let members: Vec<_> = object
        .members()
        .map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(value.raw())))
        .collect();
    assert_eq!(members, ["b=1", "a=2", "b=[3]", "a=4"]);
    assert_eq!(object.get("b").unwrap().raw(), b"[3]");
    assert_eq!(object.get("a").unwrap().raw(), b"4");
    assert!(object.get("c").is_none());
}

#[test]
fn the_wrong_question_gets_nothing() {
    let string = Json::parse(br#""x""#).unwrap();
    assert!(string.object().is_none() && string.get("a").is_none());
    assert_eq!(string.elements().count(), 0);
    assert_eq!((string.bool(), string.integer(), string.float()), (None, None, None));
    assert!(Json::parse(b"{").is_none() && Json::parse(b"1 2").is_none());
}

proptest! {
    /// Every string that another program writes is read back unchanged.
    #[test]
    fn strings_survive(text in any::<String>()) {
        let json = serde_json::to_string(&text).unwrap();
        prop_assert_eq!(Json::parse(json.as_bytes()).unwrap().text().unwrap(), text);
    }

    /// Escapes are found wherever they stand, and whatever is wrong with them.
    #[test]
    fn escapes_are_decoded_as_one_after_the_other(parts in prop::collection::vec(
        prop::sample::select(vec![
            &b"a"[..], b"\\", b"\\n", b"\\\\", b"\\u00e9", b"\\ud83d\\ude00", b"\\ud83d", b"\\u12", b"\xc3\xa9", b"\xc3",
            b"a longer text without any escape in it, of fifty bytes",
        ]),
        0..40,
    )) {
        let inner = parts.concat();
        prop_assert_eq!(unescape(&inner), one_by_one(&inner));
    }
}

/// Decodes one escape after the other.
fn one_by_one(inner: &[u8]) -> String {
    let mut out = Vec::new();
    let mut rest = inner;
    while let Some(slash) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..slash]);
        let (character, used) = escape(&rest[slash..]);
        out.extend_from_slice(character.to_string().as_bytes());
        rest = &rest[slash + used..];
    }
    out.extend_from_slice(rest);
    String::from_utf8_lossy(&out).into_owned()
}
