//! `quipu changes`: what the turns of a session changed on disk.
//!
//! Invariant: every change that is between two images is in the output once: under the turn that
//! made it, or under someone else, or under both where it may have been either.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use snapshot::diff;
use snapshot::moment::{Actor, REWIND, deeds, spans};
use snapshot::plan::look;
use snapshot::tree::{self, Folder, Folders, State, Why, differences};
use snapshot::{Log, Moment};
use transcript::conversation::agents::WithAgents;

use crate::failure::Failure;
use crate::images::{self, Kept};
use crate::out::JSON_VERSION;
use crate::select;
use crate::text::count;
use crate::world::World;

/// Show everything that a session's turns changed on disk, commands included, as a diff
///
/// From the images that `quipu chat` takes before and after every command. What someone else
/// changed in between is listed as such. Files of git itself are only counted (`--git` lists them).
#[derive(clap::Args, Debug)]
pub(crate) struct ChangesArgs {
    /// The session
    #[arg(default_value = "last")]
    session: String,
    /// Only this turn, by its number in `quipu turns`
    #[arg(long, value_name = "N")]
    turn: Option<usize>,
    /// Files of git itself, too
    #[arg(long)]
    git: bool,
    /// Print one JSON object per changed file
    #[arg(long)]
    json: bool,
}

/// Who changed something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// A turn that is live.
    Turn(usize),
    /// A call that went on in the background or was not seen to end, or someone else; the turn if
    /// it is live.
    Unsure(Option<usize>),
    /// A turn that is not live any more.
    Abandoned,
    /// A rewind.
    Rewind,
    /// A person, or another program.
    Other,
}

impl Owner {
    fn name(self) -> &'static str {
        match self {
            Owner::Turn(_) => "turn",
            Owner::Unsure(_) => "unsure",
            Owner::Abandoned => "abandoned",
            Owner::Rewind => "rewind",
            Owner::Other => "other",
        }
    }

    /// The turn, or the one that it may be.
    fn turn(self) -> Option<usize> {
        match self {
            Owner::Turn(turn) => Some(turn),
            Owner::Unsure(turn) => turn,
            Owner::Abandoned | Owner::Rewind | Owner::Other => None,
        }
    }

    /// What its changes are listed under.
    fn head(self) -> String {
        match self {
            Owner::Turn(turn) => format!("turn {turn}"),
            Owner::Unsure(Some(turn)) => format!("turn {turn} or someone else"),
            Owner::Unsure(None) => "a command that was not seen to end, or someone else".to_owned(),
            Owner::Abandoned => "a turn that is not live any more".to_owned(),
            Owner::Rewind => "a rewind".to_owned(),
            Owner::Other => "someone else".to_owned(),
        }
    }
}

/// A path that someone changed, from first to last.
#[derive(Debug)]
struct Piece {
    owner: Owner,
    path: PathBuf,
    before: Option<State>,
    after: Option<State>,
}

#[derive(Serialize)]
struct ChangesRow<'a> {
    v: u32,
    by: &'static str,
    turn: Option<usize>,
    path: std::borrow::Cow<'a, str>,
    change: &'static str,
    added: u64,
    removed: u64,
    note: Option<String>,
    diff: String,
}

pub(crate) fn changes(world: &mut World, args: &ChangesArgs) -> Result<(), Failure> {
    let session = select::session(world, &args.session)?;
    let kept = images::open(world)?;
    let _shared = kept.share()?;
    let family = WithAgents::open(&session)?;
    let turns = family.main.turns();
    if let Some(turn) = args.turn {
        images::is_turn(turn, turns.live.len())?;
    }
    let numbers = images::turn_numbers(&family, &turns.live)?;
    let moments = moments(&kept, session.id.as_str())?;
    if moments.is_empty() {
        let hint = "`quipu chat` takes images before and after commands; `quipu show` has the edits of other sessions";
        return Err(Failure::not_found("there are no images of this session", hint));
    }
    let mut pieces: Vec<Piece> = Vec::new();
    let roots = roots(&moments);
    let now = now(world, &kept, (&roots, &moments))?;
    let folders = Folders::new(&kept.store);
    for image in now.values() {
        folders.know(image);
    }
    let load = |image| {
        folders.load(image).map_err(|error| Failure::unreadable(kept.store.folder(), error))
    };
    let mut deeds = deeds(&moments).into_iter().peekable();
    for (at, span) in spans(&moments).into_iter().enumerate() {
        let turn = span.prompt.and_then(|prompt| numbers.get(prompt)).copied();
        let owner = match (span.actor, turn) {
            (Actor::Other, _) => Owner::Other,
            (Actor::Unsure, turn) => Owner::Unsure(turn),
            (Actor::Agent, _) if span.about.tool.as_deref() == Some(REWIND) => Owner::Rewind,
            (Actor::Agent, turn) => turn.map_or(Owner::Abandoned, Owner::Turn),
        };
        for root in &roots {
            let Some(before) = span.from.image(root) else { continue };
            let after = match span.to.map(|to| to.image(root)) {
                Some(None) => continue,
                Some(Some(image)) if image == before => continue,
                Some(Some(image)) => load(image)?,
                None => match now.get(root) {
                    Some(image) => Arc::clone(image),
                    None => continue,
                },
            };
            for change in differences(&load(before)?, &after) {
                let path = root.join(OsStr::from_bytes(&change.place));
                add(&mut pieces, Piece { owner, path, before: change.before, after: change.after });
            }
        }
        if let Some(deed) = deeds.next_if(|deed| deed.at == at)
            && let Some(after) = deed.after
        {
            let turn = deed.prompt.and_then(|prompt| numbers.get(prompt));
            let owner = turn.map_or(Owner::Abandoned, |turn| Owner::Turn(*turn));
            let (path, before) = (deed.path.to_owned(), deed.before.cloned());
            add(&mut pieces, Piece { owner, path, before, after: after.cloned() });
        }
    }
    pieces.retain(|piece| piece.before != piece.after);
    pieces.retain(|piece| args.turn.is_none_or(|turn| piece.owner.turn() == Some(turn)));
    print(world, args, &kept, &pieces)?;
    if args.json {
        return Ok(());
    }
    let outside = outside(&kept, &moments)?;
    images::tell_outside(world, &outside)
}

/// The images of now, as far as there are any.
fn now(
    world: &mut World,
    kept: &Kept,
    (roots, moments): (&[PathBuf], &[Moment]),
) -> Result<HashMap<PathBuf, Arc<Folder>>, Failure> {
    let mut now = HashMap::new();
    for root in roots {
        let parts = (&kept.store, &kept.vault);
        match look(parts, root, moments, (kept.limits, world.clock())) {
            Ok(image) => _ = now.insert(root.clone(), image),
            Err(error) => world.out.note(&format!(
                "what changed in `{}` after its last image cannot be seen: {error}",
                root.display()
            ))?,
        }
    }
    Ok(now)
}

/// What the last image does not cover.
fn outside(kept: &Kept, moments: &[Moment]) -> Result<Vec<(PathBuf, Why)>, Failure> {
    let mut all = Vec::new();
    for tree in moments.last().into_iter().flat_map(|moment| &moment.trees) {
        let image = Folder::load(&kept.store, tree.image);
        let image = image.map_err(|error| Failure::unreadable(kept.store.folder(), error))?;
        let path = |place: &[u8]| tree.root.join(OsStr::from_bytes(place));
        all.extend(tree::outside(&image).into_iter().map(|(place, why, _)| (path(&place), why)));
    }
    Ok(all)
}

fn moments(kept: &Kept, session: &str) -> Result<Vec<Moment>, Failure> {
    let Some(log) = Log::of(kept.store.folder(), session) else { return Ok(Vec::new()) };
    log.read().map_err(|error| Failure::unreadable(log.path(), error))
}

fn roots(moments: &[Moment]) -> Vec<PathBuf> {
    let mut roots: Vec<PathBuf> = Vec::new();
    for tree in moments.iter().flat_map(|moment| &moment.trees) {
        if !roots.contains(&tree.root) {
            roots.push(tree.root.clone());
        }
    }
    roots
}

/// Adds a piece; one that continues the last piece of its path is joined to it.
fn add(pieces: &mut Vec<Piece>, piece: Piece) {
    let last = pieces.iter_mut().rev().find(|last| last.path == piece.path);
    if let Some(last) = last.filter(|last| last.owner == piece.owner && last.after == piece.before)
    {
        last.after = piece.after;
        return;
    }
    pieces.push(piece);
}

fn print(
    world: &mut World,
    args: &ChangesArgs,
    kept: &Kept,
    pieces: &[Piece],
) -> Result<(), Failure> {
    let mut owner = None;
    let mut of_git = 0;
    for piece in pieces {
        let is_git = diff::is_gits(&piece.path);
        if is_git && !args.git {
            of_git += 1;
            continue;
        }
        let shown = diff::show(&kept.store, piece.before.as_ref(), piece.after.as_ref());
        if args.json {
            world.out.json(&ChangesRow {
                v: JSON_VERSION,
                by: piece.owner.name(),
                turn: piece.owner.turn(),
                path: piece.path.to_string_lossy(),
                change: shown.kind.word(),
                added: shown.added,
                removed: shown.removed,
                note: shown.note,
                diff: shown.hunks,
            })?;
            continue;
        }
        if owner != Some(piece.owner) {
            owner = Some(piece.owner);
            writeln!(world.out, "{}", piece.owner.head())?;
        }
        images::print(world, &piece.path, &shown)?;
    }
    if pieces.is_empty() {
        world.out.note("nothing was changed")?;
    }
    if of_git > 0 && !args.json {
        let text = count(of_git, "file");
        world.out.note(&format!("{text} of git changed, too: `--git` lists them"))?;
    }
    Ok(())
}
