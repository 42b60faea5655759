//! Every change between the versions, in order: of the rules, and of what versions know of
//! attachments, models and tools. The table in `docs/history.md` is made from it.

use super::changes::CHANGES;
use super::{kinds, model, published, tools};

/// A change of what clients send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionChange {
    /// The first version with it.
    pub since: [u32; 3],
    /// What is different from then on, in a few words.
    pub what: String,
    /// A case that shows it, in the fixtures of `testkit`: the version before sends it otherwise.
    /// Empty if none does.
    pub case: &'static str,
}

impl VersionChange {
    pub(super) fn new(since: [u32; 3], what: impl Into<String>, case: &'static str) -> Self {
        VersionChange { since, what: what.into(), case }
    }
}

/// Every change after the oldest observed version, oldest first.
pub fn version_changes() -> Vec<VersionChange> {
    let rules = CHANGES.iter().map(|one| VersionChange::new(one.since, one.what, one.case));
    let data = kinds::changes().into_iter().chain(model::changes()).chain(tools::changes());
    let mut found: Vec<VersionChange> = rules.chain(data).collect();
    found.retain(|one| one.since > published::at([0; 3]));
    found.sort_by_key(|one| one.since);
    found
}
