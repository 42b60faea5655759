use super::*;

#[test]
fn usage_is_read_as_the_api_gives_it() {
    let given = serde_json::json!({
        "input_tokens": 24, "cache_creation_input_tokens": 680, "cache_read_input_tokens": 11200,
        "output_tokens": 99, "cache_creation": {"ephemeral_5m_input_tokens": 600, "ephemeral_1h_input_tokens": 80},
    });
    let read = Usage {
        input: 24,
        output: 99,
        cache_5m: 600,
        cache_1h: 80,
        cache_read: 11_200,
        ..Usage::default()
    };
    assert_eq!(usage(&given), read);
}

#[test]
fn the_data_is_whole() {
    assert!(known(&named(None)).is_some());
    for alias in MODELS.aliases.keys() {
        assert!(known(&named(Some(alias))).is_some(), "{alias}");
    }
    assert_eq!(named(Some("claude-x")), "claude-x");
    assert_eq!(output_tokens("claude-3-haiku-20240307"), 4_096);
    assert_eq!(output_tokens("claude-x"), 32_000);
}
