//! What a client would be sent, on the screen and as JSON, and what it refuses.

use std::fmt::Write;

use insta::assert_snapshot;

use crate::env::Env;

fn run(args: &[&str], case: &str) -> String {
    let env = Env::bare();
    let bytes =
        std::fs::read(testkit::fixtures().join("edited").join(format!("{case}.jsonl"))).unwrap();
    env.put("case.jsonl", bytes);
    let args: Vec<&str> = ["history", "case.jsonl"].iter().chain(args).copied().collect();
    env.run(&args)
}

#[test]
fn for_people_and_for_programs() {
    let mut text = String::new();
    for (args, case) in [
        (&["--then", "go on"][..], "parallel_siblings"),
        (&["--then", "go on", "--as", "2.1.45", "--json"], "orphan_tool_use_tail"),
        (&["--json"], "two_compactions"),
        (&["--as", "seed", "--json"], "summary_lines"),
        (&[], "missing_parent"),
    ] {
        writeln!(text, "### {case} {args:?}\n{}", run(args, case)).unwrap();
    }
    assert_snapshot!(text);
}

#[test]
fn what_is_refused_or_wrong() {
    let mut text = String::new();
    for (args, case) in [
        (&["--as", "2.0.76"][..], "parent_cycle"),
        (&["--as", "newest"], "linear"),
        (&["--as", "9.9.9", "--json"], "linear"),
    ] {
        writeln!(text, "### {case} {args:?}\n{}", run(args, case)).unwrap();
    }
    assert_snapshot!(text);
}
