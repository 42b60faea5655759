//! All commands agree on the record that the client resumes from.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use testkit::Rng;
use testkit::damage::damage;
use testkit::session::Script;
use transcript::client::check;
use transcript::client::history::{self, Refusal, ranges};
use transcript::conversation::Conversation;
use transcript::conversation::place::Session;

/// Showing, checking and sending a session agree, for every version.
#[test]
fn shown_checked_and_sent_are_one() {
    let mut found = 0;
    for file in testkit::real_files() {
        found += agree(&file.path, &file.path);
    }
    assert!(found > 1000, "{found}");
}

/// The same for damaged files.
#[test]
fn in_damaged_files_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("11111111-1111-4111-8111-111111111111.jsonl");
    let mut found = 0;
    for (seed, file) in (1..).zip(testkit::own_files()) {
        let mut rng = Rng::new(seed);
        fs::write(&path, damage(&file.bytes, &mut rng).bytes).unwrap();
        found += agree(&path, &file.path);
    }
    assert!(found > 1000, "{found}");
}

/// Compares them for each version. Returns how often there was a leaf.
fn agree(path: &Path, name: &Path) -> usize {
    let mut shown = Conversation::open(path).unwrap();
    let session = Session::at(path).unwrap();
    let redactor = Arc::default();
    let mut found = 0;
    for rules in by_leaf() {
        let place = format!("{} as {}", name.display(), rules.name());
        shown.resume_as(rules);
        let leaf = shown.leaf().map(|row| {
            let known = shown.table.row(row);
            (known.line, shown.table.text(known.uuid).map(str::to_owned))
        });
        found += usize::from(leaf.is_some());
        // Most of what a check does is the same for all versions, and is done once.
        if rules == history::Rules::newest() {
            let checked = check::check(&session, rules, None).unwrap();
            assert_eq!(checked.leaf, leaf, "checked: {place}");
        } else if shown.table.rows().len() < 300 {
            let checked = check::check_alone(&session, Vec::new(), rules, &redactor).unwrap();
            assert_eq!(checked.report.leaf, leaf, "checked: {place}");
        }
        let sent = history::open(path, rules).unwrap();
        match history::outline(&sent, rules, None).unwrap() {
            Ok(history) => {
                let id = |row| sent.table.text(sent.table.row(row).uuid).map(str::to_owned);
                let of_sent = history.leaf.map(|row| (sent.line(row).unwrap(), id(row)));
                assert_eq!(of_sent, leaf, "sent: {place}");
            }
            Err(Refusal::Nothing | Refusal::NoEnd) => assert_eq!(leaf, None, "refused: {place}"),
            Err(Refusal::NoTime(_) | Refusal::Loop(_) | Refusal::Input(_)) => {
                assert!(leaf.is_some(), "refused later: {place}");
            }
            // The client exits before it looks for a leaf.
            Err(Refusal::Null(_)) => {}
        }
    }
    found
}

/// One version for each combination of the rules that decide about the leaf.
fn by_leaf() -> Vec<history::Rules> {
    let mut found: Vec<history::Rules> = Vec::new();
    let of_leaf = |rules: &history::Rules| {
        let read = (rules.null_line, rules.reads_marked, rules.reads_glued, rules.repeats_move);
        let tree = (rules.progress_links, rules.bridge, rules.breaks_loops, rules.cuts_loops);
        let candidates = (rules.sidechain_leaf, rules.progress_leaf, rules.counts_sidechains);
        let end = (rules.leaf, rules.leaf_is_named, rules.resumes_events, rules.timeless);
        (read, tree, candidates, end)
    };
    for rules in ranges().iter().rev().map(|range| range.rules) {
        if !found.iter().any(|known| of_leaf(known) == of_leaf(&rules)) {
            found.push(rules);
        }
    }
    found
}

/// Where the tree that is shown has other parents than 2.1.325, one case for each row of the table
/// in `docs/conversation.md`: what is shown on the path to the leaf, and what is sent.
#[test]
fn where_shown_and_sent_differ() {
    let mut text = String::new();
    for (name, script) in differences() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("11111111-1111-4111-8111-111111111111.jsonl");
        fs::write(&path, script.text()).unwrap();
        let shown = Conversation::open(&path).unwrap();
        let name_of = |row| {
            let known = shown.table.row(row);
            shown
                .table
                .text(known.uuid)
                .map_or_else(|| format!("line{}", known.line), str::to_owned)
        };
        let names = |rows: Vec<_>| rows.into_iter().map(name_of).collect::<Vec<_>>().join(" ");
        let live = shown.live();
        let of_shown = names(shown.rows(&live).collect());
        let of_sent = history::outline(&shown, history::Rules::newest(), None).unwrap();
        let of_sent =
            of_sent.map_or_else(|refusal| format!("{refusal:?}"), |history| names(history.rows));
        let leaf = shown.leaf().map_or_else(|| "none".to_owned(), name_of);
        writeln!(text, "{name}\n  leaf {leaf}\n  shown {of_shown}\n  sent {of_sent}").unwrap();
    }
    insta::assert_snapshot!(text);
}

fn differences() -> Vec<(&'static str, Script)> {
    let begun = || Script::new().prompt("p1", "-", "one").says("a1", "p1", "m1", "first");
    vec![
        (
            "a parent that is not there: the record before it, however old; or one of the last 5 s",
            begun().wait(60).prompt("p2", "gone", "two").says("a2", "p2", "m2", "second"),
        ),
        (
            "two records that name one parent that is not there: both on one place; each on its own",
            begun().prompt("p2", "gone", "two").says("a2", "p2", "m2", "second").prompt(
                "p3", "gone", "three",
            ),
        ),
        (
            "a prompt that names the progress of an answered call: the answer; the progress",
            Script::new()
                .prompt("p1", "-", "one")
                .call("a1", "p1", "m1", "t1", "Bash")
                .record("progress", "g", "a1", r#""data":{"type":"hook_progress"}"#)
                .result("r1", "a1", "t1", "done")
                .says("a2", "r1", "m2", "first")
                .prompt("p2", "g", "two"),
        ),
        (
            "a record that stands twice: twice; once",
            begun().prompt("p2", "a1", "two").says("a1", "p1", "m1", "first again"),
        ),
        (
            "records without ids: one after the other; the last of them alone",
            Script::new()
                .raw(r#"{"type":"user","message":{"role":"user","content":"one"}}"#)
                .raw(r#"{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"first"}]}}"#),
        ),
        (
            "a loop of parents: a beginning of its own; behind the record before it in time",
            begun().prompt("p2", "a2", "two").says("a2", "p2", "m2", "second"),
        ),
        (
            "a compaction: behind what it sums up; the beginning",
            begun()
                .record(
                    "system",
                    "c",
                    "-",
                    r#""subtype":"compact_boundary","logicalParentUuid":"a1","content":"Conversation compacted","compactMetadata":{"trigger":"manual","preTokens":9}"#,
                )
                .record("user", "s", "c", r#""isCompactSummary":true,"message":{"role":"user","content":"summary"}"#)
                .prompt("p2", "s", "two"),
        ),
    ]
}
