use super::*;

#[test]
fn pieces_of_text_and_thinking_are_told_apart() {
    let piece = |event: &str| match delta(event) {
        Some(Event::TextDelta(text)) => format!("text {text}"),
        Some(Event::ThinkingDelta(text)) => format!("thinking {text}"),
        other => format!("{other:?}"),
    };
    let event =
        |delta: &str| format!(r#"{{"type":"content_block_delta","index":0,"delta":{delta}}}"#);
    assert_eq!(piece(&event(r#"{"type":"text_delta","text":"a"}"#)), "text a");
    assert_eq!(piece(&event(r#"{"type":"thinking_delta","thinking":"b"}"#)), "thinking b");
    assert_eq!(piece(&event(r#"{"type":"input_json_delta","partial_json":"{"}"#)), "None");
    assert_eq!(piece("text_delta, but no JSON"), "None");
}

#[test]
fn what_a_call_changed_comes_from_its_result() {
    let hunk = r#"{"oldStart":1,"oldLines":1,"newStart":1,"newLines":2,"lines":["-a","+b","+c"]}"#;
    let detail = format!(r#"{{"filePath":"x","structuredPatch":[{hunk}]}}"#);
    let detail: Box<serde_json::value::RawValue> = serde_json::from_str(&detail).unwrap();
    let answer = Answer { detail, ..Answer::text("done", &()) };
    let expected = Hunk {
        old_start: 1,
        old_lines: 1,
        new_start: 1,
        new_lines: 2,
        lines: ["-a", "+b", "+c"].map(str::to_owned).to_vec(),
    };
    assert_eq!(patch(&answer), [expected]);
    assert_eq!(patch(&Answer::text("done", &"structuredPatch")), []);
}
