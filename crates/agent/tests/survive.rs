//! A session that is stopped at any point goes on: at most the unfinished line is lost, and what is sent is valid.
#![allow(clippy::unwrap_used, reason = "tests may")]

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use agent::api::request::Message;
use agent::api::retry::Retry;
use agent::api::script::Script;
use agent::api::{ApiError, Heard, Model};
use agent::drive::{Asking, Driver, Note, Said};
use agent::face::{Format, Headless, Init};
use agent::log::Log;
use agent::nature::{Nature, Stopped};
use agent::permit::{Mode, Permit};
use agent::record::{Point, Recorder};
use agent::resume;
use agent::tool::Site;
use agent::turn::Turn;
use serde_json::Value;

const SCRIPT: &str = r#"{"name": "survive", "replies": [
  {"content": [
    {"type": "thinking", "thinking": "Three at once.", "signature": "c2lnbmF0dXJl"},
    {"type": "text", "text": "Reading «both» files."},
    {"type": "tool_use", "name": "Read", "input": {"file_path": "${CWD}/a.txt"}},
    {"type": "tool_use", "name": "Read", "input": {"file_path": "${CWD}/missing.txt"}},
    {"type": "tool_use", "name": "Bash", "input": {"command": "echo ü > made.txt; cat made.txt"}}]},
  {"content": [{"type": "tool_use", "name": "Edit", "input": {"file_path": "${CWD}/a.txt", "old_string": "one", "new_string": "two"}}]},
  {"content": [{"type": "text", "text": "Done."}]}]}"#;

/// Runs at different times have different ids.
const NOW: i64 = 1_795_132_800_000;
const HOUR: i64 = 3_600_000;

const ID: &str = "11111111-1111-4111-8111-111111111111";

/// A model that keeps what it was asked.
struct Kept {
    script: Script,
    asked: Mutex<Vec<String>>,
}

impl Model for Kept {
    fn ask(
        &self,
        body: String,
        hear: &mut dyn FnMut(Heard<'_>) -> std::ops::ControlFlow<()>,
    ) -> Result<(), ApiError> {
        self.asked.lock().unwrap().push(body.clone());
        self.script.ask(body, hear)
    }
}

/// One turn in a folder; gives the exit code, what was asked and what was printed.
fn turn(
    root: &Path,
    log: &Path,
    from: (Vec<Message>, Point),
    script: &str,
    now: i64,
) -> (u8, Vec<String>, String) {
    let cwd = root.display().to_string();
    let script = Script::read(script, &[("CWD", &cwd)]).unwrap();
    let model = Arc::new(Kept { script, asked: Mutex::default() });
    let nature: Arc<dyn Nature> = Arc::new(Stopped::at(now));
    let recorder =
        Recorder::new(nature.clone(), Some(Log::at(log)), ID, root, "bypassPermissions", from.1);
    let site = Site::new(
        root,
        &root.join("session"),
        None,
        (model.clone(), String::new()),
        nature.clone(),
    );
    let asking = Asking {
        model: "claude-sonnet-5-5".to_owned(),
        max_tokens: 1_000,
        thinking: None,
        system: vec!["Be brief.".to_owned()],
        tools: Vec::new(),
        reminder: "<system-reminder>\nnow\n</system-reminder>".to_owned(),
        news: None,
        is_cached: true,
    };
    let permit = Permit { mode: Mode::Bypass, ..Permit::default() };
    let (notes, inbox) = mpsc::channel();
    let engine = Turn::new(from.0, Retry { most: 0 }, None);
    let mut driver = Driver::new(
        engine,
        recorder,
        (model.clone(), asking),
        (Arc::new(site), permit),
        nature.clone(),
        notes.clone(),
    );
    notes.send(Note::Say(Said::text("Go."))).unwrap();
    notes.send(Note::Closed).unwrap();
    let printed = root.join("printed");
    let init = Init {
        session: ID.to_owned(),
        cwd,
        tools: Vec::new(),
        mode: "bypassPermissions",
        key: "none",
    };
    let out = Box::new(fs::File::create(&printed).unwrap());
    let code = driver.run(&inbox, &mut Headless::new(Format::Text, init, out, nature));
    let asked = model.asked.lock().unwrap().clone();
    (code, asked, fs::read_to_string(printed).unwrap())
}

/// Whether each call has one answer, in the message behind it, and no answer is without a call.
fn is_valid(messages: &[Message]) -> bool {
    let ids = |message: &Message, kind: &str, name: &str| -> Vec<String> {
        let values =
            message.blocks.iter().filter_map(|block| serde_json::from_str::<Value>(block).ok());
        values
            .filter(|block| block["type"] == kind)
            .map(|block| block[name].as_str().unwrap().to_owned())
            .collect()
    };
    let mut open: Vec<String> = Vec::new();
    for message in messages {
        let answers = ids(message, "tool_result", "tool_use_id");
        if answers != open {
            return false;
        }
        open = ids(message, "tool_use", "id");
    }
    open.is_empty()
}

fn whole() -> (tempfile::TempDir, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    fs::File::create(root.join("a.txt")).unwrap().write_all(b"one\n").unwrap();
    let log = root.join("whole.jsonl");
    let (code, asked, printed) = turn(&root, &log, (Vec::new(), Point::default()), SCRIPT, NOW);
    assert_eq!((code, asked.len(), printed.as_str()), (0, 3, "Done.\n"));
    assert_eq!(fs::read_to_string(root.join("a.txt")).unwrap(), "two\n");
    assert_eq!(fs::read_to_string(root.join("made.txt")).unwrap(), "ü\n");
    (folder, fs::read(log).unwrap())
}

#[test]
fn cut_at_every_byte_it_goes_on() {
    let (folder, bytes) = whole();
    let path = folder.path().join(format!("{ID}.jsonl"));
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let first_prompt = lines[0].len() + lines[1].len();
    let mut tried = 0;
    for cut in 0..=bytes.len() {
        fs::File::create(&path).unwrap().write_all(&bytes[..cut]).unwrap();
        let resumed = resume::open(&path).unwrap();
        // Without a whole prompt there is no conversation.
        if cut + 1 < first_prompt {
            assert!(resumed.is_err(), "cut at {cut}");
            continue;
        }
        let resumed = resumed.unwrap_or_else(|why| panic!("cut at {cut}: {why:?}"));
        assert!(is_valid(&resumed.messages), "cut at {cut}: {:?}", resumed.messages);
        // Nothing but the unfinished line is lost: the file with it cut off says the same.
        let kept = bytes[..cut].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        // A line that only lacks its newline is whole.
        let kept = if bytes.get(cut) == Some(&b'\n') { cut } else { kept };
        fs::File::create(&path).unwrap().write_all(&bytes[..kept]).unwrap();
        let without = resume::open(&path).unwrap().unwrap();
        assert_eq!(resumed.messages, without.messages, "cut at {cut}");
        tried += 1;
    }
    assert!(tried > 3_000, "{tried}");
}

#[test]
fn a_cut_session_is_written_on_without_a_fused_line() {
    let (folder, bytes) = whole();
    let root = folder.path().canonicalize().unwrap();
    let path = root.join(format!("{ID}.jsonl"));
    let next =
        r#"{"name": "next", "replies": [{"content": [{"type": "text", "text": "Going on."}]}]}"#;
    // Before and behind every newline, and in the middle of every line.
    let ends: Vec<usize> =
        bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at).collect();
    let middles = ends.windows(2).map(|pair| usize::midpoint(pair[0], pair[1]));
    let cuts =
        ends.iter().flat_map(|end| [*end, end + 1]).chain(middles).filter(|cut| *cut > ends[1]);
    for cut in cuts {
        fs::File::create(&path).unwrap().write_all(&bytes[..cut]).unwrap();
        let resumed = resume::open(&path).unwrap().unwrap();
        let mut sent = resumed.messages.clone();
        let nature: Arc<dyn Nature> = Arc::new(Stopped::at(NOW + HOUR));
        let mut recorder = Recorder::new(
            nature,
            Some(Log::at(&path)),
            ID,
            &root,
            "default",
            resumed.point.clone(),
        );
        for (role, block) in &resumed.made {
            recorder.closing(role, block).unwrap();
        }
        drop(recorder);
        let point = resume::open(&path).unwrap().unwrap().point;
        let (code, asked, printed) =
            turn(&root, &path, (resumed.messages, point), next, NOW + 2 * HOUR);
        assert_eq!((code, printed.as_str()), (0, "Going on.\n"), "cut at {cut}");
        // Every line but the torn one can be read, and what is sent next is what was sent now, and the answer.
        let text = fs::read_to_string(&path).unwrap();
        let torn = text.lines().filter(|line| serde_json::from_str::<Value>(line).is_err()).count();
        assert!(torn <= 1, "cut at {cut}");
        let after = resume::open(&path).unwrap().unwrap().messages;
        assert!(is_valid(&after), "cut at {cut}");
        let body: Value = serde_json::from_str(&asked[0]).unwrap();
        let count = body["messages"].as_array().unwrap().len();
        assert_eq!(after.len(), count + 1, "cut at {cut}");
        sent.truncate(count - 1);
        assert_eq!(sent[..], after[..sent.len()], "cut at {cut}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_stops_the_turn() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (code, asked, printed) =
        turn(&root, Path::new("/dev/full"), (Vec::new(), Point::default()), SCRIPT, NOW);
    assert_eq!((code, asked.len()), (1, 0));
    assert!(printed.starts_with("The session could not be written: No space left"), "{printed}");
    assert!(!root.join("made.txt").exists());
}
