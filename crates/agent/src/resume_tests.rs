use super::*;

/// Claude Code sends thinking of another model if it has no signature; the API would refuse it.
#[test]
fn thinking_without_a_signature_is_not_sent() {
    let thinking = |name: &str| {
        let file = testkit::fixtures().join("observed").join(format!("{name}.jsonl"));
        let resumed = open(&file, None).unwrap().unwrap();
        let blocks = resumed.messages.into_iter().flat_map(|message| message.blocks);
        blocks.filter(|block| block.contains(r#""type":"thinking""#)).count()
    };
    for name in ["think_qwen_unsigned", "think_qwen_nosigfield", "think_null_sig"] {
        assert_eq!(thinking(name), 0, "{name}");
    }
    assert_eq!(thinking("think_opus45_signed"), 1);
}
