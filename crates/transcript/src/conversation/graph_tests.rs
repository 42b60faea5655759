use std::fmt::Write;

use testkit::session::Script;

use super::*;
use crate::client::history::{self, Rules};
use crate::format::file::Lines;

fn table(script: &Script) -> Table {
    Table::read(Lines::new(script.text().as_bytes())).unwrap()
}

/// The chains as text: how each begins, and its records.
fn chains(script: &Script) -> String {
    let table = table(script);
    let graph = Graph::new(&table);
    let name = |id: RowId| {
        let row = table.row(id);
        table.text(row.uuid).map_or_else(|| format!("line{}", row.line), str::to_owned)
    };
    let mut text = String::new();
    for (id, chain) in graph.numbered() {
        let rows: Vec<String> = graph.rows(id).iter().map(|row| name(*row)).collect();
        let start = match chain.start {
            Start::Root => "root".to_owned(),
            Start::Lost => "lost".to_owned(),
            Start::Loop => "loop".to_owned(),
            Start::Branch(row) => format!("branch at {}", name(row)),
            Start::Compaction(row) => format!("compaction after {}", name(row)),
            Start::CompactionGuess(row) => format!("perhaps after {}", name(row)),
            Start::Sidechain(row) => format!("side of {}", name(row)),
        };
        let side = if chain.is_sidechain { "side " } else { "" };
        writeln!(text, "{side}{start}: {}", rows.join(" ")).unwrap();
    }
    let leaf = history::leaf(&table, Rules::newest()).map_or("none".to_owned(), name);
    writeln!(text, "live leaf: {leaf}").unwrap();
    text
}

#[test]
fn parallel_calls_are_no_branch() {
    // As 2.1.29 and later write them: each result is a child of its own call, and so is the next
    // block.
    let script = Script::new()
        .prompt("p", "-", "go")
        .call("a1", "p", "m1", "t1", "Read")
        .call("a2", "a1", "m1", "t2", "Read")
        .record("progress", "g", "a2", r#""data":{"type":"hook_progress"}"#)
        .result("r1", "a1", "t1", "one")
        .result("r2", "a2", "t2", "two")
        .says("b", "r2", "m2", "done");
    insta::assert_snapshot!(chains(&script), @r"
    root: p a1 r1 a2 g r2 b
    live leaf: b
    ");
}

#[test]
fn a_prompt_that_was_taken_back_is_a_branch_and_the_last_end_lives() {
    let script = Script::new()
        .prompt("p", "-", "go")
        .says("a", "p", "m1", "yes")
        .prompt("wrong", "a", "delete it")
        .says("b", "wrong", "m2", "no")
        .prompt("right", "a", "keep it")
        .says("c", "right", "m3", "kept");
    insta::assert_snapshot!(chains(&script), @r"
    root: p a
    branch at a: wrong b
    branch at a: right c
    live leaf: c
    ");
    let named = script.raw(r#"{"type":"last-prompt","leafUuid":"b"}"#);
    assert!(chains(&named).ends_with("live leaf: b\n"));
    let zero = r#"{"type":"last-prompt","leafUuid":"00000000-0000-0000-0000-000000000000"}"#;
    assert!(chains(&named.raw(zero)).ends_with("live leaf: c\n"));
}

#[test]
fn two_answers_to_one_prompt_are_a_branch_and_two_blocks_of_one_answer_are_not() {
    let two = Script::new()
        .prompt("p", "-", "go")
        .says("a", "p", "m1", "one")
        .says("b", "p", "m2", "other");
    insta::assert_snapshot!(chains(&two), @r"
    root: p
    branch at p: a
    branch at p: b
    live leaf: b
    ");
    let one = Script::new()
        .prompt("p", "-", "go")
        .says("a", "p", "m1", "one")
        .says("b", "p", "m1", "more")
        .prompt("q", "b", "next");
    insta::assert_snapshot!(chains(&one), @r"
    root: p a b q
    live leaf: q
    ");
}

#[test]
fn what_is_resumed_from_a_parallel_result_is_a_branch() {
    // As 2.1.45 did when two blocks had the same time: the resumed session loses the second call.
    let script = Script::new()
        .prompt("p", "-", "go")
        .call("a1", "p", "m1", "t1", "Read")
        .call("a2", "a1", "m1", "t2", "Read")
        .result("r1", "a1", "t1", "one")
        .result("r2", "a2", "t2", "two")
        .says("b", "r2", "m2", "done")
        .prompt("q", "r1", "again");
    insta::assert_snapshot!(chains(&script), @r"
    root: p a1
    branch at a1: a2 r2 b
    branch at a1: r1 q
    live leaf: q
    ");
}

#[test]
fn order_in_the_file_does_not_matter_where_ids_link() {
    let script = Script::new()
        .says("b", "p", "m", "an answer that stands before its prompt")
        .prompt("p", "-", "go")
        .prompt("q", "b", "next");
    insta::assert_snapshot!(chains(&script), @r"
    root: p b q
    live leaf: q
    ");
}

#[test]
fn gaps_are_bridged_loops_cut_and_repeats_stay_with_the_first() {
    let script = Script::new()
        .prompt("a", "gone", "the first line's parent is in another file")
        .says("b", "a", "m1", "yes")
        .prompt("c", "lost", "a gap")
        .prompt("b", "c", "an id that stood before")
        .prompt("x", "y", "round")
        .prompt("y", "x", "and round")
        .prompt("self", "self", "its own parent");
    insta::assert_snapshot!(chains(&script), @r"
    lost: a b b c
    loop: x y
    loop: self
    live leaf: self
    ");
}

#[test]
fn a_compaction_goes_on_from_what_it_names_or_from_what_stands_before_it() {
    let boundary = |logical: &str| {
        format!(
            r#""subtype":"compact_boundary","logicalParentUuid":"{logical}","compactMetadata":{{"trigger":"auto","preTokens":9,"preservedMessages":{{"anchorUuid":"s","uuids":["a","nowhere"]}}}}"#
        )
    };
    let summary = r#""isCompactSummary":true,"message":{"role":"user","content":"so far"}"#;
    let script = Script::new()
        .prompt("p", "-", "go")
        .says("a", "p", "m1", "yes")
        .record("system", "c1", "-", &boundary("a"))
        .record("user", "s", "c1", summary)
        .says("b", "s", "m2", "on")
        .record("system", "c2", "-", &boundary("in-another-file"))
        .record("user", "s2", "-", summary);
    insta::assert_snapshot!(chains(&script), @r"
    root: p a
    compaction after a: c1 s b
    perhaps after b: c2
    perhaps after c2: s2
    live leaf: s2
    ");
    let table = table(&script);
    let graph = Graph::new(&table);
    assert_eq!(graph.kept(&table.boundaries[0]), [RowId(1)]);
    let leaf = history::leaf(&table, Rules::newest()).unwrap();
    assert_eq!(graph.path(graph.chain_of(leaf)).len(), 4);
}

#[test]
fn sidechains_have_chains_of_their_own() {
    let side = |text: &str| {
        format!(r#""isSidechain":true,"message":{{"role":"user","content":"{text}"}}"#)
    };
    let script = Script::new()
        .prompt("p", "-", "go")
        .call("a", "p", "m1", "t", "Task")
        .record("user", "s", "-", &side("do it"))
        .record("user", "s2", "s", &side("more"))
        .record("user", "under", "a", &side("hangs on the call, as in the dialect human"))
        .result("r", "a", "t", "done");
    insta::assert_snapshot!(chains(&script), @r"
    root: p a r
    side root: s s2
    side side of a: under
    live leaf: r
    ");
}

#[test]
fn what_has_no_id_goes_with_what_stands_before_it() {
    let script = Script::new()
        .raw(r#"{"type":"mode","mode":"normal"}"#)
        .prompt("p", "-", "go")
        .raw(r#"{"type":"ai-title","aiTitle":"T"}"#)
        .says("a", "p", "m", "yes");
    insta::assert_snapshot!(chains(&script), @r"
    root: p line1 line3 a
    live leaf: a
    ");
    let plain = Script::new()
        .raw(r#"{"type":"user","content":"hello"}"#)
        .raw(r#"{"message":{"role":"assistant","content":"hi"}}"#)
        .raw(r#"{"type":"user","content":"bye"}"#);
    insta::assert_snapshot!(chains(&plain), @r"
    root: line1 line2 line3
    live leaf: line3
    ");
    let titles = Script::new()
        .raw(r#"{"type":"summary","summary":"one","leafUuid":"x"}"#)
        .raw(r#"{"type":"summary","summary":"two","leafUuid":"y"}"#);
    insta::assert_snapshot!(chains(&titles), @r"
    root: line1 line2
    live leaf: none
    ");
}

#[test]
fn records_that_name_one_lost_parent_hang_on_one_place() {
    let script = Script::new()
        .prompt("p", "-", "go")
        .says("a", "p", "m1", "yes")
        .prompt("wrong", "lost", "one way")
        .says("b", "wrong", "m2", "no")
        .prompt("right", "lost", "another way");
    insta::assert_snapshot!(chains(&script), @r"
    root: p a
    branch at a: wrong b
    branch at a: right
    live leaf: right
    ");
}

/// A turn with a call, its progress, and answers; then a prompt whose parent is the progress.
fn on_progress() -> Script {
    let progress = r#""data":{"type":"hook_progress"}"#;
    Script::new()
        .prompt("p", "-", "go")
        .call("a", "p", "m1", "t1", "Read")
        .record("progress", "g1", "a", progress)
        .record("progress", "g2", "g1", progress)
        .result("r", "a", "t1", "x")
        .says("b", "r", "m2", "read")
        .says("c", "b", "m3", "done")
        .prompt("q", "g2", "next")
        .says("d", "q", "m4", "yes")
}

#[test]
fn a_prompt_on_the_progress_of_an_answered_call_follows_the_answers() {
    insta::assert_snapshot!(chains(&on_progress()), @r"
    root: p a g1 g2 r b c q d
    live leaf: d
    ");
    // A rewind to the progress goes back to the same place.
    let rewound = on_progress().prompt("z", "g2", "other").says("e", "z", "m5", "no");
    insta::assert_snapshot!(chains(&rewound), @r"
    root: p a g1 g2 r b c
    branch at c: q d
    branch at c: z e
    live leaf: e
    ");
}

#[test]
fn a_prompt_on_the_progress_of_an_open_call_stays_there() {
    let progress = r#""data":{"type":"hook_progress"}"#;
    let open = Script::new()
        .prompt("p", "-", "go")
        .call("a", "p", "m1", "t1", "Read")
        .record("progress", "g", "a", progress)
        .says("b", "a", "m2", "another client")
        .prompt("q", "g", "next")
        .says("d", "q", "m3", "yes");
    insta::assert_snapshot!(chains(&open), @r"
    root: p a
    branch at a: g q d
    branch at a: b
    live leaf: d
    ");
    // The result alone is not an answer: the prompt keeps its parent, and the result is in its
    // chain.
    let unanswered = Script::new()
        .prompt("p", "-", "go")
        .call("a", "p", "m1", "t1", "Read")
        .record("progress", "g", "a", progress)
        .result("r", "a", "t1", "x")
        .prompt("q", "g", "next");
    insta::assert_snapshot!(chains(&unanswered), @r"
    root: p a r g q
    live leaf: q
    ");
}

#[test]
fn a_named_record_on_whose_way_nothing_was_said_names_nothing() {
    let script = Script::new()
        .record("system", "s", "-", r#""subtype":"local_command","content":"x""#)
        .prompt("p", "s", "one")
        .says("a", "p", "m1", "first")
        .prompt("q", "-", "two")
        .says("b", "q", "m2", "second")
        .raw(r#"{"type":"last-prompt","leafUuid":"s"}"#);
    assert!(chains(&script).ends_with("live leaf: b\n"));
}
