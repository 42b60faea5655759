//! What it costs to go on in a long session that the API has forgotten, said before it is paid.

use agent::session::SessionPlace;
use transcript::client::context::{self, Reason};
use transcript::client::history::Rules;
use transcript::conversation::Conversation;

use crate::failure::Failure;
use crate::prices;
use crate::prospect::{self, Prospect};
use crate::world::World;

/// From how many tokens on it is said.
const TOKENS: u64 = 50_000;
/// Fewer bytes than this are fewer tokens, whatever they say.
const BYTES: usize = 100_000;

/// Prints the price of the next request, if a long session is resumed and what it sends is not
/// cached. What cannot be read is for the resume itself to report.
pub(super) fn warn(world: &mut World, place: &SessionPlace) -> Result<(), Failure> {
    let Some(old) = &place.old else { return Ok(()) };
    let blocks = place.resumed.messages.iter().flat_map(|message| &message.blocks);
    if blocks.map(String::len).sum::<usize>() < BYTES {
        return Ok(());
    }
    let rules = Rules::newest();
    let Ok(mut conversation) = Conversation::open(old) else { return Ok(()) };
    conversation.resume_as(rules);
    let Ok(Ok(counted)) = context::count(&conversation, rules) else { return Ok(()) };
    let version = Some(agent::dialect_version());
    let Ok(next) = counted.next(&conversation, version) else { return Ok(()) };
    let prices = prices::in_force(world, None)?;
    let prospect = Prospect::new(next, prospect::now(world), &prices);
    if prospect.next.tokens > TOKENS && prospect.reason != Reason::Continues {
        world.out.note(&prospect.line())?;
    }
    Ok(())
}
