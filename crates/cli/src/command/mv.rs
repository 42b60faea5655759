//! `quipu move`: sessions of a checkout that has another place now.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use transcript::client::change::PathMap;
use transcript::client::history::Rules;
use transcript::conversation::place::{Session, sessions_in, slug, slug_uncut, working_directory};
use workshop::{
    Done, Mode, Outcome, Place, Plan, Policy, Relocated, RelocatedSession, Relocation, Verb,
    map_session,
};

use crate::failure::Failure;
use crate::out::JSON_VERSION;
use crate::prices;
use crate::project::lexical;
use crate::resume_command::resume_command;
use crate::select;
use crate::surgery::{self, InPlaceAnyway, PriceJson, PriceOfChange, Target};
use crate::table::{Column, Table};
use crate::text::{count, grouped, one_line, shown};
use crate::world::World;

/// Move a session, or a whole project, to another directory
///
/// For a checkout that was renamed or moved: its sessions go to the folder that Claude Code uses
/// for the new directory, with their sub-agents and results, and paths below the old directory are
/// mapped in all records, except in signed thinking. Then Claude Code lists and resumes them there.
/// The checkout itself is not touched, and the new directory need not exist yet. Sessions that are
/// in use are left alone (exit code 5). `quipu undo` restores the files as they were.
///
/// With `--project`, all sessions move that were started in OLD or below it, and the memory of the
/// projects. The prompt history and Claude Code's list of projects (`.claude.json`) are not
/// changed: Claude Code asks again whether you trust the new directory.
#[derive(clap::Args, Debug)]
#[command(mut_arg("force", |arg| arg.help(surgery::FORCE_ITS_FILE)))]
pub(crate) struct MoveArgs {
    /// The session; with `--project`, the old directory
    #[arg(value_name = "SESSION|OLD")]
    what: String,
    /// The new directory
    #[arg(value_name = "NEW")]
    to: PathBuf,
    /// Move all sessions of the directory OLD
    #[arg(long, conflicts_with = "output")]
    project: bool,
    #[command(flatten)]
    in_place: InPlaceAnyway,
    #[command(flatten)]
    target: Target,
}

/// The whole output with `--project --json`.
#[derive(Serialize)]
struct MoveJson<'a> {
    v: u32,
    dry_run: bool,
    from: &'a str,
    to: &'a str,
    sessions: Vec<MovedJson<'a>>,
    undo: Option<&'a str>,
}

#[derive(Serialize)]
struct MovedJson<'a> {
    session: String,
    from: String,
    to: String,
    altered: u64,
    kept: u64,
    paths: u64,
    verdict: [&'static str; 2],
    price: Option<PriceJson<'a>>,
    resume: String,
}

pub(crate) fn mv(world: &mut World, args: &MoveArgs) -> Result<(), Failure> {
    let to = real(&lexical(&world.cwd.join(&args.to)));
    let (old, sessions) = if args.project { of_project(world, args)? } else { one(world, args)? };
    let new = to.to_string_lossy().into_owned();
    if to.to_str().is_none() {
        return Err(Failure::usage("the new directory has a name that is not text", None));
    }
    if old == new {
        let message = format!("it is in `{old}` already");
        return Err(Failure::usage(message, Some("give another directory")));
    }
    if [&old, &new].iter().any(|path| Path::new(path).parent().is_none()) {
        let hint = "every path would have to be mapped";
        return Err(Failure::usage("the root directory cannot be moved", Some(hint)));
    }
    let mut paths = PathMap::default();
    paths.folder(&old, &new);
    for (session, _) in &sessions {
        surgery::when_cold(world, session, &args.target)?;
    }
    let mut moved = Vec::new();
    for (session, cwd) in sessions {
        let folder = slug(&paths.path(&cwd));
        paths.project(&session.project, &folder);
        let home = session.path.ancestors().nth(2).unwrap_or(Path::new(""));
        let to = home.join(folder);
        moved.push((session, to));
    }
    let Policy { place, mode, force, .. } = args.target.policy(Verb::Move, Place::InPlace);
    if let (Some((session, _)), Mode::Write, true) =
        (moved.first(), mode, args.target.output.is_some())
    {
        let (one, done) = map_session(session, &paths, &place, force, Rules::newest())?;
        return say_file(world, args, one, done);
    }
    let memories = if args.project { memories(&moved) } else { Vec::new() };
    let what = Relocation { sessions: &moved, memories: &memories, paths: &paths, mode, force };
    let mut notices = Vec::new();
    let done = world.workshop.relocate(&what, Rules::newest(), &mut |notice| notices.push(notice));
    surgery::tell(world, &notices)?;
    let done = done?;
    let before: u64 = done.sessions.iter().map(|one| one.paths.before).sum();
    if args.project {
        say(world, args, (&old, &new), &done)?;
    } else {
        say_one(world, args, done)?;
    }
    if before > 0 && !args.target.json {
        let places = count(before, "place");
        world.out.note(&format!(
            "the new directory was mentioned before in {places}: moving back would change these \
             too; `quipu undo` restores everything as it was"
        ))?;
    }
    if !to.is_dir() && !args.target.json {
        world.out.note(&format!("there is no directory `{}` yet", to.display()))?;
    }
    Ok(())
}

/// The real path of a folder that need not exist.
fn real(path: &Path) -> PathBuf {
    let mut missing = Vec::new();
    for folder in path.ancestors() {
        if let Ok(found) = fs::canonicalize(folder) {
            return missing.iter().rev().fold(found, |path, name| path.join(name));
        }
        missing.extend(folder.file_name());
    }
    path.to_owned()
}

/// A session, and its working directory.
type Placed = (Session, String);

/// The session that the user names.
fn one(world: &mut World, args: &MoveArgs) -> Result<(String, Vec<Placed>), Failure> {
    let session = select::session_to_change(world, &args.what)?;
    if !session.path.ancestors().nth(2).is_some_and(|folder| folder.ends_with("projects")) {
        let hint = "`quipu unpack` and Claude Code put sessions into a home";
        let message = format!("`{}` is not in a Claude home", session.path.display());
        return Err(Failure::usage(message, Some(hint)));
    }
    let Some(cwd) = working_directory(&session)? else {
        let hint = "its records name no directory, so there is nothing to move";
        return Err(Failure::usage("the session's directory is not known", Some(hint)));
    };
    Ok((cwd.clone(), vec![(session, cwd)]))
}

/// The sessions that were started in a directory, or below it.
fn of_project(world: &mut World, args: &MoveArgs) -> Result<(String, Vec<Placed>), Failure> {
    let named = lexical(&world.cwd.join(&args.what));
    let mut sessions = Vec::new();
    for session in world.sessions()? {
        if session.path.ancestors().nth(2).is_some_and(|folder| folder.ends_with("projects")) {
            let cwd = working_directory(&session)?;
            sessions.push((session, cwd));
        }
    }
    let is_named = |session: &Session, cwd: &str| {
        slug(cwd) == session.project || slug_uncut(cwd) == session.project
    };
    // Clients write the real path, and the user may have typed a link.
    for old in [named.clone(), real(&named)] {
        let text = old.to_string_lossy().into_owned();
        let belongs = |(session, cwd): &(Session, Option<String>)| match cwd {
            Some(cwd) if !Path::new(cwd).starts_with(&old) || !is_named(session, cwd) => None,
            Some(cwd) => Some((session.clone(), cwd.clone())),
            // A file without records.
            None => is_named(session, &text).then(|| (session.clone(), text.clone())),
        };
        let mut found: Vec<Placed> = sessions.iter().filter_map(belongs).collect();
        if !found.is_empty() {
            found.sort_by(|(one, _), (other, _)| one.path.cmp(&other.path));
            return Ok((text, found));
        }
    }
    let message = format!("no session was started in `{}`", named.display());
    Err(Failure::not_found(message, "`quipu ls --all` lists all sessions with their directories"))
}

/// The folders of projects that all sessions leave: their memory goes along.
fn memories(moved: &[(Session, PathBuf)]) -> Vec<(PathBuf, PathBuf)> {
    let mut folders = BTreeSet::new();
    for (session, to) in moved {
        let Some(from) = session.path.parent() else { continue };
        let stays = |other: &Session| moved.iter().all(|(session, _)| session.path != other.path);
        if from != to && !sessions_in(from).iter().any(stays) && !to.join("memory").exists() {
            folders.insert((from.to_owned(), to.clone()));
        }
    }
    folders.into_iter().collect()
}

/// Prints the proof for one session, as for every change.
fn say_one(world: &mut World, args: &MoveArgs, done: Relocated) -> Result<(), Failure> {
    let Some(RelocatedSession { from, to, proof, read, files, .. }) =
        done.sessions.into_iter().next()
    else {
        return Ok(());
    };
    let is_dry = args.target.dry_run;
    let session = Session::at(if is_dry { &from } else { &to })?;
    let policy = Policy { mode: Mode::Write, ..Policy::new(Verb::Move, Place::InPlace) };
    let plan = Plan::Change(transcript::client::change::clone(&read.subject));
    let job = surgery::job(world, &session, read, plan, policy);
    let written = if is_dry { Done::Shown } else { Done::Written { path: to, entry: done.entry } };
    let id = (!is_dry).then(|| session.id.clone());
    let outcome = Outcome { proof, done: written, session: id, copies: None, left: files.shared };
    surgery::report(world, &job, &args.target, &outcome)
}

/// Prints the proof for a session that was written to a file, or writes it to the standard output.
fn say_file(
    world: &mut World,
    args: &MoveArgs,
    one: RelocatedSession,
    done: Done,
) -> Result<(), Failure> {
    let RelocatedSession { from, proof, read, files, .. } = one;
    let session = Session::at(&from)?;
    let policy = args.target.policy(Verb::Move, Place::InPlace);
    let plan = Plan::Change(transcript::client::change::clone(&read.subject));
    let job = surgery::job(world, &session, read, plan, policy);
    let left = files.counts();
    let outcome = Outcome { proof, done, session: None, copies: None, left };
    surgery::report(world, &job, &args.target, &outcome)
}

/// Prints the sessions of a project, one line each.
fn say(
    world: &mut World,
    args: &MoveArgs,
    (old, new): (&str, &str),
    done: &Relocated,
) -> Result<(), Failure> {
    let resume = |world: &World, one: &RelocatedSession| {
        let id = one.to.file_stem().unwrap_or_default().to_string_lossy();
        let cwd = if args.target.dry_run {
            None
        } else {
            Session::at(&one.to).ok().and_then(|session| working_directory(&session).ok().flatten())
        };
        resume_command(world, &one.to, &id, cwd.as_deref().or(Some(new)))
    };
    let prices = prices::in_force(world, None)?;
    let costs = done
        .sessions
        .iter()
        .map(|one| PriceOfChange::new(world, &one.read, &one.proof, Verb::Move, &prices));
    let costs: Vec<PriceOfChange<'_>> = costs.collect();
    if args.target.json {
        let sessions = done.sessions.iter().zip(&costs).map(|(one, cost)| MovedJson {
            session: one.to.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            from: one.from.display().to_string(),
            to: one.to.display().to_string(),
            altered: one.paths.written.altered,
            kept: one.paths.written.kept,
            paths: one.paths.mapped,
            verdict: [one.proof.before.verdict.name(), one.proof.after.verdict.name()],
            price: cost.json(),
            resume: resume(world, one),
        });
        let json = MoveJson {
            v: JSON_VERSION,
            dry_run: args.target.dry_run,
            from: old,
            to: new,
            sessions: sessions.collect(),
            undo: done.entry.as_deref(),
        };
        return Ok(world.out.json(&json)?);
    }
    let mood = if args.target.dry_run { "would be moved" } else { "moved" };
    let sessions = count(done.sessions.len() as u64, "session");
    writeln!(world.out, "{sessions} {mood} from {} to {}", shown(old), shown(new))?;
    let columns = [
        Column::left("id"),
        Column::right("records altered"),
        Column::right("paths"),
        Column::left("verdict"),
        Column::left("folder"),
    ];
    let mut table = Table::new(&columns);
    for one in &done.sessions {
        let id: String =
            one.to.file_stem().unwrap_or_default().to_string_lossy().chars().take(8).collect();
        let folder =
            one.to.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        table.row(&[
            one_line(&id),
            grouped(one.paths.written.altered),
            grouped(one.paths.mapped),
            format!("{} → {}", one.proof.before.verdict.words(), one.proof.after.verdict.words()),
            one_line(&folder),
        ]);
    }
    table.write(&mut world.out)?;
    writeln!(world.out, "price: {}", PriceOfChange::line_of_all(&costs))?;
    if let Some(entry) = &done.entry {
        writeln!(world.out, "undo: quipu undo {entry}")?;
    } else {
        world.out.note("nothing was written: run it again without `--dry-run` to do this")?;
    }
    Ok(())
}
