//! The work that a hook starts: ships what is new in its session.
//!
//! Invariants: one process works for a receiver and at most one more waits; a job that comes while another is worked on is not missed: whoever waits has not looked yet.

use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use export::deliver::{Outbox, WhenDown, side_by_side};
use export::plan::Closing;
use export::send::Sender;
use export::ship::{Made, ShipError, Shipper, before, is_left, is_settled};
use transcript::place::Session;

use super::job::{self, Work};
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

pub(super) fn work(world: &mut World, args: &StopArgs) -> Result<(), Failure> {
    let receiver = Receiver::find(world, &args.receiver)?;
    let done = all(world, &receiver);
    if let Err(failure) = &done {
        log::write(world, &format!("work: {failure}"));
    }
    done
}

fn all(world: &mut World, receiver: &Receiver) -> Result<(), Failure> {
    let shelf = &receiver.shelf;
    let unwritable = |error| Failure::unwritable(&shelf.folder, error);
    let Some(waits) = shelf.queue().map_err(unwritable)? else { return Ok(()) };
    let _held = shelf.lock(true).map_err(unwritable)?;
    // From here on another may wait: it will see what comes after this look.
    drop(waits);
    let found = job::take(shelf).map_err(unwritable)?;
    if found.is_empty() {
        return Ok(());
    }
    if let Some(note) = take_over(world, receiver) {
        log::write(world, &note);
    }
    let mut sender = receiver.sender()?;
    sender.tries(TRIES);
    let start = Instant::now();
    for work in found {
        settle(&work, start);
        let (told, is_done, is_down) = ship(receiver, &sender, &work, world.clock());
        if is_done {
            work.done();
        }
        if is_down {
            // Whoever is away for one is away for all: the others only go to the spool.
            sender.tries(0);
        }
        log::write(world, &format!("{}: {told}", work.session));
    }
    Ok(())
}

/// Waits for the lines that the client writes late. All jobs were told before the start: who had to wait for others has waited.
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

/// What was done, whether that is all, and whether the receiver is away.
fn ship(
    receiver: &Receiver,
    sender: &Sender,
    work: &Work,
    now: SystemTime,
) -> (String, bool, bool) {
    let session = match Session::at(work.transcript()) {
        Ok(session) => session,
        Err(error) => {
            // A session that nobody wrote has nothing to ship.
            let is_none = error.kind() == io::ErrorKind::NotFound;
            let told = format!("`{}`: {error}", work.transcript().display());
            return (told, is_none, false);
        }
    };
    let shelf = &receiver.shelf;
    let mut outbox = Outbox::new(sender, shelf, WhenDown::Keep);
    if let Err(trouble) = outbox.drain(false) {
        return (trouble.to_string(), false, false);
    }
    let mut made = Made::default();
    let mut unread = Vec::new();
    let ((), delivered) = side_by_side(&mut outbox, |give| {
        let mut shipper = Shipper::new(shelf, &receiver.telling, &receiver.ids, false, None);
        // Nobody said when these ended; that another goes on with them says it.
        let older = before(&session).into_iter().map(|older| {
            let is_left = is_left(&older, &session);
            (older, if is_left { Closing::ended() } else { Closing::default() })
        });
        for (one, closing) in older.chain([(session.clone(), work.closing.clone())]) {
            match shipper.session(&one, &closing, now, give) {
                Ok(more) => made.add(more),
                Err(ShipError::Closed) => return,
                Err(ShipError::Read(error)) => unread.push(format!("{}: {error}", one.id)),
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
    parts.extend(tally.notes.iter().chain(&unread).cloned());
    parts.extend(delivered.as_ref().err().map(ToString::to_string));
    let is_done = delivered.is_ok() && unread.is_empty();
    if !is_done {
        parts.push("it is tried again with the next hook".to_owned());
    }
    (parts.join("; "), is_done, outbox.down.is_some())
}
