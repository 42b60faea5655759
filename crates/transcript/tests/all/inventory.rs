//! Counts agree with those of another JSON reader, written without our own types.

use serde_json::Value;
use testkit::real_files;
use transcript::file::Lines;
use transcript::inventory::{Counts, Inventory};

fn ours(bytes: &[u8]) -> Inventory {
    let mut inventory = Inventory::default();
    let mut lines = Lines::new(bytes);
    while let Some(line) = lines.next_line().unwrap() {
        inventory.add(&line);
    }
    inventory
}

fn add(counts: &mut Counts, name: &str) {
    *counts.entry(name.to_owned()).or_default() += 1;
}

/// Counts the records of a healthy file in the plainest way.
fn theirs(bytes: &[u8]) -> Inventory {
    let mut sum = Inventory { bytes: bytes.len() as u64, ..Inventory::default() };
    let text = String::from_utf8_lossy(bytes);
    for line in text.split_terminator('\n') {
        sum.lines += 1;
        let line = line.trim_start_matches('\u{feff}');
        let value: Value = serde_json::from_str(line).unwrap();
        if !value.is_object() {
            sum.bare += 1;
            continue;
        }
        sum.records += 1;
        let kind = value["type"].as_str();
        add(&mut sum.types, kind.unwrap_or("(none)"));
        match kind {
            Some("system") => {
                let subtype = value["subtype"].as_str().unwrap_or("(none)");
                add(&mut sum.subtypes, &format!("system/{subtype}"));
            }
            Some(kind @ ("attachment" | "progress")) => {
                let inside = if kind == "progress" { "data" } else { "attachment" };
                let subtype = value[inside]["type"].as_str().unwrap_or("(none)");
                add(&mut sum.subtypes, &format!("{kind}/{subtype}"));
            }
            _ => {}
        }
        if let Some(version) = value["version"].as_str() {
            add(&mut sum.versions, version);
        }
        let message = &value["message"];
        if kind == Some("assistant") {
            add(&mut sum.stop_reasons, message["stop_reason"].as_str().unwrap_or("null"));
            add(&mut sum.models, message["model"].as_str().unwrap());
        }
        if !matches!(kind, Some("user" | "assistant")) {
            continue;
        }
        let none = Vec::new();
        let blocks = message["content"].as_array().unwrap_or(&none);
        if message["content"].is_string() {
            add(&mut sum.blocks, "(string)");
        }
        for block in blocks {
            add(&mut sum.blocks, block["type"].as_str().unwrap_or("(none)"));
            if block["type"] == "tool_use" {
                add(&mut sum.tools, block["name"].as_str().unwrap());
            }
        }
        sum.human_turns += u64::from(kind == Some("user") && human(&value, blocks));
    }
    sum
}

fn human(value: &Value, blocks: &[Value]) -> bool {
    let flagged =
        ["isMeta", "isCompactSummary", "isSidechain"].iter().any(|name| value[name] == true);
    let speaker = value["origin"]["kind"].as_str().unwrap_or("human");
    let content = &value["message"]["content"];
    let text = content.as_str().or_else(|| {
        blocks.iter().find(|block| block["type"] == "text").and_then(|block| block["text"].as_str())
    });
    let made = [
        "<local-command-stdout>",
        "<local-command-stderr>",
        "<local-command-caveat>",
        "<bash-stdout>",
        "<bash-stderr>",
        "<task-notification>",
        "<system-reminder>",
        "[Request interrupted by user",
    ];
    let text = text.unwrap_or_default();
    let said = content.is_string() || !blocks.is_empty();
    said && !flagged
        && speaker == "human"
        && !blocks.iter().any(|block| block["type"] == "tool_result")
        && !made.iter().any(|tag| text.starts_with(tag))
}

#[test]
fn counts_agree_on_every_healthy_file() {
    let (mut compared, mut left_out) = (0, 0);
    for file in real_files() {
        let mine = ours(&file.bytes);
        if mine.damaged + mine.recovered > 0 {
            left_out += 1;
            continue;
        }
        compared += 1;
        assert_eq!(mine, theirs(&file.bytes), "{}", file.path.display());
    }
    println!("{compared} files agree; {left_out} left out because they are damaged");
    assert!(compared > 100);
}
