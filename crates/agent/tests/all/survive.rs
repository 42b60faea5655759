//! A session that is stopped at any point can be continued: at most the unfinished line is lost,
//! and what is sent is valid.

use std::collections::VecDeque;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use agent::ambient::{Ambient, Stopped};
use agent::api::request::Message;
use agent::api::retry::Retry;
use agent::api::script::Script;
use agent::api::stream::{Step, Stream};
use agent::api::{ApiError, Heard, Model};
use agent::drive::{Agent, Note, Said};
use agent::host::{Format, Headless};
use agent::log::Log;
use agent::permit::{Mode, Permit};
use agent::resume::{self, Resumed};
use agent::session::{Parts, Session};
use agent::tool::{self, Call, Cancel};
use agent::turn::{Effect, Input, Prompt, Ruling, Wanted};
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

/// A model that records the requests.
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

/// Runs one turn in a folder. Returns the exit code, the requests and the output.
fn turn(
    root: &Path,
    log: Log,
    resumed: Resumed,
    script: &str,
    now: i64,
) -> (u8, Vec<String>, String) {
    turn_in(root, log, resumed, script, (Arc::new(Stopped::at(now)), Format::Text))
}

fn turn_in(
    root: &Path,
    log: Log,
    resumed: Resumed,
    script: &str,
    (nature, format): (Arc<dyn Ambient>, Format),
) -> (u8, Vec<String>, String) {
    let cwd = root.display().to_string();
    let script = Script::read(script, &[("CWD", &cwd)]).unwrap();
    let model = Arc::new(Kept { script, asked: Mutex::default() });
    let (notes, inbox) = mpsc::channel();
    let mut parts = Parts { resumed, ..parts(root, log, model.clone()) };
    parts.site.nature = nature.clone();
    let Session { mut driver, init, .. } = Session::assemble(parts, notes.clone());
    notes.send(Note::Say(Said::text("Go."))).unwrap();
    notes.send(Note::Closed).unwrap();
    let printed = root.join("printed");
    let out = Box::new(fs::File::create(&printed).unwrap());
    let code = driver.run(&inbox, &mut Headless::new(format, init, out, nature));
    let asked = model.asked.lock().unwrap().clone();
    (code, asked, fs::read_to_string(printed).unwrap())
}

/// The parts of a new session in a folder, in which everything is allowed.
fn parts(root: &Path, log: Log, model: Arc<dyn Model>) -> Parts {
    let permit = Permit { mode: Mode::Bypass, ..Permit::default() };
    let mut parts = Parts::new((model, "claude-sonnet-5-5"), root, ID, permit);
    parts.log = Some(log);
    parts.site.folder = root.join("session");
    parts.retry = Retry { most: 0 };
    parts.asking.system = vec!["Be brief.".to_owned()];
    "<system-reminder>\nnow\n</system-reminder>".clone_into(&mut parts.asking.reminder);
    parts
}

/// Whether each call has one result, in the message after it, and no result is without a call.
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
    let (code, asked, printed) = turn(&root, Log::at(&log), Resumed::default(), SCRIPT, NOW);
    assert_eq!((code, asked.len(), printed.as_str()), (0, 3, "Done.\n"));
    assert_eq!(fs::read_to_string(root.join("a.txt")).unwrap(), "two\n");
    let bytes = fs::read(log).unwrap();
    let made = fs::read_to_string(root.join("made.txt"));
    assert_eq!(made.ok().as_deref(), Some("ü\n"), "{}", String::from_utf8_lossy(&bytes));
    (folder, bytes)
}

#[test]
fn cut_at_every_byte_it_goes_on() {
    let (folder, bytes) = whole();
    let path = folder.path().join(format!("{ID}.jsonl"));
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let first_prompt = lines[0].len() + lines[1].len();
    let mut tried = 0;
    let mut before = None;
    for cut in 0..=bytes.len() {
        fs::File::create(&path).unwrap().write_all(&bytes[..cut]).unwrap();
        let resumed = resume::open(&path, None).unwrap();
        // Without a complete prompt there is no conversation.
        if cut + 1 < first_prompt {
            assert!(resumed.is_err(), "cut at {cut}");
            continue;
        }
        let resumed = resumed.unwrap_or_else(|why| panic!("cut at {cut}: {why:?}"));
        assert!(is_valid(&resumed.messages), "cut at {cut}: {:?}", resumed.messages);
        // Only the unfinished line is lost: the file without it gives the same messages.
        let kept = bytes[..cut].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        // A line that only lacks its newline is complete.
        let kept = if bytes.get(cut) == Some(&b'\n') { cut } else { kept };
        if before.as_ref().is_none_or(|(end, _)| *end != kept) {
            fs::File::create(&path).unwrap().write_all(&bytes[..kept]).unwrap();
            before = Some((kept, resume::open(&path, None).unwrap().unwrap().messages));
        }
        let (_, without) = before.as_ref().unwrap();
        assert_eq!(&resumed.messages, without, "cut at {cut}");
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
    // Before and after every newline, and in the middle of every line.
    let ends: Vec<usize> =
        bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at).collect();
    let middles = ends.windows(2).map(|pair| usize::midpoint(pair[0], pair[1]));
    let cuts =
        ends.iter().flat_map(|end| [*end, end + 1]).chain(middles).filter(|cut| *cut > ends[1]);
    for cut in cuts {
        fs::File::create(&path).unwrap().write_all(&bytes[..cut]).unwrap();
        let resumed = resume::open(&path, None).unwrap().unwrap();
        let mut sent = resumed.messages.clone();
        let (code, asked, printed) = turn(&root, Log::at(&path), resumed, next, NOW + HOUR);
        assert_eq!((code, printed.as_str()), (0, "Going on.\n"), "cut at {cut}");
        // Every line except the torn one can be read, and what is sent next is what was sent now,
        // plus the answer.
        let text = fs::read_to_string(&path).unwrap();
        let torn = text.lines().filter(|line| serde_json::from_str::<Value>(line).is_err()).count();
        assert!(torn <= 1, "cut at {cut}");
        let after = resume::open(&path, None).unwrap().unwrap().messages;
        assert!(is_valid(&after), "cut at {cut}");
        let body: Value = serde_json::from_str(&asked[0]).unwrap();
        let count = body["messages"].as_array().unwrap().len();
        assert_eq!(after.len(), count + 1, "cut at {cut}");
        sent.truncate(count - 1);
        assert_eq!(sent[..], after[..sent.len()], "cut at {cut}");
    }
}

/// A disk that accepts so many bytes.
struct Small {
    file: fs::File,
    left: usize,
}

impl Write for Small {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.left == 0 {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        let count = self.file.write(&bytes[..bytes.len().min(self.left)])?;
        self.left -= count;
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Whether everything was done that the results in a conversation report, and nothing that no call
/// requests.
fn is_as_told(root: &Path, messages: &[Message]) -> bool {
    let text = messages.iter().flat_map(|message| &message.blocks).cloned().collect::<String>();
    let is_edited = fs::read_to_string(root.join("a.txt")).unwrap() == "two\n";
    let is_made = root.join("made.txt").exists();
    (is_edited || !text.contains("has been updated"))
        && (!is_edited || text.contains(r#""name":"Edit""#))
        && (is_made || !text.contains(r#""content":"ü"#))
        && (!is_made || text.contains("made.txt"))
}

#[test]
fn a_disk_that_is_full_at_any_byte_stops_the_turn() {
    let (_folder, bytes) = whole();
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at);
    for left in ends.flat_map(|end| [end.saturating_sub(9), end, end + 1]) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::File::create(root.join("a.txt")).unwrap().write_all(b"one\n").unwrap();
        let path = root.join(format!("{ID}.jsonl"));
        let small = Small { file: fs::File::create(&path).unwrap(), left };
        let log = Log::over(&path, Box::new(small));
        let (code, _, printed) = turn(&root, log, Resumed::default(), SCRIPT, NOW);
        // Runs differ by some bytes: a session that fits is complete.
        if code == 0 {
            assert!(left + 200 >= bytes.len(), "{left} bytes");
            assert!(fs::read(&path).unwrap().ends_with(b"\n"));
            continue;
        }
        let expected = "The session could not be written: no storage space\n";
        assert_eq!((code, printed.as_str()), (1, expected), "{left} bytes");
        assert_eq!(fs::read(&path).unwrap().len(), left);
        if let Ok(resumed) = resume::open(&path, None).unwrap() {
            assert!(is_valid(&resumed.messages), "{left} bytes");
            assert!(is_as_told(&root, &resumed.messages), "{left} bytes: {:?}", resumed.messages);
        }
    }
}

#[test]
fn stopped_after_any_effect_it_goes_on() {
    let mut effects = 1;
    loop {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::File::create(root.join("a.txt")).unwrap().write_all(b"one\n").unwrap();
        let path = root.join(format!("{ID}.jsonl"));
        let is_done = stopped(&root, &path, effects);
        match resume::open(&path, None) {
            Ok(Ok(resumed)) => {
                assert!(is_valid(&resumed.messages), "after {effects}");
                assert!(is_as_told(&root, &resumed.messages), "after {effects}");
            }
            // Only the prompt was to be recorded.
            _ => assert!(effects < 2, "after {effects}"),
        }
        if is_done {
            break;
        }
        effects += 1;
    }
    assert!(effects > 20, "{effects}");
}

/// Carries out so many effects of a turn, one after the other, and no more. Returns whether that
/// was all.
fn stopped(root: &Path, path: &Path, mut left: u32) -> bool {
    let cwd = root.display().to_string();
    let script = Arc::new(Script::read(SCRIPT, &[("CWD", &cwd)]).unwrap());
    let nature: Arc<dyn Ambient> = Arc::new(Stopped::at(NOW));
    let mut parts = parts(root, Log::at(path), script.clone());
    parts.site.nature = nature.clone();
    let (notes, _inbox) = mpsc::channel();
    let session = Session::assemble(parts, notes);
    let Agent { turn: mut engine, mut recorder, site, .. } = session.driver.into_main().unwrap();
    let prompt = Prompt { id: nature.id(), blocks: Said::text("Go.").blocks };
    let mut inputs = VecDeque::from([Input::Prompt(prompt)]);
    while let Some(input) = inputs.pop_front() {
        for effect in engine.step(input) {
            if left == 0 {
                return false;
            }
            left -= 1;
            match effect {
                Effect::Record(entry) => _ = recorder.record(&entry).unwrap(),
                Effect::Ask => {
                    let messages: Vec<String> = engine
                        .messages()
                        .iter()
                        .map(|message| {
                            format!(
                                r#"{{"role":"{}","content":[{}]}}"#,
                                message.role,
                                message.blocks.join(",")
                            )
                        })
                        .collect();
                    let body = format!(r#"{{"tools":[{{}}],"messages":[{}]}}"#, messages.join(","));
                    let mut stream = Stream::default();
                    script
                        .ask(body, &mut |heard| {
                            if let Heard::Event(event) = heard {
                                inputs.extend(stream.event(event).map(|step| match step {
                                    Step::Started(message) => Input::Started(message),
                                    Step::Block(block) => Input::Block(block),
                                    Step::Ended(ending) => Input::Ended(ending),
                                    Step::Failed(error) => panic!("{error}"),
                                }));
                            }
                            std::ops::ControlFlow::Continue(())
                        })
                        .unwrap();
                }
                Effect::Decide(wanted) => {
                    inputs.push_back(Input::Decided(wanted.id, Ruling::Allow));
                }
                Effect::Run(wanted) => {
                    let input = serde_json::from_str(&wanted.input).unwrap();
                    let Wanted { id, name, .. } = wanted;
                    let call = Call { id: id.clone(), name, input, cancel: Cancel::default() };
                    inputs.push_back(Input::Answered(id, tool::run(&call, &site)));
                }
                Effect::Done(_) => return true,
                _ => {}
            }
        }
    }
    panic!("the turn does not end");
}

/// A clock that is set back by ten years whenever it is read, and one that advances.
struct Jumping {
    now: AtomicI64,
    elapsed: AtomicI64,
    ids: Stopped,
}

impl Ambient for Jumping {
    fn now(&self) -> i64 {
        self.now.fetch_sub(87_600 * HOUR, Ordering::SeqCst)
    }

    fn elapsed(&self) -> i64 {
        self.elapsed.fetch_add(3, Ordering::SeqCst)
    }

    fn id(&self) -> String {
        self.ids.id()
    }

    fn chance(&self) -> f64 {
        0.0
    }
}

#[test]
fn nobody_who_sets_the_clock_changes_how_long_something_took() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let path = root.join("session.jsonl");
    let (now, elapsed) = (AtomicI64::new(NOW), AtomicI64::new(7));
    let nature = Arc::new(Jumping { now, elapsed, ids: Stopped::at(NOW) });
    let script = r#"{"replies": [{"content": [{"type": "text", "text": "Done."}]}]}"#;
    let resumed = Resumed::default();
    let (code, _, printed) =
        turn_in(&root, Log::at(&path), resumed, script, (nature, Format::Json { all: false }));
    assert_eq!(code, 0);
    let result: Value = serde_json::from_str(&printed).unwrap();
    let is_short = |value: &Value| value.as_i64().is_some_and(|taken| (1..1_000).contains(&taken));
    assert!(is_short(&result["duration_ms"]) && is_short(&result["duration_api_ms"]), "{result}");
    let text = fs::read_to_string(&path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let taken: Vec<Value> = lines.map(|line| line["durationMs"].clone()).collect();
    let taken: Vec<&Value> = taken.iter().filter(|taken| !taken.is_null()).collect();
    assert!(taken.len() == 1 && is_short(taken[0]), "{taken:?}");
}
