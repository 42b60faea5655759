//! The receipts of all compactions of the real sessions: every block that was sent before is sent
//! after, or quoted whole, or in the receipt; in exactly one of these.

use std::collections::HashSet;

use serde_json::Value;
use transcript::client::change::{self, Compress, KeepTurns, ListCalls};
use transcript::client::compaction::{Compaction, CompactionError};
use transcript::client::history::Rules;

use super::change::{made, subject};
use super::compress::SESSIONS;

/// The blocks that a version would send, for these bytes; none if it refuses them.
fn blocks(bytes: &[u8], rules: Rules) -> Option<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("11111111-1111-4111-8111-111111111111.jsonl");
    std::fs::write(&path, bytes).unwrap();
    let conversation = transcript::Conversation::open(&path).unwrap();
    let found = transcript::client::history::history(&conversation, rules, None).unwrap().ok()?;
    let blocks = found.messages.iter().flat_map(|message| &message.blocks);
    Some(blocks.map(|block| String::from_utf8(block.raw().to_vec()).unwrap()).collect())
}

/// Every text in a value.
fn texts(value: &Value, all: &mut String) {
    match value {
        Value::String(text) => {
            all.push_str(text);
            all.push('\n');
        }
        Value::Array(list) => list.iter().for_each(|one| texts(one, all)),
        Value::Object(members) => members.values().for_each(|one| texts(one, all)),
        _ => {}
    }
}

/// The text of a block that is nothing but text.
fn whole(block: &Value) -> Option<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match block["type"].as_str()? {
        "text" => text(&block["text"]),
        "thinking" => text(&block["thinking"]),
        "tool_result" => match &block["content"] {
            Value::Null => Some(String::new()),
            Value::Array(list) => {
                let parts: Option<Vec<String>> =
                    list.iter().map(|one| text(&one["text"])).collect();
                Some(parts?.join("\n"))
            }
            one => text(one),
        },
        _ => None,
    }
}

/// Whether a text stands in another one between characters that are not part of words.
fn stands_in(text: &str, all: &str) -> bool {
    let is_word = |one: Option<char>| one.is_some_and(|one| one.is_alphanumeric() || one == '_');
    all.match_indices(text).any(|(at, _)| {
        !is_word(all[..at].chars().next_back()) && !is_word(all[at + text.len()..].chars().next())
    })
}

/// Checks all receipts of a session. Returns how many there are.
fn check(name: &str, bytes: &[u8], version: &str) -> usize {
    let rules = Rules::of(version).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("11111111-1111-4111-8111-111111111111.jsonl");
    std::fs::write(&path, bytes).unwrap();
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let up_to = |line: u64| lines[..usize::try_from(line).unwrap() - 1].concat();
    let mut count = 0;
    for number in 1.. {
        let one = match Compaction::find(&path, rules, Some(number)) {
            Ok(one) => one,
            Err(CompactionError::Never | CompactionError::NoSuch { .. }) => return count,
            Err(CompactionError::Refused(..)) => continue,
            Err(CompactionError::Read(error)) => panic!("{name}: {error}"),
        };
        let before = blocks(&up_to(one.line), rules).unwrap();
        let next = Compaction::find(&path, rules, Some(number + 1)).ok();
        let end = next.map_or_else(|| bytes.to_vec(), |next| up_to(next.line));
        let after = blocks(&end, rules).unwrap();
        let (mut sent, mut known) = (String::new(), HashSet::new());
        for block in &after {
            texts(&serde_json::from_str(block).unwrap(), &mut sent);
            known.insert(block.as_str());
        }
        assert_eq!(one.blocks, [before.len(), after.len()], "{name}");
        let lost: HashSet<usize> = one.receipt.lost.iter().map(|block| block.place).collect();
        assert_eq!(lost.len(), one.receipt.lost.len(), "{name}: a block is listed twice");
        for (place, block) in before.iter().enumerate() {
            let text = whole(&serde_json::from_str(block).unwrap());
            let text = text.as_deref().map(str::trim);
            let is_sent = known.contains(block.as_str());
            if lost.contains(&place) {
                let is_quoted = text.is_some_and(|text| text.len() >= 16 && stands_in(text, &sent));
                assert!(!is_sent && !is_quoted, "{name}: in both: {block}");
            } else {
                let is_quoted = text.is_some_and(|text| sent.contains(text));
                assert!(is_sent || is_quoted, "{name}: in neither: {block}");
            }
        }
        for missed in [&one.receipt.missed.commands, &one.receipt.missed.todos] {
            for one in missed.iter().filter(|one| !one.text.ends_with('…')) {
                assert!(!stands_in(&one.text, &sent), "{name}: {}", one.text);
            }
        }
        count += 1;
    }
    count
}

#[test]
fn every_block_is_sent_or_in_the_receipt() {
    for version in ["2.1.325", "2.1.45"] {
        let mut count = 0;
        for file in &*SESSIONS {
            count += check(&file.path.display().to_string(), &file.bytes, version);
        }
        assert!(count >= 9, "only {count} compactions by {version}");
    }
}

#[test]
fn so_it_is_for_what_compress_makes() {
    let mut count = 0;
    for file in SESSIONS.iter().filter(|file| file.bytes.len() > 50_000).take(30) {
        let before = subject(&file.bytes, Rules::newest());
        let Ok(context) = before.context().unwrap() else { continue };
        let to = Some(context.of_all_messages() / 5);
        let what = Compress { to, keep: KeepTurns::Last(1), calls: ListCalls::List };
        let Ok(change) = change::compress(&before, &what) else { continue };
        let (result, _) = made(&before, &change, None);
        count += check(&file.path.display().to_string(), &result, "2.1.325");
    }
    assert!(count >= 10, "only {count} compactions");
}
