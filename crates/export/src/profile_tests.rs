use super::*;

fn telling(longest: usize) -> Telling {
    Telling { longest, ..Telling::default() }
}

const KEY: &str = "ghp_Zq8Rk2Tn5Wc7Lx0Vb3Hm6Jd9Gp1Fs4Yt0aB2";

#[test]
fn secrets_are_hidden_before_anything_is_cut() {
    let text = format!("é {KEY} ü");
    assert_eq!(telling(99).text(&text), "é [redacted:github-token] ü");
    assert_eq!(Telling { redact: None, ..telling(99) }.text(&text), text);
    // The cut would fall inside the key.
    let long = format!("{}{KEY}", "x".repeat(40));
    let short = telling(64).text(&format!("{long}{}", " y".repeat(40)));
    assert!(!short.contains("ghp_"), "{short}");
}

#[test]
fn long_texts_are_cut_between_characters_with_a_mark() {
    let text = "é".repeat(100);
    let short = telling(50).text(&text);
    assert_eq!(short, format!("{}…[cut: 200 bytes in all]", "é".repeat(12)));
    assert!(short.len() <= 50);
    assert_eq!(telling(200).text(&text), text);
}

#[test]
fn json_stays_json() {
    let long = serde_json::json!({"a": "x".repeat(500), "b": [1, "y".repeat(500)]}).to_string();
    let short = telling(400).content(&Text::json(long.clone()));
    assert!(short.is_json && short.text.len() <= 400, "{short:?}");
    let read: Data = serde_json::from_str(&short.text).unwrap();
    assert!(read["a"].as_str().unwrap().ends_with("…[cut: 500 bytes in all]"));
    assert_eq!(read["b"][0], 1);
    // Many short values cannot be shortened.
    let many = Text::json(serde_json::json!(vec![1; 500]).to_string());
    assert!(!telling(400).content(&many).is_json);
    assert_eq!(telling(2_000).content(&Text::json(long.clone())).text, long);
}
