//! Facts that are planted in genuine turns, and looked for in the summary; budgets of sessions that
//! are joined from genuine turns.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::LazyLock;

use serde_json::{Value, json};
use testkit::{RealFile, Rng};
use transcript::client::change::{self, Compress, KeepTurns, ListCalls};
use transcript::client::history::Rules;
use transcript::format::input::Input;

use super::super::change::subject;
use super::{SESSIONS, compressed, summary};

/// Turns, each with its records.
type Turns = Vec<Vec<Value>>;

/// The turns of a session as it would be resumed.
fn turns(bytes: &[u8]) -> Turns {
    let subject = subject(bytes, Rules::newest());
    let conversation = subject.conversation();
    let live = conversation.live();
    let path: Vec<_> = conversation.rows(&live).collect();
    let starts: HashSet<_> = conversation.turns_in(&live).iter().map(|turn| turn.rows[0]).collect();
    let mut turns: Turns = Vec::new();
    for row in path {
        let known = conversation.table.row(row);
        if starts.contains(&row) {
            turns.push(Vec::new());
        }
        let is_summary =
            known.input == Some(Input::Summary) || conversation.table.boundary(row).is_some();
        if let Some(turn) = turns.last_mut().filter(|_| !is_summary && known.uuid.is_some()) {
            let raw = conversation.look(row, |entry| entry.raw().to_vec()).unwrap();
            turn.extend(serde_json::from_slice::<Value>(&raw));
        }
    }
    turns.retain(|turn| turn.iter().any(|record| record["type"] == "assistant"));
    turns
}

/// One session from these turns: one record after the other, with new ids and times.
fn joined(turns: &[Vec<Value>]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut parent = Value::Null;
    for (at, record) in turns.iter().flatten().enumerate() {
        let mut record = record.clone();
        let uuid = format!("{at:08x}-0000-4000-8000-000000000000");
        record["parentUuid"] = parent;
        record["uuid"] = json!(uuid);
        record["sessionId"] = json!("11111111-1111-4111-8111-111111111111");
        record["isSidechain"] = json!(false);
        record["cwd"] = json!("/home/dev/demo");
        let (seconds, millis) = (at / 4, at % 4 * 250);
        let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
        let day = 1 + hours / 24;
        record["timestamp"] = json!(format!(
            "2026-03-{day:02}T{:02}:{minutes:02}:{:02}.{millis:03}Z",
            hours % 24,
            seconds % 60
        ));
        parent = json!(uuid);
        out.extend(serde_json::to_vec(&record).unwrap());
        out.push(b'\n');
    }
    out
}

/// Ten sessions of 50 to 800 turns, from all turns of the corpus, each answer once in a session.
static LONG_SESSIONS: LazyLock<Vec<(String, Turns)>> = LazyLock::new(|| {
    let mut all: Turns = Vec::new();
    let mut seen = HashSet::new();
    for file in &*SESSIONS {
        for turn in turns(&file.bytes) {
            let answer = |record: &Value| record["message"]["id"].as_str().map(str::to_owned);
            // Turns in which something happens, and not everything.
            let is_usual = (6..400).contains(&turn.len());
            if is_usual && turn.iter().filter_map(answer).all(|id| seen.insert(id)) {
                all.push(turn);
            }
        }
    }
    let mut rng = Rng::new(20);
    for at in (1..all.len()).rev() {
        all.swap(at, rng.below(at + 1));
    }
    [50, 80, 120, 160, 200, 300, 400, 500, 650, 800]
        .into_iter()
        .map(|count| {
            // The corpus has fewer turns than that: they come again, with other ids.
            let from = rng.below(all.len());
            let turns = all.iter().cycle().skip(from).take(count).enumerate();
            let turns = turns.map(|(at, turn)| again(turn, at / all.len()));
            (format!("{count} joined turns"), turns.collect())
        })
        .collect()
});

/// The same turn with other ids of answers and calls.
fn again(turn: &[Value], round: usize) -> Vec<Value> {
    let text = serde_json::to_string(turn).unwrap();
    let text = text.replace("\"msg_", &format!("\"msg_{round}"));
    let text = text.replace("\"toolu_", &format!("\"toolu_{round}"));
    serde_json::from_str(&text).unwrap()
}

/// The sessions of the corpus that send most.
static LONGEST: LazyLock<Vec<(String, Vec<u8>)>> = LazyLock::new(|| {
    let is_corpus = |file: &&RealFile| file.path.to_string_lossy().contains("/corpus/");
    let mut all: Vec<(u64, RealFile)> = Vec::new();
    for file in SESSIONS.iter().filter(is_corpus) {
        let subject = subject(&file.bytes, Rules::newest());
        if let Ok(context) = subject.context().unwrap() {
            all.push((context.of_all_messages(), file.clone()));
        }
    }
    all.sort_by_key(|(tokens, file)| (std::cmp::Reverse(*tokens), file.path.clone()));
    all.into_iter().take(20).map(|(_, file)| (name(&file.path), file.bytes)).collect()
});

fn name(path: &Path) -> String {
    let id = path.file_stem().unwrap_or_default().to_string_lossy();
    id.chars().take(8).collect()
}

#[test]
fn long_sessions_keep_to_the_budget() {
    let mut all = LONGEST.clone();
    all.extend(LONG_SESSIONS.iter().map(|(name, turns)| (name.clone(), joined(turns))));
    let mut text = String::new();
    for (name, bytes) in all {
        let before = subject(&bytes, Rules::newest());
        let Ok(context) = before.context().unwrap() else { continue };
        let tokens = context.of_all_messages();
        for (to, keep_turns) in [(40_000.min(tokens / 3), 10), (tokens / 10, 2)] {
            let keep = KeepTurns::Last(keep_turns);
            let what = Compress { to: Some(to), keep, calls: ListCalls::Leave };
            if let Some((_, [before, after])) = compressed(&name, &bytes, &what) {
                writeln!(text, "{name}: {before} to {after}, at most {to}").unwrap();
            }
        }
    }
    println!("{text}");
    assert!(text.lines().count() >= 2 * 20, "{text}");
}

/// A fact: what is added to the session, and what has to be in the summary.
struct Fact {
    kind: &'static str,
    records: Vec<Value>,
    wanted: Vec<String>,
}

/// Records of an answer and of results; ids are made from a number.
struct Making {
    number: usize,
}

impl Making {
    fn answer(&mut self, blocks: &Value) -> Value {
        self.number += 1;
        json!({"type": "assistant", "message": {
            "id": format!("msg_planted_{}", self.number), "role": "assistant", "type": "message",
            "model": "claude-opus-4-5-20251101", "content": blocks, "stop_reason": null,
            "usage": {"input_tokens": 0, "output_tokens": 0}}})
    }

    fn call(&mut self, tool: &str, input: &Value, output: &str, is_error: bool) -> [Value; 2] {
        self.number += 1;
        let id = format!("toolu_planted_{}", self.number);
        let call = json!([{"type": "tool_use", "id": id, "name": tool, "input": input}]);
        let result = json!({"type": "user", "message": {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": id, "content": output, "is_error": is_error}]}});
        [self.answer(&call), result]
    }

    fn text(&mut self, text: &str) -> Value {
        self.answer(&json!([{"type": "text", "text": text}]))
    }
}

const WORDS: [&str; 8] =
    ["quokka", "tapir", "lemur", "narwhal", "okapi", "pangolin", "axolotl", "caracal"];

/// Twenty facts: four of each kind.
fn facts(rng: &mut Rng) -> Vec<Fact> {
    let mut make = Making { number: rng.below(1_000) * 1_000 };
    let mut facts = Vec::new();
    for number in 0..4 {
        let word = format!("{}{}", rng.pick(&WORDS), rng.below(90) + 10);
        let path = format!("/home/dev/demo/src/{word}/handler.rs");
        let input = json!({"file_path": path, "old_string": "a", "new_string": "b"});
        let records = make.call("Edit", &input, "The file has been updated.", false).to_vec();
        facts.push(Fact { kind: "path", records, wanted: vec![format!("src/{word}/handler.rs")] });

        let word = format!("{}{}", rng.pick(&WORDS), rng.below(90) + 10);
        let count = rng.below(900) + 100;
        let (command, output, is_error, wanted) = match number % 2 {
            0 => (
                format!("make check-{word}"),
                format!("linking\nrunning\n{count} checks passed\n"),
                false,
                format!("{count} checks passed"),
            ),
            _ => (
                format!("npm run build-{word}"),
                format!("Exit code 2\nbundling\nTypeError: {word} is undefined ({count})\n"),
                true,
                format!("{word} is undefined ({count})"),
            ),
        };
        let records = make.call("Bash", &json!({"command": command}), &output, is_error).to_vec();
        facts.push(Fact { kind: "outcome", records, wanted: vec![command, wanted] });

        let word = format!("{}{}", rng.pick(&WORDS), rng.below(90) + 10);
        let text = match number {
            0 => format!(
                "I compared both. We decided to keep {word} in SQLite instead of Redis. Next comes the code."
            ),
            1 => format!(
                "That is done. Let's go with {word} for the queue, it needs no server. I start now."
            ),
            2 => format!(
                "Both would work. I'll use {word} rather than the old parser because it streams. Reading on."
            ),
            _ => format!(
                "Found it. The root cause was {word} holding the lock twice. Now the tests."
            ),
        };
        facts.push(Fact { kind: "decision", records: vec![make.text(&text)], wanted: vec![word] });

        let word = format!("{}{}", rng.pick(&WORDS), rng.below(90) + 10);
        let command = json!({"command": format!("cargo test -p {word}")});
        let failed = format!(
            "Exit code 101\n   Compiling {word}\nerror[E0432]: unresolved import `{word}::old`\n"
        );
        let mut records = make.call("Bash", &command, &failed, true).to_vec();
        records.push(
            make.text(&format!("The module moved, so the path must be `{word}::fresh` instead.")),
        );
        let input =
            json!({"file_path": "/home/dev/demo/src/lib.rs", "old_string": "a", "new_string": "b"});
        records.extend(make.call("Edit", &input, "The file has been updated.", false));
        records.extend(make.call("Bash", &command, "test result: ok. 3 passed; 0 failed", false));
        let wanted = vec![format!("unresolved import `{word}::old`"), format!("{word}::fresh")];
        facts.push(Fact { kind: "error", records, wanted });
    }
    // A list replaces the one before it, so all that is open is in the last one.
    let words: Vec<String> =
        (0..4).map(|_| format!("{}{}", rng.pick(&WORDS), rng.below(90) + 10)).collect();
    let todos: Vec<Value> = words
        .iter()
        .enumerate()
        .map(|(at, word)| {
            let status = if at == 0 { "in_progress" } else { "pending" };
            json!({"content": format!("Write the {word} migration"), "status": status, "activeForm": "Writing"})
        })
        .chain([json!({"content": "Read the code", "status": "completed", "activeForm": "Reading"})])
        .collect();
    let records =
        make.call("TodoWrite", &json!({"todos": todos}), "Todos have been modified.", false);
    let mut records = Some(records.to_vec());
    for word in words {
        let wanted = vec![format!("Write the {word} migration")];
        facts.push(Fact { kind: "todo", records: records.take().unwrap_or_default(), wanted });
    }
    facts
}

/// The facts at random places between the turns; what is to be done, at the end.
fn planted(mut turns: Turns, facts: &[Fact], rng: &mut Rng) -> Vec<u8> {
    let count = turns.len();
    for fact in facts {
        let at = if fact.kind == "todo" { count - 1 } else { rng.below(count) };
        turns[at].extend(fact.records.iter().cloned());
    }
    joined(&turns)
}

#[test]
fn planted_facts_are_in_the_summary() {
    let mut all = LONG_SESSIONS.clone();
    all.extend(LONGEST.iter().map(|(name, bytes)| (name.clone(), turns(bytes))));
    let mut rng = Rng::new(7);
    let mut text = String::new();
    let mut least = 20;
    let mut sessions = 0;
    for (name, turns) in all.into_iter().filter(|(_, turns)| !turns.is_empty()) {
        let facts = facts(&mut rng);
        let bytes = planted(turns, &facts, &mut rng);
        let before = subject(&bytes, Rules::newest());
        let Ok(context) = before.context().unwrap() else { continue };
        let tokens = context.of_all_messages();
        let what =
            Compress { to: Some(tokens / 10), keep: KeepTurns::Last(0), calls: ListCalls::Leave };
        let Some((result, [_, after])) = compressed(&name, &bytes, &what) else { continue };
        let summary = summary(&result);
        let is_in = |fact: &&Fact| fact.wanted.iter().all(|text| summary.contains(text.as_str()));
        let missed: Vec<&str> =
            facts.iter().filter(|fact| !is_in(fact)).map(|fact| fact.kind).collect();
        let found = facts.len() - missed.len();
        least = least.min(found);
        sessions += 1;
        writeln!(text, "{name}: {found} of 20 in {after} of {tokens} tokens; missed {missed:?}")
            .unwrap();
    }
    println!("{text}");
    assert!(sessions >= 25, "{text}");
    assert!(least >= 18, "{text}");
    // The same file gives the same summary.
    let bytes = joined(&LONG_SESSIONS[0].1);
    let before = subject(&bytes, Rules::newest());
    let what = Compress { to: Some(5_000), keep: KeepTurns::Last(3), calls: ListCalls::List };
    let texts = [0, 1].map(|_| {
        let change = change::compress(&before, &what).unwrap();
        super::made(&before, &change, None).0
    });
    assert_eq!(texts[0], texts[1]);
}
