//! `--when-cold`: a change waits until the prompt cache of its session has expired.
//!
//! A session whose cache is warm costs little to go on with, and a change loses that. Invariants:
//! what is looked at is the session as it is now, each time; nothing is planned before that, so a
//! session that was continued in the meantime is waited for, and then changed as it is then.

use std::thread;
use std::time::{Duration, Instant};

use transcript::client::context::{NextRequest, count};
use transcript::client::history::Rules;
use transcript::conversation::Conversation;
use transcript::conversation::place::Session;
use transcript::format::time::Time;

use super::Target;
use crate::failure::Failure;
use crate::prospect;
use crate::text::clock;
use crate::version;
use crate::world::World;

/// At most so long is waited at once: the clock may be set, and a machine may sleep.
const LONGEST_NAP: Duration = Duration::from_secs(30);

/// Waits until the cache of a session is cold, or fails, as the flags say. Without them, and if
/// nothing is to be written, does nothing.
pub(crate) fn when_cold(
    world: &mut World,
    session: &Session,
    target: &Target,
) -> Result<(), Failure> {
    if !target.when_cold || target.dry_run {
        return Ok(());
    }
    let (begin, start) = (Instant::now(), world.now);
    let mut announced = None;
    while let Some(until) = warm_until(world, session)? {
        if !target.wait {
            let message = format!(
                "nothing was written: the prompt cache of this session is warm until {}, and the \
                 change costs nothing extra after that",
                clock(until)
            );
            let hint = "wait until then, or add `--wait`; `quipu price` shows what is cached";
            return Err(Failure::kept(message, hint));
        }
        if announced != Some(until) {
            world.out.note(&format!("waiting until {}: the prompt cache is warm", clock(until)))?;
            announced = Some(until);
        }
        let left = until.0.saturating_sub(prospect::now(world).0);
        let left = Duration::from_millis(u64::try_from(left).unwrap_or(0).saturating_add(1));
        thread::sleep(left.min(LONGEST_NAP));
        world.now = start + begin.elapsed();
    }
    Ok(())
}

/// Until when the cache is warm; `None` if it is cold, or nothing is in it.
fn warm_until(world: &World, session: &Session) -> Result<Option<Time>, Failure> {
    let rules = Rules::newest();
    let conversation = Conversation::open(&session.path)?;
    let Ok(context) = count(&conversation, rules)? else { return Ok(None) };
    let version = version::installed(world.programs());
    let next = context.next(&conversation, version.as_deref())?;
    let now = prospect::now(world);
    let is_warm = |next: &NextRequest| next.prefix > 0 && !next.is_expired(now);
    Ok(Some(next).filter(is_warm).and_then(|next| next.expires()))
}
