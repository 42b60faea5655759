//! Images of the session's folders around every call that changes something, so that all of it can
//! be undone (docs/undo.md).
//!
//! Invariants: a command runs only after an image was taken, or after somebody who was asked said
//! that it may run without; an image that could not be taken is never taken for one; what is in
//! the log of images names the prompt and the call that it belongs to.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rules::{Decision, Judgement};
use serde_json::{Value, json};
use snapshot::plan::{Others, plan};
use snapshot::restore::Journal;
use snapshot::{About, Event, Limits, Recorder, ScanError, diff};

use crate::permit::real;
use crate::tool::{Answer, Call, Site, Trouble, text};

/// Why a command is a question that would run otherwise.
pub(crate) const NO_IMAGE: &str = "no image can be taken that it could be undone with";

/// Where images are kept, and what they may cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageWishes {
    /// The folder of the store.
    pub folder: PathBuf,
    /// What an image may cost.
    pub limits: Limits,
}

/// The images of a session.
#[derive(Debug)]
pub struct Images {
    wishes: ImageWishes,
    session: String,
    roots: Vec<PathBuf>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    recorder: Option<Recorder>,
    /// Why no image can be taken.
    broken: Option<String>,
    /// The record of the last prompt, and the one that has an image already.
    prompt: Option<String>,
    seen: Option<String>,
    /// The calls about which somebody is asked because there is no image.
    asked: HashSet<String>,
    /// Those that may run without.
    waived: HashSet<String>,
}

/// What a call changes.
#[derive(Debug, PartialEq, Eq)]
enum Reach {
    /// Anything in the folders.
    All,
    /// One file.
    File(PathBuf),
}

impl Images {
    /// Images of these folders, of a session with this id. Nothing is read before the first change.
    pub fn new(wishes: ImageWishes, session: &str, roots: Vec<PathBuf>) -> Images {
        Images { wishes, session: session.to_owned(), roots, inner: Mutex::default() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session ends: what the next one needs to begin quickly is saved.
    pub fn close(&self) {
        if let Some(recorder) = &mut self.inner().recorder {
            recorder.save();
        }
    }

    /// A prompt was recorded.
    pub(crate) fn prompted(&self, id: &str) {
        self.inner().prompt = Some(id.to_owned());
    }

    /// A judgement about a call, unless no image can be taken: then it is a question.
    pub(crate) fn judged(&self, call: &Call, judgement: Judgement) -> Judgement {
        if call.name != "Bash" || judgement.decision == Decision::Deny {
            return judgement;
        }
        let mut inner = self.inner();
        let Err(why) = self.ready(&mut inner) else { return judgement };
        inner.asked.insert(call.id.clone());
        let why = format!("{NO_IMAGE}: {why}");
        Judgement { decision: Decision::Ask, rule: None, source: None, why, parts: Vec::new() }
    }

    /// Somebody who was asked allowed a call.
    pub(crate) fn allowed(&self, call: &str) {
        let mut inner = self.inner();
        if inner.asked.remove(call) {
            inner.waived.insert(call.to_owned());
        }
    }

    /// Opens the store and takes the first image, if that has not happened yet.
    fn ready(&self, inner: &mut Inner) -> Result<(), String> {
        if let Some(why) = &inner.broken {
            return Err(why.clone());
        }
        if inner.recorder.is_some() {
            return Ok(());
        }
        let opened =
            Recorder::open(&self.wishes.folder, &self.session, &self.roots, self.wishes.limits);
        let warmed = opened.and_then(|mut recorder| {
            recorder.warm(now())?;
            Ok(recorder)
        });
        match warmed {
            Ok(recorder) => {
                inner.recorder = Some(recorder);
                Ok(())
            }
            Err(error) => Err(inner.failed(&error)),
        }
    }

    fn moment(&self, event: Event, call: &Call, reach: &Reach) -> Result<(), String> {
        let mut guard = self.inner();
        let inner = &mut *guard;
        self.ready(inner)?;
        let about = About {
            prompt: inner.prompt.clone(),
            call: Some(call.id.clone()),
            tool: Some(call.name.clone()),
        };
        // The first change of a prompt has an image of everything.
        let is_first = event == Event::Before && inner.seen != inner.prompt;
        inner.seen.clone_from(&inner.prompt);
        let Some(recorder) = &mut inner.recorder else { return Ok(()) };
        let taken = match reach {
            Reach::File(path) if !is_first => recorder.touch(event, about, path, now()),
            _ => recorder.take(event, about, now()),
        };
        taken.map(drop).map_err(|error| inner.failed(&error))
    }

    /// What rewinding the files to before a prompt would do; or does it. As in Claude Code, `Err`
    /// is for a prompt that is unknown.
    pub(crate) fn rewind(&self, prompt: &str, is_dry: bool) -> Result<Value, String> {
        let mut inner = self.inner();
        self.ready(&mut inner)?;
        let Some(recorder) = &mut inner.recorder else { return Err("no images".to_owned()) };
        let say = |error: &dyn std::fmt::Display| error.to_string();
        let moments = recorder.log().read().map_err(|error| say(&error))?;
        let is_its = |moment: &snapshot::Moment| moment.about.prompt.as_deref() == Some(prompt);
        let Some(cut) = moments.iter().position(is_its) else {
            return Err(format!("No file checkpoint found for message {prompt}"));
        };
        let parts = (recorder.store(), recorder.vault());
        let limits = self.wishes.limits;
        let planned = plan(parts, &moments, cut, Others::Respect, (limits, now()));
        let planned = planned.map_err(|error| say(&error))?;
        if let Some((path, _)) = planned.clashes.first() {
            let why = format!("{} was changed by someone else since", path.display());
            return Ok(json!({"canRewind": false, "error": why}));
        }
        let steps = planned.steps;
        if is_dry {
            let is_file = |step: &&snapshot::plan::Step| !diff::is_gits(&step.path());
            let shown: Vec<_> = steps.iter().filter(is_file).collect();
            let counts = shown.iter().map(|step| {
                let shown = diff::show(parts.0, step.from.as_ref(), step.to.as_ref());
                (shown.added, shown.removed)
            });
            let (added, removed) = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            let paths: Vec<_> =
                shown.iter().map(|step| step.path().display().to_string()).collect();
            return Ok(json!({
                "canRewind": true, "filesChanged": paths,
                "insertions": added, "deletions": removed,
            }));
        }
        let about = About {
            tool: Some("rewind".to_owned()),
            call: Some("rewind".to_owned()),
            prompt: None,
        };
        let taken = recorder.take(Event::Before, about.clone(), now());
        taken.map_err(|error| say(&error))?;
        let journal = Journal::new(recorder.store(), recorder.vault(), limits);
        let rewind = journal.prepare(&self.session, None, steps, now());
        let rewind = rewind.map_err(|error| say(&error))?;
        journal.commit(&rewind).map_err(|error| say(&error))?;
        recorder.take(Event::After, about, now()).map_err(|error| say(&error))?;
        Ok(json!({"canRewind": true, "skippedLinks": 0}))
    }
}

impl Inner {
    /// Notes why there was no image. What may pass is tried again next time.
    fn failed(&mut self, error: &ScanError) -> String {
        let why = error.to_string();
        if matches!(error, ScanError::TooMany { .. } | ScanError::Inside { .. }) {
            self.broken = Some(why.clone());
        }
        why
    }
}

/// Files have the real time, whatever the session's clock says.
fn now() -> SystemTime {
    let nanos = u64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or_default();
    UNIX_EPOCH + Duration::from_nanos(nanos)
}

/// What a call changes; None if it changes nothing.
fn reach(call: &Call, site: &Site) -> Option<Reach> {
    let path = |name: &str| {
        let path: &Path = &site.path(text(call, name));
        Reach::File(real(path))
    };
    match call.name.as_str() {
        "Bash" => Some(Reach::All),
        "Edit" | "MultiEdit" | "Write" => Some(path("file_path")),
        "NotebookEdit" => Some(path("notebook_path")),
        _ => None,
    }
}

/// Runs a call between two images.
pub(crate) fn around(
    call: &Call,
    site: &Site,
    act: impl FnOnce() -> Result<Answer, Trouble>,
) -> Result<Answer, Trouble> {
    let Some(images) = &site.images else { return act() };
    let Some(reach) = reach(call, site) else { return act() };
    let is_waived = images.inner().waived.remove(&call.id);
    let before = images.moment(Event::Before, call, &reach);
    if let Err(why) = before.as_ref()
        && !is_waived
        && reach == Reach::All
    {
        return Err(Trouble::failed(format!(
            "Not run: no image of the folders could be taken that this could be undone with: {why}. \
             `--no-snapshots` runs commands without."
        )));
    }
    let answer = act();
    // A command that goes on in the background has no end that could be told from what others do.
    let is_going_on = call.input.get("run_in_background").and_then(Value::as_bool) == Some(true);
    if before.is_ok() && !is_going_on {
        // If this fails, the next command is a question.
        let _ = images.moment(Event::After, call, &reach);
    }
    answer
}
