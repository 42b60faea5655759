//! `quipu unpack`: puts the sessions of a pack where Claude Code resumes them.

use std::path::{Path, PathBuf};

use serde::Serialize;
use transcript::client::history::Rules;
use workshop::pack::{
    Became, Manifest, MessageHashes, Pack, PackedSession, Unpacked, Unpacking, repository,
};
use workshop::{Error, Mode};

use crate::failure::Failure;
use crate::out::{BOLD, JSON_VERSION};
use crate::page::{Lead, Page, label, styled, unstyled};
use crate::project::lexical;
use crate::resume_command::resume_command;
use crate::surgery;
use crate::text::{count, fit, one_line, shown, size};
use crate::world::World;

/// Put the sessions of a pack where Claude Code resumes them
///
/// First lists what the pack holds, and asks (in a terminal; elsewhere `--yes` is needed). Every
/// file is compared with its SHA-256 before anything is written. Nothing in a pack runs, and it
/// cannot bring settings or hooks. If a session is here already, with the same content, nothing
/// changes; if another one has its id, it gets a new id. `quipu undo` removes what was unpacked.
///
/// Paths are mapped by `--map`. Without it, if the current folder is a checkout of the repository
/// that the session was in (the same git remote), paths in that repository become paths in this
/// one.
#[derive(clap::Args, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "they are flags")]
pub(crate) struct UnpackArgs {
    /// The pack
    file: PathBuf,
    /// Only list what it holds
    #[arg(long, conflicts_with_all = ["map", "yes", "dry_run"])]
    list: bool,
    /// A folder that has another place here (can be repeated)
    #[arg(long, value_name = "OLD=NEW")]
    map: Vec<String>,
    /// Unpack without asking
    #[arg(long)]
    yes: bool,
    /// Verify it and show what would be done, and write nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Print what was done, or with `--list` what it holds, as one JSON object
    #[arg(long)]
    json: bool,
}

/// The whole output with `--list --json`.
#[derive(Serialize)]
struct ListJson<'a> {
    v: u32,
    path: String,
    format: u32,
    made_by: &'a str,
    redacted: bool,
    sessions: &'a [PackedSession],
}

/// The whole output with `--json`.
#[derive(Serialize)]
struct UnpackJson<'a> {
    v: u32,
    dry_run: bool,
    map: Vec<[&'a str; 2]>,
    sessions: Vec<UnpackedJson>,
    undo: Option<&'a str>,
}

#[derive(Serialize)]
struct UnpackedJson {
    session: String,
    of: String,
    state: &'static str,
    path: String,
    cwd: Option<String>,
    paths: u64,
    verdict: &'static str,
    messages: Option<[u64; 2]>,
    resume: String,
}

pub(crate) fn unpack(world: &mut World, args: &UnpackArgs) -> Result<(), Failure> {
    if args.json && !args.list && !args.yes && !args.dry_run {
        let hint = "use `--yes` to unpack this; `--list --json` says what it holds";
        return Err(Failure::usage("nothing was written: `--json` does not ask", Some(hint)));
    }
    let pack = Pack::open(&args.file).map_err(|error| match error {
        Error::Unreadable { path, source } => {
            Failure::named_file(&path, source, "`quipu pack SESSION -o FILE` makes a pack")
        }
        other => other.into(),
    })?;
    let manifest = pack.manifest();
    if args.list && args.json {
        return Ok(world.out.json(&ListJson {
            v: JSON_VERSION,
            path: args.file.display().to_string(),
            format: manifest.version,
            made_by: &manifest.made_by,
            redacted: manifest.redacted,
            sessions: &manifest.sessions,
        })?);
    }
    if args.list || !args.json {
        list(world, manifest, args.list)?;
    }
    if args.list {
        return Ok(());
    }
    let folders = folders(world, args, manifest)?;
    if !args.yes && !args.dry_run {
        match world.out.ask("Unpack this?")? {
            Some(true) => {}
            Some(false) => return Ok(world.out.note("nothing was written")?),
            None => {
                let message = "nothing was written: there is no terminal to ask on";
                return Err(Failure::usage(message, Some("use `--yes` to unpack this")));
            }
        }
    }
    // The home need not exist: this may be a new machine.
    let (home, _) = world.first_home();
    // The journal needs whole paths.
    let home = std::path::absolute(&home).unwrap_or(home);
    let new_ids: Vec<_> = manifest.sessions.iter().map(|_| world.new_id().into()).collect();
    let mode = if args.dry_run { Mode::DryRun } else { Mode::Write };
    let unpacking = Unpacking { home: &home, folders: &folders, mode, new_ids: &new_ids };
    let mut notices = Vec::new();
    let done = world.workshop.unpack(&pack, &unpacking, Rules::newest(), &mut |notice| {
        notices.push(notice);
    });
    surgery::tell(world, &notices)?;
    report(world, args, manifest, &folders, &done?)
}

/// Prints what a pack holds: all files of it, if that was asked for.
fn list(world: &mut World, manifest: &Manifest, all: bool) -> Result<(), Failure> {
    let page = &mut Page::new(&mut world.out);
    let number = count(manifest.sessions.len() as u64, "session");
    let redacted = if manifest.redacted { "secrets redacted" } else { "secrets not redacted" };
    let head = format!(": format {}, made by {}, {redacted}", manifest.version, manifest.made_by);
    page.line(&[styled(BOLD, format!("pack of {number}")), unstyled(shown(&head))])?;
    for session in &manifest.sessions {
        let title = session.title.as_deref().unwrap_or("(no title)");
        let bytes = session.members.iter().map(|file| file.size).sum();
        let files = count(session.members.len() as u64, "file");
        let text = format!("{}: {files}, {}", fit(&one_line(title), 80), size(bytes));
        page.paragraph(&Lead::hanging(label("session")), &[unstyled(shown(&text))])?;
        let git = session.git.as_ref().and_then(|git| git.remote.as_deref());
        let rows = [("id", Some(session.id.as_str())), ("tag", session.tag.as_deref())];
        let rows = rows.into_iter().chain([("folder", session.cwd.as_deref()), ("git", git)]);
        for (name, text) in rows {
            if let Some(text) = text {
                page.line(&[label(name), unstyled(shown(text))])?;
            }
        }
        for file in session.members.iter().filter(|_| all) {
            let text = format!(
                "{}  {:>8}  {}",
                &file.sha256.get(..12).unwrap_or_default(),
                size(file.size),
                file.name
            );
            page.line(&[label("file"), unstyled(shown(&text))])?;
        }
    }
    Ok(())
}

/// The folders that have another place here.
fn folders(
    world: &World,
    args: &UnpackArgs,
    manifest: &Manifest,
) -> Result<Vec<(String, String)>, Failure> {
    let mut folders = Vec::new();
    for pair in &args.map {
        let wrong = || {
            let hint = "use absolute paths: `--map /home/a/app=/home/b/app`";
            Failure::usage(format!("`{pair}` is not OLD=NEW"), Some(hint))
        };
        let (old, new) = pair.split_once('=').ok_or_else(wrong)?;
        let new = lexical(&world.cwd.join(new));
        let is_root = |path: &str| path.trim_end_matches(['/', '\\']).is_empty();
        let new = new.to_str().filter(|new| !is_root(new) && !is_root(old)).ok_or_else(wrong)?;
        folders.push((old.to_owned(), new.to_owned()));
    }
    let Some(here) = repository(&world.cwd).filter(|_| args.map.is_empty()) else {
        return Ok(folders);
    };
    for git in manifest.sessions.iter().filter_map(|session| session.git.as_ref()) {
        let is_same = here.remote.is_some() && git.remote == here.remote;
        let pair = (git.root.clone(), here.root.clone());
        if is_same && git.root.len() > 1 && pair.0 != pair.1 && !folders.contains(&pair) {
            folders.push(pair);
        }
    }
    Ok(folders)
}

fn state(became: Became) -> &'static str {
    match became {
        Became::New => "new",
        Became::Same => "same",
        Became::NewId => "new-id",
    }
}

fn report(
    world: &mut World,
    args: &UnpackArgs,
    manifest: &Manifest,
    folders: &[(String, String)],
    done: &Unpacked,
) -> Result<(), Failure> {
    let resume = |world: &World, at: usize| {
        let one = &done.sessions[at];
        resume_command(world, &one.path, &one.id, one.cwd.as_deref())
    };
    if args.json {
        let sessions = done.sessions.iter().enumerate().map(|(at, one)| UnpackedJson {
            session: one.id.to_string(),
            of: manifest.sessions[at].id.clone(),
            state: state(one.became),
            path: one.path.display().to_string(),
            cwd: one.cwd.clone(),
            paths: one.paths,
            verdict: one.verdict.name(),
            messages: one.messages.map(|found| [found.matching, found.recorded]),
            resume: resume(world, at),
        });
        let json = UnpackJson {
            v: JSON_VERSION,
            dry_run: args.dry_run,
            map: folders.iter().map(|(old, new)| [old.as_str(), new.as_str()]).collect(),
            sessions: sessions.collect(),
            undo: done.entry.as_deref(),
        };
        return Ok(world.out.json(&json)?);
    }
    let mut missing = Vec::new();
    for (at, one) in done.sessions.iter().enumerate() {
        let line = resume(world, at);
        let page = &mut Page::new(&mut world.out);
        let what = match (one.became, args.dry_run) {
            (Became::Same, _) => format!("{} is here already, with the same content", one.id),
            (Became::New, _) => format!("{}: all files verified", one.id),
            (Became::NewId, _) => format!(
                "{}: all files verified; another session has its id, so this one is new",
                one.id
            ),
        };
        page.paragraph(&Lead::hanging(label("session")), &[unstyled(shown(&what))])?;
        for (old, new) in folders.iter().filter(|_| one.became != Became::Same) {
            let text = format!("{old} → {new} ({})", count(one.paths, "path"));
            page.line(&[label("mapped"), unstyled(shown(&text))])?;
        }
        if let Some(MessageHashes { recorded, matching }) = one.messages {
            let text =
                format!("{matching} of {} as the client recorded them", count(recorded, "message"));
            page.line(&[label("hashes"), unstyled(text)])?;
        }
        page.line(&[label("verdict"), unstyled(one.verdict.words())])?;
        if one.became != Became::Same && !args.dry_run {
            page.line(&[label("written"), unstyled(shown(&one.path.display().to_string()))])?;
        }
        page.line(&[label("resume"), unstyled(shown(&line))])?;
        missing.extend(one.cwd.clone().filter(|cwd| !Path::new(cwd).is_dir()));
    }
    if let Some(entry) = &done.entry {
        let page = &mut Page::new(&mut world.out);
        page.line(&[label("undo"), unstyled(format!("quipu undo {entry}"))])?;
    }
    missing.dedup();
    for cwd in missing {
        world
            .out
            .note(&format!("there is no directory `{cwd}` here: `--map OLD=NEW` maps paths"))?;
    }
    if args.dry_run {
        world.out.note("nothing was written: run it again without `--dry-run` to do this")?;
    }
    Ok(())
}
