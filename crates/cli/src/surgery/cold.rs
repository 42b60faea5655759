//! `--when-cold`: a change waits until the prompt cache of its session has expired.
//!
//! A session whose cache is warm costs little to go on with, and a change loses that. Invariants:
//! what cannot be done, or need not be, is said before anything is waited for; what is looked at is
//! the session as it is now, each time; after a wait the plan is made anew, so a session that was
//! continued in the meantime is waited for, and then changed as it is then.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use transcript::client::context::{NextRequest, count};
use transcript::client::history::Rules;
use transcript::conversation::Conversation;
use transcript::conversation::place::Session;
use transcript::format::time::Time;
use workshop::{DocumentFile, Force};

use super::Target;
use crate::failure::Failure;
use crate::prospect;
use crate::text::clock;
use crate::version;
use crate::world::World;

/// At most so long is waited at once: the clock may be set, and a machine may sleep.
const LONGEST_NAP: Duration = Duration::from_secs(30);

/// Whether a session may have changed since its plan was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    Yes,
    No,
}

/// Makes a plan for a session that is to be changed, and anew if that had to wait.
pub(crate) fn planned<P>(
    world: &mut World,
    session: &Session,
    target: &Target,
    mut plan: impl FnMut(&mut World) -> Result<P, Failure>,
) -> Result<P, Failure> {
    let made = plan(world)?;
    match when_cold(world, session, target)? {
        Waited::No => Ok(made),
        Waited::Yes => {
            drop(made);
            plan(world)
        }
    }
}

/// Waits until the cache of a session is cold, or fails, as the flags say. Without them, and if
/// nothing is to be written, does nothing.
pub(crate) fn when_cold(
    world: &mut World,
    session: &Session,
    target: &Target,
) -> Result<Waited, Failure> {
    if !target.when_cold || target.dry_run {
        return Ok(Waited::No);
    }
    if let Some(path) = target.output.as_ref().filter(|path| *path != Path::new("-")) {
        let force = if target.force { Force::Always } else { Force::Never };
        DocumentFile::at(path, &session.path, force)?;
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
    Ok(if announced.is_some() { Waited::Yes } else { Waited::No })
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
