//! Compressing and uncompressing every real session: budgets, prompts, bytes, and what is sent.

mod facts;

use std::collections::HashSet;
use std::sync::LazyLock;

use serde_json::Value;
use testkit::RealFile;
use transcript::client::change::{
    self, Compress, CompressError, KeepTurns, ListCalls, Subject, Uncompress, UncompressError,
};
use transcript::client::check::Verdict;
use transcript::client::history::Rules;

use super::change::{made, subject};

/// The versions whose verdicts are compared, as for other changes.
const VERSIONS: [&str; 4] = ["2.1.325", "2.1.100", "2.1.45", "2.0.76"];

fn rules(version: &str) -> Rules {
    Rules::of(version).unwrap()
}

/// The sessions of the corpus and the recordings, longest first, each content once.
pub(super) static SESSIONS: LazyLock<Vec<RealFile>> = LazyLock::new(|| {
    let mut seen = HashSet::new();
    let mut files: Vec<RealFile> = testkit::real_files()
        .into_iter()
        .filter(|file| {
            let name = file.path.file_name().unwrap().to_string_lossy();
            !name.starts_with("agent-") && seen.insert(file.bytes.clone())
        })
        .collect();
    files.sort_by_key(|file| std::cmp::Reverse(file.bytes.len()));
    files
});

/// What a version would send, message for message, as JSON.
fn sent(bytes: &[u8], rules: Rules) -> Option<Vec<Value>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("11111111-1111-4111-8111-111111111111.jsonl");
    std::fs::write(&path, bytes).unwrap();
    let conversation = transcript::Conversation::open(&path).unwrap();
    let found = transcript::client::history::history(&conversation, rules, Some("next")).unwrap();
    let messages = found.ok()?.messages;
    let block = |raw: &[u8]| serde_json::from_slice::<Value>(raw).unwrap();
    let messages = messages.iter().map(|message| {
        let blocks: Vec<Value> = message.blocks.iter().map(|one| block(one.raw())).collect();
        serde_json::json!({"role": message.role.name(), "content": blocks})
    });
    Some(messages.collect())
}

/// The text of the summary that a file ends up with.
fn summary(bytes: &[u8]) -> String {
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let records = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let mut ours =
        records.filter(|one| one["quipuCompaction"].is_string() && one["type"] == "user");
    ours.next_back().unwrap()["message"]["content"].as_str().unwrap().to_owned()
}

/// Compresses, and checks everything that always holds. Returns the result, and the tokens before
/// and after.
fn compressed(name: &str, bytes: &[u8], what: &Compress) -> Option<(Vec<u8>, [u64; 2])> {
    let before = subject(bytes, Rules::newest());
    let change = match change::compress(&before, what) {
        Ok(change) => change,
        Err(CompressError::Fits { .. } | CompressError::Small { .. } | CompressError::Nothing) => {
            return None;
        }
        Err(error) => panic!("{name}: {error}"),
    };
    let (result, written) = made(&before, &change, None);
    let after = subject(&result, Rules::newest());
    let proof = change::prove(&before, &change, written, &after).unwrap();
    let tokens = [proof.before.tokens, proof.after.tokens];
    if let KeepTurns::Last(_) = what.keep {
        let budget = what.to.unwrap();
        assert!(tokens[1] <= budget, "{name}: {} of {budget} tokens", tokens[1]);
    }
    assert_eq!(written.dropped, 0, "{name}");
    has_shared_members(name, bytes, &result);
    for version in VERSIONS {
        let verdict = |bytes: &[u8]| subject(bytes, rules(version)).verdict().unwrap();
        let (old, new) = (verdict(bytes), verdict(&result));
        let is_worse = new > old && (version != "2.0.76" || old == Verdict::Full);
        assert!(!is_worse, "{name} in {version}: {old:?} became {new:?}");
    }
    let undone = change::uncompress(&after, &Uncompress::default());
    let undone = undone.unwrap_or_else(|error| panic!("{name}: {error}"));
    let (back, _) = made(&after, &undone, None);
    let mut wanted = bytes.to_vec();
    if !wanted.ends_with(b"\n") {
        wanted.push(b'\n');
    }
    let is_same = back == bytes || back == wanted;
    assert!(is_same, "{name}: uncompress does not restore the bytes");
    Some((result, tokens))
}

/// The boundary and the summary have what all records of the session have.
fn has_shared_members(name: &str, before: &[u8], after: &[u8]) {
    let records = |bytes: &[u8]| -> Vec<Value> {
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
    };
    let is_ours = |one: &Value| {
        one["compactMetadata"]["quipu"].is_object()
            || one["quipuCompaction"].is_string() && one["type"] == "user"
    };
    let is_message = |one: &&Value| one["message"].is_object() && one["sessionId"].is_string();
    for member in ["cwd", "version"] {
        if !records(before).iter().filter(is_message).all(|one| one[member].is_string()) {
            continue;
        }
        for one in records(after).iter().filter(|one| is_ours(one)) {
            assert!(one[member].is_string(), "{name}: `{member}` is missing: {one}");
        }
    }
}

#[test]
fn every_session_is_compressed_and_restored() {
    let mut count = 0;
    for file in &*SESSIONS {
        let name = file.path.display().to_string();
        let before = subject(&file.bytes, Rules::newest());
        let Ok(context) = before.context().unwrap() else { continue };
        let tokens = context.of_all_messages();
        for (share, keep_turns) in [(2, 3), (5, 0)] {
            let keep = KeepTurns::Last(keep_turns);
            let what = Compress { to: Some(tokens / share), keep, calls: ListCalls::List };
            count += u32::from(compressed(&name, &file.bytes, &what).is_some());
        }
    }
    assert!(count > 100, "only {count} sessions are long enough");
}

/// From a prompt on everything is sent as it was, whatever its size.
#[test]
fn what_follows_a_prompt_stays() {
    let mut count = 0;
    for file in &*SESSIONS {
        let name = file.path.display().to_string();
        let before = subject(&file.bytes, Rules::newest());
        let conversation = before.conversation();
        let turns = conversation.turns_in(&conversation.live());
        let Some(turn) = turns.get(turns.len() / 2).filter(|_| turns.len() > 2) else { continue };
        let typed = |row: &&transcript::conversation::table::RowId| {
            let input = conversation.table.row(**row).input;
            input.is_some_and(transcript::format::input::Input::is_typed)
        };
        let Some(row) = turn.rows.iter().find(typed) else { continue };
        let uuid = conversation.table.text(conversation.table.row(*row).uuid);
        let (Some(uuid), Some(prompt)) = (uuid, prompt(conversation, turn)) else { continue };
        // As it stands in JSON.
        let text = serde_json::to_string(&prompt).unwrap().trim_matches('"').to_owned();
        let keep = KeepTurns::From(uuid.to_owned());
        let what = Compress { to: None, keep, calls: ListCalls::Leave };
        if let Err(CompressError::NothingBefore(_)) = change::compress(&before, &what) {
            continue;
        }
        let Some((result, _)) = compressed(&name, &file.bytes, &what) else { continue };
        for version in ["2.1.45", "2.1.325"] {
            let of = |bytes: &[u8]| sent(bytes, rules(version));
            let (Some(old), Some(new)) = (of(&file.bytes), of(&result)) else { continue };
            // The summary is in one message with the prompt; notes that the client made for what
            // came before may be behind that.
            let rest = new.iter().skip(1).skip_while(|message| message["role"] == "system");
            let rest: Vec<Value> = rest.cloned().collect();
            assert!(old.ends_with(&rest), "{name} in {version}, from {uuid}");
            assert!(new[0].to_string().contains(&text), "{name} in {version}, from {uuid}");
        }
        count += 1;
    }
    assert!(count > 20, "only {count} sessions have prompts before the middle");
}

/// Every prompt is in the summary word for word, or listed as one that is not.
#[test]
fn prompts_are_kept_or_named() {
    for file in SESSIONS.iter().filter(|file| file.bytes.len() > 50_000).take(40) {
        let name = file.path.display().to_string();
        let before = subject(&file.bytes, Rules::newest());
        let Ok(context) = before.context().unwrap() else { continue };
        let to = context.of_all_messages() / 5;
        let what = Compress { to: Some(to), keep: KeepTurns::Last(0), calls: ListCalls::Leave };
        let Ok(change) = change::compress(&before, &what) else { continue };
        let (result, _) = made(&before, &change, None);
        let text = summary(&result);
        let named: HashSet<usize> = change
            .deeds
            .iter()
            .filter_map(|deed| deed.text.split_once(" of the prompts of turns "))
            .flat_map(|(_, turns)| turns.split(", ").flat_map(numbers))
            .collect();
        let conversation = before.conversation();
        let turns = conversation.turns_in(&conversation.live());
        for (number, turn) in (1..).zip(&turns) {
            let is_typed = turn.input.is_some_and(transcript::format::input::Input::is_typed);
            if !is_typed || named.contains(&number) {
                continue;
            }
            let Some(prompt) = prompt(conversation, turn) else { continue };
            assert!(text.contains(&prompt), "{name}: turn {number}: {prompt}");
        }
    }
}

/// The numbers of `3` or `3..5`.
fn numbers(range: &str) -> std::ops::RangeInclusive<usize> {
    let (first, last) = range.split_once("..").unwrap_or((range, range));
    first.parse().unwrap()..=last.parse().unwrap()
}

/// Blanks at the ends of a prompt belong to it.
#[test]
fn prompts_keep_their_blanks() {
    let line = |number: u32, kind: &str, content: &str| {
        let parent = match number {
            0 => "null".to_owned(),
            _ => format!("\"00000000-0000-4000-8000-{:012}\"", number - 1),
        };
        format!(
            concat!(
                r#"{{"type":"{1}","uuid":"00000000-0000-4000-8000-{0:012}","parentUuid":{2},"#,
                r#""sessionId":"s","isSidechain":false,"version":"2.1.45","#,
                r#""timestamp":"2026-01-02T03:04:{0:02}.000Z","message":{{"role":"{1}","content":{3}}}}}"#,
                "\n"
            ),
            number, kind, parent, content
        )
    };
    let prompts = ["  four blanks  ", "\n\tindented\n\n", "\u{a0}wide\u{3000}"];
    let answer = serde_json::json!([{"type": "text", "text": "word ".repeat(2_000)}]).to_string();
    let mut bytes = String::new();
    for (number, prompt) in (0..).step_by(2).zip(prompts) {
        let prompt = serde_json::json!([{"type": "text", "text": prompt}]).to_string();
        bytes += &line(number, "user", &prompt);
        bytes += &line(number + 1, "assistant", &answer);
    }
    let before = subject(bytes.as_bytes(), Rules::newest());
    let what = Compress { to: Some(2_000), keep: KeepTurns::Last(0), calls: ListCalls::Leave };
    let change = change::compress(&before, &what).unwrap();
    let (result, _) = made(&before, &change, None);
    let text = summary(&result);
    for (number, prompt) in (1..).zip(prompts) {
        assert!(text.contains(&format!("\n\n[{number}] {prompt}\n\n")), "{text}");
    }
}

/// What opens a turn, as it was typed.
fn prompt(
    conversation: &transcript::Conversation,
    turn: &transcript::conversation::turn::Turn,
) -> Option<String> {
    let opens = |row: transcript::conversation::table::RowId| {
        let known = conversation.table.row(row);
        known.opens() && known.input.is_some_and(transcript::format::input::Input::is_typed)
    };
    let row = turn.steps.iter().find_map(|step| match step {
        transcript::conversation::turn::Step::Said(row) if opens(*row) => Some(*row),
        _ => None,
    })?;
    let look = conversation.look(row, |entry| {
        let blocks = entry.message().into_iter().flat_map(|message| message.blocks());
        transcript::format::input::typed_exactly(blocks.filter_map(|block| block.text()))
    });
    look.unwrap()
}

/// The records of a client's compaction, and nothing after them: what would be sent without them is
/// what would have been sent before them, message for message, by the rules of every version.
#[test]
fn a_clients_compaction_is_taken_out() {
    let mut count = 0;
    for file in &*SESSIONS {
        let name = file.path.display().to_string();
        let lines: Vec<&[u8]> = file.bytes.split_inclusive(|byte| *byte == b'\n').collect();
        let is_boundary = |line: &&[u8]| {
            memchr::memmem::find(line, b"\"subtype\":\"compact_boundary\"").is_some()
                && memchr::memmem::find(line, b"\"type\":\"system\"").is_some()
        };
        for (at, _) in lines.iter().enumerate().filter(|(_, line)| is_boundary(line)) {
            let before: Vec<u8> = lines[..at].concat();
            let end = (at + 1..lines.len())
                .find(|at| !is_of_compaction(lines[*at]))
                .unwrap_or(lines.len());
            let with: Vec<u8> = lines[..end].concat();
            let after = subject(&with, Rules::newest());
            let change = match change::uncompress(&after, &Uncompress::default()) {
                Ok(change) => change,
                Err(UncompressError::NothingBefore | UncompressError::Never) => continue,
                Err(error) => panic!("{name}: {error}"),
            };
            let (back, _) = made(&after, &change, None);
            for version in VERSIONS.iter().chain(&["1.0.128", "2.0.42", "2.1.29"]) {
                let rules = rules(version);
                assert_eq!(sent(&back, rules), sent(&before, rules), "{name}:{at} in {version}");
            }
            count += 1;
        }
    }
    assert!(count >= 9, "only {count} compactions");
}

/// Whether a line is one that a client writes along with a compaction, or no message.
fn is_of_compaction(line: &[u8]) -> bool {
    let Ok(record) = serde_json::from_slice::<Value>(line) else { return false };
    let text = record["message"]["content"].as_str().unwrap_or_default();
    match record["type"].as_str() {
        Some("user") => {
            record["isCompactSummary"] == true
                || text.contains("<command-name>/compact")
                || text.starts_with("<local-command-stdout>Compacted")
                || (record["isMeta"] == true && text.contains("Caveat"))
                || text.starts_with("<local-command-caveat>")
        }
        Some("assistant" | "progress" | "system") => false,
        _ => true,
    }
}

/// The whole recordings: what was said after a compaction stays, behind what was said before it.
#[test]
fn what_follows_a_compaction_stays() {
    let mut count = 0;
    for file in &*SESSIONS {
        let name = file.path.display().to_string();
        let before = subject(&file.bytes, Rules::newest());
        let Ok(change) = change::uncompress(&before, &Uncompress::default()) else { continue };
        let (result, written) = made(&before, &change, None);
        let after = subject(&result, Rules::newest());
        let proof = change::prove(&before, &change, written, &after).unwrap();
        let is_worse = proof.is_worse() && proof.after.verdict > Verdict::Loss;
        assert!(!is_worse, "{name}: {:?}", proof.after.findings);
        assert!(proof.after.tokens + 4_000 >= proof.before.tokens, "{name}");
        count += 1;
    }
    assert!(count >= 9, "only {count} sessions");
}

/// Under a budget, the summary stays, and the newest turns come back behind it.
#[test]
fn turns_come_back_under_a_budget() {
    let mut count = 0;
    for file in SESSIONS.iter().filter(|file| file.bytes.len() > 100_000).take(30) {
        let name = file.path.display().to_string();
        let first = subject(&file.bytes, Rules::newest());
        let Ok(context) = first.context().unwrap() else { continue };
        let tokens = context.of_all_messages();
        let what =
            Compress { to: Some(tokens / 10), keep: KeepTurns::Last(1), calls: ListCalls::Leave };
        let Some((bytes, _)) = compressed(&name, &file.bytes, &what) else { continue };
        let before = subject(&bytes, Rules::newest());
        let budget = tokens / 2;
        let what = Uncompress { to: Some(budget), ..Uncompress::default() };
        let change = match change::uncompress(&before, &what) {
            Ok(change) => change,
            Err(UncompressError::Full { .. }) => continue,
            Err(error) => panic!("{name}: {error}"),
        };
        let (result, written) = made(&before, &change, None);
        let after = subject(&result, Rules::newest());
        let proof = change::prove(&before, &change, written, &after).unwrap();
        let is_worse = proof.is_worse() && proof.after.verdict > Verdict::Loss;
        assert!(!is_worse, "{name}: {:?}", proof.after.findings);
        assert!(proof.after.tokens > proof.before.tokens, "{name}");
        assert!(proof.after.tokens <= budget, "{name}: {} of {budget}", proof.after.tokens);
        assert_eq!(proof.after.unpaired, proof.before.unpaired, "{name}");
        count += 1;
    }
    assert!(count >= 5, "only {count} sessions");
}

/// A subject that was not compacted, and one that has nothing to give back.
#[test]
fn what_cannot_be_done_is_said() {
    let bytes = testkit::session::Script::new()
        .prompt("u1", "-", "Hello.")
        .says("a1", "u1", "m1", "Hello.");
    let alone: Subject = subject(bytes.text().as_bytes(), Rules::newest());
    let error = change::uncompress(&alone, &Uncompress::default()).unwrap_err();
    assert!(matches!(error, UncompressError::Never));
    let what = Compress { to: Some(1_000), ..Compress::default() };
    let error = change::compress(&alone, &what).unwrap_err();
    assert!(matches!(error, CompressError::Fits { .. }));
    let what = Compress { to: Some(1), ..Compress::default() };
    let error = change::compress(&alone, &what).unwrap_err();
    assert!(matches!(error, CompressError::Small { .. }));
}

#[path = "../../examples/token_table.rs"]
mod token_table;

/// The table in docs/compress.md, and what is promised of it. Only the corpus has calls of the real
/// API.
#[test]
fn tokens_are_estimated() {
    let Some(corpus) = testkit::shared("corpus") else { return };
    let mut table = Vec::new();
    token_table::run(&[&corpus], &mut table).unwrap();
    let table = String::from_utf8(table).unwrap();
    testkit::compare("compress.md", "tokens", &table, "-p transcript --test all compress");
    for row in table.lines().skip(2).take(4) {
        let percent = |cell: usize| -> f64 {
            let text = row.split('|').nth(cell).unwrap();
            text.trim().trim_end_matches(" %").parse().unwrap()
        };
        assert!(percent(3) <= 10.0 && percent(4) <= 20.0, "{row}");
    }
}
