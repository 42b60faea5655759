//! `quipu rewind`: files and conversation as they were before a prompt.
//!
//! Invariants: nothing is written before everything that would be done was printed; what someone
//! else changed is not overwritten unless the user demands it; what is done can be undone.

mod copies;

use std::io::Write;
use std::path::PathBuf;

use serde::Serialize;
use snapshot::moment::prompts;
use snapshot::plan::{Clash, Others, Plan, Step, plan};
use snapshot::restore::RestoreError;
use snapshot::tree::Why;
use snapshot::{Event, Log, diff};
use transcript::client::change::{self, At};
use transcript::client::history::Rules;
use transcript::conversation::agents::WithAgents;
use transcript::conversation::place::Session;
use workshop::{Outcome, Place, Policy, Read, Verb, live};

use crate::failure::Failure;
use crate::images::{self, Kept};
use crate::out::JSON_VERSION;
use crate::select;
use crate::surgery;
use crate::text::count;
use crate::world::World;

/// Go back to before a prompt: files, conversation, or both
///
/// Undoes everything that the agent changed on disk since, commands included: from the images that
/// `quipu chat` takes. What someone else changed in between stays; where both changed the same
/// file, nothing is done without `--force`. Sessions of Claude Code have only copies of the files
/// that its edit tools changed: what their commands changed is not undone, and that is said. The
/// conversation is rewound by a fork: a new session that ends before the prompt. `quipu undo` takes
/// all of it back.
#[derive(clap::Args, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "they are flags")]
pub(crate) struct RewindArgs {
    /// The session
    session: String,
    /// The prompt to go back to the time before, by its number in `quipu turns`; the last one if
    /// nothing is given
    #[arg(long, value_name = "N")]
    to: Option<usize>,
    /// Only the files
    #[arg(long, conflicts_with_all = ["conversation", "both"])]
    files: bool,
    /// Only the conversation
    #[arg(long, conflicts_with = "both")]
    conversation: bool,
    /// Both; the default
    #[arg(long)]
    both: bool,
    /// Show what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Overwrite what someone else changed since; rewind a session that seems to be in use
    #[arg(long)]
    force: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct RewindJson<'a> {
    v: u32,
    session: &'a str,
    turn: usize,
    dry_run: bool,
    /// Where the files come from.
    source: &'static str,
    files: Vec<FileJson>,
    refused: Vec<String>,
    not_covered: Vec<String>,
    outside: Vec<String>,
    conversation: Option<String>,
    undo: Option<String>,
}

#[derive(Serialize)]
struct FileJson {
    path: String,
    change: &'static str,
    added: u64,
    removed: u64,
}

/// What is to be done about files.
struct Files {
    plan: Plan,
    source: &'static str,
}

pub(crate) fn rewind(world: &mut World, args: &RewindArgs) -> Result<(), Failure> {
    let session = select::session_to_change(world, &args.session)?;
    let kept = images::open(world)?;
    let _shared = kept.share()?;
    if let Some(why) = live::user(&session).filter(|_| !args.force && !args.dry_run) {
        return Err(Failure::in_use(&session.path, &why));
    }
    let family = WithAgents::open(&session)?;
    let turns = family.main.turns();
    let turn = args.to.unwrap_or(turns.live.len());
    images::is_turn(turn, turns.live.len())?;
    let wants_files = args.both || !args.conversation;
    let wants_conversation = args.both || !args.files;
    let files = if wants_files {
        Some(planned(world, args, &kept, &session, &family, turn)?)
    } else {
        None
    };
    let steps = files.as_ref().map(|files| files.plan.steps.clone()).unwrap_or_default();
    if !args.json {
        show(world, &kept, files.as_ref(), turn)?;
    }
    let clashes = files.iter().flat_map(|files| &files.plan.clashes);
    let is_movable = clashes.clone().any(|(_, clash)| *clash == Clash::InTheWay);
    let refused: Vec<String> = clashes.map(|(path, clash)| describe(path, *clash)).collect();
    if !refused.is_empty() && !args.dry_run {
        let message = format!("nothing was rewound: {}", refused.join("; "));
        let hint = if is_movable {
            "move away what is in the way, and run it again"
        } else {
            "`--force` overwrites it; `quipu undo` takes that back"
        };
        return Err(Failure::kept(message, hint));
    }
    let mut made = None;
    let mut undo = None;
    let is_wanted = !args.dry_run && confirmed(world, args)?;
    if is_wanted {
        let is_forked = wants_conversation && turn > 1;
        let outcome = if is_forked { Some(forked(world, &session, turn)?) } else { None };
        let id = outcome.as_ref().and_then(|outcome| outcome.session.as_ref());
        made = id.map(|id| id.as_str().to_owned());
        if !steps.is_empty() {
            undo = Some(put_back(world, &kept, &session, steps.clone(), made.clone())?);
        }
        // With those of the rewind itself.
        if let Some(outcome) = &outcome {
            images::inherit(world, &session, outcome)?;
        }
    }
    let plan = files.as_ref().map(|files| &files.plan);
    if args.json {
        return Ok(world.out.json(&RewindJson {
            v: JSON_VERSION,
            session: session.id.as_str(),
            turn,
            dry_run: args.dry_run,
            source: files.as_ref().map_or("none", |files| files.source),
            files: steps.iter().map(|step| file_json(&kept, step)).collect(),
            refused,
            not_covered: lines(plan.map(|plan| &plan.stays)),
            outside: lines(plan.map(|plan| &plan.outside)),
            conversation: made,
            undo,
        })?);
    }
    if !is_wanted {
        return Ok(world.out.note("nothing was changed")?);
    }
    if undo.is_some() {
        writeln!(world.out, "{} put back", count(steps.len() as u64, "path"))?;
    }
    match (&made, wants_conversation) {
        (Some(made), _) => writeln!(world.out, "the conversation goes on in {made}")?,
        (None, true) => {
            world.out.note("nothing was said before this prompt: begin a new session")?;
        }
        (None, false) => {}
    }
    Ok(())
}

fn file_json(kept: &Kept, step: &Step) -> FileJson {
    let shown = diff::show(&kept.store, step.from.as_ref(), step.to.as_ref());
    FileJson {
        path: step.path().display().to_string(),
        change: shown.kind.word(),
        added: shown.added,
        removed: shown.removed,
    }
}

fn lines(paths: Option<&Vec<(PathBuf, Why)>>) -> Vec<String> {
    paths.into_iter().flat_map(|paths| images::outside_lines(paths)).collect()
}

fn describe(path: &std::path::Path, clash: Clash) -> String {
    let why = clash.words();
    format!("`{}`: {why}", path.display())
}

/// Plans from images, or from the copies that Claude Code keeps.
fn planned(
    world: &mut World,
    args: &RewindArgs,
    kept: &Kept,
    session: &Session,
    family: &WithAgents,
    turn: usize,
) -> Result<Files, Failure> {
    let live = family.main.turns().live;
    let log = Log::of(kept.store.folder(), session.id.as_str());
    let moments = match &log {
        Some(log) => log.read().map_err(|error| Failure::unreadable(log.path(), error))?,
        None => Vec::new(),
    };
    let others = if args.force { Others::Overwrite } else { Others::Respect };
    if moments.is_empty() {
        let plan = copies::plan(world, kept, session, family, &live[turn - 1..], others)?;
        world.out.note(
            "there are no images of this session: only files that its edit tools changed are put \
             back, and what commands changed is not undone",
        )?;
        return Ok(Files { plan, source: "file-history" });
    }
    let numbers = images::turn_numbers(family, &live)?;
    let begin = live.get(turn - 1).and_then(|turn| turn.times).map(|[begin, _]| begin.0);
    let mut plan = match images::cut(&moments, &numbers, turn, begin) {
        None => Plan::default(),
        Some(cut) => {
            let parts = (&kept.store, &kept.vault);
            let planned = plan(parts, &moments, cut, others, (kept.limits, world.clock()));
            planned.map_err(|error| {
                Failure::damaged(
                    error.to_string(),
                    "`--conversation` rewinds only the conversation",
                )
            })?
        }
    };
    // Turns of Claude Code, before the session went on here.
    let first = prompts(&moments).into_iter().flatten().filter_map(|id| numbers.get(id)).min();
    let begin = first.map_or(turn, |first| turn.max(*first));
    let earlier = &live[turn - 1..begin - 1];
    if copies::may_have_changed(family, earlier) {
        copies::add(&mut plan, copies::plan(world, kept, session, family, earlier, others)?);
        world.out.note(&format!(
            "images of this session begin with turn {begin}: of earlier turns only files that edit \
             tools changed are put back, and what commands changed then is not undone"
        ))?;
    }
    Ok(Files { plan, source: "images" })
}

fn show(world: &mut World, kept: &Kept, files: Option<&Files>, turn: usize) -> Result<(), Failure> {
    let Some(files) = files else { return Ok(()) };
    writeln!(world.out, "back to before turn {turn}")?;
    let mut of_git = 0;
    for step in files.plan.steps.iter().filter(|step| step.from != step.to) {
        let path = step.path();
        if diff::is_gits(&path) {
            of_git += 1;
            continue;
        }
        let shown = diff::show(&kept.store, step.from.as_ref(), step.to.as_ref());
        images::print(world, &path, &shown)?;
    }
    if of_git > 0 {
        writeln!(world.out, "  {} of git", count(of_git, "file"))?;
    }
    if files.plan.steps.is_empty() {
        writeln!(world.out, "  no file has to be changed")?;
    }
    for (path, why) in &files.plan.stays {
        let text = format!("`{}` stays as it is: {}", path.display(), why.words());
        world.out.note(&text)?;
    }
    images::tell_outside(world, &files.plan.outside)
}

fn confirmed(world: &mut World, args: &RewindArgs) -> Result<bool, Failure> {
    if args.yes || args.json {
        return Ok(true);
    }
    // Without a terminal nobody can be asked; then the command itself is the answer.
    Ok(world.out.ask("Rewind?")?.unwrap_or(true))
}

/// The conversation up to the prompt, as a new session.
fn forked(world: &mut World, session: &Session, turn: usize) -> Result<Outcome, Failure> {
    let rules = Rules::newest();
    let read = Read::open(session, rules)?;
    let change = change::fork(&read.subject, &At::Turn(turn - 1));
    let change = change
        .map_err(|error| Failure::not_found(error.to_string(), "`quipu turns` lists the turns"))?;
    let policy = Policy::new(Verb::Fork, Place::Beside);
    let mut job = surgery::job(world, session, read, workshop::Plan::Change(change), policy);
    let mut notices = Vec::new();
    let outcome = world.workshop.carry_out(&mut job, rules, &mut |notice| notices.push(notice));
    surgery::tell(world, &notices)?;
    Ok(outcome?)
}

/// Puts the files back. Returns the name of the change.
fn put_back(
    world: &mut World,
    kept: &Kept,
    session: &Session,
    steps: Vec<Step>,
    made: Option<String>,
) -> Result<String, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::kept(
            format!("nothing was rewound: {error}"),
            "run it again to see what would change now",
        )
    };
    images::record(world, kept, session.id.as_str(), Event::Before)?;
    let journal = kept.journal();
    let rewind = journal.prepare(session.id.as_str(), made, steps, world.clock());
    let rewind = rewind.map_err(|error| failed(&error))?;
    journal.commit(&rewind).map_err(|error| match error {
        RestoreError::Stuck { .. } => Failure::kept(
            format!("the rewind is half done: {error}"),
            "mend that, and run it again: it takes back first what was done",
        ),
        error => failed(&error),
    })?;
    images::record(world, kept, session.id.as_str(), Event::After)?;
    Ok(rewind.name)
}
