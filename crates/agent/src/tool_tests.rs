use serde_json::json;

use super::write::test_site::TestSite;
use super::*;

fn call(name: &str, input: &Value) -> Call {
    let input = input.as_object().cloned().unwrap();
    Call { id: "c".to_owned(), name: name.to_owned(), input, cancel: Cancel::default() }
}

#[test]
fn whole_numbers_may_be_written_as_others() {
    let call = call("Tool", &json!({"a": 5, "b": 5.0, "c": 1e3, "d": -1, "e": "5", "f": true}));
    let found = ["a", "b", "c", "d", "e", "f", "g"].map(|name| number(&call, name));
    assert_eq!(found, [Some(5), Some(5), Some(1_000), None, None, None, None]);
    let is_whole = |value: Value| is_a(&value, "integer");
    assert!(is_whole(json!(5)) && is_whole(json!(5.0)) && is_whole(json!(-3)));
    assert!(!is_whole(json!(5.5)) && !is_whole(json!("5")) && !is_whole(json!(null)));
    assert!(is_a(&json!(5), "number") && is_a(&json!(5.5), "number"));
}

#[test]
fn what_is_wrong_with_a_call_is_told() {
    let bench = TestSite::new();
    let try_call = |name: &str, input: Value| {
        let answer = run(&call(name, &input), &bench.site);
        let Content::Text(text) = answer.content else { panic!() };
        (answer.is_error, text)
    };
    let wrong = |text: &str| (Some(true), format!("<tool_use_error>{text}</tool_use_error>"));
    assert_eq!(try_call("Nosuch", json!({})), wrong("Error: No such tool available: Nosuch"));
    assert_eq!(
        try_call("Bash", json!({"timeout": "5", "more": 1})),
        wrong(
            "InputValidationError: Bash failed due to the following issues:\nThe required parameter `command` is missing\nThe parameter `timeout` type is expected as `number` but provided as `string`\nAn unexpected parameter `more` was provided"
        )
    );
}
