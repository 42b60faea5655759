//! `quipu redact`: a session without its secrets.
//!
//! Invariant: no output has a secret, or a part of one.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use transcript::client::change;
use transcript::client::history::Rules;
use transcript::conversation::place::{Home, Session, is_agent, is_record};
use transcript::format::secret::{Cover, Survey};
use workshop::{
    Done, Elsewhere, Force, Job, Looked, Mode, Outcome, Place, Plan, Policy, Read, Stand,
    Unreadable, Verb, shown_path,
};

use crate::catalog::CatalogArgs;
use crate::failure::Failure;
use crate::images;
use crate::redact::MoreRules;
use crate::select;
use crate::surgery::{self, KindCount, Redacted, SpotCount, StandJson, Target, Waited};
use crate::world::World;

/// Hide the secrets in a session, wherever they stand
///
/// Writes a new session beside the original, unless `-o` or `--in-place` says otherwise. The same
/// secret gets the same placeholder everywhere, `[redacted:github-token:1]`: in messages, tool
/// inputs, results and their structured copies, titles, sub-agents, stored results and other files
/// of the session; also where it is escaped, split over lines, or in base64. Signed thinking that
/// has a secret is removed, and so are copies of requests. Before anything is written, the result
/// is searched again and checked. Lists where the secrets still stand. docs/redact.md describes
/// what counts as a secret.
#[derive(clap::Args, Debug)]
#[command(mut_arg("force", |arg| arg.help(surgery::FORCE_IN_PLACE)))]
#[allow(clippy::struct_excessive_bools, reason = "independent flags")]
pub(crate) struct RedactArgs {
    /// The session
    session: String,
    #[command(flatten)]
    more: MoreRules,
    /// With `-o`: also write sub-agents, stored results and other files of the session, to the
    /// folder that belongs to that file
    #[arg(long, requires = "output")]
    with_files: bool,
    /// Change the session's own files; they are kept first, and `quipu undo` restores them
    #[arg(long, conflicts_with = "output")]
    in_place: bool,
    /// Change the session's own files, and every other place where its secrets stand: forks and
    /// copies, the prompt history, copies of edited files, drafts, the catalog
    #[arg(long, conflicts_with = "output")]
    everywhere: bool,
    /// Keep no copy: remove all changes from the undo journal that have one of the secrets, and the
    /// images of the folders that agents of the session worked in. Needs `--in-place` or
    /// `--everywhere`
    #[arg(long, conflicts_with_all = ["output", "dry_run"])]
    no_undo: bool,
    #[command(flatten)]
    target: Target,
}

pub(crate) fn redact(world: &mut World, args: &RedactArgs) -> Result<(), Failure> {
    let is_in_place = args.in_place || args.everywhere;
    if args.no_undo && !is_in_place {
        let hint = "the original stays beside the new session: add `--in-place` or `--everywhere`";
        return Err(Failure::usage("`--no-undo` alone would keep the secrets", Some(hint)));
    }
    let with_files = args.target.output.as_deref().filter(|_| args.with_files);
    if with_files == Some(Path::new("-")) {
        let hint = "name a file: `-o clean.jsonl --with-files` also writes to the folder `clean`";
        return Err(Failure::usage("the files cannot go to stdout", Some(hint)));
    }
    let redactor = Arc::new(args.more.redactor(world.redact_config())?);
    let session = select::session_to_change(world, &args.session)?;
    let rules = Rules::newest();
    let homes = world.homes().map(|homes| homes.list).unwrap_or_default();
    let homes: Vec<PathBuf> = homes.into_iter().map(|home| home.root).collect();
    let look = |world: &World| -> Result<(Read, Looked), Failure> {
        let read = Read::open(&session, rules)?;
        let mut looked = workshop::look_through(&session, &redactor, Unreadable::Refuse)?;
        if args.everywhere {
            world.workshop.look_around(&session, &redactor, &homes, &mut looked)?;
        }
        Ok((read, looked))
    };
    let (mut read, mut looked) = look(world)?;
    let is_file = args.target.output.is_some();
    let is_needed = is_file || looked.has_own();
    if is_needed && surgery::when_cold(world, &session, &args.target)? == Waited::Yes {
        (read, looked) = look(world)?;
    }
    let has_own = looked.has_own();
    let mut redacted = counted(&looked);
    let is_named = looked.around.iter().any(|(what, _)| *what == Stand::ProjectFolder);
    let has_secrets = |(_, path, found): &(_, PathBuf, Survey)| {
        (!found.seen.is_empty()).then(|| (path.clone(), true))
    };
    let settled: HashMap<PathBuf, bool> = looked.files.iter().filter_map(has_secrets).collect();
    let lines = looked.files.first().map(|(.., found)| found.lines.clone()).unwrap_or_default();
    let cover = Arc::new(Cover::new(redactor, looked.values));
    redacted.only_recognized = cover.unpursued();
    // All of it or nothing.
    if let Some(path) = with_files.filter(|_| !args.target.dry_run && !args.target.force) {
        workshop::refuse_files(&session, path, &cover)?;
    }
    let change = change::redact(&read.subject, &cover, Some(&lines))?;
    let place = if is_in_place { Place::InPlace } else { Place::Beside };
    let policy = args.target.policy(Verb::Redact, place);
    let job = surgery::job(world, &session, read, Plan::Change(change), policy);
    if cover.values().is_empty() && !is_file {
        let proof = job.proof(rules)?;
        return surgery::nothing(world, &job, &args.target, proof, "no secrets found");
    }
    let then = |world: &mut World, job: &Job<'_>, outcome: &mut Outcome| {
        let project = session.path.parent().filter(|_| is_named);
        let places = Places { homes: &homes, project };
        finish(world, args, job, outcome, (&cover, settled, places), &mut redacted)?;
        Ok(Some(redacted))
    };
    if has_own || is_file {
        surgery::carry_out_and(world, job, &args.target, rules, then)?;
        return Ok(());
    }
    // The session itself is left alone: what stands elsewhere does not change it.
    let proof = job.proof(rules)?;
    surgery::unchanged_and(world, &job, &args.target, proof, then)
}

/// Where secrets may stand beside the session.
struct Places<'a> {
    homes: &'a [PathBuf],
    /// The folder of the session's project, if its name has one.
    project: Option<&'a Path>,
}

/// Does what is left after the session itself was redacted.
fn finish(
    world: &mut World,
    args: &RedactArgs,
    job: &Job<'_>,
    outcome: &mut Outcome,
    (cover, mut settled, places): (&Arc<Cover>, HashMap<PathBuf, bool>, Places<'_>),
    redacted: &mut Redacted,
) -> Result<(), Failure> {
    let is_dry = args.target.dry_run;
    if let (Some(path), true, false) = (&args.target.output, args.with_files, is_dry) {
        let force = job.policy.force;
        let files = workshop::write_files(job.session, path, cover, force)?;
        redacted.files = files.iter().map(|path| path.display().to_string()).collect();
    }
    if job.policy.place == Place::InPlace && !is_dry {
        settled.clear();
    }
    if let Done::Written { path, .. } = &outcome.done {
        settled.insert(path.clone(), false);
    }
    let homes = places.homes;
    let catalog = CatalogArgs::default().path(world).ok();
    let find = |world: &World| {
        let found =
            world.workshop.elsewhere(cover, job.session, homes, catalog.as_deref(), &settled);
        let named = places
            .project
            .map(|project| Elsewhere { path: project.to_owned(), what: Stand::ProjectFolder });
        let named = named.filter(|named| !found.contains(named));
        found.into_iter().chain(named).collect::<Vec<_>>()
    };
    let mut stands = find(world);
    if job.policy.place == Place::InPlace && !is_dry {
        let mut changed = vec![job.session.path.clone()];
        if args.everywhere {
            changed.extend(everywhere(world, &stands, job, cover, homes, redacted)?);
        }
        // The catalog's texts are compressed: whether one of them is there is not seen.
        let changed: Vec<&Path> = changed.iter().map(PathBuf::as_path).collect();
        forget_rows(world, &changed, homes)?;
        stands = find(world);
    }
    if args.no_undo {
        images::forget(world, job.session)?;
        redacted.forgotten = world.workshop.forget_changes(cover)?;
        redacted.changes.clear();
        if let Done::Written { entry, .. } = &mut outcome.done {
            *entry = None;
        }
        stands = find(world);
    }
    // What is in images is not known: they are compressed.
    let images = images::of(world, job.session).filter(|_| !cover.values().is_empty());
    stands.extend(images.map(|path| Elsewhere { path, what: Stand::Images }));
    redacted.stands = stands
        .iter()
        .map(|one| {
            let path = shown_path(&one.path, cover).display().to_string();
            StandJson { what: one.what.name(), path }
        })
        .collect();
    Ok(())
}

/// Redacts the other places. Returns the files of the sessions that it found secrets in.
fn everywhere(
    world: &mut World,
    stands: &[Elsewhere],
    job: &Job<'_>,
    cover: &Arc<Cover>,
    homes: &[PathBuf],
    redacted: &mut Redacted,
) -> Result<BTreeSet<PathBuf>, Failure> {
    let (mut sessions, mut files) = (BTreeSet::new(), Vec::new());
    for one in stands {
        if one.what == Stand::Session {
            sessions.extend(session_of(&one.path));
        }
        match one.what {
            Stand::File if !homes.iter().any(|home| is_record(home, &one.path)) => {}
            Stand::Original
            | Stand::Session
            | Stand::History
            | Stand::FileCopy
            | Stand::Draft
            | Stand::File => files.push(one.path.clone()),
            // The folder's name is that of a directory, which clients look for.
            Stand::Undo | Stand::Catalog | Stand::Images | Stand::ProjectFolder => {}
        }
    }
    files.retain(|path| !sessions.contains(path));
    for path in &sessions {
        match redact_session(world, path, cover, job.policy.force) {
            Ok(name) => redacted.changes.extend(name),
            // It is listed as a place where the secrets still stand.
            Err(failure) => world.out.note(&failure.to_string())?,
        }
    }
    // What belonged to a session that was just redacted is gone already.
    files.retain(|path| world.workshop.has_secrets(path, cover));
    let name = world.workshop.redact_files(&files, job.session, cover)?;
    redacted.changes.extend(name);
    Ok(sessions)
}

/// The session that a file in a project's folder is, or belongs to by its folder.
fn session_of(path: &Path) -> Option<PathBuf> {
    let is_project = |folder: &Path| {
        folder.parent().and_then(Path::file_name).is_some_and(|name| name == "projects")
    };
    let top = path.ancestors().find(|one| one.parent().is_some_and(is_project))?;
    let session = if top == path { top.to_owned() } else { top.with_extension("jsonl") };
    let is_one = session.extension().is_some_and(|ending| ending == "jsonl");
    (is_one && !is_agent(&session) && session.is_file()).then_some(session)
}

/// Redacts another session, in its place. Returns the name of the change.
fn redact_session(
    world: &mut World,
    path: &Path,
    cover: &Arc<Cover>,
    force: Force,
) -> Result<Option<String>, Failure> {
    let session = Session::at(path).map_err(|error| Failure::unreadable(path, error))?;
    let rules = Rules::newest();
    let read = Read::open(&session, rules)?;
    let change = change::redact(&read.subject, cover, None)?;
    let policy = Policy { force, mode: Mode::Write, ..Policy::new(Verb::Redact, Place::InPlace) };
    let mut job = surgery::job(world, &session, read, Plan::Change(change), policy);
    let mut notices = Vec::new();
    let outcome = world.workshop.carry_out(&mut job, rules, &mut |notice| notices.push(notice));
    surgery::tell(world, &notices)?;
    Ok(match outcome?.done {
        Done::Written { entry, .. } => entry,
        Done::Shown | Done::Unchanged | Done::Returned(_) => None,
    })
}

/// Removes what the catalog has of these sessions, so that it reads them again.
fn forget_rows(world: &mut World, paths: &[&Path], homes: &[PathBuf]) -> Result<(), Failure> {
    let Some(mut catalog) = CatalogArgs::default().open_to_forget(world)? else { return Ok(()) };
    let homes: Vec<Home> = homes.iter().map(|root| Home { root: root.clone() }).collect();
    catalog.forget_paths(&homes, paths).map_err(|error| crate::catalog::failure(&error))
}

/// The counts by kind and by place.
fn counted(looked: &Looked) -> Redacted {
    let mut redacted = Redacted::default();
    for (kind, secrets) in looked.values.kinds() {
        redacted.kinds.push(KindCount { kind: kind.to_owned(), secrets, times: 0 });
    }
    let files = looked.files.iter().map(|(thing, _, found)| (thing.name(), found));
    let around = looked.around.iter().map(|(what, found)| (what.name(), found));
    for (file, found) in files.chain(around) {
        for seen in &found.seen {
            if let Some(one) = redacted.kinds.iter_mut().find(|one| one.kind == seen.kind) {
                one.times += 1;
            } else {
                redacted.kinds.push(KindCount { kind: seen.kind.clone(), secrets: 0, times: 1 });
            }
            let place = seen.spot.name();
            let known =
                redacted.places.iter_mut().find(|one| one.file == file && one.place == place);
            match known {
                Some(one) => one.times += 1,
                None => redacted.places.push(SpotCount { file, place, times: 1 }),
            }
        }
    }
    redacted
}
