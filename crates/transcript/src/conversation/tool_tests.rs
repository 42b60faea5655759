use super::*;

fn asked(tool: &str, input: &str) -> String {
    about(tool, Json::parse(input.as_bytes()).unwrap())
}

fn came(tool: &str, result: &str) -> Option<String> {
    outcome(tool, &Object::parse(result.as_bytes())?)
}

#[test]
fn a_call_is_known_by_what_says_most() {
    assert_eq!(asked("Bash", r#"{"description":"list","command":"ls -l"}"#), "ls -l");
    assert_eq!(asked("Grep", r#"{"pattern":"fn","path":"src","output_mode":"count"}"#), "fn src");
    assert_eq!(asked("Agent", r#"{"prompt":"long","description":"Look"}"#), "Look");
    assert_eq!(asked("mcp__x__y", r#"{"limit":3,"query":"q","more":"z"}"#), "q");
    assert_eq!(asked("ExitPlanMode", r#"{"plan":"1. all"}"#), "");
    let todos = r#"{"todos":[{"content":"a","status":"completed"},{"content":"b","status":"in_progress"},{"content":"c"}]}"#;
    assert_eq!(asked("TodoWrite", todos), "1 of 3 done: b");
    assert_eq!(
        asked("AskUserQuestion", r#"{"questions":[{"question":"Which?"},{"question":"Why?"}]}"#),
        "Which? Why?"
    );
    assert_eq!(asked("Read", "null"), "");
}

#[test]
fn a_result_is_told_in_a_few_words() {
    let is = |tool: &str, result: &str, text: &str| {
        assert_eq!(came(tool, result).as_deref(), Some(text));
    };
    is("Read", r#"{"type":"text","file":{"numLines":1}}"#, "1 line");
    is("Read", r#"{"type":"image","file":{"base64":""}}"#, "image");
    is("Glob", r#"{"numFiles":2}"#, "2 files");
    is("Grep", r#"{"mode":"count","numMatches":2}"#, "2 matches");
    is("Bash", r#"{"stdout":"a\nb","stderr":"c"}"#, "3 lines");
    is("Bash", r#"{"stdout":"","backgroundTaskId":"b1"}"#, "in the background as b1");
    is("Bash", r#"{"stdout":"","interrupted":true}"#, "interrupted");
    is("WebFetch", r#"{"code":404,"codeText":"Not Found"}"#, "404 Not Found");
    is("Task", r#"{"status":"completed","totalToolUseCount":3}"#, "3 calls");
    is("Agent", r#"{"status":"async_launched","isAsync":true}"#, "in the background");
    is("AskUserQuestion", r#"{"answers":{"Which?":"This"}}"#, "This");
    assert_eq!(came("Write", r#"{"type":"create"}"#), None);
    assert_eq!(came("Bash", "\"Error\""), None);
}
