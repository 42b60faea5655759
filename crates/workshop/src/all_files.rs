//! Every file of a session that can be taken away with it: for removing, moving and packing.
//!
//! What belongs to a session is known by `transcript::conversation::place`. Invariants: only
//! regular files that are where their names say; a link is listed as left behind, and never
//! followed; files that several sessions share (the prompt history, the list of a project's
//! sessions, plans) are never among them.

use std::fs;
use std::path::{Path, PathBuf};

use transcript::conversation::place::{Session, Thing, belongings, files_below, folder_around};

use crate::error::Error;
use crate::store::Mark;

/// A file of a session.
#[derive(Clone, Debug)]
pub struct SessionFile {
    pub thing: Thing,
    pub path: PathBuf,
    /// The folder around it that does not belong to the session.
    pub inside: PathBuf,
    pub(crate) mark: Mark,
}

impl SessionFile {
    /// A file that belongs to a project.
    pub(crate) fn at(path: PathBuf, inside: &Path) -> Result<SessionFile, Error> {
        let found = files::metadata(&path).map_err(Error::unreadable(&path))?;
        let mark = Mark::of_metadata(&found);
        Ok(SessionFile { thing: Thing::SideFile, path, inside: inside.to_owned(), mark })
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.mark.size()
    }
}

/// The files of a session, and what else belongs to it.
#[derive(Clone, Debug, Default)]
pub struct AllFiles {
    /// The session's own file first.
    pub files: Vec<SessionFile>,
    /// What other sessions use too, and how many of each.
    pub shared: Vec<(Thing, usize)>,
    /// What is not a regular file, and why it stays.
    pub skipped: Vec<(PathBuf, &'static str)>,
}

impl AllFiles {
    /// Finds the files of a session.
    pub fn of(session: &Session) -> Result<AllFiles, Error> {
        let mut all = AllFiles::default();
        for one in belongings(session) {
            if one.thing.is_shared() {
                all.share(one.thing);
            } else {
                let inside = folder_around(session, &one.path);
                all.take(one.thing, one.path, inside)?;
            }
        }
        if all.files.first().is_none_or(|first| first.path != session.path) {
            let why = "it is a link: the file that it leads to is elsewhere".to_owned();
            return Err(Error::InUse { path: session.path.clone(), why });
        }
        Ok(all)
    }

    /// How many files there are of each thing.
    pub fn counts(&self) -> Vec<(Thing, usize)> {
        let mut counts: Vec<(Thing, usize)> = Vec::new();
        for file in self.files.iter().skip(1) {
            match counts.iter_mut().find(|(known, _)| *known == file.thing) {
                Some((_, count)) => *count += 1,
                None => counts.push((file.thing, 1)),
            }
        }
        counts
    }

    fn share(&mut self, thing: Thing) {
        match self.shared.iter_mut().find(|(known, _)| *known == thing) {
            Some((_, count)) => *count += 1,
            None => self.shared.push((thing, 1)),
        }
    }

    fn take(&mut self, thing: Thing, path: PathBuf, inside: PathBuf) -> Result<(), Error> {
        let found = fs::symlink_metadata(&path).map_err(Error::unreadable(&path))?;
        if !found.is_file() {
            let why = if found.is_symlink() { "a link" } else { "not a regular file" };
            self.skipped.push((path, why));
            return Ok(());
        }
        self.files.push(SessionFile { thing, path, inside, mark: Mark::of_metadata(&found) });
        Ok(())
    }
}

/// The files in a folder and its subfolders; none if it is a link. Links are listed, and not
/// followed.
pub(crate) fn walk(folder: &Path) -> Vec<PathBuf> {
    let is_folder = fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir());
    if is_folder { files_below(folder) } else { Vec::new() }
}
