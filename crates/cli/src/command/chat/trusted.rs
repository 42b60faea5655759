//! `--trust`, and whether a folder is trusted: where the list is, and how it changes.
//! `agent::trust` decides what the list covers.
//!
//! Invariant: a damaged list grants nothing, is reported, and is never overwritten.

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

/// The maximum size of the list, in bytes.
const LONGEST: u64 = 1 << 20;
/// How many ignored files are listed by name.
const NAMED: usize = 5;

/// What is trusted of the place where a session starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// The folder.
    pub(super) folder: Trust,
    /// The repository that contains the folder: git may obey more of it than this folder.
    pub(super) repository: Trust,
}

/// Adds the current folder to the list.
pub(super) fn trust(world: &mut World, place: &Where) -> Result<(), Failure> {
    let path = world.config_file("trusted")?;
    let unwritable = |error| Failure::unwritable(&path, error);
    let who = format!("process {} (quipu chat --trust)", std::process::id());
    let lock = files::lock(&path.with_extension("lock"), &who, Duration::from_secs(5));
    let _held = match lock.map_err(unwritable)? {
        Lock::Held(held) => held,
        Lock::Busy(who) => return Err(workshop::Error::Locked { path, who }.into()),
    };
    let mut list = read(&path)?;
    let is_new = list.add(&place.cwd, real_home(place).as_deref()).map_err(|why| {
        let hint = "start in the folder of a project, and trust that one";
        Failure::usage(format!("cannot trust `{}`: {why}", place.cwd.display()), Some(hint))
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

/// What the list covers of the current folder. A damaged list covers nothing, and is reported.
pub(super) fn standing(world: &mut World, place: &Where) -> Result<Standing, Failure> {
    let list = world.config_file("trusted").and_then(|path| read(&path));
    let list = match list {
        Ok(list) => list,
        Err(failure) => {
            world.out.note(&format!("no folder is trusted: {failure}"))?;
            TrustList::default()
        }
    };
    let home = real_home(place);
    let covers = |folder: &Path| list.covers(folder, home.as_deref());
    let folder = covers(&place.cwd);
    // A trusted folder may contain another repository.
    let repository = agent::context::repository(&place.cwd).filter(|_| folder == Trust::Trusted);
    Ok(Standing { folder, repository: repository.map_or(Trust::Untrusted, covers) })
}

/// Reports what was ignored, and how to change that.
pub(super) fn tell(
    world: &mut World,
    settings: &Settings,
    left_out: &LeftOut,
) -> Result<(), Failure> {
    let mut parts: Vec<String> = settings
        .left_out
        .iter()
        .map(|(file, keys)| format!("`{}` in `{file}`", keys.join("`, `")))
        .collect();
    if left_out.is_repository {
        parts.push("the state of the git repository".to_owned());
    }
    if !parts.is_empty() {
        world.out.note(&format!(
            "ignored, because this folder is not trusted: {}; `quipu chat --trust` trusts it",
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
            .note(&format!("ignored, because they lead out of their folder: {names}{more}"))?;
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
        Failure::usage(message, Some("fix it, or remove it and trust your folders again"))
    })
}

fn real_home(place: &Where) -> Option<PathBuf> {
    place.user.as_ref().map(|user| fs::canonicalize(user).unwrap_or_else(|_| user.clone()))
}
