use serde_json::json;

use super::run::Ran;
use super::*;

fn book(settings: &Value) -> (HookBook, Vec<NoHook>) {
    let mut book = HookBook::default();
    let left = book.add(settings.as_object().unwrap(), Source::User);
    (book, left)
}

fn names(book: &HookBook, event: &str, subject: &str) -> Vec<String> {
    let found = book.of(event, subject, |_| true);
    found.iter().map(|hook| hook.action.name().to_owned()).collect()
}

#[test]
fn matchers_are_whole_names_or_regular_expressions() {
    let hooks = |matcher: &str, command: &str| json!({"matcher": matcher, "hooks": [{"type": "command", "command": command}]});
    let (book, left) = book(&json!({"PreToolUse": [
        hooks("", "all"), hooks("*", "star"), hooks("Write|Edit", "either"), hooks("Rea.*", "regex"),
        hooks("Rea", "part"), hooks("read", "case"), hooks("mcp__(", "broken"),
        {"hooks": [{"type": "command", "command": "none"}]},
    ]}));
    assert_eq!(left, []);
    assert_eq!(names(&book, "PreToolUse", "Read"), ["all", "star", "regex", "none"]);
    assert_eq!(names(&book, "PreToolUse", "Edit"), ["all", "star", "either", "none"]);
    assert_eq!(names(&book, "PreToolUse", "mcp__("), ["all", "star", "broken", "none"]);
    assert_eq!(names(&book, "PostToolUse", "Read"), [""; 0]);
}

#[test]
fn what_cannot_run_is_named_and_never_skipped_where_it_could_refuse() {
    let (book, left) = book(&json!({
        "PreToolUse": [{"hooks": [{"type": "prompt", "prompt": "is it fine?"}]}],
        "SessionEnd": [{"hooks": [{"type": "http", "url": "http://localhost"}]}],
        "Stop": {"hooks": []}, "NoSuch": [], "Setup": [{"hooks": [{"type": "command", "command": "a"}]}],
        "UserPromptSubmit": [{"matcher": "x"}, {"hooks": [{"type": "command", "command": " "}]}],
    }));
    let left: Vec<(&str, bool)> = left.iter().map(|no| (no.event.as_str(), no.blocks)).collect();
    let expected = [
        ("PreToolUse", true),
        ("SessionEnd", false),
        ("Stop", true),
        ("NoSuch", false),
        ("Setup", false),
        ("UserPromptSubmit", true),
        ("UserPromptSubmit", true),
    ];
    assert_eq!(left, expected);
    assert_eq!(book.iter().count(), 0);
    assert_eq!(EVENTS.len(), 33);
}

fn ran(code: i32, stdout: &str, stderr: &str) -> (Hook, Ran) {
    let (book, _) =
        book(&json!({"PreToolUse": [{"hooks": [{"type": "command", "command": "check"}]}]}));
    let hook = book.of("PreToolUse", "Read", |_| true).remove(0);
    let (stdout, stderr) = (stdout.to_owned(), stderr.to_owned());
    (hook, Ran { code: Some(code), stdout, stderr, ..Ran::default() })
}

fn verdict(ran: &[(Hook, Ran)]) -> Verdict {
    Verdict::of("PreToolUse", ran)
}

#[test]
fn answers_mean_what_they_mean_in_the_original() {
    assert_eq!(verdict(&[ran(0, "", "")]), Verdict::default());
    let plain = Verdict { printed: vec!["noted".to_owned()], ..Verdict::default() };
    assert_eq!(verdict(&[ran(0, "noted\n", "")]), plain);
    assert_eq!(verdict(&[ran(2, "", "no way\n")]).refusal().as_deref(), Some("[check]: no way"));
    let silent = verdict(&[ran(2, "", "")]);
    assert_eq!(silent.refusal().as_deref(), Some("[check]: No stderr output"));
    let failed = verdict(&[ran(1, "", "oops")]);
    assert_eq!((failed.refusal(), failed.failures.len()), (None, 1));
    let deny =
        r#"{"hookSpecificOutput":{"permissionDecision":"deny","permissionDecisionReason":"no"}}"#;
    let allow = r#"{"hookSpecificOutput":{"permissionDecision":"allow","updatedInput":{"a":1}}}"#;
    let both = verdict(&[ran(0, allow, ""), ran(0, deny, "")]);
    assert_eq!(both.refusal().as_deref(), Some("no"));
    let allowed = verdict(&[ran(0, allow, "")]);
    assert_eq!(allowed.permission.map(|(word, _)| word), Some(Permission::Allow));
    assert_eq!(allowed.input, Some(json!({"a": 1})));
    let halted = verdict(&[ran(0, r#"{"continue":false,"stopReason":"enough"}"#, "")]);
    assert_eq!(halted.halt.as_deref(), Some("enough"));
    // Nonsense that looks like JSON is plain text.
    assert_eq!(verdict(&[ran(0, "{nonsense", "")]).printed, ["{nonsense"]);
}

#[test]
fn a_host_may_want_failures_of_its_hooks_to_refuse() {
    let refuses = |on_failure: Value, event: &str, ran: Ran| {
        let mut book = HookBook::default();
        let hooks = json!({event: [{"hookCallbackIds": ["h"], "onFailure": on_failure}]});
        book.add_callbacks(hooks.as_object().unwrap());
        let hook = book.of(event, "Read", |_| true).remove(0);
        Verdict::of(event, &[(hook, ran)]).refusal().is_some()
    };
    let late = || Ran { trouble: Some("did not answer in time".to_owned()), ..Ran::default() };
    let odd = || Ran { code: Some(0), stdout: "{odd".to_owned(), ..Ran::default() };
    for ran in [late, odd] {
        assert!(refuses(json!("block"), "PreToolUse", ran()));
        // A word that is not known is the careful one.
        assert!(refuses(json!("stop"), "PreToolUse", ran()));
        assert!(!refuses(json!("continue"), "PreToolUse", ran()));
        assert!(!refuses(Value::Null, "PreToolUse", ran()));
        assert!(!refuses(json!("block"), "Stop", ran()));
    }
}

#[test]
fn long_texts_are_cut() {
    let verdict = verdict(&[ran(0, &"x".repeat(50_000), "")]);
    assert!(verdict.printed[0].len() < 11_000);
}
