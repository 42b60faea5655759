use serde_json::json;

use super::*;

#[test]
fn definitions_are_read_and_those_that_want_more_than_there_is_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write(
        "a.md",
        "---\nname: reviewer\ndescription: Reviews\ntools: Read, Bash(git diff:*)\nmodel: haiku\npermissionMode: plan\nmaxTurns: 3\n---\nYou review.\n",
    );
    write("b.md", "---\ndescription: has no name\n---\nx\n");
    write("c.md", "---\nname: hooked\ndescription: d\nhooks:\n  PreToolUse:\n    - x\n---\nx\n");
    write("e.md", "---\nname: lost\ndescription: d\nmemory: project\n---\nx\n");
    let hook = "---\nname: guarded\ndescription: d\nhooks:\n  PreToolUse:\n    - hooks:\n      - type: command\n        command: check\n---\nx\n";
    write("f.md", hook);
    write("d.txt", "---\nname: other\ndescription: d\n---\n");
    let mut kinds = Kinds::built_in();
    let left = kinds.read(folder.path(), Source::User);
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left[0].ends_with("its hook for PreToolUse: an entry has no list `hooks`"), "{left:?}");
    assert!(left[1].ends_with("`memory` is not supported for agents"), "{left:?}");
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
    assert_eq!(kinds.names(), ["Explore", "general-purpose", "guarded", "quick", "reviewer"]);
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
