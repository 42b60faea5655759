use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::tool::Trouble;

fn answer(text: &str) -> Answer {
    Answer { is_error: None, ..Trouble::failed(text).answer() }
}

fn turn() -> Turn {
    Turn::new(Vec::new(), Retry { most: 2 }, None)
}

fn text(words: &str) -> Prompt {
    Prompt { id: String::new(), blocks: vec![text_block(words)] }
}

fn call(id: &str, name: &str) -> String {
    format!(r#"{{"type":"tool_use","id":"{id}","name":"{name}","input":{{"a":1}}}}"#)
}

/// Effects in one word each.
fn in_words(effects: &[Effect]) -> String {
    let word = |effect: &Effect| match effect {
        Effect::Record(Entry::Prompt(_)) => "prompt".to_owned(),
        Effect::Record(Entry::Meta(_) | Entry::Expansion(_)) => "meta".to_owned(),
        Effect::Record(Entry::Printed(_)) => "printed".to_owned(),
        Effect::Record(Entry::Block(block)) => format!("block{}", block.number),
        Effect::Record(Entry::Result(call, _)) => format!("result:{call}"),
        Effect::Record(Entry::Interrupted(text)) => (*text).to_owned(),
        Effect::Record(Entry::Failed(_)) => "failed".to_owned(),
        Effect::Show(block) => format!("show{}", block.number),
        Effect::Rewind => "rewind".to_owned(),
        Effect::Ask => "ask".to_owned(),
        Effect::Wait(..) => "wait".to_owned(),
        Effect::Decide(call) => format!("decide:{}", call.id),
        Effect::Run(call) => format!("run:{}", call.id),
        Effect::Stop => "stop".to_owned(),
        Effect::Done(outcome) => {
            format!("{outcome:?}").split('(').next().unwrap_or_default().to_owned()
        }
    };
    effects.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn start(turn: &mut Turn) -> String {
    let mut all = in_words(&turn.step(Input::Prompt(text("hi"))));
    turn.step(Input::Accepted("req".to_owned()));
    all += &in_words(&turn.step(Input::Started(
        r#"{"id":"m","content":[],"usage":{"input_tokens":5,"output_tokens":1}}"#.to_owned(),
    )));
    all
}

fn ended(turn: &mut Turn, reason: &str) -> Vec<Effect> {
    let usage = Some(r#"{"output_tokens":7}"#.to_owned());
    turn.step(Input::Ended(Ending { stop_reason: Some(reason.to_owned()), usage }))
}

#[test]
fn the_last_block_has_the_final_usage() {
    let mut turn = turn();
    assert_eq!(start(&mut turn), "prompt ask");
    assert_eq!(in_words(&turn.step(Input::Block(text_block("one")))), "show1");
    assert_eq!(in_words(&turn.step(Input::Block(text_block("two")))), "block1 show2");
    let effects = ended(&mut turn, "end_turn");
    assert_eq!(in_words(&effects), "block2 Answered");
    let Effect::Record(Entry::Block(last)) = &effects[0] else { panic!() };
    assert_eq!(
        last.message,
        r#"{"id":"m","content":[{"type":"text","text":"two"}],"usage":{"input_tokens":5,"output_tokens":7}}"#
    );
    assert!(matches!(turn.state, State::Idle));
}

/// Allows calls. Returns what follows.
fn allow(turn: &mut Turn, ids: &[&str]) -> String {
    let words =
        ids.iter().map(|id| in_words(&turn.step(Input::Decided((*id).into(), Ruling::Allow))));
    words.filter(|words| !words.is_empty()).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_call_that_waits_for_a_decision_holds_up_no_other() {
    let mut turn = turn();
    start(&mut turn);
    for (id, name) in [("a", "Bash"), ("b", "Write"), ("c", "Read"), ("d", "Edit")] {
        turn.step(Input::Block(call(id, name)));
    }
    ended(&mut turn, "tool_use");
    assert_eq!(allow(&mut turn, &["c"]), "run:c");
    assert_eq!(in_words(&turn.step(Input::Answered("c".into(), answer("3")))), "");
    // Another input runs; the record of the call stays as it was.
    let changed = Ruling::Change(r#"{"b":2}"#.to_owned());
    let effects = turn.step(Input::Decided("b".into(), changed));
    assert!(matches!(&effects[..], [Effect::Run(wanted)] if wanted.input == r#"{"b":2}"#));
    let denied = Ruling::Deny(answer("no"));
    assert_eq!(in_words(&turn.step(Input::Decided("a".into(), denied))), "result:a");
    assert_eq!(in_words(&turn.step(Input::Decided("a".into(), Ruling::Allow))), "");
    assert_eq!(in_words(&turn.step(Input::Answered("b".into(), answer("2")))), "result:b result:c");
    let end = Ruling::Interrupt(answer("stop"));
    assert_eq!(
        in_words(&turn.step(Input::Decided("d".into(), end))),
        "stop result:d [Request interrupted by user for tool use] Interrupted"
    );
    assert!(turn.messages()[2].blocks[3].contains("stop"));
}

#[test]
fn calls_that_get_in_nobodys_way_run_together_and_answers_keep_their_order() {
    let mut turn = turn();
    start(&mut turn);
    for (id, name) in [("a", "Read"), ("b", "Grep"), ("c", "Bash"), ("d", "Read"), ("e", "Write")] {
        turn.step(Input::Block(call(id, name)));
    }
    assert_eq!(
        in_words(&ended(&mut turn, "tool_use")),
        "block5 decide:a decide:b decide:c decide:d decide:e"
    );
    assert_eq!(allow(&mut turn, &["a", "b", "c", "d", "e"]), "run:a run:b");
    assert_eq!(in_words(&turn.step(Input::Answered("b".into(), answer("2")))), "");
    assert_eq!(in_words(&turn.step(Input::Answered("b".into(), answer("again")))), "");
    assert_eq!(
        in_words(&turn.step(Input::Answered("a".into(), answer("1")))),
        "result:a result:b run:c"
    );
    assert_eq!(in_words(&turn.step(Input::Prompt(text("meanwhile")))), "");
    assert_eq!(in_words(&turn.step(Input::Answered("c".into(), answer("3")))), "result:c run:d");
    assert_eq!(in_words(&turn.step(Input::Answered("d".into(), answer("4")))), "result:d run:e");
    assert_eq!(
        in_words(&turn.step(Input::Answered("e".into(), answer("5")))),
        "result:e prompt ask"
    );
    assert_eq!(turn.messages()[2].blocks.len(), 6);
}

#[test]
fn an_answer_that_was_cut_is_left_and_asked_for_again() {
    let mut turn = turn();
    start(&mut turn);
    turn.step(Input::Block(text_block("one")));
    turn.step(Input::Block(call("a", "Read")));
    let cut = || Input::Failed(ApiError::new(Why::Cut, "cut"), 0.0);
    assert_eq!(in_words(&turn.step(cut())), "rewind wait");
    assert_eq!(turn.messages().len(), 1);
    assert_eq!(in_words(&turn.step(Input::Waited)), "ask");
    assert_eq!(in_words(&turn.step(cut())), "wait");
    turn.step(Input::Waited);
    turn.step(Input::Prompt(text("meanwhile")));
    assert_eq!(in_words(&turn.step(cut())), "failed Failed");
    // The prompt that came meanwhile still has to be sent.
    assert_eq!(turn.take_waiting().collect::<Vec<_>>(), [text("meanwhile")]);
}

#[test]
fn whoever_stops_it_leaves_no_call_open() {
    let mut turn = turn();
    start(&mut turn);
    turn.step(Input::Block(call("a", "Read")));
    turn.step(Input::Block(call("b", "Bash")));
    assert_eq!(
        in_words(&turn.step(Input::Interrupt)),
        "block2 stop result:a result:b [Request interrupted by user for tool use] Interrupted"
    );
    start(&mut turn);
    assert_eq!(
        in_words(&turn.step(Input::Interrupt)),
        "stop [Request interrupted by user] Interrupted"
    );
    assert_eq!(in_words(&turn.step(Input::Interrupt)), "");
}

#[test]
fn limits_end_a_turn() {
    let mut turn = Turn::new(Vec::new(), Retry::default(), Some(1));
    start(&mut turn);
    turn.step(Input::Block(call("a", "Read")));
    ended(&mut turn, "tool_use");
    assert_eq!(allow(&mut turn, &["a"]), "run:a");
    assert_eq!(in_words(&turn.step(Input::Answered("a".into(), answer("1")))), "result:a MaxTurns");
    let mut turn = Turn::new(Vec::new(), Retry::default(), None);
    start(&mut turn);
    for _ in 0..GO_ON_MOST {
        turn.step(Input::Block(text_block("long")));
        let words = in_words(&ended(&mut turn, "max_tokens"));
        assert!(words.ends_with("meta ask"), "{words}");
    }
    assert!(in_words(&ended(&mut turn, "max_tokens")).ends_with("Unfinished"));
    start(&mut turn);
    assert_eq!(in_words(&turn.step(Input::Unwritable("full".into()))), "stop Unwritable");
    // Also if the record that could not be written was the last one.
    assert_eq!(in_words(&turn.step(Input::Unwritable("full".into()))), "stop Unwritable");
}

#[test]
fn a_call_that_was_cut_off_is_not_run() {
    let mut turn = turn();
    start(&mut turn);
    turn.step(Input::Block(call("a", "Read")));
    turn.step(Input::Block(call("b", "Write").replace(r#"{"a":1}"#, "{}")));
    assert_eq!(in_words(&ended(&mut turn, "max_tokens")), "block2 decide:a");
    assert_eq!(allow(&mut turn, &["a"]), "run:a");
    let effects = turn.step(Input::Answered("a".into(), answer("1")));
    assert_eq!(in_words(&effects), "result:a result:b ask");
    assert!(turn.messages()[2].blocks[1].contains("limit of its length"));
}

#[test]
fn what_the_api_would_refuse_is_not_sent() {
    let thinking = r#"{"type":"thinking","thinking":"t","signature":"s"}"#;
    for (blocks, sent) in [
        (vec!["\n\n"], 0),
        (vec![""], 0),
        (vec![thinking], 0),
        (vec![thinking, " "], 0),
        (vec![thinking, "a", " "], 2),
    ] {
        let mut turn = turn();
        start(&mut turn);
        for block in blocks {
            let block = if block == thinking { block.to_owned() } else { text_block(block) };
            turn.step(Input::Block(block));
        }
        ended(&mut turn, "end_turn");
        let count = turn.messages().get(1).map_or(0, |message| message.blocks.len());
        assert_eq!(count, sent, "{:?}", turn.messages());
    }
}

#[test]
fn another_model_is_not_sent_what_this_one_thought() {
    let mut turn = turn();
    start(&mut turn);
    turn.step(Input::Block(r#"{"type":"thinking","thinking":"t","signature":"s"}"#.to_owned()));
    turn.step(Input::Block(text_block("a")));
    ended(&mut turn, "end_turn");
    turn.forget_thinking();
    assert_eq!(turn.messages()[1].blocks, [text_block("a")]);
}

/// Whether each call in the messages has exactly one result, directly after it.
fn is_paired(messages: &[Message]) -> bool {
    let ids = |message: Option<&Message>, kind: &str, name: &str| -> Vec<String> {
        let blocks = message.into_iter().flat_map(|message| &message.blocks);
        let values =
            blocks.filter_map(|block| serde_json::from_str::<serde_json::Value>(block).ok());
        let matching = values.filter(|block| block["type"] == kind);
        matching.filter_map(|block| block[name].as_str().map(str::to_owned)).collect()
    };
    messages.iter().enumerate().all(|(at, message)| {
        let calls = ids(Some(message), "tool_use", "id");
        calls.is_empty() || calls == ids(messages.get(at + 1), "tool_result", "tool_use_id")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    /// Whatever happens in whatever order: no request is made while a call is open, and each call
    /// has one result.
    #[test]
    fn no_call_stays_open(choices in prop::collection::vec((0..14_u8, 0..6_u8), 1..80)) {
        let mut turn = Turn::new(Vec::new(), Retry { most: 1 }, Some(4));
        let mut answers: HashMap<String, u32> = HashMap::new();
        let mut allowed = std::collections::HashSet::new();
        let mut recorded_calls = Vec::new();
        let mut number = 0;
        for (choice, which) in choices {
            let id = format!("c{}", number.max(u32::from(which)) - u32::from(which));
            let input = match choice {
                0 | 1 => Input::Prompt(text("say")),
                2 => Input::Started(r#"{"id":"m","content":[]}"#.to_owned()),
                3 => Input::Block(text_block("t")),
                4 | 5 => {
                    number += 1;
                    let name = ["Read", "Bash", "Grep", "Write", "Nothing", "Edit"][usize::from(which)];
                    Input::Block(call(&format!("c{number}"), name))
                }
                6 => Input::Ended(Ending { stop_reason: Some(["tool_use", "end_turn", "max_tokens", "pause_turn", "refusal", ""][usize::from(which)].to_owned()), usage: None }),
                7 => Input::Failed(ApiError::new([Why::Cut, Why::Status(400)][usize::from(which % 2)], "x"), 0.5),
                8 => Input::Waited,
                9 | 10 => Input::Answered(id, answer("done")),
                12 | 13 => Input::Decided(id, match which {
                    0 => Ruling::Change("{}".to_owned()),
                    1 => Ruling::Deny(answer("no")),
                    2 if choice == 13 => Ruling::Interrupt(answer("no")),
                    _ => Ruling::Allow,
                }),
                _ if which == 0 => Input::Unwritable("full".to_owned()),
                _ => Input::Interrupt,
            };
            if let Input::Decided(id, Ruling::Allow | Ruling::Change(_)) = &input {
                allowed.insert(id.clone());
            }
            let effects = turn.step(input);
            let is_lost = effects.iter().any(|effect| matches!(effect, Effect::Done(Outcome::Unwritable(_))));
            for effect in &effects {
                match effect {
                    Effect::Run(wanted) => prop_assert!(allowed.contains(&wanted.id), "{}", wanted.id),
                    Effect::Ask => prop_assert!(is_paired(turn.messages()), "{:?}", turn.messages()),
                    Effect::Record(Entry::Result(call, _)) => *answers.entry(call.clone()).or_default() += 1,
                    Effect::Record(Entry::Block(block)) => recorded_calls.extend(block.call.clone()),
                    Effect::Rewind => recorded_calls.retain(|call| answers.contains_key(call)),
                    _ => {}
                }
            }
            if is_lost {
                return Ok(());
            }
            if matches!(turn.state, State::Idle) {
                prop_assert!(is_paired(turn.messages()));
                for call in &recorded_calls {
                    prop_assert_eq!(answers.get(call), Some(&1), "{}", call);
                }
            }
        }
        prop_assert!(answers.values().all(|count| *count == 1));
    }
}

#[test]
fn what_a_shell_command_printed_follows_it() {
    let mut turn = Turn::new(Vec::new(), Retry::default(), None);
    turn.step(Input::Printed("<bash-stdout>x</bash-stdout>".to_owned()));
    let effects = turn.step(Input::Prompt(text("<bash-input>ls</bash-input>")));
    assert_eq!(in_words(&effects), "prompt printed ask");
    let sent =
        [text_block("<bash-input>ls</bash-input>\n"), text_block("<bash-stdout>x</bash-stdout>")];
    assert_eq!(turn.messages()[0].blocks, sent);
}
