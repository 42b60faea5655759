//! Commands that `quipu` can do: it is run beside the session, on its file.
//!
//! Invariant: nothing waits for it; what it prints is text.

use std::io::Write;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

use ::console::News;
use ::console::run::{self, Stage};
use ::console::text::{Line, Style, line, look, output_lines, safe};
use serde_json::Value;

use super::backend::Backend;
use crate::command::chat::ChatArgs;
use crate::text::{count, grouped};

/// The flags that decide which settings count.
fn settings_flags(args: &ChatArgs) -> Vec<String> {
    let pairs = [("--settings", &args.settings), ("--setting-sources", &args.setting_sources)];
    let given = pairs.into_iter().filter_map(|(flag, value)| Some([flag, value.as_deref()?]));
    given.flatten().map(str::to_owned).collect()
}

/// Runs `quipu` beside the session, in a thread.
pub(super) fn beside<W: Write>(
    backend: &mut Backend<'_>,
    name: &str,
    rest: &str,
    stage: &mut Stage<'_, W>,
) {
    let id = backend.id.clone();
    let needs_session = !matches!(name, "permissions" | "hooks" | "trust");
    if needs_session && !backend.has_begun() {
        stage.screen.note(look::DIM, "nothing was said yet");
        return;
    }
    let file = if rest.is_empty() { format!("{id}.md") } else { rest.to_owned() };
    let args: Vec<String> = match name {
        "context" => vec!["context".to_owned(), id],
        "doctor" => vec!["check".to_owned(), id],
        "cost" => {
            vec!["usage", "--explain", &id, "--json"].into_iter().map(str::to_owned).collect()
        }
        "changes" => vec!["changes".to_owned(), id],
        "export" => vec!["export".to_owned(), "md".to_owned(), id, "-o".to_owned(), file.clone()],
        "trust" => vec!["chat".to_owned(), "--trust".to_owned()],
        _ => vec!["chat".to_owned(), "--settings-check".to_owned()],
    };
    let home = backend.home.display().to_string();
    let mut all: Vec<String> = vec!["--home".to_owned(), home];
    all.extend(args);
    if matches!(name, "permissions" | "hooks") {
        all.extend(settings_flags(backend.args));
    }
    if name == "permissions" {
        let args = backend.args;
        for (kind, rules) in [("allow", &args.allowed_tools), ("deny", &args.disallowed_tools)] {
            for rule in rules {
                let text = format!("permissions.{kind} = {rule}  (the command line)");
                stage.screen.note(Style::new(), &text);
            }
        }
        for rule in &backend.session_rules {
            let text = format!("permissions.allow = {rule}  (this session only)");
            stage.screen.note(Style::new(), &text);
        }
        let mode = stage.screen.status.mode.clone();
        stage.screen.note(Style::new(), &format!("mode = {mode}"));
    }
    let (tell, waker) = (backend.later.0.clone(), backend.waker.clone());
    let Ok(program) = backend.world.program() else { return };
    let what = match name {
        "cost" => Beside::Cost,
        "hooks" => Beside::Hooks,
        "export" => Beside::File(file),
        _ => Beside::Anything,
    };
    let cwd = backend.site.root.clone();
    let width = run::size().width.to_string();
    thread::spawn(move || {
        let done = Command::new(program)
            .args(all)
            .current_dir(cwd)
            .env("COLUMNS", width)
            .stdin(Stdio::null())
            .output();
        let lines: Vec<Line<'static>> = match done {
            Ok(done) => {
                let printed = String::from_utf8_lossy(&done.stdout);
                let mut lines = what.shown(&printed, done.status);
                lines.extend(output_lines(&String::from_utf8_lossy(&done.stderr)));
                lines.into_iter().map(Line::from).collect()
            }
            Err(error) => vec![line(look::BAD, &error.to_string())],
        };
        let _ = tell.send(News::Lines(lines));
        if let Some(waker) = waker {
            waker.wake();
        }
    });
}

/// What a command of `quipu` prints.
enum Beside {
    Anything,
    /// What the session has cost, as JSON.
    Cost,
    /// Settings, of which only hooks are wanted.
    Hooks,
    /// Nothing: a file is written.
    File(String),
}

impl Beside {
    fn shown(&self, printed: &str, status: ExitStatus) -> Vec<String> {
        let is_hook = |text: &String| text.starts_with("hooks.");
        match self {
            Beside::Cost => cost(printed).unwrap_or_else(|| output_lines(printed)),
            Beside::File(name) if status.success() && printed.is_empty() => {
                vec![format!("the session is in `{}` now", safe(name))]
            }
            Beside::Hooks if status.success() => {
                let hooks: Vec<String> =
                    output_lines(printed).into_iter().filter(is_hook).collect();
                if hooks.is_empty() { vec!["no hooks".to_owned()] } else { hooks }
            }
            _ => output_lines(printed),
        }
    }
}

/// What a session has cost, in words.
fn cost(printed: &str) -> Option<Vec<String>> {
    let value: Value = serde_json::from_str(printed.trim()).ok()?;
    let total = &value["total"];
    let number = |name: &str| total[name].as_u64().unwrap_or(0);
    let dollars = total["cost_usd"].as_f64().map_or("of unknown price".to_owned(), |cost| {
        let more = if total["cost_is_lower_bound"] == true { ">" } else { "" };
        format!("{more}${cost:.4}")
    });
    let written = number("cache_write_5m") + number("cache_write_1h");
    let parts = [
        ("input", number("input")),
        ("output", number("output")),
        ("written to the cache", written),
        ("read from the cache", number("cache_read")),
    ];
    let parts: Vec<String> =
        parts.iter().map(|(what, tokens)| format!("{} {what}", grouped(*tokens))).collect();
    let id = value["session"].as_str()?;
    Some(vec![
        format!("{}, {dollars}", count(number("messages"), "answer")),
        format!("tokens: {}", parts.join(", ")),
        format!("each answer: quipu usage --explain {}", safe(id)),
    ])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cost_in_words() {
        let total = json!({"input": 12, "output": 3456, "cache_write_5m": 7, "cache_write_1h": 1,
            "cache_read": 9, "cost_usd": 0.25, "cost_is_lower_bound": true, "messages": 2});
        let value = json!({"session": "abc", "messages": [], "total": total});
        let wanted = [
            "2 answers, >$0.2500",
            "tokens: 12 input, 3,456 output, 8 written to the cache, 9 read from the cache",
            "each answer: quipu usage --explain abc",
        ];
        assert_eq!(cost(&value.to_string()).unwrap(), wanted);
        assert_eq!(cost("error"), None);
    }
}
