//! Sessions as they were before they were changed in place. Who starts the server knows where that
//! is kept.

use std::fmt::Debug;
use std::path::{Path, PathBuf};

use transcript::format::time::Time;

/// A session as it was before a change.
#[derive(Clone, Debug)]
pub struct Earlier {
    /// The name of the change.
    pub name: String,
    /// What was done, in a word.
    pub what: String,
    /// When.
    pub time: Time,
    /// Where the old file is kept.
    pub path: PathBuf,
}

/// Knows what sessions were before.
pub trait Changes: Send + Sync + Debug {
    /// What a file was before each change of it that is kept, newest first.
    fn before(&self, session: &Path) -> Vec<Earlier>;
}

/// The name, in addresses, of a session as it was before a change.
pub(crate) fn key_before(key: &str, change: &str) -> String {
    format!("{key}~{change}")
}

/// The session and the change of such a name.
pub(crate) fn parted(key: &str) -> Option<(&str, &str)> {
    key.split_once('~')
}
