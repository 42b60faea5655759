//! Brings the catalog up to date with the files: reads only what is new.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;

use transcript::conversation::place::Home;
use transcript::conversation::preview::{Preview, preview};
use transcript::conversation::usage::session_of_file;
use transcript::format::secret::Redactor;

use super::delta::{self, Delta};
use super::list::{FoundFile, KnownFile, Plan};
use super::{Catalog, CatalogError, lock, store};

/// How a refresh is done.
#[derive(Debug)]
pub struct Work<'a> {
    /// The homes whose sessions are wanted.
    pub homes: &'a [Home],
    /// Finds what must not be in the catalog.
    pub redactor: &'a Redactor,
    /// How many files are read at once.
    pub threads: usize,
}

/// What a refresh did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refreshed {
    /// How many files were read, as a whole or in part.
    pub read: usize,
    /// How many bytes were read.
    pub bytes: u64,
    /// How many files have not changed.
    pub same: usize,
    /// How many files are gone.
    pub gone: usize,
    /// Files that cannot be read, and why.
    pub unreadable: Vec<String>,
}

/// What a thread passes on.
enum Message {
    Piece(usize, Box<Delta>),
    Done(usize, Box<transcript::Result<Preview>>),
}

/// After how many bytes of files the work is committed.
const COMMITTED: u64 = 64 << 20;

impl Catalog {
    /// Reads what is new. `progress` gets the bytes that were read and those that there are.
    pub fn refresh(
        &mut self,
        work: &Work<'_>,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Refreshed, CatalogError> {
        let plan = Plan::make(self, work.homes).map_err(|error| self.sql(error))?;
        if plan.read.is_empty() && plan.gone.is_empty() {
            return Ok(Refreshed { same: plan.same, ..Refreshed::default() });
        }
        // Others wait, and then find that there is nothing to do.
        let _lock = lock(self.path())?;
        let plan = Plan::make(self, work.homes).map_err(|error| self.sql(error))?;
        self.carry_out(&plan, work, &mut progress).map_err(|error| self.sql(error))
    }

    fn carry_out(
        &self,
        plan: &Plan,
        work: &Work<'_>,
        progress: &mut impl FnMut(u64, u64),
    ) -> rusqlite::Result<Refreshed> {
        let db = &self.connection;
        let mut done = Refreshed { same: plan.same, gone: plan.gone.len(), ..Refreshed::default() };
        db.execute_batch("BEGIN IMMEDIATE")?;
        for file in &plan.gone {
            store::forget_text(db, file)?;
        }
        let total = plan.read.iter().map(|(found, known)| new_bytes(found, known.as_ref())).sum();
        let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let (send, receive) = sync_channel::<Message>(work.threads * 2);
        let outcome = thread::scope(|scope| {
            for _ in 0..work.threads.clamp(1, plan.read.len().max(1)) {
                let send = send.clone();
                let (next, is_over) = (&next, &is_over);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some((found, known)) = plan.read.get(at) else { break };
                        let pass = |delta| send.send(Message::Piece(at, Box::new(delta))).is_ok();
                        let read = delta::read(found, known.as_ref(), work.redactor, pass);
                        let seen = read.and_then(|()| preview(&found.path));
                        if send.send(Message::Done(at, Box::new(seen))).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(send);
            let mut open = 0;
            for message in receive {
                let written = match message {
                    Message::Piece(at, delta) => {
                        open += delta.to - delta.from;
                        done.bytes += delta.to - delta.from;
                        progress(done.bytes, total);
                        self.write_piece(&plan.read[at], &delta)
                    }
                    Message::Done(at, seen) => {
                        done.read += 1;
                        self.write_end(&plan.read[at].0, *seen, work, &mut done)
                    }
                };
                let committed = written.and_then(|()| {
                    if open < COMMITTED {
                        return Ok(());
                    }
                    open = 0;
                    db.execute_batch("COMMIT; BEGIN IMMEDIATE")
                });
                if let Err(error) = committed {
                    // The threads end when nobody receives any more.
                    is_over.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
            Ok(())
        });
        match outcome {
            Ok(()) => db.execute_batch("COMMIT")?,
            Err(error) => {
                // The first error says what is wrong.
                let _ = db.execute_batch("ROLLBACK");
                return Err(error);
            }
        }
        Ok(done)
    }

    fn write_piece(
        &self,
        (found, known): &(FoundFile, Option<KnownFile>),
        delta: &Delta,
    ) -> rusqlite::Result<()> {
        let db = &self.connection;
        let named = delta.messages.iter().find_map(|message| message.session.as_deref());
        let (session, is_agent) = session_of_file(&found.project, &found.path, named);
        let number = match known {
            Some(known) => known.number,
            None => store::number_of(db, found, &session, is_agent)?,
        };
        if named.is_some() {
            store::set_session(db, number, &session)?;
        }
        store::add(db, number, delta)
    }

    fn write_end(
        &self,
        found: &FoundFile,
        seen: transcript::Result<Preview>,
        work: &Work<'_>,
        done: &mut Refreshed,
    ) -> rusqlite::Result<()> {
        let db = &self.connection;
        match seen {
            Ok(seen) => {
                let (session, is_agent) = session_of_file(&found.project, &found.path, None);
                let number = store::number_of(db, found, &session, is_agent)?;
                store::finish(db, number, found.stamp, &seen, work.redactor)
            }
            Err(error) => {
                done.unreadable.push(format!("{}: {error}", found.path.display()));
                Ok(())
            }
        }
    }
}

/// How many bytes of a file are new.
fn new_bytes(found: &FoundFile, known: Option<&KnownFile>) -> u64 {
    let read = known.map_or(0, |known| known.read_to);
    if found.stamp.size >= read { found.stamp.size - read } else { found.stamp.size }
}
