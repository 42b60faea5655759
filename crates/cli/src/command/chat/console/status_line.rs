//! The user's own status line: a command that gets JSON on its standard input, as from Claude Code.
//!
//! Invariant: it never holds anything up, and at most one runs at a time; what it prints is text.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use ::console::News;
use ::console::input::Waker;
use ::console::screen::Meter;
use ::console::sgr::colored_lines;
use serde_json::{Value, json};
use transcript::conversation::place::slug;

use super::face;

/// How long it may take.
const LONGEST: Duration = Duration::from_secs(5);
/// How many of its lines are shown.
const LINES: usize = 3;

/// The command, and what it is told.
#[derive(Debug, Default)]
pub(super) struct StatusLine {
    command: Option<String>,
    pub(super) model: String,
    pub(super) meter: Meter,
    begun: Option<Instant>,
    /// How many lines of files were added and removed.
    lines: (u64, u64),
    is_running: Arc<AtomicBool>,
}

impl StatusLine {
    /// The command of the user's settings.
    pub(super) fn new(home: &Path) -> StatusLine {
        let setting = face::setting(home, "statusLine");
        let command = setting.filter(|value| value["type"] == "command");
        let command = command.and_then(|value| value["command"].as_str().map(str::to_owned));
        StatusLine { command, begun: Some(Instant::now()), ..StatusLine::default() }
    }

    /// Counts the lines that a call has changed.
    pub(super) fn count_lines(&mut self, detail: &Value) {
        let hunks = detail["structuredPatch"].as_array().into_iter().flatten();
        for line in hunks.flat_map(|hunk| hunk["lines"].as_array().into_iter().flatten()) {
            let line = line.as_str().unwrap_or_default();
            self.lines.0 += u64::from(line.starts_with('+'));
            self.lines.1 += u64::from(line.starts_with('-'));
        }
        if detail["type"] == "create" {
            let content = detail["content"].as_str().unwrap_or_default();
            self.lines.0 += u64::try_from(content.lines().count()).unwrap_or(0);
        }
    }

    fn json(&self, id: &str, cwd: &Path, home: &Path) -> Value {
        let meter = self.meter;
        let [input, output, written, read] = meter.usage;
        let folder = cwd.display().to_string();
        let file = home.join("projects").join(slug(&folder)).join(format!("{id}.jsonl"));
        let taken = self.begun.map_or(0, |begun| begun.elapsed().as_millis());
        let has_usage = meter.context > 0;
        let percent = (meter.context * 100).checked_div(meter.window).unwrap_or(0);
        json!({
            "hook_event_name": "Status", "session_id": id, "transcript_path": file, "cwd": folder,
            "model": {"id": self.model, "display_name": self.model},
            "workspace": {"current_dir": folder, "project_dir": folder, "added_dirs": []},
            "version": env!("CARGO_PKG_VERSION"), "output_style": {"name": "default"},
            "cost": {
                "total_cost_usd": meter.cost.unwrap_or(0.0),
                "total_duration_ms": u64::try_from(taken).unwrap_or(u64::MAX),
                "total_lines_added": self.lines.0, "total_lines_removed": self.lines.1,
            },
            "context_window": {
                "total_input_tokens": input + written + read, "total_output_tokens": output,
                "context_window_size": meter.window,
                "current_usage": has_usage.then(|| json!({
                    "input_tokens": input, "output_tokens": output,
                    "cache_creation_input_tokens": written, "cache_read_input_tokens": read,
                })),
                "used_percentage": has_usage.then_some(percent),
                "remaining_percentage": has_usage.then_some(100 - percent.min(100)),
            },
            "exceeds_200k_tokens": meter.context > 200_000,
        })
    }

    /// Runs the command, if there is one and it does not run already.
    pub(super) fn run(
        &self,
        id: &str,
        cwd: &Path,
        home: &Path,
        (tell, waker): (Sender<News>, Waker),
    ) {
        let Some(command) = self.command.clone() else { return };
        if self.is_running.swap(true, Ordering::SeqCst) {
            return;
        }
        let (input, cwd) = (self.json(id, cwd, home).to_string(), cwd.to_owned());
        let is_running = self.is_running.clone();
        thread::spawn(move || {
            if let Some(text) = printed(&command, &input, &cwd) {
                let lines = colored_lines(&text, LINES);
                let _ = tell.send(News::StatusLine(lines));
                waker.wake();
            }
            is_running.store(false, Ordering::SeqCst);
        });
    }
}

/// What a command prints; None if it cannot be started, fails or takes too long.
fn printed(command: &str, input: &str, cwd: &Path) -> Option<String> {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).current_dir(cwd);
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = shell.spawn().ok()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that does not read it does not need it.
        let _ = stdin.write_all(input.as_bytes());
    }
    let stdout = child.stdout.take()?;
    let reader = thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stdout.take(1 << 16).read_to_end(&mut text);
        text
    });
    let begun = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => {
                let text = reader.join().ok()?;
                return status.success().then(|| String::from_utf8_lossy(&text).into_owned());
            }
            Ok(None) if begun.elapsed() < LONGEST => thread::sleep(Duration::from_millis(10)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    }
}
