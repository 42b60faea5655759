use serde_json::json;

use super::*;

#[test]
fn front_matter_as_people_write_it() {
    let text = "---\nname: reviewer\ndescription: \"Reads: all of it\"\ntools: Read, Grep\nmore:\n  - a\n  - 'b'\nlist: [x, y]\nlong: >\n  one\n  two\nmaxTurns: 5\nbackground: true\n# a comment\n---\n\nYou review.\n";
    let (members, body) = read(text);
    let expected = json!({
        "name": "reviewer", "description": "Reads: all of it", "tools": "Read, Grep",
        "more": ["a", "b"], "list": ["x", "y"], "long": "one two", "maxTurns": 5, "background": true,
    });
    assert_eq!(Value::Object(members.clone()), expected);
    assert_eq!(body, "You review.\n");
    assert_eq!(list(&members["tools"]), ["Read", "Grep"]);
    assert_eq!(list(&members["more"]), ["a", "b"]);
}

#[test]
fn hooks_are_as_deep_as_in_settings() {
    let text = "---\nname: editor\nhooks:\n  PreToolUse:\n    - matcher: \"Write|Edit\"\n      hooks:\n        - type: command\n          command: cat >> 'a: b'; echo 1\n          timeout: 5\n    # another\n    - hooks:\n      - type: command\n        command: |\n          one\n          two\n  Stop:\n  - hooks: []\ncolor: blue\n---\nx\n";
    let (members, _) = read(text);
    let expected = json!({
        "PreToolUse": [
            {"matcher": "Write|Edit", "hooks": [
                {"type": "command", "command": "cat >> 'a: b'; echo 1", "timeout": 5}]},
            {"hooks": [{"type": "command", "command": "one\ntwo"}]},
        ],
        "Stop": [{"hooks": []}],
    });
    assert_eq!(members["hooks"], expected);
    assert_eq!(members["color"], "blue");
    let mut deep = "---\nhooks:\n".to_owned();
    for depth in 1..500 {
        deep += &" ".repeat(depth);
        deep += "a:\n";
    }
    deep += "---\n";
    assert!(read(&deep).0["hooks"].is_object());
    for odd in [
        "---\nhooks:\n  -\n  - - x\n---\n",
        "---\nhooks:\n  ü: é: -\n - a\n---\n",
        "---\nhooks:\n  x\n---\n",
    ] {
        read(odd);
    }
}

#[test]
fn a_file_without_an_end_of_it_is_all_text() {
    for text in ["", "no front matter", "---\nname: x\n", "----\nname: x\n---\n"] {
        assert_eq!(read(text), (Map::new(), text));
    }
}

#[test]
fn items_are_separated_outside_of_brackets_and_quotes() {
    let (members, _) = read("---\na: [\"x/*.{a,b}\", Bash(git log, x), 'c,d', e]\n---\n");
    assert_eq!(members["a"], serde_json::json!(["x/*.{a,b}", "Bash(git log, x)", "c,d", "e"]));
    assert_eq!(items("a/{b,c}, d,, e").collect::<Vec<_>>(), ["a/{b,c}", "d", "e"]);
}
