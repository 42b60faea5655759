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
fn matchers_are_names_or_regular_expressions_that_find_a_part() {
    let hooks = |matcher: &str, command: &str| json!({"matcher": matcher, "hooks": [{"type": "command", "command": command}]});
    let (book, left) = book(&json!({"PreToolUse": [
        hooks("", "all"), hooks("*", "star"), hooks("Write|Edit", "either"), hooks("Rea.*", "regex"),
        hooks("Rea", "part"), hooks("read", "case"), hooks("mcp__(", "broken"),
        hooks("e.d", "inside"), hooks("^Re", "begins"), hooks("Edit, Read", "list"),
        hooks("(?!Bash).*", "looks ahead"), {"matcher": 3, "hooks": []},
        {"hooks": [{"type": "command", "command": "none"}]},
    ]}));
    // What is not understood is never taken for something that fits nothing.
    let left: Vec<bool> = left.iter().map(|no| no.blocks).collect();
    assert_eq!(left, [true, true, true]);
    let read = ["all", "star", "regex", "inside", "begins", "list", "none"];
    assert_eq!(names(&book, "PreToolUse", "Read"), read);
    assert_eq!(names(&book, "PreToolUse", "Edit"), ["all", "star", "either", "list", "none"]);
    assert_eq!(names(&book, "PreToolUse", "Bread"), ["all", "star", "inside", "none"]);
    assert_eq!(names(&book, "PostToolUse", "Read"), [""; 0]);
}

#[test]
fn a_matcher_means_a_tool_by_any_of_its_names() {
    let hooks = |matcher: &str| json!([{"matcher": matcher, "hooks": [{"type": "command", "command": "a"}]}]);
    for (matcher, event, subject, wanted) in [
        ("Agent", "PreToolUse", "Task", true),
        ("Task", "PostToolUse", "Agent", true),
        ("Bash|Agent", "PermissionRequest", "Task", true),
        ("^Ag.*t$", "PostToolUseFailure", "Task", true),
        ("Agent", "PreToolUse", "TaskStop", false),
        ("KillShell", "PreToolUse", "TaskStop", true),
        // The type of a sub-agent is no tool.
        ("Agent", "SubagentStart", "Task", false),
    ] {
        let (book, _) = book(&json!({event: hooks(matcher)}));
        assert_eq!(!names(&book, event, subject).is_empty(), wanted, "{matcher} {subject}");
    }
}

#[test]
fn a_command_in_two_places_is_waited_for_if_one_of_them_wants_that() {
    let hook = |is_async: bool| json!({"type": "command", "command": "a", "async": is_async});
    for hooks in [[hook(true), hook(false)], [hook(false), hook(true)]] {
        let (book, _) = book(&json!({"PreToolUse": [{"hooks": hooks}]}));
        let found = book.of("PreToolUse", "Read", |_| true);
        assert_eq!(found.iter().map(|hook| hook.is_async).collect::<Vec<_>>(), [false]);
    }
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

#[test]
fn a_matcher_means_nothing_where_an_event_is_about_nothing() {
    let hook = |timeout: Value| json!([{"matcher": "foo", "hooks": [{"type": "command", "command": "a", "timeout": timeout}]}]);
    let (book, left) = book(&json!({
        "Stop": hook(Value::Null), "UserPromptSubmit": hook(Value::Null),
        "SessionEnd": hook(Value::Null), "PreCompact": hook(json!(5)),
    }));
    assert_eq!(left, []);
    let took = |event: &str, subject: &str| -> Vec<u128> {
        let found = book.of(event, subject, |_| true);
        found.iter().map(|hook| hook.timeout.as_millis()).collect()
    };
    assert_eq!(took("Stop", ""), [600_000]);
    assert_eq!(took("UserPromptSubmit", ""), [30_000]);
    assert_eq!(took("SessionEnd", "other"), [0_u128; 0]);
    assert_eq!(took("SessionEnd", "foo"), [1_500]);
    assert_eq!(took("PreCompact", "foo"), [5_000]);
}

#[test]
fn a_hook_with_arguments_is_no_shell_script() {
    let (book, left) = book(&json!({"Stop": [{"hooks": [
        {"type": "command", "command": "${CLAUDE_PROJECT_DIR}/my check", "args": ["it's", "$HOME"]},
        {"type": "command", "command": "a", "shell": "powershell"},
    ]}]}));
    assert_eq!(left.len(), 1);
    let expected = r#"''"$CLAUDE_PROJECT_DIR"'/my check' 'it'\''s' '$HOME'"#;
    assert_eq!(names(&book, "Stop", ""), [expected]);
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
    // Nonsense that looks like JSON says nothing, and the user learns it.
    let nonsense = verdict(&[ran(0, "{nonsense", "")]);
    assert_eq!((nonsense.printed.len(), nonsense.failures.len()), (0, 1));
    // A refusal stays one, whatever is wrong beside it.
    let odd = verdict(&[ran(0, r#"{"decision":"block","reason":"no","continue":"no"}"#, "")]);
    assert_eq!((odd.refusal().as_deref(), odd.failures.len()), (Some("no"), 1));
    let defer = r#"{"hookSpecificOutput":{"permissionDecision":"defer"}}"#;
    let deferred = verdict(&[ran(0, allow, ""), ran(0, defer, "")]);
    assert_eq!(deferred.permission.map(|(word, _)| word), Some(Permission::Defer));
}

#[test]
fn a_refusal_of_what_cannot_be_refused_is_shown() {
    let shown = Verdict::of("SessionStart", &[ran(2, "", "no way\n")]);
    assert_eq!((shown.refusal(), shown.failures.len()), (None, 1));
    assert_eq!(shown.failures[0], "the SessionStart hook `check`: no way");
    // The model gets these.
    assert!(Verdict::of("PostToolUseFailure", &[ran(2, "", "no")]).refusal().is_some());
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

#[test]
fn once_is_for_definitions_and_until_a_hook_has_succeeded() {
    let hook = |once: bool| json!([{"hooks": [{"type": "command", "command": "a", "once": once}]}]);
    let events = json!({"Stop": hook(true), "PreCompact": hook(false)});
    let mut book = HookBook::of_definition(&events, Source::User).unwrap();
    let all: Vec<Hook> = book.iter().cloned().collect();
    for hook in &all {
        book.succeeded(hook);
    }
    assert_eq!((book.has("Stop"), book.has("PreCompact")), (false, true));
    // What is there already is not added again.
    let mut other = HookBook::default();
    other.add(events.as_object().unwrap(), Source::User);
    other.adopt(&book);
    assert_eq!(other.iter().count(), 2);
    for hook in &all {
        other.succeeded(hook);
    }
    assert_eq!(other.iter().count(), 2);
    let odd = json!({"Stop": [{"hooks": [{"type": "http", "url": "http://localhost"}]}]});
    let why = HookBook::of_definition(&odd, Source::User).unwrap_err();
    assert_eq!(why, "its hook for Stop: hooks of the type `http` do not run here");
    assert!(HookBook::of_definition(&json!("x"), Source::User).is_err());
}
