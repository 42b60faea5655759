use proptest::prelude::*;

use super::*;

const KEY: &str = "sk-ant-api03-Zk9_yQ-4tB7wXn2LpRv8mHs5cJd1fGa6eUo3iKq0TzYxWb";

fn secrets() -> Secrets {
    Secrets::of([("ANTHROPIC_API_KEY", KEY)])
}

/// Whether a text contains no part of the key longer than a quarter, plain or as base64.
fn is_clean(text: &str) -> bool {
    let joined: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let secrets = secrets();
    secrets.shapes.iter().all(|shape| {
        let least = (shape.len() / 4).max(SHORTEST_PASSWORD);
        shape.windows(least + 1).all(|part| memmem::find(joined.as_bytes(), part).is_none())
    })
}

#[test]
fn values_are_taken_out_in_every_shape() {
    let secrets = secrets();
    let redacted = |text: &str| secrets.redacted(text, Extent::Whole).into_owned();
    assert_eq!(redacted(&format!("key={KEY}!")), "key=[redacted api key]!");
    for before in ["", "a", "ab", "abc"] {
        let text = format!("{before}{KEY}\n");
        for encoded in [
            base64::engine::general_purpose::STANDARD.encode(&text),
            base64::engine::general_purpose::URL_SAFE.encode(&text),
            STANDARD_NO_PAD.encode(&text),
        ] {
            let wrapped: Vec<String> =
                encoded.as_bytes().chunks(20).map(|line| lossless(line.to_vec())).collect();
            for text in [encoded, wrapped.join("\n"), wrapped.join("\r\n")] {
                let output = redacted(&format!("x {text} y"));
                assert!(output.contains(INSTEAD) && is_clean(&output), "{output}");
            }
        }
    }
    let innocent = "sk-ant-api03- is how keys begin; c2stYW50 is that as base64";
    assert!(matches!(secrets.redacted(innocent, Extent::Piece), Cow::Borrowed(_)));
    assert!(matches!(Secrets::default().redacted(KEY, Extent::Piece), Cow::Borrowed(_)));
}

#[test]
fn which_variables_are_secret() {
    for name in NAMES {
        assert!(is_secret(name, "x"), "{name}");
    }
    assert!(is_secret("HTTPS_PROXY", "http://me:hunter22@proxy:3128/"));
    assert!(!is_secret("HTTPS_PROXY", "http://me@proxy:3128/") && !is_secret("PATH", "/bin"));
    let headers = "X-Token: abcdefgh12345678\nAuthorization: Bearer tok_abcdef123456\n\
        anthropic-beta: context-1m-2025\nX-Short: abc\n";
    let secrets = Secrets::of([
        // What local servers accept in place of a key.
        ("ANTHROPIC_AUTH_TOKEN", "lmstudio"),
        ("ANTHROPIC_CUSTOM_HEADERS", headers),
        ("https_proxy", "http://me:hunter22%21@proxy:3128"),
        ("PATH", "/usr/local/bin"),
    ]);
    let text = "lmstudio abcdefgh12345678 tok_abcdef123456 context-1m-2025 abc hunter22! hunter22%21 /usr/local/bin";
    let hidden = ["[redacted api key]"; 2].join(" ");
    assert_eq!(
        secrets.redacted(text, Extent::Whole),
        format!("lmstudio {hidden} context-1m-2025 abc {hidden} /usr/local/bin")
    );
    assert_eq!(format!("{secrets:?}"), "Secrets { .. }");
}

#[test]
fn json_keeps_its_form() {
    let secrets = secrets();
    let json = format!(r#"{{"b":1.50,"a":["{}\n{}"]}}"#, &KEY[..20], &KEY[20..]);
    assert_eq!(secrets.redacted_json(&json), r#"{"b":1.5,"a":["[redacted api key]"]}"#);
    let json = r#"{ "b": 1.50 }"#;
    assert_eq!(secrets.redacted_json(json), json);
}

/// The joined text of the events of a block.
fn passed_text(pieces: &[&str]) -> String {
    let secrets = secrets();
    let mut events = Events::new(&secrets);
    let mut passed: Vec<String> = Vec::new();
    for piece in pieces {
        let delta = serde_json::json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}});
        passed.extend(events.pass(&delta.to_string()));
    }
    let stop = r#"{"type":"content_block_stop","index":0}"#;
    passed.extend(events.pass(stop));
    assert_eq!(passed.pop().unwrap(), stop);
    let texts = passed.iter().map(|event| {
        let event: Value = serde_json::from_str(event).unwrap();
        assert_eq!(event["delta"]["type"], "text_delta");
        event["delta"]["text"].as_str().unwrap().to_owned()
    });
    texts.collect()
}

fn cut(text: &str, mut at: Vec<usize>) -> Vec<&str> {
    at.push(text.len());
    at.sort_unstable();
    let mut start = 0;
    at.into_iter()
        .map(|end| {
            let end = end.clamp(start, text.len());
            let piece = &text[start..end];
            start = end;
            piece
        })
        .collect()
}

proptest! {
    #[test]
    fn however_a_text_comes_no_piece_of_a_key_is_passed_on(
        before in "[a-z ]{0,8}", after in "[a-z ]{0,8}", at in prop::collection::vec(0..90_usize, 0..12)
    ) {
        let text = format!("{before}{KEY}{after}");
        let output = passed_text(&cut(&text, at));
        prop_assert!(is_clean(&output), "{}", output);
        prop_assert!(output.starts_with(&before) && output.ends_with(&after), "{}", output);
    }

    #[test]
    fn innocent_text_comes_through(text in "(sk-|ant|api03|[a-zé ]){0,20}", at in prop::collection::vec(0..90_usize, 0..12)) {
        let at = at.into_iter().map(|at| (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0));
        prop_assert_eq!(passed_text(&cut(&text, at.collect())), text.clone());
    }

    #[test]
    fn a_copy_has_no_key_wherever_it_stands(before in 65_400..65_600_usize, lines in 1..80_usize) {
        let key: Vec<String> = KEY.as_bytes().chunks(lines).map(|line| lossless(line.to_vec())).collect();
        let text = format!("{}{}{}", "x".repeat(before), key.join("\n"), "y".repeat(300));
        let mut out = Vec::new();
        // Also one that comes byte by byte at the end of a piece.
        secrets().copy(&mut text.as_bytes(), &mut out).unwrap();
        let output = lossless(out);
        prop_assert_eq!(output, format!("{}{INSTEAD}{}", "x".repeat(before), "y".repeat(300)));
    }
}

#[test]
fn a_piece_of_output_may_end_within_a_key() {
    let secrets = secrets();
    for at in [20, 30, KEY.len() - 1] {
        let output = secrets.redacted(&format!("out: {}", &KEY[..at]), Extent::Piece).into_owned();
        assert_eq!(output, "out: [redacted api key]");
        let output = secrets
            .redacted(&format!("{} more", &KEY[KEY.len() - at..]), Extent::Piece)
            .into_owned();
        assert_eq!(output, "[redacted api key] more");
    }
}
