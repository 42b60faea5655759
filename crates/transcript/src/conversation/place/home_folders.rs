//! What the client keeps of sessions in the folders of a home, beside their transcripts.
//!
//! One table for everything that lists, copies, packs, moves, removes or redacts what belongs to a
//! session. Clients add folders: what is named after a session belongs to it wherever it is.
//! Invariants: only a plain name is joined to a path; links to folders are not followed; a file of
//! another session is never among those of one, even if its id begins like that one's.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use super::belongings::{files_below, plain};
use super::{Belonging, Session, Thing, listing};
use crate::conversation::id::{is_uuid, uuid_in};

/// A folder of a home that has files of sessions.
struct HomeFolder {
    name: &'static str,
    thing: Thing,
    layout: Layout,
}

/// How a folder says which session a file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// It is in a folder of the session's id.
    Folder,
    /// Its name begins with the session's id.
    Name,
    /// It does not say so; something else refers to the file.
    Referred,
}

const FOLDERS: [HomeFolder; 8] = [
    HomeFolder { name: "file-history", thing: Thing::FileHistory, layout: Layout::Folder },
    HomeFolder { name: "todos", thing: Thing::Todos, layout: Layout::Name },
    HomeFolder { name: "tasks", thing: Thing::Task, layout: Layout::Folder },
    HomeFolder { name: "image-cache", thing: Thing::PastedImage, layout: Layout::Folder },
    HomeFolder { name: "session-env", thing: Thing::Environment, layout: Layout::Folder },
    HomeFolder { name: "debug", thing: Thing::DebugLog, layout: Layout::Name },
    HomeFolder { name: PLANS, thing: Thing::Plan, layout: Layout::Referred },
    HomeFolder { name: PASTES, thing: Thing::PastedText, layout: Layout::Referred },
];
const PLANS: &str = "plans";
const PASTES: &str = "paste-cache";

/// Further folders in which the client records what happened.
const RECORDS: [&str; 3] = ["shell-snapshots", "usage-data", "telemetry"];

/// Folders in whose folders files are named after sessions.
const NESTED: [&str; 2] = ["usage-data/session-meta", "usage-data/facets"];

/// Folders that have nothing of a session, or what is found otherwise.
const NOTHING: [&str; 3] = ["projects", "conversations", "plugins"];

/// The names of the folders that have files of sessions. Each of them may be a link that the user
/// made.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FOLDERS.iter().map(|folder| folder.name)
}

/// Whether a file of a home records what happened, by its folder, and is neither settings nor the
/// user's own work.
pub fn is_record(home: &Path, path: &Path) -> bool {
    let below = path.strip_prefix(home).ok().and_then(|below| below.components().next());
    let is_in = |name: &str| below.is_some_and(|first| first.as_os_str() == name);
    names().chain(RECORDS).any(is_in)
}

/// What a home has of a session alone, of the kinds that are wanted.
pub(super) fn named_after(
    session: &Session,
    root: &Path,
    is_wanted: impl Fn(Thing) -> bool,
) -> Vec<Belonging> {
    let id = session.id.as_str();
    let mut found = Vec::new();
    // The file name can be anything; only a plain name may be joined to a path.
    if !Path::new(id).components().all(|part| matches!(part, Component::Normal(_))) {
        return found;
    }
    for folder in FOLDERS.iter().filter(|folder| is_wanted(folder.thing)) {
        let root = root.join(folder.name);
        let paths = match folder.layout {
            Layout::Folder => files_below(&root.join(id)),
            Layout::Name => {
                let mut files = listing(&root).files;
                files.retain(|path| is_of(path, id));
                files
            }
            Layout::Referred => continue,
        };
        found.extend(paths.into_iter().map(|path| plain(folder.thing, path)));
    }
    if is_wanted(Thing::HomeFile) && is_uuid(id) && home_of(session).is_some() {
        let others = others(root, id);
        found.extend(others.into_iter().map(|path| plain(Thing::HomeFile, path)));
    }
    found
}

/// Whether the name of a file begins with the id of a session, and not with that of another one.
fn is_of(path: &Path, id: &str) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let rest = name.strip_prefix(id);
    rest.is_some_and(|rest| !rest.starts_with(|letter: char| letter.is_alphanumeric()))
}

/// The home of a session, if it is where homes have sessions: around any other file there is
/// anything.
pub fn home_of(session: &Session) -> Option<&Path> {
    let all = session.path.parent()?.parent()?;
    let name = all.file_name()?;
    all.parent().filter(|_| name == "projects" || name == "conversations")
}

/// The files that are named after a session in a home and in its folders, where nobody expects
/// them.
fn others(root: &Path, id: &str) -> Vec<PathBuf> {
    let is_its = |path: &Path| {
        path.file_name().and_then(OsStr::to_str).and_then(uuid_in).is_some_and(|found| found == id)
    };
    let known = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        names().chain(NOTHING).any(|known| name == known)
    };
    let top = listing(root);
    let mut found: Vec<PathBuf> = top.files.into_iter().filter(|path| is_its(path)).collect();
    let nested = NESTED.iter().map(|name| root.join(name));
    for folder in top.folders.into_iter().filter(|path| !known(path)).chain(nested) {
        let inside = listing(&folder);
        found.extend(inside.files.into_iter().filter(|path| is_its(path)));
        for folder in inside.folders.into_iter().filter(|path| is_its(path)) {
            found.extend(files_below(&folder));
        }
    }
    found
}

/// The folder around a file of a session that does not belong to it: a folder of the home, or the
/// home itself.
pub fn folder_around(session: &Session, path: &Path) -> PathBuf {
    let project = session.path.parent().unwrap_or(Path::new(""));
    let home = super::belongings::root(session).filter(|_| !path.starts_with(project));
    let Some(home) = home else { return project.to_owned() };
    let below = path.strip_prefix(home).unwrap_or(Path::new("")).parent();
    let first = below.and_then(|below| below.components().next());
    first.map_or_else(|| home.to_owned(), |first| home.join(first))
}

/// Where a file that the home has of a session is for a session of another id.
pub fn for_session(session: &Session, path: &Path, id: &str) -> PathBuf {
    let folder = folder_around(session, path);
    let below = path.strip_prefix(&folder).unwrap_or(path);
    let renamed = below.components().map(|part| {
        let name = part.as_os_str();
        match name.to_str() {
            Some(text) => text.replace(session.id.as_str(), id).into(),
            None => name.to_owned(),
        }
    });
    folder.join(renamed.collect::<PathBuf>())
}

/// The plans that have the name of a slug of the session. The names in the folder are compared with
/// the slugs, so that no path is made from what a record says.
pub(super) fn plans(root: &Path, slugs: impl FnOnce() -> HashSet<String>) -> Vec<PathBuf> {
    referred(&root.join(PLANS), "md", slugs)
}

/// The texts that were pasted into prompts, by the hashes that the prompt history has of them.
pub(super) fn pasted(root: &Path, hashes: &HashSet<String>) -> Vec<PathBuf> {
    referred(&root.join(PASTES), "txt", || hashes.clone())
}

fn referred(folder: &Path, ending: &str, names: impl FnOnce() -> HashSet<String>) -> Vec<PathBuf> {
    let mut found = listing(folder).files;
    found.retain(|path| path.extension().is_some_and(|is| is == ending));
    // Most homes have none: then nothing is read to find the names.
    if !found.is_empty() {
        let names = names();
        let is_named = |path: &PathBuf| {
            path.file_stem().and_then(OsStr::to_str).is_some_and(|name| names.contains(name))
        };
        found.retain(is_named);
    }
    found
}
