//! `quipu undo`: reverts what a change did to files.
//!
//! Invariants: nothing is restored that is not exactly what was kept; a change that is damaged is
//! reported, and no other one is undone in its place.

use std::io::Write;

use snapshot::restore::Rewind;
use transcript::conversation::place::Session;
use transcript::format::time::Time;
use workshop::live;
use workshop::store::{self, Changed, Entry, Journal, Leftovers, Real, State, UndoError, Was};

use crate::failure::Failure;
use crate::images::{self, Kept};
use crate::table::{Column, Table};
use crate::text::{clock, count, printable, size};
use crate::world::World;

/// Undo the last change, or another one
///
/// Restores a file that was changed in place: bytes, time, mode, owner and extended attributes.
/// Lines that another program wrote late to the old file come back with it. Files that the change
/// created are removed. A file that has changed since is left alone, unless you use `--force`: then
/// its current version is kept in the journal.
///
/// The journal contains hashes. A change whose copy or entry is damaged is listed as damaged and
/// cannot be undone (exit code 4); while the last change is damaged, you have to name another one.
/// Changes are kept for 90 days, and up to 5 GB (`keep_days` and `keep_bytes` in `[undo]` of the
/// configuration); changes of the last day are always kept.
#[derive(clap::Args, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "they are flags")]
pub(crate) struct UndoArgs {
    /// The change as `--list` names it, or the session's id, or the start of either; `settings` for
    /// those of Claude Code; the last change if nothing is given
    change: Option<String>,
    /// List the changes that can be undone, after checking their hashes, and count what interrupted
    /// runs left behind
    #[arg(long, conflicts_with = "change")]
    list: bool,
    /// Undo the change although files have changed since
    #[arg(long, conflicts_with = "list")]
    force: bool,
    /// Remove changes older than a week, or than `--older-than`, so that they cannot be undone any
    /// more; and what interrupted runs left behind
    #[arg(long, conflicts_with_all = ["change", "list", "force"])]
    prune: bool,
    /// With `--prune`: the age in days; at least 1
    #[arg(long, value_name = "DAYS", requires = "prune", value_parser = clap::value_parser!(u64).range(1..))]
    older_than: Option<u64>,
}

/// The default of `--older-than`, in days.
const WEEK: u64 = 7;

pub(crate) fn undo(world: &mut World, args: &UndoArgs) -> Result<(), Failure> {
    let journal = world.workshop.journal()?;
    let kept = images::open_if_there(world)?;
    let rewinds = kept.as_ref().map(|kept| kept.journal().list()).unwrap_or_default();
    if args.list {
        return list(world, &journal, &rewinds);
    }
    let swept = journal.sweep(&mut Real, world.now);
    let swept = swept.map_err(|error| Failure::unwritable(&world.journal_folder(), error))?;
    if args.prune {
        return prune(world, &journal, swept, args.older_than.unwrap_or(WEEK));
    }
    let entries =
        journal.entries().map_err(|error| Failure::unreadable(&world.journal_folder(), error))?;
    if let Some(kept) = &kept
        && let Some(rewind) = rewind_meant(&rewinds, &entries, args.change.as_deref())
    {
        return take_back(world, kept, rewind, args.force);
    }
    let entry = match &args.change {
        None => entries.first(),
        Some(name) => named(&entries, name)?,
    };
    let Some(entry) = entry else {
        let hint = "`quipu undo --list` lists the changes";
        return Err(Failure::not_found("there is no such change to undo", hint));
    };
    if let State::Damaged(why) = &entry.state {
        return Err(damaged(entry, why));
    }
    for (at, item) in entry.items.iter().enumerate() {
        if at == 0 || item.was != Was::Nothing {
            world.workshop.lock(&item.path, "undo")?;
        }
        if !args.force
            && let Some(why) = Session::at(&item.path).ok().and_then(|found| live::user(&found))
        {
            return Err(Failure::in_use(&item.path, &why));
        }
    }
    // A process that had the locks before may have done it.
    if !entry.folder.is_dir() {
        let hint = "`quipu undo --list` lists the changes";
        return Err(Failure::not_found("another process has just undone this change", hint));
    }
    let late = entry.late();
    let changed = if args.force { Changed::Keep } else { Changed::Refuse };
    let done = store::undo(&mut Real, &journal, entry, world.now, changed);
    let done = done.map_err(|error| match error {
        UndoError::Changed(path) => {
            Failure::in_use(&path, "it has changed since, and that would be lost")
        }
        UndoError::Damaged(why) => damaged(entry, &why),
        UndoError::Io(path, error) => Failure::unwritable(&path, error),
    })?;
    writeln!(world.out, "{} of {} undone", entry.what, printable(&short(&entry.session)))?;
    for path in done {
        let what = if path.exists() { "restored" } else { "removed " };
        writeln!(world.out, "  {what} {}", printable(&path.display().to_string()))?;
    }
    if late.bytes > 0 {
        let lines = count(late.lines, "line");
        writeln!(world.out, "  with {lines} that another program wrote late to the old file")?;
    }
    if entry.state == State::Unsealed {
        let note = "the restored file could not be verified: an older quipu kept it without \
                    hashes; its size is right";
        world.out.note(note)?;
    }
    Ok(())
}

/// The rewind that is meant: by its name or its session, or because it is the last change.
fn rewind_meant<'a>(
    rewinds: &'a [Rewind],
    entries: &[Entry],
    name: Option<&str>,
) -> Option<&'a Rewind> {
    let Some(name) = name else {
        let newest = rewinds.first()?;
        let is_newest = entries.first().is_none_or(|entry| {
            // A rewind and the session that it made are one change.
            entry.time <= newest.time || (newest.made.is_some() && entry.made == newest.made)
        });
        return is_newest.then_some(newest);
    };
    let fits = |rewind: &&Rewind| {
        !name.is_empty() && (rewind.name.starts_with(name) || rewind.session.starts_with(name))
    };
    let found = rewinds.iter().find(fits)?;
    let later = entries
        .iter()
        .find(|entry| entry.name.starts_with(name) || entry.session.starts_with(name));
    let is_other = |entry: &Entry| entry.time > found.time && entry.made != found.made;
    (!later.is_some_and(is_other)).then_some(found)
}

/// Takes a rewind back, with the session that it made.
fn take_back(
    world: &mut World,
    kept: &Kept,
    rewind: &Rewind,
    is_forced: bool,
) -> Result<(), Failure> {
    let _shared = kept.share()?;
    let journal = kept.journal();
    if let Some(path) = journal.changed(rewind).first().filter(|_| !is_forced) {
        return Err(Failure::in_use(path, "it has changed since, and that would be lost"));
    }
    if let Some(path) = journal.damaged(rewind).first().filter(|_| !is_forced) {
        let message = format!("nothing was undone: the copy of `{}` is damaged", path.display());
        return Err(Failure::damaged(message, "`--force` puts back what there is"));
    }
    // What is overwritten is in the image before it.
    images::around(world, kept, (&rewind.session, None), |world| {
        let mut removed = Ok(());
        let taken = journal.take_back(rewind, &mut || {
            removed = images::remove_made(world, rewind.made.as_deref());
        });
        taken.map_err(|error| Failure::kept(error.to_string(), "run `quipu undo` again"))?;
        removed
    })?;
    let (session, paths) = (short(&rewind.session), count(rewind.steps.len() as u64, "path"));
    writeln!(world.out, "rewind of {} undone", printable(&session))?;
    writeln!(world.out, "  {paths} put back")?;
    Ok(())
}

/// The failure for a change that cannot be undone.
fn damaged(entry: &Entry, why: &str) -> Failure {
    let parts = entry.parts().into_iter().map(|(name, bytes)| format!("{name} ({})", size(bytes)));
    let parts = parts.collect::<Vec<_>>().join(", ");
    let parts = if parts.is_empty() { "nothing".to_owned() } else { parts };
    let message = format!(
        "the change `{}` is damaged and cannot be undone: {why}; still in `{}`: {parts}",
        entry.name,
        entry.folder.display()
    );
    Failure::damaged(message, "`quipu undo --list` lists the other changes: name one of them")
}

/// The change that a name means: its own, or the last one of a session.
fn named<'a>(entries: &'a [Entry], name: &str) -> Result<Option<&'a Entry>, Failure> {
    if name.is_empty() {
        return Ok(None);
    }
    // A damaged entry has only the start of the id.
    let is_cut = |entry: &Entry| {
        matches!(entry.state, State::Damaged(_))
            && !entry.session.is_empty()
            && name.starts_with(&entry.session)
    };
    let fits = |entry: &&Entry| {
        entry.name.starts_with(name) || entry.session.starts_with(name) || is_cut(entry)
    };
    let found: Vec<&Entry> = entries.iter().filter(fits).collect();
    // The whole name of one may be the start of another.
    if let Some(entry) = found.iter().find(|entry| entry.name == name) {
        return Ok(Some(entry));
    }
    let first = found.first().copied();
    let is_one = found
        .iter()
        .all(|entry| Some(short(&entry.session)) == first.map(|first| short(&first.session)));
    if !is_one {
        let hint = "`quipu undo --list` lists the changes: give more of the name";
        return Err(Failure::not_found(format!("`{name}` matches {} changes", found.len()), hint));
    }
    Ok(first)
}

fn short(id: &str) -> String {
    id.chars().take(8).collect()
}

fn list(world: &mut World, journal: &Journal, rewinds: &[Rewind]) -> Result<(), Failure> {
    let unreadable = |error| Failure::unreadable(&world.journal_folder(), error);
    let entries = journal.entries().map_err(unreadable)?;
    let left = journal.leftovers(world.now).map_err(unreadable)?;
    let columns = [
        Column::left("change"),
        Column::left("when"),
        Column::left("what"),
        Column::left("session"),
        Column::left("new"),
        Column::left("files"),
    ];
    let mut table = Table::new(&columns);
    for rewind in rewinds {
        table.row(&[
            rewind.name.clone(),
            clock(Time(rewind.time)),
            "rewind".to_owned(),
            short(&rewind.session),
            rewind.made.as_deref().map(short).unwrap_or_default(),
            format!("{} put back", count(rewind.steps.len() as u64, "path")),
        ]);
    }
    for entry in &entries {
        table.row(&[
            entry.name.clone(),
            clock(Time(entry.time)),
            entry.what.clone(),
            short(&entry.session),
            entry.made.as_deref().map(short).unwrap_or_default(),
            files(entry),
        ]);
    }
    table.write(&mut world.out)?;
    if left.count > 0 {
        let (things, bytes) = (count(left.count, "item"), size(left.bytes));
        world.out.note(&format!(
            "interrupted runs left {things} behind ({bytes}): the next change, or \
             `quipu undo --prune`, cleans up"
        ))?;
    }
    Ok(())
}

/// What a change did to files, and whether it can be undone.
fn files(entry: &Entry) -> String {
    if let Err(why) = entry.verify() {
        return format!("damaged: {why}");
    }
    let replaced = entry.items.iter().filter(|item| item.was != Was::Nothing).count();
    let made = entry.items.len() - replaced;
    let mut text = match (replaced, made) {
        (0, made) => format!("{} created", count(made as u64, "file")),
        (replaced, 0) => format!("{} changed", count(replaced as u64, "file")),
        (replaced, made) => format!("{replaced} changed, {made} created"),
    };
    let late = entry.late();
    if late.bytes > 0 {
        text = format!("{text}, {} written late", count(late.lines, "line"));
    }
    if entry.state == State::Unsealed {
        text.push_str(", without hashes");
    }
    text
}

fn prune(world: &mut World, journal: &Journal, swept: Leftovers, days: u64) -> Result<(), Failure> {
    let pruned = journal.prune(&mut Real, world.now, days);
    let pruned = pruned.map_err(|error| Failure::unwritable(&world.journal_folder(), error))?;
    let amount = |found: Leftovers, noun: &str| {
        format!("{} ({})", count(found.count, noun), size(found.bytes))
    };
    let age = count(days, "day");
    writeln!(world.out, "removed {} older than {age}", amount(pruned, "change"))?;
    writeln!(world.out, "removed {} that interrupted runs left behind", amount(swept, "item"))?;
    Ok(())
}
