//! What our agent records of sub-agents, hooks and summaries: the real clients resume it and send
//! what we say, and `check` finds nothing in it.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use testkit::api::{Reply, Server};

use crate::chat::{findings, ours, resumes};
use crate::lab::{Lab, clients, write};
use crate::rewind::Hosted;

const SESSION: &str = "11111111-1111-4111-8111-111111111111";
const ORDER: &str = "is about to be replaced by a summary";

fn text(words: &str) -> Value {
    json!({"type": "text", "text": words})
}

fn call(id: &str, name: &str, input: &Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": input})
}

fn task(id: &str, prompt: &str, is_background: bool) -> Value {
    let input = json!({
        "description": prompt, "prompt": prompt, "subagent_type": "general-purpose",
        "run_in_background": is_background,
    });
    call(id, "Task", &input)
}

fn bash(id: &str, command: &str) -> Value {
    call(id, "Bash", &json!({"command": command, "description": "Run a step"}))
}

/// A scene: settings, rules of the model, its other replies, and what is said.
struct Scene {
    name: &'static str,
    settings: Value,
    rules: Vec<(&'static str, Vec<Vec<Value>>)>,
    replies: Vec<Reply>,
    prompts: Vec<&'static str>,
    /// What the last request contains.
    last: &'static str,
    /// How many files of sub-agents there are.
    agents: usize,
}

fn scenes() -> Vec<Scene> {
    let none = || json!({});
    let hook = |command: &str| {
        let hook = json!({"type": "command", "command": command});
        json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}})
    };
    let blocks = |all: Vec<Vec<Value>>| all.into_iter().map(Reply::Blocks).collect::<Vec<_>>();
    let changed = r#"echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{"command":"echo LAB-CHANGED"}}}'"#;
    let summary = vec![text("<summary>LAB-SUMMARY of it.</summary>")];
    vec![
        Scene {
            name: "nested and parallel sub-agents",
            settings: none(),
            rules: vec![
                ("LAB-A", vec![vec![task("a1", "LAB-B", false), bash("a2", "echo three")]]),
                ("LAB-B", vec![vec![text("B has found it.")]]),
                ("B has found it", vec![vec![text("A has it from B.")]]),
                ("LAB-C", vec![vec![bash("c1", "echo four")]]),
                ("four", vec![vec![text("C says four.")]]),
            ],
            replies: blocks(vec![
                vec![text("Both."), task("t1", "LAB-A", false), task("t2", "LAB-C", false)],
                vec![text("Both have reported.")],
                vec![text("Fine.")],
            ]),
            prompts: vec!["Ask both.", "And?"],
            last: "C says four.",
            agents: 3,
        },
        Scene {
            name: "sub-agent in the background",
            settings: none(),
            rules: vec![
                ("LAB-BACK", vec![vec![bash("b1", "echo slow")]]),
                ("slow", vec![vec![text("It is done in the background.")]]),
                ("task-notification", vec![vec![text("Noted.")]]),
            ],
            replies: blocks(vec![
                vec![task("t1", "LAB-BACK", true)],
                vec![text("It runs.")],
                vec![text("Fine.")],
            ]),
            prompts: vec!["Start it.", "And?"],
            last: "It is done in the background.",
            agents: 1,
        },
        Scene {
            name: "hook that blocks",
            settings: hook("echo LAB-NOT-SO >&2; exit 2"),
            rules: Vec::new(),
            replies: blocks(vec![
                vec![bash("b1", "touch made")],
                vec![text("It may not.")],
                vec![text("Fine.")],
            ]),
            prompts: vec!["Make it.", "And?"],
            last: "LAB-NOT-SO",
            agents: 0,
        },
        Scene {
            name: "hook that changes the input",
            settings: hook(changed),
            rules: Vec::new(),
            replies: blocks(vec![
                vec![bash("b1", "echo as it was")],
                vec![text("Changed.")],
                vec![text("Fine.")],
            ]),
            prompts: vec!["Say it.", "And?"],
            last: "LAB-CHANGED",
            agents: 0,
        },
        Scene {
            name: "compaction in the middle of a tool loop",
            settings: none(),
            rules: vec![(ORDER, vec![summary.clone()])],
            replies: vec![
                Reply::Blocks(vec![text("Hello.")]),
                Reply::Full(vec![bash("b1", "echo one"), bash("b2", "echo LAB-TWO")], 990_000),
                Reply::Blocks(vec![bash("b3", "echo three")]),
                Reply::Blocks(vec![text("Done.")]),
                Reply::Blocks(vec![text("Fine.")]),
            ],
            prompts: vec!["Hello.", "Go through it.", "And?"],
            last: "LAB-TWO",
            agents: 0,
        },
    ]
}

/// What a prompt of a hosted session ends with, over all of its turns.
fn say(hosted: &mut Hosted, words: &str, number: usize) {
    let id = format!("aaaaaaaa-0000-4000-8000-{number:012}");
    hosted.say(words, &id);
}

fn project(lab: &Lab) -> PathBuf {
    let projects = lab.home().join(".claude/projects");
    fs::read_dir(projects).unwrap().flatten().next().unwrap().path()
}

/// Whether both clients send of these sessions what we say, and `check` finds nothing.
fn judge(name: &str, sessions: &[Vec<u8>], wrong: &mut Vec<String>) {
    for bytes in sessions {
        wrong.extend(findings(bytes).into_iter().map(|found| format!("{name}: {found}")));
    }
    for (version, start) in clients() {
        let found = resumes(&version, &start, sessions);
        println!("{name}: {version} {}", if found.is_none() { "same" } else { "other" });
        wrong.extend(found.map(|found| format!("{name}, {version}: {found}")));
    }
}

#[test]
fn the_clients_resume_what_sub_agents_hooks_and_summaries_leave() {
    let mut wrong = Vec::new();
    for scene in scenes() {
        let name = scene.name;
        let lab = Lab::new();
        write(&lab.home().join(".claude/settings.json"), scene.settings.to_string());
        let rules = scene.rules.into_iter().map(|(wanted, replies)| {
            (wanted.to_owned(), replies.into_iter().map(Reply::Blocks).collect())
        });
        let server = Server::play_by(rules.collect(), scene.replies).unwrap();
        for (number, prompt) in scene.prompts.iter().enumerate() {
            let mut args = vec![*prompt, "--session-id", SESSION];
            if number > 0 {
                args[1] = "--resume";
            }
            lab.run(&ours(), &server, &args);
        }
        let last = server.requests().last().unwrap()["messages"].to_string();
        assert!(last.contains(scene.last), "{name}: {last}");
        assert!(!lab.cwd().join("made").exists(), "{name}");
        let project = project(&lab);
        let agents = fs::read_dir(project.join(SESSION).join("subagents"));
        let agents = agents.into_iter().flatten().flatten().map(|entry| entry.path());
        let agents = agents.filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
        let agents: Vec<PathBuf> = agents.collect();
        assert_eq!(agents.len(), scene.agents, "{name}");
        for agent in agents {
            let bytes = fs::read(agent).unwrap();
            wrong.extend(findings(&bytes).into_iter().map(|found| format!("{name}: {found}")));
        }
        let session = fs::read(project.join(format!("{SESSION}.jsonl"))).unwrap();
        judge(name, &[session], &mut wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_clients_resume_a_fork_of_a_rewind_of_a_summary() {
    let lab = Lab::new();
    let rules =
        vec![(ORDER.to_owned(), vec![Reply::Blocks(vec![text("<summary>LAB-SUMMARY</summary>")])])];
    let answers = ["One.", "Two.", "A detour.", "Back.", "In the fork."];
    let answers = answers.iter().map(|words| Reply::Blocks(vec![text(words)])).collect();
    let server = Server::play_by(rules, answers).unwrap();
    let mut hosted = Hosted::start(&lab, &ours(), &server, &["--session-id", SESSION]);
    for (number, words) in ["First.", "/compact", "Second.", "A detour, please."].iter().enumerate()
    {
        say(&mut hosted, words, number);
    }
    let detour = "aaaaaaaa-0000-4000-8000-000000000003";
    let back = json!({"subtype": "rewind", "user_message_id": detour, "what": "conversation"});
    let done = hosted.ask(&back);
    assert_eq!(done["subtype"], "success", "{done}");
    say(&mut hosted, "No detour.", 4);
    hosted.end();
    lab.run(&ours(), &server, &["In a fork.", "--resume", SESSION, "--fork-session"]);
    let last = server.requests().last().unwrap()["messages"].to_string();
    assert!(last.contains("LAB-SUMMARY") && last.contains("Back."), "{last}");
    // The last answer before the summary stays as it was.
    assert!(last.contains(r#""text":"One.""#) && !last.contains("detour, please"), "{last}");
    let files = fs::read_dir(project(&lab)).unwrap().flatten().map(|entry| entry.path());
    let files = files.filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
    let sessions: Vec<Vec<u8>> = files.map(|path| fs::read(path).unwrap()).collect();
    assert_eq!(sessions.len(), 2);
    let mut wrong = Vec::new();
    judge("compaction, rewind, fork", &sessions, &mut wrong);
    // What was rewound is said to be, and nothing else.
    wrong.retain(|found| !found.contains(r#""code":"rewound""#));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
