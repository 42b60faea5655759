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
fn a_file_without_an_end_of_it_is_all_text() {
    for text in ["", "no front matter", "---\nname: x\n", "----\nname: x\n---\n"] {
        assert_eq!(read(text), (Map::new(), text));
    }
}
