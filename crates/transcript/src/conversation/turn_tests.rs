use std::fmt::Write;

use testkit::session::Script;

use super::*;
use crate::client::history::{self, Rules};
use crate::conversation::graph::Graph;
use crate::format::file::Lines;

/// The turns of the live conversation as text, one line for each step.
fn turns(script: &Script) -> String {
    let table = Table::read(Lines::new(script.text().as_bytes())).unwrap();
    let graph = Graph::new(&table);
    let pairs = Pairs::new(&table);
    let end = graph.end(&table, history::leaf(&table, Rules::newest())).unwrap();
    let path = graph.path(graph.chain_of(end));
    let rows = path.into_iter().flat_map(|chain| graph.rows(chain).to_vec());
    let turns = Builder::new(&table, &pairs).turns(None, rows);
    let mut text = String::new();
    let line = |row: RowId| table.row(row).line;
    for turn in turns {
        let input = turn.input.map_or("nothing", Input::name);
        writeln!(text, "{input}, {}, {}", turn.round.name(), turn.outcome.name()).unwrap();
        for step in &turn.steps {
            match step {
                Step::Said(row) => {
                    let input = table.row(*row).input.map_or("queue", Input::name);
                    writeln!(text, "  said {} ({input})", line(*row)).unwrap();
                }
                Step::Answer { id, blocks, counts } => {
                    let shown = blocks.iter().map(|block| {
                        let place = line(table.block(*block).row);
                        let result = pairs.of(*block).map(|result| line(table.block(result).row));
                        result.map_or(place.to_string(), |result| format!("{place}->{result}"))
                    });
                    let shown: Vec<String> = shown.collect();
                    let name = table.text(table.answer(*id).id).unwrap_or("?");
                    let counts = if *counts { "" } else { " again" };
                    writeln!(text, "  answer {name}{counts}: {}", shown.join(" ")).unwrap();
                }
                Step::Orphan(block) => {
                    writeln!(text, "  orphan {}", line(table.block(*block).row)).unwrap();
                }
                Step::Event(row) => writeln!(text, "  event {}", line(*row)).unwrap(),
            }
        }
    }
    text
}

#[test]
fn a_turn_holds_all_that_was_done_about_a_prompt() {
    let script = Script::new()
        .prompt("p", "-", "go")
        .call("a1", "p", "m1", "t1", "Read")
        .call("a2", "a1", "m1", "t2", "Read")
        .result("r1", "a1", "t1", "one")
        .result("r2", "a2", "t2", "two")
        .says("b", "r2", "m2", "done")
        .record("system", "d", "b", r#""subtype":"turn_duration","durationMs":5"#)
        .wait(301)
        .prompt("q", "d", "next")
        .says("c", "q", "m3", "sure")
        .prompt("z", "c", "and?");
    insta::assert_snapshot!(turns(&script), @r"
    plain, new_session, answered
      said 1 (plain)
      answer m1: 2->4 3->5
      answer m2: 6
    plain, resume, answered
      said 8 (plain)
      answer m3: 9
    plain, new_round, unanswered
      said 10 (plain)
    ");
}

#[test]
fn commands_with_what_stands_around_them_are_turns_of_their_own() {
    let meta =
        |text: &str| format!(r#""isMeta":true,"message":{{"role":"user","content":"{text}"}}"#);
    let script = Script::new()
        .record("user", "caveat", "-", &meta("<local-command-caveat>mind"))
        .prompt("c", "caveat", "<command-name>/cost</command-name>")
        .prompt("o", "c", "<local-command-stdout>nothing</local-command-stdout>")
        .prompt(
            "init",
            "o",
            "<command-message>init</command-message><command-name>/init</command-name>",
        )
        .record("user", "text", "init", &meta("Please look around"))
        .says("a", "text", "m1", "looked")
        .prompt("i", "a", "[Request interrupted by user]")
        .record(
            "system",
            "l",
            "i",
            r#""subtype":"local_command","content":"<command-name>/rename</command-name>""#,
        );
    insta::assert_snapshot!(turns(&script), @r"
    command, new_session, local
      said 1 (preface)
      said 2 (command)
      said 3 (output)
    command, new_round, interrupted
      said 4 (command)
      said 5 (meta)
      answer m1: 6
      said 7 (interrupt)
    command, new_round, local
      said 8 (command)
    ");
}

#[test]
fn what_comes_while_the_model_works_joins_its_turn() {
    let queued = |text: &str, mode: &str| {
        format!(
            r#""attachment":{{"type":"queued_command","prompt":"{text}","commandMode":"{mode}"}}"#
        )
    };
    let script = Script::new()
        .prompt("p", "-", "go")
        .call("a", "p", "m1", "t", "Bash")
        .result("r", "a", "t", "ok")
        .record("attachment", "q", "r", &queued("also this", "prompt"))
        .record("attachment", "n", "q", &queued("<task-notification>", "task-notification"))
        .raw(r#"{"type":"queue-operation","operation":"enqueue","content":"and that"}"#)
        .raw(r#"{"type":"queue-operation","operation":"remove"}"#)
        .says("b", "n", "m2", "done")
        .record(
            "user",
            "note",
            "b",
            concat!(
                r#""origin":{"kind":"task-notification"},"message":{"role":"user","#,
                r#""content":"<task-notification>"}"#,
            ),
        )
        .says("c", "note", "m3", "seen")
        .record(
            "user",
            "peer",
            "c",
            r#""origin":{"kind":"peer"},"message":{"role":"user","content":"hello"}"#,
        );
    insta::assert_snapshot!(turns(&script), @r"
    plain, new_session, answered
      said 1 (plain)
      answer m1: 2->3
      said 4 (queued)
      said 5 (notification)
      said 6 (queue)
      answer m2: 8
    notification, new_round, answered
      said 9 (notification)
      answer m3: 10
    peer, new_round, unanswered
      said 11 (peer)
    ");
}

#[test]
fn after_a_compaction_the_summary_opens_the_turn_if_nobody_else_does() {
    let summary = r#""isCompactSummary":true,"message":{"role":"user","content":"so far"}"#;
    let script = Script::new()
        .prompt("p", "-", "go")
        .call("a", "p", "m1", "t", "Bash")
        .result("r", "a", "t", "ok")
        .record("system", "c", "-", r#""subtype":"compact_boundary","logicalParentUuid":"r""#)
        .record("user", "s", "c", summary)
        .says("b", "s", "m2", "going on");
    insta::assert_snapshot!(turns(&script), @r"
    plain, new_session, compacted
      said 1 (plain)
      answer m1: 2->3
    summary, continue, answered
      event 4
      said 5 (summary)
      answer m2: 6
    ");
    let asked = Script::new()
        .prompt("p", "-", "go")
        .record("system", "c", "-", r#""subtype":"compact_boundary","logicalParentUuid":"p""#)
        .record("user", "s", "c", summary)
        .prompt("q", "s", "next");
    insta::assert_snapshot!(turns(&asked), @r"
    plain, new_session, unanswered
      said 1 (plain)
    plain, new_round, unanswered
      event 2
      said 3 (summary)
      said 4 (plain)
    ");
}

#[test]
fn pairs_prefer_the_record_that_they_hang_on_and_every_result_is_somewhere() {
    let mixed = concat!(
        r#""message":{"role":"user","content":[{"type":"text","text":"note"},"#,
        r#"{"type":"tool_result","tool_use_id":"t","content":"three"},{"type":"tool_result","#,
        r#""tool_use_id":"nowhere"}]}"#,
    );
    let script = Script::new()
        .prompt("p", "-", "go")
        .call("a", "p", "m1", "t", "Read")
        .call("b", "a", "m2", "t", "Read")
        .result("r2", "b", "t", "of the second")
        .record("user", "r1", "r2", mixed)
        .call("c", "r1", "m3", "open", "Read");
    insta::assert_snapshot!(turns(&script), @r"
    plain, new_session, open
      said 1 (plain)
      answer m1: 2->5
      answer m2: 3->4
      orphan 5
      said 5 (tool_result)
      answer m3: 6
    ");
}

#[test]
fn a_turn_fails_ends_with_a_tool_or_goes_on() {
    let error = concat!(
        r#""isApiErrorMessage":true,"message":{"id":"e","role":"assistant","#,
        r#""model":"<synthetic>","content":[{"type":"text","text":"API Error"}],"#,
        r#""stop_reason":"stop_sequence"}"#,
    );
    let ends = concat!(
        r#""toolEndsTurn":true,"message":{"role":"user","content":[{"type":"tool_result","#,
        r#""tool_use_id":"t","content":"ok"}]}"#,
    );
    let server = concat!(
        r#"{"type":"server_tool_use","id":"w","name":"web_search","input":{}},"#,
        r#"{"type":"web_search_tool_result","tool_use_id":"w","content":[]}"#,
    );
    let script = Script::new()
        .prompt("p", "-", "go")
        .record("assistant", "a", "p", error)
        .prompt("q", "a", "structured")
        .call("b", "q", "m1", "t", "StructuredOutput")
        .record("user", "r", "b", ends)
        .prompt("s", "r", "search")
        .block("c", "s", "m2", server);
    insta::assert_snapshot!(turns(&script), @r"
    plain, new_session, failed
      said 1 (plain)
      answer e: 2
    plain, new_round, answered
      said 3 (plain)
      answer m1: 4->5
    plain, new_round, answered
      said 6 (plain)
      answer m2: 7->7 7->7
    ");
}

#[test]
fn the_seeds_find_what_they_say() {
    let final_call = concat!(
        r#""message":{"id":"m1","role":"assistant","content":[{"type":"tool_use","id":"t2","#,
        r#""name":"Read","input":{}}],"stop_reason":"tool_use","usage":{"output_tokens":480}}"#,
    );
    let script = Script::new()
        .prompt("p", "-", "go")
        .call("a1", "p", "m1", "t1", "Read")
        .record("assistant", "a2", "a1", final_call)
        .result("r1", "a1", "t1", "one")
        .result("r2", "a2", "t2", "two")
        .wait(301)
        .prompt("q", "r2", "again")
        .record(
            "user",
            "w",
            "q",
            r#""isMeta":true,"message":{"role":"user","content":[{"type":"text","text":"x"}]}"#,
        )
        .record(
            "user",
            "i",
            "w",
            concat!(
                r#""permissionMode":"default","message":{"role":"user","content":[{"type":"text","#,
                r#""text":"<ide_opened_file>f</ide_opened_file>"}]}"#,
            ),
        );
    let reference = reference::read(Lines::new(script.text().as_bytes())).unwrap();
    // By stop reasons: the record without a stop reason is dropped, and its call with it.
    assert_eq!(
        (
            reference.stop_reason.turns.len(),
            reference.stop_reason.calls,
            reference.stop_reason.pairs
        ),
        (2, 1, vec!["t2".to_owned()])
    );
    assert_eq!(reference.stop_reason.turns[0].calls, [("t2".to_owned(), Some("r2".to_owned()))]);
    let first = &reference.stop_reason.messages[0];
    assert_eq!((first.records_left_out, first.blocks_lost), (1, 1));
    // cc-langfuse: the second prompt has no answer, so it is not consumed.
    assert_eq!(
        (
            reference.cc_langfuse.turns.len(),
            reference.cc_langfuse.consumed,
            reference.cc_langfuse.last_line
        ),
        (1, 5, 5)
    );
    assert_eq!(reference.cc_langfuse.turns[0].answers, [Some("m1".to_owned())]);
    let rounds: Vec<_> = reference.rounds.iter().map(|round| (round.round, round.input)).collect();
    assert_eq!(
        rounds,
        [
            ("new_session", "plain"),
            ("continue", "tool_result"),
            ("continue", "tool_result"),
            ("resume", "plain"),
            ("new_round", "plain"),
            ("new_session", "ide_opened_file"),
        ]
    );
}

#[test]
fn without_ids_the_last_word_is_what_stands_behind_the_last_result() {
    let script = Script::new()
        .raw(r#"{"type":"user","content":"go"}"#)
        .raw(r#"{"message":{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"Read","input":{}}]}}"#)
        .raw(r#"{"type":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}"#)
        .raw(r#"{"message":{"role":"assistant","content":"All done."}}"#);
    insta::assert_snapshot!(turns(&script), @r"
    plain, new_session, answered
      said 1 (plain)
      answer ?: 2->3 4
    ");
}

#[test]
fn seed_002_consumes_its_own_example() {
    let script = Script::new()
        .raw(r#"{ "sessionId": "sess1", "type": "user", "content": "read a file" }"#)
        .raw(concat!(
            r#"{ "message": { "id": "m1", "role": "assistant","#,
            r#" "content": [{ "type": "tool_use", "id": "t1", "name": "Read","#,
            r#" "input": { "path": "/" } }] } }"#,
        ))
        .raw(concat!(
            r#"{ "type": "user", "content": [{ "type": "tool_result", "tool_use_id": "t1","#,
            r#" "content": "file data" }] }"#,
        ))
        .raw(r#"{ "message": { "id": "m2", "role": "assistant", "content": [{ "type": "text", "text": "done" }] } }"#);
    let two = reference::read(Lines::new(script.text().as_bytes())).unwrap().cc_langfuse;
    assert_eq!((two.turns.len(), two.consumed, two.turns[0].results), (1, 4, 1));
    assert_eq!(two.turns[0].answers, [Some("m1".to_owned()), Some("m2".to_owned())]);
    insta::assert_snapshot!(turns(&script), @r"
    plain, new_session, answered
      said 1 (plain)
      answer m1: 2->3
      answer m2: 4
    ");
}
