//! `quipu rm`: removes a session with everything that belongs to it.

use serde::Serialize;
use transcript::conversation::place::{Session, Thing};
use transcript::conversation::preview::preview;
use workshop::{Force, Mode, Removed, Removing};

use crate::catalog::CatalogArgs;
use crate::failure::Failure;
use crate::images;
use crate::out::{BOLD, JSON_VERSION, WARN};
use crate::page::{Lead, Page, label, styled, unstyled};
use crate::select;
use crate::surgery::{self, noun};
use crate::text::{count, fit, one_line, shown, size};
use crate::world::World;

/// Remove a session with everything that belongs to it
///
/// The session goes to the journal with its sub-agents, results, copies of edited files and todo
/// lists; `quipu undo` restores all of them. They count towards the journal's bounds. Quipu's
/// catalog forgets the session. Lines in the prompt history, plans and the project's list of
/// sessions are not touched. A session that is in use is left alone (exit code 5).
#[derive(clap::Args, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "they are flags")]
pub(crate) struct RmArgs {
    /// The session
    session: String,
    /// Delete it at once and for good, and what the journal has of it; asks first
    #[arg(long)]
    purge: bool,
    /// With `--purge`: delete without asking
    #[arg(long, requires = "purge")]
    yes: bool,
    /// Show what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
    /// Remove it even if it seems to be in use, has other names (hard links), is write-protected or
    /// belongs to another user
    #[arg(long)]
    force: bool,
    /// Print what was removed as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    catalog: CatalogArgs,
}

/// The whole output with `--json`.
#[derive(Serialize)]
struct RmJson<'a> {
    v: u32,
    dry_run: bool,
    session: &'a str,
    title: Option<String>,
    purged: bool,
    files: Vec<FileJson<'a>>,
    bytes: u64,
    left: Vec<&'static str>,
    skipped: Vec<String>,
    undo: Option<&'a str>,
}

#[derive(Serialize)]
struct FileJson<'a> {
    thing: &'static str,
    path: std::borrow::Cow<'a, str>,
    bytes: u64,
}

pub(crate) fn rm(world: &mut World, args: &RmArgs) -> Result<(), Failure> {
    let session = select::session_to_change(world, &args.session)?;
    let found = preview(&session.path).unwrap_or_default();
    let title = found.title.or(found.prompt).map(|title| fit(&one_line(&title), 120));
    let removing = if args.purge { Removing::ForGood } else { Removing::ToTrash };
    let force = if args.force { Force::Always } else { Force::Never };
    if args.purge && !args.yes && !args.dry_run {
        let name = title.as_deref().unwrap_or("it has no title");
        let question = format!("Delete {} ({name}) for good?", session.id.short());
        match world.out.ask(&shown(&question))? {
            Some(true) => {}
            Some(false) => return Ok(world.out.note("nothing was removed")?),
            None => {
                let message = "nothing was removed: there is no terminal to ask on";
                return Err(Failure::usage(message, Some("use `--yes` to delete it")));
            }
        }
    }
    let mode = if args.dry_run { Mode::DryRun } else { Mode::Write };
    let mut notices = Vec::new();
    let removed = world.workshop.remove(&session, removing, (mode, force), &mut |notice| {
        notices.push(notice);
    });
    surgery::tell(world, &notices)?;
    let removed = removed?;
    if !args.dry_run {
        forget(world, args, &session)?;
        if args.purge {
            images::forget(world, &session)?;
        }
    }
    if args.json {
        return Ok(world.out.json(&json(args, &session, title, &removed))?);
    }
    say(world, args, &session, title, &removed)
}

/// Removes the session's row from the catalog. The session is gone already, so a catalog that
/// cannot be used is only reported.
fn forget(world: &mut World, args: &RmArgs, session: &Session) -> Result<(), Failure> {
    // A session that was given by its path may be in no home.
    let homes = world.homes().map(|homes| homes.list).unwrap_or_default();
    let Some(mut catalog) = args.catalog.open_to_forget(world)? else { return Ok(()) };
    if let Err(error) = catalog.forget_paths(&homes, &[&session.path]) {
        world.out.note(&format!("the catalog still has the session: {error}"))?;
    }
    Ok(())
}

fn json<'a>(
    args: &RmArgs,
    session: &'a Session,
    title: Option<String>,
    removed: &'a Removed,
) -> RmJson<'a> {
    let all = &removed.files;
    let skipped = all.skipped.iter().map(|(path, why)| format!("{}: {why}", path.display()));
    RmJson {
        v: JSON_VERSION,
        dry_run: args.dry_run,
        session: &session.id,
        title,
        purged: args.purge && !args.dry_run,
        files: all
            .files
            .iter()
            .map(|file| FileJson {
                thing: file.thing.name(),
                path: file.path.to_string_lossy(),
                bytes: file.size(),
            })
            .collect(),
        bytes: all.files.iter().map(workshop::SessionFile::size).sum(),
        left: all.shared.iter().map(|(thing, _)| thing.name()).collect(),
        skipped: skipped.collect(),
        undo: removed.entry.as_deref(),
    }
}

fn say(
    world: &mut World,
    args: &RmArgs,
    session: &Session,
    title: Option<String>,
    removed: &Removed,
) -> Result<(), Failure> {
    let all = &removed.files;
    let bytes = all.files.iter().map(workshop::SessionFile::size).sum();
    let page = &mut Page::new(&mut world.out);
    let mood = if args.dry_run { ": what would be removed" } else { "" };
    let head = styled(BOLD, format!("rm of {}", shown(&session.id.short())));
    page.line(&[head, unstyled(mood)])?;
    let mut row = |name: &str, text: String| {
        page.paragraph(&Lead::hanging(label(name)), &[unstyled(shown(&text))])
    };
    if let Some(title) = title {
        row("session", title)?;
    }
    let counts = [vec![(Thing::Transcript, 1)], all.counts()].concat();
    let counts = counts.iter().map(|(thing, number)| count(*number as u64, noun(*thing)));
    let counts = counts.collect::<Vec<_>>().join(", ");
    row(if args.dry_run { "plan" } else { "removed" }, format!("{counts} ({})", size(bytes)))?;
    if !all.shared.is_empty() {
        let shared: Vec<&str> = all.shared.iter().map(|(thing, _)| shared_noun(*thing)).collect();
        row("left", format!("{} (not touched)", shared.join(", ")))?;
    }
    for (path, why) in &all.skipped {
        let lead = Lead::hanging(styled(WARN, "  skipped  "));
        let text = format!("{}: {why}", path.display());
        page.paragraph(&lead, &[unstyled(shown(&text))])?;
    }
    if removed.forgotten.count > 0 {
        let changes = count(removed.forgotten.count, "change");
        let text = format!("{changes} of it in the journal ({})", size(removed.forgotten.bytes));
        page.paragraph(&Lead::hanging(label("removed")), &[unstyled(text)])?;
    }
    if let Some(entry) = &removed.entry {
        page.line(&[label("undo"), unstyled(format!("quipu undo {entry}"))])?;
    }
    if args.dry_run {
        world.out.note("nothing was removed: run it again without `--dry-run` to do this")?;
    }
    Ok(())
}

/// What stays because other sessions use it too.
fn shared_noun(thing: Thing) -> &'static str {
    match thing {
        Thing::History => "its lines in the prompt history",
        Thing::Plan => "its plan",
        Thing::PastedText => "texts pasted into its prompts",
        _ => "its row in the project's list of sessions",
    }
}
