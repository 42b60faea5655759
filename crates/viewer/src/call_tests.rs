use serde_json::{Value, json};
use transcript::Session;
use transcript::conversation::price::Prices;
use transcript::format::secret::Mask;

use super::*;
use crate::draw::Form;
use crate::opened::Opened;

/// What opens below a call that changed so many lines.
fn drawn(lines: usize, extent: Extent) -> String {
    let input = json!({ "file_path": "/w/a.rs", "old_string": "a", "new_string": "b" });
    let added: Vec<String> = (0..lines).map(|number| format!("+line {number}")).collect();
    let hunks = json!([{ "oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": lines,
        "lines": added }]);
    let result = json!({ "filePath": "/w/a.rs", "structuredPatch": hunks });
    drawn_call("Edit", &input, &result, extent)
}

/// What opens below a call of this tool.
fn drawn_call(tool: &str, input: &Value, result: &Value, extent: Extent) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("11111111-1111-4111-8111-111111111111.jsonl");
    let time = "2026-01-01T00:00:00.000Z";
    let records = [
        json!({ "type": "user", "uuid": "u", "parentUuid": null, "timestamp": time,
            "message": { "role": "user", "content": "change it" } }),
        json!({ "type": "assistant", "uuid": "a", "parentUuid": "u", "timestamp": time,
            "message": { "id": "m", "role": "assistant", "content": [
                { "type": "tool_use", "id": "t", "name": tool, "input": input }] } }),
        json!({ "type": "user", "uuid": "r", "parentUuid": "a", "timestamp": time,
            "message": { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "t", "content": "updated" }] },
            "toolUseResult": result }),
    ];
    let lines: Vec<String> = records.iter().map(ToString::to_string).collect();
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    let opened = Opened::open(Session::at(&path).unwrap()).unwrap();
    let prices = Prices::default();
    let mut drawing = Drawing::new(&opened, Mask::none(), Form::Page, &prices);
    drawing.extent = extent;
    drawing.base = "/k/s/x/".to_owned();
    let table = &opened.family.main.table;
    let call = table.blocks().iter().position(|block| block.kind.is_call()).unwrap();
    let call = BlockId(u32::try_from(call).unwrap());
    let turn = opened.only(&opened.live, call).unwrap();
    drawing.inside(&opened.live, &turn).unwrap().into_string()
}

#[test]
fn a_page_has_the_beginning_of_a_long_diff_and_a_link_to_all_of_it() {
    let short = drawn(1_000, Extent::Beginning);
    assert_eq!((short.matches("<ins").count(), short.contains("Show all")), (1_000, false));
    let long = drawn(1_300, Extent::Beginning);
    assert_eq!(long.matches("<ins").count(), 1_000);
    assert!(long.contains("?all=1\"") && long.contains("Show all: 300 lines more"), "{long}");
    let whole = drawn(1_300, Extent::Whole);
    assert_eq!((whole.matches("<ins").count(), whole.contains("Show all")), (1_300, false));
}

#[test]
fn what_was_asked_is_cut_with_a_note() {
    let asked = |length: usize| {
        let input = json!({ "words": "a ".repeat(length / 2), "number": 7 });
        drawn_call("other", &input, &json!({}), Extent::Beginning)
    };
    let (short, long) = (asked(40_000), asked(50_000));
    assert!(!short.contains(" more: "), "{short}");
    assert!(long.contains("10 KB more: in the record on line 2"), "{long}");
    let has = |count: usize| long.contains(&"a ".repeat(count));
    assert!(has(20_000) && !has(20_001), "{long}");
}

#[test]
fn the_words_of_a_search_in_the_web_are_cut_with_a_note() {
    let words = "found\n".repeat(30_000);
    let result = json!({ "query": "q", "results": [words] });
    let page = drawn_call("WebSearch", &json!({ "query": "q" }), &result, Extent::Beginning);
    assert!(page.contains("60 KB more: in the record on line 3"), "{page}");
}
