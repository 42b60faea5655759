use proptest::prelude::*;

use super::{image, of_block, plain, units};
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

/// What [`units`] counts, a byte at a time: by its class and its place in a run of that class, from
/// 1; the last place stands for all after it.
fn tenths(text: &str) -> u64 {
    const TENTHS: [[u64; 6]; 7] = [
        [0, 9, 0, 0, 0, 2],
        [0, 13, 0, 0, 0, 0],
        [0, 0, 7, 0, 0, 0],
        [0, 6, 0, 0, 0, 0],
        [0, 11, 3, 3, 3, 3],
        [0, 10, 10, 10, 10, 10],
        [0, 0, 0, 0, 0, 0],
    ];
    let (mut sum, mut last, mut place) = (0, 6, 0);
    for byte in text.bytes() {
        let class = match byte {
            b'a'..=b'z' | b'A'..=b'Z' => 0,
            b'0'..=b'9' => 1,
            b' ' | b'\t' => 2,
            b'\n' | b'\r' => 3,
            0x80..=0xbf => 6,
            0xc0.. => 5,
            _ => 4,
        };
        place = match place {
            _ if class != last => 1,
            3 if class == 1 => 1,
            5 => 5,
            place => place + 1,
        };
        last = class;
        sum += TENTHS[class][place];
    }
    sum
}

/// Runs of bytes of each class, longer than what is counted together.
const RUNS: &str = concat!(
    r"([a-zA-Z]{1,9}|[0-9]{1,200}|[ \t]{1,70}|[\n\r]{1,5}",
    r"|[!-/\x00-\x08\x7f]{1,70}|[éß日本𝄞]{1,40}|\PC){0,40}",
);

proptest! {
    #[test]
    fn many_bytes_together_count_as_one_after_the_other(text in RUNS) {
        prop_assert_eq!(short(units(&text)), {
            let sum = tenths(&text);
            format!("{}.{}", sum / 10, sum % 10)
        });
    }

    #[test]
    fn escapes_are_replaced_in_one_go(text in r#"([\\n"a]|é){0,40}"#) {
        let replaced = text.replace("\\n", "\n").replace("\\\"", "\"").replace("\\\\", "\\");
        prop_assert_eq!(&*plain(&text), replaced);
    }
}
