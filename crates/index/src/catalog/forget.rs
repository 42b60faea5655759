//! What is left of files that are gone, and how it is removed.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf, absolute};

use transcript::conversation::place::Home;

use super::list::{KnownFile, Plan};
use super::rules::LEAVES_REMAINS;
use super::store::{self, clear, remove};
use super::{Catalog, CatalogError, KnownSession, lock, replace, root_of, verify};

impl Catalog {
    /// Removes a session and its sub-agents, so that nothing of them is left in the file.
    pub fn forget(
        &mut self,
        homes: &[PathBuf],
        session: &KnownSession,
    ) -> Result<(), CatalogError> {
        self.forget_files(homes, |file| {
            file.session == session.id && file.project == session.project
        })
    }

    /// Removes the sessions that these files belong to: transcripts, or files in the folder of a
    /// session.
    pub fn forget_paths(&mut self, homes: &[Home], paths: &[&Path]) -> Result<(), CatalogError> {
        let homes: Vec<PathBuf> = homes.iter().map(root_of).collect();
        let paths: Vec<PathBuf> =
            paths.iter().map(|path| absolute(path).unwrap_or_else(|_| path.into())).collect();
        let is_named = |file: &KnownFile| {
            let folder = file.path.with_extension("");
            paths.iter().any(|path| *path == file.path || path.starts_with(&folder))
        };
        let files = self.files(&homes).map_err(|error| self.sql(error))?;
        let named = files.into_iter().filter(is_named);
        let sessions: HashSet<(PathBuf, String)> =
            named.map(|file| (file.project, file.session)).collect();
        if sessions.is_empty() {
            return Ok(());
        }
        let is_of_one = |file: &KnownFile| {
            sessions.iter().any(|(project, id)| file.project == *project && file.session == *id)
        };
        self.forget_files(&homes, is_of_one)
    }

    fn forget_files(
        &self,
        homes: &[PathBuf],
        is_unwanted: impl Fn(&KnownFile) -> bool,
    ) -> Result<(), CatalogError> {
        let _lock = lock(self.path())?;
        let db = &self.connection;
        let forget = || -> rusqlite::Result<()> {
            // Overwrites what is removed.
            db.execute_batch("PRAGMA secure_delete = ON; BEGIN IMMEDIATE")?;
            for file in self.files(homes)?.iter().filter(|file| is_unwanted(file)) {
                clear(db, file.number)?;
                remove(db, file.number)?;
            }
            db.execute_batch(LEAVES_REMAINS)?;
            db.execute_batch("COMMIT")
        };
        forget().map_err(|error| {
            // The first error says what is wrong.
            let _ = db.execute_batch("ROLLBACK");
            self.sql(error)
        })?;
        self.sweep().map_err(|error| self.sql(error))?;
        verify::remove_left(self.path());
        replace::remove_old(self.path())
    }

    /// Keeps what a person may still look for in files that are gone. Of one that was only moved,
    /// nothing is kept: it is known at its new place.
    pub(super) fn part_with(&self, plan: &Plan, homes: &[Home]) -> rusqlite::Result<()> {
        let db = &self.connection;
        let roots: Vec<PathBuf> = homes.iter().map(root_of).collect();
        let gone: HashSet<i64> = plan.gone.iter().map(|file| file.number).collect();
        let (left, present): (Vec<KnownFile>, Vec<KnownFile>) = self
            .files(&roots)?
            .into_iter()
            .partition(|file| file.is_deleted || gone.contains(&file.number));
        let mut places: HashMap<(&str, Option<&OsStr>), Vec<i64>> = HashMap::new();
        for file in &present {
            places.entry((&file.session, file.path.file_name())).or_default().push(file.number);
        }
        for file in &left {
            let places = places.get(&(file.session.as_str(), file.path.file_name()));
            if self.is_contained(file.number, places.map_or(&[], Vec::as_slice))? {
                clear(db, file.number)?;
                remove(db, file.number)?;
            } else if !file.is_deleted {
                store::forget_text(db, file)?;
            }
        }
        Ok(())
    }

    /// Whether any of the others has all messages of a file.
    fn is_contained(&self, file: i64, others: &[i64]) -> rusqlite::Result<bool> {
        if others.is_empty() {
            return Ok(false);
        }
        let messages = self.messages_of(file)?;
        for other in others {
            let known = self.messages_of(*other)?;
            let ids: HashSet<&str> = known.iter().map(|message| message.id.as_str()).collect();
            if messages.iter().all(|message| ids.contains(message.id.as_str())) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
