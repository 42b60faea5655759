//! Removes what is known of a session whose file is gone.

use std::path::PathBuf;

use super::store::{clear, remove};
use super::{Catalog, CatalogError, lock};

/// A session that the catalog knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownSession {
    /// Its id.
    pub id: String,
    /// The folder of its project.
    pub project: PathBuf,
    /// All its files are gone.
    pub is_deleted: bool,
}

impl Catalog {
    /// The sessions of these homes whose ids begin like this.
    pub fn sessions_named(
        &self,
        homes: &[PathBuf],
        start: &str,
    ) -> Result<Vec<KnownSession>, CatalogError> {
        let files = self.files(homes).map_err(|error| self.sql(error))?;
        let mut found: Vec<KnownSession> = Vec::new();
        for file in files.into_iter().filter(|file| file.session.starts_with(start)) {
            let same =
                found.iter_mut().find(|one| one.id == file.session && one.project == file.project);
            match same {
                Some(one) => one.is_deleted &= file.is_deleted,
                None => found.push(KnownSession {
                    id: file.session,
                    project: file.project,
                    is_deleted: file.is_deleted,
                }),
            }
        }
        Ok(found)
    }

    /// Removes a session and its sub-agents, so that nothing of them is left in the file.
    pub fn forget(
        &mut self,
        homes: &[PathBuf],
        session: &KnownSession,
    ) -> Result<(), CatalogError> {
        let _lock = lock(self.path())?;
        let forget = || -> rusqlite::Result<()> {
            let db = &self.connection;
            // Overwrites what is removed.
            db.execute_batch("PRAGMA secure_delete = ON; BEGIN IMMEDIATE")?;
            for file in self.files(homes)? {
                if file.session == session.id && file.project == session.project {
                    clear(db, file.number)?;
                    remove(db, file.number)?;
                }
            }
            // Words of removed texts stay until the index is merged.
            db.execute_batch(
                "INSERT INTO text (text) VALUES ('optimize'); COMMIT; \
                 PRAGMA wal_checkpoint(TRUNCATE);",
            )
        };
        forget().map_err(|error| {
            // The first error says what is wrong.
            let _ = self.connection.execute_batch("ROLLBACK");
            self.sql(error)
        })
    }
}
