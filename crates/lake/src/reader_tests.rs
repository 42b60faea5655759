use std::io::Read as _;

use testkit::Rng;

use super::Reader;
use crate::schema::TABLES;
use crate::sheet::{Cell, Sheet};

/// An object of the table of turns with so many rows, and the texts and flags that are in it.
fn turns(chance: &mut Rng, rows: usize, words: usize) -> (Vec<u8>, Vec<String>, Vec<bool>) {
    let table = TABLES.iter().position(|table| table.name == "turns").unwrap();
    let common = [
        Cell::Number(3),
        Cell::Text("m1"),
        Cell::Null,
        Cell::Null,
        Cell::Null,
        Cell::Text("one"),
        Cell::Text("meta"),
    ];
    let mut sheet = Sheet::new(table, &common);
    let (mut texts, mut flags) = (Vec::new(), Vec::new());
    for _ in 0..rows {
        let text = format!("word {}", chance.below(words));
        let flag = chance.below(3) == 0;
        let row: Vec<Cell<'_>> = TABLES[table]
            .columns()
            .map(|column| match column.name {
                "turn" | "api_calls" | "tool_calls" | "tool_errors" => Cell::Number(1),
                "place" => Cell::Text(&text),
                "outcome" => Cell::Text("answered"),
                "is_prompt" | "is_copy" => Cell::Flag(flag),
                _ => Cell::Null,
            })
            .collect();
        sheet.add(&row).unwrap();
        texts.push(text);
        flags.push(flag);
    }
    let mut bytes = Vec::new();
    sheet.finish().unwrap().bytes().unwrap().read_to_end(&mut bytes).unwrap();
    (bytes, texts, flags)
}

#[test]
fn what_was_written_is_read_back() {
    let mut chance = Rng::new(7);
    for (rows, words) in [(0, 1), (1, 1), (7, 9), (8, 1), (300, 4), (5_000, 300), (60_000, 2_000)] {
        let (bytes, texts, flags) = turns(&mut chance, rows, words);
        let reader = Reader::open(&bytes).unwrap();
        assert_eq!(reader.texts("place"), Some(texts), "{rows} rows of {words}");
        assert_eq!(reader.flags("is_copy"), Some(flags), "{rows} rows of {words}");
        assert_eq!(reader.texts("session_id"), Some(vec!["one".to_owned(); rows]));
        // Columns that may be null, and those that are not there.
        assert_eq!(reader.texts("agent_id"), Some(Vec::new()));
        assert_eq!(reader.flags("none"), Some(Vec::new()));
    }
}

#[test]
fn damaged_bytes_end_and_take_no_memory() {
    let mut chance = Rng::new(8);
    let (whole, ..) = turns(&mut chance, 300, 40);
    let read = |bytes: &[u8]| {
        if let Some(reader) = Reader::open(bytes) {
            let _ = (reader.texts("place"), reader.flags("is_copy"));
        }
    };
    for _ in 0..20_000 {
        let mut bytes = whole.clone();
        for _ in 0..=chance.below(4) {
            // Mostly in the footer, where the lengths are.
            let from = if chance.below(3) == 0 { 0 } else { bytes.len() / 2 };
            let at = from + chance.below(bytes.len() - from);
            bytes[at] = u8::try_from(chance.below(256)).unwrap();
        }
        read(&bytes);
    }
    for cut in 0..whole.len() {
        read(&whole[..cut]);
        read(&whole[cut..]);
    }
    assert!(Reader::open(b"PAR1PAR1").is_none());
}
