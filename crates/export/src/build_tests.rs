use std::collections::HashMap;
use std::fmt::Write as _;

use testkit::session::Script;
use transcript::Session;
use transcript::conversation::agents::WithAgents;
use transcript::conversation::ingest::{Closing, Copied};

use super::*;
use crate::id::Ids;

/// The spans of a transcript: for each its name, in which it is, when (in seconds from the start),
/// and what is unusual.
fn spans(script: &Script) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.jsonl");
    std::fs::write(&path, script.text()).unwrap();
    let session = Session::at(&path).unwrap();
    let family = WithAgents::open(&session).unwrap();
    let plan = Plan::new(family, "s", &Ids::default(), &Closing::ended(), &Copied::default());
    let (mut text, mut names, mut first) = (String::new(), HashMap::new(), None);
    for shipment in plan.shipments() {
        plan.spans(shipment, &mut |span| {
            let zero = *first.get_or_insert(span.start.0);
            let within = span.parent.map_or("", |parent| names[&parent]);
            let level = match &span.level {
                Level::Default => String::new(),
                Level::Warning(why) => format!("  warning: {why}"),
                Level::Error(kind, why) => format!("  error: {kind}: {why}"),
            };
            let [start, end] = [span.start, span.end].map(|time| (time.0 - zero) / 1_000);
            writeln!(text, "{} in {within:?} {start}-{end}{level}", span.name).unwrap();
            names.insert(span.id, Box::leak(span.name.clone().into_boxed_str()) as &str);
            Ok(())
        })
        .unwrap();
    }
    text
}

#[test]
fn a_turn_has_its_answers_and_calls() {
    let script = Script::new()
        .prompt("p", "-", "read it")
        .call("a", "p", "m1", "c1", "Read")
        .result("r", "a", "c1", "text")
        .says("b", "r", "m2", "done");
    let expected = r#"
Turn 1 in "" 0-3
m in "Turn 1" 0-1
Read in "m" 1-2
m in "Turn 1" 2-3
"#;
    assert_eq!(spans(&script), expected.trim_start());
}

#[test]
fn a_call_without_its_result_is_a_warning() {
    let script =
        Script::new().prompt("p", "-", "read it").call("a", "p", "m1", "c1", "Read").wait(60);
    let expected = r#"
Turn 1 in "" 0-1  warning: incomplete: no answer after the last call
m in "Turn 1" 0-1
Read in "m" 1-1  warning: no result
"#;
    assert_eq!(spans(&script), expected.trim_start());
}

#[test]
fn a_prompt_without_an_answer_is_a_turn() {
    let script = Script::new().prompt("p", "-", "anybody there?");
    let expected = "Turn 1 in \"\" 0-0  warning: incomplete: no answer\n";
    assert_eq!(spans(&script), expected);
}

/// After a rewind, both answers belong to the turn of their own prompt.
#[test]
fn abandoned_branches_are_turns_too() {
    let script = Script::new()
        .prompt("p", "-", "one")
        .says("a", "p", "m1", "first")
        .prompt("q", "-", "two")
        .says("b", "q", "m2", "second");
    let expected = r#"
Turn 1 in "" 0-1
m in "Turn 1" 0-1
Turn 2 in "" 2-3
m in "Turn 2" 2-3
"#;
    assert_eq!(spans(&script), expected.trim_start());
}
