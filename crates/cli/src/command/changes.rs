//! `quipu changes`: what the turns of a session changed on disk.
//!
//! Invariant: every change that is between two images is in the output once: under the turn that
//! made it, or under someone else.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use serde::Serialize;
use snapshot::diff;
use snapshot::moment::{Actor, spans};
use snapshot::plan::look;
use snapshot::tree::{self, Folder, State, Why, differences};
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
            Owner::Abandoned => "abandoned",
            Owner::Rewind => "rewind",
            Owner::Other => "other",
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
    for span in spans(&moments) {
        let owner = match (span.actor, span.prompt) {
            (Actor::Other, _) => Owner::Other,
            (Actor::Agent, _) if span.about.tool.as_deref() == Some("rewind") => Owner::Rewind,
            (Actor::Agent, Some(prompt)) => {
                numbers.get(prompt).map_or(Owner::Abandoned, |number| Owner::Turn(*number))
            }
            (Actor::Agent, None) => Owner::Abandoned,
        };
        for root in &roots {
            let Some(before) = span.from.image(root) else { continue };
            let load = |image| {
                Folder::load(&kept.store, image)
                    .map_err(|error| Failure::unreadable(kept.store.folder(), error))
            };
            let after = if let Some(to) = span.to {
                match to.image(root) {
                    Some(image) if image == before => continue,
                    Some(image) => load(image)?,
                    None => continue,
                }
            } else {
                let parts = (&kept.store, &kept.vault);
                let Ok(is) = look(parts, root, &moments, (kept.limits, world.clock())) else {
                    continue;
                };
                is
            };
            for change in differences(&load(before)?, &after) {
                let path = root.join(OsStr::from_bytes(&change.place));
                add(&mut pieces, Piece { owner, path, before: change.before, after: change.after });
            }
        }
    }
    pieces.retain(|piece| piece.before != piece.after);
    pieces.retain(|piece| args.turn.is_none_or(|turn| piece.owner == Owner::Turn(turn)));
    print(world, args, &kept, &pieces)?;
    if args.json {
        return Ok(());
    }
    let outside = outside(&kept, &moments)?;
    images::tell_outside(world, &outside)
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
        let turn = if let Owner::Turn(turn) = piece.owner { Some(turn) } else { None };
        if args.json {
            world.out.json(&ChangesRow {
                v: JSON_VERSION,
                by: piece.owner.name(),
                turn,
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
            let head = match piece.owner {
                Owner::Turn(turn) => format!("turn {turn}"),
                Owner::Abandoned => "a turn that is not live any more".to_owned(),
                Owner::Rewind => "a rewind".to_owned(),
                Owner::Other => "someone else".to_owned(),
            };
            writeln!(world.out, "{head}")?;
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
