//! The session to resume: which one it is, where it continues, and what was said in it.
//!
//! Invariants: a session is repaired in place only if it continues itself; one that is forked, or
//! not kept, stays as it is. No new session overwrites an existing one. No other quipu writes to
//! the session meanwhile.

use std::fs;
use std::path::{Path, PathBuf};

use agent::resume::{self, Resumed};
use transcript::conversation::place::{Session, sessions_in};
use transcript::format::entry::Kind;
use transcript::format::file::Lines;

use super::ChatArgs;
use super::start::Where;
use crate::failure::Failure;
use crate::select;
use crate::surgery::tell;
use crate::world::World;

/// Where a session is written, and what it continues.
pub(super) struct ResumePlace {
    pub(super) id: String,
    /// Its file, whether it exists or not.
    pub(super) file: PathBuf,
    /// The file of the session that it continues.
    pub(super) old: Option<PathBuf>,
    pub(super) resumed: Resumed,
}

/// Finds the session, or a place for a new one. `model` is the one that the user asked for.
pub(super) fn place(
    world: &mut World,
    args: &ChatArgs,
    at: &Where,
    model: Option<&str>,
) -> Result<ResumePlace, Failure> {
    let Some(old) = old_session(world, args, at)? else {
        let id = new_id(world, args, at)?;
        let file = at.project.join(format!("{id}.jsonl"));
        lock(world, args, &file)?;
        return Ok(ResumePlace { id, file, old: None, resumed: Resumed::default() });
    };
    let is_fork = args.fork_session;
    if args.session_id.is_some() && !is_fork {
        let hint = "add `--fork-session`, or leave out `--session-id`";
        return Err(Failure::usage("a resumed session already has an id", Some(hint)));
    }
    let id = if is_fork { new_id(world, args, at)? } else { old.id.clone() };
    let new_file = at.project.join(format!("{id}.jsonl"));
    let file = if is_fork { new_file } else { old.path.clone() };
    lock(world, args, &file)?;
    let resumed = if args.no_session_persistence {
        unkept(world, &old, model)?
    } else if is_fork {
        copy(&old, &file, at)?;
        let fork = Session::at(&file).map_err(|error| Failure::unreadable(&file, error))?;
        opened(world, &fork, model).inspect_err(|_| _ = fs::remove_file(&file))?
    } else {
        opened(world, &old, model)?
    };
    // A file may have any name. If its name is not a UUID, use the id in its records. No other id
    // is used in paths.
    let id =
        if is_id(&id) { id } else { resumed.session.clone().unwrap_or_else(|| world.new_id()) };
    Ok(ResumePlace { id, file, old: Some(old.path), resumed })
}

/// Locks a session that is written to. If there cannot be a lock, continues without one.
fn lock(world: &mut World, args: &ChatArgs, file: &Path) -> Result<(), Failure> {
    if args.no_session_persistence {
        return Ok(());
    }
    match world.workshop.lock(file, "chat").map_err(Failure::from) {
        Err(failure) if !failure.is_in_use() => Ok(world.out.note(&format!(
            "cannot lock this session, so another quipu could write to it, too ({failure})"
        ))?),
        locked => locked,
    }
}

fn is_id(text: &str) -> bool {
    uuid::Uuid::try_parse(text).is_ok()
}

fn old_session(world: &mut World, args: &ChatArgs, at: &Where) -> Result<Option<Session>, Failure> {
    if let Some(name) = &args.resume {
        let session = select::session_to_change(world, name)?;
        // Samples are only for looking at.
        if world.has_samples() && !Path::new(name).exists() {
            let message = format!("session `{name}` not found");
            return Err(Failure::not_found(message, "leave out `--resume` to start a new one"));
        }
        return Ok(Some(session));
    }
    if !args.continues {
        return Ok(None);
    }
    let mut sessions = sessions_in(&at.project);
    sessions.sort_by_key(|session| std::cmp::Reverse(session.modified));
    // A file that a crash has left may contain no session.
    let newest = sessions.into_iter().find(|session| says_anything(&session.path));
    if newest.is_none() {
        let message = format!("`{}` has no session to continue", at.cwd.display());
        return Err(Failure::not_found(message, "leave out `--continue` to start a new one"));
    }
    Ok(newest)
}

/// Whether a file contains messages.
fn says_anything(path: &Path) -> bool {
    let Ok(file) = files::open(path) else { return false };
    let mut lines = Lines::new(file);
    while let Ok(Some(line)) = lines.next_line() {
        let mut entries = line.records().filter_map(|record| record.entry);
        if entries.any(|entry| matches!(entry.kind(), Kind::User | Kind::Assistant)) {
            return true;
        }
    }
    false
}

/// The messages of a session. If a crash damaged it, repairs it first, if that helps.
fn opened(world: &mut World, session: &Session, model: Option<&str>) -> Result<Resumed, Failure> {
    let mut found = open(session, &session.path, model)?;
    if is_broken(&found) && repair_first(world, session, None)? {
        found = open(session, &session.path, model)?;
    }
    found
}

/// The same for a session that is left as it is: a copy is repaired.
fn unkept(world: &mut World, session: &Session, model: Option<&str>) -> Result<Resumed, Failure> {
    let found = open(session, &session.path, model)?;
    if !is_broken(&found) {
        return found;
    }
    let folder = tempfile::tempdir();
    let folder = folder.map_err(|error| Failure::unwritable(&std::env::temp_dir(), error))?;
    let copy = folder.path().join(format!("{}.jsonl", session.id));
    if repair_first(world, session, Some(&copy))? { open(session, &copy, model)? } else { found }
}

/// Repairs a session, or a copy of it, if it then resumes better; reports and returns whether it
/// did.
fn repair_first(
    world: &mut World,
    session: &Session,
    copy: Option<&Path>,
) -> Result<bool, Failure> {
    let mut notices = Vec::new();
    let repaired =
        world.workshop.repair_before_resume(session, copy, &mut |notice| notices.push(notice));
    tell(world, &notices)?;
    let Some(repaired) = repaired? else { return Ok(false) };
    let more = repaired.deeds.len().saturating_sub(3);
    let deeds = repaired.deeds.iter().take(3).map(|(deed, times)| match times {
        1 => deed.clone(),
        _ => format!("{deed} ({times} times)"),
    });
    let deeds = deeds.collect::<Vec<_>>().join("; ");
    let more = if more == 0 { String::new() } else { format!("; and {more} more") };
    let undo = if copy.is_none() { " (`quipu undo` reverts that)" } else { " (in a copy)" };
    world.out.note(&format!("the session was repaired first: {deeds}{more}{undo}"))?;
    Ok(true)
}

fn is_broken(found: &Result<Resumed, Failure>) -> bool {
    found.as_ref().map_or(true, |found| found.is_damaged)
}

/// What can be read of a session; the inner error says why nothing of it can be sent.
fn open(
    session: &Session,
    path: &Path,
    model: Option<&str>,
) -> Result<Result<Resumed, Failure>, Failure> {
    let found = resume::open(path, model).map_err(|error| Failure::unreadable(path, error))?;
    Ok(found.map_err(|_| {
        let message = format!("`{}` contains no conversation", session.path.display());
        let hint = "`quipu check` reports why; leave out `--resume` to start a new one";
        Failure::not_found(message, hint)
    }))
}

fn new_id(world: &World, args: &ChatArgs, at: &Where) -> Result<String, Failure> {
    let Some(id) = &args.session_id else { return Ok(world.new_id()) };
    // Other clients know ids only in this form.
    let is_plain = |uuid: uuid::Uuid| uuid.to_string().eq_ignore_ascii_case(id);
    if !uuid::Uuid::try_parse(id).is_ok_and(is_plain) {
        return Err(Failure::usage(format!("`{id}` is not a UUID"), None));
    }
    if at.project.join(format!("{id}.jsonl")).exists() {
        let hint = "`--resume` continues it";
        return Err(Failure::usage(format!("the session `{id}` already exists"), Some(hint)));
    }
    Ok(id.clone())
}

/// A new session with the records of an old one, copied unchanged, as Claude Code 2.1.45 does. The
/// copies of files are copied too.
fn copy(old: &Session, to: &Path, at: &Where) -> Result<(), Failure> {
    let unwritable = |error| Failure::unwritable(to, error);
    if let Some(folder) = to.parent() {
        files::make_private_folder(folder).map_err(unwritable)?;
    }
    let copy = |from: &Path, to: &Path| files::copy(from, &mut files::create_private(to)?);
    copy(&old.path, to).map_err(unwritable)?;
    let history = at.home.join("file-history");
    // A file may have any name, including `..`.
    let copies = is_id(&old.id).then(|| fs::read_dir(history.join(&old.id)));
    let Some(Ok(copies)) = copies else { return Ok(()) };
    let folder = history.join(to.file_stem().unwrap_or_default());
    files::make_private_folder(&folder).map_err(unwritable)?;
    for file in copies.flatten().filter(|file| file.file_type().is_ok_and(|kind| kind.is_file())) {
        copy(&file.path(), &folder.join(file.file_name())).map_err(unwritable)?;
    }
    Ok(())
}
