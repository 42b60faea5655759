//! `quipu rewind`: files and conversation as they were before a prompt.
//!
//! Invariants: nothing is written before everything that would be done was printed; what someone
//! else changed is not overwritten unless the user demands it; what is done can be undone.

use std::collections::HashSet;
use std::io::Write;
use std::path::PathBuf;

use agent::images::copies::{Copies, CopiesError};
use serde::Serialize;
use snapshot::moment::prompts;
use snapshot::plan::{Clash, Others, Plan, Step, plan};
use snapshot::restore::RestoreError;
use snapshot::tree::Why;
use snapshot::{Log, diff};
use transcript::client::change::{self, At};
use transcript::client::history::Rules;
use transcript::conversation::agents::WithAgents;
use transcript::conversation::place::Session;
use transcript::conversation::turn::Turn;
use transcript::format::input::Input;
use workshop::{Place, Policy, Read, Verb, live};

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
    // That a command in the background ended is no prompt.
    let is_typed = |turn: &Turn| turn.input.is_some_and(Input::is_typed);
    let last = turns.live.iter().rposition(is_typed).map_or(turns.live.len(), |at| at + 1);
    let turn = args.to.unwrap_or(last);
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
    if args.dry_run && !args.json {
        for one in &refused {
            world.out.note(&format!("it would be refused: {one}"))?;
        }
    }
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
        let id = (wants_conversation && turn > 1).then(|| world.new_id());
        let deed = Deed { kept: &kept, session: &session, turn, made: id.clone() };
        undo = deed.carry_out(world, steps.clone())?;
        made = id;
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
    let copies = Copies { store: &kept.store, session, family, others, now: world.clock() };
    if moments.is_empty() {
        let turns: Vec<_> = live[turn - 1..].iter().collect();
        let plan = copies.plan(&turns).map_err(unusable)?;
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
    let with_images: HashSet<&str> = prompts(&moments).into_iter().flatten().collect();
    let has_images = |id: &str| with_images.contains(id);
    let without = copies.add_without_images(&mut plan, &live[turn - 1..], has_images);
    let without = without.map_err(unusable)?;
    if !without.is_empty() {
        let noun = if without.len() == 1 { "turn" } else { "turns" };
        let names: Vec<String> = without.iter().map(|at| (turn + at).to_string()).collect();
        world.out.note(&format!(
            "there are no images of {noun} {}: only files that edit tools changed then are put \
             back, and what commands changed then is not undone",
            names.join(", ")
        ))?;
    }
    Ok(Files { plan, source: "images" })
}

/// Copies of files cannot be used.
fn unusable(error: CopiesError) -> Failure {
    match error {
        CopiesError::Session(error) => error.into(),
        CopiesError::Scan(error) => {
            Failure::damaged(error.to_string(), "`--conversation` rewinds only the conversation")
        }
    }
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

/// What is done: files are put back, and the conversation goes on in a new session.
struct Deed<'a> {
    kept: &'a Kept,
    session: &'a Session,
    turn: usize,
    /// The id of the new session; None for none.
    made: Option<String>,
}

impl Deed<'_> {
    /// All of it, or nothing. Returns the name of the change of files.
    fn carry_out(&self, world: &mut World, steps: Vec<Step>) -> Result<Option<String>, Failure> {
        if steps.is_empty() {
            return self.fork(world).map(|()| None);
        }
        let sessions = (self.session.id.as_str(), self.made.as_deref());
        images::around(world, self.kept, sessions, |world| self.put_back(world, steps)).map(Some)
    }

    /// Puts the files back. The new session is made after the journal knows of it, and before
    /// anything has happened to a file: if this is stopped, the next run removes it again, or
    /// completes both. Returns the name of the change.
    fn put_back(&self, world: &mut World, steps: Vec<Step>) -> Result<String, Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::kept(
                format!("nothing was rewound: {error}"),
                "run it again to see what would change now",
            )
        };
        let journal = self.kept.journal();
        let session = self.session.id.as_str();
        let rewind = journal.prepare(session, self.made.clone(), steps, world.clock());
        let rewind = rewind.map_err(|error| failed(&error))?;
        if let Err(failure) = self.fork(world) {
            images::remove_made(world, self.made.as_deref())?;
            journal.give_up(&rewind).map_err(|error| failed(&error))?;
            return Err(failure);
        }
        let mut removed = Ok(());
        let done = journal.commit(&rewind, &mut || {
            removed = images::remove_made(world, self.made.as_deref());
        });
        if let Err(failure) = removed {
            world.out.note(&format!("the new session is still there: {failure}"))?;
        }
        done.map_err(|error| match error {
            RestoreError::Stuck { .. } => Failure::kept(
                format!("the rewind is half done: {error}"),
                "mend that, and run it again: it takes back first what was done",
            ),
            RestoreError::Unmarked(_) => {
                Failure::kept(error.to_string(), "free space; `quipu undo` takes it back")
            }
            error => failed(&error),
        })?;
        Ok(rewind.name)
    }

    /// The conversation up to the prompt, as a new session with the images of this one.
    fn fork(&self, world: &mut World) -> Result<(), Failure> {
        let Some(made) = &self.made else { return Ok(()) };
        let rules = Rules::newest();
        let read = Read::open(self.session, rules)?;
        let change = change::fork(&read.subject, &At::Turn(self.turn - 1)).map_err(|error| {
            Failure::not_found(error.to_string(), "`quipu turns` lists the turns")
        })?;
        let policy = Policy::new(Verb::Fork, Place::Beside);
        let plan = workshop::Plan::Change(change);
        let mut job = surgery::job(world, self.session, read, plan, policy);
        job.new_id = made.as_str().into();
        let mut notices = Vec::new();
        let outcome = world.workshop.carry_out(&mut job, rules, &mut |notice| notices.push(notice));
        surgery::tell(world, &notices)?;
        images::inherit(world, self.session, &outcome?)
    }
}
