//! `quipu tree`: the live branch of a session, and its abandoned branches.

mod draw;
mod json;

use transcript::conversation::agents::WithAgents;
use transcript::conversation::lineage::relatives;
use transcript::conversation::place::sessions_in;

use crate::failure::Failure;
use crate::page::Page;
use crate::select;
use crate::version::As;
use crate::world::World;

/// Show the structure of a session: branches, compactions, sub-agents, forks
///
/// The live branch runs down the left side, from its root to its leaf, one line per turn. An
/// abandoned branch is beside the place where it branches off, with the id for `quipu show
/// --branch`. Below: sub-agents without a known call, and sessions of the same project that share
/// records with this one.
#[derive(clap::Args, Debug)]
pub(crate) struct TreeArgs {
    /// The session
    #[arg(default_value = "last")]
    session: String,
    #[command(flatten)]
    r#as: As,
    /// Print one JSON object per line: chains, compactions, sub-agents, relatives
    #[arg(long)]
    json: bool,
}

pub(crate) fn tree(world: &mut World, args: &TreeArgs) -> Result<(), Failure> {
    let rules = args.r#as.asked(world)?.rules;
    let session = select::session(world, &args.session)?;
    let mut family = WithAgents::open(&session)?;
    family.main.resume_as(rules);
    world.agents_unreadable(&family)?;
    let found = family.main.turns();
    let others = session.path.parent().map(sessions_in).unwrap_or_default();
    let mut kin = relatives(&session, &family.main, &others);
    kin.sort_by_key(|one| std::cmp::Reverse(one.shared));
    if args.json {
        return json::write(world, &session, &family, &found, &kin);
    }
    world.page()?;
    draw::draw(&mut Page::new(&mut world.out), &session, &family, &found, &kin)
}
