//! Conversations that are too long: by the last answer, by the API's word, also after a resume; and
//! what a run may cost.

use super::*;

const ORDER: &str = "is about to be replaced by a summary";

fn full(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}], "usage": {"input_tokens": 990_000}})
}

/// A script in which summaries are answered like this.
fn script(replies: &[Value], summaries: &[Value]) -> Value {
    json!({
        "replies": replies,
        "rules": [{"match": {"last_user_contains": ORDER}, "replies": summaries}],
    })
}

fn summary() -> Value {
    says("<summary>They said one.</summary>")
}

fn boundaries(done: &Done) -> Vec<Value> {
    let records = done.records().into_iter();
    let found = records.filter(|record| record["subtype"] == "compact_boundary");
    found.map(|record| record["compactMetadata"].clone()).collect()
}

/// What a resume sends is what was sent last.
fn assert_resumes(done: &Done) {
    let again = agent::resume::open(&done.file, None).unwrap().unwrap();
    let again: Vec<String> =
        again.messages.iter().flat_map(|message| message.blocks.clone()).collect();
    assert_eq!(again, done.sent);
}

#[test]
fn a_full_context_is_summarised_before_the_next_turn_begins() {
    let lab = Lab::new(&json!({}));
    let script = script(&[full("One."), says("Two.")], &[summary()]);
    let done = lab.run(&script, Origin::New, &["First.", "Second."]);
    assert_eq!(done.outcomes()[1].1, "Two.", "{:?}", done.outcomes());
    let found = boundaries(&done);
    assert_eq!((found.len(), &found[0]["trigger"]), (1, &json!("auto")));
    assert!(found[0]["preTokens"].as_u64().unwrap() >= 990_000, "{found:?}");
    let sent = done.sent.join("\n");
    assert!(sent.contains("They said one.") && done.sent.iter().any(|one| one.contains("Second.")));
    assert_resumes(&done);
}

#[test]
fn a_full_context_is_summarised_after_a_resume_and_the_prompt_stays_as_it_is() {
    let lab = Lab::new(&json!({}));
    let first = lab.run(&script(&[full("One.")], &[]), Origin::New, &["First."]);
    let session = transcript::Session::at(&first.file).unwrap();
    let script = script(&[says("Two.")], &[summary()]);
    let done = lab.run(&script, Origin::Session(session.clone()), &["/context", "Second."]);
    let outcomes = done.outcomes();
    let Outcome::Blocked(context) = &outcomes[0].0 else { panic!("{outcomes:?}") };
    assert!(context.contains("Tokens of the last request: 99"), "{context}");
    assert_eq!(outcomes[1].1, "Two.", "{outcomes:?}");
    let found = boundaries(&done);
    assert!(found[0]["preTokens"].as_u64().unwrap() >= 990_000, "{found:?}");
    let prompts = done.sent.iter().filter(|block| block.contains(r#""text":"Second."#));
    assert_eq!(prompts.count(), 1, "{:?}", done.sent);
    assert_resumes(&done);
    // It is not full any more.
    let script = super::long::script(&[says("Three.")], &[]);
    let done = lab.run(&script, Origin::Session(session), &["Third."]);
    assert_eq!((done.outcomes()[0].1.as_str(), boundaries(&done).len()), ("Three.", 1));
}

#[test]
fn a_conversation_that_the_api_finds_too_long_is_summarised_once_and_sent_again() {
    let lab = Lab::new(&json!({}));
    let error = json!({"error": {"status": 400, "type": "invalid_request_error",
        "message": "prompt is too long: 1000001 tokens > 1000000 maximum"}});
    let script = script(&[says("One."), error, says("Two.")], &[summary()]);
    let done = lab.run(&script, Origin::New, &["First.", "Second."]);
    assert_eq!(done.outcomes()[1].1, "Two.", "{:?}", done.outcomes());
    assert_eq!(boundaries(&done).len(), 1);
    assert!(done.sent.iter().any(|block| block.contains("They said one.")));
    assert_resumes(&done);
}

/// What is summarised is a prompt and what followed it; what came before is sent as it was, and so
/// does a resume.
#[test]
fn the_end_of_a_conversation_is_replaced_by_its_summary() {
    let lab = Lab::new(&json!({}));
    let turns = json!({"replies": [says("One."), says("Two."), says("Three.")]});
    let first = lab.run(&turns, Origin::New, &["First.", "Second.", "Third."]);
    let prompts = agent::resume::open(&first.file, None).unwrap().unwrap().waypoints;
    let session = || Origin::Session(transcript::Session::at(&first.file).unwrap());
    let summary = says("<summary>They said two and three.</summary>");
    let script = script(&[says("Four.")], &[summary]);
    let words = vec![Said::compact_since(&prompts[1].id), Said::text("Fourth.")];
    let done = lab.run_said(&script, session(), words);
    let outcomes = done.outcomes();
    assert_eq!((outcomes.len(), outcomes[1].1.as_str()), (2, "Four."), "{outcomes:?}");
    assert_eq!(boundaries(&done), Vec::<Value>::new());
    let sent = done.sent.join("\n");
    assert!(sent.contains("First.") && sent.contains("One."), "{sent}");
    assert!(sent.contains("They said two and three."), "{sent}");
    // The prompts are quoted, the answers are gone.
    assert!(sent.contains("Second.") && sent.contains("Third."), "{sent}");
    assert!(!sent.contains("Two.") && !sent.contains("Three."), "{sent}");
    assert_resumes(&done);
    // The order named the prompt, and what is not there cannot be summarised.
    let words = vec![Said::compact_since("no-such-prompt")];
    let refused = lab.run_said(&script, session(), words);
    let (outcome, _) = &refused.outcomes()[0];
    let Outcome::Blocked(why) = outcome else { panic!("{outcome:?}") };
    assert_eq!(why, "There is no prompt no-such-prompt in the conversation.");
    assert_resumes(&refused);
}

#[test]
fn without_an_answer_the_end_of_a_conversation_stays() {
    let mut lab = Lab::new(&json!({}));
    lab.variables.0.insert("CLAUDE_CODE_MAX_RETRIES", "0".to_owned());
    let first = lab.run(&json!({"replies": [says("One.")]}), Origin::New, &["First."]);
    let prompts = agent::resume::open(&first.file, None).unwrap().unwrap().waypoints;
    let error = json!({"error": {"status": 400, "type": "invalid_request_error", "message": "no"}});
    let session = Origin::Session(transcript::Session::at(&first.file).unwrap());
    let words = vec![Said::compact_since(&prompts[0].id)];
    let done = lab.run_said(&script(&[], &[error]), session, words);
    assert!(matches!(done.outcomes()[0].0, Outcome::Failed(_)), "{:?}", done.outcomes());
    assert_eq!(done.sent, first.sent);
    assert_resumes(&done);
}

#[test]
fn a_short_overload_does_not_cost_the_summary() {
    let lab = Lab::new(&json!({}));
    let busy = json!({"error": {"status": 529, "type": "overloaded_error", "message": "Overloaded",
        "headers": {"retry-after": "0"}}});
    let script = script(&[says("One.")], &[busy.clone(), busy.clone(), busy, summary()]);
    let done = lab.run(&script, Origin::New, &["First.", "/compact"]);
    assert!(done.sent[0].contains("They said one."), "{:?}", done.sent);
    let waits = done.events.iter().filter(|(_, event)| matches!(event, Event::Retry { .. }));
    assert_eq!(waits.count(), 3);
}

#[test]
fn what_hooks_say_after_a_summary_goes_along_with_the_next_request() {
    let context =
        r#"sleep 0.3; echo '{"hookSpecificOutput":{"additionalContext":"the tide is out"}}'"#;
    let lab = Lab::new(&hooks("SessionStart", "compact", &[context]));
    let script = json!({
        "replies": [full("One."), says("Unseen.")],
        "rules": [
            {"match": {"last_user_contains": ORDER}, "replies": [summary()]},
            {"match": {"last_user_contains": "the tide is out"}, "replies": [says("Seen.")]},
        ],
    });
    let done = lab.run(&script, Origin::New, &["First.", "Second."]);
    assert_eq!(done.outcomes()[1].1, "Seen.", "{:?}", done.outcomes());
    assert_resumes(&done);
}

#[test]
fn what_hooks_say_at_the_start_of_a_sub_agent_is_in_its_first_request() {
    let context =
        r#"sleep 0.3; echo '{"hookSpecificOutput":{"additionalContext":"the tide is out"}}'"#;
    let lab = Lab::new(&hooks("SubagentStart", "", &[context]));
    let task =
        json!({"description": "d", "prompt": "LAB look", "subagent_type": "general-purpose"});
    let script = json!({
        "replies": [calls("Task", &task), says("Done.")],
        "rules": [
            {"match": {"last_user_contains": "the tide is out"}, "replies": [says("Seen.")]},
            {"match": {"last_user_contains": "LAB look"}, "replies": [says("Unseen.")]},
        ],
    });
    let done = lab.run(&script, Origin::New, &["Go."]);
    assert!(done.results()[0].1.contains("Seen."), "{:?}", done.results());
    assert_eq!(done.outcomes()[0].1, "Done.");
}

/// A sub-agent that has ended is counted once, however many others still work.
#[test]
fn what_ended_sub_agents_cost_is_counted_once() {
    let task = |name: &str| {
        json!({"type": "tool_use", "name": "Task", "input":
            {"description": name, "prompt": format!("LAB {name}"), "subagent_type": "general-purpose"}})
    };
    let mut lab = Lab::new(&json!({}));
    // A million tokens are two dollars.
    lab.budget = Some(3.0);
    let wait = calls("Bash", &json!({"command": "sleep 1; echo waited"}));
    let script = json!({
        "replies": [{"content": [task("short"), task("long")]}, says("Both are back.")],
        "rules": [
            {"match": {"last_user_contains": "LAB short"},
                "replies": [{"content": [{"type": "text", "text": "Short."}], "usage": {"input_tokens": 1_000_000}}]},
            {"match": {"last_user_contains": "LAB long"}, "replies": [wait]},
            {"match": {"last_user_contains": "waited"}, "replies": [says("Long.")]},
        ],
    });
    let done = lab.run(&script, Origin::New, &["Go.", "/compact"]);
    assert_eq!(done.outcomes()[0].1, "Both are back.", "{:?}", done.outcomes());
    // The budget holds for summaries, too.
    lab.budget = Some(0.0);
    let session = transcript::Session::at(&done.file).unwrap();
    let done = lab.run(&json!({"replies": []}), Origin::Session(session), &["/compact"]);
    assert_eq!(done.outcomes()[0].0, Outcome::OverBudget);
}

#[test]
fn commands_of_the_client_that_come_while_a_tool_runs_wait_for_their_turn() {
    let mut lab = Lab::new(&json!({}));
    lab.says = Some("/cost");
    let script =
        json!({"replies": [calls("Bash", &json!({"command": "sleep 0.3"})), says("Done.")]});
    let done = lab.run(&script, Origin::New, &["Go."]);
    let outcomes = done.outcomes();
    assert_eq!((outcomes.len(), outcomes[0].1.as_str()), (2, "Done."), "{outcomes:?}");
    assert!(matches!(&outcomes[1].0, Outcome::Blocked(text) if text.starts_with("Total cost")));
    assert!(!done.sent.iter().any(|block| block.contains("/cost")), "{:?}", done.sent);
}
