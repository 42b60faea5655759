//! The work that a hook starts: ships what is new in its session.
//!
//! Invariants: one process works for a receiver, and nobody waits for it: whoever finds it at work
//! leaves its job to it, and it looks again after it has let go; a job that cannot be done, or
//! takes for ever, costs the others an attempt's time at most, and is set aside after a few.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::{self, sleep};
use std::time::{Duration, Instant, SystemTime};

use export::deliver::{Outbox, WhenDown, side_by_side};
use export::plan::Closing;
use export::send::{Sender, Stop};
use export::ship::{Made, ShipError, Shipper, before, is_left, is_settled};
use files::Lock;
use transcript::place::Session;

use super::job::{self, SetAside, Work};
use super::log;
use super::stop::StopArgs;
use crate::command::ship::take_over;
use crate::failure::Failure;
use crate::receiver::Receiver;
use crate::world::World;

/// So long a file must not grow before it is read.
const QUIET: Duration = Duration::from_millis(300);
/// So long the last lines are waited for.
const PATIENCE: Duration = Duration::from_secs(3);
/// So often a request is tried again.
const TRIES: u32 = 5;
/// After so long without a span a job has hung. A receiver that asks for two minutes before each of
/// [`TRIES`], and takes its time to answer, has not.
const LONGEST: Duration = Duration::from_secs(15 * 60);

pub(super) fn work(world: &mut World, args: &StopArgs) -> Result<(), Failure> {
    let receiver = Arc::new(Receiver::find(world, &args.receiver)?);
    all(world, &receiver, SetAside::Leave)
}

/// Does what hooks were told, until nothing new is left.
pub(in crate::command) fn all(
    world: &World,
    receiver: &Arc<Receiver>,
    mut aside: SetAside,
) -> Result<(), Failure> {
    while round(world, receiver, aside).inspect_err(|failure| {
        log::write(world, &format!("work: {failure}"));
    })? == Left::New
    {
        aside = SetAside::Leave;
    }
    Ok(())
}

/// Whether there is something left to do for us.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    /// Jobs that came meanwhile; whoever brought them found us at work and left.
    New,
}

fn round(world: &World, receiver: &Arc<Receiver>, aside: SetAside) -> Result<Left, Failure> {
    let shelf = &receiver.shelf;
    let unwritable = |error| Failure::unwritable(&shelf.folder, error);
    let who = format!("process {} (quipu hook)", std::process::id());
    let Lock::Held(held) = shelf.lock(&who, Duration::ZERO).map_err(unwritable)? else {
        return Ok(Left::Nothing);
    };
    let (found, notes) = job::take(shelf, aside).map_err(unwritable)?;
    for note in notes {
        log::write(world, &note);
    }
    if !found.is_empty() {
        each(world, receiver, found)?;
    }
    drop(held);
    Ok(if job::has_new(shelf) { Left::New } else { Left::Nothing })
}

/// Does the jobs, one after the other.
fn each(world: &World, receiver: &Arc<Receiver>, found: Vec<Work>) -> Result<(), Failure> {
    let shelf = &receiver.shelf;
    let unwritable = |error| Failure::unwritable(&shelf.folder, error);
    if let Some(note) = take_over(world, receiver) {
        log::write(world, &note);
    }
    let mut sender = receiver.sender()?;
    sender.tries(TRIES);
    let sender = Arc::new(sender);
    // What waits goes first, and is nobody's job.
    let mut outbox = Outbox::new(&sender, shelf, WhenDown::Keep);
    let drained = outbox.drain(false);
    for note in &outbox.tally.notes {
        log::write(world, note);
    }
    drained.map_err(|trouble| Failure::undelivered(trouble.to_string(), None))?;
    // Whoever is away for one is away for all: what is made goes to the spool.
    let mut down = outbox.down;
    let start = Instant::now();
    for mut work in found {
        work.begin().map_err(unwritable)?;
        let (session, now) = (work.session.clone(), world.clock());
        let (theirs, their_sender) = (Arc::clone(receiver), Arc::clone(&sender));
        let outcome = within(LONGEST, move |alive| {
            settle(&work, start);
            let outcome = ship(&theirs, &their_sender, &work, now, down, alive);
            (work, outcome)
        });
        let Some((mut work, outcome)) = outcome else {
            // The lock goes with this process, and so does whoever hangs; the job has its attempt.
            let minutes = LONGEST.as_secs() / 60;
            let message = format!("{session}: given up after {minutes} minutes without progress");
            return Err(Failure::undelivered(message, None));
        };
        let text = outcome.parts.join("; ");
        let text = match outcome.end {
            End::Done => {
                work.done();
                text
            }
            End::Unreadable => {
                let next = work.failed(shelf, &text).map_err(unwritable)?;
                format!("{text}; {next}")
            }
            End::Undelivered => {
                work.take_back().map_err(unwritable)?;
                format!("{text}; it is tried again with the next hook")
            }
        };
        down = outcome.down;
        log::write(world, &format!("{}: {text}", work.session));
    }
    Ok(())
}

/// Does something in a thread of its own, which says again and again that it is alive; nothing if
/// it has not for that long. Whoever hangs cannot be ended but with the process.
fn within<T: Send + 'static>(
    longest: Duration,
    work: impl FnOnce(&dyn Fn()) -> T + Send + 'static,
) -> Option<T> {
    let (tell, hear) = channel::<Option<T>>();
    let worker = thread::spawn(move || {
        let alive = tell.clone();
        // Nobody listens if it took too long.
        let made = work(&|| drop(alive.send(None)));
        let _ = tell.send(Some(made));
    });
    loop {
        match hear.recv_timeout(longest) {
            Ok(None) => {}
            Ok(made) => return made,
            Err(RecvTimeoutError::Timeout) => return None,
            // It broke down before it was done.
            Err(RecvTimeoutError::Disconnected) => match worker.join() {
                Err(broken) => std::panic::resume_unwind(broken),
                Ok(()) => return None,
            },
        }
    }
}

/// Waits for the lines that the client writes late. All jobs were told before the start: who had to
/// wait for others has waited.
fn settle(work: &Work, start: Instant) {
    let (mut last, mut since) = (work.size(), Instant::now());
    let mut looked = None;
    while start.elapsed() < PATIENCE {
        // The last word may come after a pause: what is quiet but not complete is waited for.
        if since.elapsed() >= QUIET && looked != Some(last) {
            looked = Some(last);
            let is_settled = || is_settled(&Session::at(work.transcript())?);
            if !work.is_turn() || is_settled().unwrap_or(true) {
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
    /// What was made of it is neither delivered nor in the spool.
    Undelivered,
}

struct Shipped {
    end: End,
    /// What was done.
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
            let parts = vec![unreadable(work.transcript(), &error)];
            return Shipped { end: End::Unreadable, parts, down };
        }
    };
    let shelf = &receiver.shelf;
    let mut outbox = Outbox::new(sender, shelf, WhenDown::Keep);
    outbox.down = down;
    let mut made = Made::default();
    let (mut unread, mut unread_older) = (Vec::new(), Vec::new());
    let ((), delivered) = side_by_side(&mut outbox, |give| {
        let mut shipper = Shipper::new(shelf, &receiver.telling, &receiver.ids, false, None);
        // Nobody said when these ended; that another goes on with them says it.
        let older = before(&session).into_iter().map(|older| {
            let is_left = is_left(&older, &session);
            (older, if is_left { Closing::ended() } else { Closing::default() })
        });
        for (one, closing) in older.chain([(session.clone(), work.closing.clone())]) {
            match shipper.session(&one, &closing, now, give, &|_| alive()) {
                Ok(more) => made.add(more),
                Err(ShipError::Closed) => return,
                // One that this session goes on with is nobody's job: it does not hold this one up.
                Err(ShipError::Read(error)) if one.path == session.path => {
                    unread.push(unreadable(&one.path, &error));
                }
                Err(ShipError::Read(error)) => unread_older.push(unreadable(&one.path, &error)),
            }
        }
        // Whoever closed has said why.
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
        // Set aside, it says why, and not how many were sent.
        parts = unread;
    }
    Shipped { end, parts, down: outbox.down }
}

fn unreadable(path: &std::path::Path, error: &io::Error) -> String {
    format!("cannot read `{}`: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_is_given_up() {
        let long = Duration::from_secs(60);
        assert_eq!(within(long, |_| 7), Some(7));
        let begin = Instant::now();
        let hung = within(Duration::from_millis(50), |_| sleep(Duration::from_secs(60)));
        assert_eq!(hung, None);
        assert!(begin.elapsed() < Duration::from_secs(10));
        // Slow is not hung.
        let slow = within(Duration::from_millis(400), |alive| {
            for _ in 0..20 {
                sleep(Duration::from_millis(40));
                alive();
            }
            8
        });
        assert_eq!(slow, Some(8));
    }
}
