use super::*;

fn steps(events: &[&str]) -> Vec<Step> {
    let mut stream = Stream::default();
    events.iter().filter_map(|event| stream.event(event)).collect()
}

#[test]
fn blocks_are_put_together_with_their_members_in_place() {
    let found = steps(&[
        r#"{"type":"message_start","message":{"id":"m","content":[]}}"#,
        r#"{"type":"ping"}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"a \"b\""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c=="}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        concat!(
            r#"{"type":"content_block_start","index":1,"#,
            r#""content_block":{"type":"tool_use","name":"Read","input":{},"id":"t"}}"#
        ),
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":""}}"#,
        concat!(
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","#,
            r#""partial_json":"{\"b\": \"x \\\" : y\","}}"#
        ),
        concat!(
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","#,
            r#""partial_json":" \"a\": [1, 2]}"}}"#
        ),
        r#"{"type":"content_block_stop","index":1}"#,
        concat!(
            r#"{"type":"content_block_start","index":2,"#,
            r#""content_block":{"type":"tool_use","id":"u","name":"Glob","input":{}}}"#
        ),
        r#"{"type":"content_block_stop","index":2}"#,
        r#"{"type":"content_block_start","index":3,"content_block":{"type":"new_kind","data":7}}"#,
        r#"{"type":"content_block_delta","index":3,"delta":{"type":"new_delta","x":1}}"#,
        r#"{"type":"content_block_stop","index":3}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}"#,
        r#"{"type":"message_stop"}"#,
    ]);
    let block = |text: &str| Step::Block(text.to_owned());
    let ending = Ending {
        stop_reason: Some("tool_use".into()),
        usage: Some(r#"{"output_tokens":9}"#.into()),
    };
    assert_eq!(
        found,
        [
            Step::Started(r#"{"id":"m","content":[]}"#.into()),
            block(r#"{"type":"thinking","thinking":"a \"b\"","signature":"c=="}"#),
            block(
                r#"{"type":"tool_use","name":"Read","input":{"b":"x \" : y","a":[1,2]},"id":"t"}"#
            ),
            block(r#"{"type":"tool_use","id":"u","name":"Glob","input":{}}"#),
            block(r#"{"type":"new_kind","data":7}"#),
            Step::Ended(ending),
        ]
    );
}

#[test]
fn what_is_no_answer_is_said_to_be_none() {
    let failed = |events: &[&str]| match steps(events).pop() {
        Some(Step::Failed(error)) => error.to_string(),
        other => format!("{other:?}"),
    };
    let overloaded =
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    assert_eq!(failed(&[overloaded]), "API Error: Overloaded. Try again in a while.");
    assert_eq!(failed(&["<html>"]), "API Error: unexpected response (an event is no JSON).");
    let input = [
        concat!(
            r#"{"type":"content_block_start","index":0,"#,
            r#""content_block":{"type":"tool_use","id":"u","name":"Glob","input":{}}}"#
        ),
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
    ];
    // A call that was cut off has an empty input.
    assert!(failed(&input).contains(r#"\"input\":{}"#), "{}", failed(&input));
    let mut stream = Stream::default();
    assert_eq!(stream.end().unwrap().message, "no answer came");
    stream.event(r#"{"type":"message_start","message":{}}"#);
    assert_eq!(stream.end().unwrap().message, "its end is missing");
    stream.event(r#"{"type":"message_stop"}"#);
    assert_eq!(stream.end(), None);
}
