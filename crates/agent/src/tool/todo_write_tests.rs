//! `TodoWrite` as it was recorded.

use serde_json::json;

use super::super::write::test_site::TestSite;
use super::run;

#[test]
fn a_list_takes_the_place_of_the_last() {
    let bench = TestSite::new();
    let first = json!({"todos": [
        {"content": "Count widgets", "status": "in_progress", "activeForm": "Counting widgets"},
        {"content": "Write tests", "status": "pending", "activeForm": "Writing tests"},
    ]});
    let (output, detail) = bench.run(run, &first);
    assert_eq!(output, "The todo list is updated. Keep it up to date as you go on.");
    assert_eq!(
        detail,
        r#"{"oldTodos":[],"newTodos":[{"content":"Count widgets","status":"in_progress","activeForm":"Counting widgets"},{"content":"Write tests","status":"pending","activeForm":"Writing tests"}]}"#
    );
    let done = json!({"todos": [
        {"content": "Write tests", "status": "completed", "activeForm": "Writing tests"},
    ]});
    let (_, detail) = bench.run(run, &done);
    assert_eq!(
        detail,
        r#"{"oldTodos":[{"content":"Count widgets","status":"in_progress","activeForm":"Counting widgets"},{"content":"Write tests","status":"pending","activeForm":"Writing tests"}],"newTodos":[{"content":"Write tests","status":"completed","activeForm":"Writing tests"}]}"#
    );
    // A list that is done is removed.
    let (_, detail) = bench.run(run, &json!({"todos": []}));
    assert_eq!(detail, r#"{"oldTodos":[],"newTodos":[]}"#);
    assert_eq!(
        bench.refusal(run, &json!({"todos": [{"content": "a", "status": "pending"}]})),
        (true, "A todo is wrong: missing field `activeForm`".into())
    );
    let odd = json!({"todos": [{"content": "a", "status": "odd", "activeForm": "b"}]});
    assert_eq!(bench.refusal(run, &odd), (true, "A todo is wrong: `odd` is no status".into()));
}
