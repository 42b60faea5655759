//! The sessions as the catalog knows them, without reading a file.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use transcript::conversation::preview::Preview;
use transcript::format::time::Time;

use super::{Catalog, CatalogError};

/// A session as it was when its file was read last.
#[derive(Clone, Debug)]
pub struct KnownSession {
    /// Its id.
    pub id: String,
    /// Its file.
    pub path: PathBuf,
    /// The folder of its project.
    pub project: PathBuf,
    /// The size of the file then.
    pub size: u64,
    /// When the file had been changed then.
    pub modified: SystemTime,
    /// Its file is gone.
    pub is_deleted: bool,
    /// How many prompts it has.
    pub prompts: u64,
    /// What both ends of the file show. Damage is not known.
    pub seen: Preview,
}

impl Catalog {
    /// The sessions of these homes, also deleted ones; without sub-agents.
    pub fn sessions(&self, homes: &[PathBuf]) -> Result<Vec<KnownSession>, CatalogError> {
        self.known_sessions(homes).map_err(|error| self.sql(error))
    }

    fn known_sessions(&self, homes: &[PathBuf]) -> rusqlite::Result<Vec<KnownSession>> {
        let mut all = Vec::new();
        let mut statement = self.connection.prepare_cached(
            "SELECT session, path, project, size, modified, is_deleted, prompts, title, prompt, cwd, \
             branch, version, started, ended FROM file NOT INDEXED WHERE home = ? \
             AND NOT is_agent",
        )?;
        for home in homes {
            let rows = statement.query_map([home.to_string_lossy()], |row| {
                let path = |at| Ok::<_, rusqlite::Error>(PathBuf::from(row.get::<_, String>(at)?));
                let time = |at| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(at)?.map(Time));
                let modified = u64::try_from(row.get::<_, i64>(4)?).unwrap_or_default();
                Ok(KnownSession {
                    id: row.get(0)?,
                    path: path(1)?,
                    project: path(2)?,
                    size: row.get::<_, i64>(3)?.cast_unsigned(),
                    modified: UNIX_EPOCH + Duration::from_nanos(modified),
                    is_deleted: row.get(5)?,
                    prompts: row.get::<_, i64>(6)?.cast_unsigned(),
                    seen: Preview {
                        title: row.get(7)?,
                        tag: None,
                        prompt: row.get(8)?,
                        // The catalog has only the beginning of a long one.
                        is_prompt_cut: true,
                        cwd: row.get(9)?,
                        branch: row.get(10)?,
                        version: row.get(11)?,
                        started: time(12)?,
                        ended: time(13)?,
                        troubles: Vec::new(),
                    },
                })
            })?;
            for row in rows {
                all.push(row?);
            }
        }
        Ok(all)
    }
}
