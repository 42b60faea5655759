//! What the API's messages took, from the catalog.

use std::collections::HashMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::Duration;

use transcript::Session;
use transcript::conversation::place::{Home, agents};
use transcript::conversation::usage::{FileMessages, Ledger};
use transcript::format::threads;
use transcript::format::time::Time;

use super::list::{KnownFile, Plan};
use super::messages::{MessageList, damaged};
use super::{Catalog, CatalogError, delta};

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
        self.ledger_as_it_is(homes, count, Gone::Counts)
    }

    /// The same without files that are gone.
    pub fn present_ledger(&self, homes: &[Home], count: usize) -> Result<Ledger, CatalogError> {
        self.ledger_as_it_is(homes, count, Gone::LeftOut)
    }

    fn ledger_as_it_is(
        &self,
        homes: &[Home],
        count: usize,
        of_gone: Gone,
    ) -> Result<Ledger, CatalogError> {
        let sql = |error| self.sql(error);
        let Plan { read: changed, gone, kept, .. } = Plan::make(self, homes).map_err(sql)?;
        let (mut all, mut unreadable) = (Vec::new(), Vec::new());
        let gone = gone.into_iter().map(|file| KnownFile { is_deleted: true, ..file });
        let counts = |file: &KnownFile| of_gone == Gone::Counts || !file.is_deleted;
        let mut known: Vec<KnownFile> = kept.into_iter().chain(gone).filter(counts).collect();
        let read = |at: usize| FileMessages::read(&changed[at].0.project, &changed[at].0.path);
        let Ok(()) = threads::in_order(changed.len(), count, read, |at, one| {
            let (found, before) = &changed[at];
            match one {
                Ok(file) => all.push(file),
                Err(error) => {
                    known.extend(before.clone());
                    unreadable.push((found.path.clone(), error));
                }
            }
            Ok::<(), Infallible>(())
        });
        all.extend(self.known_messages(&known).map_err(sql)?);
        Ok(Ledger { unreadable, ..Ledger::new(all) })
    }

    /// The messages of one session as its files are now, and of all sessions with something after a
    /// time, and of the one that it was copied from, as the catalog has them. Of the session, only
    /// what is new is read, and at most so many bytes; `None` if there is more.
    pub fn recent_ledger(
        &self,
        homes: &[PathBuf],
        session: &Path,
        after: Time,
        most: u64,
    ) -> Result<Option<Ledger>, CatalogError> {
        let sql = |error| self.sql(error);
        let mut paths = vec![session.to_owned()];
        if let Ok(session) = Session::at(session) {
            paths.extend(agents(&session).into_iter().map(|agent| agent.path));
        }
        let mut files = self.recent_files(homes, after.0).map_err(sql)?;
        let (mut new, mut left) = (Vec::new(), most);
        let (mut origins, mut replaced) = (Vec::new(), Vec::new());
        for path in &paths {
            let known = self.file_at(path).map_err(sql)?;
            let project = session.parent().unwrap_or(session);
            let read = delta::new_messages(project, path, known.as_ref(), left);
            let Some(read) = read else { return Ok(None) };
            left = left.saturating_sub(read.bytes);
            if read.is_whole {
                replaced.push(path);
            }
            if let Some(known) = known {
                origins.extend(self.origin_of(known.number).map_err(sql)?);
                origins.push(known.session);
            }
            new.push(read.messages);
        }
        origins.sort();
        origins.dedup();
        for origin in &origins {
            files.extend(self.files_of_session(homes, origin).map_err(sql)?);
        }
        files.sort_by_key(|file| file.number);
        files.dedup_by_key(|file| file.number);
        files.retain(|file| !replaced.contains(&&file.path));
        new.extend(self.known_messages(&files).map_err(sql)?);
        Ok(Some(Ledger::new(new)))
    }

    /// The session that a file says it was copied from.
    fn origin_of(&self, file: i64) -> rusqlite::Result<Option<String>> {
        let mut statement =
            self.connection.prepare_cached("SELECT forked_from FROM file WHERE number = ?")?;
        statement.query_row([file], |row| row.get(0))
    }

    /// Waits no longer for other processes than this.
    pub fn set_patience(&self, patience: Duration) -> Result<(), CatalogError> {
        self.connection.busy_timeout(patience).map_err(|error| self.sql(error))
    }

    fn known_messages(&self, files: &[KnownFile]) -> rusqlite::Result<Vec<FileMessages>> {
        // A scan of all messages is faster than many small queries, but not than few.
        if files.len() < FEW {
            let known = files.iter().map(|file| {
                Ok(FileMessages::known(file.counted(), self.messages_of(file.number)?))
            });
            return known.collect();
        }
        let lists: HashMap<i64, MessageList> = self.message_lists()?.into_iter().collect();
        let mut known = Vec::with_capacity(files.len());
        let groups: Vec<&[KnownFile]> = files.chunks(GROUP).collect();
        let unpack = |at: usize| {
            let unpacked = groups[at].iter().map(|file| {
                let messages = lists.get(&file.number).map(|list| list.list().ok_or_else(damaged));
                let messages = messages.transpose()?.unwrap_or_default();
                Ok(FileMessages::known(file.counted(), messages))
            });
            unpacked.collect::<rusqlite::Result<Vec<FileMessages>>>()
        };
        threads::in_order(groups.len(), threads::count(), unpack, |_, group| {
            known.extend(group?);
            Ok::<(), rusqlite::Error>(())
        })?;
        Ok(known)
    }

    /// Remembers what the client of a home reports of its five-hour limit: when it is reset, and
    /// how much of it is used, in percent.
    pub fn saw_limit(
        &self,
        home: &Path,
        resets: Time,
        used: f64,
        now: Time,
    ) -> Result<(), CatalogError> {
        let write = "INSERT INTO limit_seen VALUES (?1, ?2, ?4, ?3) ON CONFLICT DO UPDATE SET \
                     used = excluded.used, seen = excluded.seen";
        let values = rusqlite::params![home.to_string_lossy(), resets.0, used, now.0];
        let written = self.connection.execute(write, values);
        written.map(|_| ()).map_err(|error| self.sql(error))
    }

    /// When the five-hour limits of the clients of these homes were reset, as far as they reported
    /// that, in order.
    pub fn limits_seen(&self, homes: &[PathBuf]) -> Result<Vec<Time>, CatalogError> {
        let read = || -> rusqlite::Result<Vec<Time>> {
            let read = "SELECT resets FROM limit_seen WHERE home = ?";
            let mut statement = self.connection.prepare_cached(read)?;
            let mut all = Vec::new();
            for home in homes {
                let rows =
                    statement.query_map([home.to_string_lossy()], |row| Ok(Time(row.get(0)?)))?;
                all.extend(rows.collect::<rusqlite::Result<Vec<Time>>>()?);
            }
            all.sort_unstable();
            all.dedup();
            Ok(all)
        };
        read().map_err(|error| self.sql(error))
    }
}

/// Whether files that only the catalog knows count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gone {
    Counts,
    LeftOut,
}

/// Below this number of files, their messages are asked for one file after the other.
const FEW: usize = 64;
/// The messages of so many files are unpacked at a time.
const GROUP: usize = 128;
