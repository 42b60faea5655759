use super::{Splices, To};
use crate::format::json::Json;

fn with(text: &str, changes: &[(&str, To)]) -> String {
    let mut splices = Splices::default();
    let object = Json::parse(text.as_bytes()).and_then(Json::object).unwrap();
    splices.members(&object, 0, changes);
    String::from_utf8(splices.apply(text.as_bytes())).unwrap()
}

fn value(text: &str) -> To {
    To::Value(text.as_bytes().to_vec())
}

#[test]
fn members_go_come_and_change_and_all_else_stays() {
    let text = r#"{ "a": 1 , "b":{"c":[1,2]},"d":"x" }"#;
    assert_eq!(with(text, &[("a", To::Nothing)]), r#"{ "b":{"c":[1,2]},"d":"x" }"#);
    assert_eq!(with(text, &[("b", To::Nothing)]), r#"{ "a": 1,"d":"x" }"#);
    assert_eq!(with(text, &[("d", To::Nothing)]), r#"{ "a": 1 , "b":{"c":[1,2]} }"#);
    let all = [("a", To::Nothing), ("b", To::Nothing), ("d", To::Nothing)];
    assert_eq!(with(text, &all), "{  }");
    let two = [("a", To::Nothing), ("b", To::Nothing), ("e", value("2"))];
    assert_eq!(with(text, &two), r#"{ "d":"x" ,"e":2}"#);
    assert_eq!(with("{}", &[("e", value("2")), ("f", value("3"))]), r#"{"e":2,"f":3}"#);
    let last = [("d", To::Nothing), ("e", value("2"))];
    assert_eq!(with(text, &last), r#"{ "a": 1 , "b":{"c":[1,2]} ,"e":2}"#);
    assert_eq!(with(text, &[("a", value("1"))]), text);
    assert_eq!(with(r#"{"a":1,"a":2}"#, &[("a", value("3"))]), r#"{"a":1,"a":3}"#);
}

#[test]
fn elements_go_with_one_comma_each() {
    let text = br#"{"x":[ 1, 2 ,3,4 ]}"#;
    let without = |gone: &[usize]| {
        let mut splices = Splices::default();
        splices.elements(text, 5..text.len() - 1, |place, _| {
            gone.contains(&place).then_some(To::Nothing)
        });
        String::from_utf8(splices.apply(text)).unwrap()
    };
    assert_eq!(without(&[0]), r#"{"x":[ 2 ,3,4 ]}"#);
    assert_eq!(without(&[0, 1]), r#"{"x":[ 3,4 ]}"#);
    assert_eq!(without(&[1, 2]), r#"{"x":[ 1,4 ]}"#);
    assert_eq!(without(&[0, 3]), r#"{"x":[ 2 ,3 ]}"#);
    assert_eq!(without(&[0, 1, 2, 3]), r#"{"x":[  ]}"#);
}
