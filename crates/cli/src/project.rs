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
    let wanted = Named::new(world, project)?;
    let homes = world.homes()?;
    if wanted.part.is_none() {
        return world.listed(with_names(&homes.list, &wanted.exact));
    }
    let mut sessions = world.sessions()?;
    sessions.retain(|session| wanted.is(&session.project));
    Ok(sessions)
}

/// A project that the user names.
#[derive(Debug)]
pub(crate) struct Named {
    /// The names that clients give to a folder of this path.
    exact: Vec<String>,
    /// What names of others contain, in lower case, and what the user typed; `None` if there is
    /// such a folder, or a session of it.
    part: Option<[String; 2]>,
}

impl Named {
    pub(crate) fn new(world: &mut World, project: &str) -> Result<Named, Failure> {
        let folder = lexical(&world.cwd.join(project));
        let real = fs::canonicalize(&folder).unwrap_or_else(|_| folder.clone());
        let mut exact = names_of(&folder);
        if real != folder {
            exact.extend(names_of(&real));
        }
        let is_exact =
            folder.is_dir() || !with_names(&world.homes()?.list, &exact).sessions.is_empty();
        let part = [slug_uncut(project).to_lowercase(), project.to_lowercase()];
        Ok(Named { exact, part: (!is_exact).then_some(part) })
    }

    /// Whether a folder of sessions belongs to the project, by its name.
    pub(crate) fn is(&self, name: &str) -> bool {
        let lower = name.to_lowercase();
        self.exact.iter().any(|exact| exact == name)
            || self
                .part
                .as_ref()
                .is_some_and(|[part, typed]| lower.contains(part) || lower == *typed)
    }
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
    with_names(homes, &names_of(folder))
}

/// The names that clients give to a project in that folder.
fn names_of(folder: &Path) -> Vec<String> {
    let cwd = folder.to_string_lossy();
    let mut names = vec![slug(&cwd), slug_uncut(&cwd), cwd.replace('/', "_")];
    names.dedup();
    names
}

/// The sessions in folders of these names.
fn with_names(homes: &[Home], names: &[String]) -> Listed {
    let mut all = Listed::default();
    for home in homes {
        for name in names {
            for kind in ["projects", "conversations"] {
                all.merge(list(&home.root.join(kind).join(name)));
            }
        }
    }
    all
}
