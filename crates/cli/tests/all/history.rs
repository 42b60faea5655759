//! What a client would be sent, on the screen and as JSON, and what it refuses.

use std::fmt::Write;

use insta::assert_snapshot;
use testkit::session::Script;

use crate::env::Env;

fn run(args: &[&str], case: &str) -> String {
    let env = Env::bare();
    let folders = ["edited", "observed"].map(|folder| testkit::fixtures().join(folder));
    let paths = folders.map(|folder| folder.join(format!("{case}.jsonl")));
    let bytes = std::fs::read(paths.iter().find(|path| path.exists()).unwrap()).unwrap();
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
        (&["--as", "file-order", "--json"], "summary_lines"),
        (&[], "missing_parent"),
        (&["--as", "2.1.325"], "limit_opus5_970k"),
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

/// A text that is cut says so, and how much is missing.
#[test]
fn long_texts_are_cut_with_a_mark() {
    let env = Env::bare();
    let words = "explicitly asks you ".repeat(100);
    let script = Script::new().prompt("p1", "-", &words).says("a1", "p1", "m1", "short");
    env.put("s.jsonl", script.text());
    let text = env.run(&["history", "s.jsonl"]);
    let json: serde_json::Value =
        serde_json::from_slice(&env.output(&["history", "s.jsonl", "--json"]).stdout).unwrap();
    let block = json["messages"][0]["content"][0].to_string();
    // Three lines of 80 columns are shown of what the API gets.
    let more = block.chars().count() - 3 * 80;
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mark =
        format!("… ({},{:03} more characters; `--json` prints all)", more / 1_000, more % 1_000);
    assert!(flat.contains(&mark), "{mark}\n{text}");
    assert_eq!(text.matches('…').count(), 1, "{text}");
}
