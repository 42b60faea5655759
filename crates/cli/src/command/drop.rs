//! `quipu drop`: a session without some of its turns.

use transcript::client::change::{Rework, TurnAction};
use workshop::{Place, Read, Verb};

use crate::failure::Failure;
use crate::select;
use crate::surgery::{self, Target, turns};
use crate::turn_list::TurnList;
use crate::world::World;

/// Remove turns, or an abandoned branch, from a session
///
/// A turn goes as a whole: the prompt, the answers, the calls with their results. The turn after it
/// follows the turn before it. Compactions stay. Writes a new session beside the original, unless
/// `-o` or `--in-place` says otherwise. Before anything is written, the result is read again and
/// checked: one that resumes less well is not written.
#[derive(clap::Args, Debug)]
#[command(mut_arg("force", |arg| arg.help(surgery::FORCE_IN_PLACE)))]
pub(crate) struct DropArgs {
    /// The session
    session: String,
    /// The turns to remove, by their numbers in `quipu turns`: 3, 3-7, 3..7, 5- (to the end), -3
    /// (up to 3), or a list such as 1,3-5
    #[arg(value_name = "TURNS", allow_negative_numbers = true, required_unless_present = "branch")]
    turns: Option<TurnList>,
    /// An abandoned branch to remove: one of its records, by its id or the start of it (see `quipu
    /// tree`; can be repeated)
    #[arg(long, value_name = "UUID")]
    branch: Vec<String>,
    /// Change the session's own file; a backup is kept first, and `quipu undo` restores it
    #[arg(long, conflicts_with = "output")]
    in_place: bool,
    #[command(flatten)]
    target: Target,
}

pub(crate) fn drop(world: &mut World, args: &DropArgs) -> Result<(), Failure> {
    let session = select::session_to_change(world, &args.session)?;
    let plan = |read: &Read| {
        let count = turns::count(read)?;
        let chosen = args.turns.as_ref().map(|turns| turns.among(count)).transpose()?;
        let chosen = chosen.unwrap_or_else(|| vec![false; count]);
        let action = |goes| if goes { TurnAction::Drop } else { TurnAction::Keep };
        let turns = chosen.into_iter().map(action).collect();
        Ok(Rework { turns, branches: args.branch.clone() })
    };
    let place = if args.in_place { Place::InPlace } else { Place::Beside };
    turns::rework(world, &session, plan, (Verb::Drop, place), &args.target)
}
