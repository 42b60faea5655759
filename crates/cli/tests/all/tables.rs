//! `quipu inventory` and `quipu drift`.

use insta::assert_snapshot;

use crate::env::Env;

#[test]
fn an_inventory_of_one_session() {
    assert_snapshot!(Env::with_sessions().run(&["inventory", "badc0ffe"]));
}

#[test]
fn an_inventory_of_all() {
    assert_snapshot!(Env::with_sessions().run(&["inventory", "--all"]));
}

#[test]
fn an_inventory_as_json() {
    let env = Env::with_sessions();
    let text = String::from_utf8(env.output(&["inventory", "--json", "badc0ffe"]).stdout).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let pretty = serde_json::to_string_pretty(&value["total"]).unwrap();
    assert_eq!(value["v"], 1);
    assert_eq!(value["sessions"][0]["records"], value["total"]["records"]);
    assert_snapshot!(pretty);
}

#[test]
fn no_drift_is_said_on_stderr() {
    let env = Env::with_sessions();
    let text = "exit 0\n--- stderr\n12 files, 1.0.128 to 2.1.325: nothing unknown\n";
    assert_eq!(env.run(&["drift", "--all"]), text);
}

#[test]
fn drift_names_what_is_new() {
    let env = Env::bare();
    let edited = testkit::fixtures().join("edited");
    let text = env.run(&["drift", edited.to_str().unwrap()]);
    assert_snapshot!(text.replace(edited.to_str().unwrap(), "[EDITED]"));
    let text =
        env.run(&["drift", "--json", edited.join("attachment_in_chain.jsonl").to_str().unwrap()]);
    assert_snapshot!(text.replace(edited.to_str().unwrap(), "[EDITED]"), @r#"
    exit 8
    --- stdout
    {"v":1,"version":"2.1.45","what":"type","name":"attachment.future_kind","count":1,"file":"[EDITED]/attachment_in_chain.jsonl","line":4}
    "#);
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let env = Env::with_sessions();
    for command in [&["check", "--all"][..], &["check", "--all", "--json"], &["inventory", "--all"]]
    {
        let with = |threads: &str| env.run(&[command, &["--threads", threads]].concat());
        let alone = with("1");
        assert!(alone.lines().count() > 5, "{alone}");
        assert_eq!(with("4"), alone);
    }
}
