//! What the console records of the interactive scenarios, beside what the real client recorded of
//! them: event by event, member by member. The table is `docs/console-table.md`
//! (`QUIPU_BLESS=1 ./test real` writes it).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::api::Reply;

use super::{Desk, call, calls, records, says, text};
use crate::chat::replies;
use crate::lab::{Lab, write};
use crate::resume::env;

const VERSIONS: [&str; 2] = ["2.1.45", "2.1.325"];

/// The scenarios, whose events of the conversation must be those of this version, and what only
/// the console records.
const SCENARIOS: [(&str, &str, &[&str]); 5] = [
    ("i_interactive", "2.1.45", &[]),
    // 2.1.45 keeps no record of a prompt that it takes along with a result.
    ("i_busy", "2.1.45", &["prompt `A queued message`"]),
    // 2.1.45 took the pasted `!` for a prompt.
    ("i_commands", "2.1.325", &[]),
    // The recording of 2.1.45 ends at the question whether the file may be written.
    ("i_plan", "2.1.325", &[]),
    ("i_rewind", "2.1.45", &[]),
];

/// Plays a scenario at the keyboard. Returns the sessions, in the order in which they began.
fn played(name: &str, folder: &Path) -> Option<Vec<Vec<Value>>> {
    let scenario = fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
    let scenario: Value = serde_json::from_str(&scenario).unwrap();
    let lab = Lab::new();
    let cwd = fs::canonicalize(lab.cwd()).unwrap();
    let mut replies = replies(&scenario, ("", cwd.to_str().unwrap()));
    let flags: &[&str] = match name {
        "i_plan" => &["--permission-mode", "plan"],
        _ => &["--dangerously-skip-permissions"],
    };
    match name {
        "i_busy" => {
            let tail = json!({"command": "tail -f README.md", "description": "Wait long"});
            // The message itself was taken along, so that the fourth answer is not asked for.
            replies.truncate(3);
            replies.extend([
                Reply::Silent(vec![text("This answer is cut short.")], 2, Duration::from_secs(8)),
                says("ANSWER-FOUR is here."),
                calls(&[text("Long tool."), call("toolu_0099", "Bash", &tail)]),
                says("ANSWER-FIVE is here."),
            ]);
        }
        "i_commands" => {
            replies.insert(3, says("<summary>\nSummary of the chat so far.\n</summary>"));
        }
        _ => {}
    }
    let desk = Desk::start(lab, replies, flags)?;
    match name {
        "i_interactive" => {
            desk.line("First prompt");
            desk.rest("FIRST-ANSWER", 1);
            desk.line("/cost");
            desk.wait("input");
            desk.line("Write a note");
            desk.rest("SECOND-ANSWER", 1);
            desk.line("/exit");
        }
        "i_busy" => busy(&desk),
        "i_commands" => commands(&desk),
        "i_plan" => {
            desk.line("Plan a note");
            desk.wait("Go on with this plan?");
            desk.answer("1");
            desk.rest("ANSWER-DONE", 1);
            desk.line("/exit");
        }
        _ => {
            desk.line("Prompt one");
            desk.rest("ANSWER-ONE", 1);
            desk.line("Prompt two, write a note");
            desk.rest("ANSWER-TWO", 1);
            desk.line("Prompt three, edit the note");
            desk.rest("ANSWER-THREE", 1);
            desk.line("/rewind");
            desk.wait("before which prompt?");
            desk.answer("1");
            desk.wait("What goes back?");
            desk.answer("1");
            desk.wait("the conversation goes on before this prompt");
            desk.until("the prompt", |screen| screen.contains("❯ Prompt three, edit the note"));
            desk.keys(&["C-u"]);
            desk.line("Prompt three again, other words");
            desk.rest("ANSWER-FOUR", 1);
            desk.line("/exit");
        }
    }
    desk.wait("left once 0");
    let files = fs::read_dir(desk.project()).unwrap().flatten().map(|entry| entry.path());
    let files = files.filter(|path| path.extension().is_some_and(|kind| kind == "jsonl"));
    Some(in_order(files.map(|path| records(&fs::read(path).unwrap())).collect()))
}

fn busy(desk: &Desk) {
    desk.line("Prompt one");
    desk.rest("ANSWER-ONE", 1);
    desk.line("Prompt two, slow");
    desk.wait("○ Bash(sleep 4");
    desk.line("A queued message");
    desk.rest("ANSWER-TWO", 1);
    desk.line("Prompt that will be interrupted");
    desk.wait("Esc stops");
    sleep(Duration::from_millis(700));
    desk.keys(&["Escape"]);
    desk.rest("interrupted", 2);
    desk.keys(&["C-u"]);
    desk.line("Prompt after the interrupt");
    desk.rest("ANSWER-FOUR", 1);
    desk.line("Prompt with a long tool");
    desk.wait("○ Bash(tail -f");
    sleep(Duration::from_millis(700));
    desk.keys(&["Escape"]);
    desk.rest("interrupted", 3);
    desk.line("Prompt after the tool interrupt");
    desk.rest("ANSWER-FIVE", 1);
    desk.line("/exit");
}

fn commands(desk: &Desk) {
    desk.line("Prompt one");
    desk.rest("ANSWER-ONE", 1);
    desk.line("/cost");
    desk.wait("input");
    desk.line("/rename my lab session");
    desk.wait("is called");
    desk.line("! echo shell mode");
    desk.rest("ANSWER-TWO", 1);
    desk.line("Prompt two");
    desk.rest("ANSWER-THREE", 1);
    desk.line("/compact");
    desk.rest("summarised:", 1);
    desk.line("Prompt three");
    desk.rest("ANSWER-FOUR", 1);
    desk.line("/model sonnet");
    desk.wait("from the next prompt on");
    // The fourth prompt went to a list of models in the recording, and was not sent.
    desk.line("/clear");
    desk.until("a new session", |screen| screen.matches("lists the keys").count() == 2);
    desk.line("Prompt five, after clear");
    desk.rest("ANSWER-FIVE", 1);
    desk.line("/exit");
}

/// What the real client recorded.
fn recorded(folder: &Path) -> Vec<Vec<Value>> {
    let files = testkit::files_under(&[folder.join("projects")]);
    let files = files.iter().filter(|file| {
        let name = file.path.file_name().unwrap().to_string_lossy();
        !name.starts_with("agent-") && name.ends_with(".jsonl")
    });
    in_order(files.map(|file| records(&file.bytes)).collect())
}

/// Sessions by the time of their first record, records by their times.
fn in_order(mut sessions: Vec<Vec<Value>>) -> Vec<Vec<Value>> {
    let time = |record: &Value| record["timestamp"].as_str().map(str::to_owned);
    for records in &mut sessions {
        // Records without a time stay where they are.
        let mut now = String::new();
        let mut timed: Vec<(String, Value)> = Vec::new();
        for record in records.drain(..) {
            now = time(&record).unwrap_or(now);
            timed.push((now.clone(), record));
        }
        timed.sort_by(|one, other| one.0.cmp(&other.0));
        records.extend(timed.into_iter().map(|(_, record)| record));
    }
    sessions.sort_by_key(|records| records.iter().find_map(time));
    sessions
}

/// What a record is: its kind, and the same with the words that tell it from others.
fn event(record: &Value, tools: &mut BTreeMap<String, String>) -> (String, String) {
    let same = |kind: &str| (kind.to_owned(), kind.to_owned());
    let kind = record["type"].as_str().unwrap_or_default();
    let content = &record["message"]["content"];
    let first = &content[0];
    // What the client says in the user's place comes first.
    let texts = content.as_array().into_iter().flatten().filter_map(|block| block["text"].as_str());
    let mut texts = texts.skip_while(|text| text.starts_with("<system-reminder>"));
    let words = content.as_str().or_else(|| texts.next()).unwrap_or_default();
    match kind {
        "assistant" if first["type"] == "tool_use" => {
            let name = first["name"].as_str().unwrap_or_default().to_owned();
            tools.insert(first["id"].to_string(), name.clone());
            ("call".to_owned(), format!("call {name}"))
        }
        "assistant" => ("text".to_owned(), format!("text `{words}`")),
        "user" if first["type"] == "tool_result" => {
            let name = tools.get(&first["tool_use_id"].to_string()).cloned().unwrap_or_default();
            let failed = if first["is_error"] == true { ", failed" } else { "" };
            ("result".to_owned(), format!("result of {name}{failed}"))
        }
        "user" => {
            let starts = |start: &str| words.starts_with(start);
            if starts("<local-command-") || starts("<command-name>") {
                same("local command")
            } else if starts("<bash-input>") {
                same("bash-input")
            } else if starts("<bash-stdout>") {
                same("bash-stdout")
            } else if starts("[Request interrupted") {
                ("interruption".to_owned(), format!("interruption `{words}`"))
            } else if record["isCompactSummary"] == true {
                same("summary")
            } else if record["isMeta"] == true {
                same("meta")
            } else {
                ("prompt".to_owned(), format!("prompt `{words}`"))
            }
        }
        "system" if record["subtype"] == "local_command" => same("local command"),
        "system" => same(record["subtype"].as_str().unwrap_or_default()),
        "progress" => {
            let what = record["data"]["type"].as_str().unwrap_or_default();
            (format!("progress {what}"), format!("progress {what}"))
        }
        "queue-operation" => {
            let what = record["operation"].as_str().unwrap_or_default();
            ("queue-operation".to_owned(), format!("queue-operation {what}"))
        }
        "attachment" => {
            let what = record["attachment"]["type"].as_str().unwrap_or_default();
            (format!("attachment {what}"), format!("attachment {what}"))
        }
        kind => same(kind),
    }
}

/// The kinds of which a conversation consists.
const CONVERSATION: [&str; 9] = [
    "prompt",
    "text",
    "call",
    "result",
    "interruption",
    "summary",
    "compact_boundary",
    "bash-input",
    "bash-stdout",
];

/// What somebody recorded of a scenario.
struct Side {
    /// Every event, how often.
    events: BTreeMap<String, usize>,
    /// Those of the conversation, in order.
    conversation: Vec<String>,
    /// The members of each kind of record.
    members: BTreeMap<String, BTreeSet<String>>,
}

fn side(sessions: &[Vec<Value>]) -> Side {
    let mut side =
        Side { events: BTreeMap::new(), conversation: Vec::new(), members: BTreeMap::new() };
    let mut tools = BTreeMap::new();
    for record in sessions.iter().flatten() {
        let (kind, event) = event(record, &mut tools);
        if CONVERSATION.contains(&kind.as_str()) {
            side.conversation.push(event.clone());
        }
        *side.events.entry(event).or_default() += 1;
        let members = record.as_object().into_iter().flatten().map(|(name, _)| name.clone());
        side.members.entry(kind).or_default().extend(members);
    }
    // A summary may be older than the boundary that it stands behind.
    for at in 1..side.conversation.len() {
        if side.conversation[at] == "compact_boundary" && side.conversation[at - 1] == "summary" {
            side.conversation.swap(at - 1, at);
        }
    }
    side
}

/// The events of all sides, with how often each is there.
fn table(name: &str, sides: &[&Side]) -> String {
    let mut out =
        format!("\n## `{name}`\n\n| event | 2.1.45 | 2.1.325 | quipu |\n|---|--:|--:|--:|\n");
    let all: BTreeSet<&String> = sides.iter().flat_map(|side| side.events.keys()).collect();
    for event in all {
        // How often something is noted beside the conversation depends on the time.
        let is_counted = sides.iter().any(|side| side.conversation.contains(event));
        let count = |side: &&Side| match side.events.get(event) {
            None => "–".to_owned(),
            Some(count) if is_counted => count.to_string(),
            Some(_) => "yes".to_owned(),
        };
        let counts: Vec<String> = sides.iter().map(count).collect();
        writeln!(out, "| {} | {} |", event.replace('|', "\\|"), counts.join(" | ")).unwrap();
    }
    out
}

/// The members of each kind that both have, and those that only one has.
fn member_table(ours: &[Side], theirs: &[Side]) -> String {
    let merged = |sides: &[Side]| {
        let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (kind, members) in sides.iter().flat_map(|side| &side.members) {
            all.entry(kind.clone()).or_default().extend(members.iter().cloned());
        }
        all
    };
    let (ours, theirs) = (merged(ours), merged(theirs));
    let mut out =
        "\n## Members\n\nOf the records that both 2.1.45 and quipu write in these scenarios.\n\n\
        | record | in both | only 2.1.45 | only quipu |\n|---|---|---|---|\n"
            .to_owned();
    for (kind, members) in &ours {
        let Some(others) = theirs.get(kind) else { continue };
        let list = |names: Vec<&String>| {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            if names.is_empty() { "–".to_owned() } else { names.join(", ") }
        };
        writeln!(
            out,
            "| {kind} | {} | {} | {} |",
            list(members.intersection(others).collect()),
            list(others.difference(members).collect()),
            list(members.difference(others).collect())
        )
        .unwrap();
    }
    out
}

#[test]
fn the_same_events_are_recorded() {
    let (Some(scenarios), Some(recordings)) =
        (testkit::shared("lab/scenarios"), testkit::shared("recordings"))
    else {
        assert_ne!(env("CI").as_deref(), Some("true"), "there are no scenarios");
        return;
    };
    let mut page = "# What the console records\n\nMade by `QUIPU_BLESS=1 ./test real`: the same interactive scenarios, typed into Claude Code and into\n\
        `quipu chat`; how often each event of the conversation is in the transcript, and what else is there.\n\
        Why they differ is in [agent.md](agent.md#console).\n"
        .to_owned();
    let (mut wrong, mut all_ours, mut all_theirs) = (Vec::new(), Vec::new(), Vec::new());
    for (name, reference, more) in SCENARIOS {
        let Some(ours) = played(name, &scenarios) else {
            assert!(!testkit::is_ci(), "there is no tmux");
            println!("left out: there is no tmux");
            return;
        };
        let ours = side(&ours);
        let mut theirs: Vec<Side> = VERSIONS
            .iter()
            .map(|version| side(&recorded(&recordings.join(version).join(name))))
            .collect();
        page += &table(name, &[&theirs[0], &theirs[1], &ours]);
        let at = VERSIONS.iter().position(|version| *version == reference).unwrap();
        let wanted = &theirs[at].conversation;
        let found: Vec<String> = ours
            .conversation
            .iter()
            .filter(|event| !more.contains(&event.as_str()))
            .cloned()
            .collect();
        if *wanted != found || found.len() + more.len() != ours.conversation.len() {
            wrong.push(format!(
                "{name}:\n  {reference} {wanted:#?}\n  quipu {:#?}",
                ours.conversation
            ));
        }
        println!("{name}: {} events of the conversation as {reference}", found.len());
        all_theirs.push(theirs.swap_remove(0));
        all_ours.push(ours);
    }
    page += &member_table(&all_ours, &all_theirs);
    let place = testkit::root().join("docs/console-table.md");
    if env("QUIPU_BLESS").is_some() {
        write(&place, &page);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let before = fs::read_to_string(place).unwrap_or_default();
    assert_eq!(before, page, "with `QUIPU_BLESS=1` it is written anew");
}
