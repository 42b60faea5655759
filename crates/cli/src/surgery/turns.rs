//! Commands that change turns: how their plan is carried out, and why it is refused.

use transcript::client::change::{self, Rework, ReworkError};
use transcript::client::history::Rules;
use transcript::conversation::place::Session;
use workshop::{Place, Plan, Read, Verb};

use super::Target;
use crate::failure::Failure;
use crate::world::World;

/// Where to look for turns and branches.
const LISTS: &str = "`quipu turns` lists the turns, `quipu tree` the branches";

/// Changes the turns of a session; `plan` says how, once the session was read.
pub(crate) fn rework(
    world: &mut World,
    session: &Session,
    plan: impl Fn(&Read) -> Result<Rework, Failure>,
    (verb, place): (Verb, Place),
    target: &Target,
) -> Result<(), Failure> {
    let (read, change) = super::planned(world, session, target, |_| {
        let read = Read::open(session, Rules::newest())?;
        let change = change::rework(&read.subject, &plan(&read)?).map_err(refused)?;
        Ok((read, change))
    })?;
    let policy = target.policy(verb, place);
    let job = super::job(world, session, read, Plan::Change(change), policy);
    super::carry_out(world, job, target, Rules::newest())?;
    Ok(())
}

/// How many turns the live conversation has; none is an error.
pub(crate) fn count(read: &Read) -> Result<usize, Failure> {
    let conversation = read.subject.conversation();
    match conversation.turns_in(&conversation.live()).len() {
        0 => Err(Failure::not_found("there is no conversation in the session", LISTS)),
        count => Ok(count),
    }
}

/// Why turns are not changed that way.
pub(crate) fn refused(error: ReworkError) -> Failure {
    match error {
        ReworkError::Read(error) | ReworkError::Branch(change::ForkError::Read(error)) => {
            error.into()
        }
        ReworkError::Branch(_) | ReworkError::Live(_) => {
            Failure::not_found(error.to_string(), LISTS)
        }
        ReworkError::Nothing => {
            let hint = "keep at least one turn, or start a new session";
            Failure::usage(error.to_string(), Some(hint))
        }
        other => Failure::usage(other.to_string(), Some(LISTS)),
    }
}
