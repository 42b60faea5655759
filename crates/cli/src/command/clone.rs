//! `quipu clone`: the same conversation as another session.

use transcript::client::change;
use transcript::client::history::Rules;
use workshop::{Ids, Place, Plan, Read, Verb};

use crate::failure::Failure;
use crate::select;
use crate::surgery::{self, Target};
use crate::world::World;

/// Copy a session: the same conversation, with new ids
///
/// The session and its records get new ids wherever their ids occur, also in sub-agents' files. The
/// files that belong to the session are copied too. The original is not touched.
#[derive(clap::Args, Debug)]
pub(crate) struct CloneArgs {
    /// The session
    session: String,
    /// Keep all ids: the file is the same, byte for byte
    #[arg(long, requires = "output")]
    keep_ids: bool,
    #[command(flatten)]
    target: Target,
}

pub(crate) fn clone(world: &mut World, args: &CloneArgs) -> Result<(), Failure> {
    let session = select::session_to_change(world, &args.session)?;
    surgery::when_cold(world, &session, &args.target)?;
    let rules = Rules::newest();
    let read = Read::open(&session, rules)?;
    let change = change::clone(&read.subject);
    let mut policy = args.target.policy(Verb::Clone, Place::Beside);
    if args.keep_ids {
        policy.ids = Ids::Keep;
    }
    let job = surgery::job(world, &session, read, Plan::Change(change), policy);
    surgery::carry_out(world, job, &args.target, rules)?;
    Ok(())
}
