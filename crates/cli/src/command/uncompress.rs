//! `quipu uncompress`: the history from before a compaction.

use std::ops::RangeInclusive;

use transcript::client::change::{self, Uncompress, UncompressError, Which};
use transcript::client::history::Rules;
use workshop::{Place, Plan, Read, Verb};

use crate::failure::Failure;
use crate::range::range;
use crate::select;
use crate::surgery::{self, Target};
use crate::text::tokens;
use crate::world::World;

/// Undo a compaction: what was said before it is sent again
///
/// Clients keep the records from before a compaction in the file, but do not send them any more.
/// Without `--to` and `--turns`, the last compaction is taken out, and everything is sent as if it
/// had not been; a compaction by `quipu compress` leaves no trace. With them, the summary stays,
/// and turns from before it follow it word for word.
#[derive(clap::Args, Debug)]
#[command(mut_arg("force", |arg| arg.help(surgery::FORCE_IN_PLACE)))]
pub(crate) struct UncompressArgs {
    /// The session
    session: String,
    /// Bring back the newest turns before the compaction, as far as the messages then have at most
    /// so many tokens (40000, 40k)
    #[arg(long, value_name = "TOKENS", value_parser = tokens, conflicts_with = "turns")]
    to: Option<u64>,
    /// Bring back these turns, by their numbers in `quipu turns` (3..7,9)
    #[arg(long, value_name = "TURNS", value_parser = range, value_delimiter = ',')]
    turns: Vec<RangeInclusive<u64>>,
    /// Take out all compactions, not only the last one
    #[arg(long, conflicts_with_all = ["to", "turns"])]
    all: bool,
    /// Change the session's own file; a backup is kept first, and `quipu undo` restores it
    #[arg(long, conflicts_with = "output")]
    in_place: bool,
    #[command(flatten)]
    target: Target,
}

pub(crate) fn uncompress(world: &mut World, args: &UncompressArgs) -> Result<(), Failure> {
    let session = select::session_to_change(world, &args.session)?;
    let rules = Rules::newest();
    let which = if args.all { Which::All } else { Which::Last };
    let what = Uncompress { which, to: args.to, turns: args.turns.clone() };
    let (read, change) = surgery::planned(world, &session, &args.target, |_| {
        let read = Read::open(&session, rules)?;
        let change = change::uncompress(&read.subject, &what).map_err(refused)?;
        Ok((read, change))
    })?;
    let place = if args.in_place { Place::InPlace } else { Place::Beside };
    let policy = args.target.policy(Verb::Uncompress, place);
    let job = surgery::job(world, &session, read, Plan::Change(change), policy);
    surgery::carry_out(world, job, &args.target, rules)?;
    Ok(())
}

fn refused(error: UncompressError) -> Failure {
    let hint = match &error {
        UncompressError::Never => "`quipu turns` shows where a conversation was compacted",
        UncompressError::NothingBefore => "another file of the session may have it: `quipu tree`",
        UncompressError::NoTurn(_) => "`quipu turns` lists the turns",
        UncompressError::Full { .. } => "ask for more tokens with `--to`",
        UncompressError::Read(_) => "",
    };
    match error {
        UncompressError::Read(error) => error.into(),
        error @ UncompressError::Full { .. } => Failure::usage(error.to_string(), Some(hint)),
        error => Failure::not_found(error.to_string(), hint),
    }
}
