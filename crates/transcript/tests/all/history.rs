//! The oracle: what real clients sent on resume, compared with what `history` predicts.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use testkit::comparable::{Applied, SessionTexts, comparable, whole_characters};
use testkit::messages;
use transcript::client::history::{
    History, Limit, NEWEST_NAME, Rules, VersionChange, history, outline, ranges, version_changes,
};
use transcript::conversation::Conversation;
use transcript::format::content::BlockKind;

fn messages(found: &History) -> Vec<Value> {
    let message = |message: &transcript::client::history::Message| {
        let blocks = message.blocks.iter().map(|block| {
            let raw = std::str::from_utf8(block.raw()).unwrap();
            serde_json::from_str(&whole_characters(raw)).unwrap()
        });
        serde_json::json!({"role": message.role.name(), "content": blocks.collect::<Vec<Value>>()})
    };
    found.messages.iter().map(message).collect()
}

fn sent(path: &Path, version: &str, prompt: &str) -> Option<Vec<Value>> {
    let conversation = Conversation::open(path).unwrap();
    let found = history(&conversation, Rules::of(version).unwrap(), Some(prompt)).unwrap();
    found.ok().map(|found| messages(&found))
}

/// A message as the table of expectations has it: one string.
fn summary(message: &Value) -> Option<String> {
    if message["role"] == "system" {
        return None;
    }
    let cut = |text: &str, most: usize| text.chars().take(most).collect::<String>();
    let parts: Vec<String> = message["content"]
        .as_array()?
        .iter()
        .filter_map(|block| {
            let text = |name: &str| block[name].as_str().unwrap_or_default();
            Some(match text("type") {
                "text" => {
                    let words = text("text").trim();
                    if words.starts_with("<system-reminder>") {
                        let known = ["stored rendering", "a queued prompt"];
                        format!("REMINDER({})", known.iter().find(|known| words.contains(**known))?)
                    } else {
                        cut(words, 60)
                    }
                }
                "tool_use" => format!("USE {}", text("id")),
                "tool_result" => {
                    let mark = if block["is_error"] == true { "!" } else { "" };
                    format!(
                        "RES{mark} {} {}",
                        text("tool_use_id"),
                        cut(&python(&block["content"]), 40)
                    )
                }
                "thinking" => format!("THINK {}", text("thinking")),
                other => other.to_uppercase(),
            })
        })
        .collect();
    let role = &message["role"].as_str()?[..1];
    (!parts.is_empty()).then(|| format!("{role}:{}", parts.join(" | ")))
}

/// A value as the script that made the table writes it.
fn python(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "None".to_owned(),
        Value::Array(list) => {
            let inner = |value: &Value| match value {
                Value::String(text) => format!("'{text}'"),
                other => python(other),
            };
            format!("[{}]", list.iter().map(inner).collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) => {
            let member = |(name, value): (&String, &Value)| {
                let value = if let Value::String(text) = value {
                    format!("'{text}'")
                } else {
                    python(value)
                };
                format!("'{name}': {value}")
            };
            // In the order in which they were written; this map sorts them.
            let mut members: Vec<_> = map.iter().collect();
            members.sort_by_key(|(name, _)| *name != "type");
            format!("{{{}}}", members.into_iter().map(member).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

#[test]
fn edited_files_in_four_versions() {
    let folder = testkit::fixtures().join("edited");
    let expected: BTreeMap<String, BTreeMap<String, Vec<String>>> =
        serde_json::from_slice(&fs::read(folder.join("expected.json")).unwrap()).unwrap();
    let mut count = 0;
    for (case, versions) in expected {
        for (version, expected) in versions {
            let found = sent(&folder.join(format!("{case}.jsonl")), &version, "RESUME PROMPT");
            match found {
                None => assert_ne!(expected[0], "rc=0", "{case} {version} is refused"),
                Some(found) => {
                    let mut lines = vec!["rc=0".to_owned()];
                    lines.extend(found.iter().filter_map(summary));
                    assert_eq!(lines, expected, "{case} {version}");
                }
            }
            count += 1;
        }
    }
    assert_eq!(count, 248);
}

/// Files made to answer one question each, resumed with a prompt, and what four versions sent.
#[test]
fn observed_files_in_four_versions() {
    let folder = testkit::fixtures().join("observed");
    let expected: BTreeMap<String, BTreeMap<String, Option<Vec<Value>>>> =
        serde_json::from_slice(&fs::read(folder.join("expected.json")).unwrap()).unwrap();
    for (case, versions) in &expected {
        for (version, expected) in versions {
            let found = sent(&folder.join(format!("{case}.jsonl")), version, "And what now?");
            let found = found.map(|found| messages::normal(&found));
            assert_eq!(found.as_ref(), expected.as_ref(), "{case} {version}");
        }
    }
    assert_eq!(expected.len(), 41);
}

/// Files made to answer one question each, and what genuine clients sent, one short line for each
/// message.
#[test]
fn observed_files_line_by_line() {
    let folder = testkit::fixtures().join("observed");
    let expected: BTreeMap<String, BTreeMap<String, Vec<String>>> =
        serde_json::from_slice(&fs::read(folder.join("lines.json")).unwrap()).unwrap();
    let mut wrong = Vec::new();
    for (case, versions) in &expected {
        for (version, expected) in versions {
            let found = sent(&folder.join(format!("{case}.jsonl")), version, "RESUME PROMPT");
            let lines = found.map(|found| {
                let lines = found.iter().filter_map(summary);
                ["rc=0".to_owned()].into_iter().chain(lines).collect::<Vec<_>>()
            });
            let is_sent = expected[0] == "rc=0";
            if lines.as_ref() == Some(expected).filter(|_| is_sent) {
                continue;
            }
            wrong.push(format!("{case} {version}\n  sent {expected:?}\n  ours {lines:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(expected.len(), LINES);
}

/// How many files there are.
const LINES: usize = 119;

/// What our rules say about a case, in the form in which it is compared.
fn predicted(path: &Path, version: &str, prompt: &str, texts: &SessionTexts) -> Value {
    let conversation = Conversation::open(path).unwrap();
    let found = history(&conversation, Rules::of(version).unwrap(), Some(prompt)).unwrap();
    let Ok(found) = found else { return serde_json::json!({"outcome": "refused"}) };
    if found.limit.as_ref().is_some_and(Limit::is_reached) {
        return serde_json::json!({"outcome": "compacts", "model": found.model});
    }
    let messages = comparable(&messages(&found), texts, &mut Applied::default());
    serde_json::json!({"outcome": "sent", "messages": messages, "model": found.model})
}

/// The hand-made cases, and what each version that was asked made of them, compared strictly.
#[test]
fn every_observed_answer() {
    let (mut asked, mut wrong) = (0, Vec::new());
    for (case, of_case) in &answers() {
        let path = &file_of(case);
        let texts = SessionTexts::read(&fs::read(path).unwrap());
        for answer in of_case["answers"].as_array().unwrap() {
            let mut expected = answer.clone();
            expected.as_object_mut().unwrap().remove("versions");
            for version in answer["versions"].as_array().unwrap() {
                let version = version.as_str().unwrap();
                asked += 1;
                let found = predicted(path, version, "RESUME PROMPT", &texts);
                let is_known = KNOWN.iter().any(|known| {
                    known.case == case && (known.since..=known.until).contains(&parse(version))
                });
                if (found == expected) == is_known {
                    wrong.push(difference(case, version, &expected, &found));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {asked} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(asked >= ASKED, "only {asked}");
}

/// How many answers there are at least.
const ASKED: usize = 19_000;

/// What real clients sent, by case.
pub(crate) fn answers() -> BTreeMap<String, Value> {
    let kept = fs::read(testkit::fixtures().join("answers.json")).unwrap();
    serde_json::from_slice(&kept).unwrap()
}

/// The session of a case.
fn file_of(case: &str) -> PathBuf {
    let folders = ["edited", "observed"].map(|folder| testkit::fixtures().join(folder));
    let paths = folders.map(|folder| folder.join(format!("{case}.jsonl")));
    paths.into_iter().find(|path| path.exists()).unwrap_or_else(|| panic!("no case {case}"))
}

/// A case that is known to differ, from a version to a version.
struct KnownDifference {
    case: &'static str,
    since: [u32; 3],
    until: [u32; 3],
    /// How it differs, as a sentence.
    what: &'static str,
}

const KNOWN: [KnownDifference; 4] = [
    KnownDifference {
        case: "gap_root_commands",
        since: [2, 1, 187],
        until: [2, 1, 325],
        what: "Without any message, records of the same time behind a gap are sent in reverse.",
    },
    KnownDifference {
        case: "boundary_without_time",
        since: [2, 1, 325],
        until: [2, 1, 325],
        what: "Without any message, an end without a time does not refuse, if another has one.",
    },
    KnownDifference {
        case: "blank_answer_again",
        since: [2, 1, 113],
        until: [2, 1, 325],
        what: "A blank answer with the id of an earlier one counts as an answer.",
    },
    KnownDifference {
        case: "shutdown_of_text_open",
        since: [2, 1, 325],
        until: [2, 1, 325],
        what: "`interruptedByShutdown` beside other words does not keep open calls from results.",
    },
];

pub(crate) fn parse(version: &str) -> [u32; 3] {
    let numbers: Vec<u32> = version.split('.').map(|part| part.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

/// The first difference between two outcomes, in few words.
fn difference(case: &str, version: &str, sent: &Value, ours: &Value) -> String {
    let short = |value: &Value| value.to_string().chars().take(600).collect::<String>();
    let name = format!("{case} {version}");
    for member in ["outcome", "model"] {
        if sent[member] != ours[member] {
            return format!("{name}: {member}\n  sent {}\n  ours {}", sent[member], ours[member]);
        }
    }
    let count = |value: &Value| value["messages"].as_array().map_or(0, Vec::len);
    let at =
        (0..count(sent).max(count(ours))).find(|at| sent["messages"][at] != ours["messages"][at]);
    let at = at.unwrap_or(0);
    format!(
        "{name}: message {at}\n  sent {}\n  ours {}",
        short(&sent["messages"][at]),
        short(&ours["messages"][at])
    )
}

/// Every recorded resume, compared strictly: the file as the client found it, and what it sent. The
/// recordings have `[cut]` where the product's own words were.
#[test]
fn recorded_resumes() {
    let Some(root) = testkit::shared("recordings") else { return };
    let resumes: Vec<Value> =
        serde_json::from_slice(&fs::read(root.join("resumes.json")).unwrap()).unwrap();
    assert!(resumes.len() >= 89);
    let mut wrong = Vec::new();
    for resume in &resumes {
        let text = |name: &str| resume[name].as_str().unwrap();
        let base: PathBuf = root.join(text("version")).join(text("scenario"));
        let number = |name: &str| usize::try_from(resume[name].as_u64().unwrap()).unwrap();
        let requests = fs::read_to_string(base.join("requests.jsonl")).unwrap();
        let request: Value =
            serde_json::from_str(requests.lines().nth(number("request_line")).unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.jsonl");
        let bytes = fs::read(base.join(text("file"))).unwrap();
        let bytes = &bytes[..number("cut_at_byte")];
        fs::write(&path, bytes).unwrap();
        let texts = SessionTexts::read(bytes);
        let sent =
            comparable(request["messages"].as_array().unwrap(), &texts, &mut Applied::default());
        let mut expected = serde_json::json!(
            {"outcome": "sent", "messages": sent, "model": request["model"]});
        let mut found = predicted(&path, text("version"), text("prompt"), &texts);
        for outcome in [&mut found, &mut expected] {
            without_words(&mut outcome["messages"]);
        }
        let name = format!("{} {}", text("scenario"), resume["step"]);
        let is_known = AGAIN.iter().any(|known| known.0 == name && known.1 == text("version"));
        if (found != expected) != is_known {
            wrong.push(difference(&name, text("version"), &expected, &found));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), resumes.len(), wrong.join("\n"));
}

/// Recorded resumes that differ: the scenario and its step, the version, and how.
const AGAIN: [(&str, &str, &str); 1] =
    [("k_hooks 1", "2.1.325", "A hook runs again for the new prompt, and adds what it prints.")];

/// The list of known differences in `docs/history.md`.
fn known_differences() -> String {
    let mut text = String::from("\n| case | versions | |\n|---|---|---|\n");
    let name = |[major, minor, patch]: [u32; 3]| format!("{major}.{minor}.{patch}");
    for KnownDifference { case, since, until, what } in KNOWN {
        writeln!(text, "| `{case}` | {} to {} | {what} |", name(since), name(until)).unwrap();
    }
    for (scenario, version, what) in AGAIN {
        writeln!(text, "| recorded: `{scenario}` | {version} | {what} |").unwrap();
    }
    text
}

#[test]
fn the_table_of_known_differences_is_up_to_date() {
    testkit::compare("history.md", "known", &known_differences(), "-p transcript history");
}

/// Leaves only the places of reminders: what they said was cut. Several in a row count as one.
fn without_words(messages: &mut Value) {
    let is_cut = |part: &Value| part["type"] == "reminder" || part["type"] == "note";
    let lists = messages.as_array_mut().into_iter().flatten();
    for content in lists.filter_map(|message| message["content"].as_array_mut()) {
        for part in content.iter_mut() {
            if let Some(inner) = part.get_mut("content").and_then(Value::as_array_mut) {
                inner.retain(|part| !is_cut(part));
            }
            if is_cut(part) {
                *part = part["type"].take();
            }
        }
        content.dedup_by(|one, other| one.is_string() && one == other);
    }
}

/// Without the texts, every block is treated the same, in every version, for every file.
#[test]
fn an_outline_has_the_same_shape() {
    let shape = |found: &History| {
        let message = |message: &transcript::client::history::Message| {
            // Texts that the client adds after references are not in an outline.
            let blocks = message.blocks.iter().map(|block| (block.kind(), block.origin()));
            let blocks =
                blocks.filter(|(kind, origin)| *kind != BlockKind::Text || origin.is_some());
            (message.role, blocks.collect::<Vec<_>>())
        };
        let messages: Vec<_> = found.messages.iter().map(message).collect();
        (messages, found.notes.clone(), found.leaf, found.rows.clone())
    };
    let mut compared = 0;
    let mut rng = testkit::Rng::new(18);
    for file in testkit::real_files() {
        let conversation = Conversation::open(&file.path).unwrap();
        // The versions that differ much, and some of the others.
        let others = (0..4).map(|_| rng.pick(ranges()).rules);
        let others: Vec<Rules> = others.filter(|_| file.bytes.len() < 20_000).collect();
        for rules in others.into_iter().chain(Rules::landmarks()) {
            for then in [None, Some("go on")] {
                let whole = history(&conversation, rules, then).unwrap().map(|found| shape(&found));
                let light = outline(&conversation, rules, then).unwrap().map(|found| shape(&found));
                assert_eq!(whole, light, "{} {}", file.path.display(), rules.name());
                compared += usize::from(whole.is_ok());
            }
        }
    }
    assert!(compared > 1000, "{compared}");
}

/// The end of a file gives the same result as the whole file, for every file, cut after every
/// compaction's line and in between.
#[test]
fn the_end_of_a_file_is_enough_or_is_not_taken() {
    let rules = Rules::newest();
    let mut short = 0;
    for file in testkit::real_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.jsonl");
        let mut ends = vec![file.bytes.len()];
        let lines =
            file.bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
        if memchr::memmem::find(&file.bytes, b"compact_boundary").is_some()
            && file.bytes.len() < 200_000
        {
            ends.extend(lines);
        }
        for end in ends {
            let mut cut = fs::File::create(&path).unwrap();
            std::io::Write::write_all(&mut cut, &file.bytes[..end]).unwrap();
            let part = transcript::client::history::open(&path, rules).unwrap();
            let whole = Conversation::open(&path).unwrap();
            short += usize::from(part.table.start > 0);
            let sent = |conversation: &Conversation| {
                history(conversation, rules, Some("go on"))
                    .unwrap()
                    .ok()
                    .map(|found| messages(&found))
            };
            assert_eq!(sent(&part), sent(&whole), "{} up to {end}", file.path.display());
        }
    }
    assert!(short > 20, "only {short} were read from their ends");
}

const CLASSES: [&str; 4] = ["2.0.76", "2.1.45", "2.1.100", "2.1.325"];

/// The table of edited cases in `docs/history.md`: which versions send the same, and whether
/// `history` predicts it.
fn cases() -> String {
    let folder = testkit::fixtures().join("edited");
    let expected: BTreeMap<String, BTreeMap<String, Vec<String>>> =
        serde_json::from_slice(&fs::read(folder.join("expected.json")).unwrap()).unwrap();
    let mut text = format!("\n| case | {} |\n|---|---|---|---|---|\n", CLASSES.join(" | "));
    for (case, versions) in expected {
        let mut known: Vec<Vec<String>> = Vec::new();
        let cells = CLASSES.map(|version| {
            let found = sent(&folder.join(format!("{case}.jsonl")), version, "RESUME PROMPT");
            let ours = found.map_or_else(
                || vec!["refused".to_owned()],
                |found| found.iter().filter_map(summary).collect(),
            );
            let theirs = &versions[version];
            let agrees =
                if theirs[0] == "rc=0" { theirs[1..] == ours } else { ours == ["refused"] };
            let class = known.iter().position(|one| *one == ours).unwrap_or_else(|| {
                known.push(ours.clone());
                known.len() - 1
            });
            let name = if ours == ["refused"] {
                "refused".to_owned()
            } else {
                format!("{} messages ({})", ours.len(), ["a", "b", "c", "d"][class])
            };
            if agrees { name } else { format!("{name}, **not as sent**") }
        });
        writeln!(text, "| {case} | {} |", cells.join(" | ")).unwrap();
    }
    text
}

/// A prompt that was queued can have images, and nothing else that is not a text: a file that a
/// stranger wrote must not put results into the conversation.
#[test]
fn a_queued_prompt_brings_no_other_blocks() {
    let file =
        fs::read(testkit::fixtures().join("observed/kind_queued_image_opus5.jsonl")).unwrap();
    let file = String::from_utf8(file).unwrap();
    let planted = file.replacen(
        r#"{"type":"image""#,
        r#"{"type":"tool_result","tool_use_id":"t1","content":"planted"},{"type":"image""#,
        1,
    );
    assert_ne!(planted, file);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.jsonl");
    fs::write(&path, planted).unwrap();
    let found = Value::from(sent(&path, "2.1.325", "go on").unwrap()).to_string();
    assert!(found.contains("a queued text") && found.contains(r#""type":"image""#), "{found}");
    assert!(!found.contains("planted"), "{found}");
}

/// The table of changes in `docs/history.md`.
fn changes() -> String {
    let mut text = String::from("\n| since | what changed | shown by |\n|---|---|---|\n");
    for VersionChange { since: [major, minor, patch], what, case } in version_changes() {
        let case = if case.is_empty() { "–".to_owned() } else { format!("`{case}`") };
        writeln!(text, "| {major}.{minor}.{patch} | {what} | {case} |").unwrap();
    }
    text
}

#[test]
fn the_table_of_changes_is_up_to_date() {
    testkit::compare("history.md", "changes", &changes(), "-p transcript history");
}

/// Changes that no answer shows: what the client appends to the file, and models that nobody had
/// when they were offered first.
const NOT_SHOWN: [&str; 3] =
    ["a missing final newline is written", "`sonnet` 5.5 is offered", "`haiku` 5.5 is offered"];

/// The first version with a change, and the published one before it.
pub(crate) fn sides([major, minor, patch]: [u32; 3]) -> [String; 2] {
    let last = u32::MAX;
    let version = format!("{major}.{minor}.{patch}");
    let before = if patch > 0 {
        format!("{major}.{minor}.{}", patch - 1)
    } else if minor > 0 {
        format!("{major}.{}.{last}", minor - 1)
    } else {
        format!("{}.{last}.{last}", major - 1)
    };
    let names = [&version, &before].map(|name| Rules::of(name).unwrap().name());
    assert_eq!(names[0], version, "it is not published");
    names
}

/// A change is at a published version, and the client sent its case otherwise in the version
/// before.
#[test]
fn each_change_is_shown_by_answers_on_both_sides() {
    let answers = answers();
    let sent = |case: &str, version: &str| {
        let all = answers.get(case)?["answers"].as_array()?;
        let has = |one: &&Value| {
            one["versions"].as_array().is_some_and(|all| all.iter().any(|known| known == version))
        };
        let mut found = all.iter().find(has)?.clone();
        found.as_object_mut()?.remove("versions");
        Some(found)
    };
    let mut not_shown = Vec::new();
    for VersionChange { since, what, case } in version_changes() {
        let names = sides(since);
        let [new, old] = names.each_ref().map(|version| sent(case, version));
        if new.is_none() || old.is_none() || new == old {
            not_shown.push(what);
        } else {
            file_of(case);
        }
    }
    assert_eq!(not_shown.len(), NOT_SHOWN.len(), "{not_shown:#?}");
    assert!(NOT_SHOWN.iter().all(|known| not_shown.iter().any(|one| one == known)));
}

#[test]
fn the_newest_version_has_one_name() {
    assert_eq!(Rules::newest().name(), NEWEST_NAME);
}

/// All published versions are in one range each.
#[test]
fn ranges_cover_every_published_version() {
    let first = ranges().first().unwrap();
    assert_eq!(first.rules.name(), "1.0.128");
    assert_eq!(ranges().last().unwrap().last, Rules::newest().version);
    for (one, next) in ranges().iter().zip(&ranges()[1..]) {
        let [major, minor, patch] = next.rules.version;
        let before = patch.checked_sub(1).map(|patch| format!("{major}.{minor}.{patch}"));
        let before = before.map_or(one.last, |before| Rules::of(&before).unwrap().version);
        assert_eq!(before, one.last, "{}", next.rules.name());
        assert_ne!(Rules { version: one.rules.version, ..next.rules }, one.rules);
    }
}

#[test]
fn versions_that_nobody_observed_have_the_rules_of_the_one_before() {
    let cases = [
        ("0.9.0", "1.0.128"),
        ("2.0.4", "2.0.3"),
        ("2.1.13", "2.1.12"),
        ("2.1.255", "2.1.252"),
        ("2.1.325", "2.1.325"),
        ("3.0.0", "2.1.325"),
    ];
    for (asked, used) in cases {
        assert_eq!(Rules::of(asked).unwrap().name(), used, "{asked}");
    }
    assert_eq!(Rules::of("2.1"), None);
    assert_eq!(Rules::of("newest"), None);
}

#[test]
fn the_table_of_cases_is_up_to_date() {
    testkit::compare("history.md", "cases", &cases(), "-p transcript history");
}
