use testkit::session::Script;

use super::*;
use crate::conversation::graph::Graph;

fn table(script: &Script) -> Table {
    Table::read(Lines::new(script.text().as_bytes())).unwrap()
}

#[test]
fn an_answer_is_joined_by_its_id_over_the_whole_file() {
    let script = Script::new()
        .prompt("p", "-", "go")
        .call("a1", "p", "m1", "t1", "Read")
        .result("r1", "a1", "t1", "ok")
        .call("a2", "a1", "m1", "t2", "Read")
        .says("b", "r1", "m2", "done");
    let table = table(&script);
    let rows: Vec<u32> = table.answers().iter().map(|answer| answer.rows).collect();
    assert_eq!(rows, [2, 1]);
    assert_eq!(table.rows()[3].answer, Some(AnswerId(0)));
}

#[test]
fn the_largest_output_counts_and_of_equals_the_last() {
    let line = |uuid: &str, output: u64, input: u64, stop: &str| {
        format!(
            r#"{{"type":"assistant","uuid":"{uuid}","message":{{"id":"m","role":"assistant","content":[],"stop_reason":{stop},"usage":{{"input_tokens":{input},"output_tokens":{output},"cache_creation":{{"ephemeral_5m_input_tokens":3,"ephemeral_1h_input_tokens":4}},"server_tool_use":{{"web_search_requests":1}},"service_tier":"standard","speed":"fast","cache_read_input_tokens":null}}}}}}"#
        )
    };
    let script = Script::new()
        .raw(&line("a", 9, 1, "null"))
        .raw(&line("b", 9, 2, "null"))
        .raw(&line("c", 1, 3, "null"));
    let one = table(&script);
    let answer = &one.answers()[0];
    let reported = answer.usage.as_ref().unwrap();
    let usage = reported.usage;
    assert_eq!((usage.output, usage.input, answer.is_final()), (9, 2, false));
    assert_eq!(
        (usage.cache_5m, usage.cache_1h, reported.cache_split, usage.searches, usage.fetches),
        (3, 4, Some([3, 4]), 1, 0)
    );
    assert_eq!(one.text(reported.tier), Some("standard"));
    assert_eq!(one.text(reported.speed), Some("fast"));

    let whole = table(&script.raw(&line("d", 2, 4, "\"end_turn\"")));
    assert!(whole.answers()[0].is_final());
    assert_eq!(whole.answers()[0].usage.as_ref().unwrap().usage.output, 9);
}

#[test]
fn a_block_that_an_earlier_record_has_is_a_repeat() {
    let grown =
        r#"{"type":"text","text":"one"},{"type":"text","text":"two"},{"type":"text","text":"two"}"#;
    let script = Script::new()
        .says("a", "-", "m", "one")
        .block("b", "a", "m", grown)
        .says("c", "b", "other", "one")
        .prompt("p", "c", "again")
        .prompt("p", "c", "again");
    let mut table = table(&script);
    let graph = Graph::new(&table);
    table.mark_repeats(&crate::conversation::graph::repeats(&table, &graph));
    let repeats: Vec<bool> = table.blocks().iter().map(|part| part.is_repeat).collect();
    // Two equal blocks in one record are two blocks; a record that is in the file twice is one.
    assert_eq!(repeats, [false, true, false, false, false, false, true]);
}

#[test]
fn records_without_a_message_id_join_the_answer_before_them_until_somebody_speaks() {
    let line = r#"{"message":{"role":"assistant","content":[{"type":"text","text":"x"}]}}"#;
    let script = Script::new()
        .raw(r#"{"type":"user","content":"hello"}"#)
        .raw(line)
        .raw(
            r#"{"type":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"y"}]}"#,
        )
        .raw(line)
        .raw(r#"{"type":"user","content":"more"}"#)
        .raw(line);
    let table = table(&script);
    let rows: Vec<u32> = table.answers().iter().map(|answer| answer.rows).collect();
    assert_eq!(rows, [2, 1]);
}

#[test]
fn a_prompt_that_only_the_queue_knows_is_kept() {
    let queue = |operation: &str, content: &str| {
        format!(r#"{{"type":"queue-operation","operation":"{operation}"{content}}}"#)
    };
    let script = Script::new()
        .raw(&queue("enqueue", r#","content":"first""#))
        .raw(&queue("dequeue", ""))
        .prompt("p", "-", "first")
        .raw(&queue("enqueue", r#","content":"while busy""#))
        .raw(&queue("enqueue", r#","content":"taken back""#))
        .raw(&queue("remove", ""))
        .raw(&queue("popAll", ""));
    assert_eq!(table(&script).unsaid, [RowId(3)]);
}

#[test]
fn what_was_said_without_a_dequeue_is_not_what_a_remove_takes() {
    let queue = |operation: &str, content: &str| {
        format!(r#"{{"type":"queue-operation","operation":"{operation}"{content}}}"#)
    };
    let first = Script::new()
        .raw(&queue("enqueue", r#","content":"first""#))
        .prompt("p", "-", "first")
        .raw(&queue("enqueue", r#","content":"while busy""#))
        .raw(&queue("remove", ""));
    assert_eq!(table(&first).unsaid, [RowId(2)]);
    // One prompt record counts for one queued prompt only.
    let twice = Script::new()
        .raw(&queue("enqueue", r#","content":"go on""#))
        .raw(&queue("enqueue", r#","content":"go on""#))
        .prompt("p", "-", "go on")
        .raw(&queue("remove", ""));
    assert_eq!(table(&twice).unsaid, [RowId(1)]);
    // A prompt that is removed becomes an attachment, whichever is written first.
    let attached = r#""attachment":{"type":"queued_command","prompt":"look"}"#;
    let attached = Script::new()
        .prompt("p", "-", "start")
        .raw(&queue("enqueue", r#","content":"look""#))
        .raw(&queue("enqueue", r#","content":"taken back""#))
        .record("attachment", "a", "p", attached)
        .raw(&queue("remove", ""))
        .raw(&queue("popAll", ""));
    assert_eq!(table(&attached).unsaid, []);
}

#[test]
fn a_record_is_read_again_where_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.jsonl");
    let script = Script::new().prompt("a", "-", "one").prompt("b", "a", "two");
    let glued = script.text().replacen("}\n", "}", 1);
    std::fs::File::create(&path)
        .and_then(|mut file| std::io::Write::write_all(&mut file, glued.as_bytes()))
        .unwrap();
    let table = Table::read(Lines::new(File::open(&path).unwrap())).unwrap();
    let file = File::open(&path).unwrap();
    let text_at = |row| {
        table.look(&file, row, |entry| entry.message().unwrap().first_text().unwrap().into_owned())
    };
    assert_eq!(
        (text_at(RowId(0)).unwrap(), text_at(RowId(1)).unwrap()),
        ("one".to_owned(), "two".to_owned())
    );
    File::options().write(true).open(&path).unwrap().set_len(10).unwrap();
    assert_eq!(text_at(RowId(1)).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn a_queued_prompt_is_matched_with_one_record_only() {
    let queue = |operation: &str, content: &str| {
        format!(r#"{{"type":"queue-operation","operation":"{operation}"{content}}}"#)
    };
    let attached = r#""attachment":{"type":"queued_command","prompt":[{"type":"text","text":"look"},{"type":"image","source":{}}]}"#;
    let script = Script::new()
        .prompt("p", "-", "continue")
        .raw(&queue("enqueue", r#","content":"continue""#))
        .raw(&queue("remove", ""))
        .raw(&queue("enqueue", r#","content":"look""#))
        .raw(&queue("remove", ""))
        .record("attachment", "a", "p", attached);
    // "continue" was said before it was queued; "look" is in the attachment.
    assert_eq!(table(&script).unsaid, [RowId(1)]);
}

#[test]
fn a_notification_may_be_blocks_or_stand_only_in_the_queue() {
    let note = |id: &str| format!("<task-notification><task-id>{id}</task-id></task-notification>");
    let attached = format!(
        r#""attachment":{{"type":"queued_command","prompt":[{{"type":"text","text":"{}"}}]}}"#,
        note("a1")
    );
    let script = Script::new().record("attachment", "a", "-", &attached).raw(&format!(
        r#"{{"type":"queue-operation","operation":"enqueue","content":"{}"}}"#,
        note("a2")
    ));
    let table = table(&script);
    let agents: Vec<&str> = table.started.iter().map(|fact| table.ids.text(fact.agent)).collect();
    assert_eq!(agents, ["a1", "a2"]);
    assert_eq!(table.rows()[0].input, Some(Input::Notification));
}

#[test]
fn a_copy_on_another_branch_is_no_repeat() {
    let script = Script::new()
        .prompt("p", "-", "go")
        .call("a", "p", "m", "t", "Read")
        .result("ra", "a", "t", "x")
        .prompt("q", "ra", "on")
        .call("b", "p", "m", "t", "Read")
        .result("rb", "b", "t", "x")
        .prompt("z", "rb", "on");
    let mut table = table(&script);
    let graph = Graph::new(&table);
    table.mark_repeats(&crate::conversation::graph::repeats(&table, &graph));
    // One answer under one prompt: a branch, but both sides continue.
    assert!(table.blocks().iter().all(|part| !part.is_repeat), "{:?}", table.blocks());
    let pairs = crate::conversation::turn::Pairs::new(&table);
    assert!(pairs.open(&table).is_empty() && pairs.orphans(&table).is_empty());
}
