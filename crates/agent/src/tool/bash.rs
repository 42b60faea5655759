//! `Bash`: runs a command in a shell. The next command begins in the folder where the last one
//! ended.
//!
//! Invariants: output is never lost: what is beyond the part that the model gets is in the
//! session's `tool-results`; a command that is no longer wanted is killed with everything that it
//! started.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::thread;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::{Answer, Call, Content, Site, Trouble, number, raw, text};
use crate::guard::{self, Spot};
use crate::permit::{Mode, real};
use crate::prelude::Place;
use crate::shell::{self, Hold, Status, head};

/// How long a command may run by default and at most, in milliseconds.
const USUAL: u64 = 120_000;
const LONGEST: u64 = 600_000;
/// How many bytes the model gets; longer output goes into a file, and the model gets a preview.
const TOLD: usize = 30_000;
const LOOK: usize = 2_000;
/// For a command that failed: how much from the beginning, and how much from the end.
const END: usize = 5_000;
/// A command that runs longer than this is reported while it runs, at this interval.
const SILENT: Duration = Duration::from_secs(2);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BashDetail {
    stdout: String,
    stderr: String,
    interrupted: bool,
    is_image: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    background_task_id: Option<String>,
    no_output_expected: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    persisted_output_path: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    persisted_output_size: Option<u64>,
}

impl BashDetail {
    fn new(stdout: String) -> BashDetail {
        BashDetail {
            stdout,
            stderr: String::new(),
            interrupted: false,
            is_image: false,
            background_task_id: None,
            no_output_expected: false,
            persisted_output_path: None,
            persisted_output_size: None,
        }
    }
}

/// What a command has written so far.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    r#type: &'static str,
    /// The last lines.
    pub output: String,
    /// More of them.
    pub full_output: String,
    /// How long it has been running.
    pub elapsed_time_seconds: u64,
    /// How many lines there are.
    pub total_lines: usize,
    /// How many bytes there are.
    pub total_bytes: u64,
    /// The id of the command.
    pub task_id: String,
}

pub(super) fn run(call: &Call, site: &Site) -> Result<Answer, Trouble> {
    let command = text(call, "command");
    let id = site.task_id();
    let cwd = site.cwd.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let cwd = if cwd.is_dir() { cwd } else { site.root.clone() };
    let failed = |error| Trouble::failed(format!("The command could not be started: {error}"));
    let is_outside = site.outside.lock().unwrap_or_else(PoisonError::into_inner).remove(&call.id);
    if is_outside {
        site.shells.settle();
        site.shells.admit_all();
    }
    let is_held = !is_outside && site.guard.is_some();
    let hold = || if is_outside { Ok(None) } else { hold(&id, &cwd, site) };
    let place = if is_outside { Place::Outside } else { Place::Usual };
    let before = site.shells.preludes.before(place);
    let script = (before.as_str(), command);
    let started = site.shells.start(&id, script, text(call, "description"), &cwd, hold);
    started.map_err(failed)?;
    if call.input.get("run_in_background").and_then(Value::as_bool) == Some(true) {
        return Ok(in_background(call, &id, site));
    }
    let asked = number(call, "timeout").map_or(USUAL, |asked| asked as u64);
    let most = Duration::from_millis(asked.min(LONGEST));
    let mut reported_at = Duration::ZERO;
    let mut times = 0;
    let status = site.shells.wait(&id, most, |taken| {
        if taken >= reported_at + SILENT {
            reported_at = taken;
            site.tell(&call.id, &progress(&id, taken, site), times);
            times += 1;
        }
        call.cancel.is_set() || is_backgrounded(&call.id, site)
    });
    if status == Status::Running && !call.cancel.is_set() && is_backgrounded(&call.id, site) {
        site.backgrounded.lock().unwrap_or_else(PoisonError::into_inner).remove(&call.id);
        return Ok(in_background(call, &id, site));
    }
    if status == Status::Running {
        site.shells.kill(&id);
    }
    let taken = site.shells.settle();
    let ended = Ended { id, status, most, is_cancelled: call.cancel.is_set() };
    let mut answer = ended.answer(site);
    if let Err(trouble) = &mut answer {
        if is_held && guard::looks_refused(&trouble.text) {
            site.hampered.lock().unwrap_or_else(PoisonError::into_inner).insert(call.id.clone());
        }
        tell_taken(&mut trouble.text, &taken);
    }
    if let Ok(Answer { content: Content::Text(message), .. }) = &mut answer {
        tell_taken(message, &taken);
    }
    answer
}

/// Whether the user wants a command to go on in the background.
fn is_backgrounded(call: &str, site: &Site) -> bool {
    site.backgrounded.lock().unwrap_or_else(PoisonError::into_inner).contains(call)
}

/// Tells what a command had no right to make or to change.
fn tell_taken(text: &mut String, taken: &[guard::Taken]) {
    for one in taken {
        let newline = if text.is_empty() { "" } else { "\n" };
        let what = one.in_words();
        let more = format!("{newline}[sandbox] {what}: it decides what programs do later.");
        text.push_str(&more);
    }
}

/// How a command is held; nothing without a sandbox.
fn hold(id: &str, cwd: &Path, site: &Site) -> io::Result<Option<Hold>> {
    let Some(guard) = &site.guard else { return Ok(None) };
    let mode = *site.mode.lock().unwrap_or_else(PoisonError::into_inner);
    let folders = site.all_folders().into_iter();
    // One that has become a link since it was added leads elsewhere.
    let folders: Vec<PathBuf> = folders.filter(|folder| real(folder) == *folder).collect();
    let shells = &site.shells;
    let temp = shells.temp((mode == Mode::Plan).then_some(id))?;
    let blank = shells.blank()?;
    let aside = site.folder.join("tool-results").join("taken");
    let files = shells.written(id);
    let spot = Spot { cwd, temp: &temp, blank: &blank, aside, files };
    let (spec, kept) = guard.spec(&folders, mode, spot);
    let kept = (mode != Mode::Plan).then(|| (kept, guard.clone()));
    let (variables, removed) = guard.variables(&temp, &shells.env);
    Ok(Some(Hold { spec, variables, removed, group: guard.group.clone(), kept }))
}

/// Has the next command's processes started, while something else goes on.
pub(crate) fn ready(site: &Site) {
    let Some(guard) = &site.guard else { return };
    let mode = *site.mode.lock().unwrap_or_else(PoisonError::into_inner);
    let (shells, layers, network) =
        (site.shells.clone(), guard.layers.clone(), guard.network_in(mode));
    thread::spawn(move || shells.make_ready(layers.get(), network));
}

/// How a command that is not the model's is held; nothing without a sandbox. `files` may be written
/// in addition.
pub(crate) fn held(
    id: &str,
    cwd: &Path,
    site: &Site,
    files: Vec<PathBuf>,
) -> io::Result<Option<Hold>> {
    let hold = hold(id, cwd, site)?;
    Ok(hold.map(|mut hold| {
        hold.spec.writable.extend(files);
        hold
    }))
}

fn in_background(call: &Call, id: &str, site: &Site) -> Answer {
    site.shells.set_news(id, true);
    if let Some(images) = &site.images {
        images.goes_on(&call.id);
    }
    let path = site.shells.output(id);
    let message = format!(
        "Command running in background with ID: {id}. Output is being written to: {}",
        path.display()
    );
    let detail =
        BashDetail { background_task_id: Some(id.to_owned()), ..BashDetail::new(String::new()) };
    Answer { content: Content::Text(message), is_error: Some(false), detail: raw(&detail) }
}

/// The message for the model when a command in the background has ended; None if none has.
pub(crate) fn notification(site: &Site) -> Option<String> {
    let (id, known) = site.shells.news()?;
    let (status, ending) = match known.status {
        Status::Running | Status::Killed | Status::Flooded => ("killed", "was stopped".to_owned()),
        Status::Ended(0) => ("completed", "completed (exit code 0)".to_owned()),
        Status::Ended(code) => ("failed", format!("failed with exit code {code}")),
    };
    let (name, path) = (known.name(), site.shells.output(&id));
    let path = path.display();
    Some(format!(
        "<task-notification>\n<task-id>{id}</task-id>\n<output-file>{path}</output-file>\n<status>{status}</status>\n<summary>Background command \"{name}\" {ending}</summary>\n</task-notification>\nRead the output file to retrieve the result: {path}"
    ))
}

fn progress(id: &str, taken: Duration, site: &Site) -> Progress {
    // The beginning is enough to see what it does; the whole output would be written again and
    // again.
    let (output, bytes) = head(&site.shells.output(id), LOOK, &site.secrets).unwrap_or_default();
    Progress {
        r#type: "bash_progress",
        total_lines: output.lines().count(),
        full_output: output.clone(),
        output,
        elapsed_time_seconds: taken.as_secs(),
        total_bytes: bytes,
        task_id: id.to_owned(),
    }
}

/// A command that has ended, in any way.
struct Ended {
    id: String,
    status: Status,
    most: Duration,
    is_cancelled: bool,
}

impl Ended {
    fn answer(self, site: &Site) -> Result<Answer, Trouble> {
        let strayed = site.shells.cwd(&self.id).is_some_and(|cwd| !site.enter(&cwd));
        let path = site.shells.output(&self.id);
        let unreadable =
            |error| Trouble::failed(format!("The command's output cannot be read: {error}"));
        let (output, len) = head(&path, TOLD, &site.secrets).map_err(unreadable)?;
        let output = output.trim_end_matches('\n').to_owned();
        let mut detail = BashDetail::new(output.clone());
        let mut message = if len > TOLD as u64 {
            let kept = kept(&self.id, site).map_err(unreadable)?;
            let preview = match self.status {
                Status::Ended(0) => shortened(&output, len, &kept),
                // The reason for a failure is mostly at the end.
                _ => ends(&output, &path, &kept, site).map_err(unreadable)?,
            };
            (detail.persisted_output_path, detail.persisted_output_size) = (Some(kept), Some(len));
            preview
        } else {
            output
        };
        site.shells.forget(&self.id);
        if strayed {
            detail.stderr = format!("Shell cwd was reset to {}", site.root.display());
            let newline = if message.is_empty() { "" } else { "\n" };
            message = format!("{message}{newline}{}", detail.stderr);
        }
        let failed = match self.status {
            Status::Ended(0) => None,
            Status::Ended(code) => Some(format!("Exit code {code}")),
            Status::Flooded => Some(format!("Exit code 137\n{}", flooded())),
            _ if self.is_cancelled => Some("Exit code 137\nStopped by the user".to_owned()),
            _ => Some(format!("Command timed out after {}", spelled(self.most))),
        };
        match failed {
            None => Ok(Answer {
                content: Content::Text(message),
                is_error: Some(false),
                detail: raw(&detail),
            }),
            Some(first) if message.is_empty() => Err(Trouble::failed(first)),
            Some(first) => Err(Trouble::failed(format!("{first}\n{message}"))),
        }
    }
}

/// Stores the whole output of a command that has ended, with secrets redacted. Returns its path.
pub(super) fn kept(id: &str, site: &Site) -> io::Result<PathBuf> {
    let folder = site.folder.join("tool-results");
    let kept = folder.join(format!("{id}.txt"));
    shell::folder(&folder)?;
    let mut output = files::open(site.shells.output(id))?;
    site.secrets.copy(&mut output, &mut files::create_private(&kept)?)?;
    Ok(kept)
}

/// The path of the whole output, and a preview.
fn shortened(output: &str, len: u64, kept: &Path) -> String {
    let look = output.char_indices().nth(LOOK).map_or(output, |(end, _)| &output[..end]);
    let look = look.rfind('\n').map_or(look, |end| &look[..end]);
    format!(
        "<persisted-output>\nOutput too large ({}KB). Full output saved to: {}\n\nPreview (first 2KB):\n{look}\n...\n</persisted-output>",
        len / 1_024,
        kept.display()
    )
}

/// The beginning and the end, and the path of the whole output.
fn ends(output: &str, path: &Path, kept: &Path, site: &Site) -> io::Result<String> {
    let head = output.char_indices().nth(END).map_or(output, |(end, _)| &output[..end]);
    let (tail, before) = shell::tail(path, END, &site.secrets)?;
    let left = before.saturating_sub(head.len() as u64);
    let kept = kept.display();
    let tail = tail.trim_end_matches('\n');
    Ok(format!("{head}\n\n... [{left} bytes are left out; all of it is in {kept}] ...\n\n{tail}"))
}

/// Why a command was killed that wrote too much.
pub(super) fn flooded() -> String {
    format!("Stopped: it put out more than {} MB", shell::MOST >> 20)
}

fn spelled(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m {seconds}s"),
    }
}

#[cfg(test)]
#[path = "bash_tests.rs"]
mod tests;
