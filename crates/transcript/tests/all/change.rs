//! Changes of every real session, and of random sessions: the result resumes as well as the
//! original.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use testkit::Rng;
use testkit::session::Script;
use transcript::client::change::{self, At, Change, Keep, Preset, Proof, Renames, Strip, Subject};
use transcript::client::check::{Code, Verdict};
use transcript::client::history::{Role, Rules, Siblings};

use super::check::sessions::session;
use super::properties::{conversation, damage};

pub(super) const OLD: &str = "11111111-1111-4111-8111-111111111111";
pub(super) const NEW: &str = "22222222-2222-4222-8222-222222222222";
/// The versions whose verdicts are compared. The last one cannot follow the parent links of newer
/// sessions: only what it resumes fully must stay so.
pub(super) const VERSIONS: [&str; 4] = ["2.1.325", "2.1.100", "2.1.45", "2.0.76"];

pub(super) fn is_worse(version: &str, before: Verdict, after: Verdict) -> bool {
    after > before && (version != "2.0.76" || before == Verdict::Full)
}

pub(super) fn file_of(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

pub(super) fn subject(bytes: &[u8], rules: Rules) -> Subject {
    Subject::of_file(file_of(bytes), Path::new(&format!("{OLD}.jsonl")), rules).unwrap()
}

pub(super) fn made(
    from: &Subject,
    change: &Change,
    ids: Option<&Renames>,
) -> (Vec<u8>, change::Written) {
    let mut out = Vec::new();
    let written = change::write(from, change, ids, &mut out).unwrap();
    (out, written)
}

/// All kinds of changes, by name.
fn changes(subject: &Subject) -> Vec<(&'static str, Change)> {
    let strip = |what: Strip| change::strip(subject, &what).unwrap();
    let mut all = vec![
        ("clone", change::clone(subject)),
        ("strip light", strip(Strip::preset(Preset::Light))),
        ("strip medium", strip(Strip { keep: Keep::Turns(1), ..Strip::preset(Preset::Medium) })),
        ("strip heavy", strip(Strip { keep: Keep::Turns(1), ..Strip::preset(Preset::Heavy) })),
        ("strip extreme", strip(Strip::preset(Preset::Extreme))),
        (
            "strip calls of Read",
            strip(Strip { calls: true, tools: vec!["Read".to_owned()], ..Strip::default() }),
        ),
        ("strip thinking", strip(Strip { thinking: true, ..Strip::default() })),
    ];
    if let Ok(change) = change::fork(subject, &At::End) {
        all.push(("fork", change));
    }
    if let Ok(change) = change::fork(subject, &At::Turn(1)) {
        all.push(("fork at 1", change));
    }
    all
}

pub(super) fn verdict(bytes: &[u8], version: &str) -> Verdict {
    subject(bytes, Rules::of(version).unwrap()).verdict().unwrap()
}

/// The verdict, and how many messages are sent. A session is compared with itself for it, which
/// costs three times as much as the verdict.
fn verdict_and_sent(bytes: &[u8], version: &str) -> (Verdict, usize) {
    let subject = subject(bytes, Rules::of(version).unwrap());
    let change = change::clone(&subject);
    let written = change::Written::default();
    let proof = change::prove(&subject, &change, written, &subject).unwrap();
    (subject.verdict().unwrap(), proof.after.reach.sent)
}

/// The repaired session, as the command writes it.
pub(super) fn repaired(bytes: &[u8], rules: Rules) -> (Vec<u8>, Proof) {
    let before = subject(bytes, rules);
    let mended = change::repair(&before, rules, &mut tempfile::tempfile).unwrap();
    let (out, written) = made(mended.source.as_ref().unwrap_or(&before), &mended.change, None);
    let proof =
        change::prove(&before, &mended.change, mended.total(written), &subject(&out, rules))
            .unwrap();
    (out, proof)
}

/// The texts of people and of the model in what a version would send.
fn sent_texts(bytes: &[u8], version: &str) -> BTreeMap<String, usize> {
    let of = subject(bytes, Rules::of(version).unwrap());
    let found =
        transcript::client::history::history(of.conversation(), Rules::of(version).unwrap(), None)
            .unwrap();
    let mut counts = BTreeMap::new();
    let Ok(found) = found else { return counts };
    // What the client says about tools goes with them.
    let spoken = found.messages.iter().filter(|message| message.role != Role::System);
    for block in spoken.flat_map(|message| &message.blocks) {
        let block: serde_json::Value = serde_json::from_slice(block.raw()).unwrap_or_default();
        let text = block["text"].as_str().unwrap_or_default().trim();
        // What the client fills in where something is missing does not count.
        let is_made = ["(no content)", "[", "<system-reminder>", "Tool loaded."]
            .iter()
            .any(|made| text.starts_with(made));
        if !text.is_empty() && !is_made {
            *counts.entry(text.to_owned()).or_default() += 1;
        }
    }
    counts
}

/// The first text that is sent before a change but not after it.
fn lost(before: &BTreeMap<String, usize>, after: &BTreeMap<String, usize>) -> Option<String> {
    // A text may be joined to another one.
    let is_there = |text: &String| {
        after.contains_key(text) || after.keys().any(|other| other.contains(text.as_str()))
    };
    before.keys().find(|text| !is_there(text)).map(|text| text.chars().take(80).collect())
}

/// Sessions made by hand to show a fault of some clients, where a change makes something worse for
/// these.
const APART: [(&str, &str); 8] = [
    ("in_Read_number_beside", "a call that ends old clients is not sent by some, as it is open"),
    ("in_Read_number_compacted", "a call that ends old clients stands before a compaction"),
    ("nt_lastanswer_sysleaf.", "only an event that is stripped has the newest time"),
    ("nt_lastanswer_sysleaf_named", "only an event that is stripped has the newest time"),
    ("nt_lastprompt_sysleaf", "only an event that is stripped has the newest time"),
    ("nt_result_sysleaf", "only an event that is stripped has the newest time"),
    ("sib_copy_", "an answer that stands twice, on two beginnings, with one id"),
    ("dep_copy_", "an answer that stands twice, on two beginnings, with one id"),
];

pub(super) fn is_apart(name: &str) -> bool {
    let found = APART.iter().find(|(case, _)| name.contains(&format!("/observed/{case}")));
    if let Some((case, why)) = found {
        println!("left out: {case}: {why}");
    }
    found.is_some()
}

#[test]
fn no_real_session_resumes_less_well_after_a_change() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for file in testkit::real_files() {
        let name = file.path.display().to_string();
        if name.contains("/agent-") || file.bytes.len() > 2_000_000 || is_apart(&name) {
            continue;
        }
        count += 1;
        let newest = subject(&file.bytes, Rules::newest());
        let mut ids = Renames::new(OLD, NEW);
        ids.learn(&newest.conversation().table);
        let before = VERSIONS.map(|version| verdict(&file.bytes, version));
        let stripped_as = [VERSIONS[0], VERSIONS[2]];
        let texts_before = stripped_as.map(|version| sent_texts(&file.bytes, version));
        for (what, change) in changes(&newest) {
            if change.leaves_nothing(newest.conversation()) {
                continue;
            }
            if what.starts_with("strip") {
                let (out, _) = made(&newest, &change, None);
                for (version, texts) in stripped_as.iter().zip(&texts_before) {
                    if let Some(text) = lost(texts, &sent_texts(&out, version)) {
                        wrong.push(format!("{name}: {what} as {version} loses {text:?}"));
                    }
                }
            }
            let (out, _) = made(&newest, &change, Some(&ids));
            for (version, before) in VERSIONS.iter().zip(&before) {
                // Before a compaction, versions that lose parallel results lose them anew.
                let is_before = what.starts_with("fork")
                    && memchr::memmem::find(&file.bytes, b"compact_boundary").is_some();
                if is_before && Rules::of(version).unwrap().siblings == Siblings::Lost {
                    continue;
                }
                let after = verdict(&out, version);
                if is_worse(version, *before, after) {
                    wrong.push(format!(
                        "{name}: {what} as {version}: {} -> {}",
                        before.name(),
                        after.name()
                    ));
                }
            }
        }
    }
    println!("{count} sessions");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn repair_makes_every_real_session_better_or_leaves_it() {
    let mut wrong = Vec::new();
    let mut moves: BTreeMap<String, usize> = BTreeMap::new();
    for file in testkit::real_files() {
        let name = file.path.display().to_string();
        if name.contains("/agent-") || file.bytes.len() > 2_000_000 || is_apart(&name) {
            continue;
        }
        let (out, proof) = repaired(&file.bytes, Rules::newest());
        for version in VERSIONS {
            let sent = |bytes: &[u8]| verdict_and_sent(bytes, version);
            let before = sent(&file.bytes);
            let after = if out == file.bytes { before } else { sent(&out) };
            *moves
                .entry(format!("{version} {} -> {}", before.0.name(), after.0.name()))
                .or_default() += 1;
            let removed = usize::try_from(proof.written.dropped).unwrap();
            if is_worse(version, before.0, after.0) || after.1 + removed < before.1 {
                wrong.push(format!("{name} as {version}: {before:?} -> {after:?}"));
            }
        }
        let (again, _) = repaired(&out, Rules::newest());
        if again != out {
            wrong.push(format!("{name}: repaired twice it is something else"));
        }
        let is_moved = proof.deeds.iter().any(|deed| deed.code == Some(Code::WrongLeaf));
        if let Some(text) = lost(&sent_texts(&file.bytes, "2.1.325"), &sent_texts(&out, "2.1.325"))
            .filter(|_| !is_moved)
        {
            wrong.push(format!("{name}: repair loses {text:?}"));
        }
    }
    println!("{moves:#?}");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// The same session with ids of the usual form.
fn with_uuids(lines: &[String]) -> String {
    let id = |text: &str| {
        let number = text.bytes().fold(7_u128, |number, byte| number * 257 + u128::from(byte));
        let number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        let hex = format!("{number:032x}");
        format!("{}-{}-4{}-8{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
    };
    let mut text = String::new();
    for line in lines {
        let Ok(mut record) = serde_json::from_str::<serde_json::Value>(line) else {
            text.extend([line, "\n"]);
            continue;
        };
        for name in ["uuid", "parentUuid"] {
            if let Some(old) = record.get(name).and_then(|value| value.as_str()) {
                record[name] = id(old).into();
            }
        }
        if record.get("sessionId").is_some() {
            record["sessionId"] = OLD.into();
        }
        text.extend([record.to_string().as_str(), "\n"]);
    }
    text
}

/// A random session; every other one is damaged.
pub(super) fn chance(seed: u64) -> String {
    let mut rng = Rng::new(seed);
    let steps = 4 + rng.below(30);
    let mut lines = conversation(&mut rng, steps);
    if seed.is_multiple_of(2) {
        damage(&mut rng, &mut lines);
    }
    if seed.is_multiple_of(3) { lines.join("\n") } else { with_uuids(&lines) }
}

pub(super) const CASES: u64 = 600;

#[test]
fn a_clone_names_no_old_id_and_hangs_together_as_before() {
    for seed in 0..CASES {
        let text = chance(seed);
        let before = subject(text.as_bytes(), Rules::newest());
        let mut ids = Renames::new(OLD, NEW);
        ids.learn(&before.conversation().table);
        let (out, written) = made(&before, &change::clone(&before), Some(&ids));
        assert_eq!(written.dropped + written.altered + written.added, 0, "seed {seed}");
        let after = subject(&out, Rules::newest());
        let (old, new) = (&before.conversation().table, &after.conversation().table);
        assert_eq!(old.rows().len(), new.rows().len(), "seed {seed}");
        let text = String::from_utf8_lossy(&out);
        for (row, (one, other)) in old.rows().iter().zip(new.rows()).enumerate() {
            let link = |subject: &Subject| {
                subject
                    .conversation()
                    .graph
                    .link(transcript::conversation::table::RowId(u32::try_from(row).unwrap()))
            };
            assert_eq!(link(&before), link(&after), "seed {seed} row {row}");
            for (one, other) in
                [(one.uuid, other.uuid), (one.parent, other.parent), (one.session, other.session)]
            {
                let (one, other) = (old.text(one), new.text(other));
                assert_eq!(one.is_some(), other.is_some(), "seed {seed} row {row}");
                assert!(one.is_none() || one != other, "seed {seed} row {row}: {one:?}");
                if let Some(one) = one.filter(|one| one.len() == 36) {
                    assert!(!text.contains(one), "seed {seed}: {one} remains");
                }
            }
        }
        // With unchanged ids it is the same file.
        let (same, _) = made(&before, &change::clone(&before), None);
        assert_eq!(same, chance(seed).into_bytes(), "seed {seed}");
    }
}

#[test]
fn strip_never_breaks_a_pair() {
    for seed in 0..CASES {
        let text = chance(seed);
        let mut rng = Rng::new(seed + 1);
        let mut coin = || rng.below(2) == 0;
        let what = Strip {
            calls: coin(),
            results: coin(),
            copies: coin(),
            thinking: coin(),
            images: coin(),
            noise: coin(),
            snapshots: coin(),
            agents: coin(),
            tools: if coin() { vec!["Read".to_owned()] } else { Vec::new() },
            files: Vec::new(),
            keep: match (coin(), coin()) {
                (true, true) => Keep::Seen { turns: 2, answers: 1 },
                (true, false) => Keep::Turns(2),
                (false, _) => Keep::default(),
            },
            over: 0,
            only: None,
        };
        let before = subject(text.as_bytes(), Rules::newest());
        let change = change::strip(&before, &what).unwrap();
        let (out, written) = made(&before, &change, None);
        let after = subject(&out, Rules::newest());
        let paired = |of: &Subject| {
            let conversation = of.conversation();
            let blocks = (0..u32::try_from(conversation.table.blocks().len()).unwrap())
                .map(transcript::conversation::table::BlockId);
            let halves = blocks.filter(|block| {
                let part = conversation.table.block(*block);
                (part.kind.is_call() || part.kind.is_result())
                    && !part.is_repeat
                    && conversation.pairs.of(*block).is_none()
            });
            halves
                .filter_map(|block| {
                    conversation.table.text(conversation.table.block(block).id).map(str::to_owned)
                })
                .collect::<std::collections::BTreeSet<_>>()
        };
        let (was, is) = (paired(&before), paired(&after));
        assert!(is.is_subset(&was), "seed {seed}: {what:?}\n{:?}\n{text}", is.difference(&was));
        if change.leaves_nothing(before.conversation()) {
            continue;
        }
        let proof = change::prove(&before, &change, written, &after).unwrap();
        assert!(
            !proof.is_worse(),
            "seed {seed}: {what:?}: {:?} -> {:?}\n{text}\n--\n{}",
            proof.before.verdict,
            proof.after.verdict,
            String::from_utf8_lossy(&out)
        );
    }
}

#[test]
fn repair_done_twice_does_nothing_and_never_loses_a_message() {
    let mut wrong = Vec::new();
    for seed in 0..CASES {
        let text = chance(seed);
        let (out, proof) = repaired(text.as_bytes(), Rules::newest());
        if proof.after.reach.lost > proof.before.reach.lost {
            wrong.push(format!("seed {seed}: {:?} -> {:?}", proof.before.reach, proof.after.reach));
        }
        let (again, second) = repaired(&out, Rules::newest());
        if again != out {
            let deeds: Vec<String> = second
                .deeds
                .into_iter()
                .map(|deed| format!("{:?} {:?} {}", deed.code, deed.line, deed.text))
                .collect();
            wrong.push(format!("seed {seed}: done again it does more: {}", deeds.join("; ")));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Every finding is fixed, or is one that no change of the file can fix.
#[test]
fn what_check_finds_is_mended_or_said_to_remain() {
    let mut text = String::new();
    for code in Code::ALL {
        let made = session(*code);
        let rules = Rules::of(made.version).unwrap();
        let before = subject(&made.bytes, rules);
        if !before.findings().unwrap().iter().any(|finding| finding.code == *code) {
            continue;
        }
        let (_, proof) = repaired(&made.bytes, rules);
        let remains = proof
            .after
            .findings
            .iter()
            .filter(|finding| finding.code == *code)
            .max_by_key(|finding| finding.severity);
        let done: Vec<String> = proof
            .deeds
            .iter()
            .map(|deed| format!("{} {}", deed.code.map_or("", Code::name), deed.text))
            .collect();
        let _ = writeln!(
            text,
            "{code}: {} -> {}{}\n    {}",
            proof.before.verdict.name(),
            proof.after.verdict.name(),
            remains.map_or(String::new(), |finding| format!(
                " (remains: {})",
                finding.severity.name()
            )),
            done.join("\n    ")
        );
    }
    insta::assert_snapshot!("repaired", text);
}

fn stripped(text: &str, what: &Strip) -> String {
    let before = subject(text.as_bytes(), Rules::newest());
    let change = change::strip(&before, what).unwrap();
    String::from_utf8(made(&before, &change, None).0).unwrap()
}

fn calls() -> Strip {
    Strip { calls: true, ..Strip::default() }
}

/// What the newest client would send, without what it adds.
fn texts(text: &str) -> Vec<String> {
    sent_texts(text.as_bytes(), "2.1.325").into_keys().collect()
}

/// If nothing is left of the records that a compaction keeps, it keeps nothing, instead of
/// everything before it.
#[test]
fn a_compaction_stays_one_when_what_it_keeps_is_stripped() {
    let metadata = r#""subtype":"compact_boundary","logicalParentUuid":"r1","compactMetadata":{"trigger":"auto","preTokens":9,"preservedSegment":{"headUuid":"c1","tailUuid":"r1","anchorUuid":"s1"},"preservedMessages":{"anchorUuid":"s1","uuids":["c1","r1"],"allUuids":["c1","r1"]}}"#;
    let summary = r#""isCompactSummary":true,"message":{"role":"user","content":"summed up"}"#;
    let script = Script::new()
        .prompt("p1", "-", "before")
        .says("a1", "p1", "m1", "answered before")
        .call("c1", "a1", "m2", "t1", "Read")
        .result("r1", "c1", "t1", "x")
        .record("system", "b1", "-", metadata)
        .record("user", "s1", "b1", summary)
        .says("a2", "s1", "m3", "behind");
    let out = stripped(script.text(), &calls());
    assert_eq!(texts(&out), ["behind", "summed up"]);
    assert!(out.contains(r#""uuids":[],"allUuids":[]"#) && !out.contains("preservedSegment"));
}

/// The text of an answer is beside the path to the leaf; its thinking, which is on the path, is
/// removed.
#[test]
fn an_answer_beside_the_way_stays_when_its_thinking_goes() {
    let thinking = r#"{"type":"thinking","thinking":"hm","signature":"c2ln"}"#;
    for under in ["t1", "p1"] {
        let script = Script::new()
            .prompt("p1", "-", "one")
            .block("t1", "p1", "m1", thinking)
            .says("a1", under, "m1", "answer")
            .prompt("p2", "t1", "two")
            .says("a2", "p2", "m2", "last");
        let what = Strip { thinking: true, ..Strip::default() };
        assert_eq!(texts(&stripped(script.text(), &what)), ["answer", "last", "one", "two"]);
    }
}

#[test]
fn nothing_blank_is_left_of_what_was_said_beside_results() {
    let result = r#""message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"x"},{"type":"text","text":" "}]}"#;
    let script = Script::new()
        .prompt("p1", "-", "one")
        .call("c1", "p1", "m1", "t1", "Read")
        .record("user", "r1", "c1", result)
        .says("a1", "r1", "m2", "last");
    assert_eq!(stripped(script.text(), &calls()).lines().count(), 2);
}

/// One or many roots without ids: no infinite loop.
#[test]
fn a_beginning_without_an_id_is_no_trouble() {
    let script = Script::new().call("c1", "-", "m1", "t1", "Read").result("r1", "c1", "t1", "x");
    let script =
        script.prompt("p1", "r1", "one").prompt("p2", "r1", "two").says("a2", "p2", "m2", "a");
    let text = script.text().replacen(r#""uuid":"c1","#, "", 1);
    let out = stripped(&text, &calls());
    assert!(out.contains("one") && out.contains("two"));
}

#[test]
fn what_is_sent_now_is_sent_after_a_repair() {
    // The parent of two records is missing, and a call has no result.
    let script = Script::new()
        .prompt("p1", "-", "one")
        .call("c1", "p1", "m1", "t1", "Read")
        .says("a1", "gone", "m2", "the answer")
        .prompt("p2", "gone", "two")
        .says("a2", "p2", "m3", "last");
    let (out, _) = repaired(script.text().as_bytes(), Rules::newest());
    let found = texts(&String::from_utf8(out).unwrap());
    assert_eq!(found, ["last", "one", "the answer", "two"]);
    // A record that is marked as a sub-agent's is on the path to the leaf.
    let marked = r#""isSidechain":true,"message":{"role":"user","content":"marked"}"#;
    let script = Script::new()
        .prompt("p1", "-", "one")
        .call("c1", "p1", "m1", "t1", "Read")
        .record("user", "p2", "c1", marked)
        .says("a2", "p2", "m3", "last");
    let (out, _) = repaired(script.text().as_bytes(), Rules::newest());
    assert_eq!(texts(&String::from_utf8(out).unwrap()), ["last", "marked", "one"]);
}

/// Two fixes of one record: the larger one counts.
#[test]
fn mends_of_one_record_do_not_get_in_each_others_way() {
    let blank = r#""message":{"role":"user","content":[{"type":"text","text":" ","zzz":1}]}"#;
    let script = Script::new().record("user", "p1", "-", blank).says("a1", "p1", "m1", "a");
    let (out, proof) = repaired(script.text().as_bytes(), Rules::of("2.1.45").unwrap());
    assert_eq!(proof.after.verdict, Verdict::Full, "{}", String::from_utf8_lossy(&out));
}

/// Several batches, each of several pieces, separated by what is not kept in memory: damage, a line
/// that is too long, several records in a line, and no newline at the end.
#[test]
fn a_long_session_is_written_as_it_stands() {
    let snapshot = r#"{"type":"file-history-snapshot","messageId":"x","snapshot":{}}"#;
    let mut lines = Vec::new();
    let mut under = "-".to_owned();
    for round in 0..9_000_usize {
        let uuid = format!("r{round}");
        let text = match round {
            4_000 => "long".repeat(5 << 20),
            _ => format!("{round} ").repeat(round % 1_000),
        };
        lines.push(Script::new().prompt(&uuid, &under, &text).text().trim_end().to_owned());
        if round % 10 == 0 {
            lines.push(snapshot.to_owned());
        }
        if round == 3_000 || round == 6_000 {
            lines.push("?".repeat(300_000));
            lines.push(String::new());
            let next = Script::new().prompt("beside", &uuid, "beside").text().to_owned();
            lines.push(format!("{}{}", next.trim_end(), next.trim_end()));
        }
        under = uuid;
    }
    let text = lines.join("\n");
    let from = subject(text.as_bytes(), Rules::newest());
    assert!(made(&from, &change::clone(&from), None).0 == text.as_bytes());
    let what = Strip { snapshots: true, ..Strip::default() };
    let (out, written) = made(&from, &change::strip(&from, &what).unwrap(), None);
    assert_eq!((written.dropped, written.altered, written.bytes), (900, 0, out.len() as u64));
    lines.retain(|line| line != snapshot);
    assert!(out == lines.join("\n").as_bytes());
    // Every record belongs to the new session: two records are in one line, twice.
    let mut ids = Renames::new(OLD, NEW);
    ids.learn(&from.conversation().table);
    let (out, _) = made(&from, &change::clone(&from), Some(&ids));
    assert_eq!(memchr::memmem::find_iter(&out, NEW).count(), 9_000 + 4);
}

/// A fork of a cycle of parents begins with a root, so that no version follows the cycle.
#[test]
fn a_fork_breaks_a_cycle_of_parents() {
    let bytes = std::fs::read(testkit::fixtures().join("edited/parent_cycle.jsonl")).unwrap();
    let subject = subject(&bytes, Rules::newest());
    let change = change::fork(&subject, &At::End).unwrap();
    let (written, _) = made(&subject, &change, None);
    let text = String::from_utf8(written).unwrap();
    let parents = text.lines().map(|line| {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        [
            record["uuid"].as_str().map(str::to_owned),
            record["parentUuid"].as_str().map(str::to_owned),
        ]
    });
    let parents: BTreeMap<_, _> = parents.map(|[id, parent]| (id, parent)).collect();
    for start in parents.keys() {
        let mut at = start.clone();
        let steps = std::iter::from_fn(|| {
            at = parents.get(&at)?.clone();
            at.clone()
        });
        assert!(steps.take(parents.len() + 1).count() <= parents.len(), "{text}");
    }
}
