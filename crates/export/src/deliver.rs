//! Batches to a receiver, one after the other: those that wait on disk first.
//!
//! Invariants: nothing overtakes what waits; what is done is noted after the receiver has said so; a
//! batch that was given is delivered, or in the spool, or reported to be neither; one that waited and
//! is not as it was written is not sent.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use files::Lock;

use crate::send::{Sender, Stop};
use crate::spool::{Spool, SpoolError};
use crate::state::States;
use crate::wire::Batch;

/// What belongs to one receiver, on disk.
#[derive(Clone, Debug)]
pub struct Shelf {
    /// The folder.
    pub folder: PathBuf,
    /// What the receiver has.
    pub states: States,
    /// What waits for it.
    pub spool: Spool,
}

impl Shelf {
    /// In that folder, which need not be there.
    pub fn at(folder: &Path) -> Shelf {
        Shelf {
            states: States::at(&folder.join("sessions")),
            spool: Spool::at(folder),
            folder: folder.to_owned(),
        }
    }

    /// Keeps others from shipping to the same receiver while it is held. Whoever else holds it is
    /// waited for no longer than that; `who` is what others are told.
    pub fn lock(&self, who: &str, patience: Duration) -> io::Result<Lock> {
        files::lock(&self.folder.join("lock"), who, patience)
    }
}

/// What is done when the receiver cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenDown {
    /// The batch goes to the spool, and no more are made: the sessions are still there.
    Stop,
    /// All batches go to the spool.
    Keep,
}

/// Why no more is delivered.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The receiver.
    #[error("{0}")]
    Receiver(#[from] Stop),
    /// The disk: what was given is not kept, and has to be made again.
    #[error("{0}")]
    Spool(#[from] SpoolError),
    /// A batch that waits cannot be put aside or taken out.
    #[error("cannot move `{0}`: {1}")]
    Waiting(PathBuf, io::Error),
}

/// What was done.
#[derive(Debug, Default)]
pub struct Tally {
    /// Spans that the receiver took.
    pub spans: usize,
    /// How many of them had waited on disk.
    pub waited: usize,
    /// Spans that went to the spool.
    pub kept: usize,
    /// Spans that the receiver refused.
    pub refused: usize,
    /// Spans that the receiver took and did not keep, as it says itself.
    pub lost: usize,
    /// What else somebody should know.
    pub notes: Vec<String>,
}

/// Brings batches to a receiver.
#[derive(Debug)]
pub struct Outbox<'a> {
    sender: &'a Sender,
    shelf: &'a Shelf,
    when_down: WhenDown,
    /// Why nothing is sent any more.
    pub down: Option<Stop>,
    /// What was done so far.
    pub tally: Tally,
}

impl<'a> Outbox<'a> {
    /// Nothing is sent yet.
    pub fn new(sender: &'a Sender, shelf: &'a Shelf, when_down: WhenDown) -> Self {
        Outbox { sender, shelf, when_down, down: None, tally: Tally::default() }
    }

    /// Delivers what waits. What the receiver refused before is tried once more if a person asks.
    pub fn drain(&mut self, is_asked: bool) -> Result<(), Trouble> {
        let spool = &self.shelf.spool;
        spool.sweep();
        let refused = spool.refused().into_iter().filter(|_| is_asked).map(|(path, _)| path);
        for path in refused.chain(spool.waiting()) {
            let read = spool.read(&path).map_err(|error| Trouble::Waiting(path.clone(), error))?;
            let Some(batch) = read else {
                let name = path.display();
                let note = format!(
                    "`{name}` is not as it was written: it is not sent; `quipu ship --all` makes it again"
                );
                self.tally.notes.push(note);
                continue;
            };
            let (before, count) = (self.tally.spans, batch.len());
            let sent = self.send(batch);
            self.tally.waited += self.tally.spans - before;
            match sent {
                // It stays where it is.
                Err((Trouble::Receiver(stop), _)) => {
                    let is_final = matches!(stop, Stop::Refused(_));
                    if is_final && path.starts_with(spool.refused_folder()) {
                        self.tally.refused += count;
                        self.tally.notes.push(stop.to_string());
                    } else if is_final {
                        self.put_aside(&path, &stop)?;
                    } else {
                        self.down = Some(stop.clone());
                        return match self.when_down {
                            WhenDown::Keep => Ok(()),
                            WhenDown::Stop => Err(stop.into()),
                        };
                    }
                }
                Err((trouble, _)) => return Err(trouble),
                Ok(()) => {
                    Spool::remove(&path).map_err(|error| Trouble::Waiting(path.clone(), error))?;
                }
            }
        }
        Ok(())
    }

    fn put_aside(&mut self, path: &Path, stop: &Stop) -> Result<(), Trouble> {
        let failed = |error| Trouble::Waiting(path.to_owned(), error);
        if let Some(batch) = self.shelf.spool.read(path).map_err(failed)? {
            self.refuse(&batch, &stop.to_string())?;
        }
        Spool::remove(path).map_err(failed)
    }

    /// Delivers a batch, or puts it where it waits.
    pub fn deliver(&mut self, batch: Batch) -> Result<(), Trouble> {
        if self.down.is_some() {
            return self.keep(&batch);
        }
        match self.send(batch) {
            Ok(()) => Ok(()),
            Err((Trouble::Receiver(stop @ Stop::Refused(_)), batch)) => {
                self.refuse(&batch, &stop.to_string())?;
                Err(stop.into())
            }
            Err((Trouble::Receiver(stop), batch)) => {
                self.down = Some(stop.clone());
                self.keep(&batch)?;
                match self.when_down {
                    WhenDown::Keep => Ok(()),
                    WhenDown::Stop => Err(stop.into()),
                }
            }
            Err((trouble, _)) => Err(trouble),
        }
    }

    fn keep(&mut self, batch: &Batch) -> Result<(), Trouble> {
        self.shelf.spool.add(batch, &self.sender.target().project)?;
        self.tally.kept += batch.len();
        Ok(())
    }

    fn refuse(&mut self, batch: &Batch, why: &str) -> Result<(), Trouble> {
        self.shelf.spool.refuse(batch, &self.sender.target().project, why)?;
        self.tally.refused += batch.len();
        self.tally.notes.push(why.to_owned());
        Ok(())
    }

    /// Sends a batch, and notes what is done then. If that fails, what is left of it comes back.
    fn send(&mut self, mut batch: Batch) -> Result<(), (Trouble, Batch)> {
        let count = batch.len();
        if count > 0 {
            let sent = match self.sender.send(&mut batch) {
                Ok(sent) => sent,
                Err(stop) => {
                    self.tally.spans += count - batch.len();
                    return Err((stop.into(), batch));
                }
            };
            self.tally.spans += count - sent.refused.len();
            self.tally.lost += sent.lost;
            self.tally.notes.extend(sent.warning);
            if sent.shortened > 0 {
                let note = "texts were cut once more, because the receiver finds them too long";
                self.tally.notes.push(format!("{} {note}", sent.shortened));
            }
            if !sent.refused.is_empty() {
                let why = sent.why.unwrap_or_default();
                if let Err(trouble) = self.refuse(&sent.refused, &why) {
                    return Err((trouble, sent.refused));
                }
            }
        }
        // Whoever sends it again because this failed does no harm: the receiver knows the ids.
        if let Err(error) = self.shelf.states.apply(&batch.updates) {
            let folder = self.shelf.folder.display();
            self.tally.notes.push(format!("cannot note in `{folder}` what has arrived: {error}"));
        }
        Ok(())
    }
}

/// Nobody takes batches any more.
#[derive(Clone, Copy, Debug)]
pub struct Closed;

/// So many batches are made ahead of the one that is on its way.
const AHEAD: usize = 2;

/// Makes batches while others are on their way.
pub fn side_by_side<T>(
    outbox: &mut Outbox<'_>,
    work: impl FnOnce(&mut dyn FnMut(Batch) -> Result<(), Closed>) -> T,
) -> (T, Result<(), Trouble>) {
    let (give, take) = sync_channel::<Batch>(AHEAD);
    thread::scope(|scope| {
        // Ends with the first trouble, and nothing more can be given then.
        let carrier = scope.spawn(move || take.into_iter().try_for_each(|one| outbox.deliver(one)));
        let made = work(&mut |batch| give.send(batch).map_err(|_| Closed));
        drop(give);
        // Who breaks down has not delivered.
        (made, carrier.join().unwrap_or_else(|broken| std::panic::resume_unwind(broken)))
    })
}

#[cfg(test)]
#[path = "deliver_tests.rs"]
mod tests;
