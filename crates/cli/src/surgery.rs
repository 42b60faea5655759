//! Commands that change a session: what their flags mean, and how the outcome is shown. The
//! `workshop` makes the change.

mod cold;
mod price;
mod redacted;
mod report;
pub(crate) mod turns;

use std::io::{self, BufReader, Write};
use std::mem;
use std::path::{Path, PathBuf};

use transcript::client::change::Proof;
use transcript::client::check::Verdict;
use transcript::client::history::Rules;
use transcript::conversation::place::Session;
use workshop::{Done, Force, Job, Mode, Notice, Outcome, Place, Plan, Policy, Read, Verb};

use crate::failure::Failure;
use crate::prices;
use crate::text::{count, size};
use crate::world::World;
pub(crate) use cold::{Waited, planned, when_cold};
pub(crate) use price::{PriceJson, PriceOfChange};
pub(crate) use redacted::{KindCount, Redacted, SpotCount, StandJson};
use report::ChangeReport;
pub(crate) use report::noun;

/// Where the result goes.
#[derive(clap::Args, Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "independent flags")]
pub(crate) struct Target {
    /// Write the result only to this file; `-` is the standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Show what would be done, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Overwrite the file given by `-o`; write into it if it is a pipe or a device
    #[arg(long)]
    pub(crate) force: bool,
    /// Print the proof as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Write nothing while the prompt cache of the session is warm: exit code 5, and the time from
    /// which the change costs nothing
    #[arg(long)]
    pub(crate) when_cold: bool,
    /// With `--when-cold`: wait until then, and plan anew before anything is written
    #[arg(long, requires = "when_cold")]
    pub(crate) wait: bool,
}

/// The help text of `--force` for commands that can change a session in place.
pub(crate) const FORCE_IN_PLACE: &str = "Overwrite the file given by `-o`, or write into it if it is a pipe \
    or a device; with `--in-place`, even if the session seems to be in use, has other names (hard \
    links), is write-protected or belongs to another user";

/// The help text of `--force` for commands that always change the session's own file.
pub(crate) const FORCE_ITS_FILE: &str = "Overwrite the file given by `-o`, or write into it if it is a \
    pipe or a device; without `-o`, even if the session seems to be in use, has other names (hard \
    links), is write-protected or belongs to another user";

/// `--in-place` for commands that always change the session's own file.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct InPlaceAnyway {
    /// Change the session's own file, which this command does anyway unless `-o` says otherwise
    #[arg(long, conflicts_with = "output")]
    in_place: bool,
}

impl Target {
    /// What the flags ask for; `otherwise` is the place without `-o`.
    pub(crate) fn policy(&self, verb: Verb, otherwise: Place) -> Policy {
        let place = match &self.output {
            Some(path) if path == Path::new("-") => Place::Returned,
            Some(path) => Place::File(path.clone()),
            None => otherwise,
        };
        Policy {
            mode: if self.dry_run { Mode::DryRun } else { Mode::Write },
            force: if self.force { Force::Always } else { Force::Never },
            ..Policy::new(verb, place)
        }
    }
}

/// A job for a session that was read.
pub(crate) fn job<'a>(
    world: &World,
    session: &'a Session,
    read: Read,
    plan: Plan,
    policy: Policy,
) -> Job<'a> {
    Job { session, read, plan, policy, new_id: world.new_id().into() }
}

/// Carries out a job, or shows what would be done. Returns the verdict on the result.
pub(crate) fn carry_out(
    world: &mut World,
    job: Job<'_>,
    target: &Target,
    rules: Rules,
) -> Result<Verdict, Failure> {
    carry_out_and(world, job, target, rules, |_, _, _| Ok(None))
}

/// Like [`carry_out`]; `then` does what is left to do before the outcome is shown, and returns what
/// to show with it.
pub(crate) fn carry_out_and(
    world: &mut World,
    mut job: Job<'_>,
    target: &Target,
    rules: Rules,
    then: impl FnOnce(&mut World, &Job<'_>, &mut Outcome) -> Result<Option<Redacted>, Failure>,
) -> Result<Verdict, Failure> {
    let mut notices = Vec::new();
    let outcome = world.workshop.carry_out(&mut job, rules, &mut |notice| notices.push(notice));
    tell(world, &notices)?;
    let mut outcome = outcome?;
    let verdict = outcome.proof.after.verdict;
    if matches!(outcome.done, Done::Unchanged) && !target.json {
        world.out.note("nothing to strip")?;
    } else {
        let redacted = then(world, &job, &mut outcome)?;
        let prices = prices::in_force(world, None)?;
        let mut report = ChangeReport::new(world, &job, target, &outcome, &prices);
        report.redacted = redacted;
        if let Some(cover) = job.plan.change().cover() {
            report.hide(cover);
        }
        show(world, &report, &outcome.done)?;
    }
    // The program ends here: freeing the memory of a long session piece by piece would take longer
    // than exiting.
    mem::forget(job);
    Ok(verdict)
}

/// Carries out two jobs as one change, or shows what would be done.
pub(crate) fn carry_out_both(
    world: &mut World,
    mut jobs: [(Job<'_>, Target); 2],
    rules: Rules,
) -> Result<(), Failure> {
    let mut notices = Vec::new();
    let both = jobs.each_mut().map(|(job, _)| job);
    let outcomes = world.workshop.carry_out_both(both, rules, &mut |notice| notices.push(notice));
    tell(world, &notices)?;
    for ((job, target), outcome) in jobs.iter().zip(outcomes?) {
        report(world, job, target, &outcome)?;
    }
    // As above.
    mem::forget(jobs);
    Ok(())
}

/// Prints the proof of a change that another part of the workshop made.
pub(crate) fn report(
    world: &mut World,
    job: &Job<'_>,
    target: &Target,
    outcome: &Outcome,
) -> Result<(), Failure> {
    let prices = prices::in_force(world, None)?;
    show(world, &ChangeReport::new(world, job, target, outcome, &prices), &outcome.done)
}

/// Prints a report; a result that goes to the standard output comes before it.
fn show(world: &mut World, report: &ChangeReport<'_>, done: &Done) -> Result<(), Failure> {
    let Done::Returned(file) = done else { return report.say(world) };
    io::copy(&mut BufReader::new(file), &mut world.out)?;
    world.out.flush()?;
    report.beside(world)
}

/// Prints what the workshop has to report.
pub(crate) fn tell(world: &mut World, notices: &[Notice]) -> Result<(), Failure> {
    for notice in notices {
        let text = match notice {
            Notice::Pruned(pruned) => format!(
                "{} ({}) can no longer be undone: `[undo]` in the configuration sets how long \
                 changes are kept",
                count(pruned.count, "old change"),
                size(pruned.bytes)
            ),
            Notice::KeptCopy => "the journal is on another file system, so it keeps a copy: lines \
                                 that another program writes to the old file from now on will not \
                                 be in it"
                .to_owned(),
        };
        world.out.note(&text)?;
    }
    Ok(())
}

/// Like [`carry_out_and`], for a session that stays as it is.
pub(crate) fn unchanged_and(
    world: &mut World,
    job: &Job<'_>,
    target: &Target,
    proof: Proof,
    then: impl FnOnce(&mut World, &Job<'_>, &mut Outcome) -> Result<Option<Redacted>, Failure>,
) -> Result<(), Failure> {
    let (copies, left) = (None, Vec::new());
    let mut outcome = Outcome { proof, done: Done::Unchanged, session: None, copies, left };
    let redacted = then(world, job, &mut outcome)?;
    let prices = prices::in_force(world, None)?;
    let mut report = ChangeReport::new(world, job, target, &outcome, &prices);
    report.redacted = redacted;
    if let Some(cover) = job.plan.change().cover() {
        report.hide(cover);
    }
    report.say(world)
}

/// Reports that there is nothing to do; with `--json`, prints the proof.
pub(crate) fn nothing(
    world: &mut World,
    job: &Job<'_>,
    target: &Target,
    proof: Proof,
    text: &str,
) -> Result<(), Failure> {
    if !target.json {
        return Ok(world.out.note(text)?);
    }
    let (copies, left) = (None, Vec::new());
    let outcome = Outcome { proof, done: Done::Unchanged, session: None, copies, left };
    let prices = prices::in_force(world, None)?;
    ChangeReport::new(world, job, target, &outcome, &prices).say(world)
}
