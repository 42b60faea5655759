use super::*;

#[test]
fn marks_stand_at_the_end_of_the_last_two_messages() {
    let message = |role, text: &str| Message { role, blocks: vec![text_block(text)] };
    let mut messages = vec![message("user", "a"), message("assistant", "b"), message("user", "c")];
    messages[1].blocks.push(r#"{"type":"thinking","thinking":"t","signature":"s"}"#.to_owned());
    let request = Request {
        model: "m",
        max_tokens: 9,
        thinking: None,
        effort: None,
        system: &["one".to_owned(), "two".to_owned()],
        tools: &[r#"{"name":"Read"}"#.to_owned()],
        reminder: None,
        messages: &messages,
        is_cached: true,
    };
    let mark = r#","cache_control":{"type":"ephemeral"}"#;
    assert_eq!(
            request.body(),
            [
                r#"{"model":"m","max_tokens":9,"stream":true,"system":[{"type":"text","text":"one"},{"type":"text","text":"two""#,
                mark,
                r#"}],"tools":[{"name":"Read"}],"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},"#,
                r#"{"role":"assistant","content":[{"type":"text","text":"b""#,
                mark,
                r#"},{"type":"thinking","thinking":"t","signature":"s"}]},{"role":"user","content":[{"type":"text","text":"c""#,
                mark,
                "}]}]}",
            ]
            .concat()
        );
    assert!(!Request { is_cached: false, ..request }.body().contains("cache_control"));
    let headless = Request { reminder: Some("told"), messages: &messages[1..], ..request };
    let first = r#""messages":[{"role":"user","content":[{"type":"text","text":"told"}]},{"role":"assistant""#;
    assert!(headless.body().contains(first), "{}", headless.body());
    let usual = Request { reminder: Some("told"), ..request };
    assert_eq!(usual.body().matches("told").count(), 1);
}
