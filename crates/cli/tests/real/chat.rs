//! Both ways: what our agent records the real client resumes, and what the real client recorded our
//! agent resumes.
//!
//! The scenarios are those of the laboratory that concern what the agent does by now. The table is
//! `docs/agent-table.md` (`QUIPU_BLESS=1 ./test real` writes it).

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use testkit::api::{Reply, Server};
use transcript::conversation::place::slug;

use crate::lab::{Lab, clients, write};
use crate::resume::{SESSION, difference, difference_in_speech, env, predicted, resumed};

const SCENARIOS: [&str; 17] = [
    "a_text",
    "b_read",
    "c_tools",
    "d_parallel",
    "e_agent",
    "f_resume",
    "g_auto",
    "g_compact",
    "h_auth401",
    "h_final400",
    "h_final529",
    "h_rate429",
    "h_retry",
    "j_large",
    "k_hooks",
    "l_streamjson",
    "m_memory",
];
/// What the original's order of a summary contains, and what ours does.
const ORDERS: [&str; 2] = ["detailed summary", "is about to be replaced by a summary"];

pub(crate) fn ours() -> Vec<PathBuf> {
    vec![env!("CARGO_BIN_EXE_quipu").into(), "chat".into()]
}

/// The rules of a scenario: what a request contains, and the replies to it.
fn rules(scenario: &Value, cwd: &str) -> Vec<(String, Vec<Reply>)> {
    let rules = scenario["rules"].as_array().into_iter().flatten().enumerate();
    let rule = |(number, rule): (usize, &Value)| {
        let wanted = rule["match"]["last_user_contains"].as_str().unwrap();
        let replies = replies(rule, (&format!("rule{number}"), cwd));
        let times = if rule["loop"] == true { 9 } else { 1 };
        (wanted.replace(ORDERS[0], ORDERS[1]), vec![replies; times].concat())
    };
    rules.map(rule).collect()
}

/// The replies of a scenario, or of one of its rules.
pub(crate) fn replies(scenario: &Value, (name, cwd): (&str, &str)) -> Vec<Reply> {
    let mut all = Vec::new();
    let mut calls = 0;
    for reply in scenario["replies"].as_array().unwrap() {
        let times = reply["repeat"].as_u64().unwrap_or(1);
        for _ in 0..times {
            if let Some(error) = reply["error"].as_object() {
                let headers =
                    error.get("headers").and_then(Value::as_object).cloned().unwrap_or_default();
                let line = |(name, value): (&String, &Value)| {
                    format!(
                        "{name}: {}\r\n",
                        value.as_str().map_or(value.to_string(), str::to_owned)
                    )
                };
                let body = json!({"type": "error", "error": {"type": error["type"], "message": error["message"]}});
                let status = u16::try_from(error["status"].as_u64().unwrap()).unwrap();
                all.push(Reply::Status(
                    status,
                    headers.iter().map(line).collect(),
                    body.to_string(),
                ));
                continue;
            }
            let text = reply["content"].to_string().replace("${CWD}", cwd);
            let text = text.replace("${AGENT_TOOL}", "Task");
            let mut blocks: Vec<Value> = serde_json::from_str(&text).unwrap();
            for block in blocks.iter_mut().filter(|block| block["type"] == "tool_use") {
                calls += 1;
                block["id"] = json!(format!("toolu_{name}{calls:04}"));
            }
            let cached = reply["usage"]["cache_read_input_tokens"].as_u64().unwrap_or(0);
            all.push(Reply::Full(blocks, cached));
        }
    }
    all
}

/// The sessions that our agent makes of a scenario.
fn recorded(name: &str, folder: &Path) -> Vec<Vec<u8>> {
    let text = fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
    let scenario: Value = serde_json::from_str(&text).unwrap();
    let lab = Lab::new();
    fs::create_dir_all(lab.cwd().join("src")).unwrap();
    write(&lab.cwd().join("src/widget.py"), "def count(items):\n    return len(items)\n");
    write(&lab.cwd().join("src/util.py"), "def twice(n):\n    return n * 2\n");
    let cwd = fs::canonicalize(lab.cwd()).unwrap();
    let settings = &scenario["settings"];
    if settings.is_object() {
        write(&lab.home().join(".claude/settings.json"), settings.to_string());
    }
    for (name, text) in scenario["files"].as_object().into_iter().flatten() {
        let path = lab.cwd().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        write(&path, text.as_str().unwrap_or_default());
    }
    let here = cwd.to_str().unwrap();
    let main = replies(&scenario, ("", here));
    let server = Server::play_by(rules(&scenario, here), main).unwrap();
    let project = lab.home().join(".claude/projects").join(slug(&cwd.to_string_lossy()));
    let newest = || {
        let files =
            fs::read_dir(&project).into_iter().flatten().flatten().map(|entry| entry.path());
        let files = files.filter(|path| path.extension().is_some_and(|kind| kind == "jsonl"));
        files.max_by_key(|path| fs::metadata(path).unwrap().modified().unwrap())
    };
    for step in scenario["steps"].as_array().unwrap() {
        let session =
            newest().and_then(|path| Some(path.file_stem()?.to_string_lossy().into_owned()));
        let args = step["args"].as_array().cloned().unwrap_or_default();
        let mut args: Vec<String> =
            args.iter().map(|arg| arg.as_str().unwrap().to_owned()).collect();
        for arg in args.iter_mut().filter(|arg| *arg == "${SESSION}") {
            *arg = session.clone().unwrap();
        }
        args.push(step["prompt"].as_str().unwrap().to_owned());
        // The folder is the user's own: its commands count.
        args.push("--trust".to_owned());
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        lab.try_run(&ours(), &server, &args);
    }
    let files = fs::read_dir(&project).unwrap().flatten().map(|entry| entry.path());
    let files = files.filter(|path| path.extension().is_some_and(|kind| kind == "jsonl"));
    files.map(|path| fs::read(path).unwrap()).collect()
}

/// What `quipu check` finds in a session of ours.
pub(crate) fn findings(bytes: &[u8]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("{SESSION}.jsonl"));
    write(&path, bytes);
    let mut found = Vec::new();
    for version in ["2.1.45", "2.1.325"] {
        let args = ["check", path.to_str().unwrap(), "--as", version, "--json"];
        let output = Command::new(env!("CARGO_BIN_EXE_quipu")).args(args).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let codes = report["findings"].as_array().unwrap();
        // One file is looked at alone: a session without its sub-agents, or a sub-agent, which no
        // client resumes.
        let codes = codes.iter().filter(|finding| {
            let is_agents = finding["text"].as_str().is_some_and(|text| text.contains("sub-agent"));
            !(is_agents
                && ["call-without-agent", "no-conversation"]
                    .contains(&finding["code"].as_str().unwrap_or("")))
        });
        found.extend(codes.map(|finding| format!("{version}: {finding}")));
    }
    found
}

/// Whether a client sends of our sessions what we say; nothing if there is something else.
pub(crate) fn resumes(version: &str, start: &[PathBuf], sessions: &[Vec<u8>]) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    sessions.iter().find_map(|bytes| {
        let path = folder.path().join(format!("{SESSION}.jsonl"));
        write(&path, bytes);
        match (resumed(start, bytes), predicted(&path, version)) {
            (Some(sent), Some(ours)) => difference(bytes, &sent, &ours),
            (sent, _) => Some(format!(
                "the client {}",
                if sent.is_some() { "resumes it" } else { "sends nothing" }
            )),
        }
    })
}

/// Whether our agent sends of what a client recorded what the newest client sends of it.
fn goes_on(newest: &[PathBuf], folder: &Path) -> Option<String> {
    let files = testkit::files_under(&[folder.join("projects")]);
    let sessions = files.iter().filter(|file| {
        let name = file.path.file_name().unwrap().to_string_lossy();
        !name.starts_with("agent-") && name.ends_with(".jsonl")
    });
    sessions.into_iter().find_map(|file| {
        match (resumed(newest, &file.bytes), resumed(&ours(), &file.bytes)) {
            (Some(sent), Some(ours)) => difference_in_speech(&sent, &ours),
            (None, None) => None,
            (sent, _) => Some(format!(
                "only {} goes on",
                if sent.is_some() { "the client" } else { "our agent" }
            )),
        }
    })
}

/// Our agent goes on with recorded sessions as the newest client does. `known` has what stands in
/// the difference of one that is known to differ.
pub(crate) fn recorded_go_on<'a>(
    recorded: &[(&str, &'a str, &'a str)],
    known: impl Fn(&str, &str) -> Option<&'static str>,
) {
    let clients = clients();
    let number = |version: &str| -> Vec<u32> {
        version.split('.').map(|part| part.parse().unwrap()).collect()
    };
    let (_, newest) = clients.iter().max_by_key(|(version, _)| number(version)).unwrap();
    let mut wrong = Vec::new();
    for (folder, version, name) in recorded {
        let Some(place) = testkit::shared(folder) else {
            println!("left out: there is no {folder}");
            continue;
        };
        let found = goes_on(newest, &place.join(version).join(name));
        println!("{version} {name}: {}", if found.is_none() { "same" } else { "other" });
        if let Some(known) = known(version, name) {
            println!("  known to differ: {known}");
            let is_known = found.as_ref().is_some_and(|found| found.contains(known));
            assert!(is_known, "{version} {name} is no longer as known: {found:?}");
            continue;
        }
        wrong.extend(found.map(|found| format!("{version} {name}: {found}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn sessions_go_both_ways() {
    let (Some(scenarios), Some(recordings)) =
        (testkit::shared("lab/scenarios"), testkit::shared("recordings"))
    else {
        assert_ne!(env("CI").as_deref(), Some("true"), "there are no scenarios");
        return;
    };
    let clients = clients();
    let number = |version: &str| -> Vec<u32> {
        version.split('.').map(|part| part.parse().unwrap()).collect()
    };
    let (_, newest) = clients.iter().max_by_key(|(version, _)| number(version)).unwrap();
    let mut table = "# Sessions both ways\n\nMade by `QUIPU_BLESS=1 ./test real`. *Ours → version*: our agent records the scenario, the real\n\
        client resumes what it wrote and sends what `quipu history` says. *Version → ours*: the real client\n\
        recorded it, and our agent resumes it and sends what the newest real client sends of the same file\n\
        (reminders that are made anew are left out on both sides).\n\n| scenario |"
        .to_owned();
    let versions: Vec<&str> = clients.iter().map(|(version, _)| version.as_str()).collect();
    for version in &versions {
        write!(table, " ours → {version} |").unwrap();
    }
    for version in &versions {
        write!(table, " {version} → ours |").unwrap();
    }
    writeln!(table, "\n|---|{}", "---|".repeat(2 * versions.len())).unwrap();
    let mut wrong = Vec::new();
    for name in SCENARIOS {
        let sessions = recorded(name, &scenarios);
        let mut cells = Vec::new();
        for (version, start) in &clients {
            cells.push((format!("ours → {version}"), resumes(version, start, &sessions)));
        }
        for version in &versions {
            // The newest is summed up later: its model has a larger window.
            let folder = recordings.join(version);
            let names = [name.to_owned(), format!("{name}_1m")];
            let folder = names.iter().map(|name| folder.join(name)).find(|folder| folder.is_dir());
            let folder = folder.unwrap_or_else(|| panic!("{version} has no {name}"));
            cells.push((format!("{version} → ours"), goes_on(newest, &folder)));
        }
        write!(table, "| {name} |").unwrap();
        for (cell, found) in cells {
            table.push_str(if found.is_none() { " same |" } else { " **other** |" });
            wrong.extend(found.map(|found| format!("{name}, {cell}: {found}")));
        }
        table.push('\n');
    }
    let place = testkit::root().join("docs/agent-table.md");
    if env("QUIPU_BLESS").is_some() {
        write(&place, &table);
    }
    println!(
        "{} of {} ways agree",
        SCENARIOS.len() * 2 * versions.len() - wrong.len(),
        SCENARIOS.len() * 2 * versions.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(
        fs::read_to_string(place).unwrap_or_default(),
        table,
        "with `QUIPU_BLESS=1` it is written anew"
    );
}
