//! Images of the folders that agents work in: the store, what stopped runs left, and which turn a
//! moment belongs to.

use std::collections::HashMap;
use std::path::PathBuf;

use snapshot::restore::{Journal, SettledHow};
use snapshot::store::no_hook;
use snapshot::{About, Event, Limits, Log, Moment, Recorder, Store, Vault};
use transcript::conversation::agents::WithAgents;
use transcript::conversation::place::Session;
use transcript::conversation::turn::Turn;
use workshop::store::{self, Changed, Real};

use crate::failure::Failure;
use crate::text::count;
use crate::world::World;

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
}

/// Opens the store, and completes or takes back what a stopped run left.
pub(crate) fn open(world: &mut World) -> Result<Kept, Failure> {
    let folder = world.snapshots_folder()?;
    let unreadable = |error| Failure::unreadable(&folder, error);
    let store = Store::open(&folder, no_hook()).map_err(unreadable)?;
    let vault = Vault::new(&folder.join("objects"));
    let kept = Kept { store, vault, limits: world.snapshots.limits() };
    let settled = kept.journal().settle();
    let settled = settled.map_err(|error| Failure::usage(error.to_string(), None))?;
    for one in settled {
        let what = match one.how {
            SettledHow::Dropped => "had not begun: nothing was changed",
            SettledHow::Completed => "was completed now",
            SettledHow::TakenBack => "was being taken back: that was completed now",
        };
        let short: String = one.rewind.session.chars().take(8).collect();
        world.out.note(&format!("a rewind of {short} that was stopped {what}"))?;
        for path in one.skipped {
            world.out.note(&format!("`{}` was changed since, and left alone", path.display()))?;
        }
        if let Some(made) = one.rewind.made.filter(|_| one.how != SettledHow::Completed) {
            remove_session(world, &made)?;
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

/// Records an image around a rewind, which is a change like others: a later rewind goes back behind
/// it. A session without images has none of it.
pub(crate) fn record(
    world: &World,
    kept: &Kept,
    session: &str,
    event: Event,
) -> Result<(), Failure> {
    let moments = Log::of(kept.store.folder(), session).and_then(|log| log.read().ok());
    let Some(last) = moments.and_then(|moments| moments.last().cloned()) else { return Ok(()) };
    let roots: Vec<PathBuf> = last.trees.into_iter().map(|tree| tree.root).collect();
    let about =
        About { tool: Some("rewind".to_owned()), call: Some("rewind".to_owned()), prompt: None };
    let taken = Recorder::open(kept.store.folder(), session, &roots, kept.limits)
        .and_then(|mut recorder| recorder.take(event, about, world.clock()));
    taken.map(drop).map_err(|error| {
        Failure::kept(format!("nothing was changed: {error}"), "free space, and run it again")
    })
}

/// Takes back the session that a rewind made.
pub(crate) fn remove_session(world: &mut World, made: &str) -> Result<(), Failure> {
    let journal = world.workshop.journal()?;
    let entries = journal.entries();
    let entries = entries.map_err(|error| Failure::unreadable(&world.journal_folder(), error))?;
    let is_its = |entry: &&store::Entry| entry.made.as_deref() == Some(made);
    let Some(entry) = entries.iter().find(is_its) else { return Ok(()) };
    let undone = store::undo(&mut Real, &journal, entry, world.now, Changed::Refuse);
    if undone.is_err() {
        let text = format!("the session {made} has changed since, and stays");
        world.out.note(&text)?;
    }
    Ok(())
}

/// Deletes the images of a session that is deleted for good.
pub(crate) fn forget(world: &mut World, session: &Session) -> Result<(), Failure> {
    let Ok(folder) = world.snapshots_folder() else { return Ok(()) };
    if let Err(error) = snapshot::upkeep::forget(&folder, session.id.as_str(), no_hook()) {
        world.out.note(&format!("its images are still in `{}`: {error}", folder.display()))?;
    }
    Ok(())
}

/// Bounds what is kept, if it is time to.
pub(crate) fn tidy(world: &mut World) -> Result<(), Failure> {
    let Ok(folder) = world.snapshots_folder() else { return Ok(()) };
    let (bounds, now) = (world.snapshots.bounds(), world.clock());
    if snapshot::upkeep::is_due(&folder, bounds, now)
        && let Err(error) = snapshot::upkeep::tidy(&folder, bounds, None, now, no_hook())
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

/// The id of the record that a turn begins with.
pub(crate) fn first_id(family: &WithAgents, turn: &Turn) -> Result<Option<String>, Failure> {
    let id = family.main.look(turn.rows[0], |entry| {
        entry
            .get("uuid")
            .and_then(transcript::format::json::Json::text)
            .map(std::borrow::Cow::into_owned)
    });
    Ok(id?)
}

/// The first moment that belongs to a turn or a later one.
pub(crate) fn cut(
    moments: &[Moment],
    numbers: &HashMap<String, usize>,
    turn: usize,
    begin: Option<i64>,
) -> Option<usize> {
    let is_later = |moment: &Moment| {
        let known = moment.about.prompt.as_ref().and_then(|prompt| numbers.get(prompt));
        match known {
            Some(number) => *number >= turn,
            // A prompt of an abandoned branch: what counts is when it was.
            None => begin.is_some_and(|begin| moment.time >= begin),
        }
    };
    moments.iter().position(is_later)
}

/// Words for what is not covered.
pub(crate) fn left_out_words(outside: &[(PathBuf, snapshot::tree::Why)]) -> String {
    use snapshot::tree::Why;
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
