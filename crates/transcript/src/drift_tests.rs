use super::*;

fn names(json: &str) -> Vec<String> {
    let mut drift = Drift::default();
    drift.begin("file");
    drift.add(1, &Entry::parse(json.as_bytes()).unwrap());
    drift.findings().keys().map(|(version, what)| format!("{version} {what:?}")).collect()
}

#[test]
fn known_records_are_silent() {
    for json in [
        r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"x"}]}]},"toolUseResult":{"stdout":"x"}}"#,
        r#"{"type":"assistant","message":{"content":[{"type":"tool_use","input":{"anything":{"at":"all"}}}]}}"#,
        r#"{"type":"file-history-snapshot","snapshot":{"trackedFileBackups":{"any/path":{"version":1}}}}"#,
        r#"{"type":"user","toolUseResult":[{"type":"text","text":"from MCP"}]}"#,
        r#"{"message":{"role":"assistant","content":"seed 002"}}"#,
        r#"{"type":"human","message":{"content":"seed 000"},"isDeleted":true}"#,
    ] {
        assert_eq!(names(json), [""; 0], "{json}");
    }
}

#[test]
fn the_unknown_is_named_with_its_version() {
    for (json, expected) in [
        (r#"{"type":"mystery","version":"9.9.9"}"#, r#"9.9.9 Type("mystery")"#),
        (r#"{"no":"type"}"#, r#"unknown Type("(none)")"#),
        (r#"{"type":"system","subtype":"future"}"#, r#"unknown Type("system.future")"#),
        (r#"{"type":"user","future":1}"#, r#"unknown Field("user.future")"#),
        (r#"{"type":"user","toolUseResult":{"future":1}}"#, r#"unknown Field("result.future")"#),
        (r#"{"type":"attachment","attachment":{"type":"f"}}"#, r#"unknown Type("attachment.f")"#),
        (r#"{"type":"progress","data":{"type":"f"}}"#, r#"unknown Type("progress.f")"#),
        (r#"{"type":"user","cwd":{"x":1}}"#, r#"unknown Field("user.cwd.x")"#),
        (
            r#"{"type":"file-history-snapshot","snapshot":{"trackedFileBackups":{"p":{"new":1}}}}"#,
            r#"unknown Field("backup.new")"#,
        ),
        (
            r#"{"type":"user","message":{"content":[{"type":"tool_result","content":[{"type":"f"}]}]}}"#,
            r#"unknown Type("block.f")"#,
        ),
    ] {
        assert_eq!(names(json), [expected], "{json}");
    }
}
