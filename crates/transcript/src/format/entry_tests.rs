use super::*;
use crate::format::content::BlockKind;

fn entry(json: &str) -> Entry<'_> {
    Entry::parse(json.as_bytes()).unwrap()
}

/// Kind, parent, time, and the kinds of blocks.
fn gist(json: &str) -> String {
    let entry = entry(json);
    let blocks: Vec<BlockKind> = entry
        .message()
        .map(|message| message.blocks().map(|block| block.kind()).collect())
        .unwrap_or_default();
    format!(
        "{:?} {:?} after {:?} at {:?} {blocks:?}{}",
        entry.kind(),
        entry.uuid().unwrap_or_default(),
        entry.parent().unwrap_or_default(),
        entry.time().map(|time| time.0).unwrap_or_default(),
        if entry.is_human_turn() { " human" } else { "" }
    )
}

#[test]
fn seed_000() {
    assert_eq!(
        gist(concat!(
            r#"{"uuid":"msg_1","parentUuid":"msg_0","sessionId":"s","type":"human","#,
            r#""timestamp":1738160130123,"version":"1.0.128","message":{"type":"message","#,
            r#""content":"Create"}}"#,
        )),
        r#"User "msg_1" after "msg_0" at 1738160130123 [Text] human"#
    );
    assert_eq!(
        gist(concat!(
            r#"{"uuid":"msg_3","parentUuid":"msg_2","type":"tool_result","#,
            r#""timestamp":1738160136789,"message":{"type":"message","#,
            r#""content":[{"type":"tool_result","tool_use_id":"t","content":"ok","#,
            r#""is_error":false}]}}"#,
        )),
        r#"User "msg_3" after "msg_2" at 1738160136789 [ToolResult]"#
    );
    assert_eq!(
        gist(concat!(
            r#"{"uuid":"c","parentUuid":null,"type":"compact_prelude","timestamp":1,"#,
            r#""message":{"type":"message","content":"Previous"},"isDeleted":true}"#,
        )),
        r#"CompactPrelude "c" after "" at 1 [Text]"#
    );
    let recap =
        entry(r#"{"type":"compact_recap","isAborted":true,"isError":false,"is_active":true}"#);
    assert_eq!(recap.kind(), Kind::CompactRecap);
    assert!(recap.flag("isAborted") && !recap.flag("isError") && recap.flag("is_active"));
}

#[test]
fn seed_001() {
    assert_eq!(
        gist(concat!(
            r#"{"parentUuid":"6","uuid":"7","type":"user","message":{"role":"user","#,
            r#""content":[{"tool_use_id":"t","type":"tool_result","#,
            r#""content":"Found 20 files..."}]},"#,
            r#""toolUseResult":{"mode":"files_with_matches","filenames":["a"],"#,
            r#""numFiles":20,"appliedLimit":20}}"#,
        )),
        r#"User "7" after "6" at 0 [ToolResult]"#
    );
    let boundary = entry(concat!(
        r#"{"type":"system","subtype":"compact_boundary","#,
        r#""content":"Conversation compacted","logicalParentUuid":"c","#,
        r#""compactMetadata":{"trigger":"manual","preTokens":166503}}"#,
    ));
    assert_eq!(boundary.kind(), Kind::System);
    assert_eq!(boundary.subtype().unwrap(), "compact_boundary");
    let metadata = boundary.get("compactMetadata").unwrap();
    assert_eq!(metadata.get("preTokens").unwrap().integer(), Some(166_503));
    let failed = entry(r#"{"type":"user","toolUseResult":"Error: File not found"}"#);
    assert_eq!(failed.text("toolUseResult").unwrap(), "Error: File not found");
}

#[test]
fn seed_002() {
    assert_eq!(
        gist(
            r#"{"sessionId":"abc","type":"user","timestamp":"2025-01-15T10:00:00Z","content":"hello"}"#
        ),
        r#"User "" after "" at 1736935200000 [Text] human"#
    );
    assert_eq!(
        gist(concat!(
            r#"{"message":{"id":"m1","role":"assistant","#,
            r#""timestamp":"2025-01-15T10:00:05Z","content":[{"type":"text","text":"hi"},"#,
            r#"{"type":"tool_use","id":"t1","name":"Read","input":{}}]}}"#,
        )),
        r#"Assistant "" after "" at 1736935205000 [Text, ToolUse]"#
    );
    assert_eq!(
        gist(
            r#"{"type":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"file data"}]}"#
        ),
        r#"User "" after "" at 0 [ToolResult]"#
    );
    assert_eq!(
        gist(r#"{"type":"user","content":"rubric","isMeta":true}"#),
        r#"User "" after "" at 0 [Text]"#
    );
    assert_eq!(
        gist(r#"{"type":"assistant","content":[{"type":"tool_use","name":"Read"}]}"#),
        r#"Assistant "" after "" at 0 [ToolUse]"#
    );
    assert_eq!(
        gist(r#"{"type":null,"message":{"role":"user","content":"x"}}"#),
        r#"User "" after "" at 0 [Text] human"#
    );
    let answer = entry(r#"{"message":{"role":"assistant","content":"x"}}"#);
    assert_eq!(answer.type_name().unwrap(), "assistant");
}

#[test]
fn seeds_003_and_004() {
    let progress = entry(concat!(
        r#"{"type":"progress","data":{"type":"waiting_for_task","taskDescription":"d","#,
        r#""taskType":"local_bash"},"toolUseID":"t"}"#,
    ));
    assert_eq!(
        (progress.kind(), progress.subtype().unwrap().as_ref()),
        (Kind::Progress, "waiting_for_task")
    );
    assert_eq!(entry(r#"{"type":"pr-link","prNumber":3}"#).kind(), Kind::PrLink);
    assert_eq!(
        gist(concat!(
            r#"{"parentUuid":null,"cwd":"e:\\work\\x","type":"user","#,
            r#""message":{"role":"user","content":[{"type":"text","#,
            r#""text":"<ide_selection>lines 78</ide_selection>"},{"type":"text","#,
            r#""text":"do it"}]},"uuid":"u","timestamp":"2026-02-18T02:00:41.489Z","#,
            r#""permissionMode":"acceptEdits"}"#,
        )),
        r#"User "u" after "" at 1771380041489 [Text, Text] human"#
    );
}

#[test]
fn what_the_client_says_is_not_human() {
    for (content, more) in [
        (r#""[Request interrupted by user]""#, ""),
        (r#""<local-command-stdout>x</local-command-stdout>""#, ""),
        (r#""hi""#, r#","isMeta":true"#),
        (r#""hi""#, r#","isSidechain":true"#),
        (r#""hi""#, r#","isCompactSummary":true"#),
        (r#""hi""#, r#","origin":{"kind":"task-notification"}"#),
        (r#"[{"type":"text","text":"hi"},{"type":"tool_result"}]"#, ""),
    ] {
        let json =
            format!(r#"{{"type":"user","message":{{"role":"user","content":{content}}}{more}}}"#);
        assert!(!entry(&json).is_human_turn(), "{json}");
    }
    for (content, more) in [
        (r#""hi""#, r#","isMeta":false"#),
        (r#""<command-name>/clear</command-name>""#, ""),
        (r#""hi""#, r#","origin":{"kind":"human"}"#),
        (r#"[{"type":"image"}]"#, ""),
    ] {
        let json =
            format!(r#"{{"type":"user","message":{{"role":"user","content":{content}}}{more}}}"#);
        assert!(entry(&json).is_human_turn(), "{json}");
    }
}

#[test]
fn the_unknown_is_a_value() {
    let future = entry(r#"{"type":"future","x":{"y":1},"uuid":"u"}"#);
    assert_eq!(future.kind(), Kind::Other);
    assert_eq!(future.type_name().unwrap(), "future");
    assert_eq!(future.get("x").unwrap().raw(), br#"{"y":1}"#);
    let odd = entry(r#"{"type":7,"message":"text","timestamp":[],"uuid":null}"#);
    assert_eq!(odd.kind(), Kind::Other);
    assert!(odd.type_name().is_none() && odd.message().is_none());
    assert!(odd.time().is_none() && odd.uuid().is_none());
}

#[test]
fn of_two_messages_the_last_counts() {
    let entry = entry(
        r#"{"type":"user","message":{"role":"user","content":"a"},"message":{"content":[{"type":"image"}]}}"#,
    );
    let blocks = entry.message().unwrap().blocks();
    assert_eq!(blocks.map(|block| block.kind()).collect::<Vec<_>>(), [BlockKind::Image]);
}
