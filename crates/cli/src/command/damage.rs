//! What is said of a session parts of which are no records.

use crate::text::count;

/// The same line in every command; nothing if all could be read.
pub(super) fn describe(damaged: u64) -> Option<String> {
    let pieces = count(damaged, "piece");
    (damaged > 0).then(|| format!("{pieces} could not be read (quipu cat --kind damaged)."))
}
