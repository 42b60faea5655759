//! `quipu repair`: repairs what `check` finds.

use transcript::client::change;
use transcript::client::check::Severity;
use transcript::client::history::NEWEST_NAME;
use workshop::{Place, Plan, Read, Verb};

use crate::failure::Failure;
use crate::select;
use crate::surgery::{self, Target, Waited};
use crate::version;
use crate::world::World;

/// Repair what `quipu check` finds
///
/// Writes a new session beside the original, unless `-o` or `--in-place` says otherwise. Recovers
/// records and fixes their parent links so that every client version loads them; removes or fixes
/// what the API would refuse in the request of the version given by `--for`. Lists every fix, and
/// everything it could not fix. The exit code is 0 if the result resumes fully, else that of
/// `check`.
#[derive(clap::Args, Debug)]
#[command(mut_arg("force", |arg| arg.help(surgery::FORCE_IN_PLACE)))]
pub(crate) struct RepairArgs {
    /// The session
    session: String,
    /// The client version that will resume the session, or `installed`
    #[arg(long = "for", value_name = "VERSION", default_value = NEWEST_NAME)]
    version: String,
    /// Change the session's own file; a backup is kept first, and `quipu undo` restores it
    #[arg(long, conflicts_with = "output")]
    in_place: bool,
    #[command(flatten)]
    target: Target,
}

pub(crate) fn repair(world: &mut World, args: &RepairArgs) -> Result<(), Failure> {
    let rules = version::asked(world, &args.version, version::USUAL)?.rules;
    let session = select::session_to_change(world, &args.session)?;
    let plan = || -> Result<_, Failure> {
        let read = Read::open(&session, rules)?;
        let repaired = change::repair(&read.subject, rules, &mut tempfile::tempfile)?;
        // A file that the user named gets the session as it is.
        let has_none = repaired.source.is_none() && repaired.change.is_nothing();
        Ok((read, repaired, has_none && args.target.output.is_none()))
    };
    let (mut read, mut repaired, mut is_nothing) = plan()?;
    if !is_nothing && surgery::when_cold(world, &session, &args.target)? == Waited::Yes {
        (read, repaired, is_nothing) = plan()?;
    }
    let place = if args.in_place { Place::InPlace } else { Place::Beside };
    let policy = args.target.policy(Verb::Repair, place);
    let job = surgery::job(world, &session, read, Plan::Repaired(Box::new(repaired)), policy);
    if is_nothing {
        let before = &job.read.subject;
        let findings = before.findings()?;
        let mut worst = findings.iter().filter(|one| one.severity >= Severity::Loss);
        let text = match worst.next() {
            None => "nothing to repair".to_owned(),
            Some(one) => format!("nothing can be repaired: {}: {}", one.code, one.text),
        };
        surgery::nothing(world, &job, &args.target, job.proof(rules)?, &text)?;
        return Failure::of_verdict(job.read.subject.verdict()?);
    }
    let after = surgery::carry_out(world, job, &args.target, rules)?;
    Failure::of_verdict(after)
}
