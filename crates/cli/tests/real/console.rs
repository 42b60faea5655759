//! The console beside the real client: a day's work that the real clients resume, and what both
//! record of the same interactive scenarios.

mod compare;
mod session;

use std::fs;
use std::ops::Deref;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::api::{Reply, Server};
use testkit::tmux::{Tmux, shell_line};
use transcript::conversation::place::slug;

use crate::lab::Lab;

const SESSION: &str = "11111111-1111-4111-8111-111111111111";

/// The console in a window, with a lab and a scripted model.
struct Desk {
    tmux: Tmux,
    lab: Lab,
    server: Server,
}

impl Deref for Desk {
    type Target = Tmux;

    fn deref(&self) -> &Tmux {
        &self.tmux
    }
}

impl Desk {
    /// Starts the console, and after it the same session once more; None if there is no tmux.
    fn start(lab: Lab, replies: Vec<Reply>, flags: &[&str]) -> Option<Desk> {
        let server = Server::play(replies).unwrap();
        let home = lab.home().display().to_string();
        let words = [
            "env".to_owned(),
            "-i".to_owned(),
            format!("HOME={home}"),
            "PATH=/usr/local/bin:/usr/bin:/bin".to_owned(),
            "TERM=tmux-256color".to_owned(),
            "LANG=C.UTF-8".to_owned(),
            "IS_SANDBOX=1".to_owned(),
            "ANTHROPIC_API_KEY=sk-ant-test-not-a-key".to_owned(),
            format!("ANTHROPIC_BASE_URL={}", server.url()),
            env!("CARGO_BIN_EXE_quipu").to_owned(),
            "chat".to_owned(),
            "--sandbox".to_owned(),
            "off".to_owned(),
        ];
        let (start, flags) = (shell_line(&words), shell_line(flags));
        let line = format!(
            "{start} --session-id {SESSION} {flags}; echo left once $?; read x; clear; \
             {start} --resume {SESSION} {flags}; echo left $?; cat"
        );
        let tmux = Tmux::open(&line, &lab.cwd(), (120, 45))?;
        tmux.wait("lists the keys");
        Some(Desk { tmux, lab, server })
    }

    /// Answers a question, after it has been there long enough.
    fn answer(&self, key: &str) {
        sleep(Duration::from_millis(400));
        self.keys(&[key]);
    }

    /// Waits until a text was printed that often, and nothing runs.
    fn rest(&self, wanted: &str, times: usize) {
        let is_so =
            |screen: &str| screen.matches(wanted).count() >= times && !screen.contains("Esc stops");
        self.until(wanted, is_so);
    }

    /// The folder of the project's sessions.
    fn project(&self) -> PathBuf {
        let cwd = fs::canonicalize(self.lab.cwd()).unwrap();
        self.lab.home().join(".claude/projects").join(slug(&cwd.to_string_lossy()))
    }
}

fn text(words: &str) -> Value {
    json!({"type": "text", "text": words})
}

fn call(id: &str, name: &str, input: &Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": input})
}

fn says(words: &str) -> Reply {
    Reply::Blocks(vec![text(words)])
}

fn calls(blocks: &[Value]) -> Reply {
    Reply::Blocks(blocks.to_vec())
}

/// All records of a file.
fn records(bytes: &[u8]) -> Vec<Value> {
    String::from_utf8_lossy(bytes).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
