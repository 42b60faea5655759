//! The session that goes on: which one it is, where it goes on, and what was said in it.
//!
//! Invariants: a session is mended only where it goes on itself: what is forked, or not kept, stays as it is; nothing is begun over a session that is there; no other quipu writes to it meanwhile.

use std::fs;
use std::path::{Path, PathBuf};

use agent::resume::{self, Resumed};
use transcript::entry::Kind;
use transcript::file::Lines;
use transcript::place::{Session, sessions_in};

use super::ChatArgs;
use super::start::Where;
use crate::command::repair;
use crate::failure::Failure;
use crate::world::World;

/// Where a session is written, and what it goes on from.
pub(super) struct Place {
    pub(super) id: String,
    /// Its file, whether it is there or not.
    pub(super) file: PathBuf,
    /// The file of the session that it goes on from.
    pub(super) old: Option<PathBuf>,
    pub(super) resumed: Resumed,
}

/// Finds the session, or a place for a new one. `model` is the one that was asked for.
pub(super) fn place(
    world: &mut World,
    args: &ChatArgs,
    at: &Where,
    model: Option<&str>,
) -> Result<Place, Failure> {
    let Some(old) = old_session(world, args, at)? else {
        let id = new_id(world, args, at)?;
        let file = at.project.join(format!("{id}.jsonl"));
        lock(world, args, &file)?;
        return Ok(Place { id, file, old: None, resumed: Resumed::default() });
    };
    let is_fork = args.fork_session;
    if args.session_id.is_some() && !is_fork {
        let hint = "add `--fork-session`, or leave `--session-id` out";
        return Err(Failure::usage("a session that goes on has its id already", Some(hint)));
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
    // A file may have any name; what is in it knows better, if that is an id. Nothing else builds
    // paths.
    let id =
        if is_id(&id) { id } else { resumed.session.clone().unwrap_or_else(|| world.new_id()) };
    Ok(Place { id, file, old: Some(old.path), resumed })
}

/// Nobody else writes to a session that is written to. Where no lock can be kept there is none.
fn lock(world: &mut World, args: &ChatArgs, file: &Path) -> Result<(), Failure> {
    if args.no_session_persistence {
        return Ok(());
    }
    match world.lock_session(file, "chat") {
        Err(failure) if !failure.is_in_use() => Ok(world.out.note(&format!(
            "another quipu could write to this session, too: there is no lock ({failure})"
        ))?),
        locked => locked,
    }
}

fn is_id(text: &str) -> bool {
    uuid::Uuid::try_parse(text).is_ok()
}

fn old_session(world: &mut World, args: &ChatArgs, at: &Where) -> Result<Option<Session>, Failure> {
    if let Some(name) = &args.resume {
        let session = world.session(name)?;
        // Samples are there to be looked at.
        if world.has_samples() && !Path::new(name).exists() {
            let message = format!("there is no session `{name}`");
            return Err(Failure::not_found(message, "leave `--resume` out to begin one"));
        }
        return Ok(Some(session));
    }
    if !args.continues {
        return Ok(None);
    }
    let mut sessions = sessions_in(&at.project);
    sessions.sort_by_key(|session| std::cmp::Reverse(session.modified));
    // What a crash has left may be no session at all.
    let newest = sessions.into_iter().find(|session| says_anything(&session.path));
    if newest.is_none() {
        let message = format!("there is no session of `{}` to go on with", at.cwd.display());
        return Err(Failure::not_found(message, "leave `--continue` out to begin one"));
    }
    Ok(newest)
}

/// Whether anything is said in a file.
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

/// What was said in a session. What a crash has left of it is mended first, if that helps.
fn opened(world: &mut World, session: &Session, model: Option<&str>) -> Result<Resumed, Failure> {
    let mut found = open(session, &session.path, model)?;
    if is_broken(&found)
        && let Some(note) = repair::before_resume(world, session, None)?
    {
        world.out.note(&note)?;
        found = open(session, &session.path, model)?;
    }
    found
}

/// The same of one that is left as it is: what is mended is a copy.
fn unkept(world: &mut World, session: &Session, model: Option<&str>) -> Result<Resumed, Failure> {
    let found = open(session, &session.path, model)?;
    if !is_broken(&found) {
        return found;
    }
    let folder = tempfile::tempdir();
    let folder = folder.map_err(|error| Failure::unwritable(&std::env::temp_dir(), error))?;
    let copy = folder.path().join(format!("{}.jsonl", session.id));
    match repair::before_resume(world, session, Some(&copy))? {
        Some(note) => {
            world.out.note(&note)?;
            open(session, &copy, model)?
        }
        None => found,
    }
}

fn is_broken(found: &Result<Resumed, Failure>) -> bool {
    found.as_ref().map_or(true, |found| found.is_damaged)
}

/// What can be read of a session; inside, why nothing of it can be sent.
fn open(
    session: &Session,
    path: &Path,
    model: Option<&str>,
) -> Result<Result<Resumed, Failure>, Failure> {
    let found = resume::open(path, model).map_err(|error| Failure::unreadable(path, error))?;
    Ok(found.map_err(|_| {
        let message = format!("there is no conversation in `{}`", session.path.display());
        let hint = "`quipu check` says why; leave `--resume` out to begin a new one";
        Failure::not_found(message, hint)
    }))
}

fn new_id(world: &World, args: &ChatArgs, at: &Where) -> Result<String, Failure> {
    let Some(id) = &args.session_id else { return Ok(world.new_id()) };
    // Other clients know them in this form only.
    let is_plain = |uuid: uuid::Uuid| uuid.to_string().eq_ignore_ascii_case(id);
    if !uuid::Uuid::try_parse(id).is_ok_and(is_plain) {
        return Err(Failure::usage(format!("`{id}` is no UUID"), None));
    }
    if at.project.join(format!("{id}.jsonl")).exists() {
        let hint = "`--resume` goes on with it";
        return Err(Failure::usage(format!("the session `{id}` is there already"), Some(hint)));
    }
    Ok(id.clone())
}

/// A new session that says what an old one says, record for record: the original of this dialect copies them as they are. The copies of files come along.
fn copy(old: &Session, to: &Path, at: &Where) -> Result<(), Failure> {
    let unwritable = |error| Failure::unwritable(to, error);
    if let Some(folder) = to.parent() {
        files::make_private_folder(folder).map_err(unwritable)?;
    }
    let copy = |from: &Path, to: &Path| files::copy(from, &mut files::create_private(to)?);
    copy(&old.path, to).map_err(unwritable)?;
    let history = at.home.join("file-history");
    // A file may be called anything, `..` among it.
    let copies = is_id(&old.id).then(|| fs::read_dir(history.join(&old.id)));
    let Some(Ok(copies)) = copies else { return Ok(()) };
    let folder = history.join(to.file_stem().unwrap_or_default());
    files::make_private_folder(&folder).map_err(unwritable)?;
    for file in copies.flatten().filter(|file| file.file_type().is_ok_and(|kind| kind.is_file())) {
        copy(&file.path(), &folder.join(file.file_name())).map_err(unwritable)?;
    }
    Ok(())
}
