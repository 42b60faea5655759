//! The presets of `strip` form a ladder: each removes at least what the one before it does, for any
//! session.

use std::collections::BTreeMap;

use serde_json::Value;
use testkit::session::Script;
use transcript::client::change::{self, Preset, Spared, Strip, Subject};
use transcript::client::history::Rules;

use super::change::{CASES, chance, made, subject};

const LADDER: [Preset; 4] = [Preset::Light, Preset::Medium, Preset::Heavy, Preset::Extreme];

/// The pieces of a session, and how often each occurs: blocks, structured copies, records; lines
/// without an id by their type.
fn pieces(bytes: &[u8]) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    let mut add = |piece: String| *found.entry(piece).or_default() += 1;
    // Several records may be on one line, and are not any more when one of them is removed.
    transcript::format::file::read(bytes, |record| {
        let raw = record.entry.as_ref().map(|entry| entry.raw()).unwrap_or_default();
        let Ok(record) = serde_json::from_slice::<Value>(raw) else { return };
        let Some(uuid) = record["uuid"].as_str() else {
            add(format!("a line of type {}", record["type"]));
            return;
        };
        add(format!("record {uuid}"));
        if !record["toolUseResult"].is_null() {
            add(format!("copy in {uuid}"));
        }
        match &record["message"]["content"] {
            Value::Array(blocks) => {
                for block in blocks {
                    // The contents of a result and its existence count separately.
                    let ids = ["tool_use_id", "id"].iter().filter_map(|name| block[name].as_str());
                    ids.for_each(|id| add(format!("block {id} in {uuid}")));
                    add(format!("block {block} in {uuid}"));
                }
            }
            Value::Null => {}
            content => add(format!("content {content} in {uuid}")),
        }
    });
    found
}

/// Whether a piece is a record with several children. Such a record stays, without its contents, so
/// that its children do not become roots.
fn is_fork(piece: &str, out: &[u8]) -> bool {
    let Some(uuid) = piece.strip_prefix("record ") else { return false };
    let parent = format!(r#""parentUuid":"{uuid}""#);
    String::from_utf8_lossy(out).matches(&parent).count() > 1
}

/// What is wrong with the ladder of a session.
fn faults(bytes: &[u8]) -> Vec<String> {
    let before = subject(bytes, Rules::newest());
    let mut faults = Vec::new();
    let all = pieces(bytes);
    let mut last: (usize, Option<BTreeMap<String, usize>>) = (bytes.len(), None);
    for preset in LADDER {
        let change = change::strip(&before, &Strip::preset(preset)).unwrap();
        let out = made(&before, &change, None).0;
        let (size, mut left) = (out.len(), pieces(&out));
        // Notes about what was removed are not pieces of the session.
        left.retain(|piece, _| all.contains_key(piece));
        if size > last.0 {
            faults.push(format!("{preset:?} leaves {size} bytes, the one before it {}", last.0));
        }
        let is_back = |piece: &str, count: usize| {
            let before = last.1.as_ref();
            before.is_some_and(|last| last.get(piece).copied().unwrap_or(0) < count)
                && !is_fork(piece, &out)
        };
        if let Some((piece, _)) = left.iter().find(|(piece, count)| is_back(piece, **count)) {
            let piece: String = piece.chars().take(200).collect();
            faults.push(format!("{preset:?} leaves what the one before it takes out: {piece}"));
        }
        last = (size, Some(left));
    }
    faults
}

#[test]
fn of_every_real_session() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for file in testkit::real_files() {
        if file.bytes.len() > 20_000_000 {
            println!("left out: {} is too long", file.path.display());
            continue;
        }
        count += 1;
        let found = faults(&file.bytes);
        wrong.extend(found.into_iter().map(|fault| format!("{}: {fault}", file.path.display())));
    }
    println!("{count} sessions");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn of_sessions_made_by_chance() {
    for seed in 0..CASES {
        let text = chance(seed);
        let found = faults(text.as_bytes());
        assert!(found.is_empty(), "seed {seed}: {found:?}\n{text}");
    }
}

/// One prompt and many calls, as agents work: results, thinking, copies and lines that are not
/// conversation.
fn long_turn(calls: usize, size: usize) -> String {
    let thinking = r#"{"type":"thinking","thinking":"hm","signature":"c2ln"}"#;
    let mut script = Script::new().prompt("p", "-", "do it all");
    let mut above = "p".to_owned();
    for at in 0..calls {
        let [thought, call, result, answer] =
            ["h", "c", "r", "m"].map(|name| format!("{name}{at}"));
        let id = format!("toolu_{at}");
        let members = format!(
            r#""toolUseResult":{{"stdout":"x"}},"message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{id}","content":"{}"}}]}}"#,
            "x".repeat(size)
        );
        script = script
            .block(&thought, &above, &answer, thinking)
            .call(&call, &thought, &answer, &id, "Read")
            .record("user", &result, &call, &members)
            .raw(r#"{"type":"progress"}"#);
        above = result;
    }
    script.says("end", &above, "m-end", "done").text().to_owned()
}

fn spared(text: &str, preset: Preset) -> Spared {
    let before: Subject = subject(text.as_bytes(), Rules::newest());
    change::spared(&before, &Strip::preset(preset)).unwrap()
}

/// In a single turn with many calls, only the last answers stay. One with few calls stays as a
/// whole, which `spared` reports.
#[test]
fn of_a_session_of_one_turn() {
    for calls in [1, 2, 7, 8, 9, 19, 20, 21, 49] {
        let found = faults(long_turn(calls, 5_000).as_bytes());
        assert!(found.is_empty(), "{calls} calls: {found:?}");
    }
    // The last of the 50 answers is the one that says "done".
    let text = long_turn(49, 5_000);
    let heavy = spared(&text, Preset::Heavy);
    assert_eq!((heavy.taken, heavy.kept), (42, 7));
    let medium = spared(&text, Preset::Medium);
    assert_eq!((medium.taken, medium.kept), (30, 19));
    let few = spared(&long_turn(6, 5_000), Preset::Heavy);
    assert_eq!((few.taken, few.kept), (0, 6));
    assert!((7_000..8_000).contains(&few.tokens), "{few:?}");
    assert_eq!(spared(&long_turn(6, 2_000), Preset::Medium).kept, 0, "short ones stay anyway");
}
