//! The console, driven through tmux against the scripted API.

mod ask;
mod back;
mod crash;
mod keys;
mod lines;
mod storm;

use std::ops::Deref;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::api::{Reply, Server};
use testkit::tmux::{Tmux, shell_line};

use crate::chat::{SESSION, call, text};
use crate::env::Env;

/// A window with the console in it, a user and the API.
pub(crate) struct Desk {
    tmux: Tmux,
    pub(crate) env: Env,
    server: Server,
}

impl Deref for Desk {
    type Target = Tmux;

    fn deref(&self) -> &Tmux {
        &self.tmux
    }
}

impl Desk {
    /// Starts the console in a window of that size; None if there is no tmux.
    fn start(replies: Vec<Reply>, args: &[&str], size: (u16, u16)) -> Option<Desk> {
        let env = Env::bare();
        let desk = Desk::in_shell(replies, env, size, |line| {
            // What is left in the window after the program ends stays to be read.
            format!("{} {}; echo left $?; cat", line, shell_line(args))
        })?;
        desk.wait("lists the keys");
        Some(desk)
    }

    /// Opens a window with a line of the shell, made of the one that starts the console.
    pub(crate) fn in_shell(
        replies: Vec<Reply>,
        env: Env,
        size: (u16, u16),
        line: impl Fn(&str) -> String,
    ) -> Option<Desk> {
        env.put("demo/README.md", "# Demo\n");
        env.put("demo/knots.sh", "count=2\necho \"$count knots\"\n");
        let server = Server::play(replies).unwrap();
        let home = env.path("").display().to_string();
        let bin = env.path("bin").display().to_string();
        let words = [
            "env".to_owned(),
            "-i".to_owned(),
            format!("HOME={home}"),
            format!("PATH={bin}:/usr/local/bin:/usr/bin:/bin"),
            "TERM=tmux-256color".to_owned(),
            "LANG=C.UTF-8".to_owned(),
            "TZ=UTC".to_owned(),
            "IS_SANDBOX=1".to_owned(),
            format!("EDITOR={bin}/editor"),
            "ANTHROPIC_API_KEY=sk-ant-test-not-a-key".to_owned(),
            format!("ANTHROPIC_BASE_URL={}", server.url()),
            "CLAUDE_CODE_MAX_RETRIES=1".to_owned(),
            env!("CARGO_BIN_EXE_quipu").to_owned(),
            "chat".to_owned(),
            "--session-id".to_owned(),
            SESSION.to_owned(),
        ];
        let tmux = Tmux::open(&line(&shell_line(&words)), &env.path("demo"), size)?;
        Some(Desk { tmux, env, server })
    }

    /// What `quipu` says about the session.
    fn quipu(&self, args: &[&str]) -> String {
        let done = self.env.command(args).output().unwrap();
        format!(
            "{}{}",
            String::from_utf8_lossy(&done.stdout),
            String::from_utf8_lossy(&done.stderr)
        )
    }

    fn records(&self) -> Vec<Value> {
        let file = testkit::files_under(&[self.env.path(".claude/projects")]);
        let file =
            file.iter().find(|file| file.path.ends_with(format!("{SESSION}.jsonl"))).unwrap();
        let text = std::fs::read_to_string(&file.path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Answers a question, after it has been there long enough.
    pub(crate) fn answer(&self, key: &str) {
        sleep(Duration::from_millis(400));
        self.keys(&[key]);
    }
}

fn blocks(blocks: &[Value]) -> Reply {
    Reply::Blocks(blocks.to_vec())
}

#[test]
fn a_session_of_several_turns() {
    let bash = |id: &str, command: &str| {
        call(id, "Bash", &json!({"command": command, "description": "x"}))
    };
    let edit = |id: &str, file: &str| {
        call(
            id,
            "Edit",
            &json!({"file_path": file, "old_string": "count=2", "new_string": "count=1"}),
        )
    };
    let env_file = "knots.sh";
    let replies = vec![
        blocks(&[text("Hello, **you**.\n\n```rust\nfn main() {}\n```\n")]),
        // Asked about, and allowed.
        blocks(&[bash("toolu_01", "touch made.txt && echo touched")]),
        blocks(&[text("Made it.")]),
        // Refused with a reason.
        blocks(&[bash("toolu_02", "rm -r /tmp/never")]),
        blocks(&[text("Then I leave it.")]),
        // Always: the rule is edited first.
        blocks(&[bash("toolu_03", "git init elsewhere")]),
        blocks(&[text("Repository made.")]),
        // A file is read and changed, with the diff.
        blocks(&[call("toolu_04", "Read", &json!({"file_path": env_file}))]),
        blocks(&[edit("toolu_05", env_file)]),
        blocks(&[text("One knot less.")]),
        // It is interrupted.
        blocks(&[bash("toolu_06", "sleep 60")]),
        blocks(&[text("After the interruption.")]),
        // The summary, and what is said after it.
        blocks(&[text("<summary>A knot was removed.</summary>")]),
        blocks(&[text("On we go.")]),
    ];
    let Some(tmux) =
        Desk::start(replies, &["--sandbox", "off", "--permission-mode", "default"], (100, 40))
    else {
        return;
    };
    tmux.line("Say hello");
    tmux.wait("fn main() {}");
    tmux.line("make a file");
    tmux.wait("Run this command?");
    tmux.wait("allow it?");
    tmux.answer("1");
    tmux.wait("Made it.");
    assert!(tmux.env.path("demo/made.txt").exists());
    tmux.line("remove it");
    tmux.wait("rm -r /tmp/never");
    tmux.wait("allow it?");
    tmux.answer("3");
    tmux.line("it is not yours");
    tmux.wait("Then I leave it.");
    tmux.line("a repository");
    tmux.wait("git init elsewhere");
    tmux.wait("allow it?");
    tmux.answer("2");
    tmux.line("");
    tmux.wait("Repository made.");
    let rules = std::fs::read_to_string(tmux.env.path("demo/.claude/settings.local.json")).unwrap();
    assert!(rules.contains("\"Bash(git init"), "{rules}");
    tmux.line("fix it");
    tmux.wait("-count=2");
    tmux.wait("allow it?");
    tmux.answer("1");
    tmux.wait("One knot less.");
    tmux.line("wait for a minute");
    tmux.wait("running");
    tmux.line("queued words");
    tmux.wait("⧗ queued words");
    tmux.keys(&["Up"]);
    tmux.keys(&["C-u"]);
    tmux.keys(&["Escape"]);
    tmux.wait("interrupted");
    tmux.line("and now?");
    tmux.wait("After the interruption.");
    tmux.line("/agents");
    tmux.wait("general-purpose");
    tmux.line("/compact");
    tmux.wait("summarised:");
    tmux.line("go on");
    tmux.wait("On we go.");
    tmux.keys(&["C-d"]);
    let screen = tmux.wait("left 0");
    assert!(screen.contains(&format!("quipu chat --resume {SESSION}")), "{screen}");
    assert!(!screen.contains("manual mode on"), "{screen}");
    let check = tmux.quipu(&["check", SESSION]);
    assert!(check.contains("resumes"), "{check}");
    let records = tmux.records();
    assert!(records.iter().any(|record| record["subtype"] == "compact_boundary"));
    let prompts: Vec<&str> = records
        .iter()
        .filter(|record| record["type"] == "user")
        .filter_map(|record| {
            let content = &record["message"]["content"];
            content.as_str().or_else(|| content[0]["text"].as_str())
        })
        .collect();
    assert!(prompts.contains(&"Say hello") && prompts.contains(&"and now?"), "{prompts:?}");
    let reasons: Vec<String> = tmux.server.requests().iter().map(Value::to_string).collect();
    assert!(reasons.iter().any(|request| request.contains("it is not yours")));
    let history = std::fs::read_to_string(tmux.env.path(".claude/history.jsonl")).unwrap();
    assert!(history.contains(r#""display":"Say hello","pastedContents":{}"#), "{history}");
}

#[test]
fn the_scrollback_holds_every_line_once_in_a_storm_of_resizes() {
    let code: Vec<String> = (0..60)
        .map(|n| format!("let code{n} = \"{}\";", format!("{n} ").repeat(90).trim_end()))
        .collect();
    let mut replies = Vec::new();
    for turn in 0..8 {
        let lines: Vec<String> = (0..50)
            .map(|n| format!("turn {turn} line {n} {}", "word ".repeat(n % 40).trim_end()))
            .collect();
        replies.push(blocks(&[text(&format!(
            "{}\n\n```\n{}\n```\n",
            lines.join("\n\n"),
            code.join("\n")
        ))]));
    }
    let Some(tmux) = Desk::start(replies, &[], (80, 24)) else { return };
    let mut seed: u32 = 11;
    let mut random = |most: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) % most
    };
    for turn in 0..8 {
        tmux.run(&["send-keys", "-t", ":0", "-l", &format!("prompt {turn} of the storm")]);
        for step in 0..63 {
            if step == 20 {
                tmux.run(&["send-keys", "-t", ":0", "Enter"]);
            }
            let (width, height) = ((40 + random(160)).to_string(), (8 + random(52)).to_string());
            tmux.run(&["resize-window", "-t", ":0", "-x", &width, "-y", &height]);
            if random(3) == 0 {
                sleep(Duration::from_millis(u64::from(random(12))));
            }
        }
        tmux.run(&["resize-window", "-t", ":0", "-x", "100", "-y", "30"]);
        tmux.wait("let code59");
        sleep(Duration::from_millis(150));
    }
    tmux.keys(&["C-d"]);
    tmux.wait("left 0");
    let lines = tmux.scrollback();
    for turn in 0..8 {
        for n in 0..50 {
            let line = format!("turn {turn} line {n} {}", "word ".repeat(n % 40).trim_end());
            let found = lines.iter().filter(|found| **found == line.trim_end()).count();
            assert_eq!(found, 1, "{line:?}\n{}", lines.join("\n"));
        }
        let prompt = format!("❯ prompt {turn} of the storm");
        assert_eq!(
            lines.iter().filter(|line| **line == prompt).count(),
            1,
            "{prompt}\n{}",
            lines.join("\n")
        );
    }
    // Code that is wider than the window is copied back as it was.
    for line in &code {
        assert_eq!(lines.iter().filter(|found| *found == line).count(), 8, "{line}");
    }
    // Nothing of the live area is left.
    let left: Vec<&String> = lines
        .iter()
        .filter(|line| line.contains("manual mode") || line.contains("Esc stops"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let order: Vec<&String> = lines.iter().filter(|line| line.starts_with("turn ")).collect();
    let mut sorted = order.clone();
    sorted.sort_by_key(|line| {
        let mut words = line.split(' ');
        let number = |word: Option<&str>| word.and_then(|word| word.parse::<usize>().ok());
        (number(words.nth(1)), number(words.nth(1)))
    });
    assert_eq!(order, sorted);
}

#[test]
fn escape_twice_goes_back() {
    let bash = json!({"command": "echo two > two.txt; rm knots.sh", "description": "x"});
    let replies = vec![
        blocks(&[text("ANSWER-ONE.")]),
        blocks(&[call("toolu_01", "Bash", &bash)]),
        blocks(&[text("ANSWER-TWO.")]),
        blocks(&[text("ANSWER-THREE.")]),
    ];
    let flags = ["--sandbox", "off", "--dangerously-skip-permissions"];
    let Some(tmux) = Desk::start(replies, &flags, (100, 40)) else { return };
    tmux.line("first prompt");
    tmux.wait("ANSWER-ONE.");
    tmux.line("second prompt");
    tmux.wait("ANSWER-TWO.");
    let made = |name: &str| tmux.env.path(&format!("demo/{name}")).exists();
    assert!(made("two.txt") && !made("knots.sh"));
    sleep(Duration::from_millis(300));
    tmux.keys(&["Escape"]);
    tmux.keys(&["Escape"]);
    tmux.wait("2. #1 first prompt");
    tmux.answer("1");
    let screen = tmux.wait("What goes back?");
    assert!(screen.contains("two.txt (+0 -1)") && screen.contains("+count=2"), "{screen}");
    assert!(made("two.txt") && !made("knots.sh"));
    tmux.answer("1");
    tmux.wait("the conversation goes on before this prompt");
    assert!(!made("two.txt") && made("knots.sh"));
    // The prompt is in the input line again.
    let is_there = || {
        let screen = tmux.screen();
        let mut last = screen.lines().rev().filter(|line| !line.trim().is_empty()).take(5);
        last.any(|line| line.contains("second prompt"))
    };
    let start = Instant::now();
    while !is_there() {
        assert!(start.elapsed() < Duration::from_secs(10), "{}", tmux.screen());
        sleep(Duration::from_millis(30));
    }
    tmux.keys(&["C-u"]);
    tmux.line("another prompt");
    tmux.wait("ANSWER-THREE.");
    let records = tmux.records();
    let parent = |words: &str| {
        let is_its = |record: &&Value| record["message"]["content"] == words;
        records.iter().find(is_its).unwrap()["parentUuid"].clone()
    };
    assert_eq!(parent("another prompt"), parent("second prompt"));
    let undone = tmux.quipu(&["undo"]);
    assert!(made("two.txt") && !made("knots.sh"), "{undone}");
}
