use std::fs;
use std::sync::Arc;

use rules::Kind;
use serde_json::json;

use super::*;
use crate::ambient::Real;
use crate::api::script::Script;
use crate::subagent::Kinds;

fn is_run(site: &Site, rule: &str, (tool, input): (&str, Value)) -> bool {
    let rule = Rule::parse(rule, Kind::Deny, "a hook", "/".into()).unwrap();
    let Value::Object(input) = input else { panic!("{input}") };
    let id = "toolu_1".to_owned();
    let call = Call { id, name: tool.to_owned(), input, cancel: Cancel::default() };
    fits(&rule, &call, site)
}

/// A hook with a rule runs whenever the rule may be about the call, whatever else would be decided.
#[test]
fn a_rule_of_a_hook_is_about_every_call_that_it_may_name() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let script = Arc::new(Script::read("{}", &[]).unwrap());
    let mut site = Site::new(&root, &root, None, (script, String::new()), Arc::new(Real));
    Kinds::built_in().tools().into_iter().for_each(|tool| site.tools.add(tool));
    fs::write(root.join("secret.txt"), "x").unwrap();
    fs::hard_link(root.join("secret.txt"), root.join("other.txt")).unwrap();
    let bash = |command: &str| ("Bash", json!({"command": command}));
    let file = |tool, path: &str| (tool, json!({"file_path": path, "content": "x"}));
    let cases = [
        // Whatever the rules of the session would say about it.
        ("TodoWrite", ("TodoWrite", json!({"todos": []})), true),
        ("Write(*.py)", file("Write", "a.py"), true),
        ("Write(*.py)", file("Write", "a.txt"), false),
        ("Write(.git/**)", file("Write", ".git/config"), true),
        ("Write(/src/**)", file("Write", "src/a"), true),
        ("Bash(git push:*)", bash("git push origin"), true),
        ("Bash(git push:*)", bash("git pull"), false),
        ("Bash(git push:*)", bash("git push > log"), true),
        ("Bash(git push:*)", bash("GIT_DIR=x git push"), true),
        ("Bash(git push:*)", bash("cd /tmp && git push"), true),
        ("Bash(git push:*)", bash("ls; git push"), true),
        // What cannot be known counts.
        ("Bash(git push:*)", bash("eval \"$(cat x)\""), true),
        ("Read(secret.txt)", ("Read", json!({"file_path": "other.txt"})), true),
        // It is about this tool only, by any of its names.
        ("Read(a)", ("Read", json!({"file_path": "a"})), true),
        ("Read(a)", file("Write", "a"), false),
        ("Read", bash("cat a"), false),
        ("Agent", ("Task", json!({"prompt": "x"})), true),
        ("*", file("Write", "a"), true),
    ];
    for (rule, call, wanted) in cases {
        let shown = format!("{rule} {call:?}");
        assert_eq!(is_run(&site, rule, call), wanted, "{shown}");
    }
    // A question about a hook leaves nothing behind for the call.
    assert!(site.pins.lock().unwrap().is_empty());
}
