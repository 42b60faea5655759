use std::fs;

use serde_json::json;

use super::*;

#[test]
fn definitions_are_read_and_those_that_want_more_than_there_is_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write(
        "a.md",
        "---\nname: reviewer\ndescription: Reviews\ntools: Read, Bash(git diff:*)\nmodel: haiku\npermissionMode: plan\nmaxTurns: 3\nmemory: user\n---\nYou review.\n",
    );
    fs::create_dir_all(folder.path().join("more/deep")).unwrap();
    write("more/deep/a.md", "---\nname: below\ndescription: d\neffort: high\n---\nx\n");
    write("b.md", "---\ndescription: has no name\n---\nx\n");
    write("c.md", "---\nname: hooked\ndescription: d\nhooks:\n  PreToolUse:\n    - x\n---\nx\n");
    write("e.md", "---\nname: lost\ndescription: d\nisolation: worktree\n---\nx\n");
    let hook = "---\nname: guarded\ndescription: d\nhooks:\n  PreToolUse:\n    - hooks:\n      - type: command\n        command: check\n---\nx\n";
    write("f.md", hook);
    write("d.txt", "---\nname: other\ndescription: d\n---\n");
    let mut kinds = Kinds::built_in();
    let left = kinds.read(folder.path(), Source::User);
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left[0].ends_with("its hook for PreToolUse: an entry has no list `hooks`"), "{left:?}");
    assert!(left[1].ends_with("`isolation` is not supported for agents"), "{left:?}");
    let hooks = &kinds.find("guarded").unwrap().hooks;
    let hooks: Vec<_> = hooks.iter().map(|hook| (hook.action.name(), hook.source)).collect();
    assert_eq!(hooks, [("check", Source::User)]);
    let mut quiet = Kinds::built_in().without_hooks();
    quiet.read(folder.path(), Source::User);
    assert_eq!(quiet.find("guarded").unwrap().hooks.iter().count(), 0);
    let left = kinds.add_json(&json!({
        "quick": {"description": "Quick", "prompt": "Be quick.", "tools": ["Read"]}, "odd": {"prompt": "x"},
    }));
    assert_eq!(left, ["the agent `odd` is left out: it has no description"]);
    assert_eq!(
        kinds.names(),
        ["Explore", "below", "general-purpose", "guarded", "quick", "reviewer"]
    );
    let below = kinds.find("below").unwrap();
    assert_eq!((below.source, below.effort.as_deref()), (Some(Source::User), Some("high")));
    let reviewer = kinds.find("reviewer").unwrap();
    assert_eq!((reviewer.prompt.as_str(), reviewer.max_turns), ("You review.", Some(3)));
    assert_eq!(reviewer.mode, Some(Mode::Plan));
    let mut all = Registry::built_in();
    kinds.tools().into_iter().for_each(|tool| all.add(tool));
    let names = |kind: &str, nesting| -> Vec<String> {
        let tools = kinds.find(kind).unwrap().tools(&all, nesting);
        tools.iter().map(|tool| tool.spec().name.clone()).collect()
    };
    assert_eq!(names("reviewer", Nesting::Possible), ["Bash", "Read"]);
    // Of Bash, it has only what the definition says.
    let scope = reviewer.scope(folder.path()).unwrap();
    assert_eq!(scope.listed.iter().map(Rule::text).collect::<Vec<_>>(), ["Bash(git diff:*)"]);
    assert_eq!(kinds.find("quick").unwrap().scope(folder.path()), None);
    assert!(names("general-purpose", Nesting::Possible).contains(&"Task".to_owned()));
    assert!(!names("general-purpose", Nesting::TooDeep).contains(&"Task".to_owned()));
    assert!(!names("Explore", Nesting::Possible).contains(&"Write".to_owned()));
}

#[test]
fn modes_are_only_narrowed() {
    assert_eq!(narrower(Mode::Default, Mode::Bypass), Mode::Default);
    assert_eq!(narrower(Mode::Bypass, Mode::Plan), Mode::Plan);
    assert_eq!(narrower(Mode::Plan, Mode::AcceptEdits), Mode::Plan);
}

#[test]
fn definitions_name_tools_and_types_in_any_form() {
    let mut kinds = Kinds::built_in();
    let left = kinds.add_json(&json!({
        "lead": {"description": "d", "tools": "Read, Agent(scout, planner), Bash, Bash(git:*)"},
        "alone": {"description": "d", "disallowedTools": ["Agent"]},
        "most": {"description": "d", "tools": ["*"], "disallowedTools": "Agent(lead) Bash(rm:*)"},
        "odd": {"description": "d", "tools": ["Grep(*.rs)"]},
        "broken": {"description": "d", "disallowedTools": ["Bash(rm"]},
    }));
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left.iter().any(|why| why.contains("`Grep(*.rs)` in `tools`")), "{left:?}");
    assert!(left.iter().any(|why| why.contains("`Bash(rm` is not understood")), "{left:?}");
    let kind = |name: &str| kinds.find(name).unwrap();
    let has = |name: &str, tool: &str| kind(name).has(tool);
    assert!(has("lead", "Task") && has("lead", "Agent") && !has("lead", "Write"));
    assert!(!has("alone", "Task") && has("alone", "Bash"));
    assert!(has("most", "Task") && has("most", "Bash"));
    let scope = |name: &str| kind(name).scope(Path::new("/demo"));
    // All of Bash is listed, too.
    let lead = scope("lead").unwrap();
    assert!(lead.listed.is_empty());
    assert!(lead.may_start("scout") && lead.may_start("planner") && !lead.may_start("Explore"));
    assert_eq!(scope("alone"), None);
    let most = scope("most").unwrap();
    assert!(!most.may_start("lead") && most.may_start("Explore"));
    assert_eq!(most.refused.iter().map(Rule::text).collect::<Vec<_>>(), ["Bash(rm:*)"]);
    assert_eq!(most.refused[0].root, Path::new("/demo"));
}
