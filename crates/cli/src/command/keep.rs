//! `quipu keep`: a session with only some of its turns.

use transcript::client::change::{Rework, TurnAction};
use workshop::{Place, Read, Verb};

use crate::failure::Failure;
use crate::select;
use crate::surgery::{self, Target, turns};
use crate::turn_list::TurnList;
use crate::world::World;

/// Keep only some turns of a session, and remove the others
///
/// The opposite of `quipu drop`: everything that is not named goes, except compactions and
/// abandoned branches. Writes a new session beside the original, unless `-o` or `--in-place` says
/// otherwise.
#[derive(clap::Args, Debug)]
#[command(mut_arg("force", |arg| arg.help(surgery::FORCE_IN_PLACE)))]
pub(crate) struct KeepArgs {
    /// The session
    session: String,
    /// The turns to keep, by their numbers in `quipu turns`: 3, 3-7, 3..7, 5- (to the end), -3 (up
    /// to 3), or a list such as 1,3-5
    #[arg(value_name = "TURNS", allow_negative_numbers = true)]
    turns: TurnList,
    /// Change the session's own file; a backup is kept first, and `quipu undo` restores it
    #[arg(long, conflicts_with = "output")]
    in_place: bool,
    #[command(flatten)]
    target: Target,
}

pub(crate) fn keep(world: &mut World, args: &KeepArgs) -> Result<(), Failure> {
    let session = select::session_to_change(world, &args.session)?;
    let plan = |read: &Read| {
        let chosen = args.turns.among(turns::count(read)?)?;
        let action = |stays| if stays { TurnAction::Keep } else { TurnAction::Drop };
        let turns = chosen.into_iter().map(action).collect();
        Ok(Rework { turns, branches: Vec::new() })
    };
    let place = if args.in_place { Place::InPlace } else { Place::Beside };
    turns::rework(world, &session, plan, (Verb::Keep, place), &args.target)
}
