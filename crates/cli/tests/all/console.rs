//! The console, driven through tmux against the scripted API.

use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::api::{Reply, Server};

use crate::chat::{SESSION, call, text};
use crate::env::Env;

/// A window in a tmux server of its own.
struct Tmux {
    socket: String,
    env: Env,
    server: Server,
}

impl Tmux {
    /// Starts the console in a window of that size; None if there is no tmux.
    fn start(replies: Vec<Reply>, args: &[&str], size: (u16, u16)) -> Option<Tmux> {
        Command::new("tmux").arg("-V").output().ok()?;
        let env = Env::bare();
        env.put("demo/README.md", "# Demo\n");
        env.put("demo/knots.sh", "count=2\necho \"$count knots\"\n");
        let conf = env.put("tmux.conf", "set -g history-limit 200000\nset -g escape-time 0\n");
        let socket = format!("quipu-{}-{:?}", std::process::id(), std::thread::current().id());
        let socket: String = socket.chars().filter(|c| c.is_alphanumeric()).collect();
        let server = Server::play(replies).unwrap();
        let home = env.path("").display().to_string();
        let mut words = vec![
            "env".to_owned(),
            "-i".to_owned(),
            format!("HOME={home}"),
            "PATH=/usr/local/bin:/usr/bin:/bin".to_owned(),
            "TERM=tmux-256color".to_owned(),
            "LANG=C.UTF-8".to_owned(),
            "TZ=UTC".to_owned(),
            "IS_SANDBOX=1".to_owned(),
            "ANTHROPIC_API_KEY=sk-ant-test-not-a-key".to_owned(),
            format!("ANTHROPIC_BASE_URL={}", server.url()),
            "CLAUDE_CODE_MAX_RETRIES=1".to_owned(),
            env!("CARGO_BIN_EXE_quipu").to_owned(),
            "chat".to_owned(),
            "--session-id".to_owned(),
            SESSION.to_owned(),
        ];
        words.extend(args.iter().map(|arg| (*arg).to_owned()));
        let line: Vec<String> =
            words.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect();
        // What is left in the window after the program ends stays to be read.
        let line = format!("{}; echo left $?; cat", line.join(" "));
        let tmux = Tmux { socket, env, server };
        let cwd = tmux.env.path("demo").display().to_string();
        let (width, height) = (size.0.to_string(), size.1.to_string());
        let conf = conf.display().to_string();
        tmux.run(&[
            "-f",
            &conf,
            "new-session",
            "-d",
            "-x",
            &width,
            "-y",
            &height,
            "-c",
            &cwd,
            "/bin/sh",
            "-c",
            &line,
        ]);
        tmux.run(&["set", "-g", "window-size", "manual"]);
        tmux.wait("lists the keys");
        Some(tmux)
    }

    fn run(&self, args: &[&str]) -> String {
        let done =
            Command::new("tmux").args(["-u", "-L", &self.socket]).args(args).output().unwrap();
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    fn keys(&self, keys: &[&str]) {
        let mut args = vec!["send-keys", "-t", ":0"];
        args.extend(keys);
        self.run(&args);
        sleep(Duration::from_millis(60));
    }

    fn line(&self, text: &str) {
        self.run(&["send-keys", "-t", ":0", "-l", text]);
        sleep(Duration::from_millis(60));
        self.keys(&["Enter"]);
    }

    fn screen(&self) -> String {
        self.run(&["capture-pane", "-t", ":0", "-p"])
    }

    /// Everything that was printed, as logical lines.
    fn scrollback(&self) -> Vec<String> {
        let text = self.run(&["capture-pane", "-t", ":0", "-p", "-J", "-S", "-"]);
        text.lines().map(|line| line.trim_end().to_owned()).collect()
    }

    fn wait(&self, wanted: &str) -> String {
        let start = Instant::now();
        loop {
            let screen = self.screen();
            if screen.contains(wanted) {
                return screen;
            }
            assert!(
                start.elapsed() < Duration::from_secs(30),
                "{wanted:?} does not come:\n{screen}"
            );
            sleep(Duration::from_millis(30));
        }
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
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
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
        blocks(&[text("The queued one.")]),
    ];
    let Some(tmux) =
        Tmux::start(replies, &["--sandbox", "off", "--permission-mode", "default"], (100, 40))
    else {
        return;
    };
    tmux.line("Say hello");
    tmux.wait("fn main() {}");
    tmux.line("make a file");
    tmux.wait("Run this command?");
    tmux.wait("may it?");
    sleep(Duration::from_millis(500));
    tmux.keys(&["1"]);
    tmux.wait("Made it.");
    assert!(tmux.env.path("demo/made.txt").exists());
    tmux.line("remove it");
    tmux.wait("rm -r /tmp/never");
    tmux.wait("may it?");
    sleep(Duration::from_millis(500));
    tmux.keys(&["3"]);
    tmux.line("it is not yours");
    tmux.wait("Then I leave it.");
    tmux.line("a repository");
    tmux.wait("git init elsewhere");
    tmux.wait("may it?");
    sleep(Duration::from_millis(500));
    tmux.keys(&["2"]);
    tmux.line("");
    tmux.wait("Repository made.");
    let rules = std::fs::read_to_string(tmux.env.path("demo/.claude/settings.local.json")).unwrap();
    assert!(rules.contains("\"Bash(git init"), "{rules}");
    tmux.line("fix it");
    tmux.wait("-count=2");
    tmux.wait("may it?");
    sleep(Duration::from_millis(500));
    tmux.keys(&["1"]);
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
    tmux.keys(&["C-d"]);
    let screen = tmux.wait("left 0");
    assert!(screen.contains(&format!("quipu chat --resume {SESSION}")), "{screen}");
    assert!(!screen.contains("manual mode on"), "{screen}");
    let check = tmux.quipu(&["check", SESSION]);
    assert!(check.contains("resumes"), "{check}");
    let records = tmux.records();
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
    let Some(tmux) = Tmux::start(replies, &[], (80, 24)) else { return };
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
fn lines_only_for_screen_readers() {
    let replies = vec![
        blocks(&[call(
            "toolu_01",
            "Bash",
            &json!({"command": "touch made.txt", "description": "x"}),
        )]),
        blocks(&[text("Made **it**.")]),
    ];
    let Some(tmux) = Tmux::start(replies, &["--ax-screen-reader", "--sandbox", "off"], (80, 30))
    else {
        return;
    };
    tmux.line("make a file");
    tmux.wait("1. Yes");
    sleep(Duration::from_millis(600));
    tmux.line("1");
    tmux.wait("Made it.");
    assert!(tmux.env.path("demo/made.txt").exists());
    tmux.line("/exit");
    tmux.wait("left 0");
    let screen = tmux.screen();
    assert!(!screen.contains("working") && !screen.contains("manual mode"), "{screen}");
}
