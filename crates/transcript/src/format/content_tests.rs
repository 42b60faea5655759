use super::*;

fn kinds(content: &str) -> Vec<String> {
    blocks(Json::parse(content.as_bytes()).unwrap())
        .map(|block| format!("{:?} {}", block.kind(), block.type_name().unwrap_or_default()))
        .collect()
}

#[test]
fn every_kind_of_block_is_told_by_its_type() {
    let content = r#"[
        {"type":"text","text":"a"}, {"type":"thinking","thinking":"","signature":"s"},
        {"type":"redacted_thinking","data":"x"}, {"type":"tool_use","id":"t","name":"Read","input":{}},
        {"type":"tool_result","tool_use_id":"t"}, {"type":"image","source":{}}, {"type":"document"},
        {"type":"tool_reference","tool_name":"Read"}, {"type":"server_tool_use"},
        {"type":"web_search_tool_result"}, {"type":"future"}, {"no":"type"}, "loose", 7
    ]"#;
    assert_eq!(
        kinds(content),
        [
            "Text text",
            "Thinking thinking",
            "RedactedThinking redacted_thinking",
            "ToolUse tool_use",
            "ToolResult tool_result",
            "Image image",
            "Document document",
            "ToolReference tool_reference",
            "ServerToolUse server_tool_use",
            "ServerToolResult web_search_tool_result",
            "Other future",
            "Other ",
            "Text text",
            "Other ",
        ]
    );
}

#[test]
fn content_may_be_a_string_or_nothing() {
    assert_eq!(kinds(r#""just text""#), ["Text text"]);
    assert_eq!(kinds("null"), [""; 0]);
    assert_eq!(kinds("[]"), [""; 0]);
    assert_eq!(kinds(r#"{"type":"text"}"#), [""; 0]);
}

/// Some gateways pad blocks with the fields of all others.
#[test]
fn padding_does_not_change_the_kind() {
    let padded = r#"[{"type":"text","text":"a","thinking":"","signature":"","data":"","id":"","name":"","tool_use_id":"","content":null,"index":0}]"#;
    assert_eq!(kinds(padded), ["Text text"]);
}

#[test]
fn results_hold_a_string_blocks_or_nothing() {
    let inner = |content: &str| {
        let list = format!(r#"[{{"type":"tool_result","tool_use_id":"t"{content}}}]"#);
        let mut blocks = blocks(Json::parse(list.as_bytes()).unwrap());
        blocks
            .next()
            .unwrap()
            .inner()
            .map(|block| format!("{:?}", block.kind()))
            .collect::<Vec<_>>()
    };
    assert_eq!(inner(r#","content":"out""#), ["Text"]);
    assert_eq!(
        inner(r#","content":[{"type":"text","text":"x"},{"type":"image"}]"#),
        ["Text", "Image"]
    );
    assert_eq!(inner(""), [""; 0]);
}
