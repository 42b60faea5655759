//! `quipu fork`: one path through a session, up to a point, as another session.

use transcript::client::change::{self, At, ForkError};
use transcript::client::history::Rules;
use workshop::{Place, Plan, Read, Verb};

use crate::failure::Failure;
use crate::images;
use crate::select;
use crate::surgery::{self, Target};
use crate::world::World;

/// Copy a session up to a point: a new session that continues from there
///
/// Without `--at` and `--branch`, copies the live conversation, without other branches. The new
/// session has new ids; sub-agents whose calls are in it are copied too. The original is not
/// touched.
#[derive(clap::Args, Debug)]
pub(crate) struct ForkArgs {
    /// The session
    session: String,
    /// The last turn to keep, by its number in `quipu turns`; or a record, by its id or the start
    /// of it: the rest of its answer and the results of its calls are kept too
    #[arg(long, value_name = "TURN|UUID", conflicts_with = "branch")]
    at: Option<String>,
    /// The branch to copy: one of its records, by its id or the start of it (see `quipu tree`)
    #[arg(long, value_name = "LEAF")]
    branch: Option<String>,
    #[command(flatten)]
    target: Target,
}

pub(crate) fn fork(world: &mut World, args: &ForkArgs) -> Result<(), Failure> {
    let session = select::session_to_change(world, &args.session)?;
    let rules = Rules::newest();
    let at = match (&args.at, &args.branch) {
        (Some(at), _) => match at.parse() {
            // A short number is a turn; ids are longer.
            Ok(turn) if at.len() < 7 => At::Turn(turn),
            _ => At::Record(at.clone()),
        },
        (None, Some(leaf)) => At::Branch(leaf.clone()),
        (None, None) => At::End,
    };
    let (read, change) = surgery::planned(world, &session, &args.target, |_| {
        let read = Read::open(&session, rules)?;
        let change = change::fork(&read.subject, &at).map_err(|error| match error {
            ForkError::Read(error) => error.into(),
            other => Failure::not_found(
                other.to_string(),
                "`quipu turns` lists the turns, `quipu tree` the branches",
            ),
        })?;
        Ok((read, change))
    })?;
    let policy = args.target.policy(Verb::Fork, Place::Beside);
    let job = surgery::job(world, &session, read, Plan::Change(change), policy);
    surgery::carry_out_and(world, job, &args.target, rules, |world, _, outcome| {
        images::inherit(world, &session, outcome)?;
        Ok(None)
    })?;
    Ok(())
}
