use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;

const OWN: &str = "/usr/bin/quipu";

/// Settings as people have them, and as nobody should.
const AWKWARD: &[&str] = &[
    "{}",
    "{}\n",
    "\u{feff}{}\r\n",
    "{\"a\":1}",
    "  {\"a\": 1, \"b\": [1, 2]}  \n\n",
    "{\n  \"model\": \"opus\"\n}\n",
    "{\n  \"model\": \"opus\"\n}",
    "{\n    \"model\": \"opus\",\n    \"env\": {\n        \"A\": \"1\"\n    }\n}\n",
    "{\n\t\"model\": \"opus\",\n\t\"env\": {\"A\": \"1\"}\n}\n",
    "{\r\n  \"model\": \"opus\"\r\n}\r\n",
    "\u{feff}{\r\n\t\"model\": \"opus\"\r\n}",
    "{\n\"flush\": {\n\"left\": true\n}\n}\n",
    "{\n  \"numbers\": [1e3, 0.10, -0.0, 1E+2, 12345678901234567890123],\n  \"one\": 1.0\n}\n",
    "{\n  \"text\": \"\\u00e9 \\ud83d\\ude00 \\/ \\ud800 é 😀\", \"\\u0061\": 1\n}\n",
    "{\n  \"twice\": 1,\n  \"twice\": 2\n}\n",
    "{\n    \"comma\": 1\n  , \"first\": 2\n}\n",
    "{ \"hooks\": { \"Stop\": [ { \"hooks\": [ { \"type\": \"command\", \"command\": \"x\" } ] } ] } }\n",
    "{\"hooks\":{\"PreToolUse\":[{\"matcher\":\"Write|Edit\",\"hooks\":[]}]},\"after\":{}}\n",
    "{\n  \"hooks\": {\n    \"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \
        \"x\"}]}]\n  },\n\n  \"after\": 1\n}\n",
    "{\n  \"hooks\": {\n    \"SessionEnd\": [\n      {\n        \"matcher\": \"clear\",\
        \n        \"hooks\": [\n          {\n            \"type\": \"command\",\n            \
        \"command\": \"say \\\"bye\\\"\"\n          }\n        ]\n      }\n    ],\n    \
        \"Stop\": [{\n      \"hooks\": []\n    }]\n  }\n}\n",
    "{\n  \"hooks\": {\"\\u0053top\": [\n    {\"hooks\": [{\"type\": \"command\", \
        \"command\": \"quipu hook stop | tee x\"}]}\n  ]}\n}\n",
    "{\n  \"hooks\": {\"Other\": {\"not\": \"a list\"}, \"Stop\": [1, null, {\"hooks\": \
        \"no list\"}, {\"hooks\": [\"x\"]}]}\n}\n",
    "{\"env\":{\"hooks\":{\"Stop\":[]}}}",
];

/// Settings with empty values where the hook goes, and what is left of them.
const EMPTY: &[(&str, &str)] = &[
    ("", "{}\n"),
    (" \n", "{}\n"),
    ("\u{feff}", "\u{feff}{}\n"),
    ("{ }\n", "{}\n"),
    ("{\n}\n", "{}\n"),
    ("{\"hooks\":{}}", "{}"),
    ("{\n  \"a\": 1,\n  \"hooks\": {}\n}\n", "{\n  \"a\": 1\n}\n"),
    ("{\n  \"hooks\": {},\n  \"a\": 1\n}\n", "{\n  \"a\": 1\n}\n"),
    ("{\n  \"hooks\": {\n    \"Stop\": []\n  }\n}\n", "{}\n"),
    ("{\"hooks\":{\"Stop\":[],\"Other\":[]}}", "{\"hooks\":{\"Other\":[]}}"),
];

/// The parsed text; `None` if that is more than most programs can parse.
fn value(text: &str) -> Option<Value> {
    serde_json::from_str(text.trim_start_matches(BYTE_ORDER_MARK)).ok()
}

/// Adds the hook, checks the result, and removes the hook again.
fn there_and_back(text: &str) -> String {
    let installed = install(text, OWN).unwrap();
    let found = hooks(&installed, OWN).unwrap();
    let events: Vec<&str> = found.iter().map(|hook| hook.event).collect();
    assert_eq!(events, EVENTS, "{installed}");
    assert!(found.iter().all(|hook| hook.command == "/usr/bin/quipu hook stop"), "{installed}");
    assert_eq!(install(&installed, OWN).unwrap(), installed, "twice is once");
    let bare = |text: &str| text.matches('\n').count() - text.matches("\r\n").count();
    assert!(bare(text) > 0 || !text.contains('\n') || bare(&installed) == 0, "{installed:?}");
    if let Some(mut expected) = value(text) {
        for event in EVENTS {
            let command = json!({"type": "command", "command": found[0].command, "timeout": 10});
            let groups = &mut expected["hooks"][event];
            let mut list = groups.as_array().cloned().unwrap_or_default();
            list.push(json!({ "hooks": [command] }));
            *groups = list.into();
        }
        assert_eq!(value(&installed), Some(expected), "{installed}");
    }
    uninstall(&installed, OWN).unwrap()
}

#[test]
fn what_is_put_in_is_taken_out_without_a_trace() {
    for text in AWKWARD {
        assert_eq!(there_and_back(text), *text);
        assert_eq!(uninstall(text, OWN).unwrap(), *text, "nothing of ours is in it");
    }
}

#[test]
fn empty_values_are_not_kept() {
    for (text, left) in EMPTY {
        assert_eq!(there_and_back(text), *left, "{text:?}");
        assert_eq!(uninstall(text, OWN).unwrap(), *text, "nothing of ours is in it");
    }
}

#[test]
fn it_looks_like_what_is_around_it() {
    let tabs = "{\n\t\"hooks\": {\n\t\t\"Stop\": [\n\t\t\t{ \"hooks\": [] }\n\t\t],\n\
        \t\t\"SubagentStop\": [{\"hooks\": []}]\n\t}\n}\n";
    assert_snapshot!(install(tabs, OWN).unwrap().replace('\t', "→"), @r#"
    {
    →"hooks": {
    →→"Stop": [
    →→→{ "hooks": [] },
    →→→{
    →→→→"hooks": [
    →→→→→{
    →→→→→→"type": "command",
    →→→→→→"command": "/usr/bin/quipu hook stop",
    →→→→→→"timeout": 10
    →→→→→}
    →→→→]
    →→→}
    →→],
    →→"SubagentStop": [{"hooks": []},{"hooks":[{"type":"command","command":"/usr/bin/quipu hook stop","timeout":10}]}],
    →→"SessionEnd": [
    →→→{
    →→→→"hooks": [
    →→→→→{
    →→→→→→"type": "command",
    →→→→→→"command": "/usr/bin/quipu hook stop",
    →→→→→→"timeout": 10
    →→→→→}
    →→→→]
    →→→}
    →→]
    →}
    }
    "#);
    let group =
        r#"[{"hooks":[{"type":"command","command":"/usr/bin/quipu hook stop","timeout":10}]}]"#;
    assert_eq!(
        install("{\"a\":1}", OWN).unwrap(),
        format!(
            "{{\"a\":1,\"hooks\":{{\"Stop\":{group},\"SubagentStop\":{group},\"SessionEnd\":{group}}}}}"
        )
    );
}

#[test]
fn another_quipu_becomes_this_one_and_nothing_else_changes() {
    let text = r#"{"hooks": {
        "Stop": [{"matcher": "", "hooks": [{"type": "command", "command": "other"}, {"timeout": 3, "command": "/old\/quipu hook stop"}]}],
        "SubagentStop": [{"hooks": [{"type": "command", "command": "'/my old/quipu' --home '/h' hook stop"}]}],
        "SessionEnd": [{"hooks": [{"type": "command", "command": "/usr/bin/quipu hook stop", "timeout": 1e1}]}]
    }}"#;
    let expected = text
        .replace(r"/old\/quipu hook stop", "/usr/bin/quipu hook stop")
        .replace("'/my old/quipu' --home", "/usr/bin/quipu --home");
    assert_eq!(install(text, OWN).unwrap(), expected);
    assert_eq!(
        uninstall(text, OWN).unwrap(),
        "{\"hooks\": {\n        \"Stop\": [{\"matcher\": \"\", \"hooks\": [{\"type\": \
            \"command\", \"command\": \"other\"}]}]\n    }}"
    );
}

#[test]
fn what_is_no_settings_is_left_alone() {
    let wrong = [
        "[]",
        "1",
        "{\"a\": 1,}",
        "{\n  // mine\n  \"a\": 1\n}",
        "{\"a\": 1",
        "{} {}",
        "{\n  \"hooks\": []\n}",
        "{\"hooks\": null}",
        "{\n  \"hooks\": {\n    \"Stop\": [],\n    \"SessionEnd\": {}\n  }\n}",
    ];
    let reasons = wrong.map(|text| {
        let why = install(text, OWN).unwrap_err();
        assert_eq!(uninstall(text, OWN).unwrap_err(), why);
        why.to_string()
    });
    assert_snapshot!(reasons.join("\n"), @r"
    line 1: it is not a JSON object
    line 1: it is not a JSON object
    it is not JSON: key must be a string at line 1 column 9
    it is not JSON: key must be a string at line 2 column 3
    it is not JSON: EOF while parsing an object at line 1 column 7
    it is not JSON: trailing characters at line 1 column 4
    line 2: `hooks` is not an object
    line 1: `hooks` is not an object
    line 4: `SessionEnd` is not a list
    ");
}

#[test]
fn all_hooks_may_be_off() {
    assert_eq!(are_off(""), Ok(false));
    assert_eq!(are_off("{\"disableAllHooks\": false}"), Ok(false));
    assert_eq!(are_off("{\"disableAllHooks\": 1}"), Ok(false));
    assert_eq!(are_off("{\"disableAllHooks\": false, \"disableAllHooks\": true}"), Ok(true));
}

/// White space as it may occur anywhere.
fn gap() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "", " ", "\n", "\n  ", "\n    ", "\r\n\t", "\t "])
}

/// A list or an object of the given values, with white space anywhere.
fn container(
    [open, close]: [&'static str; 2],
    children: impl Strategy<Value = String>,
    number: std::ops::Range<usize>,
) -> impl Strategy<Value = String> {
    let child = (gap(), children, gap())
        .prop_map(|(before, text, behind)| before.to_owned() + &text + behind);
    let children = prop::collection::vec(child, number);
    (children, gap()).prop_map(move |(children, inside)| {
        let inside = if children.is_empty() { inside } else { "" };
        format!("{open}{inside}{}{close}", children.join(","))
    })
}

fn member(
    name: &'static [&'static str],
    value: impl Strategy<Value = String>,
) -> impl Strategy<Value = String> {
    (prop::sample::select(name), gap(), gap(), value)
        .prop_map(|(name, before, behind, value)| format!("{name:?}{before}:{behind}{value}"))
}

fn anything() -> impl Strategy<Value = String> {
    let leaves = ["1e3", "0.10", "null", "true", "\"\\u00e9 é\"", "\"x hook stop\"", "\"a, ]}\""];
    let leaf = prop::sample::select(leaves.to_vec()).prop_map(str::to_owned);
    leaf.prop_recursive(3, 16, 3, |inner| {
        let names = &["a", "hooks", "Stop", "command"];
        prop_oneof![
            container(["[", "]"], inner.clone(), 0..3),
            container(["{", "}"], member(names, inner), 0..3),
        ]
    })
}

/// Settings whose `hooks` and lists are not empty.
fn some_settings() -> impl Strategy<Value = String> {
    let groups = container(["[", "]"], anything(), 1..3);
    let hooks = prop_oneof![
        member(&["Stop", "SubagentStop", "SessionEnd"], groups),
        member(&["PreToolUse", "Other"], anything()),
    ];
    let hooks = member(&["hooks"], container(["{", "}"], hooks, 1..4));
    let others = member(&["a", "b", "model", "command"], anything());
    let root = container(["{", "}"], prop_oneof![3 => others, 1 => hooks], 1..4);
    (gap(), root, gap()).prop_map(|(before, root, behind)| before.to_owned() + &root + behind)
}

proptest! {
    #[test]
    fn any_settings_come_back(text in some_settings()) {
        prop_assert_eq!(there_and_back(&text), text);
    }
}
