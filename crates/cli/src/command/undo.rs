//! `quipu undo`: takes back what a change did to files.

use std::io::Write;

use transcript::place::Session;
use transcript::time::Time;

use crate::failure::Failure;
use crate::store::{self, Entry, Real, UndoError, Was};
use crate::surgery::live;
use crate::table::{Column, Table};
use crate::text::{clock, count};
use crate::world::World;

/// Take back the last change, or another one
///
/// A file that was changed in place is what it was before, byte for byte; files that a change made are removed. Whatever was changed since is left alone, unless `--force` says otherwise: then it is kept in the journal.
#[derive(clap::Args, Debug)]
pub(crate) struct UndoArgs {
    /// The change, as `--list` names it, or the session's id, or the beginning of either; `settings` for those of Claude Code; the last one if nothing is given
    change: Option<String>,
    /// List the changes that can be taken back
    #[arg(long, conflicts_with = "change")]
    list: bool,
    /// Take it back although files were changed since
    #[arg(long)]
    force: bool,
}

pub(crate) fn undo(world: &mut World, args: &UndoArgs) -> Result<(), Failure> {
    let journal = world.journal()?;
    let entries =
        journal.entries().map_err(|error| Failure::unreadable(&world.journal_folder(), error))?;
    if args.list {
        return list(world, &entries);
    }
    let entry = match &args.change {
        None => entries.first(),
        Some(name) => named(&entries, name)?,
    };
    let Some(entry) = entry else {
        let hint = "`quipu undo --list` lists the changes";
        return Err(Failure::not_found("there is no such change to take back", hint));
    };
    for item in entry.items.iter().filter(|_| !args.force) {
        if let Some(why) = Session::at(&item.path).ok().and_then(|session| live::user(&session)) {
            return Err(Failure::in_use(&item.path, &why));
        }
    }
    let done = store::undo(&mut Real, &journal, entry, world.now, args.force);
    let done = done.map_err(|error| match error {
        UndoError::Changed(path) => {
            Failure::in_use(&path, "it was changed after that, and would be lost")
        }
        UndoError::Io(path, error) => Failure::unwritable(&path, error),
    })?;
    writeln!(world.out, "{} of {} taken back", entry.what, short(&entry.session))?;
    for path in done {
        let is_there = path.exists();
        writeln!(
            world.out,
            "  {} {}",
            if is_there { "restored" } else { "removed " },
            path.display()
        )?;
    }
    Ok(())
}

/// The change that a name means: its own, or the last one of a session.
fn named<'a>(entries: &'a [Entry], name: &str) -> Result<Option<&'a Entry>, Failure> {
    if name.is_empty() {
        return Ok(None);
    }
    let fits = |entry: &&Entry| entry.name.starts_with(name) || entry.session.starts_with(name);
    let found: Vec<&Entry> = entries.iter().filter(fits).collect();
    let first = found.first().copied();
    let is_one =
        found.iter().all(|entry| Some(&entry.session) == first.map(|first| &first.session));
    if !is_one && first.is_none_or(|first| first.name != name) {
        let hint = "`quipu undo --list` lists the changes: give more of the name";
        return Err(Failure::not_found(format!("`{name}` fits {} changes", found.len()), hint));
    }
    Ok(first)
}

fn short(id: &str) -> String {
    id.chars().take(8).collect()
}

fn list(world: &mut World, entries: &[Entry]) -> Result<(), Failure> {
    let columns = [
        Column::left("CHANGE"),
        Column::left("WHEN"),
        Column::left("WHAT"),
        Column::left("SESSION"),
        Column::left("FILES"),
    ];
    let mut table = Table::new(&columns);
    for entry in entries {
        let replaced =
            entry.items.iter().filter(|item| matches!(item.was, Was::There { .. })).count();
        let made = entry.items.len() - replaced;
        let files = match (replaced, made) {
            (0, made) => format!("{} made", count(made as u64, "file")),
            (replaced, 0) => format!("{} changed", count(replaced as u64, "file")),
            (replaced, made) => format!("{replaced} changed, {made} made"),
        };
        table.row(&[
            entry.name.clone(),
            clock(Time(entry.time)),
            entry.what.clone(),
            short(&entry.session),
            files,
        ]);
    }
    Ok(table.write(&mut world.out)?)
}
