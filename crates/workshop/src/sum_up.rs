//! Sums up what came before a prompt, in the session's own file.

use transcript::client::change::{self, Compress, CompressError, KeepTurns};
use transcript::client::history::Rules;
use transcript::conversation::place::Session;

use crate::Workshop;
use crate::error::Error;
use crate::job::{Force, Job, Place, Plan, Policy, Read, Verb};
use crate::work::Notice;

/// Why nothing was summed up.
#[derive(Debug, thiserror::Error)]
pub enum SumUpError {
    /// There is nothing to sum up.
    #[error(transparent)]
    Nothing(#[from] CompressError),
    /// The session cannot be read or changed.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl Workshop {
    /// Sums up what came before a prompt, from the records. The caller uses the session itself, so
    /// its use by others is not a reason to refuse. Returns what was done.
    pub fn sum_up_before(
        &mut self,
        session: &Session,
        prompt: &str,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Vec<String>, SumUpError> {
        let rules = Rules::newest();
        let read = Read::open(session, rules)?;
        let what = Compress { keep: KeepTurns::From(prompt.to_owned()), ..Compress::default() };
        let change = change::compress(&read.subject, &what)?;
        let deeds = change.deeds.iter().map(|deed| deed.text.clone()).collect();
        let policy = Policy { force: Force::InUse, ..Policy::new(Verb::Compress, Place::InPlace) };
        let plan = Plan::Change(change);
        let mut job = Job { session, read, plan, policy, new_id: session.id.clone() };
        self.carry_out(&mut job, rules, notify)?;
        Ok(deeds)
    }
}
