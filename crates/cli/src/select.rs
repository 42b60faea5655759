//! The files that a command reads: those that the user names, or all.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use transcript::conversation::place::{self, Home, Session};

use crate::failure::Failure;
use crate::project;
use crate::survey::{self, Surveyed};
use crate::text::{age, count, fit};
use crate::world::World;

#[derive(clap::Args, Debug)]
pub(crate) struct Which {
    /// Sessions, files or folders; `last` if nothing is given
    pub(crate) session: Vec<String>,
    /// All sessions and their sub-agents
    #[arg(long, conflicts_with = "session")]
    pub(crate) all: bool,
}

impl Which {
    /// A file that the user names must be readable. With `--all`, an unreadable file was reported
    /// already, and that is enough.
    pub(crate) fn outcome(&self, unreadable: usize) -> Result<(), Failure> {
        match unreadable {
            0 => Ok(()),
            _ if self.all => Ok(()),
            count => Err(Failure::some_unreadable(count)),
        }
    }
}

/// The session that a name means.
pub(crate) fn session(world: &mut World, name: &str) -> Result<Session, Failure> {
    let path = Path::new(name);
    if path.is_dir() {
        let hint = "give a session's file or id";
        return Err(Failure::usage(format!("`{name}` is a folder"), Some(hint)));
    }
    // A file that exists, or a name that looks like a path, needs no home.
    let by_hand = path.symlink_metadata().is_ok() || place::is_path(name);
    if name == "last" && !by_hand {
        return project::last(world);
    }
    let homes = if by_hand { Vec::new() } else { world.homes()?.list };
    let session = place::find(&homes, name)
        .map_err(|error| Failure::name(error, |candidates| rows(world, candidates)))?;
    // Found by its words: say which one it is.
    if !by_hand && !is_id(&session, name) {
        let row = rows(world, vec![session.clone()]).concat();
        world.out.note(&format!("session {row}"))?;
    }
    tell_late_lines(world, &session)?;
    Ok(session)
}

/// Whether a name is the session's id, or the start of it.
fn is_id(session: &Session, name: &str) -> bool {
    session.id.starts_with(name)
}

/// Whether another option selects sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Selects {
    /// It selects some of all.
    SomeOfAll,
    /// There is none.
    Nothing,
}

/// The sessions that are sent somewhere.
#[derive(clap::Args, Debug)]
pub(crate) struct ChosenArgs {
    /// Sessions
    session: Vec<String>,
    /// All sessions
    #[arg(long, conflicts_with = "session")]
    pub(crate) all: bool,
}

impl ChosenArgs {
    /// Whether all sessions are meant: if none is named, also by what selects some of all.
    pub(crate) fn is_all(&self, selects: Selects) -> bool {
        self.all || (self.session.is_empty() && selects == Selects::SomeOfAll)
    }

    /// The sessions that the user names: none with `--all`, and some without.
    pub(crate) fn named(&self, world: &mut World) -> Result<Vec<Session>, Failure> {
        if !self.all && self.session.is_empty() {
            return Err(Failure::usage("no session given", Some("give a session, or `--all`")));
        }
        self.session.iter().map(|name| session_to_change(world, name)).collect()
    }
}

/// The session that a name means, for a command that changes or sends it. What looks like the start
/// of an id is only that: a mistyped one must not select a session by its words.
pub(crate) fn session_to_change(world: &mut World, name: &str) -> Result<Session, Failure> {
    let session = session(world, name)?;
    let is_path = Path::new(name).symlink_metadata().is_ok() || place::is_path(name);
    if is_path || name == "last" || is_id(&session, name) {
        return Ok(session);
    }
    let looks_like_id = name.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    if looks_like_id || place::is_agent(&session.path) {
        let message = format!("no session has an id that begins with `{name}`");
        return Err(Failure::not_found(message, "`quipu ls --all` lists all sessions"));
    }
    Ok(session)
}

/// Sessions to choose from: id, age and title of each, newest first.
fn rows(world: &World, candidates: Vec<Session>) -> Vec<String> {
    let ids: HashSet<String> = candidates.iter().map(survey::short_id).collect();
    // The beginning of the id, if that tells them apart.
    let is_short = ids.len() == candidates.len();
    let all: HashSet<&str> = candidates.iter().map(|one| one.id.as_str()).collect();
    let is_told_by_path = all.len() < candidates.len();
    let row = |one: Surveyed| {
        let id = if is_short { survey::short_id(&one.session) } else { one.session.id.to_string() };
        let age = age(world.since(one.session.modified).as_secs());
        let path = one.session.path.display().to_string();
        let path = if is_told_by_path { format!("  {path}") } else { String::new() };
        format!("{id}  {age:>4}  {}{path}", fit(&survey::headline(&one), 60))
    };
    survey::survey(candidates).into_iter().map(row).collect()
}

/// Reports that another program wrote to a session's old file after it was replaced.
fn tell_late_lines(world: &mut World, session: &Session) -> Result<(), Failure> {
    let Ok(journal) = world.workshop.journal() else { return Ok(()) };
    for entry in journal.late(&session.id, &session.path) {
        let lines = count(entry.late().lines, "line");
        world.out.note(&format!(
            "another program wrote {lines} to this session's old file after `{}` replaced \
             it: `quipu undo {}` restores that file with them",
            entry.what, entry.name
        ))?;
    }
    Ok(())
}

/// The files that the given names mean, including those in given folders; or all files.
/// Sub-agents' files are included for folders and for all, not for the name of a session.
pub(crate) fn files(world: &mut World, which: &Which) -> Result<Vec<PathBuf>, Failure> {
    if which.session.is_empty() && !which.all {
        return Ok(vec![project::last(world)?.path]);
    }
    if which.all {
        let all: Vec<_> = world.homes()?.list.iter().flat_map(Home::transcripts).collect();
        let none = || Failure::not_found("no sessions found", "`--home` selects another home");
        return if all.is_empty() { Err(none()) } else { Ok(all) };
    }
    let mut files = Vec::new();
    for name in &which.session {
        let path = Path::new(name);
        if path.is_dir() {
            let found = place::transcripts_under(path);
            let found = found.map_err(|error| Failure::unreadable(path, error))?;
            if found.is_empty() {
                world.out.note(&format!("no transcripts in `{}`", path.display()))?;
            }
            files.extend(found);
        } else {
            files.push(session(world, name)?.path);
        }
    }
    if files.is_empty() {
        let hint = "`quipu ls --all` lists all sessions";
        return Err(Failure::not_found("the given folders contain no sessions", hint));
    }
    Ok(files)
}
