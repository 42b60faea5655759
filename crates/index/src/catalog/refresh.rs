//! Brings the catalog up to date with the files: reads only what is new.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use rusqlite::Connection;
use transcript::conversation::Conversation;
use transcript::conversation::place::Home;
use transcript::conversation::preview::{Preview, preview};
use transcript::conversation::usage::session_of_file;
use transcript::format::secret::Redactor;
use transcript::format::threads;

use super::delta::{self, Delta};
use super::list::{FoundFile, KnownFile, Plan};
use super::places::{self, Places};
use super::room::Room;
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

/// What reading a file gives.
enum Message {
    Piece(usize, Box<Delta>),
    Done(usize, Box<transcript::Result<Whole>>),
}

impl Message {
    /// About how many bytes of memory it takes.
    fn bytes(&self) -> u64 {
        match self {
            Message::Piece(_, delta) => (delta.to - delta.from).min(delta::PIECE as u64),
            Message::Done(..) => 1 << 10,
        }
    }
}

/// What is known of a file after it was read.
struct Whole {
    seen: Preview,
    places: Option<Places>,
}

/// How many bytes of files may wait for the writer: enough for the time that a commit takes.
const QUEUED: u64 = 48 << 20;
/// After how many bytes of files the work is committed. The text index writes what it has
/// collected with each commit, and later joins the parts: fewer are better.
const COMMITTED: u64 = 512 << 20;

impl Catalog {
    /// Reads what is new. `progress` gets the bytes that were read and those that there are.
    pub fn refresh(
        &mut self,
        work: &Work<'_>,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Refreshed, CatalogError> {
        self.follow(work.redactor)?;
        let state = || self.connection.query_row("PRAGMA data_version", [], |row| row.get(0));
        let before: i64 = state().map_err(|error| self.sql(error))?;
        let mut plan = Plan::make(self, work.homes).map_err(|error| self.sql(error))?;
        if plan.read.is_empty() && plan.gone.is_empty() {
            self.sweep().map_err(|error| self.sql(error))?;
            return Ok(Refreshed { same: plan.same, ..Refreshed::default() });
        }
        // Others wait, and then find that there is nothing to do.
        let _lock = lock(self.path())?;
        if state().map_err(|error| self.sql(error))? != before {
            plan = Plan::make(self, work.homes).map_err(|error| self.sql(error))?;
        }
        let done = self.carry_out(&plan, work, &mut progress).map_err(|error| self.sql(error))?;
        self.sweep().map_err(|error| self.sql(error))?;
        Ok(done)
    }

    fn carry_out(
        &self,
        plan: &Plan,
        work: &Work<'_>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> rusqlite::Result<Refreshed> {
        let db = &self.connection;
        db.execute_batch("BEGIN IMMEDIATE")?;
        let total = plan.read.iter().map(|(found, known)| new_bytes(found, known.as_ref())).sum();
        let done = Refreshed { same: plan.same, gone: plan.gone.len(), ..Refreshed::default() };
        let mut writer = Writer { db, plan, work, progress, total, uncommitted: 0, done };
        let written = match work.threads {
            0 | 1 => writer.write_alone(),
            threads => writer.write_from(threads.min(plan.read.len())),
        };
        // Only when everything is read, it is known what was only moved.
        match written.and_then(|()| self.part_with(plan, work.homes)) {
            Ok(()) => db.execute_batch("COMMIT")?,
            Err(error) => {
                // The first error says what is wrong.
                let _ = db.execute_batch("ROLLBACK");
                return Err(error);
            }
        }
        Ok(writer.done)
    }
}

/// Writes what is read.
struct Writer<'a> {
    db: &'a Connection,
    plan: &'a Plan,
    work: &'a Work<'a>,
    progress: &'a mut dyn FnMut(u64, u64),
    /// How many bytes are to be read.
    total: u64,
    /// How many bytes were read since the last commit.
    uncommitted: u64,
    done: Refreshed,
}

impl Writer<'_> {
    /// Reads and writes by turns.
    fn write_alone(&mut self) -> rusqlite::Result<()> {
        for at in 0..self.plan.read.len() {
            let mut written = Ok(());
            let (plan, work) = (self.plan, self.work);
            read(plan, at, work, |message| {
                written = self.take(message);
                written.is_ok()
            });
            written?;
        }
        Ok(())
    }

    /// Writes what so many threads read.
    fn write_from(&mut self, threads: usize) -> rusqlite::Result<()> {
        let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let (send, receive) = channel::<Message>();
        let (plan, work, room) = (self.plan, self.work, &Room::new(QUEUED));
        thread::scope(|scope| {
            for _ in 0..threads {
                let send = send.clone();
                let (next, is_over) = (&next, &is_over);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        if at >= plan.read.len() {
                            break;
                        }
                        read(plan, at, work, |message| {
                            room.enter(message.bytes());
                            send.send(message).is_ok()
                        });
                    }
                });
            }
            drop(send);
            let written = receive.iter().try_for_each(|message| {
                room.leave(message.bytes());
                self.take(message)
            });
            if written.is_err() {
                // The threads end when nobody receives any more.
                is_over.store(true, Ordering::Relaxed);
                drop(receive);
                room.open();
            }
            written
        })
    }

    fn take(&mut self, message: Message) -> rusqlite::Result<()> {
        match message {
            Message::Piece(at, delta) => {
                let bytes = delta.to - delta.from;
                self.uncommitted += bytes;
                self.done.bytes += bytes;
                (self.progress)(self.done.bytes, self.total);
                self.write_piece(at, &delta)?;
            }
            Message::Done(at, read) => {
                self.done.read += 1;
                self.write_end(at, *read)?;
            }
        }
        if self.uncommitted >= COMMITTED {
            self.uncommitted = 0;
            self.db.execute_batch("COMMIT; BEGIN IMMEDIATE")?;
        }
        Ok(())
    }

    fn write_piece(&self, at: usize, delta: &Delta) -> rusqlite::Result<()> {
        let (found, known) = &self.plan.read[at];
        let named = delta.messages.iter().find_map(|message| message.session.as_deref());
        let (session, is_agent) = session_of_file(&found.project, &found.path, named);
        let number = match known {
            Some(known) => known.number,
            None => store::number_of(self.db, found, &session, is_agent)?,
        };
        if named.is_some() {
            store::set_session(self.db, number, &session)?;
        }
        store::add(self.db, number, delta)
    }

    fn write_end(&mut self, at: usize, read: transcript::Result<Whole>) -> rusqlite::Result<()> {
        let (found, _) = &self.plan.read[at];
        match read {
            Ok(Whole { seen, places }) => {
                let (session, is_agent) = session_of_file(&found.project, &found.path, None);
                let number = store::number_of(self.db, found, &session, is_agent)?;
                store::finish(self.db, number, found.stamp, &seen, self.work.redactor)?;
                places.map_or(Ok(()), |places| places::write(self.db, number, found.stamp, &places))
            }
            Err(error) => {
                self.done.unreadable.push(format!("{}: {error}", found.path.display()));
                Ok(())
            }
        }
    }
}

/// Reads what is new of a file, and passes it on.
fn read(plan: &Plan, at: usize, work: &Work<'_>, mut pass: impl FnMut(Message) -> bool) {
    let (found, known) = &plan.read[at];
    let mut is_wanted = true;
    let read = delta::read(found, known.as_ref(), work.redactor, |delta| {
        is_wanted = pass(Message::Piece(at, Box::new(delta)));
        is_wanted
    });
    if is_wanted {
        let whole = read.and_then(|()| {
            let is_new = known.is_none() && found.stamp.size <= PLACED;
            let open = || Conversation::open(&found.path);
            let places = is_new.then(|| threads::alone(open)).transpose()?;
            let places = places.map(|conversation| Places::of(&conversation));
            Ok(Whole { seen: preview(&found.path)?, places })
        });
        pass(Message::Done(at, Box::new(whole)));
    }
}

/// Of longer files, the places of records are made when a search needs them: that takes memory.
const PLACED: u64 = 32 << 20;

/// How many bytes of a file are new.
fn new_bytes(found: &FoundFile, known: Option<&KnownFile>) -> u64 {
    let read = known.map_or(0, |known| known.read_to);
    if found.stamp.size >= read { found.stamp.size - read } else { found.stamp.size }
}
