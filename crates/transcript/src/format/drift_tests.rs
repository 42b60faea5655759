use super::*;

fn names(json: &str) -> Vec<String> {
    let mut drift = Drift::default();
    drift.begin("file");
    drift.add(1, &Entry::parse(json.as_bytes()).unwrap());
    drift.finish().keys().map(|(version, what)| format!("{} {what:?}", version.text())).collect()
}

#[test]
fn known_records_are_silent() {
    for json in [
        r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"x"}]}]},"toolUseResult":{"stdout":"x"}}"#,
        r#"{"type":"assistant","message":{"content":[{"type":"tool_use","input":{"anything":{"at":"all"}}}]}}"#,
        r#"{"type":"file-history-snapshot","snapshot":{"trackedFileBackups":{"any/path":{"version":1}}}}"#,
        r#"{"type":"user","toolUseResult":[{"type":"text","text":"from MCP"}]}"#,
        r#"{"type":"user","toolUseResult":[{"server":"s","uri":"u","name":"n","mimeType":"m"}]}"#,
        r#"{"message":{"role":"assistant","content":"flat"}}"#,
        r#"{"type":"human","message":{"content":"human"},"isDeleted":true}"#,
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

#[test]
fn records_before_the_first_version_are_of_that_version() {
    let mut drift = Drift::default();
    drift.begin("file");
    for (line, json) in
        [r#"{"type":"new"}"#, r#"{"type":"user","version":"2.1.400","x":1}"#].iter().enumerate()
    {
        drift.add(line as u64, &Entry::parse(json.as_bytes()).unwrap());
    }
    drift.begin("other");
    drift.add(7, &Entry::parse(br#"{"type":"new","version":"2.1.9"}"#).unwrap());
    let found = drift.finish();
    let found: Vec<_> = found
        .iter()
        .map(|((version, what), one)| {
            format!("{} {what:?} {}:{}", version.text(), one.file, one.line)
        })
        .collect();
    assert_eq!(
        found,
        [
            r#"2.1.9 Type("new") other:7"#,
            r#"2.1.400 Type("new") file:0"#,
            r#"2.1.400 Field("user.x") file:1"#
        ]
    );
}
