//! Delivers batches to a receiver one after the other, those that wait on disk first.
//!
//! Invariants: nothing overtakes what waits; what has arrived is recorded only after the receiver
//! has confirmed it; every batch is delivered, or in the queue, or reported to be neither; a batch
//! that was damaged while it waited is not sent.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use files::Lock;

use crate::client::{Sender, Stop};
use crate::queue::{Queue, QueueError};
use crate::receipts::States;
use crate::wire::Batch;

/// What is stored on disk for one receiver.
#[derive(Clone, Debug)]
pub struct ReceiverDir {
    /// The folder of the receiver.
    pub folder: PathBuf,
    /// What the receiver has of each session.
    pub states: States,
    /// The batches that wait for the receiver.
    pub spool: Queue,
}

impl ReceiverDir {
    /// The files of a receiver in that folder, which need not exist.
    pub fn at(folder: &Path) -> ReceiverDir {
        ReceiverDir {
            states: States::at(&folder.join("sessions")),
            spool: Queue::at(folder),
            folder: folder.to_owned(),
        }
    }

    /// Keeps other processes from shipping to the same receiver while the lock is held. Waits at
    /// most `patience` for another process; `who` is what other processes report as the holder.
    pub fn lock(&self, who: &str, patience: Duration) -> io::Result<Lock> {
        files::lock(&self.folder.join("lock"), who, patience)
    }
}

/// What to do when the receiver cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenDown {
    /// Put the batch into the queue and make no more: the sessions still exist.
    Stop,
    /// Put all batches into the queue.
    Keep,
}

/// Why delivery stopped.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The receiver.
    #[error("{0}")]
    Receiver(#[from] Stop),
    /// The disk: the batch is not stored, and has to be made again.
    #[error("{0}")]
    Queue(#[from] QueueError),
    /// A waiting batch cannot be read, set aside or removed.
    #[error("cannot move `{0}`: {1}")]
    Waiting(PathBuf, io::Error),
}

/// What was delivered, stored, refused and lost, in spans.
#[derive(Debug, Default)]
pub struct Tally {
    /// Spans that the receiver accepted.
    pub spans: usize,
    /// How many of them had waited on disk.
    pub waited: usize,
    /// Spans that were put into the queue.
    pub kept: usize,
    /// Spans that the receiver refused.
    pub refused: usize,
    /// Spans that the receiver accepted and then reported as not kept.
    pub lost: usize,
    /// Other messages for the user.
    pub notes: Vec<String>,
}

/// What happens to batches that the receiver refused before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// They are sent again: the user asked.
    TryAgain,
    /// They stay where they are.
    Leave,
}

/// Delivers batches to a receiver.
#[derive(Debug)]
pub struct Outbox<'a> {
    sender: &'a Sender,
    receiver_dir: &'a ReceiverDir,
    when_down: WhenDown,
    /// Why nothing more is sent.
    pub down: Option<Stop>,
    /// What was done so far.
    pub tally: Tally,
}

impl<'a> Outbox<'a> {
    /// An outbox that has sent nothing yet.
    pub fn new(sender: &'a Sender, receiver_dir: &'a ReceiverDir, when_down: WhenDown) -> Self {
        Outbox { sender, receiver_dir, when_down, down: None, tally: Tally::default() }
    }

    /// Delivers what waits. With [`Refused::TryAgain`], what the receiver refused before is
    /// tried once more.
    pub fn drain(&mut self, refused: Refused) -> Result<(), Trouble> {
        let spool = &self.receiver_dir.spool;
        spool.sweep();
        let refused = spool
            .refused()
            .into_iter()
            .filter(|_| refused == Refused::TryAgain)
            .map(|(path, _)| path);
        for path in refused.chain(spool.waiting()) {
            let read = spool.read(&path).map_err(|error| Trouble::Waiting(path.clone(), error))?;
            let Some(batch) = read else {
                let name = path.display();
                let note = format!(
                    "`{name}` is corrupt and was not sent; `quipu ship --all` makes it again"
                );
                self.tally.notes.push(note);
                continue;
            };
            let (before, count) = (self.tally.spans, batch.len());
            let sent = self.send(batch);
            self.tally.waited += self.tally.spans - before;
            match sent {
                // The batch stays in the queue.
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
                    Queue::remove(&path).map_err(|error| Trouble::Waiting(path.clone(), error))?;
                }
            }
        }
        Ok(())
    }

    fn put_aside(&mut self, path: &Path, stop: &Stop) -> Result<(), Trouble> {
        let failed = |error| Trouble::Waiting(path.to_owned(), error);
        if let Some(batch) = self.receiver_dir.spool.read(path).map_err(failed)? {
            self.refuse(&batch, &stop.to_string())?;
        }
        Queue::remove(path).map_err(failed)
    }

    /// Delivers a batch, or puts it into the queue.
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
        self.receiver_dir.spool.add(batch, &self.sender.target().project)?;
        self.tally.kept += batch.len();
        Ok(())
    }

    fn refuse(&mut self, batch: &Batch, why: &str) -> Result<(), Trouble> {
        self.receiver_dir.spool.refuse(batch, &self.sender.target().project, why)?;
        self.tally.refused += batch.len();
        self.tally.notes.push(why.to_owned());
        Ok(())
    }

    /// Sends a batch and records what has arrived. On failure, returns what is left of the batch.
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
                let note = "texts were cut again because the receiver found them too long";
                self.tally.notes.push(format!("{} {note}", sent.shortened));
            }
            if !sent.refused.is_empty() {
                let why = sent.why.unwrap_or_default();
                if let Err(trouble) = self.refuse(&sent.refused, &why) {
                    return Err((trouble, sent.refused));
                }
            }
        }
        // If this fails, the batch is sent again later, which does no harm: the receiver knows the
        // ids.
        if let Err(error) = self.receiver_dir.states.apply(&batch.updates) {
            let folder = self.receiver_dir.folder.display();
            self.tally.notes.push(format!("cannot record in `{folder}` what has arrived: {error}"));
        }
        Ok(())
    }
}

/// Batches are no longer accepted.
#[derive(Clone, Copy, Debug)]
pub struct Closed;

/// How many batches are made ahead of the one that is being sent.
const AHEAD: usize = 2;

/// Makes batches while others are being sent.
pub fn side_by_side<T>(
    outbox: &mut Outbox<'_>,
    work: impl FnOnce(&mut dyn FnMut(Batch) -> Result<(), Closed>) -> T,
) -> (T, Result<(), Trouble>) {
    let (give, take) = sync_channel::<Batch>(AHEAD);
    thread::scope(|scope| {
        // Ends with the first error; after that, no more batches are accepted.
        let carrier = scope.spawn(move || take.into_iter().try_for_each(|one| outbox.deliver(one)));
        let made = work(&mut |batch| give.send(batch).map_err(|_| Closed));
        drop(give);
        // A panic must not count as delivered.
        (made, carrier.join().unwrap_or_else(|broken| std::panic::resume_unwind(broken)))
    })
}

#[cfg(test)]
#[path = "outbox_tests.rs"]
mod tests;
