//! What a resume starts (nothing), sends (what was sent before) and costs.

use super::*;

fn stderr(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

#[test]
fn what_ran_in_the_background_has_ended_and_is_not_started_again() {
    let sleep = json!({"command": "sleep 600; touch slept", "run_in_background": true, "description": "Sleep long"});
    let quick = json!({"command": "true", "run_in_background": true, "description": "Quick one"});
    let mut lab = Lab::says(&[
        &[call("c1", "Bash", &sleep), call("c2", "Bash", &quick)],
        &[text("Both run.")],
        &[text("The quick one is done.")],
        &[text("They have ended.")],
        &[text("Fine.")],
    ]);
    // Its end is the end of the input; the sleep is killed with it.
    let mut host = super::host::Host::start(
        &mut lab,
        &["--dangerously-skip-permissions", "--sandbox", "off", "--no-snapshots"],
    );
    host.say("Start both.", "u");
    host.result();
    host.result();
    host.kill();
    let out = lab.run(&["--resume", SESSION, "And now?"]);
    let note = stderr(&out);
    assert!(note.contains("not started again: `Sleep long` (b"), "{note}");
    assert!(!note.contains("Quick one"), "{note}");
    let sent = lab.server.requests()[3]["messages"].as_array().unwrap().last().unwrap().to_string();
    assert!(sent.contains("<status>stopped</status>") && sent.contains("Sleep long"), "{sent}");
    assert!(!sent.contains("Quick one"), "{sent}");
    assert!(!std::path::Path::new(&lab.path("slept")).exists());
    // It is said once.
    let out = lab.run(&["--resume", SESSION, "And now?"]);
    assert!(!stderr(&out).contains("not started again"), "{out:?}");
    assert_eq!(lab.check(SESSION), "full []");
}

#[test]
fn a_long_session_that_is_not_cached_has_its_price_printed_first() {
    let mut lab = Lab::says(&[]);
    lab.env
        .put("demo/long.txt", "word after word, line after line, and so on and on\n".repeat(1_999));
    lab.env.put(
        "demo/long2.txt",
        "line after line, word after word, and so on and on\n".repeat(1_999),
    );
    let script = json!({"default": {
        "content": [text("One.")], "usage": {"input_tokens": 10, "cache_creation_input_tokens": 60_000},
    }});
    lab.env.put("demo/script.json", script.to_string());
    let offline = "--offline=script.json";
    let out = lab.new_session(&[offline, "See @long.txt and @long2.txt"]);
    assert_eq!(String::from_utf8_lossy(&out.stdout), "One.\n", "{out:?}");
    assert!(!stderr(&out).contains("costs"), "{out:?}");
    // Each run is an hour later: nothing is cached.
    let out = lab.run(&[offline, "--resume", SESSION, "And now?"]);
    let note = stderr(&out);
    assert!(note.contains("the next message costs about $"), "{note}");
    let priced = lab.env.output(&["price", SESSION, "--as", "2.1.45"]);
    assert!(!priced.stdout.is_empty(), "{priced:?}");
    // A short one is not worth a word.
    let other = lab.run(&[offline, "--session-id", FORK, "Hello."]);
    assert_eq!(other.status.code(), Some(0), "{other:?}");
    let out = lab.run(&[offline, "--resume", FORK, "And now?"]);
    assert!(!stderr(&out).contains("costs"), "{out:?}");
}

#[test]
fn the_prefix_after_a_resume_is_what_was_sent_before() {
    let mut lab = Lab::says(&[]);
    let readme = lab.path("README.md");
    let thinking = json!({"type": "thinking", "thinking": "Hm.", "signature": "c2ln"});
    lab.server = Server::start(vec![
        vec![
            thinking,
            text("I look."),
            call("c1", "Read", &json!({"file_path": readme})),
            call("c2", "Grep", &json!({"pattern": "count", "output_mode": "content"})),
        ],
        vec![text("Seen.")],
        vec![text("Hi, Ann.")],
        vec![text("And so on.")],
        vec![text("Again.")],
    ])
    .unwrap();
    lab.env.put("demo/CLAUDE.md", "Be brief. Über 😀.\n");
    lab.env.put(".claude/commands/hi.md", "Say hi to $ARGUMENTS.\n");
    lab.env.put(".claude/settings.json", r#"{"hooks":{
        "SessionStart":[{"hooks":[{"type":"command","command":"echo begun"}]}],
        "UserPromptSubmit":[{"hooks":[{"type":"command","command":"echo it is Monday"}]}],
        "PostToolUse":[{"hooks":[{"type":"command","command":"echo '{\"hookSpecificOutput\":{\"hookEventName\":\"PostToolUse\",\"additionalContext\":\"a note\"}}'"}]}]}}"#);
    lab.new_session(&["Look around, and see @README.md"]);
    for prompt in ["/hi Ann", "More?", "And more?"] {
        lab.run(&["--resume", SESSION, prompt]);
    }
    let requests = lab.server.requests();
    assert_eq!(requests.len(), 5);
    for pair in requests.windows(2) {
        assert_eq!(pair[0]["system"].to_string(), pair[1]["system"].to_string());
        assert_eq!(pair[0]["tools"].to_string(), pair[1]["tools"].to_string());
        let (before, after) = (bare(&pair[0]), bare(&pair[1]));
        let bytes = |messages: &[Value]| -> Vec<String> {
            messages
                .iter()
                .flat_map(|message| message["content"].as_array().unwrap())
                .map(Value::to_string)
                .collect()
        };
        let (before, after) = (bytes(&before), bytes(&after));
        assert_eq!(before[..], after[..before.len()]);
    }
    assert_eq!(lab.check(SESSION), "full []");
}
