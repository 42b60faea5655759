//! Client versions that the user names.

use transcript::client::history::Rules;

use crate::failure::Failure;

/// The client version whose rules decide where the conversation continues.
#[derive(clap::Args, Debug)]
pub(crate) struct As {
    /// The client version whose rules apply
    #[arg(long = "as", value_name = "VERSION", default_value = "2.1.325")]
    pub(crate) version: String,
}

impl As {
    pub(crate) fn rules(&self) -> Result<Rules, Failure> {
        rules(&self.version, "a version like 2.1.325")
    }
}

/// The rules of a version; `hint` says what a version looks like.
pub(crate) fn rules(version: &str, hint: &str) -> Result<Rules, Failure> {
    let unknown = || Failure::usage(format!("`{version}` is not a client version"), Some(hint));
    Rules::of(version).ok_or_else(unknown)
}
