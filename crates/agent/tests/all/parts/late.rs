//! Hooks that nothing waits for, those that come with a skill, and prompts that hooks must see
//! first.

use super::*;

fn bash(command: &str) -> Value {
    calls("Bash", &json!({"command": command}))
}

#[test]
fn a_hook_that_nothing_waits_for_wakes_the_model_if_it_refuses() {
    let lab = Lab::new(&json!({"hooks": {"PostToolUse": [{"matcher": "Bash", "hooks": [{
        "type": "command", "command": "sleep 1; echo look again >&2; exit 2", "asyncRewake": true,
    }]}]}}));
    let script = json!({"replies": [bash("echo one"), says("First."), says("Looked.")]});
    let done = lab.run(&script, Origin::New, &["Go."]);
    let outcomes = done.outcomes();
    let texts: Vec<&str> = outcomes.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["First.", "Looked."], "{outcomes:?}");
    assert!(done.sent.iter().any(|block| block.contains("look again")), "{:?}", done.sent);
}

#[test]
fn what_a_hook_says_that_nothing_waits_for_goes_along_later_and_decides_nothing() {
    let word = r#"sleep 0.2; echo '{"decision":"block","reason":"no","systemMessage":"tested","hookSpecificOutput":{"additionalContext":"the tests pass"}}'"#;
    let lab = Lab::new(&json!({"hooks": {
        "PreToolUse": [{"matcher": "Bash", "hooks": [
            {"type": "command", "command": word, "async": true}]}],
    }}));
    let script = json!({"replies": [bash("echo one"), bash("sleep 1; touch made"), says("Done.")]});
    let done = lab.run(&script, Origin::New, &["Go."]);
    assert_eq!(done.outcomes()[0].1, "Done.");
    assert!(lab.path("project/made").exists());
    let sent = done.sent.join("\n");
    assert!(sent.contains("PreToolUse:Bash hook additional context: the tests pass"), "{sent}");
    let heard = done.events.iter().find_map(|(_, event)| match event {
        Event::HookSaid { name, text } => Some((name.as_str(), text.as_str())),
        _ => None,
    });
    assert_eq!(heard, Some(("PreToolUse:Bash", "tested")));
}

#[test]
fn a_prompt_that_comes_while_tools_run_is_seen_by_hooks_before_the_model() {
    let mut lab = Lab::new(&json!({"hooks": {"UserPromptSubmit": [{"hooks": [
        {"type": "command", "command": "grep -q secret && { echo not that >&2; exit 2; }; exit 0"},
    ]}]}}));
    lab.says = Some("the secret words");
    let script = json!({"replies": [bash("sleep 0.5"), says("Done."), says("Never.")]});
    let done = lab.run(&script, Origin::New, &["Go."]);
    let outcomes = done.outcomes();
    assert_eq!(outcomes[0].1, "Done.", "{outcomes:?}");
    assert!(matches!(&outcomes[1].0, Outcome::Blocked(why) if why.contains("not that")));
    assert_eq!(outcomes.len(), 2);
    assert!(!done.sent.join("\n").contains("secret"), "{:?}", done.sent);
}

#[test]
fn a_hook_may_refuse_a_prompt_and_not_have_it_repeated() {
    let word = |more: &str| {
        format!(r#"echo '{{"decision":"block","reason":"no","hookSpecificOutput":{{{more}}}}}'"#)
    };
    for (more, is_repeated) in [(r#""suppressOriginalPrompt":true"#, false), ("", true)] {
        let lab = Lab::new(&hooks("UserPromptSubmit", "", &[&word(more)]));
        let done = lab.run(&json!({"replies": []}), Origin::New, &["the secret"]);
        let outcomes = done.outcomes();
        let Outcome::Blocked(why) = &outcomes[0].0 else { panic!("{outcomes:?}") };
        assert_eq!(why.contains("the secret"), is_repeated, "{why}");
        let file = fs::read_to_string(&done.file).unwrap();
        assert_eq!(file.contains("the secret"), is_repeated, "{file}");
    }
}

#[test]
fn what_a_skill_forbids_holds_once_it_is_loaded() {
    let lab = Lab::new(&json!({}));
    put(
        &lab.path("home/skills/careful/SKILL.md"),
        "---\nname: careful\ndescription: Care\ndisallowed-tools: Write\nhooks:\n  PreToolUse:\n    - matcher: Bash\n      hooks:\n        - type: command\n          command: \"echo not now >&2; exit 2\"\n  PostToolUse:\n    - matcher: Read\n      hooks:\n        - type: command\n          command: echo once >> log\n          once: true\n---\nBe careful.\n",
    );
    put(
        &lab.path("home/skills/broken/SKILL.md"),
        "---\ndescription: Never\nhooks:\n  PreToolUse:\n    - hooks:\n        - type: prompt\n          prompt: is it fine?\n---\nx\n",
    );
    let write = |name: &str| {
        let path = lab.path("project").join(name);
        calls("Write", &json!({"file_path": path, "content": "x"}))
    };
    let read = || calls("Read", &json!({"file_path": lab.path("project/a.txt")}));
    let script = json!({"replies": [
        bash("touch before"), calls("Skill", &json!({"skill": "careful"})),
        bash("touch after"), write("during"), calls("Skill", &json!({"skill": "broken"})),
        says("Done."),
        bash("touch later"), write("then"), read(), read(), says("End."),
    ]});
    let done = lab.run(&script, Origin::New, &["Go.", "And now?"]);
    let outcomes = done.outcomes();
    assert_eq!(outcomes[1].1, "End.", "{outcomes:?}");
    // Its hooks stay, what it denies ends with the turn.
    let exists = ["before", "after", "during", "later", "then"]
        .map(|name| lab.path("project").join(name).exists());
    assert_eq!(exists, [true, false, false, false, true], "{:?}", done.results());
    assert_eq!(fs::read_to_string(lab.path("project/log")).unwrap(), "once\n");
    // One whose hooks do not run here is not there.
    let results = done.results();
    assert!(results.iter().any(|(_, text)| text.contains("Unknown skill: broken")), "{results:?}");
}

#[test]
fn a_sub_agent_has_the_skills_and_the_effort_of_its_definition() {
    let mut lab = Lab::new(&json!({}));
    put(
        &lab.path("home/skills/tidy/SKILL.md"),
        "---\ndescription: Tidy\ndisallowed-tools: Bash\n---\nAlways tidy up.\n",
    );
    lab.agents = Some(json!({"cleaner": {
        "description": "Cleans", "prompt": "Clean.", "skills": ["tidy"], "effort": "low",
    }}));
    let task = json!({"description": "d", "prompt": "Go on.", "subagent_type": "cleaner"});
    let script = json!({
        "replies": [calls("Task", &task), says("Done.")],
        "rules": [{"match": {"system_contains": "Always tidy up."}, "replies": [
            bash("touch made"), says("Cleaned."),
        ]}],
    });
    let done = lab.run(&script, Origin::New, &["Go."]);
    let results = done.results();
    assert!(results.iter().any(|(_, text)| text.contains("Cleaned.")), "{results:?}");
    assert!(!lab.path("project/made").exists(), "{results:?}");
}

#[test]
fn hooks_keep_a_turn_from_ending_a_bounded_number_of_times() {
    for (most, answers) in [(Some("2"), 3), (None, 10)] {
        let mut lab = Lab::new(&hooks("Stop", "", &["echo more >&2; exit 2"]));
        if let Some(most) = most {
            lab.variables.0.insert("CLAUDE_CODE_STOP_HOOK_BLOCK_CAP", most.to_owned());
        }
        let replies: Vec<Value> = (1..20).map(|number| says(&format!("{number}."))).collect();
        let done = lab.run(&json!({"replies": replies}), Origin::New, &["Go."]);
        assert_eq!(done.outcomes()[0].1, format!("{answers}."));
    }
}

#[test]
fn hooks_learn_of_instructions_that_come_with_a_file() {
    let lab =
        Lab::new(&hooks("InstructionsLoaded", "nested_traversal|path_glob_match", &["cat >> log"]));
    put(&lab.path("project/CLAUDE.md"), "Be brief.\n");
    put(&lab.path("project/src/CLAUDE.md"), "Be exact.\n");
    put(&lab.path("project/.claude/rules/code.md"), "---\npaths: src/*.rs\n---\nBe safe.\n");
    put(&lab.path("project/src/main.rs"), "fn main() {}\n");
    let file = lab.path("project/src/main.rs").display().to_string();
    let script = json!({"replies": [calls("Read", &json!({"file_path": file})), says("Done.")]});
    let done = lab.run(&script, Origin::New, &["Go."]);
    let result = &done.results()[0].1;
    assert!(result.contains("Be exact.") && result.contains("Be safe."), "{result}");
    let mut heard = lines(&lab.path("project/log"));
    heard.sort_by_key(|input| input["load_reason"].to_string());
    let about = |input: &Value| {
        ["load_reason", "trigger_file_path", "globs"].map(|name| input[name].clone())
    };
    let heard: Vec<[Value; 3]> = heard.iter().map(about).collect();
    let wanted = [
        [json!("nested_traversal"), json!(file), Value::Null],
        [json!("path_glob_match"), json!(file), json!(["src/*.rs"])],
    ];
    assert_eq!(heard, wanted);
}
