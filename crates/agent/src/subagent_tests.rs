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
    write("d.txt", "---\nname: other\ndescription: d\n---\n");
    let mut kinds = Kinds::built_in();
    let left = kinds.read(folder.path());
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(left[0].ends_with("`hooks` is not supported for agents"), "{left:?}");
    let left = kinds.add_json(&json!({
        "quick": {"description": "Quick", "prompt": "Be quick.", "tools": ["Read"]}, "odd": {"prompt": "x"},
    }));
    assert_eq!(left, ["the agent `odd` is left out: it has no description"]);
    assert_eq!(kinds.names(), ["Explore", "general-purpose", "quick", "reviewer"]);
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
