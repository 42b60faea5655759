use super::*;

fn why(text: &str) -> String {
    let message = Script::read(text, &[]).unwrap_err().to_string();
    assert!(message.starts_with("a script is an object with `replies`"), "{message}");
    message.split_once("; ").unwrap().1.to_owned()
}

#[test]
fn what_is_wrong_with_a_script_is_told_in_its_own_words() {
    assert_eq!(why("[]"), "this is a list");
    assert_eq!(why("[1, 2, 3]"), "this is a list");
    assert_eq!(why("7"), "this is a number");
    assert!(why("{").starts_with("this is no JSON: EOF"));
    assert_eq!(why(r#"{"replies": {}}"#), "its `replies` is wrong: it is an object, not a list");
    assert_eq!(why(r#"{"replies": [{}, []]}"#), "its `replies[1]` is wrong: it is a list");
    assert!(why(r#"{"replies": [{"content": "x"}]}"#).starts_with("its `replies[0]` is wrong"));
    let rule = r#"{"rules": [{"match": {}, "replies": [7]}]}"#;
    assert!(why(rule).starts_with("its `rules[0].replies[0]` is wrong"));
    assert!(why(r#"{"rules": [{"replies": []}]}"#).contains("missing field `match`"));
}

#[test]
fn ids_depend_on_the_session_and_on_where_it_stands() {
    let id = |session, messages| {
        let script = Script::read("{}", &[]).unwrap().within(session, messages);
        script.id("toolu", "main")
    };
    assert_eq!(id("a", 0), id("a", 0));
    assert_ne!(id("a", 0), id("a", 2));
    assert_ne!(id("a", 0), id("b", 0));
}
