//! What would have been predicted for each recorded call, beside what was recorded: how good the
//! predictions are.
//!
//! Invariant: a prediction uses the calls before it, and what the call was going to send; nothing
//! after it.

use super::calls::{Addition, AllWeights, calls, tokens};
use super::next::{Lifetime, left_in_cache};
use super::{pieces, rounded};
use crate::client::history::{Rules, outline};
use crate::conversation::Conversation;
use crate::conversation::usage::Usage;

/// A call, and what was predicted for it.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// The model that answered.
    pub model: String,
    /// The line of the first record of the answer.
    pub line: u64,
    /// How many milliseconds after the call before it; `None` if a record has no time.
    pub gap: Option<i64>,
    /// How long the cache lived.
    pub lifetime: Lifetime,
    /// Another model answered the call before it.
    pub is_other_model: bool,
    /// Predicted: the beginning of the request is in the cache.
    pub is_cached: bool,
    /// Predicted: how many tokens are not read from the cache.
    pub new: u64,
    /// Predicted: how many tokens the request has.
    pub tokens: u64,
    /// What the call before it read.
    pub before: u64,
    /// What the API reported.
    pub recorded: Usage,
    /// The output of the call before it is recorded in full.
    pub is_final: bool,
}

impl Prediction {
    /// Whether the API read most of what the call before it sent from its cache.
    pub fn was_cached(&self) -> bool {
        self.recorded.cache_read * 2 > self.before
    }

    /// How many tokens were not read from the cache.
    pub fn was_new(&self) -> u64 {
        self.recorded.read() - self.recorded.cache_read
    }
}

/// The predictions for all calls but the first on the branch that would be resumed, since the last
/// compaction. Empty if the session does not resume.
pub fn predictions(conversation: &Conversation, rules: Rules) -> crate::Result<Vec<Prediction>> {
    let Ok(sent) = outline(conversation, rules, None)? else { return Ok(Vec::new()) };
    let table = &conversation.table;
    let pieces = pieces::read(conversation, &[], &sent, rules)?.list;
    let mut weights = AllWeights::default();
    let mut lifetime = Lifetime::FiveMinutes;
    let mut found = Vec::new();
    for pair in calls(table, &pieces).windows(2) {
        let step = Addition::new(&pieces, &pair[0], &pair[1]);
        let [before, after] = [step.before, step.after];
        let model = table.ids.text(after.model);
        lifetime = Lifetime::of(&before.usage).unwrap_or(lifetime);
        let times = step.time(table).zip(before.time);
        let is_other_model = before.model != after.model;
        let is_cached =
            !is_other_model && times.is_some_and(|(now, used)| !lifetime.is_over(used, now));
        let read = before.usage.read();
        let more = step.expected(weights.of(model));
        let kept = if is_cached { left_in_cache(read, &before.usage) } else { 0 };
        found.push(Prediction {
            model: model.to_owned(),
            line: table.row(after.row).line,
            gap: times.map(|(now, used)| now.0 - used.0),
            lifetime,
            is_other_model,
            is_cached,
            new: rounded(tokens(read) + more) - kept,
            tokens: rounded(tokens(read) + more),
            before: read,
            recorded: after.usage,
            is_final: before.is_final,
        });
        step.teach(weights.of(model));
    }
    Ok(found)
}
