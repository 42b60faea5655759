//! The user's own status line: a command that gets JSON on its standard input, as from Claude Code.
//!
//! Invariants: it never holds anything up, and at most one runs at a time; the last run is told the
//! last state; what it prints is text.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ::console::screen::{Cache, Meter};
use ::console::sgr::colored_lines;
use ::console::text::Line;
use serde_json::{Value, json};
use transcript::conversation::place::slug;

use super::{face, shell};

/// How long it may take.
const LONGEST: Duration = Duration::from_secs(5);
/// How long the rest of its output may take after its end: what it left in the background may keep
/// that open.
const REST: Duration = Duration::from_millis(200);
/// How many of its lines are shown.
const LINES: usize = 3;

/// The command, and what it is told.
#[derive(Debug, Default)]
pub(super) struct StatusLine {
    command: Option<String>,
    pub(super) model: String,
    pub(super) meter: Meter,
    /// Folders beside the project's.
    pub(super) added: Vec<String>,
    /// How hard the model is to think, if somebody said that.
    pub(super) effort: Option<String>,
    pub(super) is_thinking: bool,
    /// The id of the last prompt.
    pub(super) prompt: Option<String>,
    begun: Option<Instant>,
    /// How many lines of files were added and removed.
    lines: (u64, u64),
    runs: Arc<Mutex<Runs>>,
}

/// Whether the command runs, and what it is told after that.
#[derive(Debug, Default)]
struct Runs {
    is_running: bool,
    next: Option<(String, PathBuf)>,
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
        let mut all = json!({
            "hook_event_name": "Status", "session_id": id, "transcript_path": file, "cwd": folder,
            "model": {"id": self.model, "display_name": self.model},
            "workspace": {"current_dir": folder, "project_dir": folder, "added_dirs": self.added},
            "version": env!("CARGO_PKG_VERSION"), "output_style": {"name": "default"},
            "cost": {
                "total_cost_usd": meter.cost.unwrap_or(0.0),
                "total_duration_ms": u64::try_from(taken).unwrap_or(u64::MAX),
                "total_api_duration_ms": meter.api,
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
            "fast_mode": false, "thinking": {"enabled": self.is_thinking},
        });
        if let Some(level) = &self.effort {
            all["effort"] = json!({"level": level});
        }
        if let Some(prompt) = &self.prompt {
            all["prompt_id"] = prompt.as_str().into();
        }
        if meter.cache != Cache::Unknown {
            let [_, _, written, read] = meter.usage;
            let is_warm = meter.cache == Cache::Warm;
            all["prompt_cache"] = json!({"warm": is_warm, "caching_observed": written + read > 0});
        }
        all
    }

    /// Runs the command, if there is one; once more if it runs already.
    pub(super) fn run(
        &self,
        id: &str,
        cwd: &Path,
        home: &Path,
        show: impl Fn(Vec<Line<'static>>) + Send + 'static,
    ) {
        let Some(command) = self.command.clone() else { return };
        let wanted = (self.json(id, cwd, home).to_string(), cwd.to_owned());
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut runs.is_running, true) {
            runs.next = Some(wanted);
            return;
        }
        let runs = self.runs.clone();
        thread::spawn(move || {
            let mut wanted = Some(wanted);
            while let Some((input, cwd)) = wanted {
                if let Some(text) = printed(&command, &input, &cwd) {
                    show(colored_lines(&text, LINES));
                }
                let mut runs = runs.lock().unwrap_or_else(PoisonError::into_inner);
                wanted = runs.next.take();
                runs.is_running = wanted.is_some();
            }
        });
    }
}

/// What a command prints; None if it cannot be started, fails or takes too long.
fn printed(command: &str, input: &str, cwd: &Path) -> Option<String> {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).current_dir(cwd);
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut shell, 0);
    let mut child = shell.spawn().ok()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that does not read it does not need it.
        let _ = stdin.write_all(input.as_bytes());
    }
    let bytes = Arc::default();
    let reader = shell::reader(child.stdout.take(), &bytes);
    let begun = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if begun.elapsed() < LONGEST => thread::sleep(Duration::from_millis(10)),
            _ => {
                shell::end(&mut child);
                return None;
            }
        }
    };
    let ended = Instant::now();
    while !reader.is_finished() && ended.elapsed() < REST {
        thread::sleep(Duration::from_millis(5));
    }
    let bytes = bytes.lock().unwrap_or_else(PoisonError::into_inner);
    status.success().then(|| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn the_command_gets_what_the_client_gives_it() {
        let meter = Meter {
            context: 20_000,
            window: 200_000,
            cost: Some(0.5),
            cache: Cache::Warm,
            api: 1_200,
            usage: [10, 20, 30, 40],
        };
        let line = StatusLine {
            model: "claude-opus-4-6".to_owned(),
            meter,
            added: vec!["/more".to_owned()],
            effort: Some("high".to_owned()),
            prompt: Some("p1".to_owned()),
            lines: (3, 1),
            ..StatusLine::default()
        };
        let folder = Path::new("/x/demo");
        let wanted = json!({
            "hook_event_name": "Status", "session_id": "id",
            "transcript_path": "/h/projects/-x-demo/id.jsonl", "cwd": "/x/demo",
            "model": {"id": "claude-opus-4-6", "display_name": "claude-opus-4-6"},
            "workspace": {
                "current_dir": "/x/demo", "project_dir": "/x/demo", "added_dirs": ["/more"],
            },
            "version": env!("CARGO_PKG_VERSION"), "output_style": {"name": "default"},
            "cost": {
                "total_cost_usd": 0.5, "total_duration_ms": 0, "total_api_duration_ms": 1_200,
                "total_lines_added": 3, "total_lines_removed": 1,
            },
            "context_window": {
                "total_input_tokens": 80, "total_output_tokens": 20,
                "context_window_size": 200_000,
                "current_usage": {
                    "input_tokens": 10, "output_tokens": 20,
                    "cache_creation_input_tokens": 30, "cache_read_input_tokens": 40,
                },
                "used_percentage": 10, "remaining_percentage": 90,
            },
            "exceeds_200k_tokens": false, "fast_mode": false, "thinking": {"enabled": false},
            "effort": {"level": "high"}, "prompt_id": "p1",
            "prompt_cache": {"warm": true, "caching_observed": true},
        });
        assert_eq!(line.json("id", folder, Path::new("/h")), wanted);
    }

    #[test]
    fn what_stays_in_the_background_holds_nothing_up() {
        let begun = Instant::now();
        let text = printed("echo one; sleep 20 &", "", &std::env::temp_dir());
        assert_eq!(text.as_deref(), Some("one\n"));
        assert!(begun.elapsed() < Duration::from_secs(15));
    }

    #[test]
    fn the_last_run_is_told_the_last_state() {
        let command = "sleep 0.2; sed 's/.*\"display_name\":\"\\([a-z]*\\)\".*/\\1/'";
        let mut line = StatusLine { command: Some(command.to_owned()), ..StatusLine::default() };
        let (tell, shown) = mpsc::channel();
        let folder = std::env::temp_dir();
        for model in ["first", "second", "third"] {
            model.clone_into(&mut line.model);
            let tell = tell.clone();
            line.run("id", &folder, &folder, move |lines| tell.send(lines).unwrap());
        }
        drop(tell);
        let lines = shown.iter().flatten();
        let texts: Vec<String> = lines.map(|line| ::console::text::plain(&line)).collect();
        assert_eq!(texts, ["first", "third"]);
    }
}
