use super::{image, of_block, units};
use crate::format::content::Block;
use crate::format::json::Json;

/// A number with one digit.
fn short(number: f64) -> String {
    format!("{number:.1}")
}

/// The units of a block, and the tokens of its images.
fn block(json: &str) -> String {
    let size = of_block(&Block::of(Json::parse(json.as_bytes()).unwrap()).unwrap());
    format!("{:.1} {:.0}", size.units, size.media)
}

#[test]
fn texts_have_about_a_unit_for_a_word() {
    let about = |text: &str| short(units(text));
    assert_eq!(about(""), "0.0");
    assert_eq!(about("two words"), "2.0");
    assert_eq!(about("internationalisation"), "4.1");
    assert_eq!(about("1234"), "2.6");
    assert_eq!(about("a  b\n\nc"), "4.0");
    assert_eq!(about("f(x);"), "4.3");
    assert_eq!(about("日本"), "2.0");
}

#[test]
fn blocks_have_the_size_of_what_is_in_them() {
    assert_eq!(block(r#""two words""#), "2.0 0");
    assert_eq!(block(r#"{"type":"thinking","thinking":"","signature":"aaaa"}"#), "13.0 0");
    let text = r#"{"type":"text","text":"two words"}"#;
    let result = |content: &str| {
        block(&format!(r#"{{"type":"tool_result","tool_use_id":"t","content":{content}}}"#))
    };
    assert_eq!(result(&format!("[{text},{text}]")), "4.0 0");
    assert_eq!(result(r#""two\nwords""#), "2.6 0");
    // An image whose size cannot be read costs what the largest one does.
    assert_eq!(result(r#"[{"type":"image","source":{}}]"#), "0.0 1600");
}

#[test]
fn a_nested_result_ends() {
    let mut json = r#"{"type":"tool_result","content":"x"}"#.to_owned();
    for _ in 0..100 {
        json = format!(r#"{{"type":"tool_result","content":[{json}]}}"#);
    }
    assert!(!block(&json).starts_with("0.0 "));
}

#[test]
fn images_cost_by_their_pixels() {
    assert_eq!(short(image(Some((750, 1)))), "1.0");
    assert_eq!(short(image(Some((1_000, 750)))), "1000.0");
    assert_eq!(short(image(Some((8_000, 8_000)))), "1600.0");
    assert_eq!(short(image(Some((15_680, 1_568)))), "328.0");
    assert_eq!(short(image(Some((0, 0)))), "0.0");
    assert_eq!(short(image(None)), "1600.0");
}
