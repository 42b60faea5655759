//! Starts the commands of hooks, and waits for them.
//!
//! A hook is a command like those of the model: it ends with the session, what it prints is
//! bounded, it gets its input as a file, and what it changes can be undone. Invariants: a hook of
//! the project runs in the sandbox, if there is one; nothing waits longer than the hook's timeout.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::PoisonError;
use std::thread;
use std::time::{Duration, Instant};

use rules::single_quoted;

use crate::images;
use crate::settings::Source;
use crate::shell::{Status, head};
use crate::tool::{Cancel, Site, held};

use super::{Action, Hook};

/// How much of what a hook prints is read, in bytes.
const MOST: usize = 256 << 10;
/// How much of what comes before every command.
const PRELUDE: u64 = 64 << 10;
/// Events whose hooks may say what comes before every later command, and the variable that names
/// the file for it.
const PREPARING: [&str; 2] = ["SessionStart", "CwdChanged"];
const ENV_FILE: &str = "CLAUDE_ENV_FILE";

/// What a hook did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ran {
    /// The id of the run.
    pub id: String,
    /// What it printed.
    pub stdout: String,
    /// What it printed as errors.
    pub stderr: String,
    /// Its exit code.
    pub code: Option<i32>,
    /// Why there is no answer: it could not be started, or took too long.
    pub trouble: Option<String>,
    /// How long it took, in milliseconds.
    pub taken: u64,
    /// What it wrote into the file whose text comes before every later command.
    pub prelude: String,
}

/// What the hooks of an event are started with.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    /// What they get on their standard input.
    pub(crate) input: String,
    /// Variables.
    pub(crate) variables: Vec<(String, String)>,
    /// Set when nobody waits for them any more.
    pub(crate) cancel: Cancel,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// That the command runs.
    Start,
    /// That it ends, or says that nothing is to wait for it.
    Answer,
    /// That it ends.
    End,
}

/// Runs commands, all at once, and waits for them.
pub(crate) fn commands(hooks: &[(String, Hook)], start: &Start, site: &Site) -> Vec<(Hook, Ran)> {
    images::around_hooks(hooks, site, || all(hooks, start, site))
}

fn all(hooks: &[(String, Hook)], start: &Start, site: &Site) -> Vec<(Hook, Ran)> {
    thread::scope(|scope| {
        let threads: Vec<_> = hooks
            .iter()
            .map(|(id, hook)| {
                scope.spawn(move || {
                    let until = if hook.is_async { Until::Start } else { Until::Answer };
                    (hook.clone(), timed((id, hook), until, start, site))
                })
            })
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    })
}

/// Runs the command of a hook that nothing waits for, until it ends.
pub(crate) fn aside(id: &str, hook: &Hook, start: &Start, site: &Site) -> Ran {
    timed((id, hook), Until::End, start, site)
}

fn timed((id, hook): (&str, &Hook), until: Until, start: &Start, site: &Site) -> Ran {
    let began = Instant::now();
    let mut ran = one((id, hook), until, start, site).unwrap_or_else(|error| Ran {
        trouble: Some(format!("could not be started: {error}")),
        ..Ran::default()
    });
    ran.taken = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    id.clone_into(&mut ran.id);
    for text in [&mut ran.stdout, &mut ran.stderr] {
        *text = site.secrets.redacted(text, crate::secret::Extent::Piece).into_owned();
    }
    ran
}

/// The name of a hook's process, by the id of its run.
pub(crate) fn process(id: &str) -> String {
    format!("h{}", &id[id.len().saturating_sub(12)..])
}

fn one((id, hook): (&str, &Hook), until: Until, start: &Start, site: &Site) -> io::Result<Ran> {
    let Action::Command(command) = &hook.action else { return Ok(Ran::default()) };
    let id = &process(id);
    let cwd = site.cwd.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let cwd = if cwd.is_dir() { cwd } else { site.root.clone() };
    let folder = site.shells.temp(Some(id))?;
    let (input, errors) = (folder.join("input"), folder.join("errors"));
    files::create_private(&input)?.write_all(format!("{}\n", start.input).as_bytes())?;
    files::create_private(&errors)?;
    let prelude = PREPARING.contains(&hook.event.as_str()).then(|| folder.join("env"));
    let mut script = String::new();
    if let Some(path) = &prelude {
        files::create_private(path)?;
        let _ = writeln!(script, "export {ENV_FILE}={}", single_quoted(&path.to_string_lossy()));
    }
    for (name, value) in &start.variables {
        let _ = writeln!(script, "export {name}={}", single_quoted(value));
    }
    let _ = write!(
        script,
        "{{\n{command}\n}} < {} 2> {}",
        single_quoted(&input.to_string_lossy()),
        single_quoted(&errors.to_string_lossy())
    );
    let is_projects = matches!(hook.source, Source::Project | Source::Local);
    let files = [input, errors.clone()].into_iter().chain(prelude.clone()).collect();
    let hold = || if is_projects { held(id, &cwd, site, files) } else { Ok(None) };
    site.shells.start(id, ("", &script), "", &cwd, hold)?;
    if until == Until::Start {
        return Ok(Ran { code: Some(0), ..Ran::default() });
    }
    let output = site.shells.output(id);
    let mut is_async = false;
    let status = site.shells.wait(id, hook.timeout, |_| {
        is_async = is_async || (until == Until::Answer && says_async(&output));
        is_async || start.cancel.is_set()
    });
    if status == Status::Running && is_async {
        return Ok(Ran { code: Some(0), ..Ran::default() });
    }
    if status == Status::Running {
        site.shells.kill(id);
    }
    let read =
        |path: &Path| head(path, MOST, &site.secrets).map(|(text, _)| text).unwrap_or_default();
    let (stdout, stderr) = (read(&output), read(&errors));
    let (code, trouble) = match status {
        Status::Ended(code) => (Some(code), None),
        Status::Running if start.cancel.is_set() => (None, Some("was stopped".to_owned())),
        Status::Running => {
            let seconds = hook.timeout.as_secs_f64();
            (None, Some(format!("said nothing within {seconds} s and was ended")))
        }
        Status::Flooded => (None, Some("printed too much and was ended".to_owned())),
        Status::Killed => (None, Some("was ended".to_owned())),
    };
    let prelude = prelude.and_then(|path| files::read_text(path, PRELUDE).ok());
    site.shells.forget(id);
    let prelude = prelude.unwrap_or_default();
    Ok(Ran { stdout, stderr, code, trouble, prelude, ..Ran::default() })
}

/// Whether a hook that still runs has said that nothing is to wait for it.
fn says_async(output: &Path) -> bool {
    let Ok(text) = files::read_text(output, 4 << 10) else { return false };
    let line = text.lines().next().unwrap_or_default();
    line.contains("\"async\"")
        && serde_json::from_str::<serde_json::Value>(line)
            .is_ok_and(|answer| answer["async"] == true)
}

/// Waits for hooks that nobody waited for, at the end of a session.
pub(crate) fn settle(ids: &[String], site: &Site) {
    let end = Instant::now() + PATIENCE;
    for id in ids {
        site.shells.wait(id, end.saturating_duration_since(Instant::now()), |_| false);
    }
}

/// How long the end of a session waits for hooks that nobody waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
