//! Removes what is known of a session whose file is gone.

use std::path::PathBuf;

use super::rules::overwrite;
use super::store::{clear, remove};
use super::{Catalog, CatalogError, KnownSession, lock};

impl Catalog {
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
            db.execute_batch("COMMIT")?;
            overwrite(db)
        };
        forget().map_err(|error| {
            // The first error says what is wrong.
            let _ = self.connection.execute_batch("ROLLBACK");
            self.sql(error)
        })
    }
}
