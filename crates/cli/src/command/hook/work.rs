//! The work that a hook starts: ships what is new in its session.
//!
//! Invariants: one process works for a receiver and at most one more waits; a job that comes while another is worked on is not missed: whoever waits has not looked yet.

use std::fs;
use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use export::deliver::{Outbox, WhenDown, side_by_side};
use export::plan::Closing;
use export::send::Sender;
use export::ship::{Made, ShipError, Shipper, before, is_settled};
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
    leave();
    let receiver = Receiver::find(world, &args.receiver)?;
    let done = all(world, &receiver);
    if let Err(failure) = &done {
        log::write(world, &format!("work: {failure}"));
    }
    done
}

/// Away from whoever started it: what ends them does not end it.
fn leave() {
    #[cfg(unix)]
    // It may lead a group already; then it is away.
    let _ = rustix::process::setsid();
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
    take_over(world, receiver)?;
    let mut sender = receiver.sender()?;
    sender.tries(TRIES);
    for work in found {
        settle(&work);
        let told = match ship(receiver, &sender, &work) {
            Ok(told) => {
                work.done();
                told
            }
            Err(why) => why,
        };
        log::write(world, &format!("{}: {told}", work.session));
    }
    Ok(())
}

/// Waits for the lines that the client writes late.
fn settle(work: &Work) {
    let size = || fs::metadata(work.transcript()).map_or(0, |found| found.len());
    let start = Instant::now();
    let (mut last, mut since) = (size(), Instant::now());
    let mut looked = None;
    while work.is_fresh() && start.elapsed() < PATIENCE {
        // The last word may come after a pause: what is quiet but not complete is waited for.
        if since.elapsed() >= QUIET && looked != Some(last) {
            looked = Some(last);
            let session = Session::at(work.transcript());
            if session.and_then(|session| is_settled(&session)).unwrap_or(true) {
                return;
            }
        }
        sleep(QUIET / 3);
        if size() != last {
            (last, since) = (size(), Instant::now());
        }
    }
}

/// What was done; an error if it has to be done again.
fn ship(receiver: &Receiver, sender: &Sender, work: &Work) -> Result<String, String> {
    let session = match Session::at(work.transcript()) {
        Ok(session) => session,
        // A session that nobody wrote has nothing to ship.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(format!("`{}` is not there", work.transcript().display()));
        }
        Err(error) => return Err(error.to_string()),
    };
    let shelf = &receiver.shelf;
    let mut outbox = Outbox::new(sender, shelf, WhenDown::Keep);
    outbox.drain(false).map_err(|trouble| trouble.to_string())?;
    let mut made = Made::default();
    let mut notes = Vec::new();
    let ((), delivered) = side_by_side(&mut outbox, |give| {
        let mut shipper = Shipper::new(shelf, &receiver.telling, &receiver.ids, false, None);
        // Nobody said when these ended; that another goes on with them says it.
        let ended = Closing { is_ended: true, ..Closing::default() };
        let older = before(&session).into_iter().map(|older| (older, ended.clone()));
        for (one, closing) in older.chain([(session.clone(), work.closing.clone())]) {
            match shipper.session(&one, &closing, give) {
                Ok(more) => made.add(more),
                Err(ShipError::Closed) => return,
                Err(ShipError::Read(error)) => notes.push(format!("{}: {error}", one.id)),
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
    parts.extend(tally.notes.iter().cloned().chain(notes));
    let told = parts.join("; ");
    match delivered {
        Ok(()) => Ok(told),
        Err(trouble @ export::deliver::Trouble::Receiver(_)) => Ok(format!("{told}; {trouble}")),
        Err(trouble) => Err(format!("{told}; {trouble}; it is tried again with the next hook")),
    }
}
