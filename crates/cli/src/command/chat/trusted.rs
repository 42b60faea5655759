//! `--trust`, and whether a folder is trusted: where the list stands, how it changes. What it
//! covers is `agent::trust`'s to say.
//!
//! Invariant: a list that is damaged grants nothing, is reported, and is never written over.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::context::LeftOut;
use agent::settings::Settings;
use agent::trust::{Trust, TrustList};
use files::{Durability, Lock};

use super::start::Where;
use crate::failure::Failure;
use crate::world::World;

/// So long may the list be.
const LONGEST: u64 = 1 << 20;
/// So many files are named that were left out.
const NAMED: usize = 5;

/// What is trusted of where a session begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// The folder.
    pub(super) folder: Trust,
    /// The repository that it lies in: more of it than this folder may be obeyed by git.
    pub(super) repository: Trust,
}

/// Puts the folder that we start in on the list.
pub(super) fn trust(world: &mut World, place: &Where) -> Result<(), Failure> {
    let path = world.config_file("trusted")?;
    let unwritable = |error| Failure::unwritable(&path, error);
    let who = format!("process {} (quipu chat --trust)", std::process::id());
    let lock = files::lock(&path.with_extension("lock"), &who, Duration::from_secs(5));
    let _held = match lock.map_err(unwritable)? {
        Lock::Held(held) => held,
        Lock::Busy(who) => return Err(Failure::owned(&path, &who)),
    };
    let mut list = read(&path)?;
    let is_new = list.add(&place.cwd, real_home(place).as_deref()).map_err(|why| {
        let hint = "start in the folder of a project, and trust that";
        Failure::usage(format!("`{}` is not trusted: {why}", place.cwd.display()), Some(hint))
    })?;
    if is_new {
        files::put(&path, list.text().as_bytes(), Durability::PowerCut).map_err(unwritable)?;
        world.out.note(&format!(
            "`{}` is trusted from now on; the list is `{}`",
            place.cwd.display(),
            path.display()
        ))?;
    }
    Ok(())
}

/// What the list says of where we start. A damaged one says nothing, and that is told.
pub(super) fn standing(world: &mut World, place: &Where) -> Result<Standing, Failure> {
    let list = world.config_file("trusted").and_then(|path| read(&path));
    let list = match list {
        Ok(list) => list,
        Err(failure) => {
            world.out.note(&format!("no folder counts as trusted: {failure}"))?;
            TrustList::default()
        }
    };
    let home = real_home(place);
    let covers = |folder: &Path| list.covers(folder, home.as_deref());
    let folder = covers(&place.cwd);
    // A folder that is a repository of its own may stand in a trusted one.
    let repository = agent::context::repository(&place.cwd).filter(|_| folder == Trust::Trusted);
    Ok(Standing { folder, repository: repository.map_or(Trust::Untrusted, covers) })
}

/// Says what was left out, and how that changes.
pub(super) fn tell(
    world: &mut World,
    settings: &Settings,
    left_out: &LeftOut,
) -> Result<(), Failure> {
    let mut parts: Vec<String> = settings
        .left_out
        .iter()
        .map(|(file, keys)| format!("`{}` of `{file}`", keys.join("`, `")))
        .collect();
    if left_out.is_repository {
        parts.push("what git says of the repository".to_owned());
    }
    if !parts.is_empty() {
        world.out.note(&format!(
            "left out, because nobody has trusted this folder: {}; `quipu chat --trust` trusts it",
            parts.join("; ")
        ))?;
    }
    let outside = &left_out.instructions;
    if !outside.is_empty() {
        let names = outside.iter().take(NAMED).map(|path| format!("`{}`", path.display()));
        let names = names.collect::<Vec<_>>().join(", ");
        let more = outside.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        world
            .out
            .note(&format!("left out, because they lead out of their folder: {names}{more}"))?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<TrustList, Failure> {
    let text = match files::read_text(path, LONGEST) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(TrustList::default()),
        Err(error) => return Err(Failure::unreadable(path, error)),
    };
    TrustList::parse(&text).map_err(|why| {
        let message = format!("the list of trusted folders `{}` is damaged: {why}", path.display());
        Failure::usage(message, Some("mend it, or take it away and trust anew"))
    })
}

fn real_home(place: &Where) -> Option<PathBuf> {
    place.user.as_ref().map(|user| fs::canonicalize(user).unwrap_or_else(|_| user.clone()))
}
