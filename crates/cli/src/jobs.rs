//! The jobs that hooks leave to the process that ships to a receiver: who does them, and what is
//! written to the log, in words.
//!
//! `export::jobs` has the jobs and does them.

use std::sync::Arc;

use export::jobs::{Aside, Log, Next, Notice, SetAside, Surroundings, WorkError, do_all, do_left};
use export::receiver::Receiver;

use crate::failure::Failure;
use crate::receiver::{self, ReceiverArgs, TRUST, of_taken_over};
use crate::text::printable;
use crate::world::World;

/// Does the jobs that wait for the receiver that the arguments name.
pub(crate) fn work(world: &World, args: &ReceiverArgs) -> Result<(), Failure> {
    let receiver = Arc::new(receiver::find(world, args)?);
    let report = &mut |notice| write(world, &of_notice(&notice));
    logged(world, do_all(&receiver, SetAside::Leave, &surroundings(world), report))
}

/// Does the jobs that hooks left to the process that ships to the receiver; returns which jobs are
/// set aside afterwards, and why.
pub(crate) fn left(
    world: &World,
    receiver: &Arc<Receiver>,
    aside: SetAside,
) -> Result<Vec<String>, Failure> {
    let report = &mut |notice| write(world, &of_notice(&notice));
    let aside = logged(world, do_left(receiver, aside, &surroundings(world), report))?;
    Ok(aside.iter().map(of_aside).collect())
}

/// The log of hooks.
pub(crate) fn log(world: &World) -> Result<Log, Failure> {
    Ok(Log::at(&world.ship_folder()?, printable))
}

/// Writes a line to the log. If this fails, the line is missing from the log.
pub(crate) fn write(world: &World, text: &str) {
    if let Ok(log) = log(world) {
        log.write(world.clock(), text);
    }
}

fn logged<T>(world: &World, outcome: Result<T, WorkError>) -> Result<T, Failure> {
    let outcome = outcome.map_err(Failure::from);
    outcome.inspect_err(|failure| write(world, &format!("work: {failure}")))
}

fn surroundings(world: &World) -> Surroundings<'_> {
    Surroundings {
        clock: Box::new(move || world.clock()),
        home: receiver::their_home(world),
        who: format!("process {} (quipu hook)", std::process::id()),
        trust: TRUST,
    }
}

/// What happened, as a line of the log.
fn of_notice(notice: &Notice) -> String {
    match notice {
        Notice::NotTaken(job) => match &job.session {
            Some(session) => format!("{session}: set aside: {}", job.why),
            None => format!("a job that cannot be parsed was set aside: {}", job.why),
        },
        Notice::TakenOver(taken_over) => of_taken_over(taken_over),
        Notice::Waited(text) => text.clone(),
        Notice::Tried { session, what, next } => match next {
            Next::Done => format!("{session}: {what}"),
            Next::TryAgain => format!("{session}: {what}; the next hook tries again"),
            Next::Counted { count, most } => {
                format!("{session}: {what}; the next hook tries again ({count} of {most})")
            }
            Next::SetAside => format!("{session}: {what}; set aside: see `quipu hook status`"),
        },
    }
}

/// A job that was set aside, on one line.
pub(crate) fn of_aside(aside: &Aside) -> String {
    match &aside.transcript {
        // If the transcript is the reason, the reason names it already.
        Some(path) if !aside.why.contains(path.to_string_lossy().as_ref()) => {
            format!("`{}`: {}", path.display(), aside.why)
        }
        Some(_) => aside.why.clone(),
        None => format!("`{}`: {}", aside.file.display(), aside.why),
    }
}

impl From<WorkError> for Failure {
    fn from(error: WorkError) -> Self {
        let message = error.to_string();
        match error {
            WorkError::Unwritable { path, source } => Failure::unwritable(&path, source),
            WorkError::Receiver(error) => Failure::from(error),
            WorkError::Undelivered(_) | WorkError::Hangs { .. } => {
                Failure::undelivered(message, None)
            }
        }
    }
}

#[cfg(test)]
#[path = "jobs_tests.rs"]
mod tests;
