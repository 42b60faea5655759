//! The message about a session with parts that are not records.

use crate::text::count;

/// The same line in every command; `None` if everything could be read.
pub(crate) fn describe(damaged: u64) -> Option<String> {
    let pieces = count(damaged, "piece");
    (damaged > 0).then(|| format!("{pieces} could not be read (quipu cat --kind damaged)."))
}
