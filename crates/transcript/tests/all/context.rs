//! What fills the context: sums, savings, and predictions, on real files.

use std::collections::BTreeMap;
use std::io::Write as _;

use transcript::client::change::{self, Keep, Strip, Subject, saving};
use transcript::client::context::{Basis, GroupBy, PartKind, predictions};
use transcript::client::history::Rules;

fn subjects() -> Vec<(String, Subject)> {
    let files = testkit::real_files();
    let open = |file: testkit::RealFile| {
        let subject = Subject::open_as(&file.path, Rules::newest()).unwrap();
        (file.path.display().to_string(), subject)
    };
    files.into_iter().map(open).collect()
}

#[test]
fn groups_add_up() {
    let mut bases: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, subject) in subjects() {
        let Ok(context) = subject.context().unwrap() else { continue };
        *bases.entry(context.basis.name()).or_default() += 1;
        let table = &subject.conversation().table;
        let sum = |by| context.groups(table, by).iter().map(|group| group.tokens).sum::<u64>();
        let of = |wanted: &dyn Fn(PartKind) -> bool| {
            let parts = context.parts.iter().filter(|part| wanted(part.kind));
            parts.map(|part| part.tokens).sum::<u64>()
        };
        assert_eq!(sum(GroupBy::Kind), context.tokens, "{name}");
        assert_eq!(sum(GroupBy::Turn), context.of_all_messages(), "{name}");
        assert_eq!(sum(GroupBy::Turn), of(&|kind| kind != PartKind::System), "{name}");
        let pairs = of(&|kind| matches!(kind, PartKind::Call | PartKind::Result));
        let images: u64 = context
            .parts
            .iter()
            .filter(|part| part.kind == PartKind::Image && part.tool.is_some())
            .map(|part| part.tokens)
            .sum();
        assert_eq!(sum(GroupBy::Tool), pairs + images, "{name}");
        // What was recorded is not estimated.
        if context.basis == Basis::Recorded {
            assert!(context.tokens >= context.recorded * 9 / 10, "{name}");
        }
    }
    assert!(bases["recorded"] > 20 && bases["nothing"] > 0, "{bases:?}");
}

/// Carries out a strip, and returns how many tokens less are sent.
fn carried_out(subject: &Subject, what: &Strip) -> u64 {
    let change = change::strip(subject, what).unwrap();
    let mut file = tempfile::Builder::new().suffix(".jsonl").tempfile().unwrap();
    let mut bytes = Vec::new();
    let written = change::write(subject, &change, None, &mut bytes).unwrap();
    file.write_all(&bytes).unwrap();
    let after = Subject::open_as(file.path(), Rules::newest()).unwrap();
    let proof = change::prove(subject, &change, written, &after).unwrap();
    proof.before.tokens.saturating_sub(proof.after.tokens)
}

#[test]
fn a_strip_saves_what_is_announced() {
    let (mut checked, mut exact) = (0, 0);
    for (name, subject) in subjects() {
        let Ok(context) = subject.context().unwrap() else { continue };
        let tool = context.groups(&subject.conversation().table, GroupBy::Tool).into_iter().next();
        let file = context.groups(&subject.conversation().table, GroupBy::File).into_iter().next();
        let none = Strip::default();
        let mut all = vec![
            Strip { results: true, ..none.clone() },
            Strip { thinking: true, ..none.clone() },
            Strip { calls: true, keep: Keep::Turns(1), ..none.clone() },
        ];
        all.extend(tool.map(|tool| Strip { results: true, tools: vec![tool.key], ..none.clone() }));
        all.extend(file.map(|file| Strip { calls: true, files: vec![file.key], ..none.clone() }));
        for what in all {
            let announced = saving(&subject, context, &what).unwrap();
            let change = change::strip(&subject, &what).unwrap();
            if announced < 200 || change.leaves_nothing(subject.conversation()) {
                continue;
            }
            let saved = carried_out(&subject, &what);
            let off = announced.abs_diff(saved);
            checked += 1;
            exact += usize::from(off * 50 <= announced);
            assert!(off * 10 <= announced + 500, "{name}: {announced} and {saved}: {what:?}");
        }
    }
    assert!(checked > 50 && exact * 10 >= checked * 9, "{exact} of {checked}");
}

#[path = "../../examples/price_table.rs"]
mod price_table;

/// The table in docs/context.md, and what is promised of it. Only the corpus has calls of the real
/// API.
#[test]
fn calls_are_predicted() {
    let Some(corpus) = testkit::shared("corpus") else { return };
    let mut table = Vec::new();
    price_table::run(&[&corpus], &mut table).unwrap();
    let table = String::from_utf8(table).unwrap();
    testkit::compare("context.md", "predictions", &table, "-p transcript --test all context");
    let row = table.lines().find(|line| line.contains("within or clearly after")).unwrap();
    let percent = |cell: usize| -> f64 {
        let text = row.split('|').nth(cell).unwrap();
        text.trim().trim_end_matches(" %").parse().unwrap()
    };
    assert!(percent(3) >= 95.0 && percent(4) <= 10.0, "{row}");
}

/// A session of three calls. Each text is about 500 tokens.
fn script() -> Vec<String> {
    let mut lines = Vec::new();
    for turn in 1..=3 {
        lines.push(user(turn, &words(500)));
        lines.push(answer(turn, "claude-opus-4-5-20251101", 9_000 + turn * 1_000, &words(450)));
    }
    lines
}

fn words(count: usize) -> String {
    vec!["word"; count].join(" ")
}

fn record(kind: &str, uuid: &str, parent: &str, minute: u64, rest: &str) -> String {
    let parent = if parent.is_empty() { "null".to_owned() } else { format!("{parent:?}") };
    format!(
        r#"{{"parentUuid":{parent},"isSidechain":false,"type":"{kind}","uuid":"{uuid}","sessionId":"s","version":"2.1.45","timestamp":"2026-01-01T00:{minute:02}:00.000Z",{rest}}}"#
    )
}

fn user(turn: u64, text: &str) -> String {
    let parent = if turn == 1 { String::new() } else { format!("a{}", turn - 1) };
    let rest = format!(r#""message":{{"role":"user","content":"{text}"}}"#);
    record("user", &format!("u{turn}"), &parent, turn, &rest)
}

fn answer(turn: u64, model: &str, read: u64, text: &str) -> String {
    let usage = format!(
        r#"{{"input_tokens":10,"cache_creation_input_tokens":{},"cache_read_input_tokens":1000,"cache_creation":{{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":{}}},"output_tokens":460}}"#,
        read - 1_010,
        read - 1_010
    );
    let rest = format!(
        r#""message":{{"id":"m{turn}","role":"assistant","model":"{model}","stop_reason":"end_turn","content":[{{"type":"text","text":"{text}"}}],"usage":{usage}}}"#
    );
    record("assistant", &format!("a{turn}"), &format!("u{turn}"), turn, &rest)
}

/// The next request of a session at a minute, for a client version: what is cached and new, from
/// which message on, and why.
fn next(lines: &[String], minute: i64, version: Option<&str>) -> String {
    let mut file = tempfile::Builder::new().suffix(".jsonl").tempfile().unwrap();
    writeln!(file, "{}", lines.join("\n")).unwrap();
    let subject = Subject::open_as(file.path(), Rules::newest()).unwrap();
    let context = subject.context().unwrap().unwrap();
    let next = context.next(subject.conversation(), version).unwrap();
    let start = transcript::format::time::Time(1_767_225_600_000 + minute * 60_000);
    let usage = next.usage(start);
    format!(
        "{} cached, {} new from message {} on (line {:?}): {}, {}",
        usage.cache_read,
        usage.cache_write(),
        next.difference.message,
        next.difference.line,
        next.reason(start).name(),
        next.lifetime.name(),
    )
}

#[test]
fn what_was_last_sent_is_cached_until_it_expires() {
    let lines = script();
    // The last call read 12,000 tokens and wrote 460.
    insta::assert_snapshot!(next(&lines, 30, None));
    insta::assert_snapshot!(next(&lines, 62, Some("2.1.45")));
    insta::assert_snapshot!(next(&lines, 64, None));
    insta::assert_snapshot!(next(&lines[..1], 1, None));
}

#[test]
fn what_differs_is_named() {
    let mut cases = Vec::new();
    cases.push(("another version", next(&script(), 30, Some("2.1.325"))));
    let mut lines = script();
    lines[5] = answer(3, "claude-3-opus-20240229", 12_000, &words(450));
    cases.push(("a model that is no longer offered", next(&lines, 30, None)));
    // A second prompt after the first answer: the second and third turn are left.
    let mut lines = script();
    let prompt = user(2, "something else").replace("\"u2\"", "\"u4\"").replace("00:02", "00:09");
    lines.push(prompt);
    cases.push(("rewound", next(&lines, 30, None)));
    let mut lines = script();
    lines[2] = user(2, "short");
    lines[1] = answer(1, "claude-opus-4-5-20251101", 10_000, "shorter");
    for (at, read) in [(3, 20_000), (5, 21_000)] {
        lines[at] = answer(at as u64 / 2 + 1, "claude-opus-4-5-20251101", read, &words(450));
    }
    cases.push(("changed", next(&lines, 30, None)));
    let mut lines = script();
    lines.push(record(
        "system",
        "b",
        "",
        4,
        r#""subtype":"compact_boundary","content":"Conversation compacted","logicalParentUuid":"a3","compactMetadata":{"trigger":"manual","preTokens":12460}"#,
    ));
    let summary = format!(
        r#""isCompactSummary":true,"message":{{"role":"user","content":"{}"}}"#,
        words(300)
    );
    lines.push(record("user", "u4", "b", 4, &summary));
    cases.push(("compacted", next(&lines, 30, None)));
    let text: Vec<String> = cases.iter().map(|(name, text)| format!("{name}: {text}")).collect();
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn predictions_use_only_what_is_before_them() {
    // Cut after each call, the session gives the same predictions.
    let lines = script();
    let of = |lines: &[String]| {
        let mut file = tempfile::Builder::new().suffix(".jsonl").tempfile().unwrap();
        writeln!(file, "{}", lines.join("\n")).unwrap();
        let conversation = transcript::Conversation::open(file.path()).unwrap();
        let found = predictions(&conversation, Rules::newest()).unwrap();
        found.iter().map(|one| (one.new, one.tokens, one.is_cached)).collect::<Vec<_>>()
    };
    let all = of(&lines);
    assert_eq!(all.len(), 2);
    assert_eq!(of(&lines[..4]), all[..1]);
}

/// The text of a session in which the API reported other numbers for one message.
fn with_other_usage(text: &str, line: u64) -> Option<String> {
    let at = usize::try_from(line).ok()?.checked_sub(1)?;
    let read = |line: &str| serde_json::from_str::<serde_json::Value>(line).ok();
    let id = read(text.lines().nth(at)?)?.pointer("/message/id")?.clone();
    let lines = text.lines().map(|line| match read(line) {
        Some(mut record) if record.pointer("/message/id") == Some(&id) => {
            let usage = record.pointer_mut("/message/usage")?.as_object_mut()?;
            for (number, name) in (1_u64..).zip([
                "input_tokens",
                "cache_creation_input_tokens",
                "cache_read_input_tokens",
            ]) {
                usage.insert(name.into(), (number * 100_003).into());
            }
            usage.remove("cache_creation");
            Some(format!("{record}\n"))
        }
        _ => Some(format!("{line}\n")),
    });
    lines.collect()
}

#[test]
fn a_prediction_knows_nothing_of_its_call() {
    let mut compared = 0;
    for file in testkit::real_files() {
        let open = |path: &std::path::Path| {
            predictions(&transcript::Conversation::open(path).unwrap(), Rules::newest()).unwrap()
        };
        let before = open(&file.path);
        let Some(at) = before.len().checked_sub(2) else { continue };
        let text = String::from_utf8_lossy(&std::fs::read(&file.path).unwrap()).into_owned();
        let Some(text) = with_other_usage(&text, before[at].line) else { continue };
        let mut changed = tempfile::Builder::new().suffix(".jsonl").tempfile().unwrap();
        changed.write_all(text.as_bytes()).unwrap();
        let after = open(changed.path());
        let name = file.path.display();
        let Some(same) = after.get(at).filter(|one| one.line == before[at].line) else { continue };
        assert_ne!(same.recorded, before[at].recorded, "{name}");
        let predicted = |all: &[transcript::client::context::Prediction]| {
            let one = |one: &transcript::client::context::Prediction| {
                (one.gap, one.is_cached, one.new, one.tokens, one.before)
            };
            all[..=at].iter().map(one).collect::<Vec<_>>()
        };
        assert_eq!(predicted(&before), predicted(&after), "{name}");
        compared += 1;
    }
    assert!(compared > 20, "only {compared} sessions were compared");
}
