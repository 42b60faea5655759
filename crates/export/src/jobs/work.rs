//! The work that a hook starts: ships what is new in its session.
//!
//! Invariants: one process works for a receiver, and no process waits for it: a hook that finds it
//! at work leaves its job to it, and it looks again after it has released the lock. A job that
//! cannot be done, or never ends, costs the others the time of one attempt at most, and is set
//! aside after a few attempts.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::{self, sleep};
use std::time::{Duration, Instant, SystemTime};

use files::Lock;
use transcript::conversation::ingest::{Closing, is_complete, is_left, sessions_before};
use transcript::conversation::place::Session;

use super::job::{self, Aside, Next, NotTaken, SetAside, Work};
use crate::client::{Sender, Stop};
use crate::outbox::{Outbox, Refused, Trouble, WhenDown, side_by_side};
use crate::receiver::{Receiver, ResolveError, TakenOver, Trust};
use crate::ship::{Made, Repeat, ShipError, Shipper};

/// How long a file must not grow before it is read.
const QUIET: Duration = Duration::from_millis(300);
/// How long to wait for the last lines.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often a request is retried.
const TRIES: u32 = 5;
/// After this long without a span, a job hangs. A receiver that asks for two minutes before each of
/// [`TRIES`], and answers slowly, does not reach it.
const LONGEST: Duration = Duration::from_secs(15 * 60);

/// What the work needs of the program that does it.
pub struct Surroundings<'a> {
    /// The current time; the work may take long.
    pub clock: Box<dyn Fn() -> SystemTime + 'a>,
    /// The client's home, where the cc-langfuse hook keeps its state.
    pub home: PathBuf,
    /// What other processes report as the holder of the lock.
    pub who: String,
    /// How clients trust the certificates in a file.
    pub trust: Trust,
}

impl fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (home, who) = (&self.home, &self.who);
        let mut shown = f.debug_struct("Surroundings");
        shown.field("home", home).field("who", who).finish_non_exhaustive()
    }
}

/// What happened while jobs were done, for the log.
#[derive(Debug)]
pub enum Notice {
    /// A job was set aside before anything was done for it.
    NotTaken(NotTaken),
    /// What the cc-langfuse hook has sent was imported, or could not be.
    TakenOver(TakenOver),
    /// A message about the batches that waited.
    Waited(String),
    /// A job was tried.
    Tried {
        /// The session that the job is about.
        session: String,
        /// What was done, or why nothing could be.
        what: String,
        /// What happens to the job now.
        next: Next,
    },
}

/// Why jobs are not done. Those that are not done stay where they are.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// The folder of the receiver cannot be written to.
    #[error("cannot write `{}`", path.display())]
    Unwritable {
        /// The folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// There is no client that could send.
    #[error("{0}")]
    Receiver(#[from] ResolveError),
    /// The batches that waited can neither be delivered nor be kept.
    #[error("{0}")]
    Undelivered(#[from] Trouble),
    /// A job makes no progress.
    #[error("{session}: given up after {minutes} minutes without progress")]
    Hangs {
        /// The session that the job is about.
        session: String,
        /// How long it was waited for.
        minutes: u64,
    },
}

/// Does the jobs that hooks left to the process that ships to the receiver, if there are any; then
/// returns the jobs that are set aside.
pub fn do_left(
    receiver: &Arc<Receiver>,
    aside: SetAside,
    surroundings: &Surroundings<'_>,
    report: &mut dyn FnMut(Notice),
) -> Result<Vec<Aside>, WorkError> {
    let receiver_dir = &receiver.dir;
    let before = job::set_aside(receiver_dir);
    if job::has_new(receiver_dir)
        || aside == SetAside::TryAgain && job::waiting(receiver_dir) + before.len() > 0
    {
        do_all(receiver, aside, surroundings, report)?;
    }
    Ok(job::set_aside(receiver_dir))
}

/// Does the jobs of hooks, until no new ones are left.
pub fn do_all(
    receiver: &Arc<Receiver>,
    mut aside: SetAside,
    surroundings: &Surroundings<'_>,
    report: &mut dyn FnMut(Notice),
) -> Result<(), WorkError> {
    while round(receiver, aside, surroundings, report)? == Left::New {
        aside = SetAside::Leave;
    }
    Ok(())
}

/// Whether there is something left for us to do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    /// Jobs that arrived meanwhile; the hooks that brought them found us at work and left.
    New,
}

fn unwritable(receiver: &Receiver) -> impl Fn(io::Error) -> WorkError {
    let path = receiver.dir.folder.clone();
    move |source| WorkError::Unwritable { path: path.clone(), source }
}

fn round(
    receiver: &Arc<Receiver>,
    aside: SetAside,
    surroundings: &Surroundings<'_>,
    report: &mut dyn FnMut(Notice),
) -> Result<Left, WorkError> {
    let receiver_dir = &receiver.dir;
    let unwritable = unwritable(receiver);
    let lock = receiver_dir.lock(&surroundings.who, Duration::ZERO).map_err(&unwritable)?;
    let Lock::Held(held) = lock else { return Ok(Left::Nothing) };
    let (found, not_taken) = job::take(receiver_dir, aside).map_err(&unwritable)?;
    for job in not_taken {
        report(Notice::NotTaken(job));
    }
    if !found.is_empty() {
        each(receiver, found, surroundings, report)?;
    }
    drop(held);
    Ok(if job::has_new(receiver_dir) { Left::New } else { Left::Nothing })
}

/// Does the jobs, one after the other.
fn each(
    receiver: &Arc<Receiver>,
    found: Vec<Work>,
    surroundings: &Surroundings<'_>,
    report: &mut dyn FnMut(Notice),
) -> Result<(), WorkError> {
    let receiver_dir = &receiver.dir;
    let unwritable = unwritable(receiver);
    if let Some(taken_over) = receiver.take_over(&surroundings.home) {
        report(Notice::TakenOver(taken_over));
    }
    let mut sender = receiver.sender(surroundings.trust)?;
    sender.tries(TRIES);
    let sender = Arc::new(sender);
    // Batches that wait are sent first; they belong to no job.
    let mut outbox = Outbox::new(&sender, receiver_dir, WhenDown::Keep);
    let drained = outbox.drain(Refused::Leave);
    outbox.tally.notes.drain(..).for_each(|note| report(Notice::Waited(note)));
    drained?;
    // A receiver that is down for one job is down for all: their spans go to the queue on disk.
    let mut down = outbox.down;
    let start = Instant::now();
    for mut work in found {
        work.begin().map_err(&unwritable)?;
        let (session, now) = (work.session.clone(), (surroundings.clock)());
        let (theirs, their_sender) = (Arc::clone(receiver), Arc::clone(&sender));
        let outcome = within(LONGEST, move |alive| {
            wait_for_last_lines(&work, start);
            let outcome = ship(&theirs, &their_sender, &work, now, down, alive);
            (work, outcome)
        });
        let Some((mut work, outcome)) = outcome else {
            // The lock ends with this process, and so does the thread that hangs; the attempt stays
            // counted.
            return Err(WorkError::Hangs { session, minutes: LONGEST.as_secs() / 60 });
        };
        let what = outcome.parts.join("; ");
        let next = match outcome.end {
            End::Done => {
                work.done();
                Next::Done
            }
            End::Unreadable => work.failed(receiver_dir, &what).map_err(&unwritable)?,
            End::Undelivered => {
                work.take_back().map_err(&unwritable)?;
                Next::TryAgain
            }
        };
        down = outcome.down;
        report(Notice::Tried { session, what, next });
    }
    Ok(())
}

/// Runs the work in a thread of its own, which reports again and again that it is alive; `None` if
/// it has not for that long. A thread that hangs ends only with the process.
fn within<T: Send + 'static>(
    longest: Duration,
    work: impl FnOnce(&dyn Fn()) -> T + Send + 'static,
) -> Option<T> {
    let (tell, hear) = channel::<Option<T>>();
    let worker = thread::spawn(move || {
        let alive = tell.clone();
        // Nothing receives these if it took too long.
        let made = work(&|| drop(alive.send(None)));
        let _ = tell.send(Some(made));
    });
    loop {
        match hear.recv_timeout(longest) {
            Ok(None) => {}
            Ok(made) => return made,
            Err(RecvTimeoutError::Timeout) => return None,
            // The thread panicked before it was done.
            Err(RecvTimeoutError::Disconnected) => match worker.join() {
                Err(broken) => std::panic::resume_unwind(broken),
                Ok(()) => return None,
            },
        }
    }
}

/// Waits for the lines that the client writes late. All jobs were reported before the start: a job
/// that had to wait for others has waited enough.
fn wait_for_last_lines(work: &Work, start: Instant) {
    let (mut last, mut since) = (work.size(), Instant::now());
    let mut looked = None;
    while start.elapsed() < PATIENCE {
        // The last line may come after a pause: a file that is quiet but incomplete is waited for.
        if since.elapsed() >= QUIET && looked != Some(last) {
            looked = Some(last);
            let is_complete = || is_complete(&Session::at(work.transcript())?);
            if !work.is_turn() || is_complete().unwrap_or(true) {
                return;
            }
        }
        sleep(QUIET / 3);
        if work.size() != last {
            (last, since) = (work.size(), Instant::now());
        }
    }
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Done,
    /// The session cannot be read.
    Unreadable,
    /// Its spans are neither delivered nor in the queue.
    Undelivered,
}

struct Shipped {
    end: End,
    /// What was done, in words.
    parts: Vec<String>,
    /// Why nothing is sent any more.
    down: Option<Stop>,
}

fn ship(
    receiver: &Receiver,
    sender: &Sender,
    work: &Work,
    now: SystemTime,
    down: Option<Stop>,
    alive: &dyn Fn(),
) -> Shipped {
    let session = match Session::at(work.transcript()) {
        Ok(session) => session,
        Err(error) => {
            let parts = vec![unreadable(work.transcript(), error.cause())];
            return Shipped { end: End::Unreadable, parts, down };
        }
    };
    let receiver_dir = &receiver.dir;
    let mut outbox = Outbox::new(sender, receiver_dir, WhenDown::Keep);
    outbox.down = down;
    let mut made = Made::default();
    let (mut unread, mut unread_older) = (Vec::new(), Vec::new());
    let ((), delivered) = side_by_side(&mut outbox, |give| {
        let mut shipper =
            Shipper::new(receiver_dir, &receiver.telling, &receiver.ids, Repeat::Never, None);
        // No hook reported the end of these; that another session continues them shows it.
        let older = sessions_before(&session).into_iter().map(|older| {
            let is_left = is_left(&older, &session);
            (older, if is_left { Closing::ended() } else { Closing::default() })
        });
        for (one, closing) in older.chain([(session.clone(), work.closing.clone())]) {
            match shipper.session(&one, &closing, now, give, &|_| alive()) {
                Ok(more) => made.add(more),
                Err(ShipError::Closed) => return,
                // A session that this one continues is not part of the job: it does not delay this
                // one.
                Err(ShipError::Read(error)) if one.path == session.path => {
                    unread.push(unreadable(&one.path, error.cause()));
                }
                Err(ShipError::Read(error)) => {
                    unread_older.push(unreadable(&one.path, error.cause()));
                }
            }
        }
        // The side that closed the channel reports why.
        let _ = shipper.finish(give);
    });
    let tally = &outbox.tally;
    let mut parts = vec![format!("sent {} spans", tally.spans)];
    for (count, what) in [
        (tally.kept, "spans wait on disk"),
        (tally.refused, "spans were refused"),
        (made.unfinished, "turns or runs are not finished"),
    ] {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    }
    parts.extend(outbox.down.iter().map(ToString::to_string));
    parts.extend(tally.notes.iter().chain(&unread_older).cloned());
    parts.extend(delivered.as_ref().err().map(ToString::to_string));
    let end = match delivered {
        _ if !unread.is_empty() => End::Unreadable,
        Ok(()) => End::Done,
        Err(_) => End::Undelivered,
    };
    if end == End::Unreadable {
        // A job that is set aside says why, not how many spans were sent.
        parts = unread;
    }
    Shipped { end, parts, down: outbox.down }
}

fn unreadable(path: &Path, error: &io::Error) -> String {
    format!("cannot read `{}`: {error}", path.display())
}

#[cfg(test)]
#[path = "work_tests.rs"]
mod tests;
