//! Repairs a session before it is resumed.

use std::path::Path;

use transcript::client::change;
use transcript::client::history::Rules;
use transcript::conversation::place::Session;

use crate::Workshop;
use crate::error::Error;
use crate::job::{Force, Job, Place, Plan, Policy, Read, Verb};
use crate::work::Notice;

/// What was repaired before a session was resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairedFirst {
    /// What was done, and how often.
    pub deeds: Vec<(String, usize)>,
}

impl Workshop {
    /// Repairs a session that is about to be resumed, in place or in a copy, if it then resumes
    /// better. The caller uses the session itself, so its use by others is not a reason to refuse.
    pub fn repair_before_resume(
        &mut self,
        session: &Session,
        copy: Option<&Path>,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Option<RepairedFirst>, Error> {
        let rules = Rules::newest();
        let read = Read::open(session, rules)?;
        let repaired = change::repair(&read.subject, rules, &mut tempfile::tempfile)?;
        let mut deeds: Vec<(String, usize)> = Vec::new();
        for deed in &repaired.change.deeds {
            match deeds.iter_mut().find(|(text, _)| *text == deed.text) {
                Some((_, times)) => *times += 1,
                None => deeds.push((deed.text.clone(), 1)),
            }
        }
        let place = copy.map_or(Place::InPlace, |copy| Place::File(copy.to_owned()));
        let policy = Policy { force: Force::InUse, ..Policy::new(Verb::Repair, place) };
        let plan = Plan::Repaired(Box::new(repaired));
        let mut job = Job { session, read, plan, policy, new_id: session.id.clone() };
        let proof = job.proof(rules)?;
        if proof.after.verdict >= proof.before.verdict {
            return Ok(None);
        }
        self.carry_out(&mut job, rules, notify)?;
        Ok(Some(RepairedFirst { deeds }))
    }
}
