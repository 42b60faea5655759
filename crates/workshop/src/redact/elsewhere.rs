//! Where else the secrets of a session stand: in other sessions, in other files of the homes, and
//! in what quipu itself keeps.
//!
//! Invariants: a link is not followed; the file with the client's credentials is never read.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use transcript::conversation::place::{Home, Session, Thing};
use transcript::format::file::read_at;
use transcript::format::secret::Cover;
use transcript::format::threads;

use super::hide;
use crate::Workshop;
use crate::error::Error;
use crate::store::{self, Deed, Mark, Ready, Real};

/// A file in which a secret stands, or whose name has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    pub path: PathBuf,
    pub what: Stand,
}

/// What kind of file a secret stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// The session itself, or one of its files.
    Original,
    /// Another session, which may be a fork or a copy.
    Session,
    /// The prompt history, or a text that was pasted into a prompt.
    History,
    /// The name of the folder of a project, which is made from the path of a directory.
    ProjectFolder,
    /// A copy of an edited file.
    FileCopy,
    /// A change that can be undone.
    Undo,
    /// The catalog.
    Catalog,
    /// What was typed in a console and not sent.
    Draft,
    /// The images of the folders that an agent worked in: they are compressed, so nobody knows
    /// whether a secret stands in them.
    Images,
    /// Another file of a home.
    File,
}

impl Stand {
    /// The name in output.
    pub fn name(self) -> &'static str {
        match self {
            Stand::Original => "original",
            Stand::Session => "session",
            Stand::History => "prompt-history",
            Stand::ProjectFolder => "project-folder",
            Stand::FileCopy => "file-copy",
            Stand::Undo => "undo",
            Stand::Catalog => "catalog",
            Stand::Draft => "draft",
            Stand::Images => "images",
            Stand::File => "file",
        }
    }
}

/// How deep folders of a home are looked through, and how many files of it.
const DEEPEST: usize = 12;
const MOST_FILES: usize = 1_000_000;
/// Where the client keeps its own credentials.
const CREDENTIALS: &str = ".credentials.json";
/// How much of a file is searched at once, and how much of it again with the next part.
const WINDOW: u64 = 2 << 20;
const OVERLAP: u64 = 128 << 10;

impl Workshop {
    /// The files in these homes, in the catalog and among those that quipu keeps (the journal,
    /// drafts, what waits to be shipped) in which a secret stands.
    /// `settled` are files that were searched before, and whether a secret stands in them.
    pub fn elsewhere(
        &self,
        cover: &Cover,
        session: &Session,
        homes: &[PathBuf],
        catalog: Option<&Path>,
        settled: &HashMap<PathBuf, bool>,
    ) -> Vec<Elsewhere> {
        let all = self.places(session, homes, catalog);
        let mut found = Vec::new();
        // It never fails.
        let _: Result<(), ()> = threads::in_order(
            all.len(),
            threads::count(),
            // What cannot be read is not known to have it.
            |number| {
                let (Elsewhere { path, .. }, name) = &all[number];
                let known = settled.get(path).copied();
                cover.stands_in(name.as_os_str().as_encoded_bytes())
                    || known.unwrap_or_else(|| stands_in(path, cover).unwrap_or(false))
            },
            |number, stands| {
                if stands {
                    found.push(all[number].0.clone());
                }
                Ok(())
            },
        );
        found
    }

    /// Where secrets of a session may stand, each with the part of its path that may have one.
    fn places(
        &self,
        session: &Session,
        homes: &[PathBuf],
        catalog: Option<&Path>,
    ) -> Vec<(Elsewhere, PathBuf)> {
        let mut all: Vec<(Elsewhere, PathBuf)> = Vec::new();
        let mut add = |path: PathBuf, what: Stand, name: PathBuf| {
            all.push((Elsewhere { path, what }, name));
        };
        let folder = session.folder();
        // A session that was given by its path may be in no home.
        let mut its: BTreeSet<PathBuf> = files_in(&folder).into_iter().collect();
        its.insert(session.path.clone());
        for home in homes {
            for path in files_in(home) {
                if !its.contains(&path) {
                    let (what, name) = (stand_of(home, &path), name_in(home, &path));
                    add(path, what, name);
                }
            }
            for project in (Home { root: home.clone() }).projects() {
                let name = project.file_name().unwrap_or_default().into();
                add(project, Stand::ProjectFolder, name);
            }
            // The client has it there unless it was given another home.
            if home.ends_with(".claude") {
                add(home.with_extension("json"), Stand::File, PathBuf::new());
            }
        }
        for path in its {
            let name = path.strip_prefix(&folder).unwrap_or(Path::new("")).to_owned();
            add(path, Stand::Original, name);
        }
        for (path, what) in self.state.iter().flat_map(|state| kept_in(state)) {
            add(path, what, PathBuf::new());
        }
        for end in ["", "-wal"] {
            if let Some(mut name) = catalog.map(|catalog| catalog.as_os_str().to_owned()) {
                name.push(end);
                add(name.into(), Stand::Catalog, PathBuf::new());
            }
        }
        all
    }

    /// Whether a secret stands in a file. One that cannot be read has none.
    pub fn has_secrets(&self, path: &Path, cover: &Cover) -> bool {
        stands_in(path, cover).unwrap_or(false)
    }

    /// Hides secrets in files that are not sessions; all of them are one change in the journal.
    /// Returns its name, if there was anything to do.
    pub fn redact_files(
        &mut self,
        paths: &[PathBuf],
        session: &Session,
        cover: &Arc<Cover>,
    ) -> Result<Option<String>, Error> {
        let Some(first) = paths.first() else { return Ok(None) };
        let ready: Vec<Ready> = paths.iter().map(|path| Ready::at(path)).collect();
        let deed = Deed { what: "redact", session: &session.id, made: None, now: self.now };
        let begun = self.journal()?.begin(&mut Real, deed, &ready);
        let begun = begun.map_err(Error::unwritable(first))?;
        let write_all = || {
            let mut was = Vec::new();
            for (path, ready) in paths.iter().zip(&ready) {
                let mark = Mark::of(path)?;
                let mut file = files::create_private(&ready.temp)?;
                hide(Thing::SideFile.form(path), &files::open(path)?, cover, &mut file)?;
                file.sync_all()?;
                if stands_in(&ready.temp, cover)? {
                    let message = format!("`{}` would still have secrets", path.display());
                    return Err(io::Error::other(message));
                }
                was.push(Some(mark));
            }
            store::replace(&mut Real, &begun, deed, &ready, &was).map(drop)
        };
        let made = write_all();
        let name = begun.name.clone();
        let settled = begun.settle(&mut Real);
        made.and(settled).map_err(Error::unwritable(first))?;
        Ok(Some(name))
    }

    /// Removes the changes from the journal that keep a secret: they cannot be undone any more.
    /// Returns how many.
    pub fn forget_changes(&self, cover: &Cover) -> Result<u64, Error> {
        let journal = self.journal()?;
        let failed = |source| Error::Unwritable { path: PathBuf::from("the journal"), source };
        let mut count = 0;
        for entry in journal.entries().map_err(failed)? {
            let files = files_in(&entry.folder);
            if files.iter().any(|path| stands_in(path, cover).unwrap_or(true)) {
                journal.forget(&mut Real, &entry).map_err(failed)?;
                count += 1;
            }
        }
        Ok(count)
    }
}

fn stand_of(home: &Path, path: &Path) -> Stand {
    let below = path.strip_prefix(home).unwrap_or(path);
    let first = below.components().next().map(|part| part.as_os_str().to_string_lossy());
    match first.as_deref() {
        Some("projects") => Stand::Session,
        Some("history.jsonl" | "paste-cache") => Stand::History,
        Some("file-history") => Stand::FileCopy,
        _ => Stand::File,
    }
}

/// The part of a path in a home whose names come from a session or from a person: not the folder of
/// a project, whose name is a path of its own.
fn name_in(home: &Path, path: &Path) -> PathBuf {
    let below = path.strip_prefix(home).unwrap_or(path);
    let known = if below.starts_with("projects") { 2 } else { 0 };
    below.components().skip(known).collect()
}

/// The files that quipu itself keeps. Images are compressed, and locks have no texts.
fn kept_in(state: &Path) -> Vec<(PathBuf, Stand)> {
    let mut kept = Vec::new();
    for path in files_below(state, &["locks", "snapshots"]) {
        let below = path.strip_prefix(state).ok().and_then(|below| below.components().next());
        let what = match below.map(|first| first.as_os_str().to_string_lossy()).as_deref() {
            Some("undo") => Stand::Undo,
            Some("drafts") => Stand::Draft,
            // What waits to be shipped, for example.
            _ => Stand::File,
        };
        kept.push((path, what));
    }
    kept
}

/// The regular files below a folder, by path. Links are not followed.
fn files_in(root: &Path) -> Vec<PathBuf> {
    files_below(root, &[])
}

/// The same without some of the folders in it.
fn files_below(root: &Path, without: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![(root.to_owned(), 0)];
    while let Some((folder, depth)) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if depth == 0 && without.iter().any(|name| entry.file_name() == *name) {
                continue;
            }
            if kind.is_dir() && depth < DEEPEST {
                open.push((entry.path(), depth + 1));
            } else if kind.is_file() && entry.file_name() != CREDENTIALS {
                found.push(entry.path());
            }
        }
        if found.len() > MOST_FILES {
            break;
        }
    }
    found.sort();
    found
}

/// Whether a secret stands in a file.
fn stands_in(path: &Path, cover: &Cover) -> io::Result<bool> {
    let file = files::open(path)?;
    let length = file.metadata()?.len();
    let mut at = 0;
    while at < length {
        let bytes = read_at(&file, at, (length - at).min(WINDOW + OVERLAP))?;
        if cover.stands_in(&bytes) {
            return Ok(true);
        }
        at += WINDOW;
    }
    Ok(false)
}
