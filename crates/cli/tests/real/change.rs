//! Changed sessions in the real client: it resumes them, and sends what we said that it would.
//!
//! One session of each recorded version and ten of the corpus, every change, in one of the clients
//! in turn. With `QUIPU_FULL` all recordings and thirty of the corpus, every change in every
//! client: the table in `docs/surgery-table.md`. `QUIPU_CHANGES=merge,redact` tries only these, and
//! the other columns of the table stay; `QUIPU_SESSIONS=x_cont,i_plan` tries only
//! sessions with such names, and the other rows stay.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use serde_json::Value;
use transcript::conversation::place::slug;

use crate::lab::{Lab, clients, write};
use crate::resume::{SESSION, difference, env, predicted, resumed_in};

/// The changes, by name and arguments.
const CHANGES: [(&str, &[&str]); 16] = [
    ("clone", &["clone"]),
    ("fork", &["fork", "--at", "1"]),
    ("light", &["strip", "--preset", "light"]),
    ("heavy", &["strip", "--preset", "heavy", "--older-than", "0"]),
    ("extreme", &["strip", "--preset", "extreme"]),
    ("repair", &["repair"]),
    ("compress", &["compress", "--to", "500", "--keep-turns", "1"]),
    ("uncompress", &["uncompress"]),
    ("drop", &["drop", "1"]),
    ("edit", &["edit", "--plan"]),
    ("split", &["split", "--at", "2"]),
    ("merge", &["merge", OTHER]),
    ("redact", &["redact"]),
    // These only in a short run: there is not so much time.
    ("uncompress turns", &["uncompress", "--turns", "1"]),
    ("Read", &["strip", "--calls", "--tool", "Read"]),
    ("thinking", &["strip", "--thinking"]),
];

/// The same session again, with another id.
const OTHER: &str = "11111111-2222-4333-8444-666666666666";

/// What is known to be sent otherwise than predicted: a session, a change (none: all of them), and
/// why, as far as that is known.
const KNOWN: [[&str; 3]; 6] = [
    [
        "entire_checkpoints_10_a43de255ff10/0/full.jsonl",
        "merge",
        "its lines are not in the order of the conversation, and neither are the copied ones: the client \
         sends the prompt with the last result, and no answer in between",
    ],
    [
        "2.1.325/g_auto_1m/projects/-home-dev-demo/66581982-0105-4f1b-a0e4-f5a42192cbed.jsonl",
        "",
        "behind the call that a compaction kept, 2.1.325 puts a reminder into the result that says of \
         itself that it was beside it",
    ],
    [
        "2.1.325/j_large/projects/-home-dev-demo/321ff992-02c6-49d8-9425-befaf422121f.jsonl",
        "merge",
        "not understood: 2.1.325 sends a note of the copied turns that it does not send otherwise",
    ],
    [
        "entire_checkpoints_71_ff2dea56ec71/0/full.jsonl",
        "merge",
        "the last result stands before the attachment that it hangs on: the client sends the prompt \
         with it, and no answer in between",
    ],
    [
        "2.0.42/g_compact/projects/-home-dev-demo/d3192650-73bc-46c0-91fa-44050cfb1e79.jsonl",
        "merge",
        "full for 2.1.325, by whose rules it is judged; for 2.1.45 the copied turns lose something",
    ],
    [
        "entire_checkpoints_v1/9f/d2fc39aa5f/0/full.jsonl",
        "merge",
        "full for 2.1.325, by whose rules it is judged; for 2.1.45 the copied turns lose something",
    ],
];

/// How many of them a full run makes.
const FULL: usize = 13;

/// What is to be redacted.
const KEY: &str = "ghp_Zq8Rk2Tn5Wc7Lx0Vb3Hm6Jd9Gp1Fs4Yt0aB2";

/// Longer sessions take longer, and show nothing else.
const LONGEST: usize = 400_000;

/// How many sessions of the corpus are changed, in a short run and in a full one.
const CORPUS: [usize; 2] = [10, 30];

pub(crate) struct Source {
    pub(crate) name: String,
    group: String,
    pub(crate) bytes: Vec<u8>,
    folder: PathBuf,
}

/// What became of a change in a client.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    /// The client sends what was predicted.
    Sent(String),
    /// There was nothing to change, or nothing would be left.
    Nothing,
    /// It would resume less well, so nothing was written.
    Declined,
    /// The client does not resume it, as was predicted, and did not before.
    Refused,
    Wrong(String),
}

impl Outcome {
    fn cell(&self) -> &str {
        match self {
            Outcome::Sent(verdicts) => verdicts,
            Outcome::Nothing => "–",
            Outcome::Declined => "declined",
            Outcome::Refused => "refused",
            Outcome::Wrong(_) => "WRONG",
        }
    }
}

pub(crate) fn sources(full: bool) -> Vec<Source> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut groups: BTreeMap<String, usize> = BTreeMap::new();
    for top in ["recordings", "corpus"] {
        let Some(folder) = testkit::shared(top) else {
            assert_ne!(env("CI").as_deref(), Some("true"), "there are no {top} to change");
            continue;
        };
        let mut files = testkit::files_under(std::slice::from_ref(&folder));
        // Those that do most come first.
        files.sort_by_key(|file| std::cmp::Reverse(file.bytes.len().min(60_000)));
        for file in files {
            let name = file.path.file_name().unwrap().to_string_lossy().into_owned();
            let below = file.path.strip_prefix(&folder).unwrap().display().to_string();
            if name.starts_with("agent-")
                || file.bytes.is_empty()
                || file.bytes.len() > LONGEST
                || !seen.insert(file.bytes.clone())
            {
                continue;
            }
            let first = below.split('/').next().unwrap().to_owned();
            let group = if top == "corpus" { "corpus".to_owned() } else { first };
            let count = groups.entry(group.clone()).or_default();
            *count += 1;
            // Those made by hand are no recordings.
            let most = match (top, group.as_str()) {
                ("corpus", _) => CORPUS[usize::from(full)],
                (_, "edited") => 1,
                _ => {
                    if full {
                        usize::MAX
                    } else {
                        1
                    }
                }
            };
            if *count <= most {
                let folder = file.path.parent().unwrap().to_owned();
                found.push(Source { name: below, group, bytes: file.bytes, folder });
            }
        }
    }
    found.sort_by(|one, other| (&one.group, &one.name).cmp(&(&other.group, &other.name)));
    found
}

pub(crate) fn quipu(lab: &Lab, args: &[&str]) -> (Option<i32>, Value) {
    let output = Command::new(env!("CARGO_BIN_EXE_quipu"))
        .args(["--home", lab.home().join(".claude").to_str().unwrap()])
        .args(args)
        .env_clear()
        .env("HOME", lab.home())
        .output()
        .unwrap();
    // Of two sessions, the second.
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    (output.status.code(), serde_json::from_str(last).unwrap_or(Value::Null))
}

/// A session with a secret in its prompts, its texts and its thinking.
fn planted(session: &[u8]) -> Vec<u8> {
    let mut text = String::from_utf8_lossy(session).into_owned();
    for before in
        ["\"role\":\"user\",\"content\":\"", "\"type\":\"text\",\"text\":\"", "\"thinking\":\""]
    {
        text = text.replace(before, &format!("{before}{KEY} "));
    }
    text.into_bytes()
}

/// Changes a session as a user would, and lets the client go on with what came out.
fn tried(source: &Source, change: &[&str], version: &str, start: &[PathBuf]) -> Outcome {
    let lab = Lab::new();
    let project = lab.home().join(".claude/projects").join(slug(&lab.cwd().to_string_lossy()));
    fs::create_dir_all(&project).unwrap();
    let is_planted = change[0] == "redact";
    let bytes = if is_planted { planted(&source.bytes) } else { source.bytes.clone() };
    write(&project.join(format!("{SESSION}.jsonl")), bytes);
    let stem = source.name.trim_end_matches(".jsonl").rsplit('/').next().unwrap();
    testkit::copy_folder(&source.folder.join(stem), &project.join(SESSION)).unwrap();
    let mut args = change.to_vec();
    args.insert(1, SESSION);
    if change[0] == "repair" {
        args.extend(["--for", version]);
    }
    let plan = lab.home().join("plan.txt");
    if change[0] == "edit" {
        let (_, turns) = quipu(&lab, &["diff", SESSION, SESSION, "--json"]);
        write(&plan, edit_plan(turns["common"].as_u64().unwrap_or(0)));
        args.push(plan.to_str().unwrap());
    }
    if change[0] == "merge" {
        write(&project.join(format!("{OTHER}.jsonl")), &source.bytes);
    }
    args.push("--json");
    let (code, proof) = quipu(&lab, &args);
    let Some(session) = proof["session"].as_str() else {
        return match (change[0], code) {
            // Nothing to mend or to strip, nothing to go on with, or nothing that would be left.
            ("repair", Some(10..=12))
            | ("repair" | "strip" | "compress" | "redact", Some(0))
            | (_, Some(2 | 3)) => Outcome::Nothing,
            ("drop" | "edit" | "split" | "merge", Some(6)) => Outcome::Declined,
            other => Outcome::Wrong(format!("{other:?} {proof}")),
        };
    };
    let records = &proof["records"];
    let is_same = records["dropped"] == 0 && records["altered"] == 0 && records["added"] == 1;
    if is_same && change[0] != "clone" {
        return Outcome::Nothing;
    }
    let path = project.join(format!("{session}.jsonl"));
    let before = fs::read(&path).unwrap();
    let ours = predicted(&path, version);
    let sent = resumed_in(&lab, start, session);
    match (sent, ours) {
        (None, None) => Outcome::Refused,
        (Some(sent), Some(_))
            if is_planted && sent.iter().any(|one| one.to_string().contains(KEY)) =>
        {
            Outcome::Wrong("the client sends a secret".to_owned())
        }
        (Some(sent), Some(ours)) => match difference(&before, &sent, &ours) {
            None => verdicts(&lab, &path, version),
            Some(text) => Outcome::Wrong(text),
        },
        (sent, _) => Outcome::Wrong(format!(
            "the client {}",
            if sent.is_some() { "resumes it" } else { "sends nothing" }
        )),
    }
}

/// The verdict before and after, if it is not full both times.
fn verdicts(lab: &Lab, path: &Path, version: &str) -> Outcome {
    let of = |path: &str| {
        quipu(lab, &["check", path, "--as", version, "--json"]).1["verdict"]
            .as_str()
            .unwrap_or("?")
            .to_owned()
    };
    let before = of(path.with_file_name(format!("{SESSION}.jsonl")).to_str().unwrap());
    let after = of(path.to_str().unwrap());
    let order = ["full", "loss", "rejected", "refused"];
    let place = |verdict: &str| order.iter().position(|known| *known == verdict);
    if before == "full" && after == "full" {
        Outcome::Sent("ok".to_owned())
    } else if place(&after) > place(&before) {
        Outcome::Wrong(format!("it resumes less well: {before} → {after}"))
    } else {
        Outcome::Sent(format!("{before} → {after}"))
    }
}

/// Every verb in turn, with what each can follow.
fn edit_plan(turns: u64) -> String {
    let verb = |number: u64| match number % 5 {
        1 => format!("reword {number}: Something else, \\n please."),
        2 => format!("squash {number}"),
        3 => format!("strip {number}"),
        4 => format!("drop {number}"),
        _ => format!("keep {number}"),
    };
    (1..=turns).map(verb).collect::<Vec<_>>().join("\n")
}

#[test]
fn changed_sessions_are_sent_as_predicted() {
    let full = env("QUIPU_FULL").is_some();
    let sources = sources(full);
    let clients = clients();
    let changes = if full { FULL } else { CHANGES.len() };
    let only = env("QUIPU_CHANGES");
    let part_names = env("QUIPU_SESSIONS");
    let is_named = |source: usize| {
        let has = |part: &str| sources[source].name.contains(part);
        part_names.as_ref().is_none_or(|parts| parts.split(',').any(has))
    };
    let is_wanted = |change: usize| {
        only.as_ref().is_none_or(|only| only.split(',').any(|name| name == CHANGES[change].0))
    };
    let jobs: Vec<(usize, usize, usize)> = (0..sources.len())
        .flat_map(|source| (0..changes).map(move |change| (source, change)))
        .flat_map(|(source, change)| (0..clients.len()).map(move |client| (source, change, client)))
        // A client takes a second to start: in a short run the clients take turns, so that each
        // sees every change and every session.
        .filter(|(source, change, client)| full || (source + change) % clients.len() == *client)
        .filter(|(_, change, _)| is_wanted(*change))
        .filter(|(source, ..)| is_named(*source))
        .collect();
    let next = Mutex::new(jobs.iter());
    let found = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(job) = next.lock().unwrap().next() else { break };
                    let (version, start) = &clients[job.2];
                    let outcome = tried(&sources[job.0], CHANGES[job.1].1, version, start);
                    found.lock().unwrap().insert(*job, outcome);
                }
            });
        }
    });
    let found = found.into_inner().unwrap();
    let known = |source: usize, change: usize| {
        let is_it = |one: &&[&str; 3]| {
            sources[source].name.ends_with(one[0]) && ["", CHANGES[change].0].contains(&one[1])
        };
        KNOWN.iter().find(is_it)
    };
    let wrong: Vec<String> = found
        .iter()
        .filter_map(|((source, change, client), outcome)| match outcome {
            Outcome::Wrong(_) if known(*source, *change).is_some() => {
                let [name, change, reason] = known(*source, *change)?;
                let change = if change.is_empty() { "a change" } else { change };
                println!("known to differ: {change} of {name}: {reason}");
                None
            }
            Outcome::Wrong(text) => Some(format!(
                "{} {} in {}: {text}",
                sources[*source].name, CHANGES[*change].0, clients[*client].0
            )),
            _ => None,
        })
        .collect();
    let sent = found.values().filter(|outcome| matches!(outcome, Outcome::Sent(_))).count();
    let differ = found.values().filter(|outcome| matches!(outcome, Outcome::Wrong(_))).count();
    println!(
        "{sent} changed sessions of {} resumed as predicted, {} wrong, {} known to differ; {} were declined, \
         had nothing to change or to resume",
        sources.len(),
        wrong.len(),
        differ - wrong.len(),
        found.len() - sent - differ
    );
    if full {
        let names: Vec<String> = clients.iter().map(|(version, _)| version.clone()).collect();
        let path = testkit::root().join("docs/surgery-table.md");
        let is_part = only.is_some() || part_names.is_some();
        let before = if is_part { fs::read_to_string(&path).unwrap() } else { String::new() };
        write(&path, table(&sources, &names, &found, &cells(&before)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The cells of a table, by client, session and change.
fn cells(table: &str) -> BTreeMap<[String; 3], String> {
    let mut found = BTreeMap::new();
    let (mut client, mut changes) = (String::new(), Vec::new());
    for line in table.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            name.clone_into(&mut client);
        }
        let Some(row) = line.strip_prefix("| ") else { continue };
        let parts: Vec<String> =
            row.trim_end_matches(" |").split(" | ").map(str::to_owned).collect();
        if parts[0] == "session" {
            changes = parts[1..].to_vec();
            continue;
        }
        for (change, cell) in changes.iter().zip(&parts[1..]) {
            found.insert([client.clone(), parts[0].clone(), change.clone()], cell.clone());
        }
    }
    found
}

/// The table for the documents. What was not tried is as it was before.
fn table(
    sources: &[Source],
    clients: &[String],
    found: &BTreeMap<(usize, usize, usize), Outcome>,
    before: &BTreeMap<[String; 3], String>,
) -> String {
    let name = |source: usize| sources[source].name.replace("/projects/-home-dev-demo/", " ");
    let cell = |source: usize, change: usize, client: usize| {
        let key = [clients[client].clone(), name(source), CHANGES[change].0.to_owned()];
        let tried = found.get(&(source, change, client)).map(Outcome::cell);
        tried.or(before.get(&key).map(String::as_str)).unwrap_or_default().to_owned()
    };
    let mut text = String::from(
        "# Changed sessions in the real client\n\n\
        Made by `./test real --full`. Every session is changed as a user would (a new session beside it),\n\
        the result is resumed in the real client, and what that sends is compared with `quipu history`.\n\
        `ok`: sent as predicted, and it resumes fully, as before; `a → b`: sent as predicted, with the\n\
        verdicts before and after; `–`: nothing to change; `declined`: not written, because it would\n\
        resume less well; `refused`: the client does not resume it, as predicted; nothing: not tried. For\n\
        `redact`, a secret is put into every prompt, text and thinking. `WRONG`: see below the counts.\n",
    );
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for source in 0..sources.len() {
        for change in 0..FULL {
            for client in 0..clients.len() {
                let cell = cell(source, change, client);
                if !cell.is_empty() {
                    *counts.entry(cell).or_default() += 1;
                }
            }
        }
    }
    let total: Vec<String> =
        counts.iter().map(|(cell, count)| format!("{count} × {cell}")).collect();
    let _ = writeln!(text, "\n{} sessions:\n{}.\n", sources.len(), total.join(", "));
    for [name, change, reason] in KNOWN {
        let change = if change.is_empty() { "any change" } else { change };
        let _ = write!(text, "- `{change}` of\n  {name}:");
        let mut room = 0;
        for word in reason.split(' ') {
            let lead = if room <= word.len() { "\n  " } else { " " };
            room = if lead == " " { room - word.len() - 1 } else { 97 - word.len() };
            text.push_str(lead);
            text.push_str(word);
        }
        text.push('\n');
    }
    for (client, version) in clients.iter().enumerate() {
        let _ = writeln!(
            text,
            "\n## {version}\n\n| session | {} |",
            CHANGES[..FULL].iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" | ")
        );
        let _ = writeln!(text, "|---|{}", "---|".repeat(FULL));
        for source in 0..sources.len() {
            let cells: Vec<String> = (0..FULL).map(|change| cell(source, change, client)).collect();
            if cells.iter().all(String::is_empty) {
                continue;
            }
            let _ = writeln!(text, "| {} | {} |", name(source), cells.join(" | "));
        }
    }
    text
}
