//! Images of the session's folders around every call that changes something, so that all of it can
//! be undone (docs/undo.md).
//!
//! Invariants: a command runs only after an image was taken, or after somebody who was asked said
//! that it may run without; an image that could not be taken is never taken for one; what is in
//! the log of images names the prompt and the call that it belongs to.

pub mod copies;

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rules::{Decision, Judgement};
use serde_json::{Value, json};
use snapshot::moment::{HOOK, prompts};
use snapshot::plan::{Others, Plan, Step, plan};
use snapshot::restore::Journal;
use snapshot::store::no_hook;
use snapshot::{About, Event, Limits, Moment, Recorder, ScanError, Store, diff, upkeep};
use transcript::conversation::agents::WithAgents;
use transcript::conversation::place;
use transcript::conversation::turn::Turn;

use self::copies::{Copies, first_id};
use crate::control::Backwards;
use crate::guard::image_roots;
use crate::hook::Hook;
use crate::permit::real;
use crate::tool::{Answer, Call, Site, Trouble};

/// How ids of calls begin that make the text of a prompt: they run before it is recorded.
pub(crate) const EXPANSION: &str = "command-";

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
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    roots: Vec<PathBuf>,
    recorder: Option<Recorder>,
    /// Why no image can ever be taken.
    broken: Option<String>,
    /// Why the last one could not be taken.
    trouble: Option<String>,
    /// The record of the last prompt, and the one that has an image already.
    prompt: Option<String>,
    seen: Option<String>,
    /// The calls about which somebody is asked because there is no image.
    asked: HashSet<String>,
    /// Those that may run without.
    waived: HashSet<String>,
    /// Those that go on in the background: what they change ends with the session.
    going_on: HashSet<String>,
    /// What their images are about.
    unended: Vec<About>,
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
        let inner = Inner { roots, ..Inner::default() };
        Images { wishes, session: session.to_owned(), inner: Mutex::new(inner) }
    }

    /// The session goes on from another one, or is it: it has the images of that one.
    pub(crate) fn inherit(&self, other: &str) {
        let ids = (other, self.session.as_str());
        let given = upkeep::inherit(&self.wishes.folder, ids, str::to_owned, &no_hook());
        if let Err(error) = given {
            let why = format!("the images of the session that it goes on from: {error}");
            self.inner().broken = Some(why);
        }
    }

    /// Images of these folders are taken from now on, too: commands may change what is in them.
    pub(crate) fn cover(&self, folders: impl Iterator<Item = PathBuf>) {
        let mut inner = self.inner();
        let before = inner.roots.len();
        for root in image_roots(folders) {
            if !inner.roots.contains(&root) {
                inner.roots.push(root);
            }
        }
        if inner.roots.len() > before {
            // It is opened again with the next change, of which there is an image of everything.
            if let Some(mut recorder) = inner.recorder.take() {
                recorder.save();
            }
            (inner.broken, inner.trouble, inner.seen) = (None, None, None);
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session ends, and with it what runs in the background: who changes something from now on
    /// is someone else. What the next session needs to begin quickly is saved.
    pub fn close(&self) {
        let mut guard = self.inner();
        let inner = &mut *guard;
        let unended = std::mem::take(&mut inner.unended);
        let Some(recorder) = &mut inner.recorder else { return };
        for about in unended {
            // Without it, what was changed since is a question of who did it: nothing is lost.
            let _ = recorder.take(Event::After, about, now());
        }
        recorder.save();
    }

    /// A call goes on in the background.
    pub(crate) fn goes_on(&self, call: &str) {
        self.inner().going_on.insert(call.to_owned());
    }

    /// Whether somebody has to be asked about a call because there is no image.
    pub(crate) fn asks(&self, call: &str) -> bool {
        self.inner().asked.contains(call)
    }

    /// A prompt was recorded.
    pub(crate) fn prompted(&self, id: &str) {
        self.inner().prompt = Some(id.to_owned());
    }

    /// A judgement about a call, unless no image can be taken: then it is a question.
    pub(crate) fn judged(&self, call: &Call, site: &Site, judgement: Judgement) -> Judgement {
        if reach(call, site) != Some(Reach::All) || judgement.decision == Decision::Deny {
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

    /// Opens the store and takes the first image, if that has not happened yet; another one if the
    /// last one could not be taken.
    fn ready(&self, inner: &mut Inner) -> Result<(), String> {
        if let Some(why) = &inner.broken {
            return Err(why.clone());
        }
        let done = match &mut inner.recorder {
            Some(_) if inner.trouble.is_none() => return Ok(()),
            Some(recorder) => {
                let about = About { prompt: inner.prompt.clone(), ..About::default() };
                recorder.take(Event::Look, about, now()).map(drop)
            }
            None => self.opened(inner).map(|recorder| inner.recorder = Some(recorder)),
        };
        inner.settled(done)
    }

    fn opened(&self, inner: &Inner) -> Result<Recorder, ScanError> {
        let ImageWishes { folder, limits } = &self.wishes;
        let mut recorder = Recorder::open(folder, &self.session, &inner.roots, *limits)?;
        recorder.warm(now())?;
        Ok(recorder)
    }

    fn moment(&self, event: Event, about: About, reach: &Reach) -> Result<(), String> {
        let mut guard = self.inner();
        let inner = &mut *guard;
        self.ready(inner)?;
        // The first change of a prompt has an image of everything.
        let is_first = event == Event::Before && inner.seen != inner.prompt;
        inner.seen.clone_from(&inner.prompt);
        let Some(recorder) = &mut inner.recorder else { return Ok(()) };
        let taken = match reach {
            Reach::File(path) => {
                let looked = if is_first {
                    let about = About { call: None, ..about.clone() };
                    recorder.take(Event::Look, about, now()).map(drop)
                } else {
                    Ok(())
                };
                looked.and_then(|()| recorder.touch(event, about, path, now()))
            }
            Reach::All => recorder.take(event, about, now()),
        };
        inner.settled(taken.map(drop))
    }

    /// What rewinding the files to before a prompt would do; or does it. As in Claude Code, `Err`
    /// is for a prompt that is unknown.
    pub(crate) fn rewind(&self, cut: &Cut, wish: &Backwards) -> Result<Value, String> {
        let mut inner = self.inner();
        self.ready(&mut inner)?;
        let Some(recorder) = &mut inner.recorder else { return Err("no images".to_owned()) };
        let say = |error: &dyn std::fmt::Display| error.to_string();
        let _shared = recorder.store().share().map_err(|error| say(&error))?;
        let moments = recorder.log().read().map_err(|error| say(&error))?;
        let limits = self.wishes.limits;
        let parts = (recorder.store(), recorder.vault());
        let others = if wish.is_forced { Others::Overwrite } else { Others::Respect };
        let mut planned = match cut.at(&moments) {
            Some(at) => plan(parts, &moments, at, others, (limits, now())),
            None if cut.later.contains(&cut.prompt) => Ok(Plan::default()),
            None => return Err(format!("No file checkpoint found for message {}", cut.prompt)),
        }
        .map_err(|error| say(&error))?;
        let images = prompts(&moments);
        let has_images = |id: &str| images.contains(&Some(id));
        let mut without = 0;
        if let Some(path) = cut.path.as_ref().filter(|_| !cut.later.iter().all(|id| has_images(id)))
        {
            let session = place::Session::at(path).map_err(|error| say(&error))?;
            let family = WithAgents::open(&session).map_err(|error| say(&error))?;
            let (store, session, family) = (parts.0, &session, &family);
            let copies = Copies { store, session, family, others, now: now() };
            let turns = cut.turns(family).map_err(|error| say(&error))?;
            let added = copies.add_without_images(&mut planned, &turns, has_images);
            without = added.map_err(|error| say(&error))?.len();
        }
        if let Some((path, clash)) = planned.clashes.first() {
            let why = format!("{}: {}", path.display(), clash.words());
            return Ok(json!({"canRewind": false, "error": why}));
        }
        if wish.is_dry {
            let mut answer = shown(parts.0, &planned, wish);
            if wish.is_ours {
                answer["withoutImages"] = without.into();
            }
            return Ok(answer);
        }
        if planned.steps.is_empty() {
            return Ok(json!({"canRewind": true, "skippedLinks": 0}));
        }
        recorder.take(Event::Before, About::rewind(), now()).map_err(|error| say(&error))?;
        let journal = Journal::new(recorder.store(), recorder.vault(), limits);
        let prepared = journal.prepare(&self.session, None, planned.steps, now());
        let done = prepared.and_then(|rewind| journal.commit(&rewind, &mut || {}));
        // Whatever came of it: what is changed afterwards is someone else's.
        let after = recorder.take(Event::After, About::rewind(), now());
        done.map_err(|error| say(&error))?;
        after.map_err(|error| say(&error))?;
        Ok(json!({"canRewind": true, "skippedLinks": 0}))
    }
}

/// Where to go back to.
#[derive(Debug)]
pub(crate) struct Cut {
    /// The id of the prompt's record.
    pub(crate) prompt: String,
    /// The prompts of the conversation before it.
    pub(crate) earlier: Vec<String>,
    /// It and those after it.
    pub(crate) later: Vec<String>,
    /// When it was recorded, in milliseconds.
    pub(crate) time: Option<i64>,
    /// The transcript; None if there is none.
    pub(crate) path: Option<PathBuf>,
}

impl Cut {
    /// The turns that begin with the prompt or a later one.
    fn turns(&self, family: &WithAgents) -> transcript::Result<Vec<Turn>> {
        let mut turns = Vec::new();
        for turn in family.main.turns().live {
            if first_id(family, &turn)?.is_some_and(|id| self.later.contains(&id)) {
                turns.push(turn);
            }
        }
        Ok(turns)
    }

    /// The first moment that belongs to the prompt or to a later one.
    fn at(&self, moments: &[Moment]) -> Option<usize> {
        let has = |prompts: &[String], prompt: &str| prompts.iter().any(|one| one == prompt);
        let is_later = |(moment, prompt): (&Moment, Option<&str>)| match prompt {
            Some(prompt) if prompt == self.prompt || has(&self.later, prompt) => true,
            Some(prompt) if has(&self.earlier, prompt) => false,
            // A prompt that was gone back from: what counts is when it was.
            _ => self.time.is_some_and(|time| moment.time >= time),
        };
        moments.iter().zip(prompts(moments)).position(is_later)
    }
}

/// What a plan would change: as Claude Code says it, and for our console also line by line.
fn shown(store: &Store, planned: &Plan, wish: &Backwards) -> Value {
    let is_file = |step: &&Step| !diff::is_gits(&step.path()) && step.from != step.to;
    let (mut paths, mut added, mut removed, mut text) = (Vec::new(), 0, 0, String::new());
    for step in planned.steps.iter().filter(is_file) {
        let shown = diff::show(store, step.from.as_ref(), step.to.as_ref());
        (added, removed) = (added + shown.added, removed + shown.removed);
        let path = step.path().display().to_string();
        let _ =
            writeln!(text, "{} {path} (+{} -{})", shown.kind.word(), shown.added, shown.removed);
        text.extend(shown.note.map(|note| format!("  {note}\n")));
        text.push_str(&shown.hunks);
        paths.push(path);
    }
    let mut answer = json!({
        "canRewind": true, "filesChanged": paths, "insertions": added, "deletions": removed,
    });
    if wish.is_ours {
        let of_git = planned.steps.iter().filter(|step| diff::is_gits(&step.path())).count();
        let stays = planned.stays.iter();
        let stays = stays.map(|(path, why)| format!("{}: {}", path.display(), why.words()));
        answer["diff"] = text.into();
        answer["filesOfGit"] = of_git.into();
        answer["notCovered"] = stays.collect::<Vec<_>>().into();
    }
    answer
}

impl Inner {
    fn about(&self, call: &Call) -> About {
        // There is no record yet of the prompt that a command of the user's stands for.
        let is_early = call.id.starts_with(EXPANSION);
        About {
            prompt: self.prompt.clone().filter(|_| !is_early),
            call: Some(call.id.clone()),
            tool: Some(call.name.clone()),
        }
    }

    /// Notes whether there is an image, and why not. What may pass is tried again next time.
    fn settled(&mut self, taken: Result<(), ScanError>) -> Result<(), String> {
        let settled = taken.map_err(|error| {
            let why = error.to_string();
            if matches!(error, ScanError::Inside { .. }) {
                self.broken = Some(why.clone());
            }
            why
        });
        self.trouble = settled.clone().err();
        settled
    }
}

/// Files have the real time, whatever the session's clock says.
fn now() -> SystemTime {
    let nanos = u64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or_default();
    UNIX_EPOCH + Duration::from_nanos(nanos)
}

/// What a call changes; None if it changes nothing.
fn reach(call: &Call, site: &Site) -> Option<Reach> {
    let access = site.tools.find(&call.name)?.access(call, site);
    if access.runs.is_some() {
        return Some(Reach::All);
    }
    access.writes.first().map(|path| Reach::File(real(path)))
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
    let about = images.inner().about(call);
    let before = images.moment(Event::Before, about.clone(), &reach);
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
    if before.is_err() {
        return answer;
    }
    // A command that goes on in the background has no end that could be told from what others do.
    let goes_on = images.inner().going_on.remove(&call.id);
    let event = if goes_on { Event::Look } else { Event::After };
    // If this fails, the next command is a question.
    if images.moment(event, about.clone(), &reach).is_ok() && goes_on {
        images.inner().unended.push(about);
    }
    answer
}

/// Events of which there are hooks before there is a record of the prompt.
const EARLY: [&str; 3] = ["SessionStart", "UserPromptExpansion", "UserPromptSubmit"];

/// Runs hooks of an event, with the ids of their runs, between two images: what they change while
/// somebody waits for them is undone with the prompt. They are the user's: without an image they
/// run all the same.
pub(crate) fn around_hooks<T>(hooks: &[(String, Hook)], site: &Site, act: impl FnOnce() -> T) -> T {
    let (Some(images), Some((id, hook))) = (&site.images, hooks.first()) else { return act() };
    let is_early = EARLY.contains(&hook.event.as_str());
    let prompt = images.inner().prompt.clone().filter(|_| !is_early);
    let about = About { prompt, call: Some(id.clone()), tool: Some(HOOK.to_owned()) };
    if images.moment(Event::Before, about.clone(), &Reach::All).is_err() {
        return act();
    }
    let done = act();
    let _ = images.moment(Event::After, about, &Reach::All);
    done
}
