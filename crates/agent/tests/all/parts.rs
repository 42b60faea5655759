//! Hooks, sub-agents and summaries in whole sessions, with a scripted model: what happens, in which
//! order, what is recorded, and that a resume sends the same again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::time::SystemTime;

use agent::SessionConfig;
use agent::ambient::Real;
use agent::drive::{Note, Said};
use agent::event::{AgentId, Event};
use agent::host::{Host, Listener};
use agent::session::{Folders, ModelSource, Origin, PermitWishes, SandboxWishes};
use agent::settings::Environment;
use agent::turn::{Entry, Outcome};
use serde_json::{Value, json};
use tempfile::TempDir;
use workshop::Workshop;
use workshop::store::Bounds;

mod late;
mod long;
mod members;
mod narrow;
mod order;

#[derive(Default)]
struct Variables(BTreeMap<&'static str, String>);

impl Environment for Variables {
    fn variable(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }
}

/// Keeps everything that happens, and says something when the first tool runs.
#[derive(Default)]
struct Ear {
    heard: Arc<Mutex<Vec<(AgentId, Event)>>>,
    says: Option<(mpsc::Sender<Note>, &'static str)>,
}

impl Listener for Ear {
    fn event(&mut self, agent: &AgentId, event: &Event) {
        if matches!(event, Event::ToolStarted { .. })
            && let Some((notes, words)) = self.says.take()
        {
            notes.send(Note::Say(Said::text(words))).unwrap();
        }
        self.heard.lock().unwrap().push((agent.clone(), event.clone()));
    }
}

impl Host for Ear {}

struct Lab {
    folder: TempDir,
    variables: Variables,
    agents: Option<Value>,
    /// The definition of the main agent.
    agent: Option<String>,
    budget: Option<f64>,
    /// What is said when the first tool runs.
    says: Option<&'static str>,
}

/// What a run left.
struct Done {
    events: Vec<(AgentId, Event)>,
    file: PathBuf,
    /// The messages of the main agent, a block a line.
    sent: Vec<String>,
}

impl Done {
    fn outcomes(&self) -> Vec<(Outcome, String)> {
        let ends = self.events.iter().filter_map(|(_, event)| match event {
            Event::TurnEnded(summary) => Some((summary.outcome.clone(), summary.text.clone())),
            _ => None,
        });
        ends.collect()
    }

    /// The texts of results, by the agents that got them.
    fn results(&self) -> Vec<(AgentId, String)> {
        let results = self.events.iter().filter_map(|(agent, event)| match event {
            Event::Recorded { entry: Entry::Result(_, answer), .. } => {
                Some((agent.clone(), format!("{:?}", answer.content)))
            }
            _ => None,
        });
        results.collect()
    }

    fn records(&self) -> Vec<Value> {
        lines(&self.file)
    }
}

fn lines(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

impl Lab {
    fn new(settings: &Value) -> Lab {
        let lab = Lab {
            folder: tempfile::tempdir().unwrap(),
            variables: Variables::default(),
            agents: None,
            agent: None,
            budget: None,
            says: None,
        };
        fs::create_dir_all(lab.path("project")).unwrap();
        fs::create_dir_all(lab.path("home")).unwrap();
        fs::write(lab.path("project/a.txt"), "alpha\n").unwrap();
        fs::write(lab.path("home/settings.json"), settings.to_string()).unwrap();
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn run(&self, script: &Value, origin: Origin, prompts: &[&str]) -> Done {
        let words = prompts.iter().map(|prompt| Said::text(prompt)).collect();
        self.run_said(script, origin, words)
    }

    fn run_said(&self, script: &Value, origin: Origin, words: Vec<Said>) -> Done {
        let folders = Folders::at(self.path("home"), None, &self.path("project"));
        let id = uuid::Uuid::new_v4().to_string();
        let config = SessionConfig {
            source: ModelSource::Script(script.to_string()),
            sandbox: SandboxWishes {
                wish: agent::guard::SandboxWish::Off,
                ..SandboxWishes::default()
            },
            permissions: PermitWishes {
                allowed: vec!["Bash".to_owned(), "Write".to_owned()],
                ..PermitWishes::default()
            },
            agents: self.agents.clone(),
            agent: self.agent.clone(),
            budget: self.budget,
            effort: Some("high".to_owned()),
            ..SessionConfig::new(folders, id, Arc::new(Real))
        };
        let notify = &mut |_| {};
        let mut workshop =
            Workshop::new(Some(self.path("state")), Bounds::default(), SystemTime::UNIX_EPOCH);
        let prepared = config.prepare(&self.variables, notify).unwrap();
        let place = prepared.place(origin, &mut workshop, notify).unwrap();
        let file = place.file.clone();
        let (notes, inbox) = mpsc::channel();
        let mut session = prepared.start(place, &self.variables, notes.clone(), notify).unwrap();
        for one in words {
            notes.send(Note::Say(one)).unwrap();
        }
        notes.send(Note::Closed).unwrap();
        let says = self.says.map(|words| (notes, words));
        let mut ear = Ear { says, ..Ear::default() };
        session.driver.run(&inbox, &mut ear);
        let events = std::mem::take(&mut *ear.heard.lock().unwrap());
        let main = session.driver.main().unwrap();
        let sent = main.turn.messages().iter().flat_map(|message| message.blocks.clone());
        Done { events, file, sent: sent.collect() }
    }
}

fn hooks(event: &str, matcher: &str, commands: &[&str]) -> Value {
    let hooks: Vec<Value> =
        commands.iter().map(|command| json!({"type": "command", "command": command})).collect();
    json!({"hooks": {event: [{"matcher": matcher, "hooks": hooks}]}})
}

fn says(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn calls(tool: &str, input: &Value) -> Value {
    json!({"content": [{"type": "tool_use", "name": tool, "input": input}]})
}

#[test]
fn a_hook_refuses_before_anything_happens() {
    let lab = Lab::new(&hooks("PreToolUse", "Bash", &["cat > seen.json; echo no >&2; exit 2"]));
    let script =
        json!({"replies": [calls("Bash", &json!({"command": "touch made"})), says("Fine.")]});
    let done = lab.run(&script, Origin::New, &["Go."]);
    assert!(!lab.path("project/made").exists());
    let results = done.results();
    assert!(results[0].1.contains("PreToolUse:Bash hook error: ["), "{results:?}");
    assert!(results[0].1.contains("]: no"), "{results:?}");
    let seen: Value =
        serde_json::from_str(&fs::read_to_string(lab.path("project/seen.json")).unwrap()).unwrap();
    assert_eq!(seen["hook_event_name"], "PreToolUse");
    assert_eq!(seen["tool_input"], json!({"command": "touch made"}));
    assert_eq!(seen["transcript_path"], done.file.display().to_string());
}

#[test]
fn a_hook_changes_the_input_and_the_record_keeps_the_first() {
    let answer = r#"echo '{"hookSpecificOutput":{"permissionDecision":"allow","updatedInput":{"command":"echo other"}}}'"#;
    let lab = Lab::new(&hooks("PreToolUse", "Bash", &[answer]));
    let script =
        json!({"replies": [calls("Bash", &json!({"command": "echo first"})), says("Fine.")]});
    let done = lab.run(&script, Origin::New, &["Go."]);
    assert!(done.results()[0].1.contains("other"), "{:?}", done.results());
    let text = fs::read_to_string(&done.file).unwrap();
    assert!(text.contains("echo first") && !text.contains("echo other"));
}

#[test]
fn hooks_that_hang_flood_crash_or_talk_nonsense_lose_no_turn() {
    let mut settings = hooks(
        "PreToolUse",
        "",
        &["kill -9 $$", "yes | head -c 3000000", "echo '{broken'", "exit 1", "/no/such/program"],
    );
    settings["hooks"]["PreToolUse"][0]["hooks"]
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "command", "command": "sleep 60", "timeout": 1}));
    let lab = Lab::new(&settings);
    let script =
        json!({"replies": [calls("Bash", &json!({"command": "echo ran"})), says("Fine.")]});
    let done = lab.run(&script, Origin::New, &["Go."]);
    assert!(done.results()[0].1.contains("ran"), "{:?}", done.results());
    assert_eq!(done.outcomes()[0].1, "Fine.");
}

#[test]
fn prompts_are_blocked_and_texts_of_hooks_reach_the_model_and_a_resume() {
    let lab = Lab::new(&json!({"hooks": {
        "UserPromptSubmit": [{"hooks": [{"type": "command", "command":
            "grep -q secret && { echo not that >&2; exit 2; }; echo it is Monday"}]}],
        "SessionStart": [{"hooks": [{"type": "command", "command": "echo begun"}]}],
        "Stop": [{"hooks": [{"type": "command", "command":
            "grep -q '\"stop_hook_active\":true' || { echo once more >&2; exit 2; }"}]}],
    }}));
    let script = json!({"replies": [says("One."), says("Two."), says("Three."), says("Four.")]});
    let done = lab.run(&script, Origin::New, &["the secret", "Hello."]);
    let outcomes = done.outcomes();
    assert!(
        matches!(&outcomes[0].0, Outcome::Blocked(why) if why.contains("not that")),
        "{outcomes:?}"
    );
    assert_eq!(outcomes[1].1, "Two.");
    let records = done.records();
    assert!(!records.iter().any(|record| record["message"]["content"] == "the secret"));
    let has = |text: &str| fs::read_to_string(&done.file).unwrap().contains(text);
    assert!(has("hook_progress") && has("SessionStart:startup"));
    assert!(has("UserPromptSubmit hook success: it is Monday") && has("Stop hook feedback:"));
    let events: Vec<&Event> = done.events.iter().map(|(_, event)| event).collect();
    assert!(has("SessionStart:startup hook success: begun"), "{events:#?}");
    // A resume reads back what was sent.
    let again = agent::resume::open(&done.file, None).unwrap().unwrap();
    let sent: Vec<String> =
        again.messages.iter().flat_map(|message| message.blocks.clone()).collect();
    assert!(sent.iter().any(|block| block.contains("it is Monday")), "{sent:?}");
}

#[test]
fn sub_agents_run_at_once_and_report() {
    let task = |name: &str| {
        json!({
            "type": "tool_use", "name": "Task",
            "input": {"description": name, "prompt": format!("LAB {name}"), "subagent_type": "general-purpose"},
        })
    };
    let script = json!({
        "replies": [{"content": [task("one"), task("two")]}, says("Both are back.")],
        "rules": [
            {"match": {"last_user_contains": "LAB one"}, "replies": [calls("Bash", &json!({"command": "echo inner > made.txt; echo inner"}))], "loop": true},
            {"match": {"last_user_contains": "inner"}, "replies": [says("Report one.")], "loop": true},
            {"match": {"last_user_contains": "LAB two"}, "replies": [says("Report two.")], "loop": true},
        ],
    });
    let lab = Lab::new(&hooks("SubagentStop", "", &["cat >> stops"]));
    let done = lab.run(&script, Origin::New, &["Go."]);
    assert_eq!(done.outcomes()[0].1, "Both are back.", "{:?}", done.results());
    let started =
        done.events.iter().filter(|(_, event)| matches!(event, Event::AgentStarted { .. }));
    assert_eq!(started.count(), 2);
    let records = done.records();
    let results: Vec<&Value> = records
        .iter()
        .map(|record| &record["toolUseResult"])
        .filter(|one| one.is_object())
        .collect();
    assert_eq!(results.len(), 2, "{records:#?}");
    let texts: Vec<&str> =
        results.iter().map(|one| one["content"][0]["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["Report one.", "Report two."]);
    assert_eq!(results[0]["totalToolUseCount"], 1);
    let id = results[0]["agentId"].as_str().unwrap();
    let file = done.file.with_extension("").join(format!("subagents/agent-{id}.jsonl"));
    let inner = lines(&file);
    assert!(inner.iter().all(|record| record["isSidechain"] == true && record["agentId"] == id));
    assert!(inner.iter().all(|record| record["toolUseResult"].is_null()));
    assert_eq!(inner[0]["message"]["content"], "LAB one");
    let meta: Value =
        serde_json::from_str(&fs::read_to_string(file.with_extension("meta.json")).unwrap())
            .unwrap();
    assert_eq!((&meta["finished"], &meta["agentType"]), (&json!(true), &json!("general-purpose")));
    let stops = fs::read_to_string(lab.path("project/stops")).unwrap();
    assert_eq!(stops.matches("agent_transcript_path").count(), 2);
}

#[test]
fn unknown_types_and_a_sub_agent_in_the_background() {
    let task = |kind: &str, background: bool| {
        calls(
            "Task",
            &json!({
                "description": "d", "prompt": "LAB work", "subagent_type": kind, "run_in_background": background,
            }),
        )
    };
    let script = json!({
        "replies": [task("nobody", false), task("quick", true), says("Started."), says("Heard.")],
        "rules": [{"match": {"system_contains": "Be quick."}, "replies": [says("Quick report.")], "loop": true}],
    });
    let mut lab = Lab::new(&json!({}));
    lab.agents = Some(json!({"quick": {"description": "Quick", "prompt": "Be quick."}}));
    let done = lab.run(&script, Origin::New, &["Go."]);
    let results = done.results();
    assert!(results[0].1.contains("Agent type 'nobody' not found"), "{results:?}");
    assert!(results[1].1.contains("Async agent launched"), "{results:?}");
    assert!(fs::read_to_string(&done.file).unwrap().contains("<task-notification>"));
    assert_eq!(done.outcomes().last().unwrap().1, "Heard.");
}

#[test]
fn a_conversation_is_replaced_by_its_summary_and_goes_on() {
    let lab = Lab::new(&json!({}));
    let script = json!({
        "replies": [calls("Read", &json!({"file_path": "a.txt"})), says("It says alpha."), says("After.")],
        "rules": [{"match": {"last_user_contains": "is about to be replaced by a summary"},
            "replies": [says("<analysis>x</analysis><summary>They read a.txt.</summary>")], "loop": true}],
    });
    let done =
        lab.run(&script, Origin::New, &["What is in a.txt?", "/compact keep names", "Go on."]);
    let outcomes = done.outcomes();
    assert_eq!((outcomes.len(), outcomes[2].1.as_str()), (3, "After."), "{outcomes:?}");
    assert!(outcomes[1].1.starts_with("Compacted. Not sent any more: "), "{outcomes:?}");
    let records = done.records();
    let boundary =
        records.iter().position(|record| record["subtype"] == "compact_boundary").unwrap();
    assert!(records[boundary]["parentUuid"].is_null());
    assert_eq!(records[boundary]["compactMetadata"]["trigger"], "manual");
    let summary = records[boundary + 1]["message"]["content"].as_str().unwrap();
    assert_eq!(records[boundary + 1]["isCompactSummary"], true);
    assert!(
        summary.contains("They read a.txt.") && summary.contains("What is in a.txt?"),
        "{summary}"
    );
    let again = agent::resume::open(&done.file, None).unwrap().unwrap();
    let sent: Vec<String> =
        again.messages.iter().flat_map(|message| message.blocks.clone()).collect();
    assert!(sent[0].contains("They read a.txt."), "{sent:?}");
    assert!(!sent.iter().any(|block| block.contains("tool_result")), "{sent:?}");
}

#[test]
fn a_long_conversation_is_summarised_in_the_middle_of_a_turn_and_without_a_model_too() {
    for fails in [false, true] {
        let mut lab = Lab::new(&json!({}));
        lab.variables.0.insert("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE", "0".to_owned());
        lab.variables.0.insert("CLAUDE_CODE_MAX_RETRIES", "0".to_owned());
        let summary = if fails {
            json!({"error": {"status": 400, "type": "invalid_request_error", "message": "no"}})
        } else {
            says("<summary>Half done.</summary>")
        };
        let script = json!({
            "replies": [calls("Bash", &json!({"command": "echo one"})), says("Done.")],
            "rules": [{"match": {"last_user_contains": "is about to be replaced by a summary"},
                "replies": [summary], "loop": true}],
        });
        let done = lab.run(&script, Origin::New, &["Work."]);
        let outcomes = done.outcomes();
        assert_eq!(outcomes[0].1, "Done.", "{outcomes:?} {:?}", done.records());
        let records = done.records();
        let boundary =
            records.iter().find(|record| record["subtype"] == "compact_boundary").unwrap();
        assert_eq!(boundary["compactMetadata"]["trigger"], "auto");
        let notices = done.events.iter().any(
            |(_, event)| matches!(event, Event::Notice(text) if text.contains("wrote no summary")),
        );
        assert_eq!(notices, fails);
    }
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// The texts that a resume would send.
fn sent_again(done: &Done) -> Vec<String> {
    let again = agent::resume::open(&done.file, None).unwrap().unwrap();
    again.messages.iter().flat_map(|message| message.blocks.clone()).collect()
}

#[test]
fn a_command_is_recorded_with_what_it_stands_for() {
    let lab = Lab::new(&json!({}));
    put(&lab.path("home/commands/hi.md"), "---\ndescription: Greets\n---\nSay hi to $ARGUMENTS.\n");
    put(&lab.path("home/commands/more/all.md"), "It says !`echo from $0`, see @a.txt");
    let script = json!({"replies": [says("Hi, Ann."), says("Fine.")]});
    let done = lab.run(&script, Origin::New, &["/hi Ann", "/more:all x"]);
    assert_eq!(done.outcomes().len(), 2, "{:?}", done.outcomes());
    let records = done.records();
    let users: Vec<&Value> = records.iter().filter(|record| record["type"] == "user").collect();
    // As in the recording of 2.1.45: `m_memory`.
    let typed = "<command-message>hi</command-message>\n<command-name>/hi</command-name>\n<command-args>Ann</command-args>";
    assert_eq!(users[0]["message"]["content"], typed);
    assert!(users[0]["permissionMode"].is_null() && users[0]["isMeta"].is_null());
    assert_eq!(users[1]["isMeta"], true);
    let body = json!([{"type": "text", "text": "Say hi to Ann.\n"}]);
    assert_eq!(users[1]["message"]["content"], body);
    assert_eq!(users[1]["parentUuid"], users[0]["uuid"]);
    // What is mentioned comes before the command, what commands print stands in its text.
    let blocks = users[2]["message"]["content"].as_array().unwrap();
    assert!(blocks[1]["text"].as_str().unwrap().contains("alpha"), "{blocks:?}");
    assert!(blocks[2]["text"].as_str().unwrap().starts_with("<command-message>more:all<"));
    let text = users[3]["message"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(text, "It says from x, see @a.txt");
    assert!(sent_again(&done).iter().any(|block| block.contains("It says from x")));
}

#[test]
fn a_command_whose_shell_command_is_not_permitted_sends_nothing() {
    let lab = Lab::new(&json!({"permissions": {"deny": ["Bash(rm:*)"]}}));
    put(
        &lab.path("home/commands/wipe.md"),
        "---\nallowed-tools: Bash(rm:*)\n---\nGone: !`rm a.txt`",
    );
    let done = lab.run(&json!({"replies": [says("Never.")]}), Origin::New, &["/wipe"]);
    let outcomes = done.outcomes();
    assert!(
        matches!(&outcomes[0].0, Outcome::Blocked(why) if why.contains("not permitted")),
        "{outcomes:?}"
    );
    assert!(lab.path("project/a.txt").exists());
}

#[test]
fn commands_and_skills_of_an_untrusted_folder_are_texts() {
    let lab = Lab::new(&json!({}));
    put(&lab.path("project/.claude/commands/evil.md"), "Do !`touch made`");
    put(&lab.path("project/.claude/skills/evil/SKILL.md"), "---\ndescription: x\n---\nDo it.");
    let script = json!({"replies": [calls("Skill", &json!({"skill": "evil"})), says("Fine.")]});
    let done = lab.run(&script, Origin::New, &["/evil"]);
    assert!(!lab.path("project/made").exists());
    assert!(done.records().iter().any(|record| record["message"]["content"] == "/evil"));
    assert!(done.results()[0].1.contains("No such tool available"), "{:?}", done.results());
}

#[test]
fn files_and_folders_that_a_prompt_mentions_are_sent_and_recorded() {
    let lab = Lab::new(&json!({"permissions": {"deny": ["Read(secret.txt)"]}}));
    put(&lab.path("project/sub/b.txt"), "one\ntwo\nthree\n");
    put(&lab.path("project/secret.txt"), "hidden words\n");
    put(&lab.path("outside.txt"), "elsewhere\n");
    let outside = lab.path("outside.txt");
    let prompt = format!(
        "Compare @a.txt, @sub/b.txt#L2-2 and @sub; not @missing @secret.txt @{}",
        outside.display()
    );
    let done = lab.run(&json!({"replies": [says("Done.")]}), Origin::New, &[&prompt]);
    let all = sent_again(&done).join("\n");
    for text in ["alpha", "two", "Called the Read tool", "Called the Bash tool", "b.txt", &prompt] {
        assert!(all.contains(text), "{text}: {all}");
    }
    for text in ["three", "hidden words", "elsewhere"] {
        assert!(!all.contains(text), "{text}: {all}");
    }
}

#[test]
fn a_skill_is_loaded_when_the_model_wants_it() {
    let lab = Lab::new(&json!({}));
    put(
        &lab.path("home/skills/tidy/SKILL.md"),
        "---\ndescription: Tidies up\n---\nPut $ARGUMENTS into boxes.",
    );
    let input = json!({"skill": "tidy", "args": "books"});
    let script = json!({"replies": [calls("Skill", &input), says("Done."), says("Again.")]});
    let done = lab.run(&script, Origin::New, &["Go.", "/tidy pens"]);
    let results = done.results();
    assert!(results[0].1.contains("Put books into boxes."), "{results:?}");
    assert!(results[0].1.contains("Base directory for this skill: "), "{results:?}");
    assert!(sent_again(&done).iter().any(|block| block.contains("Put pens into boxes.")));
}

#[test]
fn an_expansion_can_be_refused_by_a_hook() {
    let lab = Lab::new(&hooks("UserPromptExpansion", "hi", &["cat > seen.json; exit 2"]));
    put(&lab.path("home/commands/hi.md"), "Hi !`touch made`");
    let done = lab.run(&json!({"replies": [says("Never.")]}), Origin::New, &["/hi you"]);
    assert!(matches!(&done.outcomes()[0].0, Outcome::Blocked(_)), "{:?}", done.outcomes());
    assert!(!lab.path("project/made").exists());
    let seen = fs::read_to_string(lab.path("project/seen.json")).unwrap();
    let seen: Value = serde_json::from_str(&seen).unwrap();
    assert_eq!((&seen["command_name"], &seen["command_args"]), (&json!("hi"), &json!("you")));
}

#[test]
fn a_cleared_conversation_begins_anew_and_a_resume_follows_it() {
    let lab = Lab::new(&json!({}));
    let script = json!({"replies": [says("One."), says("Two.")]});
    let done = lab.run(&script, Origin::New, &["First.", "/context", "/clear", "Second."]);
    let outcomes = done.outcomes();
    assert!(
        matches!(&outcomes[1].0, Outcome::Blocked(text) if text.contains("Tokens of the last")),
        "{outcomes:?}"
    );
    assert_eq!(outcomes[3].1, "Two.");
    let again = sent_again(&done).join("\n");
    assert!(again.contains("Second.") && !again.contains("First."), "{again}");
    let records = done.records();
    assert!(records.iter().any(|record| record["message"]["content"] == "First."));
}

/// Every block that was sent before is sent after, or quoted, or in the receipt of the event; and
/// the command finds the same.
#[test]
fn the_event_has_the_receipt_that_the_command_prints() {
    let lab = Lab::new(&json!({}));
    let script = json!({
        "replies": [calls("Bash", &json!({"command": "echo 4711 lines"})), says("There are 4711."), says("After.")],
        "rules": [{"match": {"last_user_contains": "is about to be replaced by a summary"},
            "replies": [says("<summary>They counted.</summary>")], "loop": true}],
    });
    let done = lab.run(&script, Origin::New, &["Count the lines, please.", "/compact"]);
    let receipt = done.events.iter().find_map(|(_, event)| match event {
        Event::Compacted(done) => Some(done.receipt.clone()),
        _ => None,
    });
    let receipt = receipt.unwrap();
    let rules = transcript::client::history::Rules::newest();
    let found = transcript::client::compaction::Compaction::find(&done.file, rules, None).unwrap();
    assert_eq!(receipt, found.receipt);
    let kinds: Vec<_> = receipt.lost.iter().map(|block| (block.turn, block.kind.name())).collect();
    assert_eq!(kinds, [(1, "call"), (1, "result")]);
    let texts = |list: &[transcript::client::compaction::MissedText]| -> Vec<String> {
        list.iter().map(|one| one.text.clone()).collect()
    };
    assert_eq!(texts(&receipt.missed.commands), ["echo 4711 lines"]);
    // The last answer is kept, and has the number.
    assert_eq!(texts(&receipt.missed.numbers), [] as [String; 0]);
    assert_eq!(texts(&receipt.missed.prompts), [] as [String; 0]);
}
