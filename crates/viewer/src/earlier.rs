//! What only who starts the server knows of a session: what it was before it was changed in place,
//! what was made from it, and what its files have of secrets.

use std::fmt::Debug;
use std::path::{Path, PathBuf};

use transcript::Session;
use transcript::format::secret::Cover;
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

/// A session that was made from another one, which stayed as it was.
#[derive(Clone, Debug)]
pub struct Descent {
    /// What was done, in a word.
    pub what: String,
    /// When.
    pub time: Time,
    /// The id of the session that it was made from.
    pub origin: String,
    /// The id of the session that was made.
    pub made: String,
}

/// Knows what sessions were before, and what they come from.
pub trait Changes: Send + Sync + Debug {
    /// What a file was before each change of it that is kept, newest first.
    fn before(&self, session: &Path) -> Vec<Earlier>;

    /// From which session the one of that id was made, and which ones were made from it.
    fn descents(&self, session: &str) -> Vec<Descent>;
}

/// Looks through sessions for secrets.
pub trait Survey: Send + Sync + Debug {
    /// The secrets of a session and of what belongs to it, or why it cannot be read.
    fn cover(&self, session: &Session) -> Result<Cover, String>;
}

/// The name, in addresses, of a session as it was before a change.
pub(crate) fn key_before(key: &str, change: &str) -> String {
    format!("{key}~{change}")
}

/// The session and the change of such a name.
pub(crate) fn parted(key: &str) -> Option<(&str, &str)> {
    key.split_once('~')
}
