//! Random sessions: with hooks and sub-agents, no effect precedes its verdict; after summaries,
//! rewinds, forks, restores and crashes, what is sent is valid.
//!
//! A model that is random, and the same for the same seed, answers with texts, calls and tasks for
//! helpers. Every request of every run is checked.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

use agent::SessionConfig;
use agent::ambient::Real;
use agent::api::script::Script;
use agent::api::{ApiError, Heard, Model};
use agent::drive::{Note, Said};
use agent::event::{AgentId, Event};
use agent::host::{Callback, Host, Listener};
use agent::session::{Continues, Folders, ModelSource, Origin, PermitWishes, SandboxWishes};
use agent::settings::Environment;
use serde_json::{Value, json};
use tempfile::TempDir;
use transcript::client::change::{self, Subject, Uncompress};
use transcript::client::history::Rules;
use transcript::conversation::place;
use workshop::Workshop;
use workshop::store::Bounds;

/// Numbers that look random.
#[derive(Clone, Debug)]
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % sides
    }

    /// A place in a list of so many.
    fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.roll(count.max(1) as u64)).unwrap()
    }
}

/// What is wrong with the messages of a request, by the rules of the API.
fn trouble(messages: &[Value]) -> Option<String> {
    let mut open: Vec<String> = Vec::new();
    let mut before = "assistant";
    for (number, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap();
        let blocks = message["content"].as_array().unwrap();
        let ids = |kind: &str, name: &str| -> Vec<String> {
            let blocks = blocks.iter().filter(|block| block["type"] == kind);
            blocks.map(|block| block[name].as_str().unwrap().to_owned()).collect()
        };
        // What the client says in between belongs to nobody.
        if role == "system" {
            continue;
        }
        if role == before {
            return Some(format!("message {number} is {role} after {before}"));
        }
        if blocks.is_empty() {
            return Some(format!("message {number} is empty"));
        }
        if ids("tool_result", "tool_use_id") != open {
            return Some(format!("message {number} answers other calls than {open:?}"));
        }
        let first_text = blocks.iter().position(|block| block["type"] != "tool_result");
        let last_result = blocks.iter().rposition(|block| block["type"] == "tool_result");
        if first_text.zip(last_result).is_some_and(|(text, result)| text < result) {
            return Some(format!("message {number} has a text before a result"));
        }
        let is_blank = |block: &&Value| {
            block["type"] == "text" && block["text"].as_str().unwrap().trim().is_empty()
        };
        if blocks.iter().any(|block| is_blank(&block)) {
            return Some(format!("message {number} has a blank text"));
        }
        open = ids("tool_use", "id");
        before = if role == "user" { "user" } else { "assistant" };
    }
    if before != "user" {
        return Some("it ends with an answer".to_owned());
    }
    (!open.is_empty()).then(|| format!("{open:?} have no results"))
}

#[test]
fn histories_that_the_api_refuses_are_noticed() {
    let say = |role: &str, blocks: &[Value]| json!({"role": role, "content": blocks});
    let text = |words: &str| json!({"type": "text", "text": words});
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "Read", "input": {}});
    let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": "x"});
    let go = say("user", &[text("Go.")]);
    let both = say("assistant", &[call("a"), call("b")]);
    let good = [go.clone(), both.clone(), say("user", &[result("a"), result("b"), text("And?")])];
    assert_eq!(trouble(&good), None);
    let bad = [
        vec![both.clone(), say("user", &[result("a"), result("b")])],
        vec![go.clone(), both.clone(), say("user", &[result("a")])],
        vec![go.clone(), both.clone(), say("user", &[result("b"), result("a")])],
        vec![go.clone(), both.clone(), say("user", &[text("Well."), result("a"), result("b")])],
        vec![go.clone(), say("user", &[result("a")])],
        vec![go.clone(), both.clone()],
        vec![go.clone(), say("assistant", &[]), go.clone()],
        vec![go.clone(), say("assistant", &[text(" ")]), go.clone()],
        vec![go.clone(), go],
    ];
    for messages in bad {
        assert!(trouble(&messages).is_some(), "{messages:?}");
    }
}

/// A model that says anything.
struct Anything {
    dice: Mutex<Dice>,
    /// The number of the next file that a call makes.
    next: AtomicU32,
    wrong: Mutex<Vec<String>>,
}

impl Anything {
    fn new(seed: u64) -> Anything {
        Anything {
            dice: Mutex::new(Dice(seed * 2 + 1)),
            next: AtomicU32::new(0),
            wrong: Mutex::default(),
        }
    }

    fn reply(&self, body: &Value) -> Value {
        let messages = body["messages"].as_array().unwrap();
        let rounds = messages.iter().rev().take_while(|message| !is_prompt(message)).count() / 2;
        let has_task = body["tools"].to_string().contains(r#""name":"Task""#);
        let mut dice = self.dice.lock().unwrap();
        if messages.last().unwrap().to_string().contains("is about to be replaced by a summary") {
            return match dice.roll(4) {
                0 => {
                    json!({"error": {"status": 400, "type": "invalid_request_error", "message": "no"}})
                }
                _ => json!({"content": [{"type": "text", "text": "<summary>So far.</summary>"}]}),
            };
        }
        let text = json!({"type": "text", "text": format!("Words {}.", dice.roll(1_000))});
        if rounds >= 3 || dice.roll(3) == 0 {
            return json!({"content": [text]});
        }
        let mut content = if dice.roll(2) == 0 { vec![text] } else { Vec::new() };
        for _ in 0..=dice.roll(3) {
            let name = format!("f_{}", self.next.fetch_add(1, Ordering::SeqCst));
            content.push(match dice.roll(if has_task { 4 } else { 3 }) {
                0 => json!({"type": "tool_use", "name": "Write", "input": {"file_path": name, "content": "x\n"}}),
                1 => json!({"type": "tool_use", "name": "Bash", "input": {"command": format!("touch {name}")}}),
                2 => json!({"type": "tool_use", "name": "Read", "input": {"file_path": "a.txt"}}),
                _ => json!({"type": "tool_use", "name": "Task", "input": {
                    "description": "Help", "prompt": format!("Help with {name}."), "subagent_type": "general-purpose",
                }}),
            });
        }
        json!({"content": content})
    }
}

fn is_prompt(message: &Value) -> bool {
    let has_result = message["content"].to_string().contains("tool_result");
    message["role"] == "user" && !has_result
}

impl Model for Anything {
    fn ask(
        &self,
        body: String,
        hear: &mut dyn FnMut(Heard<'_>) -> ControlFlow<()>,
    ) -> Result<(), ApiError> {
        let request: Value = serde_json::from_str(&body).unwrap();
        let messages = request["messages"].as_array().unwrap();
        if let Some(why) = trouble(messages) {
            self.wrong.lock().unwrap().push(format!("{why}: {}", request["messages"]));
        }
        let reply = self.reply(&request);
        // Ids are made from the name: no two answers may have the same.
        let name = format!("any-{}", self.next.fetch_add(1, Ordering::SeqCst));
        let script = json!({"name": name, "replies": [reply]}).to_string();
        let script = Script::read(&script, &[]).unwrap().within(&name, 0);
        script.ask(body, hear)
    }
}

/// A host whose hooks decide at random, after a while.
struct Judge {
    notes: Sender<Note>,
    root: PathBuf,
    dice: Dice,
    /// The files that calls would have made, and whether they may.
    verdicts: Arc<Mutex<BTreeMap<String, bool>>>,
    early: Arc<Mutex<Vec<String>>>,
}

impl Listener for Judge {
    fn event(&mut self, _: &AgentId, _: &Event) {}
}

/// The file that a call is about.
fn file_of(input: &Value) -> Option<String> {
    let text = input["file_path"].as_str().or(input["command"].as_str())?;
    let at = text.find("f_")?;
    let digits: String = text[at + 2..].chars().take_while(char::is_ascii_digit).collect();
    Some(format!("f_{digits}"))
}

impl Host for Judge {
    fn call_back(&mut self, callback: &Callback<'_>) -> bool {
        let (kind, wait) = (self.dice.roll(6), self.dice.roll(6));
        let name = file_of(&callback.input["tool_input"]);
        let decision = match kind {
            0 | 1 => json!({"hookSpecificOutput": {
                "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "no"}}),
            2 => json!({"decision": "block", "reason": "no"}),
            3 => {
                json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}})
            }
            _ => json!({}),
        };
        if let Some(name) = &name {
            self.verdicts.lock().unwrap().insert(name.clone(), kind > 2);
        }
        let reply = json!({"type": "control_response", "response": {
            "subtype": "success", "request_id": callback.request, "response": decision,
        }});
        let (notes, root, early) = (self.notes.clone(), self.root.clone(), self.early.clone());
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(wait));
            // Nothing has happened before this verdict.
            if let Some(name) = name.filter(|name| root.join(name).exists()) {
                early.lock().unwrap().push(name);
            }
            let _ = notes.send(Note::Reply(reply));
        });
        true
    }
}

#[derive(Default)]
struct Nothing;

impl Environment for Nothing {
    fn variable(&self, name: &str) -> Option<String> {
        // No waiting between the tries of a summary.
        (name == "CLAUDE_CODE_MAX_RETRIES").then(|| "0".to_owned())
    }
}

struct Lab {
    folder: TempDir,
}

impl Lab {
    fn new(settings: &Value) -> Lab {
        let lab = Lab { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(lab.path("project")).unwrap();
        fs::create_dir_all(lab.path("home")).unwrap();
        fs::write(lab.path("project/a.txt"), "alpha\n").unwrap();
        fs::write(lab.path("home/settings.json"), settings.to_string()).unwrap();
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    /// Runs a session with these notes. Returns its file.
    fn run(
        &self,
        model: Arc<Anything>,
        (origin, continues): (Origin, Continues),
        notes: impl FnOnce(&Sender<Note>),
        host: impl FnOnce(Sender<Note>) -> Box<dyn Host>,
    ) -> PathBuf {
        let folders = Folders::at(self.path("home"), None, &self.path("project"));
        let id = uuid::Uuid::new_v4().to_string();
        let config = SessionConfig {
            source: ModelSource::Script(r#"{"replies": []}"#.to_owned()),
            sandbox: SandboxWishes {
                wish: agent::guard::SandboxWish::Off,
                ..SandboxWishes::default()
            },
            permissions: PermitWishes {
                allowed: vec!["Bash".to_owned(), "Write".to_owned()],
                ..PermitWishes::default()
            },
            continues,
            ..SessionConfig::new(folders, id, Arc::new(Real))
        };
        let notify = &mut |_| {};
        let mut workshop =
            Workshop::new(Some(self.path("state")), Bounds::default(), SystemTime::UNIX_EPOCH);
        let prepared = config.prepare(&Nothing, notify).unwrap();
        let place = prepared.place(origin, &mut workshop, notify).unwrap();
        let file = place.file.clone();
        let (sender, inbox) = mpsc::channel();
        let mut session = prepared.start(place, &Nothing, sender.clone(), notify).unwrap();
        session.driver.model = model;
        notes(&sender);
        let mut host = host(sender.clone());
        sender.send(Note::Closed).unwrap();
        session.driver.run(&inbox, &mut *host);
        file
    }
}

/// A host that listens to nothing.
struct Deaf;

impl Listener for Deaf {
    fn event(&mut self, _: &AgentId, _: &Event) {}
}

impl Host for Deaf {}

#[test]
fn no_effect_precedes_its_verdict() {
    // The user's hook runs beside those of the host, and looks too.
    let look = r#"for f in $(grep -o 'f_[0-9]*' | head -1); do [ -e "$f" ] && echo "$f" >> early; done; exit 0"#;
    let settings = json!({"hooks": {"PreToolUse": [{"matcher": "Write|Bash", "hooks": [
        {"type": "command", "command": look}]}]}});
    let (mut allowed, mut refused) = (0, 0);
    for seed in 1..=12 {
        let lab = Lab::new(&settings);
        let root = lab.path("project");
        let model = Arc::new(Anything::new(seed));
        let (verdicts, early) = (Arc::default(), Arc::default());
        let judge = {
            let (verdicts, early, root) = (Arc::clone(&verdicts), Arc::clone(&early), root.clone());
            move |notes| -> Box<dyn Host> {
                Box::new(Judge { notes, root, dice: Dice(seed + 99), verdicts, early })
            }
        };
        let hooks = json!({"PreToolUse": [{"hookCallbackIds": ["h0"]}]});
        let send = |notes: &Sender<Note>| {
            let request =
                json!({"request_id": "r", "request": {"subtype": "initialize", "hooks": hooks}});
            notes.send(Note::Control(request)).unwrap();
            for number in 0..3 {
                notes.send(Note::Say(Said::text(&format!("Go on, {number}.")))).unwrap();
            }
            // In some runs the user stops it.
            if seed % 4 == 0 {
                let notes = notes.clone();
                thread::spawn(move || {
                    thread::sleep(Duration::from_millis(20 + seed));
                    let _ = notes.send(Note::Interrupt);
                });
            }
        };
        lab.run(model.clone(), (Origin::New, Continues::Itself), send, judge);
        assert_eq!(*early.lock().unwrap(), Vec::<String>::new(), "seed {seed}");
        assert!(!root.join("early").exists(), "seed {seed}");
        assert_eq!(*model.wrong.lock().unwrap(), Vec::<String>::new(), "seed {seed}");
        let verdicts: std::sync::MutexGuard<'_, BTreeMap<String, bool>> = verdicts.lock().unwrap();
        for entry in fs::read_dir(&root).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            if name.starts_with("f_") {
                assert_eq!(verdicts.get(&name), Some(&true), "{name}, seed {seed}");
                allowed += 1;
            }
        }
        refused += verdicts.values().filter(|may| !**may).count();
    }
    // The dice were not loaded.
    assert!(allowed > 9 && refused > 9, "{allowed} {refused}");
}

/// The messages that a resume would send, with a prompt.
fn sent(path: &Path) -> Vec<Value> {
    let again = agent::resume::open(path, None).unwrap();
    let Ok(again) = again else { return Vec::new() };
    let messages = again.messages.iter().map(|message| {
        let blocks = message.blocks.iter();
        let blocks: Vec<Value> = blocks.map(|block| serde_json::from_str(block).unwrap()).collect();
        json!({"role": message.role, "content": blocks})
    });
    let mut messages: Vec<Value> = messages.collect();
    let next = json!({"type": "text", "text": "next"});
    match messages.last_mut().filter(|last| last["role"] == "user") {
        Some(last) => last["content"].as_array_mut().unwrap().push(next),
        None => messages.push(json!({"role": "user", "content": [next]})),
    }
    messages
}

/// Undoes the last compaction, if there is one.
fn restore(path: &Path) {
    let subject = Subject::open(path, Rules::newest()).unwrap();
    let Ok(change) = change::uncompress(&subject, &Uncompress::default()) else { return };
    let mut out = Vec::new();
    change::write(&subject, &change, None, &mut out).unwrap();
    fs::write(path, out).unwrap();
}

#[test]
fn whatever_happens_to_a_session_what_is_sent_is_valid() {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for seed in 1..=10 {
        let lab = Lab::new(&json!({}));
        let model = Arc::new(Anything::new(seed + 1_000));
        let mut dice = Dice(seed * 7 + 3);
        let deaf = |_| -> Box<dyn Host> { Box::new(Deaf) };
        let say = |texts: &'static [&'static str]| {
            move |notes: &Sender<Note>| {
                for text in texts {
                    notes.send(Note::Say(Said::text(text))).unwrap();
                }
            }
        };
        let new = (Origin::New, Continues::Itself);
        let mut file = lab.run(model.clone(), new, say(&["First.", "Second."]), deaf);
        for step in 0..7 {
            let of = |file: &Path| Origin::Session(place::Session::at(file).unwrap());
            let here = (of(&file), Continues::Itself);
            let name = match dice.roll(7) {
                0 => {
                    lab.run(model.clone(), here, say(&["Again."]), deaf);
                    "turn"
                }
                1 => {
                    lab.run(model.clone(), here, say(&["/compact", "After it."]), deaf);
                    "summary"
                }
                2 => {
                    let prompts = agent::resume::open(&file, None).unwrap().unwrap().waypoints;
                    let Some(prompt) = prompts.get(dice.index(prompts.len())) else {
                        continue;
                    };
                    let request = json!({"request_id": "r", "request": {
                        "subtype": "rewind", "user_message_id": prompt.id, "what": "conversation"}});
                    let send = move |notes: &Sender<Note>| {
                        notes.send(Note::Control(request)).unwrap();
                        notes.send(Note::Say(Said::text("Otherwise."))).unwrap();
                    };
                    lab.run(model.clone(), here, send, deaf);
                    "rewind"
                }
                3 => {
                    file = lab.run(
                        model.clone(),
                        (of(&file), Continues::Fork),
                        say(&["In a fork."]),
                        deaf,
                    );
                    "fork"
                }
                4 => {
                    restore(&file);
                    "restore"
                }
                5 => {
                    let prompts = agent::resume::open(&file, None).unwrap().unwrap().waypoints;
                    let Some(prompt) = prompts.get(dice.index(prompts.len())) else {
                        continue;
                    };
                    let words = Said::compact_since(&prompt.id);
                    let send = move |notes: &Sender<Note>| {
                        notes.send(Note::Say(words)).unwrap();
                        notes.send(Note::Say(Said::text("After that."))).unwrap();
                    };
                    lab.run(model.clone(), here, send, deaf);
                    "summary of the end"
                }
                _ => {
                    // A crash: the end of the file is lost, somewhere in a line.
                    let bytes = fs::read(&file).unwrap();
                    let cut = bytes.len() / 2
                        + usize::try_from(dice.roll(bytes.len() as u64 / 2)).unwrap();
                    fs::write(&file, &bytes[..cut]).unwrap();
                    "crash"
                }
            };
            *counts.entry(name).or_default() += 1;
            let messages = sent(&file);
            let why = trouble(&messages);
            assert_eq!(why, None, "seed {seed}, step {step}, after {name}: {messages:#?}");
            let wrong = model.wrong.lock().unwrap();
            assert_eq!(*wrong, Vec::<String>::new(), "seed {seed}, step {step}, after {name}");
        }
    }
    assert!(counts.len() == 7 && counts.values().all(|count| *count > 1), "{counts:?}");
}
