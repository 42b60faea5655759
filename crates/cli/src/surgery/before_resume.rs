//! Repairs a session before it is resumed.

use std::path::Path;

use transcript::change;
use transcript::history::Rules;
use transcript::place::Session;

use super::{Job, Plan, Target};
use crate::failure::Failure;
use crate::world::World;

/// Repairs a session that is about to be resumed, in place or in a copy, if it then resumes better;
/// returns a message about what was done.
pub(crate) fn before_resume(
    world: &mut World,
    session: &Session,
    copy: Option<&Path>,
) -> Result<Option<String>, Failure> {
    let rules = Rules::newest();
    let read = super::read(session, rules)?;
    let unreadable = |error| Failure::unreadable(&session.path, error);
    let repaired =
        change::repair(&read.subject, rules, &mut tempfile::tempfile).map_err(unreadable)?;
    let mut deeds: Vec<(String, usize)> = Vec::new();
    for deed in &repaired.change.deeds {
        match deeds.iter_mut().find(|(text, _)| *text == deed.text) {
            Some((_, times)) => *times += 1,
            None => deeds.push((deed.text.clone(), 1)),
        }
    }
    let job = Job {
        verb: "repair",
        session,
        read,
        plan: Plan::Repaired(Box::new(repaired)),
        in_place: copy.is_none(),
        keep_ids: false,
        without_agents: false,
    };
    let proof = job.proof(rules)?;
    if proof.after.verdict >= proof.before.verdict {
        return Ok(None);
    }
    let output = copy.map(Path::to_owned);
    let target = Target { output, dry_run: false, force: true, json: false, is_silent: true };
    super::carry_out(world, job, &target, rules)?;
    let more = deeds.len().saturating_sub(3);
    let deeds = deeds.iter().take(3).map(|(deed, times)| match times {
        1 => deed.clone(),
        _ => format!("{deed} ({times} times)"),
    });
    let deeds = deeds.collect::<Vec<_>>().join("; ");
    let more = if more == 0 { String::new() } else { format!("; and {more} more") };
    let undo = if copy.is_none() { " (`quipu undo` reverts that)" } else { " (in a copy)" };
    Ok(Some(format!("the session was repaired first: {deeds}{more}{undo}")))
}
