//! Which sessions belong to a folder, and which of them is the last one.
//!
//! Invariant: `last` is the first row of `quipu ls`, in every command; if `ls` would show sessions
//! of other projects, there is no last one.

use std::cmp::Reverse;
use std::fs;
use std::path::{Component, Path, PathBuf};

use transcript::conversation::place::{Home, Listed, Session, list, slug, slug_uncut};

use crate::failure::Failure;
use crate::world::World;

/// Sorts sessions as in all lists: newest first, and empty files after all others.
pub(crate) fn newest_first(sessions: &mut [Session]) {
    sessions.sort_by(|one, other| {
        let key = |one: &Session| (one.size == 0, Reverse(one.modified));
        key(one).cmp(&key(other)).then_with(|| one.path.cmp(&other.path))
    });
}

/// The sessions of the current project: of the nearest folder, from the current one upwards, that
/// has any. `None` if there is none. Samples belong to no folder, so they are always in the current
/// project.
pub(crate) fn here(world: &mut World) -> Result<Option<Vec<Session>>, Failure> {
    let homes = world.homes()?;
    if homes.samples {
        return world.sessions().map(Some);
    }
    let found = world.cwd.ancestors().map(|folder| in_project(&homes.list, folder));
    match found.into_iter().find(|found| !found.sessions.is_empty()) {
        Some(found) => world.listed(found).map(Some),
        None => Ok(None),
    }
}

/// The newest session of the current project.
pub(crate) fn last(world: &mut World) -> Result<Session, Failure> {
    let mut sessions = here(world)?.unwrap_or_default();
    newest_first(&mut sessions);
    sessions.into_iter().next().ok_or_else(|| {
        let message = format!("no session found for `{}`", world.cwd.display());
        Failure::not_found(
            message,
            "`last` is the newest session of this folder; `quipu ls --all` lists all",
        )
    })
}

/// The sessions of the project that the user names: a folder, or part of its path.
pub(crate) fn named(world: &mut World, project: &str) -> Result<Vec<Session>, Failure> {
    let homes = world.homes()?;
    let folder = lexical(&world.cwd.join(project));
    let real = fs::canonicalize(&folder).unwrap_or_else(|_| folder.clone());
    let mut exact = in_project(&homes.list, &folder);
    if real != folder {
        exact.merge(in_project(&homes.list, &real));
    }
    if !exact.sessions.is_empty() || folder.is_dir() {
        return world.listed(exact);
    }
    let mut sessions = world.sessions()?;
    let part = slug_uncut(project).to_lowercase();
    sessions.retain(|session| {
        let name = session.project.to_lowercase();
        name.contains(&part) || name == project.to_lowercase()
    });
    Ok(sessions)
}

/// The path without `.` and `..`, and without a trailing slash.
pub(crate) fn lexical(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(clean.pop()),
            Component::CurDir => {}
            other => clean.push(other),
        }
    }
    clean
}

/// The sessions of the project in that folder, under every name that clients give it.
fn in_project(homes: &[Home], folder: &Path) -> Listed {
    let cwd = folder.to_string_lossy();
    let mut names = vec![slug(&cwd), slug_uncut(&cwd), cwd.replace('/', "_")];
    names.dedup();
    let mut all = Listed::default();
    for home in homes {
        for name in &names {
            for kind in ["projects", "conversations"] {
                all.merge(list(&home.root.join(kind).join(name)));
            }
        }
    }
    all
}
