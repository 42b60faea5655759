//! Images of the folders that agents work in: the store, what stopped runs left, which turn a
//! moment belongs to, and how a change of a file is printed.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use agent::images::copies::first_id;
use snapshot::diff::Shown;
use snapshot::moment::prompts;
use snapshot::restore::{Journal, Point, SettledHow};
use snapshot::store::no_hook;
use snapshot::tree::Why;
use snapshot::{About, Event, Limits, Log, Moment, Recorder, ScanError, Store, Vault, upkeep};
use transcript::conversation::agents::WithAgents;
use transcript::conversation::place::Session;
use transcript::conversation::turn::Turn;
use workshop::store::{self, Changed, Real};
use workshop::{Done, Outcome};

use crate::failure::Failure;
use crate::text::{count, printable};
use crate::world::World;

/// Prints what changed in a file.
pub(crate) fn print(world: &mut World, path: &Path, shown: &Shown) -> Result<(), Failure> {
    let path = printable(&path.display().to_string());
    let lines = match (shown.added, shown.removed) {
        (0, 0) => String::new(),
        (added, removed) => format!(" (+{added} -{removed})"),
    };
    writeln!(world.out, "  {} {path}{lines}", shown.kind.word())?;
    for line in shown.note.iter().map(String::as_str).chain(shown.hunks.lines()) {
        writeln!(world.out, "    {}", printable(line))?;
    }
    Ok(())
}

/// Refuses a turn that the session does not have.
pub(crate) fn is_turn(turn: usize, turns: usize) -> Result<(), Failure> {
    if turn == 0 || turn > turns {
        let message = format!("there is no turn {turn}: the session has {turns}");
        return Err(Failure::not_found(message, "`quipu turns` lists the turns"));
    }
    Ok(())
}

/// The store with its parts.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) store: Store,
    pub(crate) vault: Vault,
    pub(crate) limits: Limits,
}

impl Kept {
    pub(crate) fn journal(&self) -> Journal<'_> {
        Journal::new(&self.store, &self.vault, self.limits)
    }

    /// A lock for as long as what is stored is used.
    pub(crate) fn share(&self) -> Result<File, Failure> {
        let shared = self.store.share();
        shared.map_err(|error| Failure::unwritable(self.store.folder(), error))
    }
}

/// Opens the store, and completes or takes back what a stopped run left.
pub(crate) fn open(world: &mut World) -> Result<Kept, Failure> {
    let folder = world.snapshots_folder()?;
    let unreadable = |error| Failure::unreadable(&folder, error);
    let store = Store::open(&folder, no_hook()).map_err(unreadable)?;
    let vault = Vault::new(&folder.join("objects"));
    let kept = Kept { store, vault, limits: world.snapshots.limits() };
    let mut left = Vec::new();
    let settled = kept.journal().settle(&mut |rewind, point| {
        let event = match point {
            Point::Before => Event::Before,
            Point::After => Event::After,
            Point::Undone => {
                left.extend(remove_made(world, rewind.made.as_deref()).err());
                return;
            }
        };
        for session in [Some(&rewind.session), rewind.made.as_ref()].into_iter().flatten() {
            // Without it, what is changed meanwhile is a question of who did it: nothing is lost.
            let _ = record(world, &kept, session, event);
        }
    });
    let settled = settled.map_err(|error| Failure::usage(error.to_string(), None))?;
    for failure in left {
        world.out.note(&format!("the session that a rewind made is still there: {failure}"))?;
    }
    for one in settled {
        let what = match &one.how {
            SettledHow::Dropped => "had not begun: nothing was changed".to_owned(),
            SettledHow::Completed => "was completed now".to_owned(),
            SettledHow::TakenBack => "is taken back now".to_owned(),
            SettledHow::Stuck(why) => {
                format!("is half done, and can be neither completed nor taken back now: {why}")
            }
        };
        let short: String = one.rewind.session.chars().take(8).collect();
        world.out.note(&format!("a rewind of {short} that was stopped {what}"))?;
        for path in one.skipped {
            world.out.note(&format!("`{}` was changed since, and left alone", path.display()))?;
        }
    }
    Ok(kept)
}

/// The same if there is a store: commands that are about something else create none.
pub(crate) fn open_if_there(world: &mut World) -> Result<Option<Kept>, Failure> {
    match world.snapshots_folder() {
        Ok(folder) if folder.join("rewinds").is_dir() => open(world).map(Some),
        _ => Ok(None),
    }
}

/// Completes or takes back what a stopped rewind left, before a session begins. If that is not
/// possible, it is said, and the next `quipu rewind` says it again.
pub(crate) fn settle(world: &mut World) -> Result<(), Failure> {
    match open_if_there(world) {
        Ok(_) => Ok(()),
        Err(failure) => {
            Ok(world.out.note(&format!("a rewind that was stopped is not completed: {failure}"))?)
        }
    }
}

/// Puts files back between two images of a session, and of one that goes on from it. They are taken
/// whatever comes of it: what is changed afterwards is someone else's.
pub(crate) fn around<T>(
    world: &mut World,
    kept: &Kept,
    (session, made): (&str, Option<&str>),
    act: impl FnOnce(&mut World) -> Result<T, Failure>,
) -> Result<T, Failure> {
    record(world, kept, session, Event::Before).map_err(|error| {
        Failure::kept(format!("nothing was changed: {error}"), "free space, and run it again")
    })?;
    let done = act(world);
    for session in [Some(session), made].into_iter().flatten() {
        if let Err(error) = record(world, kept, session, Event::After) {
            let text = format!("there is no image of the files as they are now: {error}");
            world.out.note(&text)?;
        }
    }
    done
}

/// Records an image around a rewind. A session without images has none of it.
fn record(world: &World, kept: &Kept, session: &str, event: Event) -> Result<(), ScanError> {
    let moments = Log::of(kept.store.folder(), session).and_then(|log| log.read().ok());
    let Some(last) = moments.and_then(|moments| moments.last().cloned()) else { return Ok(()) };
    let roots: Vec<PathBuf> = last.trees.into_iter().map(|tree| tree.root).collect();
    let mut recorder = Recorder::open(kept.store.folder(), session, &roots, kept.limits)?;
    recorder.take(event, About::rewind(), world.clock()).map(drop)
}

/// Takes back the session that a rewind made, if it made one and it is there.
pub(crate) fn remove_made(world: &mut World, made: Option<&str>) -> Result<(), Failure> {
    let Some(made) = made else { return Ok(()) };
    let journal = world.workshop.journal()?;
    // One that was being made when its process was stopped is complete then, or gone.
    let swept = journal.sweep(&mut Real, world.now);
    swept.map_err(|error| Failure::unwritable(&world.journal_folder(), error))?;
    let entries = journal.entries();
    let entries = entries.map_err(|error| Failure::unreadable(&world.journal_folder(), error))?;
    let is_its = |entry: &&store::Entry| entry.made.as_deref() == Some(made);
    let Some(entry) = entries.iter().find(is_its) else { return Ok(()) };
    let undone = store::undo(&mut Real, &journal, entry, world.now, Changed::Refuse);
    if undone.is_err() {
        let text = format!("the session {made} has changed since, and stays");
        world.out.note(&text)?;
    } else if let Ok(folder) = world.snapshots_folder() {
        // If its images stay, they go when they are old.
        let _ = upkeep::disinherit(&folder, made, &no_hook());
    }
    Ok(())
}

/// Gives a session that was made from another one the images of that one.
pub(crate) fn inherit(world: &mut World, from: &Session, outcome: &Outcome) -> Result<(), Failure> {
    let (Some(to), Some(copies)) = (&outcome.session, &outcome.copies) else { return Ok(()) };
    if !matches!(outcome.done, Done::Written { .. }) {
        return Ok(());
    }
    let Ok(folder) = world.snapshots_folder() else { return Ok(()) };
    let ids = (from.id.as_str(), to.as_str());
    let given = upkeep::inherit(&folder, ids, |id| copies.record(id), &no_hook());
    if let Err(error) = given {
        let text = format!("the new session has no images of earlier turns: {error}");
        world.out.note(&text)?;
    }
    Ok(())
}

/// Where the images of a session are listed; `None` if it has none.
pub(crate) fn of(world: &World, session: &Session) -> Option<PathBuf> {
    let folder = world.snapshots_folder().ok()?;
    let log = Log::of(&folder, session.id.as_str())?;
    log.path().exists().then(|| log.path().to_owned())
}

/// Deletes the images of a session, for good.
pub(crate) fn forget(world: &mut World, session: &Session) -> Result<(), Failure> {
    let Ok(folder) = world.snapshots_folder() else { return Ok(()) };
    // A rewind that was stopped is completed before its plan is gone.
    open_if_there(world)?;
    if let Err(error) = upkeep::forget(&folder, session.id.as_str(), no_hook()) {
        world.out.note(&format!("its images are still in `{}`: {error}", folder.display()))?;
    }
    Ok(())
}

/// Bounds what is kept, if it is time to.
pub(crate) fn tidy(world: &mut World) -> Result<(), Failure> {
    let Ok(folder) = world.snapshots_folder() else { return Ok(()) };
    let (bounds, now) = (world.snapshots.bounds(), world.clock());
    if upkeep::is_due(&folder, bounds, now)
        && let Err(error) = upkeep::tidy(&folder, bounds, None, now, no_hook())
    {
        world.out.note(&format!("`{}` was not tidied up: {error}", folder.display()))?;
    }
    Ok(())
}

/// The numbers of the live turns, by the ids of their records.
pub(crate) fn turn_numbers(
    family: &WithAgents,
    live: &[Turn],
) -> Result<HashMap<String, usize>, Failure> {
    let mut numbers = HashMap::new();
    for (number, turn) in (1..).zip(live) {
        if let Some(id) = first_id(family, turn)? {
            numbers.insert(id, number);
        }
    }
    Ok(numbers)
}

/// The first moment that belongs to a turn or a later one.
pub(crate) fn cut(
    moments: &[Moment],
    numbers: &HashMap<String, usize>,
    turn: usize,
    begin: Option<i64>,
) -> Option<usize> {
    let is_later = |(moment, prompt): (&Moment, Option<&str>)| {
        match prompt.and_then(|prompt| numbers.get(prompt)) {
            Some(number) => *number >= turn,
            // A prompt of an abandoned branch: what counts is when it was.
            None => begin.is_some_and(|begin| moment.time >= begin),
        }
    };
    moments.iter().zip(prompts(moments)).position(is_later)
}

/// How many of the paths that are not covered are printed.
const MOST_LISTED: usize = 10;

/// Says what is not covered: how much, and where.
pub(crate) fn tell_outside(world: &mut World, outside: &[(PathBuf, Why)]) -> Result<(), Failure> {
    if outside.is_empty() {
        return Ok(());
    }
    world.out.note(&format!("not covered: {}", outside_words(outside)))?;
    for line in outside_lines(outside).take(MOST_LISTED) {
        world.out.note(&format!("  {line}"))?;
    }
    if outside.len() > MOST_LISTED {
        world.out.note(&format!("  and {} more", outside.len() - MOST_LISTED))?;
    }
    Ok(())
}

/// What is not covered, path by path, with the reasons.
pub(crate) fn outside_lines(outside: &[(PathBuf, Why)]) -> impl Iterator<Item = String> {
    outside.iter().map(|(path, why)| format!("{}: {}", path.display(), why.words()))
}

/// Words for what is not covered.
fn outside_words(outside: &[(PathBuf, Why)]) -> String {
    let number = |why: Why| outside.iter().filter(|(_, one)| *one == why).count() as u64;
    let parts = [
        (number(Why::Ignored), "folder that git ignores", "folders that git ignores"),
        (number(Why::Large), "file over the size limit", "files over the size limit"),
        (number(Why::Special), "pipe, socket or device", "pipes, sockets or devices"),
        (number(Why::Unreadable), "thing that cannot be read", "things that cannot be read"),
    ];
    let parts = parts.into_iter().filter(|(number, ..)| *number > 0).map(|(number, one, many)| {
        if number == 1 { count(1, one) } else { format!("{number} {many}") }
    });
    parts.collect::<Vec<_>>().join(", ")
}
