//! What the API's messages took, from the catalog.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::path::{Path, PathBuf};

use transcript::conversation::place::Home;
use transcript::conversation::usage::{FileMessages, Ledger, MessageUsage};
use transcript::format::threads;
use transcript::format::time::Time;

use super::list::{KnownFile, Plan};
use super::{Catalog, CatalogError, delta, root_of};

impl Catalog {
    /// All messages of the API in these homes, as the catalog has them.
    pub fn ledger(&self, homes: &[PathBuf]) -> Result<Ledger, CatalogError> {
        self.ledger_of(homes).map_err(|error| self.sql(error))
    }

    pub(crate) fn ledger_of(&self, homes: &[PathBuf]) -> rusqlite::Result<Ledger> {
        Ok(Ledger::new(self.known_messages(&self.files(homes)?)?))
    }

    /// All messages of the API in these homes, as the files are now: of files that have not
    /// changed, and of those that are gone, what the catalog has; the others are read. Nothing is
    /// written, and nobody waits until texts are indexed.
    pub fn current_ledger(&self, homes: &[Home], count: usize) -> Result<Ledger, CatalogError> {
        let sql = |error| self.sql(error);
        let changed = Plan::make(self, homes).map_err(sql)?.read;
        let (mut all, mut unreadable) = (Vec::new(), Vec::new());
        let read = |at: usize| FileMessages::read(&changed[at].0.project, &changed[at].0.path);
        let mut is_read: HashSet<&Path> = HashSet::new();
        let Ok(()) = threads::in_order(changed.len(), count, read, |at, one| {
            let path = &changed[at].0.path;
            match one {
                Ok(file) => {
                    is_read.insert(path);
                    all.push(file);
                }
                Err(error) => unreadable.push((path.clone(), error)),
            }
            Ok::<(), Infallible>(())
        });
        let roots: Vec<PathBuf> = homes.iter().map(root_of).collect();
        let mut files = self.files(&roots).map_err(sql)?;
        files.retain(|file| !is_read.contains(file.path.as_path()));
        all.extend(self.known_messages(&files).map_err(sql)?);
        Ok(Ledger { unreadable, ..Ledger::new(all) })
    }

    /// The messages of one session as its files are now, and of all sessions with something after a
    /// time as the catalog has them. Of the session, only what is new is read, and at most so many
    /// bytes; `None` if there is more.
    pub fn recent_ledger(
        &self,
        homes: &[PathBuf],
        session: &Path,
        after: Time,
        most: u64,
    ) -> Result<Option<Ledger>, CatalogError> {
        let sql = |error| self.sql(error);
        let mut files = self.files(homes).map_err(sql)?;
        let known = files.iter().find(|file| file.path == session).cloned();
        let Some(new) = delta::new_messages(session, known.as_ref(), most) else { return Ok(None) };
        let id = known.as_ref().map(|known| known.session.clone());
        files.retain(|file| {
            let is_of_session = id.as_ref().is_some_and(|id| *id == file.session);
            is_of_session || file.stamp.modified / 1_000_000 >= after.0
        });
        if new.is_whole {
            files.retain(|file| file.path != session);
        }
        let mut all = self.known_messages(&files).map_err(sql)?;
        all.push(new.messages);
        Ok(Some(Ledger::new(all)))
    }

    fn known_messages(&self, files: &[KnownFile]) -> rusqlite::Result<Vec<FileMessages>> {
        let mut messages: HashMap<i64, Vec<MessageUsage>> =
            files.iter().map(|file| (file.number, Vec::new())).collect();
        // A scan of all messages is faster than many small queries, but not than few.
        if files.len() < FEW {
            for (number, list) in &mut messages {
                self.messages_of(*number, |message| list.push(message))?;
            }
        } else {
            self.each_message(|file, _, message| {
                if let Some(list) = messages.get_mut(&file) {
                    list.push(message);
                }
            })?;
        }
        let known = files.iter().map(|file| {
            let list = messages.remove(&file.number).unwrap_or_default();
            FileMessages::known(file.counted(), list)
        });
        Ok(known.collect())
    }

    /// Remembers what the client reports of its five-hour limit: when it is reset, and how much of
    /// it is used, in percent.
    pub fn saw_limit(&self, resets: Time, used: f64, now: Time) -> Result<(), CatalogError> {
        let write = "INSERT INTO limit_seen VALUES (?1, ?3, ?2) ON CONFLICT DO UPDATE SET \
                     used = excluded.used, seen = excluded.seen";
        let values = rusqlite::params![resets.0, used, now.0];
        let written = self.connection.execute(write, values);
        written.map(|_| ()).map_err(|error| self.sql(error))
    }

    /// When the client's five-hour limits were reset, as far as it reported that.
    pub fn limits_seen(&self) -> Result<Vec<Time>, CatalogError> {
        let read = || -> rusqlite::Result<Vec<Time>> {
            let mut statement =
                self.connection.prepare_cached("SELECT resets FROM limit_seen ORDER BY resets")?;
            let rows = statement.query_map([], |row| Ok(Time(row.get(0)?)))?;
            rows.collect()
        };
        read().map_err(|error| self.sql(error))
    }
}

/// Below this number of files, their messages are asked for one file after the other.
const FEW: usize = 64;
