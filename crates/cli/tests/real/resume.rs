//! What the real client sends when it resumes a session, and what we said that it would send.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use testkit::api::Server;
use testkit::comparable::{Applied, SessionTexts, comparable};
use testkit::messages::normal;
use transcript::conversation::place::slug;

use crate::lab::{Lab, clients, write};

pub(crate) const SESSION: &str = "11111111-2222-4333-8444-555555555555";
pub(crate) const PROMPT: &str = "And what now?";
/// How many sessions of the corpus each client resumes, in a short run and in a full one.
const SESSIONS: [usize; 2] = [10, 20];
/// Longer ones take longer, and show nothing else.
const LONGEST: usize = 600_000;

/// What `quipu` prints, as JSON; nothing if it ends with another code than these.
fn quipu(args: &[&str], codes: &[i32]) -> Option<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_quipu")).args(args).output().unwrap();
    let code = output.status.code().unwrap();
    codes.contains(&code).then(|| serde_json::from_slice(&output.stdout).unwrap())
}

/// What a client sends when it resumes these bytes; nothing if it sends nothing.
pub(crate) fn resumed(start: &[PathBuf], bytes: &[u8]) -> Option<Vec<Value>> {
    let lab = Lab::new();
    let folder = lab.home().join(".claude/projects").join(slug(&lab.cwd().to_string_lossy()));
    fs::create_dir_all(&folder).unwrap();
    write(&folder.join(format!("{SESSION}.jsonl")), bytes);
    resumed_in(&lab, start, SESSION)
}

/// What a client sends when it resumes a session that it has.
pub(crate) fn resumed_in(lab: &Lab, start: &[PathBuf], session: &str) -> Option<Vec<Value>> {
    let server = Server::start(vec![vec![json!({"type": "text", "text": "Done."})]]).unwrap();
    let output = lab.try_run(start, &server, &["--resume", session, PROMPT]);
    // 2.0.76 asks first and refuses then.
    if !output.status.success() {
        return None;
    }
    let requests = server.requests();
    requests.first().map(|request| request["messages"].as_array().unwrap().clone())
}

/// The first message in which a client's request about a session differs from ours, compared
/// strictly.
pub(crate) fn difference(session: &[u8], sent: &[Value], ours: &[Value]) -> Option<String> {
    let texts = SessionTexts::read(session);
    let form = |messages: &[Value]| comparable(messages, &texts, &mut Applied::default());
    first_difference(&form(sent), &form(ours))
}

/// The first message in which two clients' requests differ, apart from reminders: those of a start
/// are not the same in two programs.
pub(crate) fn difference_in_speech(one: &[Value], other: &[Value]) -> Option<String> {
    first_difference(&named(normal(one)), &named(normal(other)))
}

/// The same with one name for sub-agents' calls: the newest client calls them `Agent` whatever they
/// were, ours as they were sent before.
fn named(mut messages: Vec<Value>) -> Vec<Value> {
    for message in &mut messages {
        for block in message["content"].as_array_mut().into_iter().flatten() {
            if block["type"] == "tool_use" && block["name"] == "Agent" {
                block["name"] = "Task".into();
            }
        }
    }
    messages
}

fn first_difference(sent: &[Value], ours: &[Value]) -> Option<String> {
    let longest = sent.len().max(ours.len());
    let at = (0..longest).find(|at| sent.get(*at) != ours.get(*at))?;
    let show = |side: &[Value]| {
        let text = side.get(at).map_or("nothing".to_owned(), Value::to_string);
        text.chars().take(600).collect::<String>()
    };
    let (one, other) = (show(sent), show(ours));
    Some(format!("message {at} of {}/{}\n  sent {one}\n  ours {other}", sent.len(), ours.len()))
}

pub(crate) fn predicted(path: &Path, version: &str) -> Option<Vec<Value>> {
    let path = path.to_str().unwrap();
    let found = quipu(&["history", path, "--as", version, "--then", PROMPT, "--json"], &[0])?;
    Some(found["messages"].as_array().unwrap().clone())
}

#[allow(clippy::disallowed_methods, reason = "how tests are told what to do")]
pub(crate) fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Sessions that `check` calls good resume as we say, in every client. With `QUIPU_RESUME_FOLDER`
/// all sessions in that folder, whatever the verdict.
#[test]
fn sessions_that_resume_fully_are_sent_as_predicted() {
    let named = env("QUIPU_RESUME_FOLDER").map(PathBuf::from);
    let all = named.is_some();
    let most = SESSIONS[usize::from(env("QUIPU_FULL").is_some())];
    let folder = named.or_else(|| testkit::shared("corpus"));
    let Some(folder) = folder else {
        assert_ne!(env("CI").as_deref(), Some("true"), "there is no corpus to resume");
        return;
    };
    let files = testkit::files_under(&[folder]);
    let sessions = files.iter().filter(|file| {
        let name = file.path.file_name().unwrap().to_string_lossy();
        !name.starts_with("agent-") && (all || file.bytes.len() < LONGEST)
    });
    let sessions: Vec<_> = sessions.collect();
    for (version, start) in clients() {
        let (mut agree, mut wrong) = (0, Vec::new());
        for file in &sessions {
            if agree + wrong.len() == most && !all {
                break;
            }
            let path = file.path.to_str().unwrap();
            let report =
                quipu(&["check", path, "--as", &version, "--json"], &[0, 10, 11, 12]).unwrap();
            let verdict = report["verdict"].as_str().unwrap().to_owned();
            // Local commands alone are no conversation to go on with.
            if (verdict != "full" || report["messages"]["recorded"] == 0) && !all {
                continue;
            }
            let sent = resumed(&start, &file.bytes);
            match (sent, predicted(&file.path, &version)) {
                (None, None) if verdict == "refused" => agree += 1,
                (Some(sent), Some(ours)) => match difference(&file.bytes, &sent, &ours) {
                    None => agree += 1,
                    Some(text) => wrong.push(format!("{path} ({verdict}): {text}")),
                },
                (sent, _) => wrong.push(format!(
                    "{path} ({verdict}): the client {}",
                    if sent.is_some() { "resumes it" } else { "sends nothing" }
                )),
            }
        }
        println!("{version}: {agree} of {} sessions resumed as predicted", agree + wrong.len());
        assert!(wrong.is_empty(), "{version}:\n{}", wrong.join("\n"));
        assert!(all || agree == most, "{version}: only {agree} sessions to resume");
    }
}

/// The samples, the damaged one too: the newest client resumes them, and sends what we say.
#[test]
fn samples_are_resumed_by_the_newest_client() {
    let newest = clients().into_iter().find(|(version, _)| version == "2.1.325");
    let Some((version, start)) = newest else {
        assert_ne!(env("CI").as_deref(), Some("true"), "2.1.325 is not installed");
        return;
    };
    let files = testkit::files_under(&[testkit::root().join("samples/home/projects")]);
    let sessions = files.iter().filter(|file| {
        let name = file.path.file_name().unwrap().to_string_lossy();
        !name.starts_with("agent-")
    });
    let mut count = 0;
    for file in sessions {
        let path = file.path.display();
        let sent = resumed(&start, &file.bytes);
        let sent = sent.unwrap_or_else(|| panic!("{path}: {version} does not resume it"));
        let ours = predicted(&file.path, &version).unwrap();
        let [sent, ours] = [sent, ours].map(without_plans);
        assert_eq!(difference(&file.bytes, &sent, &ours), None, "{path}");
        count += 1;
    }
    println!("{version}: {count} samples resumed as predicted");
    assert!(count >= 8);
}

/// Tools that a client has or not, depending on how it is started.
const PLANNING: [&str; 3] = ["AskUserQuestion", "EnterPlanMode", "ExitPlanMode"];

/// The messages without the plans in calls that leave plan mode: the client sends a plan only if it
/// finds the file that the call names, and that is not in the home of this test.
fn without_plans(mut messages: Vec<Value>) -> Vec<Value> {
    for content in messages.iter_mut().filter_map(|message| message["content"].as_array_mut()) {
        for block in content.iter_mut().filter(|block| block["name"] == "ExitPlanMode") {
            println!("the plan of {} is not compared: its file is not here", block["id"]);
            block["input"] = json!({});
        }
        let refers = |block: &Value| {
            let parts = block["content"].as_array();
            let mut names =
                parts.into_iter().flatten().filter_map(|part| part["tool_name"].as_str());
            let text = block["content"].to_string();
            names.any(|name| PLANNING.contains(&name)) || text.contains("[Tool references removed")
        };
        if content.iter().any(refers) {
            println!("references to tools for planning are not compared: flags decide about them");
            content.retain(|block| !refers(block) && block["text"] != "Tool loaded.");
        }
    }
    messages
}

/// Files that show one rule each, as they are and mended: the newest client sends what we say, and
/// of those that are mended every result.
#[test]
fn mended_sessions_are_sent_as_predicted() {
    let newest = clients().into_iter().find(|(version, _)| version == "2.1.325");
    let Some((version, start)) = newest else {
        assert_ne!(env("CI").as_deref(), Some("true"), "2.1.325 is not installed");
        return;
    };
    for case in [
        "prompt_hangs_on_progress",
        "prompt_hangs_on_progress_late",
        "rid_linear_both",
        "rid_parallel",
        "sib_copy_second_root",
        "think_both_foreign",
        "om_parallel_killed",
        "queue_first_never_dequeued",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("{SESSION}.jsonl"));
        let from = testkit::fixtures().join("observed").join(format!("{case}.jsonl"));
        let [from, to] = [&from, &path].map(|path| path.to_str().unwrap());
        quipu(&["repair", from, "-o", to, "--json"], &[0]).expect(case);
        let bytes = fs::read(&path).unwrap();
        let sent = resumed(&start, &bytes).expect(case);
        let ours = predicted(&path, &version).expect(case);
        assert_eq!(difference(&bytes, &sent, &ours), None, "{case}");
        let text = Value::from(sent).to_string();
        assert!(!text.contains("[Tool result missing"), "{case}: {text}");
    }
}
