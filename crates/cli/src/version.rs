//! Client versions that a user names.

use transcript::history::Rules;

use crate::failure::Failure;

/// Whose rules decide where the conversation goes on.
#[derive(clap::Args, Debug)]
pub(crate) struct As {
    /// The client version whose rules count
    #[arg(long = "as", value_name = "VERSION", default_value = "2.1.325")]
    pub(crate) version: String,
}

impl As {
    pub(crate) fn rules(&self) -> Result<Rules, Failure> {
        rules(&self.version, "a version like 2.1.325")
    }
}

/// The rules of a version; `hint` says what would be one.
pub(crate) fn rules(version: &str, hint: &str) -> Result<Rules, Failure> {
    let unknown = || Failure::usage(format!("`{version}` is not a client version"), Some(hint));
    Rules::of(version).ok_or_else(unknown)
}
