//! `quipu merge`: turns of another session, or of an abandoned branch, added to a session.

use transcript::client::change::{self, Change, ForkError, GraftSource, MergeError, Subject};
use transcript::client::history::Rules;
use transcript::conversation::place::{Session, agents};
use workshop::{Place, Plan, Read, Verb, carried_agents};

use crate::failure::Failure;
use crate::select;
use crate::surgery::{self, Target};
use crate::turn_list::TurnList;
use crate::world::World;

/// Add turns of another session, or of an abandoned branch, to the end of a session
///
/// Turns of another session are copied, with new ids, and with the sub-agents and stored results of
/// their calls. Turns of an abandoned branch of the session itself move. Compactions of the other
/// session are left out, unless `quipu split` made it: then the two become one again. Writes a new
/// session beside SESSION, unless `-o` or `--in-place` says otherwise; FROM is never changed.
#[derive(clap::Args, Debug)]
#[command(mut_arg("force", |arg| arg.help(surgery::FORCE_IN_PLACE)))]
pub(crate) struct MergeArgs {
    /// The session
    session: String,
    /// The session that the turns come from; with `--branch`, SESSION itself if it is left out
    #[arg(required_unless_present = "branch")]
    from: Option<String>,
    /// The turns to add, by their numbers in `quipu turns`: 3, 3-7, 3..7, 5- (to the end), -3 (up
    /// to 3), or a list such as 1,3-5; all if it is left out
    #[arg(value_name = "TURNS", allow_negative_numbers = true)]
    turns: Option<TurnList>,
    /// Take turns of the abandoned branch with this record, given by its id or the start of it (see
    /// `quipu tree`); they are counted from where it parts from the live conversation
    #[arg(long, value_name = "UUID")]
    branch: Option<String>,
    /// Change the session's own file; a backup is kept first, and `quipu undo` restores it
    #[arg(long, conflicts_with = "output")]
    in_place: bool,
    #[command(flatten)]
    target: Target,
}

pub(crate) fn merge(world: &mut World, args: &MergeArgs) -> Result<(), Failure> {
    let session = select::session_to_change(world, &args.session)?;
    let from = match &args.from {
        Some(from) => select::session(world, from)?,
        None => session.clone(),
    };
    let rules = Rules::newest();
    let (read, merged) = surgery::planned(world, &session, &args.target, |_| {
        let read = Read::open(&session, rules)?;
        let subject = Subject::open(&from.path, rules)?;
        let (session_from, branch) = (from.clone(), args.branch.clone());
        let source = GraftSource { session: session_from, subject, branch };
        let total = change::turn_count(&source).map_err(refused)?;
        let chosen = match &args.turns {
            Some(turns) => turns.among(total)?,
            None => vec![true; total],
        };
        let numbers: Vec<usize> =
            (1..).zip(chosen).filter(|(_, chosen)| *chosen).map(|(number, _)| number).collect();
        let merged = change::merge(&read.subject, &session, source, &numbers).map_err(refused)?;
        Ok((read, merged))
    })?;
    let place = if args.in_place { Place::InPlace } else { Place::Beside };
    let merged = with_agents(&session, merged)?;
    let policy = args.target.policy(Verb::Merge, place);
    let job = surgery::job(world, &session, read, Plan::Change(merged), policy);
    surgery::carry_out(world, job, &args.target, rules)?;
    Ok(())
}

/// Gives sub-agents that come along a new id where theirs is taken.
fn with_agents(session: &Session, mut merged: Change) -> Result<Change, Failure> {
    let carried = merged.graft().map(carried_agents).transpose()?.unwrap_or_default();
    let known = agents(session);
    for agent in carried {
        if !agent.is_inside || known.iter().any(|known| known.id == agent.id) {
            merged.rename_agent(&agent.id);
        }
    }
    Ok(merged)
}

fn refused(error: MergeError) -> Failure {
    let hint = "`quipu turns` lists the turns, `quipu tree` the branches";
    match error {
        MergeError::Read(error) | MergeError::Branch(ForkError::Read(error)) => error.into(),
        MergeError::Itself => {
            let hint = "name another session, or an abandoned branch with `--branch`";
            Failure::usage(error.to_string(), Some(hint))
        }
        other => Failure::not_found(other.to_string(), hint),
    }
}
